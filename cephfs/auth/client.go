package auth

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// services are the daemons whose tickets a client asks for.
const services = denc.TypeMon | denc.TypeMDS | denc.TypeOSD | denc.TypeMgr

// retryGrant is how long a ticket is not asked for again after a monitor did
// not give it.
const retryGrant = 30 * time.Second

// Options configure a [Client].
type Options struct {
	// Name is who the client is. It must be set.
	Name denc.EntityName
	// Key is its key; empty for auth none only.
	Key Key
	// Methods are the methods the client accepts, best first. The default is
	// cephx if there is a key, else none. Both together let anybody on the path
	// to the monitors switch authentication off, until the first session by
	// cephx: from then on the client takes nothing else.
	Methods []uint32
	// MonModes and ServiceModes are the connection modes the client accepts,
	// best first, to monitors and to the other daemons. The defaults are
	// Ceph's: secure then crc, and crc then secure.
	MonModes, ServiceModes []msgr.AuthMode
	// Now is the clock, monotonic as time.Now is, which is the default.
	Now func() time.Time
}

// Client is one entity of a cluster: its key, its id and its tickets. It
// implements [msgr.Authenticator].
type Client struct {
	name     denc.EntityName
	key      Key
	methods  []uint32
	monModes []msgr.AuthMode
	svcModes []msgr.AuthMode
	now      func() time.Time
	keyErr   error // why there is no key, for the case that one is wanted

	mu       sync.Mutex
	globalID uint64                        // guarded by mu; 0 before the first session
	method   uint32                        // guarded by mu; of the last session with a monitor
	proven   bool                          // guarded by mu; a monitor knew the key: none is out of the question now
	tickets  map[denc.EntityType]*ticket   // guarded by mu
	refused  map[denc.EntityType]bool      // guarded by mu; dropped at a service's refusal and not yet replaced
	askAfter map[denc.EntityType]time.Time // guarded by mu; not given by the monitor, or useless
	replaced map[denc.EntityType]time.Time // guarded by mu; when a refused ticket was last asked to be replaced, of services that took one before
	known    denc.EntityType               // guarded by mu; the services that took a ticket before
	stale    bool                          // guarded by mu; the monitors do not take the AUTH ticket back
	relogin  bool                          // guarded by mu; a new session with a monitor is due
	wanted   chan struct{}                 // has room for one signal
	random   func() (uint64, error)        // constant
}

// New returns a client without tickets.
func New(o Options) (*Client, error) {
	c := &Client{
		name: o.Name, key: o.Key, methods: slices.Clone(o.Methods),
		monModes: slices.Clone(o.MonModes), svcModes: slices.Clone(o.ServiceModes), now: o.Now,
		tickets:  map[denc.EntityType]*ticket{},
		refused:  map[denc.EntityType]bool{},
		askAfter: map[denc.EntityType]time.Time{},
		replaced: map[denc.EntityType]time.Time{},
		wanted:   make(chan struct{}, 1),
		random:   random64,
	}
	if o.Name.Type == 0 || o.Name.ID == "" && o.Name.Type == denc.TypeClient {
		return nil, fmt.Errorf("auth: no entity name")
	}
	if c.now == nil {
		c.now = time.Now
	}
	if len(c.methods) == 0 {
		if o.Key.IsZero() {
			c.methods = []uint32{MethodNone}
		} else {
			c.methods = []uint32{MethodCephx}
		}
	}
	if o.Key.IsZero() {
		c.methods = slices.DeleteFunc(c.methods, func(m uint32) bool { return m == MethodCephx })
	}
	for _, m := range c.methods {
		if m != MethodNone && m != MethodCephx {
			return nil, c.fail(denc.TypeMon, 0, fmt.Errorf("%w: method %d is unknown", ErrMethod, m))
		}
	}
	if len(c.methods) == 0 {
		return nil, c.fail(denc.TypeMon, 0, ErrNoKey)
	}
	if len(c.monModes) == 0 {
		c.monModes = []msgr.AuthMode{msgr.ModeSecure, msgr.ModeCRC}
	}
	if len(c.svcModes) == 0 {
		c.svcModes = []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure}
	}
	return c, nil
}

func random64() (uint64, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// Name is who the client is.
func (c *Client) Name() denc.EntityName { return c.name }

// GlobalID is the id that the monitors gave this instance, 0 before the first
// session. It stays the same for as long as the monitors take the client's old
// ticket (three days from the last renewal, by default).
func (c *Client) GlobalID() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.globalID
}

// Begin starts the authentication of one connection attempt. Without a valid
// ticket for the peer's kind of daemon it fails with [ErrNoTicket], and asks
// for one.
func (c *Client) Begin(peer denc.EntityType) (msgr.AuthSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if peer == denc.TypeMon {
		methods := c.methodsLocked()
		return &monSession{c: c, methods: methods, method: methods[0], modes: c.monModes}, nil
	}
	if c.globalID == 0 {
		return nil, c.fail(peer, 0, ErrNoTicket)
	}
	if c.method == MethodNone {
		return &noneSession{c: c, peer: peer, globalID: c.globalID}, nil
	}
	t := c.tickets[peer]
	if !t.valid(c.now()) {
		c.want()
		return nil, c.fail(peer, 0, ErrNoTicket)
	}
	return &serviceSession{c: c, peer: peer, ticket: t, globalID: c.globalID}, nil
}

// methodsLocked are the methods that the client accepts just now.
func (c *Client) methodsLocked() []uint32 {
	if c.proven {
		return []uint32{MethodCephx}
	}
	return c.methods
}

// Wanted signals that a ticket is wanted at once: one was refused or has
// ended. Call [Client.Renewal] then.
func (c *Client) Wanted() <-chan struct{} { return c.wanted }

