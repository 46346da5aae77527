package inflight

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

type req struct {
	tid   uint64
	taken atomic.Int32
}

func newTable() *Table[req] { return New(func(r *req, tid uint64) { r.tid = tid }) }

// TestAgainstMap runs random scripts on the table and on a map.
func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := newTable()
		model := map[uint64]*req{}
		aside := map[uint64]bool{}
		next := uint64(1)
		check := func() {
			oldest := next
			for tid := range model {
				if !aside[tid] {
					oldest = min(oldest, tid)
				}
			}
			if got := tab.Oldest(); got != oldest {
				t.Fatalf("oldest %d, want %d", got, oldest)
			}
		}
		add := func(isAside bool) {
			r := &req{}
			f := tab.Add
			if isAside {
				f = tab.AddAside
			}
			tid, ok := f(r)
			if !ok || tid != next || r.tid != tid {
				t.Fatalf("added as %d %v (noted %d), want %d", tid, ok, r.tid, next)
			}
			model[tid], aside[tid] = r, isAside
			next++
		}
		take := func(tid uint64) {
			if got := tab.Take(tid); got != model[tid] {
				t.Fatalf("take %d: %v, want %v", tid, got, model[tid])
			}
			delete(model, tid)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":   func(*rapid.T) { add(false) },
			"aside": func(*rapid.T) { add(true) },
			"burst": func(t *rapid.T) {
				for range rapid.IntRange(1, 2*pageSize).Draw(t, "n") {
					add(false)
				}
			},
			"take": func(t *rapid.T) { take(rapid.Uint64Range(0, next+pageSize).Draw(t, "tid")) },
			"takeMost": func(t *rapid.T) {
				keep := rapid.Uint64Range(1, 700).Draw(t, "keep")
				for tid := range maps.Clone(model) {
					if tid%keep != 0 {
						take(tid)
					}
				}
			},
			"get": func(t *rapid.T) {
				tid := rapid.Uint64Range(0, next+pageSize).Draw(t, "tid")
				if got := tab.Get(tid); got != model[tid] {
					t.Fatalf("get %d: %v, want %v", tid, got, model[tid])
				}
			},
			"walk": func(t *rapid.T) {
				want := slices.Sorted(maps.Keys(model))
				var got []uint64
				for tid, r := range tab.All() {
					if r != model[tid] {
						t.Fatalf("walk met a stranger at %d", tid)
					}
					got = append(got, tid)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("walk %v, want %v", got, want)
				}
			},
			"": func(*rapid.T) { check() },
		})
	})
}

// TestTakeOnce has goroutines race for the same requests.
func TestTakeOnce(t *testing.T) {
	tab := newTable()
	const workers, each = 8, 3000
	var reqs [workers][]*req
	var wg sync.WaitGroup
	var highest atomic.Uint64
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(w)))
			for range each {
				r := &req{}
				before := tab.Oldest()
				tid, ok := tab.Add(r)
				if !ok || before > tid {
					t.Errorf("added as %d %v, oldest was %d", tid, ok, before)
				}
				reqs[w] = append(reqs[w], r)
				highest.Store(tid)
				// Any request of about now, of anybody.
				for range 2 {
					if got := tab.Take(highest.Load() - min(highest.Load(), rng.Uint64N(40))); got != nil {
						got.taken.Add(1)
					}
				}
				if old := tab.Oldest(); r.taken.Load() == 0 && tab.Get(tid) != nil && old > tid {
					// Not taken when looked at after oldest was read.
					t.Errorf("oldest %d is above %d, which is there", old, tid)
				}
			}
		})
	}
	wg.Wait()
	tab.Close(func(_ uint64, r *req) { r.taken.Add(1) })
	for w := range workers {
		for _, r := range reqs[w] {
			if n := r.taken.Load(); n != 1 {
				t.Fatalf("%d was taken %d times", r.tid, n)
			}
		}
	}
	if o := tab.Oldest(); o != workers*each+1 {
		t.Errorf("oldest of an empty table is %d, want %d", o, workers*each+1)
	}
	if n := len(tab.pages.Load().list); n > 1 {
		t.Errorf("%d pages are kept for nothing", n)
	}
}

// TestCloseAgainstAdd: what Add accepted, Close or a taker got.
func TestCloseAgainstAdd(t *testing.T) {
	for range 50 {
		tab := newTable()
		var accepted, got atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				<-start
				for range 200 {
					if _, ok := tab.Add(&req{}); ok {
						accepted.Add(1)
					}
				}
			})
		}
		wg.Go(func() {
			<-start
			tab.Close(func(uint64, *req) { got.Add(1) })
		})
		close(start)
		wg.Wait()
		// A request stored before Close began to sweep but on a page it had
		// passed is refused or met: nothing may be left.
		if n := tab.Len(); n != 0 || accepted.Load() != got.Load() {
			t.Fatalf("accepted %d, got %d, left %d", accepted.Load(), got.Load(), n)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		for range 3 {
			tab.Add(&req{})
		}
		aside, _ := tab.AddAside(&req{})
		ended := make(chan error, 3)
		go func() { ended <- tab.Wait(t.Context(), 2) }()
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan error, 1)
		go func() { cancelled <- tab.Wait(ctx, 3) }()
		go func() { ended <- tab.WaitAll(t.Context()) }()
		synctest.Wait()
		tab.Take(2)
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled wait: %v", err)
		}
		synctest.Wait()
		if len(ended) != 0 {
			t.Error("a wait for 2 ended before 1 was done")
		}
		tab.Take(1)
		synctest.Wait()
		if len(ended) != 1 {
			t.Errorf("%d waits ended after 1 and 2, want 1", len(ended))
		}
		later, _ := tab.Add(&req{})
		tab.Take(3)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if tab.Oldest() != later {
			t.Errorf("oldest %d, want %d: %d stands aside", tab.Oldest(), later, aside)
		}
		if err := tab.Wait(t.Context(), later-1); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitRace has waits and takes run into each other.
func TestWaitRace(t *testing.T) {
	tab := newTable()
	for range 300 {
		tid, _ := tab.Add(&req{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := tab.Wait(t.Context(), tid); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { tab.Take(tid) })
		wg.Wait()
	}
}

func TestZeroSizedRequests(t *testing.T) {
	tab := New[struct{}](nil)
	tid, _ := tab.Add(&struct{}{})
	if tab.Get(tid) == nil || tab.Take(tid) == nil || tab.Take(tid) != nil {
		t.Error("a request without size is not taken once")
	}
}
