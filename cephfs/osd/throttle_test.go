package osd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
)

// TestThrottle: never more than the bounds, nobody overtakes, all get through.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(4, 100)
		var ops, bytes atomic.Int64
		var wg sync.WaitGroup
		for w := range 20 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(5, uint64(w)))
				for range 50 {
					n := 1 + rng.Int64N(130)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(300))*time.Millisecond)
					if th.take(ctx, nil, uint64(n)) {
						o, b := ops.Add(1), bytes.Add(n)
						if o > 4 || b > 100 && b > n {
							t.Errorf("%d operations and %d bytes are in", o, b)
						}
						time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
						ops.Add(-1)
						bytes.Add(-n)
						th.give(uint64(n))
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if o, b := th.inUse(); o != 0 || b != 0 || th.waiting.Load() != 0 {
			t.Errorf("%d operations, %d bytes, %d waiting are left", o, b, th.waiting.Load())
		}

		// One that is too large waits for all to be out, and those behind for it.
		th.take(t.Context(), nil, 60)
		var order []int
		var mu sync.Mutex
		for i, n := range []uint64{500, 10, 10} {
			wg.Go(func() {
				th.take(t.Context(), nil, n)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				th.give(n)
			})
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Errorf("%v came before its turn", order)
		}
		th.give(60)
		wg.Wait()
		if order[0] != 0 {
			t.Errorf("order %v", order)
		}
		stop := make(chan struct{})
		close(stop)
		th.force(100)
		if th.take(t.Context(), stop, 1) {
			t.Error("taken after the stop")
		}
	})
}

// TestBounds: what is under way stays within the bounds, and an OSD that does
// not answer does not stop the others.
func TestBounds(t *testing.T) {
	run(t, func(o *Options) { o.MaxOps, o.MaxOpsPerOSD, o.MaxBytesPerOSD = 10, 5, 100 }, func(t *testing.T, e *env) {
		var held []*cephtest.OSDRequest
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { held = append(held, rq) })
		f := e.flight()
		for i := range 20 {
			go f.add(t.Context(), obj(1, fmt.Sprint(i)), appendOp("x"))
		}
		synctest.Wait()
		if len(held) != 5 {
			t.Errorf("%d are under way at one OSD, want 5", len(held))
		}
		if s := e.c.Stats(); s.Ops != 5 || s.Bytes != 5 {
			t.Errorf("stats %+v", s)
		}
		// Objects of pool 2 on the others.
		for i := range 30 {
			o := obj(2, fmt.Sprint(i))
			if m := e.src.current; m.Place(2, m.Hash(o)).Primary != 0 {
				if err := e.c.WriteFull(t.Context(), o, []byte("x")); err != nil {
					t.Error(err)
				}
			}
		}
		// Waiting for room ends with the context.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.c.Write(ctx, obj(1, "late"), 0, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write without room: %v", err)
		}
		for len(held) > 0 {
			rq := held[0]
			held = held[1:]
			rq.Answer()
			synctest.Wait()
			if len(held) > 5 {
				t.Errorf("%d under way", len(held))
			}
		}
		for f.left() > 0 {
			time.Sleep(time.Millisecond)
		}
		f.ok()

		// By bytes: two of 60 do not go together.
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { held = append(held, rq) })
		big := make([]byte, 60)
		f = e.flight()
		for i := range 2 {
			op := &Op{}
			op.Write(0, big)
			go f.add(t.Context(), obj(1, fmt.Sprint("big", i)), op)
		}
		synctest.Wait()
		if len(held) != 1 {
			t.Errorf("%d of 60 bytes are under way with a bound of 100", len(held))
		}
		held[0].Answer()
		synctest.Wait()
		if len(held) != 2 {
			t.Error("the second did not follow")
		}
		// Room follows those that move to another OSD.
		e.src.change(func(m *fakeMap) {
			p := m.pools[1]
			p.acting = func(uint32) []int32 { return []int32{1} }
			m.pools[1] = p
		})
		synctest.Wait()
		f.ok()
	})
}
