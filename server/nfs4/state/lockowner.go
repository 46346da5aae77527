package state

import (
	"sync"

	"capstan/export/rangelock"
	"capstan/server/nfs4/nfsv4"
)

// lockOwner is a lock_owner4 of a client (RFC 8881 section 9.5). It exists
// while it has lock stateids.
type lockOwner struct {
	client *Client // constant
	name   string  // constant
	number uint64  // constant: export.Lock.Owner, unique in this run

	states map[FileKey]*lockState // guarded by Client.mu
}

// lockState is what one lock-owner holds in one file, with one stateid. It
// hangs on the open it was last locked through. Guarded by Client.mu, but for
// handle, which does not change.
//
// While a call into the Volume runs for it, it is busy, and others that want
// it wait. If it dies meanwhile, whoever made it busy gives its locks back.
type lockState struct {
	number   uint64 // constant
	key      FileKey
	owner    *lockOwner
	handle   *handle // of its own, for unlocking
	seq      uint32
	open     *openState
	ranges   rangelock.Table // what it holds
	doubtful bool            // a call failed such that ranges may not be all it holds
	fresh    bool            // no LOCK has succeeded yet
	busy     bool
	idle     chan struct{} // closed when it stops being busy; nil if nobody waits
	dead     bool          // out of the tables
	revoked  nfsv4.Status
}

// waitLocked returns what to wait on. Precondition: ls is busy.
func (ls *lockState) waitLocked() <-chan struct{} {
	if ls.idle == nil {
		ls.idle = make(chan struct{})
	}
	return ls.idle
}

func (ls *lockState) doneLocked() {
	ls.busy = false
	if ls.idle != nil {
		close(ls.idle)
		ls.idle = nil
	}
}

// removeLocked takes ls out of its client's tables.
func (ls *lockState) removeLocked() {
	c := ls.owner.client
	delete(c.states, ls.number)
	delete(ls.owner.states, ls.key)
	if len(ls.owner.states) == 0 {
		delete(c.lockOwners, ls.owner.name)
	}
	ls.detachLocked()
	c.locks--
}

// detachLocked takes ls off the open it hangs on.
func (ls *lockState) detachLocked() {
	locks := ls.open.locks
	for i := range locks {
		if locks[i] == ls {
			last := len(locks) - 1
			locks[i], locks[last] = locks[last], nil
			ls.open.locks = locks[:last]
			return
		}
	}
}

// dieLocked marks ls as out of the tables, and leaves its locks to be given
// back: to l, or to who is busy with it.
func (ls *lockState) dieLocked(l *leavings) {
	ls.dead = true
	if !ls.busy {
		l.locks = append(l.locks, ls)
	}
}

// numberTable finds lock-owners by number, for LOCK4denied.
type numberTable struct {
	mu sync.Mutex // guards m; innermost
	m  map[uint64]*numbered
}

// numbered counts the lock states that may hold locks under a number.
type numbered struct {
	owner *lockOwner
	n     int
}

func (t *numberTable) init() { t.m = make(map[uint64]*numbered) }

// add counts a lock state of o.
func (t *numberTable) add(o *lockOwner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.m[o.number]
	if e == nil {
		e = &numbered{owner: o}
		t.m[o.number] = e
	}
	e.n++
}

// drop takes back what add counted.
func (t *numberTable) drop(o *lockOwner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.m[o.number]; e != nil {
		if e.n--; e.n == 0 {
			delete(t.m, o.number)
		}
	}
}

func (t *numberTable) get(number uint64) *lockOwner {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.m[number]; e != nil {
		return e.owner
	}
	return nil
}

func (t *numberTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m)
}
