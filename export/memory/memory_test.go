package memory

import (
	"bytes"
	"context"
	"testing"

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
