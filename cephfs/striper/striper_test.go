package striper

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWorkedTable holds the table of the package comment to the code.
func TestWorkedTable(t *testing.T) {
	l := Layout{StripeUnit: 1, StripeCount: 3, ObjectSize: 2}
	for _, row := range []struct{ file, object, off uint64 }{
		{0, 0, 0}, {1, 1, 0}, {3, 0, 1}, {5, 2, 1}, {6, 3, 0}, {10, 4, 1}, {15, 6, 1},
	} {
		o, off := l.Locate(row.file)
		if o != row.object || off != row.off {
			t.Errorf("byte %d: object %d offset %d, want %d %d", row.file, o, off, row.object, row.off)
		}
		if f := l.FileOffset(o, off); f != row.file {
			t.Errorf("object %d offset %d: file offset %d, want %d", o, off, f, row.file)
		}
	}
	got := l.Extents(nil, 3, 5)
	want := "[{0 1 1 [{0 1}]} {1 1 1 [{1 1}]} {2 1 1 [{2 1}]} {3 0 1 [{3 1}]} {4 0 1 [{4 1}]}]"
	if fmt.Sprint(got) != want {
		t.Errorf("d to h: %v, want %v", got, want)
	}
	got = l.Extents(nil, 0, 6)
	want = "[{0 0 2 [{0 1} {3 1}]} {1 0 2 [{1 1} {4 1}]} {2 0 2 [{2 1} {5 1}]}]"
	if fmt.Sprint(got) != want {
		t.Errorf("a to f: %v, want %v", got, want)
	}
}

func genLayout(t *rapid.T) Layout {
	su := rapid.Uint32Range(1, 7).Draw(t, "unit")
	return Layout{
		StripeUnit:  su,
		StripeCount: rapid.Uint32Range(1, 5).Draw(t, "count"),
		ObjectSize:  su * rapid.Uint32Range(1, 5).Draw(t, "units"),
	}
}

// model stripes a file the slow way: byte by byte, dealing units to objects
// in turn. It shares no arithmetic with the package.
type model struct {
	objects [][]byte
	places  [][2]uint64 // of each byte of the file
}

func stripe(l Layout, file []byte) *model {
	m := &model{}
	object := func(i int) *[]byte {
		for len(m.objects) <= i {
			m.objects = append(m.objects, nil)
		}
		return &m.objects[i]
	}
	set, pos := 0, 0
	for i, b := range file {
		if i > 0 && i%int(l.StripeUnit) == 0 {
			if pos++; pos == int(l.StripeCount) {
				pos = 0
				if len(*object(set * int(l.StripeCount))) == int(l.ObjectSize) {
					set++
				}
			}
		}
		o := object(set*int(l.StripeCount) + pos)
		m.places = append(m.places, [2]uint64{uint64(set*int(l.StripeCount) + pos), uint64(len(*o))})
		*o = append(*o, b)
	}
	return m
}

func TestAgainstByteModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout(t)
		size := rapid.IntRange(0, 300).Draw(t, "size")
		file := make([]byte, size)
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		for i := range file {
			file[i] = byte(rng.Uint32())
		}
		m := stripe(l, file)

		if n := l.Objects(uint64(size)); n != uint64(len(m.objects)) {
			t.Fatalf("%v: %d objects for %d bytes, want %d", l, n, size, len(m.objects))
		}
		for o := range len(m.objects) + 2*int(l.StripeCount) {
			want := 0
			if o < len(m.objects) {
				want = len(m.objects[o])
			}
			if n := l.ObjectBytes(uint64(size), uint64(o)); n != uint64(want) {
				t.Fatalf("%v: object %d of a file of %d bytes has %d, want %d", l, o, size, n, want)
			}
		}
		for i, p := range m.places {
			if o, off := l.Locate(uint64(i)); [2]uint64{o, off} != p {
				t.Fatalf("%v: byte %d at %d %d, want %v", l, i, o, off, p)
			}
			if f := l.FileOffset(p[0], p[1]); f != uint64(i) {
				t.Fatalf("%v: %v is byte %d, want %d", l, p, f, i)
			}
		}

		off := rapid.IntRange(0, size).Draw(t, "off")
		n := rapid.IntRange(0, size-off).Draw(t, "n")
		got := make([]byte, n)
		seen := map[uint64]bool{}
		total := uint64(0)
		for _, e := range l.Extents(nil, uint64(off), uint64(n)) {
			if seen[e.Object] {
				t.Fatalf("%v: object %d twice", l, e.Object)
			}
			seen[e.Object] = true
			src := m.objects[e.Object][e.Offset : e.Offset+e.Length]
			for _, s := range e.Spans {
				copy(got[s.Offset:s.Offset+s.Length], src[:s.Length])
				src = src[s.Length:]
			}
			if len(src) != 0 {
				t.Fatalf("%v: spans of %v are too short", l, e)
			}
			total += e.Length
			// And back.
			var back []byte
			for p := range l.FilePieces(e.Object, e.Offset, e.Length) {
				back = append(back, file[p.File:p.File+p.Length]...)
			}
			if !bytes.Equal(back, m.objects[e.Object][e.Offset:e.Offset+e.Length]) {
				t.Fatalf("%v: extent %v does not map back", l, e)
			}
		}
		if total != uint64(n) || !bytes.Equal(got, file[off:off+n]) {
			t.Fatalf("%v: %d bytes at %d reassembled wrongly", l, n, off)
		}
		// Pieces cover the range in order.
		at := uint64(off)
		for p := range l.Pieces(uint64(off), uint64(n)) {
			if p.File != at || p.Length == 0 {
				t.Fatalf("%v: piece %v at %d", l, p, at)
			}
			at += p.Length
		}
		if at != uint64(off+n) {
			t.Fatalf("%v: pieces end at %d", l, at)
		}
	})
}

