package state

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// expired reports whether c's lease has run out.
func (s *Store) expired(c *Client, now time.Duration) bool {
	return now-time.Duration(c.renewed.Load()) > s.opt.Lease
}

// renew begins c's lease anew. Precondition: c.gate is held, and no lock.
func (s *Store) renew(c *Client) {
	c.renewed.Store(int64(s.now()))
	if c.lapsed.Load() && c.lapsed.CompareAndSwap(true, false) {
		s.mu.Lock()
		e := c.eventLocked(ClientReturned, "")
		s.mu.Unlock()
		s.emit([]Event{e})
	}
}

// discardExpired drops c and all its state if its lease has run out and none
// of its requests runs. ok reports that c is gone, by this call or another;
// c's shares are gone with it, its locks when c.torn is closed. Precondition:
// no lock is held.
func (s *Store) discardExpired(c *Client, reason string) (ok bool) {
	s.mu.Lock()
	if !c.gate.closeIf(func() bool { return s.expired(c, s.now()) }) {
		s.mu.Unlock()
		return c.gate.dead()
	}
	s.removeLocked(c)
	e := c.eventLocked(ClientDiscarded, reason)
	s.mu.Unlock()
	s.tearDown(c)
	s.emit([]Event{e})
	return true
}

// discardable reports whether discardExpired would be likely to succeed.
func (s *Store) discardable(c *Client) bool {
	return c.gate.dead() || c.gate.running() == 0 && s.expired(c, s.now())
}

// oldestExpiredLocked takes the client that expired first out of the tables;
// nil if there is none. The caller tears it down. Precondition: Store.mu.
func (s *Store) oldestExpiredLocked(now time.Duration) *Client {
	for {
		var oldest *Client
		for _, c := range s.confirmed {
			if s.expired(c, now) && c.gate.running() == 0 &&
				(oldest == nil || c.renewed.Load() < oldest.renewed.Load()) {
				oldest = c
			}
		}
		if oldest == nil {
			return nil
		}
		if oldest.gate.closeIf(func() bool { return s.expired(oldest, now) }) {
			s.removeLocked(oldest)
			return oldest
		}
	}
}

// runExpiry sweeps until ctx ends, often enough that nothing outlives its time
// by more than an eighth of a lease.
func (s *Store) runExpiry(ctx context.Context) {
	t := time.NewTicker(min(max(s.opt.Lease/8, 100*time.Millisecond), 10*time.Second))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.Sweep()
		}
	}
}

// Sweep does what time asks for; runExpiry calls it regularly. Unconfirmed
// records live for a lease. Expired clients without state are discarded, and
// those with state once they have been gone for Options.Courtesy or are too
// many.
func (s *Store) Sweep() {
	type doomed struct {
		c      *Client
		reason string
	}
	var (
		drop     []doomed
		courtesy []*Client
		events   []Event
	)
	s.mu.Lock()
	now := s.now()
	for _, c := range s.unconfirmed {
		if now-c.created > s.opt.Lease {
			s.dropUnconfirmedLocked(c)
		}
	}
	for _, c := range s.confirmed {
		if !s.expired(c, now) {
			continue
		}
		switch {
		case !c.hasState():
			drop = append(drop, doomed{c, "lease expired, no state"})
		case now-time.Duration(c.renewed.Load()) > s.opt.Lease+s.opt.Courtesy:
			drop = append(drop, doomed{c, "lease expired too long ago"})
		default:
			courtesy = append(courtesy, c)
			if c.lapsed.CompareAndSwap(false, true) {
				events = append(events, c.eventLocked(ClientExpired, ""))
			}
		}
	}
	s.balanceLocked()
	s.mu.Unlock()

	if n := len(courtesy) - s.opt.Limits.MaxCourtesy; n > 0 {
		slices.SortFunc(courtesy, func(a, b *Client) int {
			return cmp.Compare(a.renewed.Load(), b.renewed.Load())
		})
		for _, c := range courtesy[:n] {
			drop = append(drop, doomed{c, "too many expired clients"})
		}
	}
	s.emit(events)
	for _, d := range drop {
		s.discardExpired(d.c, d.reason)
	}
}
