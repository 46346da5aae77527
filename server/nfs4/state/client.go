package state

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"capstan/server/nfs4/nfsv4"
)

// Principal is who sent a request, as far as state protection of kind SP4_NONE
// looks (RFC 8881 section 2.10.8.3).
type Principal struct {
	Flavor  uint32
	UID     uint32
	Machine string
}

// Client is a client record, one incarnation of a client (RFC 8881 section
// 2.4). Its exported methods are for requests that hold a slot of one of its
// sessions. Once it was discarded they answer NFS4ERR_EXPIRED.
type Client struct {
	// Constant.
	store     *Store
	id        nfsv4.ClientID
	owner     string // co_ownerid
	verifier  nfsv4.Verifier
	principal Principal
	created   time.Duration // on the lease clock
	torn      chan struct{} // closed when all it held is given back

	// Atomic.
	gate        gate
	renewed     atomic.Int64 // time.Duration on the lease clock of the last renewal
	lapsed      atomic.Bool  // the lease was seen expired
	reclaimDone atomic.Bool  // RECLAIM_COMPLETE was sent
	revoked     atomic.Int64 // stateids revoked and not yet freed

	// Guarded by Store.mu.
	confirmed    bool
	addr         netip.AddrPort
	impl         string
	minor        uint32
	sessions     map[nfsv4.SessionID]*Session
	createSeq    uint32 // of the last CREATE_SESSION
	createResult CreateSessionResult
	createStatus nfsv4.Status
	clashLogged  time.Duration // when a name clash was logged, 0 for never

	// Written by die, then owned by tearDown.
	left leavings

	mu         sync.Mutex // guards the fields below and what hangs on them
	dead       bool       // torn down; the maps are nil
	states     map[uint64]stateRef
	openOwners map[string]*openOwner
	lockOwners map[string]*lockOwner
	pending    int // PendingOpens
	opens      int // open states not revoked
	locks      int // lock states not revoked
}

// ID returns the client id.
func (c *Client) ID() nfsv4.ClientID { return c.id }

// hasState reports whether the client holds opens or locks.
func (c *Client) hasState() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending+c.opens+c.locks > 0
}

// firstSequence is eir_sequenceid of a new record.
const firstSequence = 1

// knownExchangeFlags are what a client may set in eia_flags.
const knownExchangeFlags = nfsv4.ExchangeSuppMovedRefer | nfsv4.ExchangeSuppMovedMigr |
	nfsv4.ExchangeSuppFenceOps | nfsv4.ExchangeBindPrincStateID | nfsv4.ExchangeMaskPNFS |
	nfsv4.ExchangeUpdConfirmed

// ExchangeIDArgs are the arguments of EXCHANGE_ID.
type ExchangeIDArgs struct {
	Verifier  nfsv4.Verifier // co_verifier
	Owner     []byte         // co_ownerid; copied
	Flags     uint32         // nfsv4.Exchange*
	Protect   uint32         // nfsv4.Protect*; anything but ProtectNone is refused
	Principal Principal
	Addr      netip.AddrPort // for log and status
	Impl      string         // client implementation, for status; may be empty
	Minor     uint32         // minor version of the COMPOUND, for status
}

// ExchangeIDResult is what EXCHANGE_ID answers beyond the server's owner and
// scope, which are configuration.
type ExchangeIDResult struct {
	ClientID nfsv4.ClientID
	Sequence uint32 // eir_sequenceid
	Flags    uint32
}

