package exporttest

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"capstan/export"
)

var openRows = []row{
	{name: "Open/OtherTypes", run: func(f *fixture) {
		_, err := f.v.Open(ctx, root, f.mkdir("d", 0o755), export.OpenRead)
		f.want("directory", err, export.ErrIsDir)
		if f.feat.Symlinks {
			_, err = f.v.Open(ctx, root, f.symlink("l", "d"), export.OpenRead)
			f.want("symlink", err, export.ErrSymlink)
		}
		if f.feat.Special {
			_, err = f.v.Open(ctx, root, f.mknod("p", export.TypeFIFO), export.OpenRead)
			f.want("FIFO", err, export.ErrInval)
		}
	}},
	{name: "Open/ModeIsKept", run: func(f *fixture) {
		o := f.create("f", 0o644)
		r, w := f.open(root, o, export.OpenRead), f.open(root, o, export.OpenWrite)
		f.check(r.Object() == o, "object %v", r.Object())
		_, _, err := r.WriteAt(ctx, root, []byte("x"), 0, export.Unstable)
		f.want("write to a file open for reading", err, export.ErrAccess)
		_, _, err = w.ReadAt(ctx, make([]byte, 1), 0)
		f.want("read of a file open for writing", err, export.ErrAccess)
		if f.feat.Allocate {
			f.want("allocate", r.Allocate(ctx, 0, 10), export.ErrAccess)
		}
		if f.feat.Deallocate {
			f.want("deallocate", r.Deallocate(ctx, 0, 10), export.ErrAccess)
		}
		f.check(f.attr(o).Size == 0, "size %d", f.attr(o).Size)
	}},
	{name: "Open/ChmodDoesNotReachOpenFiles", needs: users, run: func(f *fixture) {
		file := f.open(alice, f.createAs(alice, f.base, "f", 0o600), readWrite)
		f.chmod(file.Object(), 0)
		f.writeAs(alice, file, 0, []byte("data"))
		f.holds(file, []byte("data"))
	}},
	{name: "Open/SeesOthersWrites", run: func(f *fixture) {
		a := f.file("f", []byte("one"))
		b := f.open(root, a.Object(), readWrite)
		f.holds(b, []byte("one"))
		f.writeFile(b, 3, []byte(" two"))
		f.holds(a, []byte("one two"))
	}},
}

var readRows = []row{
	// Trial 4.
	{name: "Read/AroundEOF", run: func(f *fixture) {
		ten := f.file("ten", []byte("0123456789"))
		empty := f.file("empty", nil)
		hole := f.file("hole", []byte("01234"))
		f.set(hole.Object(), export.SetAttr{Set: export.SetSize, Size: 10})
		for _, tc := range []struct {
			name string
			file export.File
			off  uint64
			n    int
			want string
			eof  bool
		}{
			{"ten", ten, 0, 4096, "0123456789", true},
			{"ten", ten, 0, 10, "0123456789", true},
			{"ten", ten, 0, 9, "012345678", false},
			{"ten", ten, 5, 5, "56789", true},
			{"ten", ten, 5, 4, "5678", false},
			{"ten", ten, 5, 6, "56789", true},
			{"ten", ten, 9, 1, "9", true},
			{"ten", ten, 10, 1, "", true},
			{"ten", ten, 10, 0, "", true},
			{"ten", ten, 9, 0, "", false},
			{"ten", ten, 0, 0, "", false},
			{"ten", ten, 1 << 62, 1, "", true},
			{"ten", ten, 1 << 63, 1, "", true},
			{"ten", ten, 1<<64 - 1, 4096, "", true},
			{"empty", empty, 0, 4096, "", true},
			{"empty", empty, 0, 0, "", true},
			{"hole", hole, 0, 4096, "01234\x00\x00\x00\x00\x00", true},
			{"hole", hole, 6, 3, "\x00\x00\x00", false},
		} {
			p := bytes.Repeat([]byte{0xaa}, tc.n)
			n, eof, err := tc.file.ReadAt(ctx, p, tc.off)
			f.ok(err)
			f.check(string(p[:n]) == tc.want && eof == tc.eof, "%s at %d, %d bytes: %q eof %v, want %q eof %v",
				tc.name, tc.off, tc.n, p[:n], eof, tc.want, tc.eof)
		}
	}},
	{name: "Read/WholeMegabyte", run: func(f *fixture) {
		data := pattern(1, 1<<20)
		file := f.file("f", data)
		p := make([]byte, 1<<20)
		n, eof, err := file.ReadAt(ctx, p, 0)
		f.ok(err)
		f.check(n == len(p) && eof && bytes.Equal(p, data), "%d bytes, eof %v", n, eof)
	}},
	{name: "Read/AcrossPieces", run: func(f *fixture) {
		data := pattern(2, 300000)
		file := f.file("f", data)
		for _, size := range []int{1, 511, 4095, 4097, 65535, 65537, 131073, 262144} {
			for _, off := range []int{0, 1, 4095, 65535, 65536, 131071, 200000, 299999} {
				p := make([]byte, size)
				n, eof, err := file.ReadAt(ctx, p, uint64(off))
				f.ok(err)
				want := data[off:min(off+size, len(data))]
				f.check(bytes.Equal(p[:n], want) && eof == (off+size >= len(data)), "%d at %d: %d bytes, eof %v", size, off, n, eof)
			}
		}
	}},
}

