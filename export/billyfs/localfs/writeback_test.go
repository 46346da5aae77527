//go:build linux

package localfs_test

import (
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/billyfs/localfs"
)

// failsOnce is a disk whose write-back failed. As Linux does for an open file,
// and libcephfs too, it tells one sync of it, the first that comes.
type failsOnce struct {
	*localfs.FS
	armed  atomic.Bool
	taken  chan struct{} // size 1: a sync has the error, and is still to return it
	slow   chan struct{} // closed when it may
	writes atomic.Int64
}

type failsOnceFile struct {
	*localfs.File
	fs *failsOnce
}

func (f *failsOnce) OpenNode(p string, flag int, perm uint32) (billyfs.File, error) {
	file, err := f.FS.OpenNode(p, flag, perm)
	if err != nil {
		return nil, err
	}
	return &failsOnceFile{file.(*localfs.File), f}, nil
}

func (f *failsOnceFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.fs.writes.Add(1)
	return n, err
}

func (f *failsOnceFile) sync(do func() error) error {
	if f.fs.armed.CompareAndSwap(true, false) {
		f.fs.taken <- struct{}{}
		<-f.fs.slow
		return syscall.EIO
	}
	return do()
}

func (f *failsOnceFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *failsOnceFile) Datasync() error { return f.sync(f.File.Datasync) }

// newFailsOnce returns a Volume with a file that is open twice.
func newFailsOnce(t *testing.T, async bool) (fs *failsOnce, v *billyfs.Volume, a, b export.File) {
	t.Helper()
	fs = &failsOnce{
		FS:    must[*localfs.FS](t)(localfs.Open(t.TempDir())),
		taken: make(chan struct{}, 1), slow: make(chan struct{}),
	}
	v = must[*billyfs.Volume](t)(billyfs.NewVolume(fs, billyfs.Options{Async: async, Linger: time.Hour}))
	root := must[export.Object](t)(v.Root(t.Context()))
	args := &export.Create{Open: export.OpenRead | export.OpenWrite}
	a = must[export.Created](t)(v.Create(t.Context(), sys, root, "f", args)).File
	b = must[export.File](t)(v.Open(t.Context(), sys, a.Object(), export.OpenWrite))
	t.Cleanup(func() {
		a.Close()
		b.Close()
		if err := v.Close(t.Context()); err != nil {
			t.Error(err)
		}
		fs.Close()
	})
	return fs, v, a, b
}

// TestCommitBesideAFailedOne: it may succeed only with the new verifier.
func TestCommitBesideAFailedOne(t *testing.T) {
	fs, v, a, b := newFailsOnce(t, true)
	before := v.WriteVerifier()
	for _, f := range []export.File{a, b} {
		if _, _, err := f.WriteAt(t.Context(), sys, []byte("x"), 0, export.Unstable); err != nil {
			t.Fatal(err)
		}
	}
	fs.armed.Store(true)
	first := make(chan error, 1)
	go func() { first <- a.Commit(t.Context(), 0, 0) }()
	<-fs.taken
	type answer struct {
		err      error
		verifier [8]byte
	}
	second := make(chan answer, 1)
	go func() {
		err := b.Commit(t.Context(), 0, 0)
		second <- answer{err, v.WriteVerifier()}
	}()
	var got answer
	select {
	case got = <-second:
		close(fs.slow)
	case <-time.After(100 * time.Millisecond): // it waits for the first
		close(fs.slow)
		got = <-second
	}
	wantStatus(t, "the first commit", <-first, export.ErrIO)
	if got.err == nil && got.verifier == before {
		t.Error("the second commit succeeded with the verifier of before the loss")
	}
}

// TestStableWriteBesideAFailedCommit: nobody compares the verifier of a stable
// write, so it has to fail itself.
func TestStableWriteBesideAFailedCommit(t *testing.T) {
	for _, stable := range []export.Stability{export.DataSync, export.FileSync} {
		fs, _, a, b := newFailsOnce(t, true)
		fs.armed.Store(true)
		first := make(chan error, 1)
		go func() { first <- a.Commit(t.Context(), 0, 0) }()
		<-fs.taken
		second := make(chan error, 1)
		go func() {
			_, _, err := b.WriteAt(t.Context(), sys, []byte("x"), 0, stable)
			second <- err
		}()
		for fs.writes.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		close(fs.slow)
		wantStatus(t, "commit", <-first, export.ErrIO)
		wantStatus(t, "stable write", <-second, export.ErrIO)
		if _, _, err := b.WriteAt(t.Context(), sys, []byte("x"), 0, stable); err != nil {
			t.Errorf("a write begun later: %v", err)
		}
	}
}

// TestSetAttrTakesTheFailure: on a file without a name attributes are synced
// through the file that data are written through.
func TestSetAttrTakesTheFailure(t *testing.T) {
	fs, v, a, _ := newFailsOnce(t, false)
	close(fs.slow)
	if _, _, err := a.WriteAt(t.Context(), sys, []byte("x"), 0, export.Unstable); err != nil {
		t.Fatal(err)
	}
	root := must[export.Object](t)(v.Root(t.Context()))
	if _, _, err := v.Remove(t.Context(), sys, root, "f", export.RemoveFile); err != nil {
		t.Fatal(err)
	}
	before := v.WriteVerifier()
	fs.armed.Store(true)
	_, err := v.SetAttr(t.Context(), sys, a.Object(), a, &export.SetAttr{Set: export.SetMode, Mode: 0o640})
	wantStatus(t, "setattr", err, export.ErrIO)
	if v.WriteVerifier() == before {
		t.Error("the verifier stayed")
	}
}

// TestFilesystemSyncBesideAFailedOne: both are told.
func TestFilesystemSyncBesideAFailedOne(t *testing.T) {
	fs, v, _, _ := newFailsOnce(t, true)
	close(fs.slow)
	files := billyfs.NewFilesystem(t.Context(), v, sys)
	var hs [2]billyfs.Syncer
	for i := range hs {
		f, err := files.OpenFile("f", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		hs[i] = f.(billyfs.Syncer)
		defer f.Close()
		if _, err := f.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	fs.armed.Store(true)
	for i, h := range hs {
		if err := h.Sync(); err == nil {
			t.Errorf("sync %d hides that data were lost", i)
		}
	}
	if err := hs[1].Sync(); err != nil {
		t.Errorf("a sync with nothing written since: %v", err)
	}
}
