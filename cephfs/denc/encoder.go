package denc

import (
	"encoding/binary"
	"math"
)

// Encoder appends Ceph's encoding to a slice. The zero Encoder is ready for
// use; [Encoder.Reset] keeps its storage.
type Encoder struct{ buf []byte }

// NewEncoder returns an encoder that appends to b.
func NewEncoder(b []byte) *Encoder { return &Encoder{buf: b} }

// Reset empties e and keeps its storage. Slices that Data returned before
// change with the next encoding.
func (e *Encoder) Reset() { e.buf = e.buf[:0] }

// Data returns all that was encoded. It aliases the encoder's storage.
func (e *Encoder) Data() []byte { return e.buf }

// Len is the number of bytes encoded so far.
func (e *Encoder) Len() int { return len(e.buf) }

// Raw appends b as it is.
func (e *Encoder) Raw(b []byte) { e.buf = append(e.buf, b...) }

// Uint8 appends one byte.
func (e *Encoder) Uint8(v uint8) { e.buf = append(e.buf, v) }

// Int8 appends one signed byte.
func (e *Encoder) Int8(v int8) { e.Uint8(uint8(v)) }

// Uint16 appends a 16-bit number.
func (e *Encoder) Uint16(v uint16) { e.buf = binary.LittleEndian.AppendUint16(e.buf, v) }

// Uint32 appends a 32-bit number.
func (e *Encoder) Uint32(v uint32) { e.buf = binary.LittleEndian.AppendUint32(e.buf, v) }

// Int32 appends a signed 32-bit number.
func (e *Encoder) Int32(v int32) { e.Uint32(uint32(v)) }

// Uint64 appends a 64-bit number.
func (e *Encoder) Uint64(v uint64) { e.buf = binary.LittleEndian.AppendUint64(e.buf, v) }

// Int64 appends a signed 64-bit number.
func (e *Encoder) Int64(v int64) { e.Uint64(uint64(v)) }

// Float64 appends an IEEE 754 double.
func (e *Encoder) Float64(v float64) { e.Uint64(math.Float64bits(v)) }

// Float32 appends an IEEE 754 single.
func (e *Encoder) Float32(v float32) { e.Uint32(math.Float32bits(v)) }

// Bool appends a byte, 0 or 1.
func (e *Encoder) Bool(v bool) {
	if v {
		e.Uint8(1)
	} else {
		e.Uint8(0)
	}
}

// Bytes appends a 32-bit length and b. b must be shorter than 4 GiB.
func (e *Encoder) Bytes(b []byte) {
	e.Uint32(uint32(len(b)))
	e.buf = append(e.buf, b...)
}

// String appends a 32-bit length and s, which must be shorter than 4 GiB.
func (e *Encoder) String(s string) {
	e.Uint32(uint32(len(s)))
	e.buf = append(e.buf, s...)
}

// Count appends the 32-bit number of elements of a list, set or map.
func (e *Encoder) Count(n int) { e.Uint32(uint32(n)) }

// Struct opens a versioned struct (ENCODE_START) and returns the place that
// [Encoder.End] takes.
func (e *Encoder) Struct(version, compat uint8) int {
	e.Uint8(version)
	e.Uint8(compat)
	return e.Sized()
}

// Sized opens a part that is only a 32-bit length and its content.
func (e *Encoder) Sized() int {
	e.Uint32(0)
	return len(e.buf)
}

// End closes the struct or sized part opened at place: it writes the length.
func (e *Encoder) End(place int) {
	binary.LittleEndian.PutUint32(e.buf[place-4:], uint32(len(e.buf)-place))
}
