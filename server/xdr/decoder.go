package xdr

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The kinds of decoding fault. An [Error] wraps one of them.
var (
	ErrShort    = errors.New("input too short")
	ErrTooLong  = errors.New("length above its limit")
	ErrValue    = errors.New("value not allowed")
	ErrTrailing = errors.New("bytes left over")
)

// Error says which field could not be decoded, and where.
type Error struct {
	Field  string // name given by the caller, "" if none
	Offset int    // bytes from the start of the decoder's input
	Kind   error  // ErrShort, ErrTooLong, ErrValue or ErrTrailing
}

func (e *Error) Error() string {
	return fmt.Sprintf("xdr: %s at offset %d: %v", e.Field, e.Offset, e.Kind)
}

// Unwrap returns the kind, for errors.Is.
func (e *Error) Unwrap() error { return e.Kind }

// Decoder reads XDR values from a byte slice. The zero Decoder reads from an
// empty input; [Decoder.Reset] gives it one.
type Decoder struct {
	buf   []byte
	off   int
	kind  error
	field string
	at    int
}

// NewDecoder returns a decoder of b, which it aliases.
func NewDecoder(b []byte) *Decoder { return &Decoder{buf: b} }

// Reset makes d read b from its start, with no fault.
func (d *Decoder) Reset(b []byte) { *d = Decoder{buf: b} }

// Err returns the first fault as an *[Error], or nil.
func (d *Decoder) Err() error {
	if d.kind == nil {
		return nil
	}
	return &Error{Field: d.field, Offset: d.at, Kind: d.kind}
}

// OK reports whether no fault has been met.
func (d *Decoder) OK() bool { return d.kind == nil }

// Offset is the number of bytes read so far.
func (d *Decoder) Offset() int { return d.off }

// Remaining is the number of bytes not yet read; zero after a fault.
func (d *Decoder) Remaining() int {
	if d.kind != nil {
		return 0
	}
	return len(d.buf) - d.off
}

// Rest returns the bytes not yet read, aliasing the input, and reads them.
func (d *Decoder) Rest() []byte {
	if d.kind != nil {
		return nil
	}
	b := d.buf[d.off:]
	d.off = len(d.buf)
	return b
}

// Fail records a fault of the given kind at the present offset, unless one is
// recorded already.
func (d *Decoder) Fail(field string, kind error) {
	if d.kind == nil {
		d.kind, d.field, d.at = kind, field, d.off
	}
}

// Finish records [ErrTrailing] if bytes are left, and returns [Decoder.Err].
func (d *Decoder) Finish() error {
	if d.kind == nil && d.off != len(d.buf) {
		d.Fail("end", ErrTrailing)
	}
	return d.Err()
}

func (d *Decoder) take(field string, n int) []byte {
	if d.kind != nil {
		return nil
	}
	if n > len(d.buf)-d.off {
		d.Fail(field, ErrShort)
		return nil
	}
	b := d.buf[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// Uint32 reads an unsigned integer, an enum or a union's discriminant.
func (d *Decoder) Uint32(field string) uint32 {
	if b := d.take(field, 4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Int32 reads a signed integer.
func (d *Decoder) Int32(field string) int32 { return int32(d.Uint32(field)) }

// Uint64 reads an unsigned hyper integer.
func (d *Decoder) Uint64(field string) uint64 {
	if b := d.take(field, 8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Int64 reads a hyper integer.
func (d *Decoder) Int64(field string) int64 { return int64(d.Uint64(field)) }

// Bool reads a boolean; anything but 0 and 1 is a fault (RFC 4506 section 4.4).
func (d *Decoder) Bool(field string) bool {
	switch d.Uint32(field) {
	case 0:
		return false
	case 1:
		return d.kind == nil
	}
	d.off -= 4
	d.Fail(field, ErrValue)
	return false
}

// Fixed reads n opaque bytes and their padding; the result aliases the input.
func (d *Decoder) Fixed(field string, n int) []byte {
	if n < 0 || n > len(d.buf) {
		d.Fail(field, ErrShort)
		return nil
	}
	b := d.take(field, n+pad(n))
	if b == nil {
		return nil
	}
	return b[:n:n]
}

// Opaque reads variable-length opaque data of at most max bytes and their
// padding; the result aliases the input and is not nil unless a fault is met.
func (d *Decoder) Opaque(field string, max int) []byte {
	n := d.length(field, max)
	if d.kind != nil {
		return nil
	}
	b := d.take(field, n+pad(n))
	if b == nil {
		return nil
	}
	return b[:n:n]
}

// String reads a string of at most max bytes. It allocates the copy.
func (d *Decoder) String(field string, max int) string {
	return string(d.Opaque(field, max))
}

// Count reads the length of an array of at most max elements, each of which
// takes at least size bytes on the wire, so that a caller may allocate it.
func (d *Decoder) Count(field string, max, size int) int {
	n := d.length(field, max)
	if d.kind == nil && size > 0 && n > (len(d.buf)-d.off)/size {
		d.Fail(field, ErrShort)
		return 0
	}
	return n
}

func (d *Decoder) length(field string, max int) int {
	n := d.Uint32(field)
	if d.kind != nil {
		return 0
	}
	if max < 0 || uint64(n) > uint64(max) {
		d.off -= 4
		d.Fail(field, ErrTooLong)
		return 0
	}
	return int(n)
}

// pad is the number of zero bytes that follow n bytes of opaque data.
func pad(n int) int { return -n & 3 }
