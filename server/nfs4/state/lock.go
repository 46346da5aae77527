package state

import (
	"context"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

// LockRange is the range of LOCK, LOCKT and LOCKU.
type LockRange struct {
	Write  bool // WRITE_LT or WRITEW_LT
	Offset uint64
	Length uint64 // nfsv4.LockToEndLength: to the end of the file
}

// lock is r for an owner. NFS4ERR_INVAL for an empty range, and for one whose
// offset and length add up to more than 2^64-1 (RFC 8881 section 18.10.3).
func (r LockRange) lock(owner uint64) (export.Lock, nfsv4.Status) {
	l := export.Lock{Owner: owner, Write: r.Write, Start: r.Offset, End: export.LockEnd}
	switch {
	case r.Length == 0:
		return l, nfsv4.ErrInval
	case r.Length == nfsv4.LockToEndLength:
		return l, nfsv4.OK
	case r.Length > ^r.Offset:
		return l, nfsv4.ErrInval
	}
	l.End = r.Offset + r.Length - 1
	return l, nfsv4.OK
}

// rangeOf is the range of a lock.
func rangeOf(l export.Lock) LockRange {
	r := LockRange{Write: l.Write, Offset: l.Start, Length: nfsv4.LockToEndLength}
	if l.End != export.LockEnd {
		r.Length = l.End - l.Start + 1
	}
	return r
}

// LockArgs are the arguments of LOCK.
type LockArgs struct {
	Key     FileKey
	Range   LockRange
	Reclaim bool
	// NewOwner selects open_to_lock_owner: StateID is that of the open and
	// Owner names the lock-owner. Else StateID is a lock stateid.
	NewOwner bool
	StateID  nfsv4.StateID
	Owner    []byte // copied
}

// LockDenied is LOCK4denied.
type LockDenied struct {
	Range    LockRange
	ClientID nfsv4.ClientID // 0 with no Owner if it is not a lock of this server's
	Owner    []byte
}

// Lock is LOCK (RFC 8881 section 18.10). With NFS4ERR_DENIED it returns who is
// in the way; a blocking lock is for the client to ask again. It does not end
// with ctx once the Volume was asked, so that the answer is known.
func (c *Client) Lock(ctx context.Context, a *LockArgs) (nfsv4.StateID, *LockDenied, nfsv4.Status) {
	want, st := a.Range.lock(0)
	if st != nfsv4.OK {
		return nfsv4.StateID{}, nil, st
	}
	if a.Reclaim {
		return nfsv4.StateID{}, nil, nfsv4.ErrNoGrace
	}
	ls, h, st := c.beginLock(ctx, a)
	if st != nfsv4.OK {
		return nfsv4.StateID{}, nil, st
	}
	want.Owner = ls.owner.number
	denied, err := c.askLock(ctx, func(ctx context.Context) (*export.Lock, error) {
		return h.file.Lock(ctx, want)
	})
	id, st := c.endLock(ctx, ls, func() { ls.ranges.Lock(want) }, err)
	h.release()
	return id, denied, st
}

// askLock asks the Volume for a lock until no expired client is in the way.
func (c *Client) askLock(ctx context.Context, ask func(context.Context) (*export.Lock, error)) (*LockDenied, error) {
	var unknown uint64 // owner of the lock in the way last time, if nobody knew it
	for range yieldRounds {
		inTheWay, err := ask(context.WithoutCancel(ctx))
		if inTheWay == nil {
			return nil, err
		}
		holder := c.store.numbers.get(inTheWay.Owner)
		if holder == nil {
			if inTheWay.Owner != unknown { // perhaps one that was given back since the Volume looked
				unknown = inTheWay.Owner
				continue
			}
			return &LockDenied{Range: rangeOf(*inTheWay)}, export.ErrLocked
		}
		d := &LockDenied{Range: rangeOf(*inTheWay), ClientID: holder.client.id, Owner: []byte(holder.name)}
		if !c.store.yield([]*Client{holder.client}, "another client needs a lock it holds") {
			return d, export.ErrLocked
		}
		select {
		case <-holder.client.torn:
		case <-ctx.Done():
			return d, export.ErrLocked
		}
	}
	return nil, export.ErrDelay
}

// beginLock finds or makes the lock state, makes it busy, and takes a
// reference to an open file for the call.
func (c *Client) beginLock(ctx context.Context, a *LockArgs) (*lockState, *handle, nfsv4.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var os *openState
		var ls *lockState
		if a.NewOwner {
			var st nfsv4.Status
			if os, st = c.findOpenLocked(a.StateID, a.Key); st != nfsv4.OK {
				return nil, nil, st
			}
			if lo := c.lockOwners[string(a.Owner)]; lo != nil {
				ls = lo.states[a.Key]
			}
		} else {
			ref, st := c.findOnLocked(a.StateID, a.Key)
			if st != nfsv4.OK {
				return nil, nil, st
			}
			if ls = ref.lock; ls == nil {
				return nil, nil, nfsv4.ErrBadStateID
			}
			os = ls.open
		}
		if ls != nil && ls.busy {
			if st := c.awaitLocked(ctx, ls); st != nfsv4.OK {
				return nil, nil, st
			}
			continue // whatever was true before may have changed
		}
		need := AccessRead
		if a.Range.Write {
			need = AccessWrite
		}
		h := os.handleFor(need)
		if h == nil {
			return nil, nil, nfsv4.ErrOpenMode
		}
		switch {
		case ls == nil && c.locks >= c.store.opt.Limits.MaxLocks,
			ls != nil && ls.ranges.Len() >= c.store.opt.Limits.MaxRanges:
			return nil, nil, nfsv4.ErrDelay
		case ls == nil:
			ls = c.newLockStateLocked(a, os, h)
		case ls.open != os:
			ls.detachLocked()
			ls.open = os
			os.locks = append(os.locks, ls)
		}
		ls.busy = true
		return ls, h.hold(), nfsv4.OK
	}
}

