package osd

import (
	"context"
	"sync"
	"sync/atomic"
)

// throttle bounds operations and their bytes, first come, first served. While
// there is room, taking and giving are one atomic operation; mu is only for
// those who wait. One operation larger than all the bytes is let in alone.
//
// mu is a leaf in the lock order.
type throttle struct {
	maxOps, maxBytes uint64 // constant

	used atomic.Uint64 // operations in the low opsBits, bytes above

	waiting atomic.Int32 // len(queue), read without mu
	mu      sync.Mutex
	queue   []*ticket // guarded by mu
}

// ticket is one who waits.
type ticket struct {
	bytes uint64
	ready chan struct{} // closed under mu when the room was taken for it
}

const opsBits = 20

func newThrottle(ops int, bytes int64) *throttle {
	return &throttle{
		maxOps:   uint64(min(max(ops, 1), 1<<opsBits-1-1<<16)), // what force adds fits too
		maxBytes: uint64(max(bytes, 1)),
	}
}

func (t *throttle) try(bytes uint64) bool {
	for {
		u := t.used.Load()
		ops, have := u&(1<<opsBits-1), u>>opsBits
		if ops >= t.maxOps || have != 0 && have+bytes > t.maxBytes {
			return false
		}
		if t.used.CompareAndSwap(u, u+bytes<<opsBits+1) {
			return true
		}
	}
}

// take takes room for one operation, waiting for it until ctx ends or stop is
// closed. It reports whether it did.
func (t *throttle) take(ctx context.Context, stop <-chan struct{}, bytes uint64) bool {
	if t.waiting.Load() == 0 && t.try(bytes) {
		return true
	}
	w := &ticket{bytes: bytes, ready: make(chan struct{})}
	t.mu.Lock()
	t.queue = append(t.queue, w)
	t.waiting.Store(int32(len(t.queue)))
	// Who gives looks at waiting after it; this looks for room after waiting
	// was set.
	t.serveLocked()
	t.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-ctx.Done():
	case <-stop:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.ready:
		t.used.Add(^(bytes<<opsBits + 1) + 1)
	default:
		for i := range t.queue {
			if t.queue[i] == w {
				t.queue = append(t.queue[:i], t.queue[i+1:]...)
				break
			}
		}
		t.waiting.Store(int32(len(t.queue)))
	}
	t.serveLocked() // whoever was behind it may fit
	return false
}

// force takes room whether there is any or not: for operations that were let in
// before and moved here.
func (t *throttle) force(bytes uint64) { t.used.Add(bytes<<opsBits + 1) }

// give gives the room of one operation back.
func (t *throttle) give(bytes uint64) {
	t.used.Add(^(bytes<<opsBits + 1) + 1)
	if t.waiting.Load() > 0 {
		t.mu.Lock()
		t.serveLocked()
		t.mu.Unlock()
	}
}

func (t *throttle) serveLocked() {
	for len(t.queue) > 0 && t.try(t.queue[0].bytes) {
		close(t.queue[0].ready)
		t.queue[0] = nil
		t.queue = t.queue[1:]
	}
	t.waiting.Store(int32(len(t.queue)))
}

// inUse returns what was taken.
func (t *throttle) inUse() (ops int, bytes int64) {
	u := t.used.Load()
	return int(u & (1<<opsBits - 1)), int64(u >> opsBits)
}
