package memory

import (
	"fmt"
	"testing"

	"capstan/export"
)

func BenchmarkGetAttr(b *testing.B) {
	v := newVolume(b, Options{})
	var objects []export.Object
	for i := range 16 {
		f := create(b, v, fmt.Sprint(i))
		objects = append(objects, f.Object())
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := v.GetAttr(ctx, root, objects[i%len(objects)], export.MaskAll); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	v := newVolume(b, Options{})
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("file%d", i))
		create(b, v, names[i]).Close()
	}
	user := &export.Cred{UID: 1000, GID: 1000, Groups: []uint32{4, 20}}
	dir := v.root.object()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, _, err := v.Lookup(ctx, user, dir, names[i%len(names)], export.MaskAll); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkReadDir(b *testing.B) {
	v := newVolume(b, Options{})
	for i := range 1000 {
		create(b, v, fmt.Sprintf("file%d", i)).Close()
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if _, err := v.ReadDir(ctx, root, v.root.object(), 0, export.MaskAll, func(*export.Dirent) bool { n++; return true }); err != nil || n != 1000 {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkCreateRemove(b *testing.B) {
	v := newVolume(b, Options{})
	dir := v.root.object()
	b.ReportAllocs()
	for b.Loop() {
		create(b, v, "f").Close()
		if _, _, err := v.Remove(ctx, root, dir, "f", export.RemoveAny); err != nil {
			b.Fatal(err)
		}
	}
}

// benchIO moves whole MiB over a 64 MiB file; BenchmarkCopy is what it is to
// be compared with.
func benchIO(b *testing.B, size int, io func(f export.File, p []byte, off uint64) error) {
	const span = 64 << 20
	v := newVolume(b, Options{})
	f := create(b, v, "f")
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(i)
	}
	for off := uint64(0); off < span; off += uint64(size) {
		if _, _, err := f.WriteAt(ctx, root, p, off, export.Unstable); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	off := uint64(0)
	for b.Loop() {
		if err := io(f, p, off); err != nil {
			b.Fatal(err)
		}
		off = (off + uint64(size)) % span
	}
}

func BenchmarkReadAt(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			benchIO(b, size, func(f export.File, p []byte, off uint64) error {
				_, _, err := f.ReadAt(ctx, p, off)
				return err
			})
		})
	}
}

func BenchmarkWriteAt(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			benchIO(b, size, func(f export.File, p []byte, off uint64) error {
				_, _, err := f.WriteAt(ctx, root, p, off, export.Unstable)
				return err
			})
		})
	}
}

// BenchmarkRewrite writes a 16 MiB file again and again from size 0, as a
// client does that saves a file.
func BenchmarkRewrite(b *testing.B) {
	v := newVolume(b, Options{})
	f := create(b, v, "f")
	p := make([]byte, 1<<20)
	b.SetBytes(16 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.SetAttr(ctx, root, f.Object(), f, &export.SetAttr{Set: export.SetSize}); err != nil {
			b.Fatal(err)
		}
		for off := uint64(0); off < 16<<20; off += 1 << 20 {
			if _, _, err := f.WriteAt(ctx, root, p, off, export.Unstable); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	small, large := make([]byte, 1<<20), make([]byte, 64<<20)
	for i := range large {
		large[i] = byte(i)
	}
	for _, bc := range []struct {
		name string
		copy func(off int)
	}{
		{"out", func(off int) { copy(small, large[off:]) }},
		{"in", func(off int) { copy(large[off:], small) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(int64(len(small)))
			off := 0
			for b.Loop() {
				bc.copy(off)
				off = (off + len(small)) % len(large)
			}
		})
	}
}

func BenchmarkReadAtParallelOneFile(b *testing.B) {
	v := newVolume(b, Options{})
	f := create(b, v, "f")
	if _, _, err := f.WriteAt(ctx, root, make([]byte, 8<<20), 0, export.Unstable); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		p := make([]byte, 1<<20)
		for off := uint64(0); pb.Next(); off = (off + 1<<20) % (8 << 20) {
			if _, _, err := f.ReadAt(ctx, p, off); err != nil {
				b.Fatal(err)
			}
		}
	})
}
