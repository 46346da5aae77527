package rpc

import (
	"sync"
	"time"
)

// now is the time of the watchdog's last look at the clock, in nanoseconds
// since the start, 1 or more. It costs no system call and lags by up to a tick.
func (s *Server) now() int64 { return s.clock.Load() }

func (s *Server) elapsed() int64 { return int64(time.Since(s.start)) + 1 }

// tick is how often the watchdog looks.
func (s *Server) tick() time.Duration {
	shortest := min(s.opt.IdleTimeout, s.opt.RecordTimeout, s.opt.WriteTimeout)
	return min(max(shortest/20, 2*time.Millisecond), time.Second)
}

// watch is the body of the watchdog: it closes connections that exceed a time.
func (s *Server) watch() {
	defer close(s.watching)
	tick := s.tick()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var late []lateConn
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		s.clock.Store(s.elapsed())
		late = s.lateConns(late[:0], tick)
		for i, l := range late {
			l.c.Close(l.reason)
			late[i] = lateConn{}
		}
	}
}

type lateConn struct {
	c      *Conn
	reason error
}

// lateConns appends the connections to close. Times were taken up to a tick too
// early, so that much is added: nobody is cut before his time.
func (s *Server) lateConns(late []lateConn, tick time.Duration) []lateConn {
	now := s.now()
	record, write := s.opt.RecordTimeout, s.opt.WriteTimeout
	if s.calls.short() || s.records.short() {
		record /= 10
	}
	// Calls whose replies are not taken hold their places too.
	if s.replies.short() || s.calls.short() {
		write /= 10
	}
	over := func(since int64, d time.Duration) bool {
		return since != 0 && now-since > int64(d+tick)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		held, arriving := c.held.Load(), c.arrivingSince.Load()
		waits := !held && arriving == 0 // for the peer to begin a record
		switch {
		case over(c.send.since.Load(), write):
			late = append(late, lateConn{c, ErrWriteTimeout})
		case !held && over(arriving, record):
			late = append(late, lateConn{c, ErrRecordTimeout})
		case waits && !c.greeted.Load() && over(c.idleSince.Load(), s.opt.RecordTimeout):
			late = append(late, lateConn{c, ErrIdle})
		case waits && over(c.idleSince.Load(), s.opt.IdleTimeout):
			late = append(late, lateConn{c, ErrIdle})
		}
	}
	return late
}

// throttle lets an event through once a minute.
type throttle struct {
	mu      sync.Mutex
	next    int64 // when the next one may pass
	skipped int
}

// allow reports whether an event at now may pass, and how many did not since
// the last that did.
func (t *throttle) allow(now int64) (skipped int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now < t.next {
		t.skipped++
		return 0, false
	}
	skipped, t.skipped = t.skipped, 0
	t.next = now + int64(time.Minute)
	return skipped, true
}
