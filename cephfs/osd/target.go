package osd

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// target is where a request goes under a map.
type target struct {
	osd     int32 // -1: nowhere
	pg      PG
	pgs     uint32
	force   uint32
	object  Object // the request's, in a cache pool if there is one over its pool
	hash    uint32
	replica bool // osd may be another than the primary
}

// targetLocked finds where a request goes (Objecter::_calc_target).
//
// Precondition: r.shard.mu is held.
func (c *Client) targetLocked(r *request, ms *mapState, p *poolState, behindWrite bool) (target, error) {
	t := target{object: r.object}
	if r.flags&flagNoOverlay == 0 {
		if r.op.flags&flagRead != 0 && p.ReadTier >= 0 {
			t.object.Pool = p.ReadTier
		}
		if r.op.isWrite() && p.WriteTier >= 0 {
			t.object.Pool = p.WriteTier
		}
		if t.object.Pool != r.object.Pool {
			if p = ms.pool(t.object.Pool); p == nil {
				return t, ErrNoPool
			}
		}
	}
	if t.object == r.target {
		t.hash = r.hash
	} else {
		t.hash = ms.Hash(t.object)
	}
	pl := ms.place(t.object.Pool, p, t.hash)
	t.osd, t.pg, t.pgs, t.force = pl.Primary, pl.PG, p.PGs, p.ForceResend
	// Behind a write the primary is asked: only there is a read ordered behind
	// it.
	if r.op.Replica != ReplicaPrimary && !r.noReplica && !behindWrite && !r.op.isWrite() && !p.Erasure && len(pl.Acting) > 1 {
		c.replicaLocked(r, &t, pl.Acting)
	}
	return t, nil
}

// replicaLocked chooses the OSD of a read that may go to a replica. One that
// was chosen stays while it holds the object.
func (c *Client) replicaLocked(r *request, t *target, acting []int32) {
	t.replica = true
	if r.replica && r.session != nil {
		for _, osd := range acting {
			if osd == r.session.osd {
				t.osd = osd
				return
			}
		}
	}
	if r.op.Replica == ReplicaAny {
		t.osd = acting[rand.IntN(len(acting))]
		return
	}
	best := -1
	if c.opts.Distance == nil {
		return
	}
	for _, osd := range acting {
		if d := c.opts.Distance(osd); d >= 0 && (best < 0 || d < best) {
			best, t.osd = d, osd
		}
	}
}

// pausedLocked says whether a map holds a request: sent if it does not.
func (c *Client) pausedLocked(r *request, ms *mapState, p *poolState) (verdict, error) {
	write := r.op.isWrite()
	if write && (ms.flags.Full || p.Full) {
		switch r.op.OnFull {
		case FullFail:
			if p.QuotaFull {
				return failed, ErrQuota
			}
			return failed, ErrFull
		case FullWait:
			c.wantNext()
			return held, nil
		}
	}
	if b := c.barrier.Load(); ms.Epoch() < b {
		c.opts.Maps.WantMap(b)
		return held, nil
	}
	if write && ms.flags.PauseWrite || r.op.flags&flagRead != 0 && ms.flags.PauseRead {
		c.wantNext()
		return held, nil
	}
	return sent, nil
}

// wantNext asks for the map after the present one.
func (c *Client) wantNext() {
	epoch := uint32(0)
	if ms := c.state.Load(); ms != nil {
		epoch = ms.Epoch()
	}
	c.opts.Maps.WantMap(epoch + 1)
}

// poolChecks finds out whether a pool that the map does not have was removed,
// never was, or is too new for the map: it asks for the newest epoch that there
// was after the request came.
type poolChecks struct {
	mu      sync.Mutex // guards the rest; a leaf
	running bool
	started uint64 // number of the check that was begun last
	wanted  uint64
}

// poolAbsentLocked deals with a request whose pool the map does not have.
//
// Precondition: r.shard.mu is held.
func (c *Client) poolAbsentLocked(r *request, ms *mapState) (verdict, error) {
	r.sent, r.link, r.session = false, nil, nil
	switch {
	case r.poolSeen:
		return failed, ErrNoPool
	case r.poolAbsent == 0:
		if r.poolAsked == 0 {
			r.poolAsked = c.askPools()
		}
		return held, nil
	case ms.Epoch() >= r.poolAbsent:
		return failed, ErrNoPool
	}
	c.opts.Maps.WantMap(r.poolAbsent)
	return held, nil
}

// askPools has a check begin after now and returns its number.
func (c *Client) askPools() uint64 {
	k := &c.pools
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = k.started + 1
	if !k.running {
		k.running = true
		c.wg.Go(c.runPoolChecks)
	}
	return k.wanted
}

// poolCheckRetry is the pause after a monitor could not be asked.
const poolCheckRetry = time.Second

func (c *Client) runPoolChecks() {
	k := &c.pools
	for {
		k.mu.Lock()
		if k.started >= k.wanted || c.ctx.Err() != nil {
			k.running = false
			k.mu.Unlock()
			return
		}
		k.started++
		n := k.started
		k.mu.Unlock()

		epoch, err := c.opts.Maps.LatestMap(c.ctx)
		for err != nil && c.ctx.Err() == nil {
			c.log.Warn("osd: newest map not learned", "error", err)
			sleep(c.ctx, poolCheckRetry)
			epoch, err = c.opts.Maps.LatestMap(c.ctx)
		}
		answered := func(r *request) bool { return r.poolAsked != 0 && r.poolAsked <= n }
		c.walkOnly(func(r *request) {
			if answered(r) && r.poolAbsent == 0 {
				r.poolAbsent = max(epoch, 1)
			}
		})
		c.walk(answered)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
