package billyfs

import (
	"runtime"
	"sync"
	"sync/atomic"
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

// TestSyncsAreShared: a caller's sync began after the call, whoever runs it; no
// two run at once; and a failure has rolled the verifier when a later one ends.
func TestSyncsAreShared(t *testing.T) {
	op := &opened{v: &Volume{verifier: export.NewVerifierSource()}}
	var begun, failed atomic.Uint64
	var running atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				at, before := begun.Load(), op.v.verifier.Verifier()
				bad := failed.Load()
				err := op.sync(syncKind(i%2), func() error {
					if running.Add(1) != 1 {
						t.Error("two at once")
					}
					defer running.Add(-1)
					n := begun.Add(1)
					runtime.Gosched()
					if n%16 == 0 {
						failed.Add(1)
						return export.ErrIO
					}
					return nil
				})
				if begun.Load() == at {
					t.Error("the sync began before the call")
				}
				if (err != nil || failed.Load() > bad+1) && op.v.verifier.Verifier() == before {
					t.Error("a failed sync left the verifier")
				}
			}
		})
	}
	wg.Wait()
	if op.lost.Load() != failed.Load() {
		t.Errorf("%d failures counted of %d", op.lost.Load(), failed.Load())
	}
	t.Logf("%d syncs for 1600 calls", begun.Load())
}
