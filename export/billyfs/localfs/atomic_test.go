//go:build linux

package localfs_test

import (
	"testing"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/billyfs/localfs"
)

// hooked runs a function within a sync of attributes, which takes long on a
// disk, and one behind each write to a file, before it is told of.
type hooked struct {
	*localfs.FS
	sync, written func()
}

type hookedFile struct {
	*localfs.File
	fs *hooked
}

func (f *hooked) OpenNode(p string, flag int, perm uint32) (billyfs.File, error) {
	file, err := f.FS.OpenNode(p, flag, perm)
	if err != nil {
		return nil, err
	}
	return &hookedFile{file.(*localfs.File), f}, nil
}

func (f *hookedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if f.fs.written != nil {
		f.fs.written()
	}
	return n, err
}

func (f *hooked) SyncAttrs(p string) error {
	if f.sync != nil {
		f.sync()
	}
	return f.FS.SyncAttrs(p)
}

// TestWriteWithinSetAttr: a call that another's write came into is not called
// atomic, since a client would take the write for its own doing and keep the
// old data.
func TestWriteWithinSetAttr(t *testing.T) {
	fs := &hooked{FS: must[*localfs.FS](t)(localfs.Open(t.TempDir()))}
	defer fs.Close()
	v := must[*billyfs.Volume](t)(billyfs.NewVolume(fs, billyfs.Options{}))
	defer v.Close(t.Context())
	root := must[export.Object](t)(v.Root(t.Context()))
	made := must[export.Created](t)(v.Create(t.Context(), sys, root, "f", &export.Create{Open: export.OpenWrite}))
	defer made.File.Close()
	write := func() {
		if _, _, err := made.File.WriteAt(t.Context(), sys, []byte("data"), 0, export.Unstable); err != nil {
			t.Error(err)
		}
	}
	calls := map[string]func() (export.Change, error){
		"setattr": func() (export.Change, error) {
			return v.SetAttr(t.Context(), sys, made.Object, nil, &export.SetAttr{Set: export.SetMode, Mode: 0o640})
		},
		"setxattr": func() (export.Change, error) {
			return v.SetXattr(t.Context(), sys, made.Object, "a", []byte("v"), export.XattrEither)
		},
	}
	for name, call := range calls {
		if name == "setxattr" && !v.Features().Xattrs {
			continue
		}
		check := func(when string, atomic bool) {
			t.Helper()
			if ch := must[export.Change](t)(call()); ch.Atomic != atomic {
				t.Errorf("%s, %s: atomic is %v", name, when, ch.Atomic)
			}
		}
		write()
		check("beside an open writer", true)

		fs.sync = write
		check("with a write within", false)

		// A write that has reached the file and is not done yet.
		reached, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		fs.written = func() {
			close(reached)
			<-finish
		}
		fs.sync = func() {
			go func() {
				defer close(done)
				write()
			}()
			<-reached
		}
		check("with a write under way", false)
		close(finish)
		<-done
		fs.sync, fs.written = nil, nil
		check("afterwards", true)
	}
}
