package memory

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"capstan/export"
)

var (
	ctx  = context.Background()
	root = &export.Cred{}
)

func newVolume(t testing.TB, opt Options) *Volume {
	t.Helper()
	v, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func create(t testing.TB, v *Volume, name string) export.File {
	t.Helper()
	res, err := v.Create(ctx, root, v.root.object(), name, &export.Create{Open: export.OpenRead | export.OpenWrite})
	if err != nil {
		t.Fatal(err)
	}
	return res.File
}

// checkEmpty: nothing but the root is left, and no room is taken.
func checkEmpty(t *testing.T, v *Volume) {
	t.Helper()
	s, err := v.StatFS(ctx, v.root.object())
	if err != nil {
		t.Fatal(err)
	}
	if s.FreeBytes != s.TotalBytes || s.FreeFiles != s.TotalFiles-1 {
		t.Errorf("left behind: %d bytes, %d objects", s.TotalBytes-s.FreeBytes, s.TotalFiles-s.FreeFiles-1)
	}
}

func TestUnlinkedFileIsFreedAtLastClose(t *testing.T) {
	v := newVolume(t, Options{})
	f := create(t, v, "f")
	if _, _, err := f.WriteAt(ctx, root, bytes.Repeat([]byte("x"), 1<<20), 5, export.Unstable); err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.Remove(ctx, root, v.root.object(), "f", export.RemoveFile); err != nil {
		t.Fatal(err)
	}
	if _, err := v.GetAttr(ctx, root, f.Object(), export.MaskAll); err != nil {
		t.Errorf("open and unlinked: %v", err)
	}
	f.Close()
	if _, err := v.GetAttr(ctx, root, f.Object(), export.MaskAll); export.StatusOf(err) != export.ErrStale {
		t.Errorf("closed and unlinked: %v", err)
	}
	checkEmpty(t, v)
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	v := newVolume(t, Options{})
	f := create(t, v, "f")
	p := make([]byte, 1<<20)
	if _, _, err := f.WriteAt(ctx, root, p, 0, export.Unstable); err != nil {
		t.Fatal(err)
	}
	o, dir := f.Object(), v.root.object()
	for _, tc := range []struct {
		name string
		do   func() error
	}{
		{"GetAttr", func() error { _, err := v.GetAttr(ctx, root, o, export.MaskAll); return err }},
		{"Access", func() error { _, _, err := v.Access(ctx, root, o, export.AccessRead); return err }},
		{"Lookup", func() error { _, _, err := v.Lookup(ctx, root, dir, "f", export.MaskAll); return err }},
		{"ReadAt", func() error { _, _, err := f.ReadAt(ctx, p, 0); return err }},
		{"WriteAt", func() error { _, _, err := f.WriteAt(ctx, root, p, 0, export.Unstable); return err }},
		{"SetAttr", func() error { _, err := v.SetAttr(ctx, root, o, nil, &export.SetAttr{}); return err }},
	} {
		var err error
		if n := testing.AllocsPerRun(20, func() { err = tc.do() }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", tc.name, n, err)
		}
	}
}

func TestInodesAreNeverReused(t *testing.T) {
	v, w := newVolume(t, Options{}), newVolume(t, Options{})
	seen := map[uint64]bool{}
	for range 1000 {
		f := create(t, v, "f")
		if ino := f.Object().Ino; seen[ino] || ino <= rootIno || ino >= 1<<63 {
			t.Fatalf("inode %d", ino)
		} else {
			seen[ino] = true
		}
		f.Close()
		if _, _, err := v.Remove(ctx, root, v.root.object(), "f", export.RemoveAny); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		f := create(t, w, "f")
		if seen[f.Object().Ino] {
			t.Fatalf("two Volumes use inode %d", f.Object().Ino)
		}
		f.Close()
		if _, _, err := w.Remove(ctx, root, w.root.object(), "f", export.RemoveAny); err != nil {
			t.Fatal(err)
		}
	}
	checkEmpty(t, v)
	if v.WriteVerifier() == w.WriteVerifier() {
		t.Error("two Volumes have one write verifier")
	}
}

// TestChangeGrowsWithoutTheClock: the change attribute grows within a tick and
// while the clock is set back.
func TestChangeGrowsWithoutTheClock(t *testing.T) {
	now := time.Unix(1e9, 0)
	v := newVolume(t, Options{Now: func() time.Time { return now }})
	f := create(t, v, "f")
	dir := v.root.object()
	var last, lastDir uint64
	for i := range 100 {
		now = now.Add([]time.Duration{0, time.Nanosecond, -time.Hour}[i%3])
		if _, _, err := f.WriteAt(ctx, root, []byte("x"), 0, export.Unstable); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Rename(ctx, root, dir, "f", dir, "g"); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Rename(ctx, root, dir, "g", dir, "f"); err != nil {
			t.Fatal(err)
		}
		a, _ := v.GetAttr(ctx, root, f.Object(), export.MaskAll)
		d, _ := v.GetAttr(ctx, root, dir, export.MaskAll)
		if a.Change <= last || d.Change <= lastDir {
			t.Fatalf("step %d: change %d after %d, directory %d after %d", i, a.Change, last, d.Change, lastDir)
		}
		last, lastDir = a.Change, d.Change
	}
}

func TestTooManyLinks(t *testing.T) {
	v := newVolume(t, Options{})
	f := create(t, v, "f")
	n, _ := v.get(f.Object())
	n.attr.Nlink = maxLink - 1 // nobody else is here
	dir := v.root.object()
	if _, err := v.Link(ctx, root, f.Object(), dir, "a"); err != nil {
		t.Fatal(err)
	}
	_, err := v.Link(ctx, root, f.Object(), dir, "b")
	wantStatus(t, "one link more", err, export.ErrMLink)
	if _, _, err := v.Lookup(ctx, root, dir, "b", 0); export.StatusOf(err) != export.ErrNoEnt {
		t.Errorf("lookup: %v", err)
	}
}

func TestNamesTooLong(t *testing.T) {
	v := newVolume(t, Options{})
	f, dir := create(t, v, "f"), v.root.object()
	long := strings.Repeat("n", maxName+1)
	_, _, err := v.Lookup(ctx, root, dir, long, 0)
	wantStatus(t, "lookup", err, export.ErrNameTooLong)
	_, err = v.Create(ctx, root, dir, long, &export.Create{})
	wantStatus(t, "create", err, export.ErrNameTooLong)
	_, err = v.Link(ctx, root, f.Object(), dir, long)
	wantStatus(t, "link", err, export.ErrNameTooLong)
	_, err = v.Rename(ctx, root, dir, "f", dir, long)
	wantStatus(t, "rename", err, export.ErrNameTooLong)
	_, _, err = v.Remove(ctx, root, dir, long, export.RemoveAny)
	wantStatus(t, "remove", err, export.ErrNameTooLong)
	_, err = v.Symlink(ctx, root, dir, "l", strings.Repeat("t", maxTarget+1), nil)
	wantStatus(t, "symlink", err, export.ErrNameTooLong)
}

func TestSnapshotsAreStale(t *testing.T) {
	v := newVolume(t, Options{})
	o := v.root.object()
	o.Snap = 5
	_, err := v.GetAttr(ctx, root, o, export.MaskAll)
	wantStatus(t, "an object of a snapshot", err, export.ErrStale)
}

// TestListingEndsWhileNamesAreAdded: one new name for each that is listed.
func TestListingEndsWhileNamesAreAdded(t *testing.T) {
	v := newVolume(t, Options{})
	dir := v.root.object()
	for i := range 100 {
		create(t, v, fmt.Sprint(i)).Close()
	}
	listed, cookie, eof := 0, uint64(0), false
	for !eof {
		var err error
		n := 0
		eof, err = v.ReadDir(ctx, root, dir, cookie, 0, func(e *export.Dirent) bool {
			if n == 1 {
				return false
			}
			n++
			cookie = e.Cookie
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		listed += n
		if listed > 100 {
			t.Fatal("the listing does not end")
		}
		create(t, v, fmt.Sprint("more", listed)).Close()
	}
}

// TestDirectoryListStaysShort: places of removed entries are reclaimed.
func TestDirectoryListStaysShort(t *testing.T) {
	v := newVolume(t, Options{})
	for i := range 5000 {
		create(t, v, fmt.Sprint(i)).Close()
		if i >= 10 {
			if _, _, err := v.Remove(ctx, root, v.root.object(), fmt.Sprint(i-10), export.RemoveAny); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(v.root.dir.order); n > 64 {
		t.Errorf("%d places for 10 entries", n)
	}
}
