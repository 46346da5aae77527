package denc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// The kinds of decoding fault. An [Error] wraps one of them.
var (
	ErrShort    = errors.New("input too short")
	ErrTooLong  = errors.New("length above its limit")
	ErrValue    = errors.New("value not allowed")
	ErrVersion  = errors.New("needs a newer decoder")
	ErrTrailing = errors.New("bytes left over")
)

// maxDepth bounds how deeply versioned structs nest; Ceph's own stay below 8.
const maxDepth = 16

// Error says which field could not be decoded, and where.
type Error struct {
	Field  string // the field, after the names of the structs around it: "osdmap.pools.size"
	Offset int    // bytes from the start of the decoder's input
	Kind   error  // ErrShort, ErrTooLong, ErrValue, ErrVersion or ErrTrailing
}

// Error names the field and its offset.
func (e *Error) Error() string {
	return fmt.Sprintf("denc: %s at offset %d: %v", e.Field, e.Offset, e.Kind)
}

// Unwrap returns the kind, for errors.Is.
func (e *Error) Unwrap() error { return e.Kind }

// Decoder reads Ceph's encoding from a byte slice, which it aliases. The zero
// Decoder reads from an empty input.
type Decoder struct {
	buf []byte
	off int
	end int // reads stop here: the end of the innermost struct, or of buf

	depth int
	names [maxDepth]string // of the structs now open, for errors

	err *Error
}

// NewDecoder returns a decoder of b, which it aliases.
func NewDecoder(b []byte) *Decoder { return &Decoder{buf: b, end: len(b)} }

// Reset makes d read b from its start, with no fault.
func (d *Decoder) Reset(b []byte) { *d = Decoder{buf: b, end: len(b)} }

// Err returns the first fault as an *[Error], or nil.
func (d *Decoder) Err() error {
	if d.err == nil {
		return nil
	}
	return d.err
}

// OK reports whether no fault has been met.
func (d *Decoder) OK() bool { return d.err == nil }

// Offset is the number of bytes read so far, from the start of the input.
func (d *Decoder) Offset() int { return d.off }

// Remaining is the number of bytes left in the innermost open struct, or in
// the input; zero after a fault.
func (d *Decoder) Remaining() int {
	if d.err != nil {
		return 0
	}
	return d.end - d.off
}

// Fail records a fault of the given kind at the present offset, unless one is
// recorded already.
func (d *Decoder) Fail(field string, kind error) {
	if d.err != nil {
		return
	}
	if d.depth > 0 {
		field = strings.Join(d.names[:min(d.depth, maxDepth)], ".") + "." + field
	}
	d.err = &Error{Field: field, Offset: d.off, Kind: kind}
}

// Finish records [ErrTrailing] if bytes are left, and returns [Decoder.Err].
func (d *Decoder) Finish() error {
	if d.err == nil && d.off != d.end {
		d.Fail("end", ErrTrailing)
	}
	return d.Err()
}

