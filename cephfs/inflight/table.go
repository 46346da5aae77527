package inflight

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// pageSize is the number of tids of a page. At 16 bytes a slot a page is 8 KiB:
// copying the list of pages is rare, and a request that stays for long holds
// little back.
const pageSize = 512

// slot is one tid.
type slot[T any] struct {
	// v is nil before the tid's request was stored, then the request, then the
	// table's done mark.
	v atomic.Pointer[T]
	// aside says that the oldest tid does not stop here. Set before v.
	aside atomic.Bool
}

// page is pageSize tids in a row.
type page[T any] struct {
	index uint64 // of the first tid, divided by pageSize; constant
	left  atomic.Int32
	slots [pageSize]slot[T]
}

// slot returns the place of tid. Neighbours are put 128 bytes apart, so that
// two processors working on them do not pass one cache line to and fro.
func (p *page[T]) slot(tid uint64) *slot[T] {
	i := tid % pageSize
	return &p.slots[(i*8+i/(pageSize/8))%pageSize]
}

// pages is the list of pages that still have tids in them. It never changes; a
// new one takes its place.
type pages[T any] struct {
	list []*page[T] // by index
	made uint64     // every page below this index was made; if it is not in list it is done
}

func (ps *pages[T]) find(index uint64) (at int, p *page[T]) {
	// Nearly every look-up is for one of the last two pages.
	for i := len(ps.list) - 1; i >= 0 && i >= len(ps.list)-2; i-- {
		if ps.list[i].index == index {
			return i, ps.list[i]
		}
	}
	at, ok := slices.BinarySearchFunc(ps.list, index, func(p *page[T], i uint64) int {
		switch {
		case p.index < i:
			return -1
		case p.index > i:
			return 1
		}
		return 0
	})
	if ok {
		return at, ps.list[at]
	}
	return at, nil
}

// Table is a request table. Make one with [New]. All methods may be called by
// any goroutine at any time.
type Table[T any] struct {
	assign func(v *T, tid uint64) // constant
	done   *T                     // the mark of a slot that is done; constant

	_      [64]byte
	next   atomic.Uint64 // the tid that the next Add gives
	_      [64]byte
	oldest atomic.Uint64 // see Oldest; never above a counted tid that is not done
	_      [64]byte

	closed atomic.Bool
	pages  atomic.Pointer[pages[T]] // replaced under pagesMu

	pagesMu sync.Mutex

	waiting atomic.Int32 // len(waiters), read without waitMu
	waitMu  sync.Mutex
	waiters []*waiter // guarded by waitMu
}

// New returns an empty table whose first tid is 1. assign, if it is not nil,
// notes the tid in a request before anybody else can find it.
func New[T any](assign func(v *T, tid uint64)) *Table[T] {
	// Of a T without size every pointer may be equal: the mark has an address
	// of its own.
	mark := &struct {
		v T
		_ byte
	}{}
	t := &Table[T]{assign: assign, done: &mark.v}
	t.next.Store(1)
	t.oldest.Store(1)
	t.pages.Store(&pages[T]{})
	return t
}

// Add gives v the next tid and stores it. It reports false, and stores
// nothing, after [Table.Close].
func (t *Table[T]) Add(v *T) (tid uint64, ok bool) { return t.add(v, false) }

// AddAside is Add for a request that [Table.Oldest] and [Table.Wait] pass
// over: one that may take for ever by its nature, such as a wait for a lock.
func (t *Table[T]) AddAside(v *T) (tid uint64, ok bool) { return t.add(v, true) }

func (t *Table[T]) add(v *T, aside bool) (uint64, bool) {
	if t.closed.Load() {
		return 0, false
	}
	tid := t.next.Add(1) - 1
	p := t.page(tid)
	s := p.slot(tid)
	if t.assign != nil {
		t.assign(v, tid)
	}
	if aside {
		s.aside.Store(true)
	}
	s.v.Store(v)
	// Close sweeps after it set closed: either this sees closed, or the sweep
	// sees v. If both, one of the two swaps.
	if t.closed.Load() && s.v.CompareAndSwap(v, t.done) {
		t.settle(p, tid)
		return 0, false
	}
	if aside {
		t.advance()
	}
	return tid, true
}

