package rpc

import (
	"sync"
	"time"
)

// A client that makes one call after the other gains nothing from a second
// worker that waits for its next record while the first runs the call, and to
// wake that one up costs more than many calls do. So after some calls that were
// alone and quick, the worker keeps the reading role of the connection while it
// runs the call ("inline"). Should such a call take longer than a rescuer's
// period or two, the rescuer passes the role on, so that the connection is read
// again; inline calls are then off for a while.
//
// The same goes for a client that sends many calls at once, each of which takes
// less than it costs to give it to another worker. So where the next record is
// here already, and recent calls were quick, the worker runs one call after the
// other and holds the replies back until it has run the last (a "burst"). That
// they are sent together saves more than the switches do. A call that turns out
// to be slow, because it waits or moves much data, ends bursts for a while.
const (
	inlineAfter  = 8                      // calls that were alone before one is inline
	inlinePause  = 64                     // and after a rescue, or a slow call in a burst
	rescuePeriod = 500 * time.Microsecond // how often the rescuer looks
	rescueIdle   = 40                     // periods without a call until a connection is not looked at
	burstMax     = 16                     // replies held at most
	burstSlow    = 50 * time.Microsecond  // a call that takes longer ends bursts for a while
)

// runMode is how a call is run.
type runMode uint8

const (
	runPass  runMode = iota // after the reading role was passed on
	runAlone                // inline, the only call in flight
	runHold                 // inline, in a burst: the reply is held
	runLast                 // inline, the last of a burst: all replies are sent
)

// rescuer watches the connections that run calls inline. Its goroutine is there
// while there are such connections.
type rescuer struct {
	workers *pool         // constant
	stop    chan struct{} // closed by close

	mu      sync.Mutex
	conns   []rescued // appended to by anybody, else changed by the goroutine
	running bool
	closed  bool

	wg sync.WaitGroup // the goroutine
}

// rescued is what the rescuer knows of a connection.
type rescued struct {
	c     *Conn
	seq   uint64 // at the last look
	quiet int    // looks without a call
}

// add has the rescuer look after c. Precondition: c.mu is held.
func (r *rescuer) add(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.conns = append(r.conns, rescued{c: c})
	if !r.running {
		r.running = true
		r.wg.Go(r.run)
	}
}

// close ends the goroutine and waits for it.
func (r *rescuer) close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stop)
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// run is the body of the rescuer's goroutine.
func (r *rescuer) run() {
	tick := time.NewTicker(rescuePeriod)
	defer tick.Stop()
	var look []rescued
	for {
		select {
		case <-tick.C:
		case <-r.stop:
			return
		}
		r.mu.Lock()
		look = append(look[:0], r.conns...)
		r.mu.Unlock()
		for i := range look {
			look[i].check(r.workers)
		}
		if !r.keep(look) {
			return
		}
	}
}

// check rescues the connection if it runs the same call as at the last look.
func (e *rescued) check(workers *pool) {
	c := e.c
	seq := c.inlineSeq.Load()
	if seq != e.seq {
		e.seq, e.quiet = seq, 0
		return
	}
	e.quiet++
	if seq%2 == 0 {
		return // no call runs inline
	}
	c.mu.Lock()
	rescue := c.inlineSeq.Load() == seq
	if rescue {
		c.inlineSeq.Add(1)
		c.alone, c.burst = -inlinePause, -inlinePause
		c.rescued = true
	}
	c.mu.Unlock()
	if rescue {
		workers.submit(c)
	}
}

// keep takes over what was learnt in a look at the first connections, drops
// those that make no calls, and reports whether any are left.
func (r *rescuer) keep(look []rescued) bool {
	for i := range look {
		e := &look[i]
		if e.quiet <= rescueIdle {
			continue
		}
		e.c.mu.Lock()
		if e.seq%2 == 0 && e.c.inlineSeq.Load() == e.seq {
			e.c.watched = false // its next inline call adds it again
			e.c.mu.Unlock()
			e.c = nil
			continue
		}
		e.c.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	added := r.conns[len(look):]
	kept := r.conns[:0]
	for _, e := range look {
		if e.c != nil {
			kept = append(kept, e)
		}
	}
	kept = append(kept, added...)
	clear(r.conns[len(kept):])
	clear(look)
	r.conns = kept
	r.running = len(kept) > 0
	return r.running
}

// runInline runs a call inline and reports whether the caller still holds the
// reading role afterwards. Precondition: began returned seq.
func (c *Conn) runInline(call *Call, kind shape, seq uint64) bool {
	c.runCall(call, kind, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inlineSeq.Load() != seq {
		return false // rescued
	}
	c.inlineSeq.Add(1)
	return true
}

// runBurst is runInline for a call of a burst.
func (c *Conn) runBurst(call *Call, kind shape, seq uint64, last bool) bool {
	took := c.runCall(call, kind, true)
	if last {
		c.send.kick() // like a call, it may be rescued from
	}
	c.mu.Lock()
	mine := c.inlineSeq.Load() == seq
	if mine {
		c.inlineSeq.Add(1)
		if c.unsent++; last {
			c.unsent = 0
		}
		if took > burstSlow {
			c.burst = -inlinePause
		}
	}
	c.mu.Unlock()
	if !mine {
		c.send.kick() // whoever has the role now does not know of this reply
	}
	return mine
}
