package cephtest

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// Cephx is the daemons' half of cephx: the monitors that give tickets and the
// daemons that check them. One Cephx stands for a whole cluster. It is written
// from the protocol and shares with package auth only the sealing of texts.
// Its methods may be called from any goroutine.
type Cephx struct {
	mu       sync.Mutex
	users    map[denc.EntityName]*CephxUser
	services map[denc.EntityType]serviceKey
	nextID   uint64
	validity time.Duration
	own      time.Duration
	keyType  auth.KeyType
	refuse   map[denc.EntityType]int
	granted  map[denc.EntityType]int
}

// CephxUser is an entity that the monitors know.
type CephxUser struct {
	Key     auth.Key
	MonCaps bool
	// Denied are services that the monitors give no tickets for.
	Denied denc.EntityType
}

type serviceKey struct {
	id  uint64
	key auth.Key
}

// NewCephx returns a cluster without users. Its keys are of type t, and its
// tickets are valid for an hour.
func NewCephx(t auth.KeyType) *Cephx {
	x := &Cephx{users: map[denc.EntityName]*CephxUser{}, services: map[denc.EntityType]serviceKey{}, nextID: 4100,
		validity: time.Hour, own: 72 * time.Hour, keyType: t, refuse: map[denc.EntityType]int{}, granted: map[denc.EntityType]int{}}
	for _, s := range []denc.EntityType{denc.TypeAuth, denc.TypeMon, denc.TypeMDS, denc.TypeOSD, denc.TypeMgr} {
		x.Rotate(s)
	}
	return x
}

// AddUser makes an entity known, with a new key of the cluster's type.
func (x *Cephx) AddUser(n denc.EntityName) auth.Key {
	k := x.newKey()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users[n] = &CephxUser{Key: k, MonCaps: true}
	return k
}

// User changes what the monitors know of an entity.
func (x *Cephx) User(n denc.EntityName, change func(*CephxUser)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(x.users[n])
}

// Validity sets how long tickets given from now on are valid, those of
// services and a client's own.
func (x *Cephx) Validity(service, own time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.validity, x.own = service, own
}

// Rotate gives a service a new key and forgets the old one at once: tickets
// given before are refused.
func (x *Cephx) Rotate(s denc.EntityType) {
	k := x.newKey()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.services[s] = serviceKey{x.services[s].id + 1, k}
}

// Refuse has the next n authorizers for a service refused, good ones too.
func (x *Cephx) Refuse(s denc.EntityType, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refuse[s] = n
}

// Granted is how many tickets for a service were given.
func (x *Cephx) Granted(s denc.EntityType) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.granted[s]
}

func (x *Cephx) newKey() auth.Key {
	k, err := auth.NewKey(x.keyType)
	if err != nil {
		panic(err) // a fault of the test
	}
	return k
}

// AuthReply is what a daemon answers to AUTH_REQUEST or AUTH_REQUEST_MORE:
// exactly one of AUTH_BAD_METHOD (Result is not 0), AUTH_REPLY_MORE (More is
// set) and AUTH_DONE.
type AuthReply struct {
	Result int32
	More   bool

	Payload  []byte
	GlobalID uint64
	Mode     msgr.AuthMode
	// What the connection is protected with after AUTH_DONE.
	SessionKey, Secret []byte
}

// CephxSession is the daemon's side of the authentication of one connection.
// It belongs to one goroutine.
type CephxSession struct {
	x    *Cephx
	self denc.EntityType
	mode msgr.AuthMode

	challenge uint64
	name      denc.EntityName
	globalID  uint64
}

// Session begins the authentication of a connection to a daemon of the given
// type.
func (x *Cephx) Session(daemon denc.EntityType) *CephxSession {
	return &CephxSession{x: x, self: daemon}
}

var errDenied = errors.New("denied")

