package osd

// chain is the requests on one object, in the order of their submission, which
// is the order in which the OSD has to see them. A request is sent only while
// all before it are: what holds one, holds those behind it.
//
// Nothing is noted anywhere when a connection or a map goes: a request counts
// as sent while what it was sent under is what it would be sent under now
// ([Client.tryLocked]). So whoever comes first, a new request or the walk that
// follows a change, puts the whole chain right, and in its order.
//
// A chain is guarded by the lock of its shard.
type chain struct {
	object     Object // the key in its shard
	head, tail *request
	writes     int // of its requests, those that change something
	// All requests of the chain were sent under this map, by connections none
	// of which broke while the client had lost this number. cleanMap is nil if
	// that is not known.
	cleanMap    *mapState
	cleanBreaks uint64
	walked      uint64 // the last walk that came by
	// A request was held, those behind it are marked so too, as it was with this
	// connection, and no request was sent or marked since.
	stopped     bool
	stoppedLink *link
}

// clean reports whether a look at the requests of the chain would change
// nothing.
func (ch *chain) clean(c *Client) bool {
	return ch.cleanMap != nil && ch.cleanMap == c.state.Load() && ch.cleanBreaks == c.breaks.Load()
}

// verdict is what became of a request.
type verdict uint8

const (
	held   verdict = iota // something has to happen first
	sent                  // the OSD has it
	failed                // it cannot be done
	again                 // what was sent before it was lost meanwhile: begin again
)

// finished are the requests that are to be completed when no lock is held.
type finished []finish

type finish struct {
	r   *request
	err error
}

func (f finished) complete() {
	for _, x := range f {
		x.r.complete(nil, x.err, nil)
	}
}

// appendLocked puts a new request in its chain and sends it if it may be.
//
// Preconditions: r.shard.mu is held; r is in the table.
func (c *Client) appendLocked(r *request, out *finished) {
	ch := r.shard.chains[r.base]
	if ch == nil {
		ch = &chain{object: r.base}
		r.shard.chains[r.base] = ch
	}
	r.chain, r.prev = ch, ch.tail
	if ch.tail == nil {
		ch.head = r
	} else {
		ch.tail.next = r
	}
	ch.tail = r
	behindWrite := ch.writes > 0
	if r.op.isWrite() {
		ch.writes++
	}
	switch {
	case r.prev == nil:
	case !r.prev.sent:
		if r.prev.parked {
			r.parkLocked()
		}
		return // whatever lets that one go takes r along
	case ch.clean(c): // needs no look at those before r
		v, err := c.tryLocked(r, ch.cleanMap, behindWrite)
		if v != sent {
			ch.cleanMap = nil
		}
		switch v {
		case failed:
			c.failLocked(r, err, out)
			return
		case held, sent:
			return
		}
	}
	c.runLocked(ch, out)
}

// runLocked sends what a chain holds and may send.
//
// Precondition: the lock of the chain's shard is held.
func (c *Client) runLocked(ch *chain, out *finished) {
	if ch.clean(c) {
		return
	}
	ms, breaks := c.state.Load(), c.breaks.Load()
	behindWrite := false
	for r := ch.head; r != nil; {
		next, write, was := r.next, r.op.isWrite(), r.sent
		v, err := c.tryLocked(r, ms, behindWrite)
		switch v {
		case held:
			// What is behind may not overtake it. If it was sent before, it is
			// sent again behind r; an answer is taken meanwhile if one to r
			// would be.
			ch.stopped = ch.stopped && !was
			for ; next != nil && !(ch.stopped && ch.stoppedLink == r.link); next = next.next {
				r.shard.looks++
				next.sent = false
				if r.parked {
					next.parkLocked()
				}
				if next.link != r.link {
					next.link = nil
				}
			}
			ch.stopped, ch.stoppedLink = true, r.link
			ch.cleanMap = nil
			return
		case again:
			next, breaks, behindWrite = ch.head, c.breaks.Load(), false
		case failed:
			c.failLocked(r, err, out)
		case sent:
			behindWrite = behindWrite || write
		}
		r = next
	}
	ch.cleanMap, ch.cleanBreaks = ms, breaks
}

