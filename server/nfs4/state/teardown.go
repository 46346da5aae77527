package state

import (
	"context"

	"capstan/export"
)

// leavings collects, under locks, what has to be given back behind them.
type leavings struct {
	locks   []*lockState // taken out of all tables, not busy
	handles []*handle    // one reference each
}

func (l *leavings) empty() bool { return len(l.locks)+len(l.handles) == 0 }

// giveBack unlocks and closes. Precondition: no lock is held.
func (s *Store) giveBack(ctx context.Context, l *leavings) {
	for _, ls := range l.locks {
		s.releaseLocks(ctx, ls)
	}
	for _, h := range l.handles {
		h.release()
	}
}

// releaseLocks gives back all that ls holds in the Volume and forgets its
// owner's number if that has nothing else.
func (s *Store) releaseLocks(ctx context.Context, ls *lockState) {
	if ls.ranges.Len() > 0 || ls.doubtful {
		all := export.Lock{Owner: ls.owner.number, End: export.LockEnd}
		if err := ls.handle.file.Unlock(ctx, all); err != nil {
			s.opt.Logger.Warn("locks of a client could not be given back",
				"client", clientIDText(ls.owner.client.id), "export", ls.key.Export,
				"inode", ls.key.Object.Ino, "err", err)
		}
	}
	ls.handle.release()
	s.numbers.drop(ls.owner)
}

// die ends c's state: its shares are gone when it returns; what has to be
// given back is left in c.left, for tearDown. Precondition: Store.mu.
func (c *Client) die() {
	l := &c.left
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for _, ref := range c.states {
		switch {
		case ref.lock != nil && ref.lock.revoked == 0:
			ref.lock.dieLocked(l)
		case ref.open != nil && ref.open.revoked == 0:
			ref.open.dieLocked(l)
		}
	}
	c.states, c.openOwners, c.lockOwners = nil, nil, nil
	c.opens, c.locks = 0, 0
	c.revoked.Store(0)
}

// tearDown gives back what c held; c.torn is closed when that is done.
// Preconditions: removeLocked took c out, no lock is held, and this is the only
// call for c.
func (s *Store) tearDown(c *Client) {
	if c.left.empty() {
		close(c.torn)
		return
	}
	s.goJob(func() { s.runTeardown(c) })
}

func (s *Store) runTeardown(c *Client) {
	defer close(c.torn)
	s.giveBack(s.volumeCtx, &c.left)
}