// Request takes AUTH_REQUEST. The first of the modes is taken.
func (s *CephxSession) Request(method uint32, modes []msgr.AuthMode, payload []byte) AuthReply {
	if method != auth.MethodCephx || len(modes) == 0 {
		return AuthReply{Result: -int32(syscall.EOPNOTSUPP)}
	}
	s.mode = modes[0]
	if s.self != denc.TypeMon {
		return s.authorize(payload)
	}
	d := denc.NewDecoder(payload)
	if d.Uint8("mode") != 10 {
		return AuthReply{Result: -int32(syscall.EACCES)}
	}
	s.name, s.globalID = d.EntityName("name"), d.Uint64("global_id")
	if d.Finish() != nil {
		return AuthReply{Result: -int32(syscall.EINVAL)}
	}
	s.challenge = random()
	var e denc.Encoder
	e.Uint8(1)
	e.Uint64(s.challenge)
	return AuthReply{More: true, Payload: e.Data()}
}

// More takes AUTH_REQUEST_MORE.
func (s *CephxSession) More(payload []byte) AuthReply {
	if s.self != denc.TypeMon {
		return s.authorize(payload)
	}
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	r, err := s.authenticate(payload)
	if err != nil {
		return AuthReply{Result: -int32(syscall.EACCES)}
	}
	return r
}

// authenticate is CEPHX_GET_AUTH_SESSION_KEY.
func (s *CephxSession) authenticate(payload []byte) (AuthReply, error) {
	d := denc.NewDecoder(payload)
	request, version := d.Uint16("request"), d.Uint8("version")
	challenge, response := d.Uint64("challenge"), d.Uint64("response")
	d.Uint8("old.version")
	oldID, oldBlob := d.Uint64("old.id"), d.Bytes("old.blob")
	others := denc.EntityType(d.Uint32("others"))
	u := s.x.users[s.name]
	if d.Finish() != nil || request != 0x100 || version < 3 || u == nil {
		return AuthReply{}, errDenied
	}
	if want, err := u.Key.Response(s.challenge, challenge); err != nil || want != response {
		return AuthReply{}, errDenied
	}
	var old *ticketInfo
	if s.globalID != 0 {
		t, err := s.x.openTicket(denc.TypeAuth, oldID, oldBlob)
		if err != nil || t.globalID != s.globalID {
			return AuthReply{}, errDenied
		}
		old = t
	} else {
		s.globalID = s.x.nextID
		s.x.nextID++
	}
	if !u.MonCaps {
		return AuthReply{}, errDenied
	}
	session := s.x.newKey()
	var e denc.Encoder
	e.Uint16(request)
	e.Int32(0)
	e.Uint8(1)
	e.Count(1)
	s.x.grant(&e, u.Key, denc.TypeAuth, ticketInfo{s.name, s.globalID, session}, s.x.own, old)
	var secret []byte
	if s.mode == msgr.ModeSecure {
		secret = make([]byte, 64)
		rand.Read(secret)
	}
	var text, sealed denc.Encoder
	text.Bytes(secret)
	sealBytes(&sealed, session, auth.UsageConnectionSecret, text.Data())
	e.Bytes(sealed.Data())
	e.Bytes(s.x.grants(session, s.name, s.globalID, others&^denc.TypeAuth&^u.Denied))
	return AuthReply{Payload: e.Data(), GlobalID: s.globalID, Mode: s.mode, SessionKey: secretOf(session), Secret: secret}, nil
}

// Renew takes the payload of an MAuth on an authenticated connection and gives
// that of its MAuthReply, with its result (CEPHX_GET_PRINCIPAL_SESSION_KEY).
func (x *Cephx) Renew(payload []byte) (result int32, reply []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := denc.NewDecoder(payload)
	request := d.Uint16("request")
	t, _, err := x.openAuthorizer(d, denc.TypeAuth)
	d.Uint8("version")
	want := denc.EntityType(d.Uint32("keys"))
	if err != nil || d.Finish() != nil || request != 0x200 {
		return -int32(syscall.EACCES), nil
	}
	u := x.users[t.name]
	if u == nil {
		return -int32(syscall.EACCES), nil
	}
	var e denc.Encoder
	e.Uint16(request)
	e.Int32(0)
	e.Raw(x.grants(t.session, t.name, t.globalID, want&^denc.TypeAuth&^u.Denied))
	return 0, e.Data()
}

