package state

import (
	"context"
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"

	"capstan/server/nfs4/nfsv4"
)

// ChannelAttrs are channel_attrs4 without the RDMA part (ca_rdma_ird is always
// answered empty). Sizes are bytes.
type ChannelAttrs struct {
	HeaderPad         uint32
	MaxRequest        uint32
	MaxResponse       uint32
	MaxResponseCached uint32
	MaxOperations     uint32
	MaxRequests       uint32
}

// CallbackSec is one callback_sec_parms4.
type CallbackSec struct {
	Flavor  uint32
	Machine string // AUTH_SYS
	UID     uint32
	GID     uint32
	Groups  []uint32
}

// Session is a session of a client (RFC 8881 section 2.10).
type Session struct {
	// Constant.
	client *Client
	id     nfsv4.SessionID
	fore   ChannelAttrs
	back   ChannelAttrs

	mu        sync.Mutex // guards the fields below
	dead      bool
	slots     []slot
	highest   uint32 // enforced highest slot id
	target    uint32 // highest slot id the client is asked to use
	used      uint32 // highest slot id in use since the last sweep
	conns     []boundConn
	cbProgram uint32
	cbSec     []CallbackSec
}

// ID returns the session's id.
func (ses *Session) ID() nfsv4.SessionID { return ses.id }

// Client returns whose session it is.
func (ses *Session) Client() *Client { return ses.client }

// Fore returns the negotiated limits of the fore channel.
func (ses *Session) Fore() ChannelAttrs { return ses.fore }

// CreateSessionArgs are the arguments of CREATE_SESSION.
type CreateSessionArgs struct {
	ClientID  nfsv4.ClientID
	Sequence  uint32
	Flags     uint32 // nfsv4.Session*
	Fore      ChannelAttrs
	Back      ChannelAttrs
	CBProgram uint32
	CBSec     []CallbackSec // kept
	Principal Principal
	Conn      *Conn // bound to the new session; nil only in tests
}

// CreateSessionResult is CREATE_SESSION4resok.
type CreateSessionResult struct {
	Session  nfsv4.SessionID
	Sequence uint32
	Flags    uint32
	Fore     ChannelAttrs
	Back     ChannelAttrs
}

// CreateSession is CREATE_SESSION (RFC 8881 section 18.36), by the phases of
// section 18.36.4. If it replaces an older incarnation of the client, it
// returns when that one's files and locks are given back, or ctx ends.
func (s *Store) CreateSession(ctx context.Context, a *CreateSessionArgs) (CreateSessionResult, nfsv4.Status) {
	salt := s.random32()
	s.mu.Lock()
	c := s.clients[a.ClientID]
	switch { // phases 1 and 2
	case c == nil:
		s.mu.Unlock()
		return CreateSessionResult{}, nfsv4.ErrStaleClientID
	case a.Sequence == c.createSeq:
		r, st := c.createResult, c.createStatus
		s.mu.Unlock()
		return r, st
	case a.Sequence != c.createSeq+1:
		s.mu.Unlock()
		return CreateSessionResult{}, nfsv4.ErrSeqMisordered
	}
	var doomed []*Client
	var events []Event
	r, st := s.createSessionLocked(a, c, salt, &doomed, &events)
	if st != nfsv4.ErrDelay { // DELAY asks for the very same request again
		c.createSeq, c.createResult, c.createStatus = a.Sequence, r, st
	}
	s.mu.Unlock()

	for _, d := range doomed {
		s.tearDown(d)
	}
	s.emit(events)
	for _, d := range doomed {
		select {
		case <-d.torn:
		case <-ctx.Done():
		}
	}
	return r, st
}

// createSessionLocked is phases 3 and 4. Clients it removed are added to
// doomed. On failure no record has changed.
func (s *Store) createSessionLocked(a *CreateSessionArgs, c *Client, salt uint32, doomed *[]*Client, events *[]Event) (r CreateSessionResult, _ nfsv4.Status) {
	now := s.now()
	old := s.confirmed[c.owner]
	if !c.confirmed {
		if c.principal != a.Principal {
			return r, nfsv4.ErrClIDInUse
		}
		// The record may have got state since EXCHANGE_ID looked at it.
		if old != nil && old.principal != c.principal && !s.expired(old, now) && old.hasState() {
			return r, nfsv4.ErrClIDInUse
		}
	}
	if a.Flags&^nfsv4.SessionFlagsKnown != 0 {
		return r, nfsv4.ErrInval
	}
	fore, st := s.negotiateFore(&a.Fore)
	if st != nfsv4.OK {
		return r, st
	}
	back := a.Back // ca_maxoperations and ca_maxrequests must not be changed
	back.HeaderPad = 0
	r.Flags = a.Flags & nfsv4.SessionConnBackCh
	if r.Flags != 0 && (back.MaxRequest < minCallback || back.MaxResponse < minCallback ||
		back.MaxOperations < 2 || back.MaxRequests == 0) {
		return r, nfsv4.ErrTooSmall
	}
	if len(c.sessions) >= s.opt.Limits.MaxSessions {
		return r, nfsv4.ErrNoSpc
	}
	if !c.confirmed && old == nil && len(s.confirmed) >= s.opt.Limits.MaxClients {
		v := s.oldestExpiredLocked(now)
		if v == nil {
			return r, nfsv4.ErrDelay
		}
		*events = append(*events, v.eventLocked(ClientDiscarded, "too many clients"))
		*doomed = append(*doomed, v)
	}

	ses := &Session{client: c, fore: fore, back: back, cbProgram: a.CBProgram, cbSec: a.CBSec}
	ses.slots = make([]slot, fore.MaxRequests)
	ses.highest = fore.MaxRequests - 1
	ses.target = ses.highest
	binary.BigEndian.PutUint64(ses.id[:8], uint64(c.id))
	binary.BigEndian.PutUint32(ses.id[8:], salt)
	binary.BigEndian.PutUint32(ses.id[12:], uint32(s.ids.Add(1)))
	s.cacheInUse.Add(ses.cacheNeed(fore.MaxRequests))
	if a.Conn != nil {
		ses.mu.Lock()
		ses.bindLocked(a.Conn, nfsv4.BindFore|r.Flags) // the back channel's bit is the same in both
		ses.mu.Unlock()
	}
	c.sessions[ses.id] = ses
	s.sessions.put(ses)
	c.renewed.Store(int64(now))

	if !c.confirmed {
		if old != nil {
			old.gate.kill()
			s.removeLocked(old)
			*events = append(*events, old.eventLocked(ClientReplaced, ""))
			*doomed = append(*doomed, old)
		}
		delete(s.unconfirmed, c.owner)
		s.confirmed[c.owner] = c
		c.confirmed = true
		*events = append(*events, c.eventLocked(ClientArrived, ""))
	}
	r.Session, r.Sequence, r.Fore, r.Back = ses.id, a.Sequence, fore, back
	return r, nfsv4.OK
}

