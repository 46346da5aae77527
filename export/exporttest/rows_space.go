package exporttest

import (
	"bytes"
	"fmt"

	"capstan/export"
)

// extent is a range of a file as Seek tells.
type extent struct {
	start, end uint64
	data       bool
}

// walk goes over a file with Seek alone, the way a sparse copy does, and checks
// that each answer makes sense on its own.
func (f *fixture) walk(file export.File) []extent {
	f.Helper()
	size := f.attr(file.Object()).Size
	var all []extent
	for off := uint64(0); off < size; {
		data, eof, err := file.Seek(ctx, off, export.SeekData)
		f.ok(err)
		if data < off || data > size || eof != (data == size) {
			f.Fatalf("data from %d of %d: at %d, eof %v", off, size, data, eof)
		}
		if data > off {
			all = append(all, extent{off, data, false})
		}
		if eof {
			break
		}
		hole, eof, err := file.Seek(ctx, data, export.SeekHole)
		f.ok(err)
		if hole <= data || hole > size || eof != (hole == size) {
			f.Fatalf("hole from %d of %d: at %d, eof %v", data, size, hole, eof)
		}
		all = append(all, extent{data, hole, true})
		off = hole
	}
	return all
}

// truthful checks that no byte of a hole differs from 0, and returns how many
// bytes lie in holes.
func (f *fixture) truthful(what string, file export.File) (holes uint64) {
	f.Helper()
	p, zeros := make([]byte, 1<<20), make([]byte, 1<<20)
	for _, e := range f.walk(file) {
		if e.data {
			continue
		}
		holes += e.end - e.start
		for off := e.start; off < e.end; off += uint64(len(p)) {
			part := p[:min(uint64(len(p)), e.end-off)]
			n, _, err := file.ReadAt(ctx, part, off)
			f.ok(err)
			if n != len(part) || !bytes.Equal(part, zeros[:n]) {
				f.Fatalf("%s: hole [%d,%d) has data", what, e.start, e.end)
			}
		}
	}
	return holes
}