// failLocked takes a request that cannot be done out of table and chain. If
// somebody else took it from the table, who will complete it, it leaves the
// chain all the same: it is not sent any more, and nothing waits for it.
func (c *Client) failLocked(r *request, err error, out *finished) {
	c.unlinkLocked(r)
	if c.table.Take(r.tid) == nil {
		return
	}
	*out = append(*out, finish{r, r.fail(err)})
}

// unlinkLocked takes a request out of its chain.
func (c *Client) unlinkLocked(r *request) {
	ch := r.chain
	if ch == nil {
		return
	}
	if r.prev == nil {
		ch.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		ch.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	if r.op.isWrite() {
		ch.writes--
	}
	r.chain, r.next, r.prev = nil, nil, nil
	if ch.head == nil {
		delete(r.shard.chains, ch.object)
	}
}

// removeLocked takes a request out of its chain and sends what it held back.
func (c *Client) removeLocked(r *request, out *finished) {
	ch := r.chain
	if ch == nil {
		return
	}
	first := !r.sent && (r.prev == nil || r.prev.sent) // of those that are held
	c.unlinkLocked(r)
	if first && ch.head != nil {
		c.runLocked(ch, out)
	}
}

// tryLocked finds out what is to become of a request under a map, and sends it
// if it is to be sent.
//
// Preconditions: r.shard.mu is held; all requests before r in its chain are
// sent, and behindWrite says whether one of them changes something.
func (c *Client) tryLocked(r *request, ms *mapState, behindWrite bool) (verdict, error) {
	r.shard.looks++
	if err := c.deadErr(); err != nil {
		return failed, err
	}
	if r.rest != nil {
		return held, nil
	}
	if ms == nil {
		c.opts.Maps.WantMap(1)
		return held, nil
	}
	p := ms.pool(r.object.Pool)
	if p == nil {
		return c.poolAbsentLocked(r, ms)
	}
	r.poolSeen = true
	if p.EIO {
		return failed, ErrPoolEIO
	}
	if v, err := c.pausedLocked(r, ms, p); v != sent {
		r.sent = false
		if v == held {
			r.parkLocked()
		}
		return v, err
	}

	t, err := c.targetLocked(r, ms, p, behindWrite)
	if err != nil {
		return failed, err
	}
	if t.osd < 0 {
		return r.nowhereLocked(nil), nil
	}
	s := c.session(t.osd)
	if s == nil {
		return failed, c.deadErr()
	}
	l := s.connected()
	if l == nil {
		return r.nowhereLocked(s), nil
	}
	if r.sent && r.link == l && r.pg == t.pg && r.pgs == t.pgs && r.resend == ms.resend && r.force >= t.force {
		return sent, nil
	}

	// A connection may break at any moment. If that happened since those before
	// r were looked at, l is a new one, on which they have to go first.
	for q := r.prev; q != nil; q = q.prev {
		r.shard.looks++
		if q.session == s {
			if q.link != l {
				return again, nil
			}
			break
		}
	}

	if t.object != r.target {
		r.target, r.hash = t.object, t.hash
		r.front = nil // what is in it names another
	}
	r.session, r.link, r.replica = s, l, t.replica
	r.pg, r.pgs, r.resend, r.force = t.pg, t.pgs, ms.resend, t.force
	if l.backedOff(t.pg, positionOf(t.object, t.hash)) {
		r.sent = false
		return held, nil
	}
	r.roomLocked(s.room)
	c.stats.sent.Add(1)
	if r.tries > 0 {
		c.stats.resent.Add(1)
	}
	r.chain.stopped = false
	if r.sent = r.sendLocked(ms); !r.sent {
		return held, nil // the connection is dead, and says so to its dispatcher, which walks
	}
	return sent, nil
}

// unsentLocked notes that the OSD does not have a request, or will not do it.
func (r *request) unsentLocked() {
	r.sent = false
	r.chain.cleanMap, r.chain.stopped = nil, false
}

// nowhereLocked notes that a request can be sent nowhere now; s, if not nil, is
// where it goes when there is a connection.
func (r *request) nowhereLocked(s *session) verdict {
	r.sent, r.link, r.session = false, nil, s
	if s == nil {
		r.c.wantNext()
	}
	return held
}