// pattern returns n bytes that hang on seed and repeat nowhere near.
func pattern(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, seed))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

var writeRows = []row{
	{name: "Write/Extends", run: func(f *fixture) {
		file := f.file("f", nil)
		f.writeFile(file, 0, []byte("abc"))
		f.writeFile(file, 3, []byte("def"))
		f.writeFile(file, 1, []byte("BC"))
		f.holds(file, []byte("aBCdef"))
		a := f.attr(file.Object())
		f.check(a.Size == 6, "size %d", a.Size)
	}},
	{name: "Write/BehindTheEndLeavesZeros", run: func(f *fixture) {
		file := f.file("f", []byte("abc"))
		f.writeFile(file, 200000, []byte("xyz"))
		want := make([]byte, 200003)
		copy(want, "abc")
		copy(want[200000:], "xyz")
		f.holds(file, want)
	}},
	{name: "Write/PiecesInAnyOrder", run: func(f *fixture) {
		want := pattern(3, 1<<20)
		file := f.file("f", nil)
		r := rand.New(rand.NewPCG(3, 4))
		const piece = 10007
		for _, i := range r.Perm(len(want)/piece + 1) {
			f.writeFile(file, uint64(i*piece), want[i*piece:min((i+1)*piece, len(want))])
		}
		f.holds(file, want)
	}},
	{name: "Write/Random", run: func(f *fixture) {
		file := f.file("f", nil)
		var want []byte
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 200 {
			off, n := r.IntN(400000), 1+r.IntN(1<<r.IntN(18))
			data := pattern(uint64(i), n)
			if need := off + n - len(want); need > 0 {
				want = append(want, make([]byte, need)...)
			}
			copy(want[off:], data)
			f.writeFile(file, uint64(off), data)
			if i%20 == 0 {
				size := r.IntN(len(want))
				want = want[:size]
				f.set(file.Object(), export.SetAttr{Set: export.SetSize, Size: uint64(size)})
			}
		}
		f.holds(file, want)
	}},
	{name: "Write/CommittedAsAsked", run: func(f *fixture) {
		file := f.file("f", nil)
		for _, stable := range []export.Stability{export.Unstable, export.DataSync, export.FileSync} {
			n, committed, err := file.WriteAt(ctx, root, []byte("data"), 0, stable)
			f.ok(err)
			f.check(n == 4 && committed >= stable && committed <= export.FileSync, "asked %d, got %d", stable, committed)
		}
		f.ok(file.Commit(ctx, 0, 0))
		f.ok(file.Commit(ctx, 2, 1))
		f.ok(file.Commit(ctx, 1<<40, 10))
	}},
	// Trial 2.
	{name: "Write/VerifierStays", run: func(f *fixture) {
		v := f.v.WriteVerifier()
		f.check(v != [8]byte{}, "verifier is zero")
		file := f.file("f", nil)
		for i := range uint64(16) {
			f.writeFile(file, i*4096, pattern(i, 4096))
		}
		f.ok(file.Commit(ctx, 0, 0))
		f.check(f.v.WriteVerifier() == v, "verifier changed from %x to %x", v, f.v.WriteVerifier())
	}},
	{name: "Write/MovesTimes", needs: setTime, run: func(f *fixture) {
		file := f.file("f", nil)
		f.set(file.Object(), export.SetAttr{Set: export.SetMtime, Mtime: export.Timespec{Sec: 1e9}})
		f.writeFile(file, 0, []byte("x"))
		f.ok(file.Commit(ctx, 0, 0))
		f.recent("mtime", f.attr(file.Object()).Mtime)
		f.recent("ctime", f.attr(file.Object()).Ctime)
	}},
	{name: "Write/ClearsSetID", needs: users, run: func(f *fixture) {
		for _, tc := range []struct{ mode, after uint32 }{
			{0o6775, 0o775}, {0o4775, 0o775}, {0o2775, 0o775},
			{0o2765, 0o2765}, // without group execute the bit asks for mandatory locks
			{0o1775, 0o1775},
		} {
			file := f.file(fmt.Sprintf("f%o", tc.mode), []byte("data"))
			f.chown(file.Object(), 0, staff)
			f.chmod(file.Object(), tc.mode)
			f.writeFile(file, 0, []byte("x"))
			f.check(f.attr(file.Object()).Mode == tc.mode, "root wrote to %o: %o", tc.mode, f.attr(file.Object()).Mode)
			f.writeAs(bob, file, 0, []byte("x"))
			f.check(f.attr(file.Object()).Mode == tc.after, "bob wrote to %o: %o, want %o", tc.mode, f.attr(file.Object()).Mode, tc.after)
		}
	}},
	{name: "Write/LargeOffsets", run: func(f *fixture) {
		file := f.file("f", nil)
		offs := []uint64{1 << 31, 1<<32 - 1, 1 << 32, 6 << 30}
		for _, off := range offs {
			f.writeFile(file, off, []byte("at"))
			f.check(f.attr(file.Object()).Size == off+2, "size %d", f.attr(file.Object()).Size)
		}
		for _, off := range offs[1:] {
			p := make([]byte, 2)
			_, _, err := file.ReadAt(ctx, p, off)
			f.ok(err)
			f.check(p[1] == 't' || off == 1<<32-1, "at %d: %q", off, p)
		}
		a := f.attr(file.Object())
		f.check(!f.feat.Seek || a.Used < 64<<20, "a few bytes take %d", a.Used)
	}},
	{name: "Write/LastByte", run: func(f *fixture) {
		file := f.file("f", nil)
		top := f.feat.MaxFileSize - 1
		n, _, err := file.WriteAt(ctx, root, []byte("z"), top, export.Unstable)
		f.ok(err)
		a := f.attr(file.Object())
		f.check(n == 1 && a.Size == top+1, "wrote %d, size %d", n, a.Size)
		p := make([]byte, 10)
		n, eof, err := file.ReadAt(ctx, p, top-1)
		f.ok(err)
		f.check(string(p[:n]) == "\x00z" && eof, "read %q, eof %v", p[:n], eof)
	}},
	{name: "Write/BeyondTheLimit", run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		before := f.attr(file.Object())
		for _, off := range []uint64{f.feat.MaxFileSize, f.feat.MaxFileSize + 1, 1<<64 - 1} {
			_, _, err := file.WriteAt(ctx, root, []byte("xy"), off, export.Unstable)
			f.want(fmt.Sprintf("at %d", off), err, export.ErrFBig)
		}
		f.unchanged("refused writes", file.Object(), before)
	}},
	{name: "Write/BufferIsTheCallers", run: func(f *fixture) {
		file := f.file("f", nil)
		p := bytes.Repeat([]byte("a"), 100000)
		f.writeFile(file, 0, p)
		clear(p)
		f.check(f.content(file)[99999] == 'a', "the file shares the caller's buffer")
	}},
	{name: "Write/UsedGrows", run: func(f *fixture) {
		file := f.file("f", nil)
		f.writeFile(file, 0, pattern(1, 1<<20))
		f.ok(file.Commit(ctx, 0, 0))
		used := f.attr(file.Object()).Used
		f.check(used >= 1<<20 && used < 2<<20, "1 MiB takes %d", used)
	}},
}
