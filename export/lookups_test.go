package export

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// source is an outside source whose next answers a test decides.
type source struct {
	mu    sync.Mutex // guards what follows
	value string
	err   error
	takes time.Duration

	asked atomic.Int64
}

func (s *source) set(value string, err error, takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value, s.err, s.takes = value, err, takes
}

func (s *source) ask(ctx context.Context, _ int) (string, error) {
	s.asked.Add(1)
	s.mu.Lock()
	value, err, takes := s.value, s.err, s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return value, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// testLookups runs f with a cache in front of a source, in a bubble of its own.
func testLookups(t *testing.T, f func(t *testing.T, s *source, l *lookups[int, string])) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		l := newLookups(4, s.ask)
		l.limit, l.ttl, l.ttlNone, l.retry, l.maxStale = 5*time.Second, time.Minute, 20*time.Second, 10*time.Second, time.Hour
		defer l.close()
		f(t, s, l)
	})
}

func TestLookupsRemember(t *testing.T) {
	testLookups(t, func(t *testing.T, s *source, l *lookups[int, string]) {
		expect := func(want string, wantErr error, asked int64) {
			t.Helper()
			got, until, err := l.get(t.Context(), 1)
			synctest.Wait() // for a question that the answer did not wait for
			if got != want || !errors.Is(err, wantErr) || s.asked.Load() != asked {
				t.Errorf("%q, %v after %d questions, want %q, %v after %d", got, err, s.asked.Load(), want, wantErr, asked)
			}
			if !until.After(time.Now()) {
				t.Errorf("already over: %v", until)
			}
		}
		s.set("a", nil, 0)
		expect("a", nil, 1)
		time.Sleep(time.Minute - time.Nanosecond)
		expect("a", nil, 1)

		// Due: the old answer meanwhile, then the new one.
		s.set("b", nil, 0)
		time.Sleep(time.Nanosecond)
		expect("a", nil, 2)
		expect("b", nil, 2)

		// The source fails: the old answer, asked again every retry.
		s.set("", errors.New("down"), 0)
		time.Sleep(time.Minute)
		expect("b", nil, 3)
		expect("b", nil, 3)
		time.Sleep(10 * time.Second)
		expect("b", nil, 4)

		// For too long.
		time.Sleep(time.Hour)
		expect("", ErrDelay, 5)
		time.Sleep(10 * time.Second)
		s.set("", ErrNoEnt, 0)
		expect("", ErrDelay, 6)
		expect("", ErrNoEnt, 6)
		time.Sleep(20*time.Second - time.Nanosecond)
		expect("", ErrNoEnt, 6)
		time.Sleep(time.Nanosecond)
		s.set("c", nil, 0)
		expect("", ErrNoEnt, 7)
		expect("c", nil, 7)

		// Gone from the source, and back when nobody has asked for long.
		s.set("", ErrNoEnt, 0)
		time.Sleep(time.Minute)
		expect("c", nil, 8)
		expect("", ErrNoEnt, 8)
		s.set("d", nil, 0)
		time.Sleep(40 * time.Second)
		expect("d", nil, 9)
	})
}

func TestLookupsAskOnce(t *testing.T) {
	testLookups(t, func(t *testing.T, s *source, l *lookups[int, string]) {
		s.set("a", nil, time.Second)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got, _, err := l.get(t.Context(), 1); got != "a" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		wg.Wait()
		if n := s.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestLookupsSlow checks that a question that hangs ends at its limit, and
// that neither another key nor one whose caller goes away waits for it.
func TestLookupsSlow(t *testing.T) {
	testLookups(t, func(t *testing.T, s *source, l *lookups[int, string]) {
		s.set("", nil, time.Hour)
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := l.get(t.Context(), 1); !errors.Is(err, ErrDelay) || time.Since(begin) != 5*time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		})
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, _, err := l.get(ctx, 1); err == nil || time.Since(begin) != time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		})
		synctest.Wait()
		s.set("b", nil, 0)
		if got, _, err := l.get(t.Context(), 2); got != "b" || err != nil || time.Since(begin) != 0 {
			t.Errorf("%q, %v after %v", got, err, time.Since(begin))
		}
		wg.Wait()
	})
}

func TestLookupsClose(t *testing.T) {
	testLookups(t, func(t *testing.T, s *source, l *lookups[int, string]) {
		s.set("a", nil, 0)
		_, _, _ = l.get(t.Context(), 1)
		s.set("", nil, time.Hour)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := l.get(t.Context(), 2); !errors.Is(err, ErrDelay) {
				t.Errorf("while closing: %v", err)
			}
		})
		synctest.Wait()
		begin := time.Now()
		l.close()
		wg.Wait()
		if time.Since(begin) != 0 {
			t.Errorf("took %v", time.Since(begin))
		}
		if got, _, err := l.get(t.Context(), 1); got != "a" || err != nil {
			t.Errorf("known, after close: %q, %v", got, err)
		}
		n := s.asked.Load()
		if _, _, err := l.get(t.Context(), 3); !errors.Is(err, ErrDelay) || s.asked.Load() != n {
			t.Errorf("unknown, after close: %v", err)
		}
	})
}

func TestLookupsBounded(t *testing.T) {
	testLookups(t, func(t *testing.T, s *source, l *lookups[int, string]) {
		s.set("a", nil, 0)
		for k := range 100 {
			_, _, _ = l.get(t.Context(), k)
		}
		if l.cache.Len() != 4 || len(l.running) != 0 {
			t.Errorf("%d remembered, %d running", l.cache.Len(), len(l.running))
		}
	})
}
