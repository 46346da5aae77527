package export

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Exports holds the table in force. A reload swaps in another; calls go on with
// the one they began with.
type Exports struct {
	current atomic.Pointer[Table]
	swap    sync.Mutex // held by Swap, so that tables retire in order
}

// NewExports returns Exports with t in force.
func NewExports(t *Table) *Exports {
	x := &Exports{}
	x.current.Store(t)
	return x
}

// Current returns the table in force, which stays usable. Who is going to call
// Volumes with it uses [Exports.Hold].
func (x *Exports) Current() *Table { return x.current.Load() }

// Swap puts t in force and returns the table that was.
func (x *Exports) Swap(t *Table) *Table {
	x.swap.Lock()
	defer x.swap.Unlock()
	old := x.current.Swap(t)
	if old != t {
		old.holds.retire()
	}
	return old
}

// Hold is a table in use by one call.
type Hold struct {
	Table *Table
	count *atomic.Int64
}

// Hold returns the table in force and keeps [Table.WaitIdle] waiting until
// [Hold.Release]. It costs no memory.
func (x *Exports) Hold() Hold {
	for {
		t := x.current.Load()
		n := t.holds.take()
		// A table that was swapped out in between may have been found idle.
		if x.current.Load() == t {
			return Hold{Table: t, count: n}
		}
		t.holds.drop(n)
	}
}

// Release ends the use. It is called once.
func (h Hold) Release() { h.Table.holds.drop(h.count) }

// WaitIdle waits until no call that held t is running any more. t must have
// been swapped out. Then a Volume that only t served can be closed.
func (t *Table) WaitIdle(ctx context.Context) error {
	for !t.holds.idle() {
		select {
		case <-t.holds.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.holds.signal() // for another who waits
	return nil
}

// holds counts the calls that use a table, spread over cache lines, since every
// call counts.
type holds struct {
	counts  [16]holdCount
	retired atomic.Bool
	wake    chan struct{} // size 1: a count of a retired table came down to 0
}

type holdCount struct {
	n atomic.Int64
	_ [56]byte
}

func (h *holds) init() { h.wake = make(chan struct{}, 1) }

func (h *holds) take() *atomic.Int64 {
	n := &h.counts[rand.Uint32()%uint32(len(h.counts))].n
	n.Add(1)
	return n
}

func (h *holds) drop(n *atomic.Int64) {
	if n.Add(-1) == 0 && h.retired.Load() {
		h.signal()
	}
}

func (h *holds) retire() {
	h.retired.Store(true)
	h.signal()
}

func (h *holds) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// idle reports whether every count was seen at 0. Once the table is retired, a
// count that was 0 is never held again for longer than Hold needs to notice.
func (h *holds) idle() bool {
	for i := range h.counts {
		if h.counts[i].n.Load() != 0 {
			return false
		}
	}
	return true
}
