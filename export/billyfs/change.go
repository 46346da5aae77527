package billyfs

import "capstan/export"

// The change attribute of an object is a stamp, the time of its last change in
// nanoseconds as the filesystem tells it, plus a bump of our own. A stamp alone
// is not enough: two changes within one tick of the filesystem's clock (4 ms
// on many) have one stamp, and a client that saw the state between the two
// would keep it.
//
// So every change of ours is numbered after it was made, and every observation
// (a stat whose result goes to a client) knows the number of the newest change
// before it began. An observation with an old stamp that covers a change which
// no observation covered before moves the bump. The bump is written to the
// table before the value leaves, together with its stamp, so the value stays
// the same over a restart; it is dropped as soon as the stamp moves, which it
// does by far more nanoseconds than there can be changes in a tick: values
// only grow unless the filesystem's clock is set back.
//
// An observation that a change may have come into, or not, has a value that no
// other has: nothing is known of the two states it may have seen.
//
// What remains: a change that was observed by nobody before the process was
// killed, within the same tick as one that was.

// changed says that ino was changed by us. It is called after the change and
// before anyone is told of it. It returns the numbers of the change before, as
// far as it is known, and of this one.
func (t *table) changed(ino uint64, gen uint32) (before, this uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.makeLocked(ino, gen)
	before, n.lastChange = n.lastChange, t.seq.Add(1)
	return before, n.lastChange
}

// changing says that ino is about to be changed by us, until done is called
// with what it returns, behind changed.
func (t *table) changing(ino uint64, gen uint32) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.makeLocked(ino, gen)
	n.changing++
	return n
}

// done ends what changing began.
func (t *table) done(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.changing--
}

// newest returns the number of the newest change of ino, 0 if it is not known.
func (t *table) newest(ino uint64, gen uint32) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.makeLocked(ino, gen).lastChange
}

// atomic reports whether nothing can have changed the attributes of t between
// what a call saw before and after but the call's own change, whose numbers are
// given. The caller holds the object exclusively and its directory shared;
// writes take no lock but are counted, while they run and when they are done.
func (v *Volume) atomic(t *target, before, this uint64) bool {
	switch {
	case v.shared:
		return false
	case t.info.Type != export.TypeRegular:
		return true
	case before > t.seq, t.info.Nlink > 1: // a Create by another name may be cutting it
		return false
	}
	if op := v.openedOf(t.obj); op != nil && op.writing.Load() != 0 {
		return false
	}
	return v.table.newest(t.obj.Ino, t.obj.NameHash) == this
}

// now returns the number that an observation beginning now carries.
func (t *table) now() uint64 { return t.seq.Load() }

// observe returns the change attribute of an object seen with a stamp by an
// observation that began at seq.
func (t *table) observe(ino uint64, gen uint32, seq, stamp uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.makeLocked(ino, gen)
	// With a change under way meanwhile nobody knows whether it was seen.
	unsure := n.changing > 0 || n.lastChange > seq
	if stamp != n.stamp {
		switch {
		case seq >= n.seen:
			n.stamp, n.bump, n.seen, n.unsure = stamp, 0, seq, unsure
			return stamp
		case !unsure:
			return stamp // overtaken by a newer observation: whoever is told it will look again
		}
		stamp = n.stamp
	}
	if unsure || n.unsure || n.lastChange > n.seen {
		n.unsure = unsure
		n.bump++
		if t.keptLocked(n) {
			_ = t.applyLocked(false, n)
		}
	}
	if !unsure {
		n.seen = max(n.seen, seq)
	}
	return stamp + n.bump
}
