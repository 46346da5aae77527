package nfs4

import (
	"bytes"
	"math/bits"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// checkVerifiable checks which attributes VERIFY and NVERIFY name: ATTRNOTSUPP
// for one that is not supported, INVAL for one that cannot be read and for
// rdattr_error, which no object has (RFC 8881 sections 18.15.3, 18.31.3).
func checkVerifiable(minor uint32, f *fattr) nfsv4.Status {
	sets := &attrsOfMinor[minor]
	if f.beyond || !f.mask.AndNot(sets.supported).Empty() {
		return nfsv4.ErrAttrNotSupp
	}
	if !f.mask.AndNot(sets.readable).Empty() || f.mask.Has(nfsv4.AttrRdAttrError) {
		return nfsv4.ErrInval
	}
	return nfsv4.OK
}

// matches compares the attributes in f with those of v: SAME, NOT_SAME, or
// BADXDR if the values are not of their attributes' types.
func (v *attrView) matches(f *fattr) nfsv4.Status {
	var d xdr.Decoder
	d.Reset(f.values)
	same := true
	e := &v.c.verify
	for i, w := range f.mask {
		for ; w != 0; w &= w - 1 {
			n := uint32(i*32 + bits.TrailingZeros32(w))
			if !v.equal(n, &d, f.values, e) {
				same = false
			}
		}
	}
	switch {
	case d.Finish() != nil:
		return nfsv4.ErrBadXDR
	case same:
		return nfsv4.ErrSame
	}
	return nfsv4.ErrNotSame
}

// equal reads one value of attribute n and reports whether it is v's.
func (v *attrView) equal(n uint32, d *xdr.Decoder, values []byte, e *xdr.Encoder) bool {
	a := &attributes[n]
	if a.equal != nil {
		return a.equal(v, d)
	}
	from := d.Offset()
	a.kind.skip(d)
	if !d.OK() {
		return false
	}
	e.Reset()
	a.get(v, e)
	return bytes.Equal(e.Bytes(), values[from:d.Offset()])
}

// Owners are compared as ids: one owner can be written in several ways.

func equalOwner(v *attrView, d *xdr.Decoder) bool {
	b := d.Opaque("owner", nfsv4.OpaqueLimit)
	if !d.OK() {
		return false
	}
	uid, err := v.c.table.Identity().ParseOwner(v.c.ctx, string(b))
	return err == nil && uid == v.attr.UID
}

func equalOwnerGroup(v *attrView, d *xdr.Decoder) bool {
	b := d.Opaque("owner_group", nfsv4.OpaqueLimit)
	if !d.OK() {
		return false
	}
	gid, err := v.c.table.Identity().ParseGroup(v.c.ctx, string(b))
	return err == nil && gid == v.attr.GID
}
