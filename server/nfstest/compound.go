package nfstest

import (
	"bytes"
	"fmt"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// Compound is a COMPOUND request being built (RFC 8881 section 16.2).
type Compound struct {
	e      xdr.Encoder
	count  int    // where the number of operations stands
	n      uint32 // operations so far
	body   int    // where the arguments of the last operation begin
	slotOf *Session
	slot   uint32
	seq    uint32
}

// NewCompound begins a COMPOUND of a minor version.
func NewCompound(minor uint32) *Compound { return NewTagged(minor, "") }

// NewTagged begins a COMPOUND with a tag, of any bytes.
func NewTagged(minor uint32, tag string) *Compound {
	c := new(Compound)
	c.e.String(tag)
	c.e.Uint32(minor)
	c.count = c.e.Reserve32()
	return c
}

// Op appends an operation, known or not, with arguments encoded one after the
// other: int and uint32 as 32 bits, int64 and uint64 as 64, bool, string and
// []byte as opaque data, the types of package nfsv4, Attrs, and functions.
func (c *Compound) Op(op nfsv4.Op, args ...any) *Compound {
	c.n++
	c.e.Patch32(c.count, c.n)
	c.e.Uint32(uint32(op))
	c.body = c.e.Len()
	put(&c.e, args...)
	return c
}

// Raw appends bytes to the arguments of the last operation.
func (c *Compound) Raw(b []byte) *Compound {
	c.e.Append(b)
	return c
}

// Cut removes the last n bytes of the request, but none that stand before the
// arguments of the last operation.
func (c *Compound) Cut(n int) *Compound {
	c.e.Truncate(max(c.e.Len()-n, c.body))
	return c
}

// SetCount lies about the number of operations. The next Op tells the truth
// again.
func (c *Compound) SetCount(n uint32) *Compound {
	c.e.Patch32(c.count, n)
	return c
}

// Ops is the number of operations appended.
func (c *Compound) Ops() int { return int(c.n) }

// ArgsLen is the length of the last operation's arguments, in bytes.
func (c *Compound) ArgsLen() int { return c.e.Len() - c.body }

// Bytes returns a copy of the arguments of procedure COMPOUND.
func (c *Compound) Bytes() []byte { return bytes.Clone(c.e.Bytes()) }

func put(e *xdr.Encoder, args ...any) {
	for _, a := range args {
		switch a := a.(type) {
		case int:
			e.Uint32(uint32(a))
		case uint32:
			e.Uint32(a)
		case uint64:
			e.Uint64(a)
		case int64:
			e.Int64(a)
		case bool:
			e.Bool(a)
		case string:
			e.String(a)
		case []byte:
			e.Opaque(a)
		case nfsv4.SessionID:
			e.Fixed(a[:])
		case nfsv4.Verifier:
			e.Fixed(a[:])
		case nfsv4.ClientID:
			e.Uint64(uint64(a))
		case nfsv4.StateID:
			a.Encode(e)
		case nfsv4.Bitmap:
			a.Encode(e)
		case Attrs:
			a.encode(e)
		case func(*xdr.Encoder):
			a(e)
		default:
			panic(fmt.Sprintf("nfstest: cannot encode %T", a))
		}
	}
}

// Attrs is a fattr4: which attributes, and their values in the order of their
// numbers, encoded as in [Compound.Op].
type Attrs struct {
	Mask   nfsv4.Bitmap
	Values []any
}

func (a Attrs) encode(e *xdr.Encoder) {
	a.Mask.Encode(e)
	var v xdr.Encoder
	put(&v, a.Values...)
	e.Opaque(v.Bytes())
}

// SetAttrs makes a fattr4 of one attribute after the other. Attributes are
// given in the order of their numbers.
func SetAttrs(attrs ...Attrs) (all Attrs) {
	for _, a := range attrs {
		all.Mask = all.Mask.Or(a.Mask)
		all.Values = append(all.Values, a.Values...)
	}
	return all
}

func attr(n uint32, values ...any) Attrs { return Attrs{nfsv4.BitmapOf(n), values} }

// Size, Mode, Owner and Group set one attribute each.
func Size(n uint64) Attrs    { return attr(nfsv4.AttrSize, n) }
func Mode(mode uint32) Attrs { return attr(nfsv4.AttrMode, mode) }
func Owner(s string) Attrs   { return attr(nfsv4.AttrOwner, s) }
func Group(s string) Attrs   { return attr(nfsv4.AttrOwnerGroup, s) }

// AccessTime and ModifyTime set a time to what the client says.
func AccessTime(t export.Timespec) Attrs {
	return attr(nfsv4.AttrTimeAccessSet, nfsv4.SetToClientTime, t.Sec, t.Nsec)
}

// ModifyTime is like AccessTime.
func ModifyTime(t export.Timespec) Attrs {
	return attr(nfsv4.AttrTimeModifySet, nfsv4.SetToClientTime, t.Sec, t.Nsec)
}
