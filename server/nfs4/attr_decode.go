package nfs4

import (
	"math/bits"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// fattr is a fattr4 as received: which attributes, and their values not yet
// looked into, because what they may be depends on the operation.
type fattr struct {
	mask   nfsv4.Bitmap
	beyond bool   // attributes above those we know were named
	values []byte // aliases the request
}

func (f *fattr) decode(d *xdr.Decoder) {
	f.mask, f.beyond = nfsv4.DecodeBitmap(d)
	f.values = d.Opaque("attrlist4", d.Remaining())
}

// attrChange is a set of attributes to be given to an object.
type attrChange struct {
	export.SetAttr
	owner, group       []byte // as sent, alias the request
	modeMask, modeBits uint32 // mode_set_masked
	umask              uint32
	bad                nfsv4.Status // the first value not allowed
}

// parse turns a fattr4 into a change. ATTRNOTSUPP for an attribute that is not
// supported, INVAL for one that cannot be set, BADXDR for values that do not
// fit their attributes, BADOWNER for an owner nobody knows.
func (s *attrChange) parse(c *compound, f *fattr) nfsv4.Status {
	*s = attrChange{}
	if st := checkSettable(c.minor, f); st != nfsv4.OK {
		return st
	}
	var d xdr.Decoder
	d.Reset(f.values)
	for i, w := range f.mask {
		for ; w != 0; w &= w - 1 {
			attributes[i*32+bits.TrailingZeros32(w)].set(s, &d)
		}
	}
	if d.Finish() != nil {
		return nfsv4.ErrBadXDR
	}
	if s.bad != nfsv4.OK {
		return s.bad
	}
	if s.owner != nil {
		uid, err := c.table.Identity().ParseOwner(c.ctx, string(s.owner))
		if err != nil {
			return c.statusOf(err)
		}
		s.Set, s.UID = s.Set|export.SetUID, uid
	}
	if s.group != nil {
		gid, err := c.table.Identity().ParseGroup(c.ctx, string(s.group))
		if err != nil {
			return c.statusOf(err)
		}
		s.Set, s.GID = s.Set|export.SetGID, gid
	}
	return nfsv4.OK
}

// checkSettable checks which attributes are named, not their values.
func checkSettable(minor uint32, f *fattr) nfsv4.Status {
	sets := &attrsOfMinor[minor]
	if f.beyond || !f.mask.AndNot(sets.supported).Empty() {
		return nfsv4.ErrAttrNotSupp
	}
	if !f.mask.AndNot(sets.settable).Empty() {
		return nfsv4.ErrInval
	}
	// Two ways to say the same thing in one call contradict each other
	// (RFC 8881 section 6.2.5, RFC 8275 section 4.2).
	modes := 0
	for _, n := range [...]uint32{nfsv4.AttrMode, nfsv4.AttrModeSetMasked, nfsv4.AttrModeUmask} {
		if f.mask.Has(n) {
			modes++
		}
	}
	if modes > 1 {
		return nfsv4.ErrInval
	}
	return nfsv4.OK
}

func (s *attrChange) reject(st nfsv4.Status) {
	if s.bad == nfsv4.OK {
		s.bad = st
	}
}

func setSize(s *attrChange, d *xdr.Decoder) {
	s.Size = d.Uint64("size")
	s.Set |= export.SetSize
}

func setMode(s *attrChange, d *xdr.Decoder) {
	s.Mode = d.Uint32("mode")
	s.Set |= export.SetMode
	if s.Mode&^0o7777 != 0 {
		s.reject(nfsv4.ErrInval)
	}
}

func setModeMasked(s *attrChange, d *xdr.Decoder) {
	s.modeBits, s.modeMask = d.Uint32("mode_set_masked.bits"), d.Uint32("mode_set_masked.mask")
	if s.modeMask == 0 || s.modeMask&^0o7777 != 0 || s.modeBits&^s.modeMask != 0 {
		s.reject(nfsv4.ErrInval)
	}
}

// setModeUmask is for creating only: the mode, and the umask that applies
// unless the directory has a default ACL (RFC 8275 section 4.3). Without ACLs
// the umask always applies.
func setModeUmask(s *attrChange, d *xdr.Decoder) {
	s.Mode, s.umask = d.Uint32("mode_umask.mode"), d.Uint32("mode_umask.umask")
	s.Set |= export.SetMode
	if s.Mode&^0o7777 != 0 || s.umask&^0o777 != 0 {
		s.reject(nfsv4.ErrInval)
	}
	s.Mode &^= s.umask
}

func setOwner(s *attrChange, d *xdr.Decoder) { s.owner = d.Opaque("owner", nfsv4.OpaqueLimit) }
func setOwnerGroup(s *attrChange, d *xdr.Decoder) {
	s.group = d.Opaque("owner_group", nfsv4.OpaqueLimit)
}

func setTimeAccess(s *attrChange, d *xdr.Decoder) {
	t, client := decodeSetTime(d)
	if !client {
		s.Set |= export.SetAtimeNow
		return
	}
	s.Set, s.Atime = s.Set|export.SetAtime, t
	s.checkTime(t)
}

func setTimeModify(s *attrChange, d *xdr.Decoder) {
	t, client := decodeSetTime(d)
	if !client {
		s.Set |= export.SetMtimeNow
		return
	}
	s.Set, s.Mtime = s.Set|export.SetMtime, t
	s.checkTime(t)
}

func (s *attrChange) checkTime(t export.Timespec) {
	if t.Nsec > 999_999_999 {
		s.reject(nfsv4.ErrInval)
	}
}

func decodeTime(d *xdr.Decoder) (t export.Timespec) {
	t.Sec = d.Int64("nfstime4.seconds")
	t.Nsec = d.Uint32("nfstime4.nseconds")
	return t
}

// decodeSetTime reads a settime4; client is false for the server's time.
func decodeSetTime(d *xdr.Decoder) (t export.Timespec, client bool) {
	switch d.Uint32("time_how4") {
	case nfsv4.SetToServerTime:
		return t, false
	case nfsv4.SetToClientTime:
		return decodeTime(d), true
	}
	d.Fail("time_how4", xdr.ErrValue)
	return t, false
}

// newMode settles the mode of an object that is being made: bits set under a
// mask have none to start from.
func (s *attrChange) newMode() {
	if s.modeMask != 0 {
		s.Mode, s.Set = s.modeBits, s.Set|export.SetMode
	}
}
