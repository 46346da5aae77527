package osd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// maxRedirects bounds how often an operation is sent elsewhere.
const maxRedirects = 16

// handleReply completes the request that a message answers, if it is an answer
// to the last try.
func (c *Client) handleReply(l *link, m *msgr.Message) {
	r := c.table.Get(m.Tid - c.tidBase)
	if r == nil {
		c.stats.stray.Add(1)
		release(m)
		return
	}
	rep := &Reply{msg: m, placed: m.Placed}
	var data []byte
	switch {
	case m.Placed, len(m.Data) == 0:
	case len(m.Data) == 1:
		data = m.Data[0]
	default:
		data = slices.Concat(m.Data...)
	}
	var d denc.Decoder
	var body reply
	d.Reset(m.Front)
	if m.Placed {
		decodeReplyFront(&body, &d, m.Version, m.DataLen(), rep.room[:0])
	} else {
		decodeReplyInto(&body, &d, m.Version, data, rep.room[:0])
	}
	rep.Results, rep.Version, rep.Epoch = body.results, body.version, body.epoch

	var out finished
	var err error
	r.shard.mu.Lock()
	switch {
	case !d.OK() && !r.awaitsLocked(l, -1), d.OK() && !r.awaitsLocked(l, body.try):
		// An answer to an earlier try would complete a request that the last
		// one is about to do again.
		r.shard.mu.Unlock()
		c.stats.stale.Add(1)
		release(m)
		return
	case !d.OK():
		err = fmt.Errorf("%w: %w", ErrReply, d.Err())
	case body.redirected:
		if r.redirects++; r.redirects <= maxRedirects {
			r.redirectLocked(&body)
			c.againLocked(r, &out)
			m = nil
		} else {
			err = syscall.ELOOP
		}
	case body.result == -int32(syscall.EAGAIN):
		if r.replica {
			r.noReplica = true // the primary can
		} else {
			r.restLocked()
		}
		c.againLocked(r, &out)
		m = nil
	default:
		err = resultError(body.result)
		if err == nil && len(rep.Results) != len(r.op.subops) {
			err = fmt.Errorf("%w: %d results of %d operations", ErrReply, len(rep.Results), len(r.op.subops))
		}
	}
	if m == nil {
		r.shard.mu.Unlock()
		rep.Release()
		out.complete()
		return
	}
	if m.Placed {
		// It is the one answer to this try that was placed.
		r.op.takeAside(rep.Results, r.placed.aside)
	}
	taken := c.table.Take(r.tid) != nil
	if taken {
		c.removeLocked(r, &out)
	}
	r.shard.mu.Unlock()
	if !taken { // cancelled at this moment
		rep.Release()
		out.complete()
		return
	}
	r.op.clip(rep)
	if err == ErrBlocklisted {
		// The map that says so ends everything else.
		c.opts.Maps.WantMap(body.epoch)
	}
	c.stats.replies.Add(1)
	if err != nil {
		err = r.fail(err)
	}
	r.complete(rep, err, l)
	out.complete()
}

// A primary that cannot do a request now is asked again after a pause, doubled
// each time.
const (
	refusedInitial = 10 * time.Millisecond
	refusedMax     = 2 * time.Second
)

// restLocked has a request wait, and what is behind it.
//
// Preconditions: r.shard.mu is held; the client's wg counts something.
func (r *request) restLocked() {
	d := refusedMax
	if r.refusals < 16 {
		d = min(d, refusedInitial<<r.refusals)
	}
	r.refusals++
	d = d/2 + rand.N(d/2+1)
	c := r.c
	c.wg.Add(1)
	r.rest = time.AfterFunc(d, func() {
		defer c.wg.Done()
		var out finished
		r.shard.mu.Lock()
		r.rest = nil
		if r.chain != nil {
			c.runLocked(r.chain, &out)
		}
		r.shard.mu.Unlock()
		out.complete()
	})
}

// stopRest has a request that ended wait no more.
func (r *request) stopRest() {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	if r.rest != nil && r.rest.Stop() {
		r.c.wg.Done()
	}
	r.rest = nil
}

// againLocked sends a request again.
func (c *Client) againLocked(r *request, out *finished) {
	r.unsentLocked()
	c.runLocked(r.chain, out)
}

// redirectLocked points a request to where a reply said.
func (r *request) redirectLocked(body *reply) {
	name := r.object.Name
	r.object = body.redirect
	r.object.Name = name
	if body.redirectObj != "" {
		r.object.Name = body.redirectObj
	}
	r.poolSeen, r.poolAsked, r.poolAbsent = false, 0, 0 // the map may be too old for it
	r.flags |= flagRedirected | flagIgnoreCache | flagNoOverlay
}

// maxStrikes is how many connections an answer may break that is larger than
// the messenger takes.
const maxStrikes = 3

// strike finds out whose answer broke a connection with its length, for sending
// that request again breaks the next one. The messenger did not come to read
// whose it was: it counts against those that may have the largest.
func (c *Client) strike(l *link, err error) {
	size := func(r *request) int {
		switch {
		case r.link != l || !r.sent:
			return -1
		case r.op.open:
			return unbounded
		}
		return r.op.answer
	}
	most := 0
	c.walkOnly(func(r *request) { most = max(most, size(r)) })
	if most == 0 {
		return // it answered an operation that ended
	}
	var guilty []*request
	c.walkOnly(func(r *request) {
		if size(r) != most {
			return
		}
		if r.strikes++; r.strikes >= maxStrikes {
			guilty = append(guilty, r)
		}
	})
	for _, r := range guilty {
		if c.table.Take(r.tid) != nil {
			c.end(r, fmt.Errorf("%w: %w", ErrReply, err))
		}
	}
}