// minCallback is the smallest request or response a back channel is of use
// with: RPC header, CB_COMPOUND header, CB_SEQUENCE and CB_RECALL.
const minCallback = 256

// negotiateFore cuts what a client asks for down to the limits.
func (s *Store) negotiateFore(want *ChannelAttrs) (ChannelAttrs, nfsv4.Status) {
	l := &s.opt.Limits
	if want.MaxRequests == 0 {
		return ChannelAttrs{}, nfsv4.ErrInval
	}
	if want.MaxRequest < minRequest || want.MaxResponse < minResponse || want.MaxOperations == 0 {
		return ChannelAttrs{}, nfsv4.ErrTooSmall
	}
	got := ChannelAttrs{
		MaxRequest:        min(want.MaxRequest, l.MaxRequest),
		MaxResponse:       min(want.MaxResponse, l.MaxResponse),
		MaxResponseCached: min(want.MaxResponseCached, want.MaxResponse, l.MaxResponseCached),
		MaxOperations:     min(want.MaxOperations, l.MaxOperations),
		MaxRequests:       min(want.MaxRequests, l.MaxSlots),
	}
	// Near the memory bound a new session gets what fits, but never less than
	// a few slots: how many sessions there can be is bounded elsewhere.
	if got.MaxResponseCached > 0 {
		fits := (l.MaxReplyCache - s.cacheInUse.Load()) / int64(got.MaxResponseCached)
		got.MaxRequests = min(got.MaxRequests, uint32(max(fits, minSlots)))
	}
	return got, nfsv4.OK
}

// DestroySession is DESTROY_SESSION (RFC 8881 section 18.37). It must come over
// a connection of the session, or within the session: running is the slot of
// the COMPOUND it is in, nil if there is none. Requests of the session that
// still run, the caller's own among them, go on to their end.
func (s *Store) DestroySession(id nfsv4.SessionID, conn *Conn, running *SlotUse) nfsv4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessions.get(id)
	if ses == nil {
		return nfsv4.ErrBadSession
	}
	if running == nil || running.session != ses {
		ses.mu.Lock()
		bound := ses.isBoundLocked(conn)
		ses.mu.Unlock()
		if !bound {
			return nfsv4.ErrConnNotBoundToSession
		}
	}
	s.removeSessionLocked(ses)
	return nfsv4.OK
}

// removeSessionLocked ends a session. Precondition: Store.mu is held.
func (s *Store) removeSessionLocked(ses *Session) {
	s.sessions.remove(ses)
	delete(ses.client.sessions, ses.id)
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.dead {
		return
	}
	ses.dead = true
	ses.unbindAllLocked()
	s.cacheInUse.Add(-ses.cacheNeed(ses.highest + 1))
	for i := range ses.slots {
		ses.slots[i].reply = nil
	}
}

// cacheNeed is the memory n slots may need for replies.
func (ses *Session) cacheNeed(n uint32) int64 {
	return int64(n) * int64(ses.fore.MaxResponseCached)
}

// sessionTable finds sessions by id. Reading takes no lock: each shard is a map
// that is replaced, never changed; sessions come and go rarely.
type sessionTable struct{ shards [256]sessionShard }

type sessionShard struct {
	m  atomic.Pointer[map[nfsv4.SessionID]*Session]
	mu sync.Mutex // guards replacing m; innermost
}

func (t *sessionTable) init() {
	for i := range t.shards {
		t.shards[i].m.Store(&map[nfsv4.SessionID]*Session{})
	}
}

// shard goes by the last byte, which counts.
func (t *sessionTable) shard(id *nfsv4.SessionID) *sessionShard { return &t.shards[id[len(id)-1]] }

func (t *sessionTable) get(id nfsv4.SessionID) *Session { return (*t.shard(&id).m.Load())[id] }

func (t *sessionTable) put(ses *Session) {
	sh := t.shard(&ses.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	m := maps.Clone(*sh.m.Load())
	m[ses.id] = ses
	sh.m.Store(&m)
}

func (t *sessionTable) remove(ses *Session) {
	sh := t.shard(&ses.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	m := maps.Clone(*sh.m.Load())
	delete(m, ses.id)
	sh.m.Store(&m)
}