// awaitLocked waits until ls is not busy, without c.mu meanwhile.
func (c *Client) awaitLocked(ctx context.Context, ls *lockState) nfsv4.Status {
	idle := ls.waitLocked()
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-idle:
		return nfsv4.OK
	case <-ctx.Done():
		return nfsv4.ErrDelay
	}
}

func (c *Client) newLockStateLocked(a *LockArgs, os *openState, h *handle) *lockState {
	lo := c.lockOwners[string(a.Owner)]
	if lo == nil {
		lo = &lockOwner{client: c, name: string(a.Owner), number: c.store.ids.Add(1),
			states: make(map[FileKey]*lockState)}
		c.lockOwners[lo.name] = lo
	}
	ls := &lockState{number: c.store.ids.Add(1), key: a.Key, owner: lo, handle: h.hold(), open: os, fresh: true}
	lo.states[a.Key] = ls
	os.locks = append(os.locks, ls)
	c.states[ls.number] = stateRef{lock: ls}
	c.locks++
	c.store.numbers.add(lo)
	return ls
}

// endLock ends what made ls busy. If the Volume agreed, applied records it. A
// fresh state whose LOCK failed is undone as if it had never been.
func (c *Client) endLock(ctx context.Context, ls *lockState, applied func(), err error) (nfsv4.StateID, nfsv4.Status) {
	var (
		l  leavings
		id nfsv4.StateID
		st = lockStatus(err)
	)
	c.mu.Lock()
	ls.doneLocked()
	if err == nil {
		applied()
		ls.seq = nextSeq(ls.seq)
		ls.fresh = false
		id = c.store.stateID(ls.number, ls.seq)
	} else if st != nfsv4.ErrDenied {
		ls.doubtful = true
	}
	switch {
	case ls.dead: // closed, revoked or discarded meanwhile, and left to us
		l.locks = append(l.locks, ls)
		id, st = nfsv4.StateID{}, nfsv4.ErrBadStateID
		if c.dead {
			st = nfsv4.ErrExpired
		} else if ls.revoked != nfsv4.OK {
			st = ls.revoked
		}
	case ls.fresh:
		ls.removeLocked()
		ls.dieLocked(&l)
	}
	c.mu.Unlock()
	c.store.giveBack(context.WithoutCancel(ctx), &l)
	return id, st
}

// lockStatus is the outcome of a lock call of a Volume as LOCK, LOCKT and
// LOCKU may answer it.
func lockStatus(err error) nfsv4.Status {
	switch export.StatusOf(err) {
	case export.OK:
		return nfsv4.OK
	case export.ErrLocked:
		return nfsv4.ErrDenied
	case export.ErrAccess:
		return nfsv4.ErrOpenMode
	case export.ErrDeadlock:
		return nfsv4.ErrDeadlock
	case export.ErrInval:
		return nfsv4.ErrInval
	case export.ErrNotSupp:
		return nfsv4.ErrLockNotSupp
	case export.ErrStale:
		return nfsv4.ErrStale
	case export.ErrROFS:
		return nfsv4.ErrROFS
	case export.ErrDelay, export.ErrCanceled:
		return nfsv4.ErrDelay
	}
	return nfsv4.ErrServerFault
}

// LockTArgs are the arguments of LOCKT.
type LockTArgs struct {
	Range LockRange
	Owner []byte
	File  export.File // open for reading or writing; stays the caller's
}

// LockT is LOCKT (RFC 8881 section 18.11).
func (c *Client) LockT(ctx context.Context, a *LockTArgs) (*LockDenied, nfsv4.Status) {
	want, st := a.Range.lock(0)
	if st != nfsv4.OK {
		return nil, st
	}
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return nil, nfsv4.ErrExpired
	}
	if lo := c.lockOwners[string(a.Owner)]; lo != nil {
		want.Owner = lo.number
	} else {
		want.Owner = c.store.ids.Add(1) // one that holds nothing
	}
	c.mu.Unlock()
	denied, err := c.askLock(ctx, func(ctx context.Context) (*export.Lock, error) {
		return a.File.TestLock(ctx, want)
	})
	return denied, lockStatus(err)
}

// LockU is LOCKU (RFC 8881 section 18.12).
func (c *Client) LockU(ctx context.Context, id nfsv4.StateID, key FileKey, r LockRange) (nfsv4.StateID, nfsv4.Status) {
	want, st := r.lock(0)
	if st != nfsv4.OK {
		return nfsv4.StateID{}, st
	}
	ls, st := c.beginUnlock(ctx, id, key)
	if st != nfsv4.OK {
		return nfsv4.StateID{}, st
	}
	want.Owner = ls.owner.number
	err := ls.handle.file.Unlock(context.WithoutCancel(ctx), want)
	return c.endLock(ctx, ls, func() { ls.ranges.Unlock(want) }, err)
}

func (c *Client) beginUnlock(ctx context.Context, id nfsv4.StateID, key FileKey) (*lockState, nfsv4.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		ref, st := c.findOnLocked(id, key)
		switch {
		case st != nfsv4.OK:
			return nil, st
		case ref.lock == nil:
			return nil, nfsv4.ErrBadStateID
		case !ref.lock.busy:
			ref.lock.busy = true
			return ref.lock, nfsv4.OK
		}
		if st := c.awaitLocked(ctx, ref.lock); st != nfsv4.OK {
			return nil, st
		}
	}
}
