package xdr

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
)

func TestGolden(t *testing.T) {
	var e Encoder
	e.Uint32(0x01020304)
	e.Int32(-2)
	e.Uint64(0x0102030405060708)
	e.Int64(math.MinInt64)
	e.Bool(true)
	e.Bool(false)
	e.Fixed([]byte{1, 2, 3, 4, 5})
	e.Opaque([]byte{1, 2, 3})
	e.Opaque(nil)
	e.String("abcd")
	e.OpaqueRef([]byte{9, 8}, nil)
	at := e.Reserve32()
	e.Append([]byte{7, 7, 7, 7})
	e.Patch32(at, 0xa0b0c0d0)
	want := []byte{
		1, 2, 3, 4,
		0xff, 0xff, 0xff, 0xfe,
		1, 2, 3, 4, 5, 6, 7, 8,
		0x80, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 1,
		0, 0, 0, 0,
		1, 2, 3, 4, 5, 0, 0, 0,
		0, 0, 0, 3, 1, 2, 3, 0,
		0, 0, 0, 0,
		0, 0, 0, 4, 'a', 'b', 'c', 'd',
		0, 0, 0, 2, 9, 8, 0, 0,
		0xa0, 0xb0, 0xc0, 0xd0,
		7, 7, 7, 7,
	}
	if got := e.Bytes(); !bytes.Equal(got, want) {
		t.Fatalf("encoded\n%x, want\n%x", got, want)
	}
	if e.Len() != len(want) {
		t.Errorf("Len %d, want %d", e.Len(), len(want))
	}

	d := NewDecoder(want)
	if d.Uint32("") != 0x01020304 || d.Int32("") != -2 || d.Uint64("") != 0x0102030405060708 || d.Int64("") != math.MinInt64 ||
		!d.Bool("") || d.Bool("") || !bytes.Equal(d.Fixed("", 5), []byte{1, 2, 3, 4, 5}) || !bytes.Equal(d.Opaque("", 3), []byte{1, 2, 3}) ||
		d.Opaque("", 0) == nil || d.String("", 4) != "abcd" || !bytes.Equal(d.Opaque("", 2), []byte{9, 8}) ||
		d.Uint32("") != 0xa0b0c0d0 || !bytes.Equal(d.Rest(), []byte{7, 7, 7, 7}) {
		t.Error("decoded values differ")
	}
	if err := d.Finish(); err != nil {
		t.Error(err)
	}
}

func TestDecoderFaults(t *testing.T) {
	for _, test := range []struct {
		name string
		in   []byte
		read func(*Decoder)
		kind error
		at   int
	}{
		{"short integer", []byte{0, 0, 0}, func(d *Decoder) { d.Uint32("f") }, ErrShort, 0},
		{"short hyper", make([]byte, 8), func(d *Decoder) { d.Uint32("x"); d.Uint64("f") }, ErrShort, 4},
		{"bool 2", []byte{0, 0, 0, 2}, func(d *Decoder) { d.Bool("f") }, ErrValue, 0},
		{"opaque above limit", []byte{0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0}, func(d *Decoder) { d.Opaque("f", 4) }, ErrTooLong, 0},
		{"opaque short", []byte{0, 0, 0, 5, 1, 2, 3, 4}, func(d *Decoder) { d.Opaque("f", 8) }, ErrShort, 4},
		{"opaque without padding", []byte{0, 0, 0, 1, 1}, func(d *Decoder) { d.Opaque("f", 8) }, ErrShort, 4},
		{"longest opaque", []byte{255, 255, 255, 255}, func(d *Decoder) { d.Opaque("f", math.MaxInt) }, ErrShort, 4},
		{"negative limit", []byte{0, 0, 0, 0}, func(d *Decoder) { d.Opaque("f", -1) }, ErrTooLong, 0},
		{"fixed negative", make([]byte, 8), func(d *Decoder) { d.Fixed("f", -1) }, ErrShort, 0},
		{"fixed longest", make([]byte, 8), func(d *Decoder) { d.Fixed("f", math.MaxInt) }, ErrShort, 0},
		{"count above limit", []byte{0, 0, 0, 3}, func(d *Decoder) { d.Count("f", 2, 0) }, ErrTooLong, 0},
		{"count above what is left", []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, func(d *Decoder) { d.Count("f", 9, 4) }, ErrShort, 4},
		{"bytes left over", make([]byte, 8), func(d *Decoder) { d.Uint32("x"); d.Finish() }, ErrTrailing, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := NewDecoder(test.in)
			test.read(d)
			var e *Error
			if !errors.As(d.Err(), &e) || !errors.Is(e, test.kind) || e.Offset != test.at {
				t.Fatalf("error %v, want %v at %d", d.Err(), test.kind, test.at)
			}
			// Sticky: all that follows is zero, and the first fault stays.
			if d.OK() || d.Remaining() != 0 || d.Uint32("") != 0 || d.Bool("") || d.Opaque("", 9) != nil || d.Fixed("", 1) != nil || d.Rest() != nil ||
				d.Count("", 9, 1) != 0 || d.String("", 9) != "" {
				t.Error("values after a fault")
			}
			if d.Finish().Error() != e.Error() || !strings.Contains(e.Error(), test.kind.Error()) {
				t.Error("first fault lost")
			}
		})
	}
}

