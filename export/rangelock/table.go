// Package rangelock keeps the byte-range locks of one file by the rules of
// POSIX (fcntl, F_SETLK): a lock of an owner replaces what that owner holds in
// its range, so that locks of one owner are split, merged, upgraded and
// downgraded, and never conflict with each other.
//
// It is pure: no goroutines, no locks of its own, no waiting. Whoever owns a
// [Table] guards it.
package rangelock

import (
	"iter"
	"slices"

	"capstan/export"
)

// Table holds the locks of one file. The zero Table is empty and ready. It is
// not safe for use by several goroutines.
type Table struct {
	// owners is sorted by owner; an owner without locks is not in it.
	owners []holder
	count  int // locks of all owners
}

// holder is an owner and its locks, sorted by start, not overlapping, and
// never touching a neighbour of the same kind.
type holder struct {
	owner uint64
	held  []span
}

// span is a lock without its owner: [start, end], both included.
type span struct {
	start, end uint64
	write      bool
}

// Lock gives l to its owner in place of what that owner holds in the range.
// If another owner's lock is in the way nothing changes, and the one that
// starts lowest is returned with false. l.Start must not exceed l.End.
func (t *Table) Lock(l export.Lock) (conflict export.Lock, granted bool) {
	if conflict, ok := t.Test(l); !ok {
		return conflict, false
	}
	i, found := t.find(l.Owner)
	if !found {
		t.owners = slices.Insert(t.owners, i, holder{owner: l.Owner})
	}
	t.replace(i, span{l.Start, l.End, l.Write}, true)
	return export.Lock{}, true
}

// Test reports whether l could be granted, and if not which lock is in the
// way: the one that starts lowest, then the one of the lowest owner.
func (t *Table) Test(l export.Lock) (conflict export.Lock, free bool) {
	free = true
	for i := range t.owners {
		h := &t.owners[i]
		if h.owner == l.Owner {
			continue
		}
		for _, s := range h.held[firstEndingAt(h.held, l.Start):] {
			if s.start > l.End {
				break
			}
			if !s.write && !l.Write {
				continue
			}
			if free || s.start < conflict.Start {
				conflict, free = s.lock(h.owner), false
			}
			break
		}
	}
	return conflict, free
}

// Unlock takes from l.Owner all it holds in [l.Start, l.End]; l.Write does not
// matter. It reports whether there was anything.
func (t *Table) Unlock(l export.Lock) bool {
	i, found := t.find(l.Owner)
	return found && t.replace(i, span{start: l.Start, end: l.End}, false)
}

// UnlockOwner takes everything from owner and reports whether there was
// anything.
func (t *Table) UnlockOwner(owner uint64) bool {
	return t.Unlock(export.Lock{Owner: owner, End: export.LockEnd})
}

// Len returns how many locks the table holds, as split and merged.
func (t *Table) Len() int { return t.count }

// Holds reports whether owner holds any lock.
func (t *Table) Holds(owner uint64) bool {
	_, found := t.find(owner)
	return found
}

// All yields every lock, by owner and then by start. The table must not change
// meanwhile.
func (t *Table) All() iter.Seq[export.Lock] {
	return func(yield func(export.Lock) bool) {
		for _, h := range t.owners {
			for _, s := range h.held {
				if !yield(s.lock(h.owner)) {
					return
				}
			}
		}
	}
}

func (s span) lock(owner uint64) export.Lock {
	return export.Lock{Owner: owner, Write: s.write, Start: s.start, End: s.end}
}

func (t *Table) find(owner uint64) (int, bool) {
	return slices.BinarySearchFunc(t.owners, owner, func(h holder, o uint64) int {
		switch {
		case h.owner < o:
			return -1
		case h.owner > o:
			return 1
		}
		return 0
	})
}

// firstEndingAt returns the index of the first span that reaches off.
func firstEndingAt(held []span, off uint64) int {
	i, _ := slices.BinarySearchFunc(held, off, func(s span, off uint64) int {
		if s.end < off {
			return -1
		}
		return 1
	})
	return i
}

// replace clears the range of s in the locks of owners[i] and puts s there if
// put is set. It reports whether the range held anything before, and drops the
// owner if nothing is left.
func (t *Table) replace(i int, s span, put bool) bool {
	h := &t.owners[i]
	before := len(h.held)
	first := firstEndingAt(h.held, s.start)
	last := first // behind the last span that overlaps s
	for last < before && h.held[last].start <= s.end {
		last++
	}
	held := last > first

	// What sticks out on either side of s stays. Being strictly outside, its
	// new bound is at least one away from 0 and from 2^64-1.
	var fresh [3]span
	n := 0
	if held && h.held[first].start < s.start {
		left := h.held[first]
		left.end = s.start - 1
		fresh[n] = left
		n++
	}
	if put {
		fresh[n] = s
		n++
	}
	if held && h.held[last-1].end > s.end {
		right := h.held[last-1]
		right.start = s.end + 1
		fresh[n] = right
		n++
	}
	parts := fresh[:n]
	if put {
		// The neighbours outside may touch s too.
		parts, first, last = joinNeighbours(h.held, parts, first, last)
	}
	h.held = slices.Replace(h.held, first, last, parts...)
	t.count += len(h.held) - before
	if len(h.held) == 0 {
		t.owners = slices.Delete(t.owners, i, i+1)
		if len(t.owners) == 0 {
			t.owners = nil
		}
	}
	return held
}

// joinNeighbours merges touching spans of one kind among parts, which are to
// replace held[first:last], and with the spans next to them.
func joinNeighbours(held, parts []span, first, last int) (joined []span, newFirst, newLast int) {
	out := parts[:1]
	for _, p := range parts[1:] {
		if tail := &out[len(out)-1]; tail.touches(p) {
			tail.end = p.end
		} else {
			out = append(out, p)
		}
	}
	if first > 0 && held[first-1].touches(out[0]) {
		first--
		out[0].start = held[first].start
	}
	if tail := &out[len(out)-1]; last < len(held) && tail.touches(held[last]) {
		tail.end = held[last].end
		last++
	}
	return out, first, last
}

// touches reports whether next begins right behind s and is of the same kind.
func (s span) touches(next span) bool {
	return s.write == next.write && s.end != export.LockEnd && s.end+1 == next.start
}
