package xdr

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// FuzzDecoder runs a program of reads, taken from the input too, on a Decoder
// and on a model, and compares every value, offset and fault.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7}, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2})
	f.Add([]byte{4, 4, 4}, []byte{0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0})
	f.Add([]byte{2, 2}, []byte{0, 0, 0, 1, 0, 0, 0, 2})
	f.Add([]byte{5, 0xf4}, []byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{6}, []byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, program, in []byte) {
		d := NewDecoder(in)
		m := model{in: in}
		for _, op := range program {
			arg := int(op >> 3)
			switch op & 7 {
			case 0:
				same(t, uint64(d.Uint32("")), m.uint(4))
			case 1:
				same(t, d.Uint64(""), m.uint(8))
			case 2:
				got, want := uint64(0), m.uint(4)
				if want > 1 {
					m.fail(ErrValue, m.off-4)
					want = 0
				}
				if d.Bool("") {
					got = 1
				}
				same(t, got, want)
			case 3:
				sameBytes(t, d.Fixed("", arg), m.bytes(arg))
			case 4, 5:
				got := d.Opaque("", arg)
				n := m.uint(4)
				if m.err == nil && n > uint64(arg) {
					m.fail(ErrTooLong, m.off-4)
				}
				sameBytes(t, got, m.bytes(int(n)))
			case 6:
				got := d.Count("", arg, 4)
				n := m.uint(4)
				if m.err == nil && n > uint64(arg) {
					m.fail(ErrTooLong, m.off-4)
				}
				if m.err == nil && int(n)*4 > len(in)-m.off {
					m.fail(ErrShort, m.off)
				}
				if m.err != nil {
					n = 0
				}
				same(t, uint64(got), n)
			case 7:
				if d.OK() && d.Remaining() != len(in)-m.off {
					t.Fatalf("remaining %d at %d of %d", d.Remaining(), m.off, len(in))
				}
			}
			var e *Error
			switch err := d.Err(); {
			case m.err == nil && (err != nil || d.Offset() != m.off):
				t.Fatalf("offset %d, %v; want %d", d.Offset(), err, m.off)
			case m.err != nil && (!errors.As(err, &e) || e.Kind != m.err || e.Offset != m.at):
				t.Fatalf("fault %v, want %v at %d", err, m.err, m.at)
			}
		}
		d.Finish()
	})
}

// model is a decoder without any cleverness.
type model struct {
	in  []byte
	off int
	err error
	at  int
}

func (m *model) fail(err error, at int) {
	if m.err == nil {
		m.err, m.at = err, at
	}
}

func (m *model) uint(n int) (v uint64) {
	for _, b := range m.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

// bytes reads n bytes and what fills them up to four.
func (m *model) bytes(n int) []byte {
	full := n
	for full%4 != 0 {
		full++
	}
	if b := m.take(full); b != nil {
		return b[:n]
	}
	return nil
}

func (m *model) take(n int) []byte {
	if m.err == nil && n > len(m.in)-m.off {
		m.fail(ErrShort, m.off)
	}
	if m.err != nil {
		return nil
	}
	m.off += n
	return m.in[m.off-n : m.off]
}

func same(t *testing.T, got, want uint64) {
	t.Helper()
	if got != want {
		t.Fatalf("got %d, want %d", got, want)
	}
}

func sameBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if (got == nil) != (want == nil) || !bytes.Equal(got, want) {
		t.Fatalf("got %x, want %x", got, want)
	}
}

// FuzzEncoder runs a program of appends, marks and truncations and compares the
// result with plain appends to one slice; each payload is released once.
func FuzzEncoder(f *testing.F) {
	f.Add([]byte{0, 9, 17, 2, 3, 4, 5, 6, 7})
	f.Add([]byte{4, 28, 6, 20, 4, 7, 12, 7})
	f.Add([]byte{6, 4, 4, 7, 7, 4})
	f.Fuzz(func(t *testing.T, program []byte) {
		type mark struct {
			m Mark
			n int
		}
		var e Encoder
		var want []byte
		var marks []mark
		var released []int
		patched := -1
		data := []byte("0123456789abcdefghijklmnopqrstuvwxyz")
		fill := func() {
			for len(want)%4 != 0 {
				want = append(want, 0)
			}
		}
		for _, op := range program {
			arg := int(op >> 3)
			switch op & 7 {
			case 0:
				e.Uint32(uint32(arg))
				want = binary.BigEndian.AppendUint32(want, uint32(arg))
			case 1:
				e.Uint64(uint64(arg) << 32)
				want = binary.BigEndian.AppendUint64(want, uint64(arg)<<32)
			case 2:
				e.Opaque(data[:arg])
				want = append(binary.BigEndian.AppendUint32(want, uint32(arg)), data[:arg]...)
				fill()
			case 3:
				e.String(string(data[:arg]))
				want = append(binary.BigEndian.AppendUint32(want, uint32(arg)), data[:arg]...)
				fill()
			case 4:
				i := len(released)
				released = append(released, 0)
				e.OpaqueRef(data[:arg], func() { released[i]++ })
				want = append(binary.BigEndian.AppendUint32(want, uint32(arg)), data[:arg]...)
				fill()
			case 5:
				// A reserved word is patched only where nothing was spliced in before
				// it, for the model's sake.
				at := e.Reserve32()
				if len(e.refs) == 0 {
					patched = at
					e.Patch32(patched, uint32(arg))
					want = binary.BigEndian.AppendUint32(want, uint32(arg))
				} else {
					e.Patch32(at, 0)
					want = append(want, 0, 0, 0, 0)
				}
			case 6:
				marks = append(marks, mark{e.Mark(), len(want)})
			case 7:
				if n := len(marks); n > 0 {
					m := marks[n-1]
					marks = marks[:n-1]
					if since := e.AppendSince(nil, m.m); !bytes.Equal(since, want[m.n:]) {
						t.Fatalf("since the mark %x, want %x", since, want[m.n:])
					}
					e.TruncateTo(m.m)
					want = want[:m.n]
				}
			}
			if e.Len() != len(want) {
				t.Fatalf("Len %d, want %d", e.Len(), len(want))
			}
		}
		if got := e.Bytes(); !bytes.Equal(got, want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
		e.Reset()
		for i, n := range released {
			if n != 1 {
				t.Fatalf("payload %d released %d times", i, n)
			}
		}
	})
}
