package striper

import "iter"

// Piece is a part of a file's range that lies together in an object.
type Piece struct {
	Object uint64 // number of the object
	Offset uint64 // in the object
	File   uint64 // in the file
	Length uint64 // bytes, never 0
}

// Span is a part of the buffer of a range.
type Span struct {
	Offset uint64 // from the start of the range
	Length uint64 // bytes, never 0
}

// Extent is all that a range has in one object. For one range it is always one
// run of the object's bytes, which lie in the range in as many spans as they
// have stripe units.
type Extent struct {
	Object uint64
	Offset uint64 // in the object
	Length uint64 // bytes: the sum of the spans
	Spans  []Span // in the order of the object's bytes
}

// clip returns n cut so that off+n is at most [MaxFile].
func clip(off, n uint64) uint64 {
	if off >= MaxFile {
		return 0
	}
	return min(n, MaxFile-off)
}

// Pieces gives the pieces of n bytes at off of the file, in the file's order.
// What lies beyond [MaxFile] is left out. It allocates nothing.
func (l Layout) Pieces(off, n uint64) iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		for n := clip(off, n); n > 0; {
			p := Piece{File: off}
			p.Object, p.Offset = l.Locate(off)
			// With one object in a set the units of an object follow each
			// other in the file too.
			room := uint64(l.StripeUnit) - p.Offset%uint64(l.StripeUnit)
			if l.StripeCount == 1 {
				room = uint64(l.ObjectSize) - p.Offset
			}
			p.Length = min(n, room)
			if !yield(p) {
				return
			}
			off += p.Length
			n -= p.Length
		}
	}
}

// Extents appends the extents of n bytes at off of the file to dst, one an
// object, in the order in which the range first touches the objects.
func (l Layout) Extents(dst []Extent, off, n uint64) []Extent {
	// The objects that a range touches in one set were appended in one run, in
	// the order of their positions counted from the first one, so that an
	// object's extent is found without a search.
	first := len(dst) // of the present set
	set := ^uint64(0)
	sc := uint64(l.StripeCount)
	for p := range l.Pieces(off, n) {
		if s := p.Object / sc; s != set {
			set, first = s, len(dst)
		}
		i := first
		if len(dst) > first {
			i += int((p.Object + sc - dst[first].Object) % sc)
		}
		if i == len(dst) {
			dst = append(dst, Extent{Object: p.Object, Offset: p.Offset})
		}
		e := &dst[i]
		e.Length += p.Length
		e.Spans = append(e.Spans, Span{Offset: p.File - off, Length: p.Length})
	}
	return dst
}

// FilePieces gives the places in the file of n bytes at objectOff of an object,
// in the object's order: the inverse of [Layout.Extents]. What lies beyond
// ObjectSize or [MaxFile] is left out.
func (l Layout) FilePieces(object, objectOff, n uint64) iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		if objectOff >= uint64(l.ObjectSize) {
			return
		}
		if object/uint64(l.StripeCount) > MaxFile/(uint64(l.ObjectSize)*uint64(l.StripeCount)) {
			return // what follows would overflow
		}
		off := objectOff
		for n := min(n, uint64(l.ObjectSize)-objectOff); n > 0; {
			p := Piece{Object: object, Offset: off, File: l.FileOffset(object, off)}
			room := uint64(l.StripeUnit) - off%uint64(l.StripeUnit)
			if l.StripeCount == 1 {
				room = uint64(l.ObjectSize) - off
			}
			p.Length = min(clip(p.File, min(n, room)), room)
			if p.Length == 0 || !yield(p) {
				return
			}
			off += p.Length
			n -= p.Length
		}
	}
}