func TestFarOffsets(t *testing.T) {
	for _, l := range []Layout{Default, {StripeUnit: 64 << 10, StripeCount: 7, ObjectSize: 1 << 20}, {1, 1, 1}} {
		for _, off := range []uint64{1<<40 + 12345, 1<<62 + 1, MaxFile - 1} {
			o, in := l.Locate(off)
			if in >= uint64(l.ObjectSize) || l.FileOffset(o, in) != off {
				t.Errorf("%v: %d goes to %d %d and back to %d", l, off, o, in, l.FileOffset(o, in))
			}
		}
		var n uint64
		for p := range l.Pieces(MaxFile-100, ^uint64(0)) {
			n += p.Length
		}
		if n != 100 {
			t.Errorf("%v: %d bytes before the largest end, want 100", l, n)
		}
		for range l.Pieces(MaxFile, 1) {
			t.Errorf("%v: a piece beyond the largest end", l)
		}
		if l.ObjectBytes(^uint64(0), 3) != ^uint64(0) {
			t.Errorf("%v: the size that means never truncated changed", l)
		}
	}
}

// TestObjectsBeyondLargestFile have no pieces: object numbers come from lists of
// names, which may hold anything.
func TestObjectsBeyondLargestFile(t *testing.T) {
	for _, object := range []uint64{1 << 41, 1 << 42, 1<<42 + 5, 1 << 62, ^uint64(0)} {
		for p := range Default.FilePieces(object, 0, 10) {
			if back, _ := Default.Locate(p.File); back != object {
				t.Errorf("object %#x goes to byte %d, which is in object %#x", object, p.File, back)
			}
		}
	}
}

func TestOneExtentPerObjectOfDefault(t *testing.T) {
	got := Default.Extents(nil, 4<<20-1, 4<<20+2)
	want := []Extent{
		{0, 4<<20 - 1, 1, []Span{{0, 1}}},
		{1, 0, 4 << 20, []Span{{1, 4 << 20}}},
		{2, 0, 1, []Span{{4<<20 + 1, 1}}},
	}
	if !slices.EqualFunc(got, want, func(a, b Extent) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestValidate(t *testing.T) {
	if err := Default.Validate(); err != nil {
		t.Error(err)
	}
	for _, l := range []Layout{{}, {1, 0, 1}, {0, 1, 1}, {1, 1, 0}, {2, 1, 3}, {4, 1, 2}} {
		if err := l.Validate(); !errors.Is(err, ErrLayout) {
			t.Errorf("%v: %v", l, err)
		}
	}
}

func TestObjectName(t *testing.T) {
	for _, c := range []struct {
		ino, object uint64
		want        string
	}{
		{0x10000000000, 0, "10000000000.00000000"},
		{1, 0x1f, "1.0000001f"},
		{0xabc, 0x12345678, "abc.12345678"},
		{0xabc, 0x1234567, "abc.01234567"},
		{0xabc, 0x123456789, "abc.123456789"},
	} {
		if got := ObjectName(c.ino, c.object); got != c.want || got != fmt.Sprintf("%x.%08x", c.ino, c.object) {
			t.Errorf("%x %x: %s, want %s", c.ino, c.object, got, c.want)
		}
	}
}

func BenchmarkPieces(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		for p := range Default.Pieces(3<<20, 64<<20) {
			_ = p
		}
	}
}
