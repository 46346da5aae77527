// Package linear decides whether a history of concurrent operations could have
// been the work of one object that does them one at a time, each at some moment
// between its call and its return (linearizability; the search is that of Wing
// and Gong with Lowe's cache of states seen before).
package linear

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// Never is the return of an operation whose outcome nobody learned: it may have
// taken effect at any time after its call, or not at all.
const Never = math.MaxInt64

// Op is one operation on an object whose state is an S.
type Op[S comparable] struct {
	// Call and Return are times of any clock that all operations share. Those
	// of one moment count as concurrent.
	Call, Return int64
	// Step does the operation: what becomes of a state, and whether the
	// operation could have returned in it what it did. The Step of an
	// operation that never returned has to allow every state.
	Step func(S) (S, bool)
	// Name is what [Check] calls it in a fault.
	Name string
}

// node is the call or the return of an operation, in a list by time.
type node[S comparable] struct {
	op         *Op[S]
	index      int
	match      *node[S] // of a call: its return; nil of a return
	prev, next *node[S]
}

func (n *node[S]) lift() {
	unlink(n)
	unlink(n.match)
}

func unlink[S comparable](n *node[S]) {
	n.prev.next = n.next
	if n.next != nil {
		n.next.prev = n.prev
	}
}

func relink[S comparable](n *node[S]) {
	n.prev.next = n
	if n.next != nil {
		n.next.prev = n
	}
}

func (n *node[S]) unlift() {
	relink(n.match)
	relink(n)
}

// Check reports whether ops are linearizable from the state init. If they are
// not, stuck are the operations of which none could come next in the longest
// order that was found.
func Check[S comparable](init S, ops []Op[S]) (ok bool, stuck []Op[S]) {
	head := list(ops)
	type seen struct {
		done  string
		state S
	}
	cache := map[seen]bool{}
	done := make([]byte, (len(ops)+63)/64*8)
	set := func(i int, v uint64) {
		w := binary.LittleEndian.Uint64(done[i/64*8:])
		binary.LittleEndian.PutUint64(done[i/64*8:], w&^(1<<(i%64))|v<<(i%64))
	}
	type choice struct {
		n     *node[S]
		state S
	}
	var order []choice
	state, best := init, -1
	for n := head.next; head.next != nil; {
		if n.match != nil {
			if next, ok := n.op.Step(state); ok {
				set(n.index, 1)
				if key := (seen{string(done), next}); !cache[key] {
					cache[key] = true
					order = append(order, choice{n, state})
					state = next
					n.lift()
					n = head.next
					continue
				}
				set(n.index, 0)
			}
			n = n.next
			continue
		}
		// A return of what has not been done: the choice before was wrong.
		if len(order) > best {
			best, stuck = len(order), candidates(head)
		}
		if len(order) == 0 {
			return false, stuck
		}
		last := order[len(order)-1]
		order = order[:len(order)-1]
		state = last.state
		set(last.n.index, 0)
		last.n.unlift()
		n = last.n.next
	}
	return true, nil
}

// candidates are the calls before the first return.
func candidates[S comparable](head *node[S]) (c []Op[S]) {
	for n := head.next; n != nil && n.match != nil; n = n.next {
		c = append(c, *n.op)
	}
	return c
}

// list makes the list of calls and returns, behind a node that is neither.
func list[S comparable](ops []Op[S]) *node[S] {
	all := make([]*node[S], 0, 2*len(ops))
	for i := range ops {
		ret := &node[S]{op: &ops[i], index: i}
		all = append(all, &node[S]{op: &ops[i], index: i, match: ret}, ret)
	}
	at := func(n *node[S]) (int64, int) {
		if n.match != nil {
			return n.op.Call, 0
		}
		return n.op.Return, 1
	}
	slices.SortStableFunc(all, func(a, b *node[S]) int {
		ta, ka := at(a)
		tb, kb := at(b)
		return cmp.Or(cmp.Compare(ta, tb), cmp.Compare(ka, kb))
	})
	head := &node[S]{}
	last := head
	for _, n := range all {
		n.prev, last.next = last, n
		last = n
	}
	return head
}