func (c *Client) want() {
	select {
	case c.wanted <- struct{}{}:
	default:
	}
}

// Renewal returns the payload of an MAuth that asks for the tickets now due
// (CEPHX_GET_PRINCIPAL_SESSION_KEY), or nil if none is. [Client.Renewed] takes
// the answer. If login is true the client's own ticket is due, which only a
// new session with a monitor can renew; until there is one the others are
// renewed with it, as long as it is valid.
func (c *Client) Renewal() (payload []byte, login bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.method != MethodCephx {
		return nil, false, nil
	}
	now := c.now()
	own := c.tickets[denc.TypeAuth]
	login = c.relogin || own.due(now)
	if c.relogin || !own.valid(now) {
		return nil, true, nil
	}
	need := c.needLocked(now)
	if need == 0 {
		return nil, login, nil
	}
	var e denc.Encoder
	e.Uint16(getPrincipalSessionKey)
	a, err := c.newAuthorizer(own, c.globalID)
	if err != nil {
		return nil, false, err
	}
	e.Raw(a.base)
	if err := a.seal(&e, 0, false); err != nil {
		return nil, false, err
	}
	e.Uint8(1)
	e.Uint32(uint32(need))
	for s := denc.EntityType(1); s != 0; s <<= 1 {
		if need&s != 0 {
			// Not again before an answer had its chance.
			c.askAfter[s] = now.Add(retryGrant)
		}
	}
	return e.Data(), login, nil
}

// needLocked is the set of services whose tickets are due.
func (c *Client) needLocked(now time.Time) denc.EntityType {
	var need denc.EntityType
	for s := denc.EntityType(1); s != 0; s <<= 1 {
		if services&s != 0 && c.tickets[s].due(now) && !now.Before(c.askAfter[s]) {
			need |= s
		}
	}
	return need
}

// NextRenewal is when [Client.Renewal] has something to do next; false if
// never.
func (c *Client) NextRenewal() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next time.Time
	if c.method != MethodCephx {
		return next, false
	}
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if t := c.tickets[denc.TypeAuth]; t != nil {
		earlier(t.renew)
	}
	for s := denc.EntityType(1); s != 0; s <<= 1 {
		if services&s == 0 {
			continue
		}
		ask := c.askAfter[s]
		switch t := c.tickets[s]; {
		case t == nil && ask.IsZero():
			earlier(c.now())
		case t == nil:
			earlier(ask)
		case t.renew.IsZero():
		case ask.After(t.renew):
			earlier(ask)
		default:
			earlier(t.renew)
		}
	}
	return next, !next.IsZero()
}

// Renewed takes the payload of the MAuthReply to [Client.Renewal].
func (c *Client) Renewed(payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.tickets[denc.TypeAuth]
	if own == nil {
		return c.fail(denc.TypeMon, 0, fmt.Errorf("%w: tickets that were not asked for", ErrProtocol))
	}
	d := denc.NewDecoder(payload)
	request, status := decodeResponseHeader(d)
	if err := d.Err(); err != nil {
		return c.fail(denc.TypeMon, 0, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	if request != getPrincipalSessionKey {
		return c.fail(denc.TypeMon, 0, fmt.Errorf("%w: answer of type %#x", ErrProtocol, request))
	}
	if status != 0 {
		return c.fail(denc.TypeMon, errno(status), ErrNoTicket)
	}
	grants, err := decodeGrants(d, own.key, nil)
	if err != nil {
		return c.fail(denc.TypeMon, 0, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	c.grantLocked(grants)
	return nil
}

// RenewalFailed says that the monitor refused the payload of
// [Client.Renewal]: the client's own ticket may not be good any more, and a new
// session with a monitor is due.
func (c *Client) RenewalFailed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.relogin = true
}

// grantLocked takes new tickets.
func (c *Client) grantLocked(grants []grant) {
	now := c.now()
	for _, g := range grants {
		c.tickets[g.service] = newTicket(g, now, c.refused[g.service])
		delete(c.refused, g.service)
		delete(c.askAfter, g.service)
	}
}

// drop forgets t after its service refused it, or has it replaced if daemons of
// the kind took tickets before. It reports whether another is
// worth trying, and else whether the service took tickets before: then the
// entity has caps for it, and the refusal will pass.
func (c *Client) drop(t *ticket) (again, passing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tickets[t.service] != t {
		return true, true // there is another already
	}
	c.refused[t.service] = true
	if c.known&t.service != 0 {
		// It may be this daemon that is out of touch: the others keep the ticket
		// until another comes.
		now, u := c.now(), *t
		when := now
		if last, ok := c.replaced[t.service]; ok && now.Before(last.Add(retryGrant)) {
			when = last.Add(retryGrant)
		} else if !t.fresh {
			again = true
			c.replaced[t.service] = now
			delete(c.askAfter, t.service)
			c.want()
		} else {
			when = now.Add(retryGrant)
		}
		if u.renew.IsZero() || when.Before(u.renew) {
			u.renew = when
		}
		c.tickets[t.service] = &u
		return again, true
	}
	delete(c.tickets, t.service)
	if t.fresh {
		c.askAfter[t.service] = c.now().Add(retryGrant)
		return false, false
	}
	delete(c.askAfter, t.service)
	c.want()
	return true, true
}

// accepted notes that a service took t.
func (c *Client) accepted(t *ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known |= t.service
	if t.fresh && c.tickets[t.service] == t {
		u := *t
		u.fresh = false
		c.tickets[t.service] = &u
	}
}

func (c *Client) fail(peer denc.EntityType, no syscall.Errno, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{Entity: c.name, Peer: peer, Errno: no, Err: err}
}