// authorize checks an authorizer, and asks for the answer to a challenge
// first.
func (s *CephxSession) authorize(payload []byte) AuthReply {
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	denied := AuthReply{Result: -int32(syscall.EACCES)}
	d := denc.NewDecoder(payload)
	t, a, err := s.x.openAuthorizer(d, s.self)
	if err != nil || d.Finish() != nil {
		return denied
	}
	if s.challenge == 0 {
		if s.x.refuse[s.self] > 0 {
			s.x.refuse[s.self]--
			return denied
		}
		s.challenge = random()
		var e denc.Encoder
		e.Uint8(1)
		e.Uint64(s.challenge)
		return AuthReply{More: true, Payload: mustSeal(t.session, auth.UsageAuthorizeChallenge, e.Data())}
	}
	if !a.challenged || a.challenge != s.challenge+1 {
		return denied
	}
	var secret []byte
	var e, text denc.Encoder
	if s.mode == msgr.ModeSecure {
		secret = make([]byte, 64)
		rand.Read(secret)
		text.Uint8(2)
		text.Uint64(a.nonce + 1)
		text.Bytes(secret)
	} else {
		text.Uint8(1)
		text.Uint64(a.nonce + 1)
	}
	sealBytes(&e, t.session, auth.UsageAuthorizeReply, text.Data())
	return AuthReply{Payload: e.Data(), GlobalID: t.globalID, Mode: s.mode, SessionKey: secretOf(t.session), Secret: secret}
}

// ticketInfo is what a ticket says to its service.
type ticketInfo struct {
	name     denc.EntityName
	globalID uint64
	session  auth.Key
}

// grant appends one ticket: the client's half sealed with to, the service's
// half sealed for the service, and once more with the old session's key if the
// client is to prove that it held the old ticket.
func (x *Cephx) grant(e *denc.Encoder, to auth.Key, service denc.EntityType, t ticketInfo, validity time.Duration, old *ticketInfo) {
	x.granted[service]++
	e.Uint32(uint32(service))
	e.Uint8(1)
	var mine denc.Encoder
	mine.Uint8(1)
	t.session.Encode(&mine)
	mine.Uint32(uint32(validity / time.Second))
	mine.Uint32(uint32(validity % time.Second))
	sealBytes(e, to, auth.UsageTicketSessionKey, mine.Data())

	var info, blob, sized denc.Encoder
	info.EntityName(t.name)
	info.Uint64(t.globalID)
	t.session.Encode(&info)
	key := x.services[service]
	blob.Uint8(1)
	blob.Uint64(key.id)
	blob.Bytes(mustSeal(key.key, auth.UsageTicketInfo, info.Data()))
	sized.Bytes(blob.Data())
	e.Bool(old != nil)
	if old != nil {
		sealBytes(e, old.session, auth.UsageTicketBlob, sized.Data())
	} else {
		e.Raw(sized.Data())
	}
}

// grants are tickets for several services, sealed for a session.
func (x *Cephx) grants(session auth.Key, name denc.EntityName, globalID uint64, want denc.EntityType) []byte {
	var which []denc.EntityType
	for s := range x.services {
		if want&s != 0 {
			which = append(which, s)
		}
	}
	slices.Sort(which)
	var e denc.Encoder
	e.Uint8(1)
	e.Count(len(which))
	for _, s := range which {
		x.grant(&e, session, s, ticketInfo{name, globalID, x.newKey()}, x.validity, nil)
	}
	return e.Data()
}

