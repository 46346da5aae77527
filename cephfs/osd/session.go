package osd

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// session is what the client has with one OSD: at most one connection that
// lives, made when it is needed and kept.
type session struct {
	c    *Client   // constant
	osd  int32     // constant
	room *throttle // bounds what is under way here; constant

	link atomic.Pointer[link] // nil while there is none; replaced under mu

	mu       sync.Mutex
	shutdown bool        // guarded by mu; no link is made any more
	failures int         // guarded by mu; links in a row of which nothing came; see lost
	retry    *time.Timer // guarded by mu; set while a link is not to be made yet
	// pending counts links whose Closed is to come and timers that will run: the
	// client's wg has one for each.
}

// link is one connection of a session. It is the dispatcher of it.
type link struct {
	s     *session     // constant
	conn  *msgr.Conn   // constant once the link can be found
	addrs denc.AddrVec // it was opened to; constant
	began time.Time    // constant
	dead  atomic.Bool  // nothing that comes of it counts any more
	heard atomic.Bool  // something came

	aborted atomic.Bool

	placing *request // whose buffers the connection writes into; owned by its reader

	backoffs atomic.Int32 // len(blocked), read without mu

	mu      sync.Mutex // a leaf
	blocked []*backoff // guarded by mu
}

// die notes that nothing that comes of the link counts any more. Chains that are
// put right afterwards see that, and those that were before know that they are
// not clean.
func (l *link) die() {
	l.dead.Store(true)
	l.s.c.breaks.Add(1)
}

// connected returns the session's connection, making one if the OSD is up and
// need not be given a rest, or nil.
func (s *session) connected() *link {
	if l := s.link.Load(); l != nil && !l.dead.Load() {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.link.Load(); l != nil && !l.dead.Load() {
		return l
	}
	if s.shutdown || s.retry != nil {
		return nil
	}
	// The newest map's, whatever map the caller works with: follow, which comes
	// after a map was put there, finds a link made by an older one.
	addrs, up := s.c.state.Load().Addrs(s.osd)
	if !up {
		return nil
	}
	l := &link{s: s, addrs: addrs, began: time.Now()}
	s.c.wg.Add(1)
	conn, err := s.c.opts.Messenger.Connect(denc.TypeOSD, addrs, msgr.Lossy, (*dispatcher)(l))
	if err != nil {
		s.c.log.Warn("osd: no connection", "osd", s.osd, "addr", addrs, "error", err)
		s.failures++
		s.restLocked()
		s.c.wg.Done()
		return nil
	}
	l.conn = conn
	s.link.Store(l)
	return l
}

// restLocked has the next link wait, longer each time that nothing came of the
// last one, and then sends what waits for it.
//
// Precondition: s.mu is held; s.retry is nil; wg counts something of s.
func (s *session) restLocked() {
	o := &s.c.opts
	d := o.ReconnectMax
	if n := s.failures - 1; n < 16 {
		d = min(d, o.ReconnectInitial<<max(n, 0))
	}
	d = d/2 + rand.N(d/2+1) // so that clients do not come all at once
	s.c.wg.Add(1)
	s.retry = time.AfterFunc(d, func() {
		defer s.c.wg.Done()
		s.mu.Lock()
		s.retry = nil
		s.mu.Unlock()
		s.c.walk(func(r *request) bool { return r.session == s })
	})
}

// follow has the session follow a map: a connection to an OSD that is down or
// lives elsewhere now is given up.
func (s *session) follow(ms *mapState) {
	addrs, up := ms.Addrs(s.osd)
	s.mu.Lock()
	l := s.link.Load()
	if l != nil && (!up || !addrs.Equal(l.addrs)) {
		l.die()
		s.link.Store(nil)
	} else {
		l = nil
	}
	// A new place deserves a new try.
	if s.retry != nil && up && s.failures > 0 && l == nil && s.link.Load() == nil && s.stopRetryLocked() {
		s.failures = 0
	}
	s.mu.Unlock()
	if l != nil {
		l.conn.Close()
	}
}

// stopRetryLocked stops the timer, unless its function runs already.
func (s *session) stopRetryLocked() bool {
	if s.retry == nil || !s.retry.Stop() {
		return false
	}
	s.retry = nil
	s.c.wg.Done()
	return true
}

// shut ends the session for good.
func (s *session) shut() {
	s.mu.Lock()
	s.shutdown = true
	s.stopRetryLocked()
	l := s.link.Swap(nil)
	if l != nil {
		l.die()
	}
	s.mu.Unlock()
	if l != nil {
		l.conn.Close()
	}
}

// steady is how long a connection must have lived for the next one to be made
// at once.
const steady = time.Second

// lost takes notice of the end of a connection.
func (s *session) lost(l *link, err error) {
	if msgr.KindOf(err) == msgr.KindLength {
		s.c.strike(l, err) // while its requests still say that they are on it
	}
	s.mu.Lock()
	given := s.link.Load() != l // up: the map said so, or the client is closed
	l.die()
	if !given {
		s.link.Store(nil)
		switch {
		case !l.heard.Load():
		case l.aborted.Load(), time.Since(l.began) >= steady: // abort: not the OSD's doing
			s.failures = 0
		default: // a short pause: it may break at each request
			s.failures = min(s.failures, 1)
		}
		if s.failures++; s.failures > 1 && !s.shutdown && s.retry == nil {
			s.restLocked()
		}
	}
	s.mu.Unlock()
	if given {
		return
	}
	s.c.stats.lost.Add(1)
	s.c.log.Info("osd: connection lost", "osd", s.osd, "addr", l.addrs, "error", err)
	s.c.wantNext() // perhaps it is down
	s.c.walk(func(r *request) bool { return r.session == s })
}

// abort breaks a connection that is in the middle of a message whose storage is
// wanted back. What else was sent by it is sent again when its end is told.
func (l *link) abort() {
	if l.aborted.Swap(true) {
		return
	}
	l.s.c.log.Info("osd: connection broken off in a message that is not wanted any more", "osd", l.s.osd, "addr", l.addrs)
	l.conn.Close()
}

// dispatcher is link as the messenger sees it.
type dispatcher link

// Ready implements msgr.Dispatcher.
func (*dispatcher) Ready(*msgr.Conn) {}

// RemoteReset implements msgr.Dispatcher; lossy connections have none.
func (*dispatcher) RemoteReset(*msgr.Conn) {}

// Receive implements msgr.Dispatcher.
func (d *dispatcher) Receive(_ *msgr.Conn, m *msgr.Message) {
	l := (*link)(d)
	if !l.heard.Load() {
		l.heard.Store(true)
	}
	switch m.Type {
	case msgOpReply:
		l.s.c.handleReply(l, m)
	case msgBackoff:
		l.handleBackoff(m)
	case msgMap:
		// The OSD saw that the client is behind. The monitors will send the
		// same, in order.
		l.s.c.wantNext()
		release(m)
	default:
		l.s.c.log.Warn("osd: unknown message", "osd", l.s.osd, "type", m.Type)
		release(m)
	}
}

// Closed implements msgr.Dispatcher.
func (d *dispatcher) Closed(_ *msgr.Conn, err error) {
	l := (*link)(d)
	defer l.s.c.wg.Done()
	l.s.lost(l, err)
}

func release(m *msgr.Message) {
	if m != nil && m.Release != nil {
		m.Release()
	}
}