// page returns the page of a tid that is not done, making it, and those before
// it, if there is none yet.
func (t *Table[T]) page(tid uint64) *page[T] {
	index := tid / pageSize
	if _, p := t.pages.Load().find(index); p != nil {
		return p
	}
	t.pagesMu.Lock()
	defer t.pagesMu.Unlock()
	old := t.pages.Load()
	if _, p := old.find(index); p != nil {
		return p
	}
	ps := &pages[T]{list: slices.Clone(old.list), made: old.made}
	for ; ps.made <= index; ps.made++ {
		p := &page[T]{index: ps.made}
		p.left.Store(pageSize)
		if ps.made == 0 {
			p.left.Add(-1) // there is no tid 0
		}
		ps.list = append(ps.list, p)
	}
	t.pages.Store(ps)
	return ps.list[len(ps.list)-1]
}

// Get returns the request of tid, or nil if there is none or it was taken.
func (t *Table[T]) Get(tid uint64) *T {
	if _, p := t.pages.Load().find(tid / pageSize); p != nil {
		if v := p.slot(tid).v.Load(); v != t.done {
			return v
		}
	}
	return nil
}

// Take removes the request of tid and returns it. Of all calls for one tid
// exactly one gets it; the others get nil.
func (t *Table[T]) Take(tid uint64) *T {
	_, p := t.pages.Load().find(tid / pageSize)
	if p == nil {
		return nil
	}
	s := p.slot(tid)
	v := s.v.Load()
	if v == nil || v == t.done || !s.v.CompareAndSwap(v, t.done) {
		return nil
	}
	t.settle(p, tid)
	return v
}

// settle follows the marking of tid as done.
func (t *Table[T]) settle(p *page[T], tid uint64) {
	if p.left.Add(-1) == 0 {
		t.pagesMu.Lock()
		old := t.pages.Load()
		if at, q := old.find(p.index); q == p {
			t.pages.Store(&pages[T]{
				list: slices.Concat(old.list[:at], old.list[at+1:]),
				made: old.made,
			})
		}
		t.pagesMu.Unlock()
	}
	// Who moves oldest looks at the slot behind it after the move; this looks
	// at oldest after the slot was marked. One of the two goes on.
	if t.oldest.Load() == tid {
		t.advance()
	}
}

// Oldest returns the smallest tid that may still be outstanding: the oldest
// request of [Table.Add] that was not taken, or the tid that comes next if
// there is none. It never goes back.
func (t *Table[T]) Oldest() uint64 { return t.oldest.Load() }

// advance moves oldest over what is done.
func (t *Table[T]) advance() {
	moved := false
	for {
		tid := t.oldest.Load()
		to := t.past(tid)
		if to == tid {
			break
		}
		if t.oldest.CompareAndSwap(tid, to) {
			moved = true
		}
	}
	if moved && t.waiting.Load() > 0 {
		t.wake()
	}
}

// past returns the tid after tid, and after the rest of its page if all of
// that is done, or tid itself if the oldest tid has to stay there.
func (t *Table[T]) past(tid uint64) uint64 {
	ps := t.pages.Load()
	index := tid / pageSize
	_, p := ps.find(index)
	if p == nil {
		if index < ps.made {
			return (index + 1) * pageSize
		}
		return tid // not given yet
	}
	s := p.slot(tid)
	switch v := s.v.Load(); {
	case v == nil:
		return tid // not given, or not stored yet
	case v == t.done, s.aside.Load():
		return tid + 1
	}
	return tid
}

// All walks the requests in the order of their tids. It holds no lock: what is
// in the table from the call to its end is met once, what comes or goes
// meanwhile may be met or not.
func (t *Table[T]) All() iter.Seq2[uint64, *T] {
	return func(yield func(uint64, *T) bool) {
		for index := uint64(0); ; index++ {
			ps := t.pages.Load()
			at, _ := ps.find(index)
			if at == len(ps.list) {
				return
			}
			p := ps.list[at]
			index = p.index
			for i := range uint64(pageSize) {
				tid := index*pageSize + i
				if v := p.slot(tid).v.Load(); v != nil && v != t.done && !yield(tid, v) {
					return
				}
			}
		}
	}
}

// Len counts the requests by walking them.
func (t *Table[T]) Len() int {
	n := 0
	for range t.All() {
		n++
	}
	return n
}

// Close has every later Add fail, takes what is in the table, and calls f for
// each in the order of their tids. Further calls take what is left, which is
// nothing once the first has returned.
func (t *Table[T]) Close(f func(tid uint64, v *T)) {
	t.closed.Store(true)
	for tid := range t.All() {
		if v := t.Take(tid); v != nil && f != nil {
			f(tid, v)
		}
	}
}
