package xdr

import (
	"encoding/binary"
	"sync"
)

// Encoder appends XDR values to a slice. The zero Encoder is ready for use;
// [Encoder.Reset] keeps its storage for the next record.
type Encoder struct {
	buf  []byte
	refs []ref
	size int // bytes spliced in by reference, padding included

	small []byte // storage that Expect replaced; empty
}

// ref is a payload that stands at offset at of buf without being copied there.
type ref struct {
	at      int
	data    []byte
	release func()
}

// zeros is what a spliced payload is padded with.
var zeros [4]byte

// Reset empties e, keeps its storage and releases every spliced payload.
func (e *Encoder) Reset() { e.Truncate(0) }

// Len is the number of bytes encoded so far, spliced payloads included.
func (e *Encoder) Len() int { return len(e.buf) + e.size }

// Mark is a place in the encoding that [Encoder.TruncateTo] can go back to.
type Mark struct{ buf, refs, size int }

// Mark returns the present end of the encoding.
func (e *Encoder) Mark() Mark { return Mark{len(e.buf), len(e.refs), e.size} }

// TruncateTo drops, and releases, all that was encoded since m was taken.
func (e *Encoder) TruncateTo(m Mark) {
	for i := m.refs; i < len(e.refs); i++ {
		if e.refs[i].release != nil {
			e.refs[i].release()
		}
		e.refs[i] = ref{}
	}
	e.buf, e.refs, e.size = e.buf[:m.buf], e.refs[:m.refs], m.size
}

// Truncate drops all but the first n bytes of an encoding in which nothing was
// spliced before n.
func (e *Encoder) Truncate(n int) { e.TruncateTo(Mark{buf: n}) }

// Uint32 appends an unsigned integer.
func (e *Encoder) Uint32(v uint32) { e.buf = binary.BigEndian.AppendUint32(e.buf, v) }

// Int32 appends a signed integer.
func (e *Encoder) Int32(v int32) { e.Uint32(uint32(v)) }

// Uint64 appends an unsigned hyper integer.
func (e *Encoder) Uint64(v uint64) { e.buf = binary.BigEndian.AppendUint64(e.buf, v) }

// Int64 appends a hyper integer.
func (e *Encoder) Int64(v int64) { e.Uint64(uint64(v)) }

// Bool appends a boolean.
func (e *Encoder) Bool(v bool) {
	var n uint32
	if v {
		n = 1
	}
	e.Uint32(n)
}

// Fixed appends opaque bytes of a length both sides know, and their padding.
func (e *Encoder) Fixed(b []byte) {
	e.buf = append(e.buf, b...)
	e.buf = append(e.buf, zeros[:pad(len(b))]...)
}

// Opaque appends variable-length opaque data.
func (e *Encoder) Opaque(b []byte) {
	e.Uint32(uint32(len(b)))
	e.Fixed(b)
}

// String appends a string.
func (e *Encoder) String(s string) {
	e.Uint32(uint32(len(s)))
	e.buf = append(e.buf, s...)
	e.buf = append(e.buf, zeros[:pad(len(s))]...)
}

// OpaqueRef appends variable-length opaque data by reference: b must stay
// unchanged until release is called, which happens exactly once, when the
// record was sent or dropped. release may be nil.
func (e *Encoder) OpaqueRef(b []byte, release func()) {
	e.Uint32(uint32(len(b)))
	e.refs = append(e.refs, ref{at: len(e.buf), data: b, release: release})
	e.size += len(b)
	e.buf = append(e.buf, zeros[:pad(len(b))]...)
}

// Reserve32 appends four bytes to be filled in later by [Encoder.Patch32].
func (e *Encoder) Reserve32() int {
	e.Uint32(0)
	return len(e.buf) - 4
}

// Patch32 overwrites the four bytes that [Encoder.Reserve32] returned.
func (e *Encoder) Patch32(at int, v uint32) { binary.BigEndian.PutUint32(e.buf[at:], v) }

// Append appends bytes that are encoded already (a cached reply).
func (e *Encoder) Append(b []byte) { e.buf = append(e.buf, b...) }

// Vectors appends the encoding to dst as the slices it consists of, ready for
// net.Buffers. They alias e until its next change.
func (e *Encoder) Vectors(dst [][]byte) [][]byte {
	from := 0
	for _, r := range e.refs {
		if r.at > from {
			dst = append(dst, e.buf[from:r.at])
		}
		if len(r.data) > 0 {
			dst = append(dst, r.data)
		}
		from = r.at
	}
	if from < len(e.buf) {
		dst = append(dst, e.buf[from:])
	}
	return dst
}

// Bytes returns the whole encoding; it is copied only if a payload was spliced.
func (e *Encoder) Bytes() []byte {
	if len(e.refs) == 0 {
		return e.buf
	}
	out := make([]byte, 0, e.Len())
	for _, v := range e.Vectors(nil) {
		out = append(out, v...)
	}
	return out
}

// AppendSince appends to dst what was encoded since m, spliced payloads included.
func (e *Encoder) AppendSince(dst []byte, m Mark) []byte {
	from := m.buf
	for _, r := range e.refs[m.refs:] {
		dst = append(dst, e.buf[from:r.at]...)
		dst = append(dst, r.data...)
		from = r.at
	}
	return append(dst, e.buf[from:]...)
}

// large is the storage of encodings above largeSize, for the next ones.
var large sync.Pool // of *[]byte, empty

const largeSize = 64 << 10

// Expect says that n bytes are likely to be appended. If that is a lot, storage
// that an earlier encoding has grown to is used, so that this one need not grow
// to it again. Nothing is allocated: what a peer only asks for takes no memory.
func (e *Encoder) Expect(n int) {
	if n < largeSize || n <= cap(e.buf)-len(e.buf) {
		return
	}
	kept, ok := large.Get().(*[]byte)
	if !ok {
		return
	}
	if cap(*kept) <= cap(e.buf) {
		large.Put(kept)
		return
	}
	old := e.buf
	e.buf = append(*kept, old...)
	if e.small == nil {
		e.small = old[:0]
	}
}

// Shrink gives up the storage of e, which must be empty, if it is larger than
// max bytes: for encoders that are kept and reused. See [Encoder.Expect].
func (e *Encoder) Shrink(max int) {
	if cap(e.buf) > max {
		if cap(e.buf) > largeSize {
			kept := e.buf
			large.Put(&kept)
		}
		if e.buf = nil; cap(e.small) <= max {
			e.buf = e.small
		}
	}
	e.small = nil
}