// ExchangeID is EXCHANGE_ID (RFC 8881 section 18.35). The numbers in its
// comments are the cases of section 18.35.4.
func (s *Store) ExchangeID(a *ExchangeIDArgs) (ExchangeIDResult, nfsv4.Status) {
	if st := checkExchange(a); st != nfsv4.OK {
		return ExchangeIDResult{}, st
	}
	if a.Flags&nfsv4.ExchangeUpdConfirmed != 0 {
		return s.updateClient(a)
	}
	var (
		clash  *nameClash
		events []Event
		doomed *Client // to be torn down once Store.mu is free
	)
	s.mu.Lock()
	now := s.now()
	if old := s.confirmed[string(a.Owner)]; old != nil {
		samePrincipal := old.principal == a.Principal
		switch {
		case samePrincipal && old.verifier == a.Verifier:
			// 2: a retry, or a trunking probe.
			r := old.exchangeResultLocked()
			s.mu.Unlock()
			return r, nfsv4.OK
		case samePrincipal:
			// 5: a restart. The old record stays until CREATE_SESSION.
			if !s.expired(old, now) {
				clash = old.clashLocked(a, now, false)
			}
		case !s.expired(old, now) && old.hasState():
			// 3: two clients of one name.
			clash = old.clashLocked(a, now, true)
			s.mu.Unlock()
			s.warnNameClash(clash)
			return ExchangeIDResult{}, nfsv4.ErrClIDInUse
		default:
			// 3: the other one has nothing to lose.
			old.gate.kill()
			events = append(events, old.eventLocked(ClientDiscarded, "another client uses its name"))
			s.removeLocked(old)
			doomed = old
		}
	}
	// 4: whatever unconfirmed record there is makes room for a new one.
	if u := s.unconfirmed[string(a.Owner)]; u != nil {
		s.dropUnconfirmedLocked(u)
	}
	if len(s.unconfirmed) >= s.opt.Limits.MaxUnconfirmed {
		s.dropUnconfirmedLocked(s.oldestUnconfirmedLocked())
	}
	// 1, and what 3 to 5 end in.
	c := s.newClientLocked(a, now)
	if clash != nil {
		c.clashLogged = now
	} else if old := s.confirmed[c.owner]; old != nil {
		c.clashLogged = old.clashLogged
	}
	r := c.exchangeResultLocked()
	s.mu.Unlock()

	s.warnNameClash(clash)
	s.emit(events)
	if doomed != nil {
		s.tearDown(doomed)
	}
	return r, nfsv4.OK
}

func checkExchange(a *ExchangeIDArgs) nfsv4.Status {
	switch {
	case a.Flags&^knownExchangeFlags != 0, len(a.Owner) == 0, len(a.Owner) > nfsv4.OpaqueLimit:
		return nfsv4.ErrInval
	case a.Protect == nfsv4.ProtectNone:
		return nfsv4.OK
	case a.Protect == nfsv4.ProtectSSV:
		return nfsv4.ErrHashAlgUnsupp // no algorithm offered is one of ours
	}
	// SP4_MACH_CRED needs RPCSEC_GSS with integrity or privacy.
	return nfsv4.ErrInval
}

// updateClient is EXCHANGE_ID with EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
func (s *Store) updateClient(a *ExchangeIDArgs) (ExchangeIDResult, nfsv4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.confirmed[string(a.Owner)]
	switch {
	case c == nil:
		return ExchangeIDResult{}, nfsv4.ErrNoEnt // 7
	case c.verifier != a.Verifier:
		return ExchangeIDResult{}, nfsv4.ErrNotSame // 8
	case c.principal != a.Principal:
		return ExchangeIDResult{}, nfsv4.ErrPerm // 9
	}
	c.addr, c.impl, c.minor = a.Addr, a.Impl, a.Minor // 6
	return c.exchangeResultLocked(), nfsv4.OK
}

func (s *Store) newClientLocked(a *ExchangeIDArgs, now time.Duration) *Client {
	c := &Client{
		store: s, owner: string(a.Owner), verifier: a.Verifier, principal: a.Principal,
		created: now, torn: make(chan struct{}),
		addr: a.Addr, impl: a.Impl, minor: a.Minor,
		sessions:  make(map[nfsv4.SessionID]*Session),
		createSeq: firstSequence - 1, createStatus: nfsv4.ErrSeqMisordered,
		states:     make(map[uint64]stateRef),
		openOwners: make(map[string]*openOwner),
		lockOwners: make(map[string]*lockOwner),
	}
	c.renewed.Store(int64(now))
	for {
		s.lastClientID++
		c.id = nfsv4.ClientID(uint64(s.opt.Instance.ID)<<32 | uint64(s.lastClientID))
		if _, taken := s.clients[c.id]; !taken {
			break
		}
	}
	s.clients[c.id] = c
	s.unconfirmed[c.owner] = c
	return c
}

