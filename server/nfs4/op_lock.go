package nfs4

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/xdr"
)

func lockOps() []operation {
	return []operation{
		op(nfsv4.OpLock, 0, 2, needsFH|modifies|encodesFailure, codec[lockArgs, lockRes]{
			decode: (*lockArgs).decode, limit: limitLock[lockArgs], run: opLock, encode: (*lockRes).encode}),
		op(nfsv4.OpLockT, 0, 2, needsFH|encodesFailure, codec[lockTArgs, lockRes]{
			decode: (*lockTArgs).decode, run: opLockT, encode: (*lockRes).encodeDenied}),
		op(nfsv4.OpLockU, 0, 2, needsFH|modifies, codec[lockUArgs, stateIDRes]{
			decode: (*lockUArgs).decode, limit: limitStateID[lockUArgs], run: opLockU, encode: (*stateIDRes).encode}),
	}
}

// decodeLockType reads nfs_lock_type4. The types that say that the client is
// going to wait are taken as the others: it asks again by itself.
func decodeLockType(d *xdr.Decoder) (write bool) {
	t := d.Uint32("locktype")
	if t < nfsv4.LockRead || t > nfsv4.LockWriteBlock {
		d.Fail("locktype", xdr.ErrValue)
	}
	return t == nfsv4.LockWrite || t == nfsv4.LockWriteBlock
}

// decodeLockOwner reads lock_owner4; its client id is that of the session.
func decodeLockOwner(d *xdr.Decoder) (owner []byte) {
	d.Uint64("clientid")
	return d.Opaque("owner", nfsv4.OpaqueLimit)
}

// lockArgs is LOCK4args (RFC 8881 section 18.10.1). The sequence numbers of
// owners are of minor version 0.
type lockArgs struct {
	r        state.LockRange
	reclaim  bool
	newOwner bool
	id       nfsv4.StateID
	owner    []byte
}

func (a *lockArgs) decode(d *xdr.Decoder) {
	a.r.Write = decodeLockType(d)
	a.reclaim = d.Bool("reclaim")
	a.r.Offset = d.Uint64("offset")
	a.r.Length = d.Uint64("length")
	if a.newOwner = d.Bool("new_lock_owner"); a.newOwner {
		d.Uint32("open_seqid")
		a.id = nfsv4.DecodeStateID(d)
		d.Uint32("lock_seqid")
		a.owner = decodeLockOwner(d)
		return
	}
	a.id = nfsv4.DecodeStateID(d)
	d.Uint32("lock_seqid")
}

// lockRes is LOCK4res and LOCKT4res.
type lockRes struct {
	id     nfsv4.StateID
	denied *state.LockDenied
}

// sizeofDenied is the largest LOCK4denied.
const sizeofDenied = 8 + 8 + 4 + 8 + 4 + nfsv4.OpaqueLimit

func limitLock[A any](*compound, *A) int { return sizeofDenied }

func (r *lockRes) encode(st nfsv4.Status, e *xdr.Encoder) {
	if st == nfsv4.OK {
		r.id.Encode(e)
		return
	}
	r.encodeDenied(st, e)
}

func (r *lockRes) encodeDenied(st nfsv4.Status, e *xdr.Encoder) {
	if st != nfsv4.ErrDenied {
		return
	}
	if r.denied == nil {
		// In the way, and gone before it could be named.
		r.denied = &state.LockDenied{Range: state.LockRange{Length: nfsv4.LockToEndLength, Write: true}}
	}
	e.Uint64(r.denied.Range.Offset)
	e.Uint64(r.denied.Range.Length)
	if r.denied.Range.Write {
		e.Uint32(nfsv4.LockWrite)
	} else {
		e.Uint32(nfsv4.LockRead)
	}
	e.Uint64(uint64(r.denied.ClientID))
	e.Opaque(r.denied.Owner)
}

// checkRange checks offset and length: INVAL for no bytes and for an end
// beyond the largest number (RFC 8881 section 18.10.3).
func checkRange(r state.LockRange) nfsv4.Status {
	if r.Length == 0 || r.Length != nfsv4.LockToEndLength && r.Length-1 > ^uint64(0)-r.Offset {
		return nfsv4.ErrInval
	}
	return nfsv4.OK
}

func opLock(c *compound, a *lockArgs, r *lockRes) nfsv4.Status {
	if st := checkRange(a.r); st != nfsv4.OK {
		return st
	}
	id, st := c.resolveStateID(a.id, false)
	if st != nfsv4.OK {
		return st
	}
	r.id, r.denied, st = c.client().Lock(c.ctx, &state.LockArgs{
		Key: c.cur.key(), Range: a.r, Reclaim: a.reclaim, NewOwner: a.newOwner, StateID: id, Owner: a.owner,
	})
	switch st {
	case nfsv4.OK:
		c.setStateID(r.id)
	case nfsv4.ErrBadStateID:
		// No stateid is one of a directory's: say what is really wrong.
		h := &c.cur
		if a, err := h.vol().GetAttr(c.ctx, h.rights.Cred, h.node.Object, 0); err == nil && a.Type == export.TypeDirectory {
			return nfsv4.ErrIsDir
		}
	}
	return st
}

// lockTArgs is LOCKT4args (RFC 8881 section 18.11.1).
type lockTArgs struct {
	r     state.LockRange
	owner []byte
}

func (a *lockTArgs) decode(d *xdr.Decoder) {
	a.r.Write = decodeLockType(d)
	a.r.Offset = d.Uint64("offset")
	a.r.Length = d.Uint64("length")
	a.owner = decodeLockOwner(d)
}

func opLockT(c *compound, a *lockTArgs, r *lockRes) nfsv4.Status {
	if st := checkRange(a.r); st != nfsv4.OK {
		return st
	}
	f, release, err := c.srv.opts.OpenFiles.Get(c.ctx, c.cur.vol(), c.cur.node.Object, export.OpenRead)
	if err != nil {
		return c.noFile(err)
	}
	defer release()
	var st nfsv4.Status
	r.denied, st = c.client().LockT(c.ctx, &state.LockTArgs{Range: a.r, Owner: a.owner, File: f})
	return st
}

// lockUArgs is LOCKU4args (RFC 8881 section 18.12.1).
type lockUArgs struct {
	id nfsv4.StateID
	r  state.LockRange
}

func (a *lockUArgs) decode(d *xdr.Decoder) {
	decodeLockType(d)
	d.Uint32("seqid")
	a.id = nfsv4.DecodeStateID(d)
	a.r.Offset = d.Uint64("offset")
	a.r.Length = d.Uint64("length")
}

func opLockU(c *compound, a *lockUArgs, r *stateIDRes) nfsv4.Status {
	if st := checkRange(a.r); st != nfsv4.OK {
		return st
	}
	id, st := c.resolveStateID(a.id, false)
	if st != nfsv4.OK {
		return st
	}
	r.id, st = c.client().LockU(c.ctx, id, c.cur.key(), a.r)
	if st == nfsv4.OK {
		c.setStateID(r.id)
	}
	return st
}
