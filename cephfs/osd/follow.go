package osd

import (
	"context"
	"sync/atomic"
)

// handleMap takes in the next map: everything whose place changed moves, in the
// order of the tids. Maps are taken in one by one, each to its end, so that a
// placement group that moved away and back does not seem to have stayed.
func (c *Client) handleMap(m Map) {
	c.mapMu.Lock()
	defer c.mapMu.Unlock()
	old := c.state.Load()
	if c.deadErr() != nil || old != nil && m.Epoch() <= old.Epoch() {
		return
	}
	resend := uint32(0)
	if old != nil {
		if resend = old.resend; m.Epoch() != old.Epoch()+1 {
			resend++
		}
	}
	if self := c.opts.Messenger.Addr(); m.Blocklisted(self) {
		c.log.Error("osd: this client is blocklisted", "addr", self, "epoch", m.Epoch())
		c.die(ErrBlocklisted)
		return
	}
	ms := newMapState(m, resend)
	c.state.Store(ms)
	for _, s := range *c.sessions.Load() {
		s.follow(ms)
	}
	c.walk(func(*request) bool { return true })
	c.wakeWaiters(m.Epoch())
}

// walk puts right the chains of the requests that match, in the order of the
// tids, each once. match is called with the lock of the request's shard held.
func (c *Client) walk(match func(*request) bool) {
	var out finished
	n := c.walks.Add(1)
	for _, r := range c.table.All() {
		r.shard.mu.Lock()
		if ch := r.chain; ch != nil && ch.walked != n && match(r) {
			ch.walked = n
			c.runLocked(ch, &out)
		}
		r.shard.mu.Unlock()
		if len(out) > 0 {
			out.complete()
			out = out[:0]
		}
	}
}

// walkOnly calls f for each request, with the lock of its shard held.
func (c *Client) walkOnly(f func(*request)) {
	for _, r := range c.table.All() {
		r.shard.mu.Lock()
		if r.chain != nil {
			f(r)
		}
		r.shard.mu.Unlock()
	}
}

// Epoch is that of the newest map taken in; 0 before the first.
func (c *Client) Epoch() uint32 {
	if ms := c.state.Load(); ms != nil {
		return ms.Epoch()
	}
	return 0
}

// SetBarrier has every operation that was not sent yet, and every later one,
// wait until the client has a map of at least this epoch; what was sent is not
// sent again before. A metadata server
// asks for it: the maps up to there may hold back another client whose
// capabilities were taken. Barriers only rise.
func (c *Client) SetBarrier(epoch uint32) {
	for {
		b := c.barrier.Load()
		if epoch <= b {
			return
		}
		if c.barrier.CompareAndSwap(b, epoch) {
			break
		}
	}
	if c.Epoch() < epoch {
		c.opts.Maps.WantMap(epoch)
	}
}

// Barrier is the highest epoch given to [Client.SetBarrier].
func (c *Client) Barrier() uint32 { return c.barrier.Load() }

// WaitEpoch waits for a map of at least this epoch.
func (c *Client) WaitEpoch(ctx context.Context, epoch uint32) error {
	if c.Epoch() >= epoch {
		return nil
	}
	ch := make(chan struct{})
	c.waitMu.Lock()
	c.waiters[ch] = epoch
	c.waitMu.Unlock()
	defer func() {
		c.waitMu.Lock()
		delete(c.waiters, ch)
		c.waitMu.Unlock()
	}()
	c.opts.Maps.WantMap(epoch)
	// The map, or the end, may have come before ch was there.
	for c.Epoch() < epoch {
		if err := c.deadErr(); err != nil {
			return err
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// wakeWaiters wakes those who wait for an epoch up to this one, or all if it is
// 0.
func (c *Client) wakeWaiters(epoch uint32) {
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	for ch, want := range c.waiters {
		if epoch == 0 || want <= epoch {
			close(ch)
			delete(c.waiters, ch)
		}
	}
}

// PoolInfo returns what the newest map says of a pool.
func (c *Client) PoolInfo(id int64) (Pool, bool) {
	if ms := c.state.Load(); ms != nil {
		if p := ms.pool(id); p != nil {
			return p.Pool, true
		}
	}
	return Pool{}, false
}

// Alignment returns the bytes that a pool's writes must be multiples of, and
// begin at: the stripe of an erasure-coded pool without overwrites, which can
// only append. It is 1 for other pools.
func (c *Client) Alignment(pool int64) uint64 {
	if p, ok := c.PoolInfo(pool); ok && p.Erasure && !p.Overwrites && p.Stripe > 0 {
		return uint64(p.Stripe)
	}
	return 1
}

// counters count what the client did.
type counters struct {
	sent, resent, replies, placed, stale, stray, cancelled, lost, backoffs atomic.Uint64
}

// Stats are counts since the client was made.
type Stats struct {
	Sent      uint64 // messages with operations
	Resent    uint64 // of them, those that were not the first of their operation
	Replies   uint64 // that completed an operation
	Placed    uint64 // replies whose data were received into buffers of the caller, at least in part
	Stale     uint64 // replies to an earlier try
	Stray     uint64 // replies to no operation, such as a cancelled one
	Cancelled uint64 // operations whose context ended
	Lost      uint64 // connections
	Backoffs  uint64 // that OSDs asked for
	Ops       int    // under way
	Bytes     int64  // under way
}

// Stats returns the counts.
func (c *Client) Stats() Stats {
	s := &c.stats
	ops, bytes := c.room.inUse()
	return Stats{
		Sent: s.sent.Load(), Resent: s.resent.Load(), Replies: s.replies.Load(), Placed: s.placed.Load(), Stale: s.stale.Load(),
		Stray: s.stray.Load(), Cancelled: s.cancelled.Load(), Lost: s.lost.Load(),
		Backoffs: s.backoffs.Load(), Ops: ops, Bytes: bytes,
	}
}
