package osd

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlushWaitsForCompletions: what is answered and not yet told is not
// complete.
func TestFlushWaitsForCompletions(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		var ended atomic.Bool
		if err := e.c.Submit(t.Context(), obj(1, "x"), appendOp("x"), func(*Reply, error) {
			time.Sleep(time.Millisecond)
			ended.Store(true)
		}); err != nil {
			t.Fatal(err)
		}
		if err := e.c.Flush(t.Context()); err != nil || !ended.Load() || e.c.Outstanding() != 0 {
			t.Errorf("flushed: %v, completed: %v, %d outstanding", err, ended.Load(), e.c.Outstanding())
		}
	})
	// A connection still has the buffers of one that was answered early.
	run(t, nil, func(t *testing.T, e *env) {
		e.stall(t)
		op := &Op{}
		op.WriteFull(bytes.Repeat([]byte("A"), 1<<20))
		f := e.flight()
		f.add(t.Context(), obj(1, "x"), op)
		synctest.Wait()
		rq := *e.osds[0].Seen()[0]
		rq.Tid++
		rq.Object.Name = "x"
		rq.Refuse(0).Send()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.c.Flush(ctx); f.left() == 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flushed: %v with %d left", err, f.left())
		}
		e.unstall()
		e.c.Close()
		if f.left() != 0 || e.c.Outstanding() != 0 {
			t.Errorf("closed with %d left, %d outstanding", f.left(), e.c.Outstanding())
		}
	})
}

// TestCloseWaitsForCompletions: also for those that the end of a context brings.
func TestCloseWaitsForCompletions(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.gate()
		var ended atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		if err := e.c.Submit(ctx, obj(1, "x"), appendOp("x"), func(*Reply, error) {
			time.Sleep(time.Millisecond)
			ended.Store(true)
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		e.c.Close()
		if !ended.Load() {
			t.Error("closed before the completion ended")
		}
	})
}