// take returns the next n bytes, or nil and a fault. The slice cannot grow
// into what follows it.
func (d *Decoder) take(field string, n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > d.end-d.off {
		d.Fail(field, ErrShort)
		return nil
	}
	b := d.buf[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// Skip passes over n bytes.
func (d *Decoder) Skip(field string, n int) { d.take(field, n) }

// Raw reads n bytes, aliasing the input.
func (d *Decoder) Raw(field string, n int) []byte { return d.take(field, n) }

// Rest reads what is left of the innermost struct, aliasing the input.
func (d *Decoder) Rest() []byte { return d.take("rest", d.Remaining()) }

// Uint8 reads one byte.
func (d *Decoder) Uint8(field string) uint8 {
	if b := d.take(field, 1); b != nil {
		return b[0]
	}
	return 0
}

// Int8 reads one signed byte.
func (d *Decoder) Int8(field string) int8 { return int8(d.Uint8(field)) }

// Uint16 reads a 16-bit number.
func (d *Decoder) Uint16(field string) uint16 {
	if b := d.take(field, 2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// Uint32 reads a 32-bit number.
func (d *Decoder) Uint32(field string) uint32 {
	if b := d.take(field, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Int32 reads a signed 32-bit number.
func (d *Decoder) Int32(field string) int32 { return int32(d.Uint32(field)) }

// Uint64 reads a 64-bit number.
func (d *Decoder) Uint64(field string) uint64 {
	if b := d.take(field, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Int64 reads a signed 64-bit number.
func (d *Decoder) Int64(field string) int64 { return int64(d.Uint64(field)) }

// Float64 reads an IEEE 754 double.
func (d *Decoder) Float64(field string) float64 { return math.Float64frombits(d.Uint64(field)) }

// Float32 reads an IEEE 754 single.
func (d *Decoder) Float32(field string) float32 { return math.Float32frombits(d.Uint32(field)) }

// Bool reads a byte; Ceph takes everything but 0 as true.
func (d *Decoder) Bool(field string) bool { return d.Uint8(field) != 0 }

// Bytes reads a 32-bit length and that many bytes, aliasing the input: Ceph's
// bufferlist and string.
func (d *Decoder) Bytes(field string) []byte {
	n := d.Uint32(field)
	if d.err != nil {
		return nil
	}
	if int64(n) > int64(d.end-d.off) {
		d.off -= 4
		d.Fail(field, ErrShort)
		return nil
	}
	return d.take(field, int(n))
}

// String reads a 32-bit length and that many bytes into a string of its own.
func (d *Decoder) String(field string) string { return string(d.Bytes(field)) }

// Count reads the 32-bit number of elements of a list, set or map and checks
// that the bytes left can hold so many of at least least bytes each (least is
// taken as 1 if it is smaller), so that the result is safe to allocate for.
func (d *Decoder) Count(field string, least int) int {
	n := d.Uint32(field)
	if d.err != nil {
		return 0
	}
	if int64(n)*int64(max(least, 1)) > int64(d.end-d.off) {
		d.off -= 4
		d.Fail(field, ErrTooLong)
		return 0
	}
	return int(n)
}

// Struct is an open versioned struct; see [Decoder.Struct].
type Struct struct {
	Version uint8 // of the encoding, struct_v
	Compat  uint8 // the oldest version that may read it

	end    int // of this struct
	outer  int // end of what is around it
	opened bool
	open   bool // has no length of its own: End passes over nothing
}

// Struct opens a versioned struct (DECODE_START): version, oldest compatible
// version, length. One that asks for more than known is refused with
// [ErrVersion]. Reads then stop at its end. [Decoder.End] must follow.
func (d *Decoder) Struct(name string, known uint8) Struct {
	s := Struct{Version: d.Uint8(name), Compat: d.Uint8(name)}
	if d.err == nil && s.Compat > known {
		d.off -= 2
		d.Fail(fmt.Sprintf("%s(version %d, compat %d, known %d)", name, s.Version, s.Compat, known), ErrVersion)
	}
	d.enter(name, &s)
	return s
}

// LegacyStruct opens a struct whose length came only with version lenSince and
// whose oldest compatible version came with compatSince
// (DECODE_START_LEGACY_COMPAT_LEN).
func (d *Decoder) LegacyStruct(name string, known, compatSince, lenSince uint8) Struct {
	s := Struct{Version: d.Uint8(name)}
	if s.Version >= compatSince {
		s.Compat = d.Uint8(name)
		if d.err == nil && s.Compat > known {
			d.off -= 2
			d.Fail(fmt.Sprintf("%s(version %d, compat %d, known %d)", name, s.Version, s.Compat, known), ErrVersion)
		}
	}
	if s.Version >= lenSince {
		d.enter(name, &s)
		return s
	}
	d.push(name, &s, d.end)
	s.open = true
	return s
}

// Sized opens a part that is only a 32-bit length and its content: a
// bufferlist decoded in place. [Decoder.End] must follow.
func (d *Decoder) Sized(name string) Struct {
	var s Struct
	d.enter(name, &s)
	return s
}

// enter reads a length and narrows d to it.
func (d *Decoder) enter(name string, s *Struct) {
	n := d.Uint32(name)
	if d.err == nil && int64(n) > int64(d.end-d.off) {
		d.off -= 4
		d.Fail(name, ErrShort)
	}
	if d.err == nil {
		d.push(name, s, d.off+int(n))
	}
}

func (d *Decoder) push(name string, s *Struct, end int) {
	if d.err != nil {
		return
	}
	if d.depth == maxDepth {
		d.Fail(name, ErrTooLong)
		return
	}
	s.end, s.outer, s.opened = end, d.end, true
	d.end = end
	d.names[d.depth] = name
	d.depth++
}

// End closes s, the struct opened last, and passes over what its reader did
// not know.
func (d *Decoder) End(s Struct) {
	if d.err != nil || !s.opened {
		return
	}
	if !s.open {
		d.off = s.end
	}
	d.end = s.outer
	d.depth--
}
