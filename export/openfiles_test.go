package export

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// testOpenFiles runs f with a cache in a bubble of its own, and checks
// afterwards that no file is left open.
func testOpenFiles(t *testing.T, o OpenFilesOptions, f func(t *testing.T, v *fakeVolume, of *OpenFiles)) {
	synctest.Test(t, func(t *testing.T) {
		v := newFakeVolume()
		of := NewOpenFiles(o)
		f(t, v, of)
		of.Close()
		if open, _ := v.counts(); open != 0 {
			t.Errorf("%d files left open", open)
		}
	})
}

// get gets object ino for reading and fails the test if it cannot.
func get(t *testing.T, of *OpenFiles, v Volume, ino uint64) (File, func()) {
	t.Helper()
	file, release, err := of.Get(t.Context(), v, Live(ino), OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	if file.Object() != Live(ino) {
		t.Errorf("got %v", file.Object())
	}
	return file, release
}

// expect checks how many files are open and how often one was opened.
func (v *fakeVolume) expect(t *testing.T, open, opens int) {
	t.Helper()
	if o, n := v.counts(); o != open || n != opens {
		t.Errorf("%d open after %d opens, want %d after %d", o, n, open, opens)
	}
}

func TestOpenFilesShare(t *testing.T) {
	testOpenFiles(t, OpenFilesOptions{}, func(t *testing.T, v *fakeVolume, of *OpenFiles) {
		a, release := get(t, of, v, 2)
		b, releaseB := get(t, of, v, 2)
		if a != b {
			t.Error("two files")
		}
		release()
		releaseB()
		c, release := get(t, of, v, 2)
		release()
		if a != c {
			t.Error("another file")
		}
		v.expect(t, 1, 1)
		// Another mode, another object, another volume.
		_, release, err := of.Get(t.Context(), v, Live(2), OpenRead|OpenWrite)
		if err != nil {
			t.Fatal(err)
		}
		release()
		_, release = get(t, of, v, 3)
		release()
		v.expect(t, 3, 3)
		w := newFakeVolume()
		_, release = get(t, of, w, 2)
		release()
		w.expect(t, 1, 1)
		of.ForgetVolume(w)
		w.expect(t, 0, 1)
		v.expect(t, 3, 3)
	})
}

func TestOpenFilesEvict(t *testing.T) {
	testOpenFiles(t, OpenFilesOptions{Size: 2}, func(t *testing.T, v *fakeVolume, of *OpenFiles) {
		_, release10 := get(t, of, v, 10)
		for ino := uint64(11); ino < 15; ino++ {
			_, release := get(t, of, v, ino)
			release()
		}
		// 10 left the cache while in use: it is open until its user is done.
		v.expect(t, 3, 5)
		if n := of.Len(); n != 2 {
			t.Errorf("%d kept", n)
		}
		release10()
		v.expect(t, 2, 5)
		// The least recently used went first.
		_, release := get(t, of, v, 13)
		release()
		v.expect(t, 2, 5)
		_, release = get(t, of, v, 10)
		release()
		v.expect(t, 2, 6)
	})
}

func TestOpenFilesIdle(t *testing.T) {
	testOpenFiles(t, OpenFilesOptions{Idle: 10 * time.Second}, func(t *testing.T, v *fakeVolume, of *OpenFiles) {
		_, release := get(t, of, v, 2)
		release()
		_, held := get(t, of, v, 3)
		time.Sleep(6 * time.Second)
		_, release = get(t, of, v, 4)
		release()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		v.expect(t, 2, 3) // 2 is gone, 3 is in use
		time.Sleep(6 * time.Second)
		synctest.Wait()
		v.expect(t, 1, 3) // 4 is gone
		time.Sleep(time.Hour)
		v.expect(t, 1, 3)
		held()
		time.Sleep(10*time.Second - time.Nanosecond)
		synctest.Wait()
		v.expect(t, 1, 3) // idle since its release
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		v.expect(t, 0, 3)
		// With nothing to watch there is no timer.
		of.mu.Lock()
		if of.timer != nil {
			t.Error("a timer runs")
		}
		of.mu.Unlock()
		_, release = get(t, of, v, 2)
		release()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		v.expect(t, 0, 4)
	})
}

func TestOpenFilesForget(t *testing.T) {
	testOpenFiles(t, OpenFilesOptions{}, func(t *testing.T, v *fakeVolume, of *OpenFiles) {
		for _, m := range []OpenMode{OpenRead, OpenWrite, OpenRead | OpenWrite, OpenRead | OpenWrite | OpenOwner | OpenExec} {
			_, release, err := of.Get(t.Context(), v, Live(2), m)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		old, release := get(t, of, v, 2)
		_, release3 := get(t, of, v, 3)
		release3()
		v.expect(t, 5, 5)
		of.Forget(v, Live(2))
		v.expect(t, 2, 5) // 3, and the one in use
		if now, releaseNow := get(t, of, v, 2); now == old {
			t.Error("a forgotten file was given out")
		} else {
			releaseNow()
		}
		release()
		v.expect(t, 2, 6)
		of.Forget(v, Live(77)) // nothing
	})
}

func TestOpenFilesOpenOnce(t *testing.T) {
	testOpenFiles(t, OpenFilesOptions{}, func(t *testing.T, v *fakeVolume, of *OpenFiles) {
		v.gate = make(chan struct{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, release := get(t, of, v, 2)
				release()
			})
		}
		synctest.Wait()
		close(v.gate)
		wg.Wait()
		v.expect(t, 1, 1)

		// All who wait get the error, and it is not kept.
		v.mu.Lock()
		v.gate, v.fail = make(chan struct{}), ErrStale
		v.mu.Unlock()
		for range 10 {
			wg.Go(func() {
				if _, _, err := of.Get(t.Context(), v, Live(3), OpenRead); !errors.Is(err, ErrStale) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(v.gate)
		wg.Wait()
		v.fail = nil
		_, release := get(t, of, v, 3)
		release()
		v.expect(t, 2, 2)
	})
}

// TestOpenFilesOpenerLeaves cancels the call that opens while others wait: one
// of those opens.
func TestOpenFilesOpenerLeaves(t *testing.T) {
	testOpenFiles(t, OpenFilesOptions{}, func(t *testing.T, v *fakeVolume, of *OpenFiles) {
		gate := make(chan struct{})
		v.gate = gate
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := of.Get(ctx, v, Live(2), OpenRead); !errors.Is(err, context.Canceled) {
				t.Errorf("the opener: %v", err)
			}
		})
		synctest.Wait()
		for range 5 {
			wg.Go(func() {
				_, release := get(t, of, v, 2)
				release()
			})
		}
		gone, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, _, err := of.Get(gone, v, Live(2), OpenRead); !errors.Is(err, ErrCanceled) {
				t.Errorf("one who waited: %v", err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(gate)
		wg.Wait()
		v.expect(t, 1, 1)
	})
}

// TestOpenFilesForgottenWhileOpening forgets a file that is being opened: the
// one who opens it may use it, and then it is closed.
func TestOpenFilesForgottenWhileOpening(t *testing.T) {
	testOpenFiles(t, OpenFilesOptions{}, func(t *testing.T, v *fakeVolume, of *OpenFiles) {
		gate := make(chan struct{})
		v.gate = gate
		var wg sync.WaitGroup
		wg.Go(func() {
			_, release := get(t, of, v, 2)
			v.expect(t, 1, 1)
			release()
			v.expect(t, 0, 1)
		})
		synctest.Wait()
		of.Forget(v, Live(2))
		close(gate)
		wg.Wait()
	})
}

func TestOpenFilesClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newFakeVolume()
		of := NewOpenFiles(OpenFilesOptions{})
		_, release := get(t, of, v, 2)
		_, release3 := get(t, of, v, 3)
		release3()
		of.Close()
		v.expect(t, 1, 2)
		if _, _, err := of.Get(t.Context(), v, Live(3), OpenRead); !errors.Is(err, ErrDelay) {
			t.Error(err)
		}
		release()
		v.expect(t, 0, 2)
		of.Close()
	})
}

// TestOpenFilesMany has many callers, few files, evictions and Forgets, and
// checks that no one uses a closed file.
func TestOpenFilesMany(t *testing.T) {
	v := newFakeVolume()
	of := NewOpenFiles(OpenFilesOptions{Size: 3, Idle: time.Millisecond})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				o := Live(rand.Uint64N(6) + 2)
				if rand.IntN(10) == 0 {
					of.Forget(v, o)
					continue
				}
				file, release, err := of.Get(t.Context(), v, o, OpenRead)
				if err != nil {
					t.Error(err)
					return
				}
				if f := file.(*fakeFile); f.closed.Load() || f.o != o {
					t.Error("a closed file, or another")
				}
				release()
			}
		})
	}
	wg.Wait()
	of.Close()
	if open, _ := v.counts(); open != 0 {
		t.Errorf("%d files left open", open)
	}
}

func TestOpenFilesAllocs(t *testing.T) {
	v := newFakeVolume()
	of := NewOpenFiles(OpenFilesOptions{})
	defer of.Close()
	ctx := t.Context()
	if got := testing.AllocsPerRun(100, func() {
		_, release, err := of.Get(ctx, v, Live(2), OpenRead)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkOpenFiles(b *testing.B) {
	v := newFakeVolume()
	of := NewOpenFiles(OpenFilesOptions{})
	defer of.Close()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ino := rand.Uint64N(100) + 2
		for pb.Next() {
			_, release, err := of.Get(context.Background(), v, Live(ino), OpenRead)
			if err != nil {
				b.Fatal(err)
			}
			release()
		}
	})
}