// exchangeResultLocked is what EXCHANGE_ID answers about c.
func (c *Client) exchangeResultLocked() ExchangeIDResult {
	r := ExchangeIDResult{ClientID: c.id, Sequence: c.createSeq + 1, Flags: nfsv4.ExchangeUseNonPNFS}
	if c.confirmed {
		r.Flags |= nfsv4.ExchangeConfirmed
	}
	return r
}

// clashLocked returns what to log about another machine of c's name, nil if it
// is the same machine or was logged a moment ago. Precondition: c's lease is
// good, so that c is more likely alive than restarted.
func (c *Client) clashLocked(a *ExchangeIDArgs, now time.Duration, principal bool) *nameClash {
	if !principal && c.addr.Addr() == a.Addr.Addr() {
		return nil
	}
	if c.clashLogged != 0 && now-c.clashLogged < nameClashPause {
		return nil
	}
	c.clashLogged = max(now, 1)
	return &nameClash{owner: c.owner, old: c.addr, new: a.Addr, oldID: c.id, principal: principal}
}

func (s *Store) oldestUnconfirmedLocked() *Client {
	var oldest *Client
	for _, c := range s.unconfirmed {
		if oldest == nil || c.created < oldest.created {
			oldest = c
		}
	}
	return oldest
}

// dropUnconfirmedLocked forgets a record that was never confirmed; nothing
// hangs on it.
func (s *Store) dropUnconfirmedLocked(c *Client) {
	c.gate.kill()
	s.removeLocked(c)
	close(c.torn)
}

// removeLocked takes c and its sessions out of all tables and ends its state,
// so that whoever finds the gate closed with Store.mu held finds its shares
// gone as well. Precondition: the caller has just closed c.gate. It calls
// tearDown when Store.mu is free.
func (s *Store) removeLocked(c *Client) {
	delete(s.clients, c.id)
	if s.confirmed[c.owner] == c {
		delete(s.confirmed, c.owner)
	}
	if s.unconfirmed[c.owner] == c {
		delete(s.unconfirmed, c.owner)
	}
	for _, ses := range c.sessions {
		s.removeSessionLocked(ses)
	}
	c.die()
}

// DestroyClientID is DESTROY_CLIENTID (RFC 8881 section 18.50).
func (s *Store) DestroyClientID(id nfsv4.ClientID) nfsv4.Status {
	s.mu.Lock()
	c := s.clients[id]
	if c == nil {
		s.mu.Unlock()
		return nfsv4.ErrStaleClientID
	}
	if len(c.sessions) > 0 || c.hasState() {
		s.mu.Unlock()
		return nfsv4.ErrClientIDBusy
	}
	if !c.confirmed {
		s.dropUnconfirmedLocked(c)
		s.mu.Unlock()
		return nfsv4.OK
	}
	c.gate.kill()
	s.removeLocked(c)
	e := c.eventLocked(ClientLeft, "")
	s.mu.Unlock()
	s.tearDown(c)
	s.emit([]Event{e})
	return nfsv4.OK
}

// ReclaimComplete is RECLAIM_COMPLETE (RFC 8881 section 18.51). The caller has
// checked that oneFS comes with a current file handle.
func (c *Client) ReclaimComplete(oneFS bool) nfsv4.Status {
	if oneFS {
		return nfsv4.OK // nothing migrates here, so nothing is left to do
	}
	if !c.reclaimDone.CompareAndSwap(false, true) {
		return nfsv4.ErrCompleteAlready
	}
	return nfsv4.OK
}

// CanOpen returns what OPEN answers before it looks at the file: NFS4ERR_GRACE
// before RECLAIM_COMPLETE (RFC 8881 section 18.51.3), NFS4ERR_NO_GRACE for
// reclaims, since no earlier state is known.
func (c *Client) CanOpen(reclaim bool) nfsv4.Status {
	switch {
	case reclaim:
		return nfsv4.ErrNoGrace
	case !c.reclaimDone.Load():
		return nfsv4.ErrGrace
	}
	return nfsv4.OK
}
