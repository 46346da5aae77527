//go:build linux

package localfs_test

import (
	"testing"
	"time"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/billyfs/localfs"
)

// midLink runs a function behind the look-up of one path, once, and one ahead
// of each link.
type midLink struct {
	*localfs.FS
	path           string
	looked, before func()
}

func (f *midLink) LstatInode(p string, m export.AttrMask) (billyfs.Info, error) {
	info, err := f.FS.LstatInode(p, m)
	if do := f.looked; do != nil && p == f.path {
		f.looked = nil
		do()
	}
	return info, err
}

func (f *midLink) Link(from, to string) error {
	f.before()
	return f.FS.Link(from, to)
}

// TestLinkOfWhatMoves: the directory that the object moved into before it was
// locked is held while the path through it is used.
func TestLinkOfWhatMoves(t *testing.T) {
	fs := &midLink{FS: must[*localfs.FS](t)(localfs.Open(t.TempDir())), path: "from/f"}
	defer fs.Close()
	v := must[*billyfs.Volume](t)(billyfs.NewVolume(fs, billyfs.Options{Async: true}))
	defer v.Close(t.Context())
	root := must[export.Object](t)(v.Root(t.Context()))
	dir := func(name string) export.Object {
		return must[export.Created](t)(v.Mkdir(t.Context(), sys, root, name, &export.SetAttr{})).Object
	}
	from, to, links := dir("from"), dir("to"), dir("links")
	o := create(t, v, from, "f")
	fs.looked = func() {
		if _, err := v.Rename(t.Context(), sys, from, "f", to, "f"); err != nil {
			t.Error(err)
		}
	}
	made := make(chan error, 1)
	fs.before = func() {
		go func() {
			_, err := v.Create(t.Context(), sys, to, "g", &export.Create{})
			made <- err
		}()
		select {
		case err := <-made:
			t.Errorf("the directory changed under the link (%v)", err)
			made <- err
		case <-time.After(100 * time.Millisecond): // it waits for the link
		}
	}
	if _, err := v.Link(t.Context(), sys, o, links, "l"); err != nil {
		t.Error(err)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
	if fs.looked != nil {
		t.Error("nothing moved")
	}
}