func TestAliasesCannotGrowIntoInput(t *testing.T) {
	in := []byte{0, 0, 0, 1, 'a', 0, 0, 0, 0, 0, 0, 7}
	d := NewDecoder(in)
	b := d.Opaque("", 4)
	_ = append(b, 'x', 'y', 'z', 'w', 'v')
	if d.Uint32("") != 7 || in[5] != 0 {
		t.Error("append to an opaque wrote into the input")
	}
}

func TestReleaseOnce(t *testing.T) {
	var e Encoder
	counts := make([]int, 4)
	add := func(i int) { e.OpaqueRef([]byte{byte(i)}, func() { counts[i]++ }) }
	add(0)
	m := e.Mark()
	add(1)
	add(2)
	if e.Len() != 24 {
		t.Errorf("Len %d", e.Len())
	}
	e.TruncateTo(m)
	e.TruncateTo(m)
	if e.Len() != 8 {
		t.Errorf("Len after truncation %d", e.Len())
	}
	add(3)
	if got := e.AppendSince([]byte{0xee}, m); !bytes.Equal(got, []byte{0xee, 0, 0, 0, 1, 3, 0, 0, 0}) {
		t.Errorf("AppendSince %x", got)
	}
	e.Reset()
	e.Reset()
	for i, n := range counts {
		if n != 1 {
			t.Errorf("payload %d released %d times", i, n)
		}
	}
}

func TestExpect(t *testing.T) {
	large = sync.Pool{}
	var e Encoder
	e.Uint32(1)
	e.Expect(1 << 20)
	if cap(e.buf) >= largeSize {
		t.Error("memory was taken for what is only expected")
	}
	e.Fixed(make([]byte, 3*largeSize))
	e.Reset()
	grown := cap(e.buf)
	e.Shrink(largeSize)
	if cap(e.buf) != 0 {
		t.Errorf("%d bytes kept", cap(e.buf))
	}

	e.Uint32(2)
	own := cap(e.buf)
	m := e.Mark()
	e.Expect(largeSize - 1)
	if cap(e.buf) != own {
		t.Error("large storage for little")
	}
	e.Expect(largeSize)
	if n := cap(e.buf); n != own && n != grown { // a pool may forget
		t.Errorf("%d bytes, neither its own %d nor the %d that were kept", n, own, grown)
	}
	e.Fixed(make([]byte, 2*largeSize))
	e.TruncateTo(m)
	e.Uint32(3)
	if got := e.Bytes(); !bytes.Equal(got, []byte{0, 0, 0, 2, 0, 0, 0, 3}) {
		t.Errorf("encoded % x", got)
	}
	e.Reset()
	e.Shrink(largeSize)
	if n := cap(e.buf); n > largeSize || e.small != nil {
		t.Errorf("%d bytes kept", n)
	}
}

func TestShrink(t *testing.T) {
	var e Encoder
	e.Fixed(make([]byte, 1000))
	e.Reset()
	e.Shrink(1 << 20)
	kept := cap(e.buf)
	e.Shrink(10)
	if kept < 1000 || cap(e.buf) != 0 {
		t.Errorf("kept %d, then %d", kept, cap(e.buf))
	}
}

func TestNoAllocations(t *testing.T) {
	var e Encoder
	var d Decoder
	payload := make([]byte, 100)
	release := func() {}
	vecs := make([][]byte, 0, 8)
	n := testing.AllocsPerRun(100, func() {
		e.Reset()
		e.Uint64(1)
		e.String("name")
		e.OpaqueRef(payload, release)
		e.Bool(true)
		vecs = e.Vectors(vecs[:0])
		d.Reset(vecs[0])
		d.Uint64("a")
		d.Opaque("b", 9)
		d.Bool("c")
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEncode(b *testing.B) {
	var e Encoder
	payload := make([]byte, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		e.Reset()
		for i := range 16 {
			e.Uint32(uint32(i))
		}
		e.OpaqueRef(payload, nil)
	}
}

func BenchmarkDecode(b *testing.B) {
	in := make([]byte, 160)
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		d.Reset(in)
		for range 16 {
			d.Uint32("a")
			d.Opaque("b", 16)
		}
		if !d.OK() {
			b.Fatal("fault")
		}
	}
}
