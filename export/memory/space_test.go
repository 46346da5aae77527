package memory

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"capstan/export"

	"pgregory.net/rapid"
)

func wantStatus(t *testing.T, what string, err error, want export.Status) {
	t.Helper()
	if got := export.StatusOf(err); got != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestFullVolumeWritesWhatFits(t *testing.T) {
	v := newVolume(t, Options{MaxBytes: 1 << 20})
	f := create(t, v, "f")
	p := bytes.Repeat([]byte("x"), 2<<20)
	n, _, err := f.WriteAt(ctx, root, p, 0, export.Unstable)
	wantStatus(t, "2 MiB on 1 MiB", err, export.ErrNoSpc)
	if n <= 0 || n >= 1<<20 {
		t.Fatalf("wrote %d", n)
	}
	a, _ := f.GetAttr(ctx, export.MaskAll)
	if a.Size != uint64(n) {
		t.Errorf("size %d after writing %d", a.Size, n)
	}
	got := make([]byte, n+10)
	if m, eof, err := f.ReadAt(ctx, got, 0); m != n || !eof || err != nil || !bytes.Equal(got[:m], p[:m]) {
		t.Errorf("read %d, %v, %v", m, eof, err)
	}
	n, _, err = f.WriteAt(ctx, root, p, 1<<30, export.Unstable)
	wantStatus(t, "write on a full volume", err, export.ErrNoSpc)
	if b, _ := f.GetAttr(ctx, export.MaskAll); n != 0 || b.Change != a.Change {
		t.Errorf("a failed write of %d bytes changed the file", n)
	}
	if _, _, err = f.WriteAt(ctx, root, []byte("over"), 0, export.Unstable); err != nil {
		t.Errorf("overwriting on a full volume: %v", err)
	}
	dir := v.root.object()
	if _, err := v.Rename(ctx, root, dir, "f", dir, "a much longer name"); err != nil {
		t.Errorf("rename on a full volume: %v", err)
	}
	if _, err := v.SetAttr(ctx, root, f.Object(), nil, &export.SetAttr{Set: export.SetSize}); err != nil {
		t.Error(err)
	}
	if _, _, err = f.WriteAt(ctx, root, p[:1<<19], 0, export.Unstable); err != nil {
		t.Errorf("after truncating: %v", err)
	}
}

func TestTooManyObjects(t *testing.T) {
	v := newVolume(t, Options{MaxFiles: 3})
	dir := v.root.object()
	create(t, v, "a").Close()
	create(t, v, "b").Close()
	_, err := v.Mkdir(ctx, root, dir, "c", &export.SetAttr{})
	wantStatus(t, "a fourth object", err, export.ErrNoSpc)
	if _, _, err := v.Remove(ctx, root, dir, "a", export.RemoveAny); err != nil {
		t.Fatal(err)
	}
	create(t, v, "c").Close()
}

func TestNamesAndAttributesTakeSpace(t *testing.T) {
	v := newVolume(t, Options{MaxBytes: 100 << 10})
	dir := v.root.object()
	f := create(t, v, "f")
	full := func(what string, do func(i int) error) {
		t.Helper()
		for i := range 10000 {
			if err := do(i); err != nil {
				wantStatus(t, what, err, export.ErrNoSpc)
				return
			}
		}
		t.Errorf("%s never fill the volume", what)
	}
	full("xattrs", func(i int) error {
		_, err := v.SetXattr(ctx, root, f.Object(), fmt.Sprint(i), make([]byte, 1000), export.XattrEither)
		return err
	})
	if _, _, err := v.Remove(ctx, root, dir, "f", export.RemoveFile); err != nil {
		t.Fatal(err)
	}
	f.Close()
	checkEmpty(t, v)
	g := create(t, v, "g")
	full("links", func(i int) error {
		_, err := v.Link(ctx, root, g.Object(), dir, fmt.Sprint(i))
		return err
	})
	g.Close()
}

func TestSparseFileCostsNothing(t *testing.T) {
	v := newVolume(t, Options{MaxBytes: 1 << 20})
	f := create(t, v, "f")
	if _, err := v.SetAttr(ctx, root, f.Object(), nil, &export.SetAttr{Set: export.SetSize, Size: 6 << 30}); err != nil {
		t.Fatal(err)
	}
	for _, off := range []uint64{0, 3 << 30, 6<<30 - 1, maxFileSize - 1} {
		if _, _, err := f.WriteAt(ctx, root, []byte{1}, off, export.Unstable); err != nil {
			t.Fatal(err)
		}
	}
	if a, _ := f.GetAttr(ctx, export.MaskAll); a.Used > 4*chunkSize || a.Size != maxFileSize {
		t.Errorf("size %d, used %d", a.Size, a.Used)
	}
	var data []uint64
	for off := uint64(0); ; {
		pos, eof, err := f.Seek(ctx, off, export.SeekData)
		if err != nil {
			t.Fatal(err)
		}
		if eof {
			break
		}
		data = append(data, pos)
		off, eof, err = f.Seek(ctx, pos, export.SeekHole)
		if err != nil {
			t.Fatal(err)
		}
		if eof {
			break
		}
	}
	if len(data) != 4 {
		t.Errorf("data at %v", data)
	}
	if err := f.Deallocate(ctx, 0, 1<<64-1); err != nil {
		t.Fatal(err)
	}
	if a, _ := f.GetAttr(ctx, export.MaskAll); a.Used != 0 || a.Size != maxFileSize {
		t.Errorf("punched: size %d, used %d", a.Size, a.Used)
	}
}

func TestAllocateTakesAllOrNothing(t *testing.T) {
	v := newVolume(t, Options{MaxBytes: 10 << 20})
	f := create(t, v, "f")
	before, _ := v.StatFS(ctx, f.Object())
	for _, n := range []uint64{11 << 20, 1 << 40, 1 << 62, maxFileSize} {
		wantStatus(t, fmt.Sprint(n), f.Allocate(ctx, 0, n), export.ErrNoSpc)
	}
	if after, _ := v.StatFS(ctx, f.Object()); after != before {
		t.Errorf("failed reservations took %d", before.FreeBytes-after.FreeBytes)
	}
	if err := f.Allocate(ctx, 100, 9<<20); err != nil {
		t.Fatal(err)
	}
	// The room is there for the file, however full the Volume gets.
	g := create(t, v, "g")
	for off := uint64(0); ; off += 4096 {
		if _, _, err := g.WriteAt(ctx, root, make([]byte, 4096), off, export.Unstable); err != nil {
			break
		}
	}
	if _, _, err := f.WriteAt(ctx, root, bytes.Repeat([]byte("x"), 9<<20), 100, export.Unstable); err != nil {
		t.Errorf("write into reserved room: %v", err)
	}
	dir := v.root.object()
	for _, name := range []string{"f", "g"} {
		if _, _, err := v.Remove(ctx, root, dir, name, export.RemoveAny); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	g.Close()
	checkEmpty(t, v)
}

// TestContentAgainstBytes compares a file with a byte slice, on chunks that
// held other data before.
func TestContentAgainstBytes(t *testing.T) {
	dirty := func(v *Volume) {
		f := create(t, v, "dirty")
		if _, _, err := f.WriteAt(ctx, root, bytes.Repeat([]byte{0xee}, 1<<20), 0, export.Unstable); err != nil {
			t.Fatal(err)
		}
		if _, _, err := v.Remove(ctx, root, v.root.object(), "dirty", export.RemoveAny); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := newVolume(t, Options{})
		dirty(v)
		f := create(t, v, "f")
		var want []byte
		grow := func(n int) { want = append(want, make([]byte, max(0, n-len(want)))...) }
		place := rapid.Custom(func(t *rapid.T) int {
			near := rapid.SampledFrom([]int{0, 512, 4096, 16384, 65536, 131072, 262144}).Draw(t, "near")
			return max(0, near+rapid.IntRange(-2, 2).Draw(t, "by"))
		})
		check := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		for i := range rapid.IntRange(1, 20).Draw(rt, "steps") {
			a, b := place.Draw(rt, "a"), place.Draw(rt, "b")
			off, n := min(a, b), max(a, b)-min(a, b)
			switch rapid.SampledFrom([]string{"write", "write", "size", "punch", "allocate"}).Draw(rt, "op") {
			case "write":
				p := bytes.Repeat([]byte{byte(i + 1)}, n)
				_, _, err := f.WriteAt(ctx, root, p, uint64(off), export.Unstable)
				check(err)
				if n > 0 {
					grow(off + n)
					copy(want[off:], p)
				}
			case "size":
				_, err := v.SetAttr(ctx, root, f.Object(), nil, &export.SetAttr{Set: export.SetSize, Size: uint64(off)})
				check(err)
				grow(off)
				want = want[:off:off]
			case "punch":
				check(f.Deallocate(ctx, uint64(off), uint64(n+1)))
				clear(want[min(off, len(want)):min(off+n+1, len(want))])
			case "allocate":
				check(f.Allocate(ctx, uint64(off), uint64(n+1)))
				grow(off + n + 1)
			}
			got := make([]byte, len(want)+10)
			m, eof, err := f.ReadAt(ctx, got, 0)
			check(err)
			if !eof || !bytes.Equal(got[:m], want) {
				rt.Fatalf("differ: %d bytes, want %d", m, len(want))
			}
			checkHoles(rt, f, want)
		}
		if _, _, err := v.Remove(ctx, root, v.root.object(), "f", export.RemoveAny); err != nil {
			rt.Fatal(err)
		}
		f.Close()
		checkEmpty(t, v)
	})
}

func checkHoles(t *rapid.T, f export.File, want []byte) {
	for off := uint64(0); off < uint64(len(want)); {
		data, _, err := f.Seek(ctx, off, export.SeekData)
		if err != nil || data < off {
			t.Fatal(data, err)
		}
		if !bytes.Equal(want[off:data], make([]byte, data-off)) {
			t.Fatalf("data in the hole [%d,%d)", off, data)
		}
		if data == uint64(len(want)) {
			return
		}
		hole, _, err := f.Seek(ctx, data, export.SeekHole)
		if err != nil || hole <= data {
			t.Fatal(hole, err)
		}
		off = hole
	}
}

func TestErrorsNameTheOperation(t *testing.T) {
	v := newVolume(t, Options{})
	_, _, err := v.Lookup(ctx, root, v.root.object(), "nothing", 0)
	var e *export.Error
	if !errors.As(err, &e) || e.Op != "lookup" || e.On != "nothing" || !errors.Is(err, export.ErrNoEnt) {
		t.Errorf("error %#v", err)
	}
}
