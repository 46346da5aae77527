package rpc

import (
	"sync"
	"sync/atomic"
)

// budget bounds an amount (calls, bytes) that is taken and given back. Who does
// not get his share waits in line, first come, first served, so that a large
// share is not starved by small ones. Where nobody waits it costs one atomic
// operation.
type budget struct {
	limit   int64 // constant
	used    atomic.Int64
	waiting atomic.Int32 // len(line); changed under mu, read without it

	mu   sync.Mutex
	line []*waiter
}

type waiter struct {
	n     int64
	grant chan struct{} // closed when n was taken for the waiter
}

// tryAcquire takes n if it is free and nobody waits.
func (b *budget) tryAcquire(n int64) bool {
	if b.waiting.Load() != 0 {
		return false
	}
	return b.take(n)
}

// take takes n if it is free. More than the limit is given to him who is alone.
func (b *budget) take(n int64) bool {
	for {
		used := b.used.Load()
		if used > 0 && used+n > b.limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// acquire takes n, waiting for it until stop is closed. It
// reports whether it got it.
func (b *budget) acquire(n int64, stop <-chan struct{}) bool {
	if b.tryAcquire(n) {
		return true
	}
	w := &waiter{n: n, grant: make(chan struct{})}
	b.mu.Lock()
	b.line = append(b.line, w)
	// Announced before the line is looked at again: a release that came too
	// early to see it is seen here.
	b.waiting.Add(1)
	b.grantLocked()
	b.mu.Unlock()
	select {
	case <-w.grant:
		return true
	case <-stop:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, x := range b.line {
		if x == w {
			b.line = append(b.line[:i], b.line[i+1:]...)
			b.waiting.Add(-1)
			b.grantLocked()
			return false
		}
	}
	// Granted in the same moment.
	b.used.Add(-n)
	b.grantLocked()
	return false
}

// free reports whether the limit is not reached.
func (b *budget) free() bool { return b.used.Load() < b.limit }

// wait waits until the limit is not reached, or stop is closed. It reports
// whether the limit is not reached.
func (b *budget) wait(stop <-chan struct{}) bool {
	if b.free() {
		return true
	}
	if !b.acquire(1, stop) {
		return false
	}
	b.release(1)
	return true
}

// force takes n whether it is free or not.
func (b *budget) force(n int64) { b.used.Add(n) }

// release gives n back.
func (b *budget) release(n int64) {
	if n == 0 {
		return
	}
	b.used.Add(-n)
	if b.waiting.Load() != 0 {
		b.mu.Lock()
		b.grantLocked()
		b.mu.Unlock()
	}
}

// short reports whether somebody waits.
func (b *budget) short() bool { return b.waiting.Load() != 0 }

// grantLocked serves the head of the line as far as the budget goes.
func (b *budget) grantLocked() {
	for len(b.line) > 0 && b.take(b.line[0].n) {
		close(b.line[0].grant)
		b.line[0] = nil
		b.line = b.line[1:]
		b.waiting.Add(-1)
	}
	if len(b.line) == 0 {
		b.line = nil
	}
}
