//go:build linux

package localfs_test

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/billyfs/localfs"
)

// faulty counts syncs of files, and fails those that are asked to.
type faulty struct {
	*localfs.FS
	syncs atomic.Int64
	fail  atomic.Bool
}

type faultyFile struct {
	*localfs.File
	fs *faulty
}

func (f *faulty) OpenNode(p string, flag int, perm uint32) (billyfs.File, error) {
	file, err := f.FS.OpenNode(p, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file.(*localfs.File), f}, nil
}

func (f *faultyFile) Sync() error {
	f.fs.syncs.Add(1)
	if f.fs.fail.Load() {
		return syscall.EIO
	}
	return f.File.Sync()
}

func newFaulty(t *testing.T, linger time.Duration) (*faulty, *billyfs.Volume, export.File) {
	t.Helper()
	fs := &faulty{FS: must[*localfs.FS](t)(localfs.Open(t.TempDir()))}
	v := must[*billyfs.Volume](t)(billyfs.NewVolume(fs, billyfs.Options{Async: true, Linger: linger}))
	t.Cleanup(func() {
		_ = v.Close(t.Context()) // fails where the test lets syncs fail
		fs.Close()
	})
	root := must[export.Object](t)(v.Root(t.Context()))
	args := &export.Create{Open: export.OpenRead | export.OpenWrite}
	f := must[export.Created](t)(v.Create(t.Context(), sys, root, "f", args)).File
	if _, _, err := f.WriteAt(t.Context(), sys, []byte("data"), 0, export.Unstable); err != nil {
		t.Fatal(err)
	}
	fs.syncs.Store(0)
	return fs, v, f
}

// TestFailedSyncRollsTheVerifier: by whichever way the failure shows.
func TestFailedSyncRollsTheVerifier(t *testing.T) {
	fs, v, f := newFaulty(t, time.Hour)
	before := v.WriteVerifier()
	if err := f.Commit(t.Context(), 0, 0); err != nil || v.WriteVerifier() != before {
		t.Fatalf("a good commit: %v, verifier changed %v", err, v.WriteVerifier() != before)
	}
	fs.fail.Store(true)
	wantStatus(t, "commit", f.Commit(t.Context(), 0, 0), export.ErrIO)
	after := v.WriteVerifier()
	if after == before {
		t.Error("the verifier stayed after a failed commit")
	}
	_, _, err := f.WriteAt(t.Context(), sys, []byte("x"), 0, export.FileSync)
	wantStatus(t, "stable write", err, export.ErrIO)
	if v.WriteVerifier() == after {
		t.Error("the verifier stayed after a failed stable write")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestCommitAfterClose: data written through a file that is closed wait, and
// another open's Commit makes them stable.
func TestCommitAfterClose(t *testing.T) {
	fs, v, f := newFaulty(t, time.Hour)
	o := f.Object()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if n := fs.syncs.Load(); n != 0 {
		t.Errorf("close synced %d times", n)
	}
	g := must[export.File](t)(v.Open(t.Context(), sys, o, export.OpenRead))
	if err := g.Commit(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	if n := fs.syncs.Load(); n != 1 {
		t.Errorf("commit synced %d times", n)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLingeringDataAreSynced: also if nobody commits; a failure that nobody
// sees rolls the verifier.
func TestLingeringDataAreSynced(t *testing.T) {
	fs, v, f := newFaulty(t, 10*time.Millisecond)
	fs.fail.Store(true)
	before := v.WriteVerifier()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); v.WriteVerifier() == before; {
		if time.Now().After(end) {
			t.Fatal("the verifier stayed")
		}
		time.Sleep(time.Millisecond)
	}
	if fs.syncs.Load() == 0 {
		t.Error("nothing was synced")
	}
}
