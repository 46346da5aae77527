package nfs4

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/xdr"
)

func attrOps() []operation {
	return []operation{
		op(nfsv4.OpAccess, 0, 2, needsFH, codec[accessArgs, none]{
			decode: (*accessArgs).decode, run: opAccess}),
		op(nfsv4.OpGetAttr, 0, 2, needsFH, codec[getAttrArgs, none]{
			decode: (*getAttrArgs).decode, run: opGetAttr}),
		op(nfsv4.OpSetAttr, 0, 2, needsFH|modifies|writesFS|encodesFailure, codec[setAttrArgs, setAttrRes]{
			decode: (*setAttrArgs).decode, limit: limitSetAttr, run: opSetAttr, encode: (*setAttrRes).encode}),
		op(nfsv4.OpVerify, 0, 2, needsFH, codec[fattr, none]{decode: (*fattr).decode, run: opVerify}),
		op(nfsv4.OpNVerify, 0, 2, needsFH, codec[fattr, none]{decode: (*fattr).decode, run: opNVerify}),
	}
}

type accessArgs struct{ want uint32 }

func (a *accessArgs) decode(d *xdr.Decoder) { a.want = d.Uint32("access") }

// Rights that make sense for a directory and for anything else.
const (
	accessOfDir   = nfsv4.AccessRead | nfsv4.AccessLookup | nfsv4.AccessModify | nfsv4.AccessExtend | nfsv4.AccessDelete
	accessOfOther = nfsv4.AccessRead | nfsv4.AccessModify | nfsv4.AccessExtend | nfsv4.AccessExecute
	accessXattr   = nfsv4.AccessXARead | nfsv4.AccessXAWrite | nfsv4.AccessXAList
	accessWrites  = nfsv4.AccessModify | nfsv4.AccessExtend | nfsv4.AccessDelete | nfsv4.AccessXAWrite
)

// opAccess answers which rights it can tell of, and which of them the caller
// has (RFC 8881 section 18.1.3). Rights it does not know it cannot tell of.
func opAccess(c *compound, a *accessArgs, _ *none) nfsv4.Status {
	h := &c.cur
	got, attr, err := h.vol().Access(c.ctx, h.rights.Cred, h.node.Object, export.Access(a.want&nfsv4.AccessKnown42))
	if err != nil {
		return c.statusOf(err)
	}
	supported := uint32(accessOfOther)
	if attr.Type == export.TypeDirectory {
		supported = accessOfDir
	}
	if c.minor >= 2 && h.vol().Features().Xattrs {
		supported |= accessXattr
	}
	supported &= a.want
	access := uint32(got) & supported
	if h.rights.ReadOnly {
		access &^= accessWrites
	}
	c.e.Uint32(supported)
	c.e.Uint32(access)
	return nfsv4.OK
}

type getAttrArgs struct{ want nfsv4.Bitmap }

func (a *getAttrArgs) decode(d *xdr.Decoder) { a.want, _ = nfsv4.DecodeBitmap(d) }

func opGetAttr(c *compound, a *getAttrArgs, _ *none) nfsv4.Status {
	if st := checkReadable(c.minor, a.want); st != nfsv4.OK {
		return st
	}
	if err := c.view.load(c, &c.cur, a.want); err != nil {
		return c.statusOf(err)
	}
	c.view.encode(c.e, a.want)
	return nfsv4.OK
}

// checkReadable answers INVAL for attributes that can only be set (RFC 8881
// section 18.7.3). Those not supported are left out of the answer.
func checkReadable(minor uint32, want nfsv4.Bitmap) nfsv4.Status {
	sets := &attrsOfMinor[minor]
	if !want.And(sets.settable).AndNot(sets.readable).Empty() {
		return nfsv4.ErrInval
	}
	return nfsv4.OK
}

// setAttrArgs is SETATTR4args (RFC 8881 section 18.30.1).
type setAttrArgs struct {
	stateID nfsv4.StateID
	attrs   fattr
}

func (a *setAttrArgs) decode(d *xdr.Decoder) {
	a.stateID = nfsv4.DecodeStateID(d)
	a.attrs.decode(d)
}

type setAttrRes struct{ attrset nfsv4.Bitmap }

func limitSetAttr(*compound, *setAttrArgs) int { return sizeofBitmap }

func opSetAttr(c *compound, a *setAttrArgs, r *setAttrRes) nfsv4.Status {
	s := &c.change
	if st := s.parse(c, &a.attrs); st != nfsv4.OK {
		return st
	}
	if a.attrs.mask.Has(nfsv4.AttrModeUmask) {
		return nfsv4.ErrInval // for objects being made only (RFC 8275 section 4.2)
	}
	// The stateid matters for the size alone: an open for writing stands in
	// for write permission, and deny modes of others count.
	var via export.File
	if s.Set&export.SetSize != 0 {
		id, st := c.resolveStateID(a.stateID, false)
		if st != nfsv4.OK {
			return st
		}
		use, st := c.client().Use(c.ctx, id, c.cur.key(), state.AccessWrite)
		if st != nfsv4.OK {
			return st
		}
		defer use.Release()
		via = use.File
	}
	if st := c.setAttr(s, via); st != nfsv4.OK {
		return st
	}
	r.attrset = a.attrs.mask
	return nfsv4.OK
}

// setAttr applies s to the current filehandle's object. A Volume applies all of
// it or nothing, so there is no partial result to tell of.
func (c *compound) setAttr(s *attrChange, via export.File) nfsv4.Status {
	h := &c.cur
	if s.modeMask != 0 {
		a, err := h.vol().GetAttr(c.ctx, h.rights.Cred, h.node.Object, export.MaskAuth)
		if err != nil {
			return c.statusOf(err)
		}
		s.Mode, s.Set = a.Mode&^s.modeMask|s.modeBits, s.Set|export.SetMode
	}
	if s.Set == 0 {
		_, err := h.vol().GetAttr(c.ctx, h.rights.Cred, h.node.Object, 0)
		return c.statusOf(err)
	}
	_, err := h.vol().SetAttr(c.ctx, h.rights.Cred, h.node.Object, via, &s.SetAttr)
	if st := c.statusOf(err); st == nfsv4.ErrNotSupp {
		return nfsv4.ErrAttrNotSupp
	}
	return c.statusOf(err)
}

func (r *setAttrRes) encode(_ nfsv4.Status, e *xdr.Encoder) { r.attrset.Encode(e) }

func opVerify(c *compound, a *fattr, _ *none) nfsv4.Status {
	if st := c.compare(a); st != nfsv4.ErrSame {
		return st
	}
	return nfsv4.OK
}

func opNVerify(c *compound, a *fattr, _ *none) nfsv4.Status {
	if st := c.compare(a); st != nfsv4.ErrNotSame {
		return st
	}
	return nfsv4.OK
}

// compare answers SAME, NOT_SAME, or why it cannot tell.
func (c *compound) compare(a *fattr) nfsv4.Status {
	if st := checkVerifiable(c.minor, a); st != nfsv4.OK {
		return st
	}
	if err := c.view.load(c, &c.cur, a.mask); err != nil {
		return c.statusOf(err)
	}
	return c.view.matches(a)
}
