package billyfs

import (
	"runtime"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5/memfs"

	"capstan/export"
)

// TestLastCloseDropsLocksUnseen: a file closed on unsynced data can be opened
// again, but not before its locks are dropped, so that none of the next open
// goes with them.
func TestLastCloseDropsLocksUnseen(t *testing.T) {
	v, err := NewVolume(memfs.New(), Options{Linger: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close(t.Context())
	sys := export.System()
	made, err := v.Create(t.Context(), sys, v.root, "f", &export.Create{Open: export.OpenWrite})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := made.File.WriteAt(t.Context(), sys, []byte("x"), 0, export.Unstable); err != nil {
		t.Fatal(err)
	}
	op := v.openedOf(made.Object)
	op.lockMu.Lock() // holds up the close where it drops the locks
	done := make(chan error, 1)
	go func() { done <- made.File.Close() }()
	for held := 0; held < 50; { // the close holds openMu as long as we let it
		if !v.openMu.TryLock() {
			held++
			time.Sleep(time.Millisecond)
			continue
		}
		refs := op.refs
		v.openMu.Unlock()
		if refs == 0 {
			t.Error("others may open the file while its locks are still to be dropped")
			break
		}
		held = 0
		runtime.Gosched()
	}
	op.lockMu.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
