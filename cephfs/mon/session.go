package mon

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"capstan/cephfs/msgr"
)

// monSession is one connection to a monitor: an attempt, and then the session
// in use. It is the connection's dispatcher.
type monSession struct {
	c     *Client   // constant
	cand  candidate // constant
	ended chan struct{}

	// Guarded by Client.mu.
	conn     *msgr.Conn
	since    time.Time // the attempt, then the session, began
	answered bool      // the monitor sent something
	refused  error     // why the client ended the session itself
	dropped  bool      // an attempt that is not needed any more
}

// Ready makes s the session in use if it is the first to get there.
func (s *monSession) Ready(conn *msgr.Conn) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == s {
		// A connection that came back by itself; the monitor has forgotten
		// what it was asked for. Closed goes on to the next.
		conn.Close()
		return
	}
	if c.closed || c.active != nil || s.dropped {
		s.dropped = true
		conn.Close()
		return
	}
	now := time.Now()
	c.active, s.since = s, now
	c.renewing, c.loginDue = time.Time{}, time.Time{}
	for o := range c.sessions {
		if o != s {
			o.dropped = true
			o.conn.Close()
		}
	}
	c.hunt.running = 1 // s itself, until it has answered
	c.log.Info("monitor found", "monitor", conn.Peer().String(), "mode", conn.Mode())
	c.subscribeAllLocked()
	c.resendLocked()
	c.kick()
}

// Receive takes a message of the monitor in use.
func (s *monSession) Receive(conn *msgr.Conn, m *msgr.Message) {
	c := s.c
	c.mu.Lock()
	if c.active != s || s.refused != nil {
		c.mu.Unlock()
		return
	}
	var err error
	var out *delivery
	switch m.Type {
	case msgMonMap:
		out, err = c.monMapLocked(s, m)
	case msgMonSubscribeAck:
		// Monitors of release 10 and later keep subscriptions by themselves.
	case msgAuthReply:
		err = c.authReplyLocked(m)
	case msgGetVersionReply:
		err = c.versionReplyLocked(m)
	case msgMonCommandAck:
		err = c.commandReplyLocked(m)
	default:
		out, err = c.mapLocked(m)
	}
	if err == nil && !s.answered {
		s.answered = true
		c.hunt.found()
		c.hopeless, c.lastErr = nil, nil
		c.broadcastLocked()
		c.kick()
	}
	refuse := errors.Is(err, ErrWrongCluster) || err != nil && m.Type == msgMonMap && c.monmap == nil
	c.mu.Unlock()
	if err != nil {
		c.log.Error("message of a monitor", "monitor", conn.Peer().String(), "type", m.Type, "err", err)
		if refuse {
			c.refuse(s, err)
		}
		return
	}
	if out != nil {
		c.queue.push(*out)
	}
}

// refuse ends a session because of what the monitor said.
func (c *Client) refuse(s *monSession, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.refused == nil {
		s.refused = err
	}
	s.conn.Close()
}

// RemoteReset does not happen on a lossy connection.
func (s *monSession) RemoteReset(*msgr.Conn) {}

// Closed goes on to another monitor.
func (s *monSession) Closed(conn *msgr.Conn, err error) {
	defer close(s.ended)
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, s)
	now := time.Now()
	if s.refused != nil {
		err = fmt.Errorf("%w (%v)", s.refused, conn.Peer())
	}
	switch {
	case c.active == s:
		c.active = nil
		if c.closed {
			break
		}
		if err != nil {
			c.lastErr = err
		}
		c.log.Info("monitor lost", "monitor", conn.Peer().String(), "err", err)
		if s.answered {
			c.hunt.lost(now, now.Sub(s.since))
		} else {
			// One that lets the client in and then says nothing is no better
			// than one that is not there.
			c.attemptFailedLocked(now, c.lastErr)
		}
		c.sessionLostLocked()
		c.broadcastLocked()
	case c.closed || s.dropped:
	default:
		if err == nil {
			err = msgr.ErrClosed
		}
		c.attemptFailedLocked(now, err)
	}
	c.kick()
}

// monMapLocked takes a new list of the monitors.
func (c *Client) monMapLocked(s *monSession, m *msgr.Message) (*delivery, error) {
	mm, err := decodeMonMapMessage(m.Front)
	if err != nil {
		return nil, err
	}
	if want := c.fsidLocked(); want != [16]byte{} && mm.FSID != want {
		return nil, fmt.Errorf("%w: it is %v, wanted %v", ErrWrongCluster, mm.FSID, want)
	}
	if c.monmap == nil || mm.Epoch > c.monmap.Epoch {
		first := c.monmap == nil
		c.monmap = mm
		c.log.Info("monmap", "epoch", mm.Epoch, "monitors", len(mm.Monitors))
		if first {
			c.resendLocked() // what waited for the cluster's id
		} else {
			if _, known := mm.FindAddr(s.conn.Peer()); !known {
				c.log.Info("the monitor in use was removed", "monitor", s.conn.Peer().String())
				s.conn.Close()
			}
		}
		c.broadcastLocked()
	}
	return c.deliveryLocked(WhatMonMap, uint64(mm.Epoch), m), nil
}

// authReplyLocked takes new tickets.
func (c *Client) authReplyLocked(m *msgr.Message) error {
	r, err := decodeAuthReply(m.Front)
	if err != nil {
		return err
	}
	if c.renewing.IsZero() {
		return nil // of a request given up
	}
	c.renewing = time.Time{}
	c.kick()
	if r.result != 0 {
		no := errno(r.result)
		c.log.Warn("monitor refuses to renew tickets", "err", no, "text", r.text)
		if no == syscall.EACCES || no == syscall.EPERM {
			c.auth.RenewalFailed()
			c.active.conn.Close()
		}
		return nil // else it passes: they are asked for again
	}
	return c.auth.Renewed(r.payload)
}