func (x *Cephx) openTicket(service denc.EntityType, id uint64, blob []byte) (*ticketInfo, error) {
	key := x.services[service]
	if key.id != id {
		return nil, errDenied
	}
	text, err := key.key.Open(auth.UsageTicketInfo, blob)
	if err != nil {
		return nil, err
	}
	d := denc.NewDecoder(text)
	t := &ticketInfo{d.EntityName("name"), d.Uint64("global_id"), auth.DecodeKey(d, "session_key")}
	return t, d.Finish()
}

type authorize struct {
	nonce      uint64
	challenged bool
	challenge  uint64
}

func (x *Cephx) openAuthorizer(d *denc.Decoder, service denc.EntityType) (*ticketInfo, authorize, error) {
	var a authorize
	version, globalID, claimed := d.Uint8("version"), d.Uint64("global_id"), d.Uint32("service")
	d.Uint8("blob.version")
	id, blob, sealed := d.Uint64("blob.id"), d.Bytes("blob"), d.Bytes("authorize")
	if d.Err() != nil || version != 1 || claimed != uint32(service) {
		return nil, a, errDenied
	}
	t, err := x.openTicket(service, id, blob)
	if err != nil || t.globalID != globalID {
		return nil, a, errDenied
	}
	text, err := t.session.Open(auth.UsageAuthorize, sealed)
	if err != nil {
		return nil, a, err
	}
	in := denc.NewDecoder(text)
	in.Uint8("version")
	a = authorize{in.Uint64("nonce"), in.Bool("challenged"), in.Uint64("challenge")}
	return t, a, in.Finish()
}

func mustSeal(k auth.Key, u auth.Usage, text []byte) []byte {
	b, err := k.Seal(u, text)
	if err != nil {
		panic(err) // a fault of the test
	}
	return b
}

func sealBytes(e *denc.Encoder, k auth.Key, u auth.Usage, text []byte) { e.Bytes(mustSeal(k, u, text)) }

// secretOf takes the secret out of an encoded key.
func secretOf(k auth.Key) []byte {
	var e denc.Encoder
	k.Encode(&e)
	return e.Data()[2+8+2:]
}

func random() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// ServerAuth is the side of the daemons of one type, for [Config]. MAuth on a
// connection to a monitor is answered by [Cephx.Renew].
func (x *Cephx) ServerAuth(daemon denc.EntityType) ServerAuth {
	return &cephxServer{x: x, daemon: daemon, sessions: map[*Stream]*CephxSession{}}
}

type cephxServer struct {
	x      *Cephx
	daemon denc.EntityType

	mu       sync.Mutex
	sessions map[*Stream]*CephxSession // of authentications not done
}

func (c *cephxServer) Request(s *Stream, method uint32, modes []msgr.AuthMode, payload []byte) AuthAnswer {
	x := c.x.Session(c.daemon)
	c.mu.Lock()
	c.sessions[s] = x
	c.mu.Unlock()
	return c.answer(s, method, x.Request(method, modes, payload))
}

func (c *cephxServer) More(s *Stream, payload []byte) AuthAnswer {
	c.mu.Lock()
	x := c.sessions[s]
	c.mu.Unlock()
	if x == nil {
		return c.answer(s, auth.MethodCephx, AuthReply{Result: -int32(syscall.EINVAL)})
	}
	return c.answer(s, auth.MethodCephx, x.More(payload))
}

func (c *cephxServer) answer(s *Stream, method uint32, r AuthReply) AuthAnswer {
	if r.More {
		return AuthAnswer{More: r.Payload}
	}
	c.mu.Lock()
	delete(c.sessions, s)
	c.mu.Unlock()
	if r.Result != 0 {
		return AuthAnswer{Bad: &frame.AuthBadMethod{Method: method, Result: r.Result,
			Methods: []uint32{auth.MethodCephx}, Modes: []uint32{uint32(msgr.ModeCRC), uint32(msgr.ModeSecure)}}}
	}
	return AuthAnswer{Done: &AuthDone{GlobalID: r.GlobalID, Mode: r.Mode, Payload: r.Payload, Key: r.SessionKey, Secret: r.Secret}}
}
