package inflight

import (
	"context"
	"slices"
)

// waiter waits until every counted tid up to tid is done.
type waiter struct {
	tid  uint64
	done chan struct{} // closed, and the waiter removed, under waitMu
}

// Wait returns nil when every request that [Table.Add] gave a tid up to tid was
// taken, or the context's error if that ends first. Requests that come later do
// not prolong it.
func (t *Table[T]) Wait(ctx context.Context, tid uint64) error {
	if t.oldest.Load() > tid {
		return nil
	}
	w := &waiter{tid: tid, done: make(chan struct{})}
	t.waitMu.Lock()
	t.waiters = append(t.waiters, w)
	t.waiting.Store(int32(len(t.waiters)))
	t.waitMu.Unlock()
	// Who moves oldest looks at waiting after it; this looks at oldest after
	// waiting was set.
	if t.oldest.Load() > tid {
		t.wake()
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	t.waitMu.Lock()
	defer t.waitMu.Unlock()
	if i := slices.Index(t.waiters, w); i >= 0 {
		t.waiters = slices.Delete(t.waiters, i, i+1)
		t.waiting.Store(int32(len(t.waiters)))
		return ctx.Err()
	}
	return nil
}

// WaitAll waits for every request added before the call; see [Table.Wait].
func (t *Table[T]) WaitAll(ctx context.Context) error {
	return t.Wait(ctx, t.next.Load()-1)
}

// wake ends the waits that are over.
func (t *Table[T]) wake() {
	t.waitMu.Lock()
	defer t.waitMu.Unlock()
	oldest := t.oldest.Load()
	t.waiters = slices.DeleteFunc(t.waiters, func(w *waiter) bool {
		if w.tid >= oldest {
			return false
		}
		close(w.done)
		return true
	})
	t.waiting.Store(int32(len(t.waiters)))
}