var spaceRows = []row{
	// Trial 8.
	{name: "Seek/Shapes", needs: seek, run: func(f *fixture) {
		size := func(file export.File, n uint64) {
			f.set(file.Object(), export.SetAttr{Set: export.SetSize, Size: n})
		}
		hole := f.file("hole", nil)
		size(hole, 100<<20)
		f.check(f.truthful("all hole", hole) == 100<<20, "no hole of 100 MiB: %v", f.walk(hole))

		middle := f.file("middle", nil)
		f.writeFile(middle, 50<<20, pattern(1, 4096))
		size(middle, 100<<20)
		f.check(f.truthful("data in the middle", middle) > 90<<20, "extents %v", f.walk(middle))

		full := f.file("full", pattern(2, 3<<20))
		f.check(f.truthful("all data", full) == 0, "extents %v", f.walk(full))

		short := f.file("short", []byte("x"))
		f.truthful("one byte", short)
		f.check(len(f.walk(short)) > 0 && f.walk(short)[0].data, "extents %v", f.walk(short))

		tail := f.file("tail", pattern(3, 70000))
		size(tail, 16<<20)
		f.check(f.truthful("hole at the end", tail) > 15<<20, "extents %v", f.walk(tail))
	}},
	{name: "Seek/Data", needs: seek, run: func(f *fixture) {
		file := f.file("f", nil)
		f.writeFile(file, 8<<20, []byte("data"))
		pos, eof, err := file.Seek(ctx, 8<<20+2, export.SeekData)
		f.ok(err)
		f.check(pos == 8<<20+2 && !eof, "within data: %d, eof %v", pos, eof)
		pos, eof, err = file.Seek(ctx, 0, export.SeekHole)
		f.ok(err)
		f.check(pos == 0 && !eof, "within a hole: %d, eof %v", pos, eof)
		pos, _, err = file.Seek(ctx, 0, export.SeekData)
		f.ok(err)
		f.check(pos > 7<<20 && pos <= 8<<20, "first data: %d", pos)
		pos, eof, err = file.Seek(ctx, 8<<20, export.SeekHole)
		f.ok(err)
		f.check(pos == 8<<20+4 && eof, "hole at the end: %d, eof %v", pos, eof)
	}},
	{name: "Seek/TrailingHole", needs: seek, run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		f.set(file.Object(), export.SetAttr{Set: export.SetSize, Size: 32 << 20})
		pos, eof, err := file.Seek(ctx, 16<<20, export.SeekData)
		f.ok(err)
		f.check(eof && pos == 32<<20, "data in the trailing hole: %d, eof %v", pos, eof)
	}},
	{name: "Seek/AtAndBehindEOF", needs: seek, run: func(f *fixture) {
		file, empty := f.file("f", []byte("data")), f.file("empty", nil)
		for _, what := range []export.SeekWhat{export.SeekData, export.SeekHole} {
			for _, off := range []uint64{4, 5, 1 << 40, 1 << 63, 1<<64 - 1} {
				_, _, err := file.Seek(ctx, off, what)
				f.want(fmt.Sprintf("%d from %d", what, off), err, export.ErrNXIO)
			}
			_, _, err := empty.Seek(ctx, 0, what)
			f.want("empty file", err, export.ErrNXIO)
		}
	}},
	{name: "Seek/BadWhat", needs: seek, run: func(f *fixture) {
		_, _, err := f.file("f", []byte("data")).Seek(ctx, 0, 7)
		f.want("what 7", err, export.ErrInval)
	}},
	{name: "Seek/DataWrittenAMomentAgo", needs: seek, run: func(f *fixture) {
		file := f.file("f", nil)
		f.set(file.Object(), export.SetAttr{Set: export.SetSize, Size: 8 << 20})
		for i := range uint64(20) {
			off := (i * 7919 * 64) % (8 << 20)
			f.writeFile(file, off, []byte{1})
			pos, eof, err := file.Seek(ctx, off, export.SeekData)
			f.ok(err)
			f.check(pos == off && !eof, "data at %d found at %d", off, pos)
			f.truthful("while writing", file)
		}
	}},
	{name: "Seek/NotSupported", without: seek, run: func(f *fixture) {
		_, _, err := f.file("f", []byte("data")).Seek(ctx, 0, export.SeekData)
		f.want("seek", err, export.ErrNotSupp)
	}},
	{name: "Deallocate/Zeros", needs: deallocate, run: func(f *fixture) {
		for _, r := range [][2]int{{0, 1}, {0, 65536}, {1, 65534}, {65535, 2}, {4096, 200000}, {100, 299900}, {0, 300000}, {299999, 1}, {131072, 131072}} {
			want := pattern(uint64(r[0]), 300000)
			file := f.file(fmt.Sprintf("f%d.%d", r[0], r[1]), want)
			before := f.attr(file.Object())
			f.ok(file.Deallocate(ctx, uint64(r[0]), uint64(r[1])))
			clear(want[r[0] : r[0]+r[1]])
			f.holds(file, want)
			f.check(f.attr(file.Object()).Change != before.Change, "change attribute stays")
			if f.feat.Seek {
				f.truthful("punched", file)
			}
			f.writeFile(file, uint64(r[0]), []byte("x"))
			want[r[0]] = 'x'
			f.holds(file, want)
		}
	}},
	{name: "Deallocate/FreesSpace", needs: deallocate, run: func(f *fixture) {
		file := f.file("f", pattern(1, 8<<20))
		f.ok(file.Commit(ctx, 0, 0))
		before := f.attr(file.Object()).Used
		f.ok(file.Deallocate(ctx, 1<<20, 6<<20))
		after := f.attr(file.Object())
		f.check(after.Used+5<<20 <= before && after.Size == 8<<20, "used %d, then %d; size %d", before, after.Used, after.Size)
		if f.feat.Seek {
			f.check(f.truthful("punched", file) >= 5<<20, "extents %v", f.walk(file))
		}
	}},
	{name: "Deallocate/WithinTheSize", needs: deallocate, run: func(f *fixture) {
		file := f.file("f", []byte("0123456789"))
		f.ok(file.Deallocate(ctx, 5, 100))
		f.holds(file, []byte("01234\x00\x00\x00\x00\x00"))
		before := f.attr(file.Object())
		f.ok(file.Deallocate(ctx, 10, 5))
		f.ok(file.Deallocate(ctx, 1<<40, 1<<40))
		f.check(f.attr(file.Object()).Size == before.Size, "size %d", f.attr(file.Object()).Size)
	}},
	{name: "Deallocate/Nothing", needs: deallocate, run: func(f *fixture) {
		f.want("0 bytes", f.file("f", []byte("data")).Deallocate(ctx, 0, 0), export.ErrInval)
	}},
	{name: "Deallocate/NotSupported", without: deallocate, run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		f.want("deallocate", file.Deallocate(ctx, 0, 2), export.ErrNotSupp)
		f.holds(file, []byte("data"))
	}},
	{name: "Allocate/Extends", needs: allocate, run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		before := f.attr(file.Object())
		f.ok(file.Allocate(ctx, 100, 200000))
		f.holds(file, append([]byte("data"), make([]byte, 200096)...))
		after := f.attr(file.Object())
		f.check(after.Used >= 200000 && after.Change != before.Change, "used %d", after.Used)
		f.writeFile(file, 150000, []byte("more"))
		f.check(f.attr(file.Object()).Size == 200100, "size %d", f.attr(file.Object()).Size)
		if f.feat.Seek {
			f.truthful("allocated", file)
		}
	}},
	{name: "Allocate/KeepsData", needs: allocate, run: func(f *fixture) {
		data := pattern(1, 100000)
		file := f.file("f", data)
		f.ok(file.Allocate(ctx, 0, 50000))
		f.ok(file.Allocate(ctx, 99999, 1))
		f.holds(file, data)
	}},
	{name: "Allocate/TooMuch", needs: allocate, run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		f.want("0 bytes", file.Allocate(ctx, 0, 0), export.ErrInval)
		f.want("beyond the largest file", file.Allocate(ctx, f.feat.MaxFileSize, 1), export.ErrFBig)
		f.want("to 2^64", file.Allocate(ctx, 1<<63, 1<<63), export.ErrFBig)
		f.holds(file, []byte("data"))
	}},
	{name: "Allocate/NotSupported", without: allocate, run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		f.want("allocate", file.Allocate(ctx, 0, 100), export.ErrNotSupp)
		f.holds(file, []byte("data"))
	}},
}
