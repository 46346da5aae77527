package state

import (
	"net/netip"
	"slices"
	"sync"

	"capstan/server/nfs4/nfsv4"
)

// Conn is what the state knows of one connection: the sessions it is bound to
// (RFC 8881 section 2.10.3.1). Whoever owns the connection calls Close when it
// is gone.
type Conn struct {
	id     uint64         // constant
	remote netip.AddrPort // constant

	mu       sync.Mutex // guards the fields below
	closed   bool
	sessions []*Session
}

// NewConn returns the record of a connection.
func NewConn(id uint64, remote netip.AddrPort) *Conn { return &Conn{id: id, remote: remote} }

// ID returns the number of the connection.
func (c *Conn) ID() uint64 { return c.id }

// Close forgets what is bound to the connection. A second call does nothing.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	bound := c.sessions
	c.sessions = nil
	c.mu.Unlock()
	for _, ses := range bound {
		ses.mu.Lock()
		ses.conns = slices.DeleteFunc(ses.conns, func(b boundConn) bool { return b.conn == c })
		ses.mu.Unlock()
	}
}

func (c *Conn) add(ses *Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.sessions = append(c.sessions, ses)
	return true
}

func (c *Conn) remove(ses *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions = slices.DeleteFunc(c.sessions, func(s *Session) bool { return s == ses })
}

// boundConn is a connection of a session and the channels it serves:
// nfsv4.BindFore, nfsv4.BindBack or nfsv4.BindBoth.
type boundConn struct {
	conn *Conn
	dir  uint32
}

// isBoundLocked reports whether conn is bound to ses. A session has few
// connections: looking at all is cheaper than a map.
func (ses *Session) isBoundLocked(conn *Conn) bool {
	for i := range ses.conns {
		if ses.conns[i].conn == conn {
			return true
		}
	}
	return false
}

// bindLocked adds dir to what conn serves of ses, and forgets the oldest
// connection if there are too many. It returns what conn serves now.
func (ses *Session) bindLocked(conn *Conn, dir uint32) uint32 {
	for i := range ses.conns {
		if b := &ses.conns[i]; b.conn == conn {
			b.dir |= dir
			return b.dir
		}
	}
	if !conn.add(ses) {
		return dir
	}
	if len(ses.conns) >= ses.client.store.opt.Limits.MaxConns {
		ses.conns[0].conn.remove(ses)
		ses.conns = slices.Delete(ses.conns, 0, 1)
	}
	ses.conns = append(ses.conns, boundConn{conn, dir})
	return dir
}

func (ses *Session) unbindAllLocked() {
	for _, b := range ses.conns {
		b.conn.remove(ses)
	}
	ses.conns = nil
}

// BindConn is BIND_CONN_TO_SESSION (RFC 8881 section 18.34): dir is one of
// nfsv4.BindFore, BindBack, BindForeOrBoth and BindBackOrBoth. It returns the
// channels the connection now serves: BindFore, BindBack or BindBoth.
func (s *Store) BindConn(id nfsv4.SessionID, conn *Conn, dir uint32) (uint32, nfsv4.Status) {
	var want uint32
	switch dir {
	case nfsv4.BindFore, nfsv4.BindBack, nfsv4.BindForeOrBoth:
		want = dir
	case nfsv4.BindBackOrBoth:
		want = nfsv4.BindBoth
	default:
		return 0, nfsv4.ErrInval
	}
	ses := s.sessions.get(id)
	if ses == nil || !ses.client.gate.hold() {
		return 0, nfsv4.ErrBadSession
	}
	defer ses.client.gate.release()
	ses.mu.Lock()
	if ses.dead {
		ses.mu.Unlock()
		return 0, nfsv4.ErrBadSession
	}
	got := ses.bindLocked(conn, want)
	ses.mu.Unlock()
	s.renew(ses.client)
	return got, nfsv4.OK
}

// BackchannelCtl is BACKCHANNEL_CTL (RFC 8881 section 18.33). sec is kept.
func (ses *Session) BackchannelCtl(program uint32, sec []CallbackSec) nfsv4.Status {
	if len(sec) == 0 {
		return nfsv4.ErrInval
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.dead {
		return nfsv4.ErrBadSession
	}
	ses.cbProgram, ses.cbSec = program, sec
	return nfsv4.OK
}
