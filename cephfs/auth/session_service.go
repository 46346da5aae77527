package auth

import (
	"fmt"
	"slices"
	"syscall"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// authorizer proves that its maker holds a ticket (CephXAuthorizer).
type authorizer struct {
	base  []byte // the part that is not sealed
	nonce uint64
	key   Key // of the ticket
}

func (c *Client) newAuthorizer(t *ticket, globalID uint64) (*authorizer, error) {
	nonce, err := c.random()
	if err != nil {
		return nil, err
	}
	var e denc.Encoder
	e.Uint8(requestAuthorizer) // and the version of what follows
	e.Uint64(globalID)
	e.Uint32(uint32(t.service))
	t.blob.encode(&e)
	return &authorizer{base: e.Data(), nonce: nonce, key: t.key}, nil
}

// seal appends the sealed part (CephXAuthorize), which answers the service's
// challenge if there was one.
func (a *authorizer) seal(e *denc.Encoder, challenge uint64, challenged bool) error {
	var m denc.Encoder
	m.Uint8(2)
	m.Uint64(a.nonce)
	m.Bool(challenged)
	if challenged {
		challenge++
	}
	m.Uint64(challenge)
	return seal(e, a.key, UsageAuthorize, m.Data())
}

// serviceSession authenticates one connection to a daemon other than a
// monitor, by ticket.
type serviceSession struct {
	c        *Client
	peer     denc.EntityType
	ticket   *ticket
	globalID uint64

	auth       *authorizer
	challenged bool
}

func (s *serviceSession) Request() (uint32, []msgr.AuthMode, []byte, error) {
	a, err := s.c.newAuthorizer(s.ticket, s.globalID)
	if err != nil {
		return 0, nil, nil, s.fail(0, err)
	}
	s.auth, s.challenged = a, false
	e := denc.NewEncoder(slices.Clone(a.base))
	if err := a.seal(e, 0, false); err != nil {
		return 0, nil, nil, s.fail(0, err)
	}
	return MethodCephx, s.c.svcModes, e.Data(), nil
}

func (s *serviceSession) BadMethod(method uint32, result int32, methods []uint32, modes []msgr.AuthMode) error {
	if !slices.Contains(methods, MethodCephx) {
		return s.fail(errno(result), fmt.Errorf("%w: the daemon has %v, we have cephx", ErrMethod, methodNames(methods)))
	}
	if no := errno(result); no != syscall.EACCES && no != syscall.EPERM && !common(s.c.svcModes, modes) {
		return s.fail(no, fmt.Errorf("%w: the daemon wants one of the modes %v, we have %v", ErrMethod, modes, s.c.svcModes))
	}
	again, passing := s.c.drop(s.ticket)
	if again {
		return s.fail(errno(result), ErrTicketRefused)
	}
	return &Error{Entity: s.c.name, Peer: s.peer, Errno: errno(result), Err: ErrDenied, passing: passing}
}

func (s *serviceSession) ReplyMore(payload []byte) ([]byte, error) {
	if s.auth == nil || s.challenged {
		return nil, s.fail(0, fmt.Errorf("%w: a challenge too many", ErrProtocol))
	}
	s.challenged = true
	text, err := s.ticket.key.Open(UsageAuthorizeChallenge, payload)
	if err != nil {
		return nil, s.fail(0, fmt.Errorf("%w: challenge %w", ErrProtocol, err))
	}
	d := denc.NewDecoder(text)
	d.Uint8("challenge.version")
	challenge := d.Uint64("challenge")
	if err := d.Err(); err != nil {
		return nil, s.fail(0, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	e := denc.NewEncoder(slices.Clone(s.auth.base))
	if err := s.auth.seal(e, challenge, true); err != nil {
		return nil, s.fail(0, err)
	}
	return e.Data(), nil
}

func (s *serviceSession) Done(_ uint64, mode msgr.AuthMode, payload []byte) (sessionKey, secret []byte, err error) {
	if s.auth == nil {
		return nil, nil, s.fail(0, fmt.Errorf("%w: done without a request", ErrProtocol))
	}
	text, err := open(denc.NewDecoder(payload), "authorize_reply", s.ticket.key, UsageAuthorizeReply)
	if err != nil {
		return nil, nil, s.fail(0, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	d := denc.NewDecoder(text)
	version := d.Uint8("authorize_reply.version")
	nonce := d.Uint64("authorize_reply.nonce")
	if version >= 2 {
		secret = append([]byte(nil), d.Bytes("authorize_reply.connection_secret")...)
	}
	if err := d.Err(); err != nil {
		return nil, nil, s.fail(0, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	if nonce != s.auth.nonce+1 {
		return nil, nil, s.fail(0, fmt.Errorf("%w: answer to another authorizer", ErrProtocol))
	}
	if err := checkSecret(mode, secret); err != nil {
		return nil, nil, s.fail(0, err)
	}
	s.c.accepted(s.ticket)
	return s.ticket.key.bytes(), secret, nil
}

func (s *serviceSession) fail(no syscall.Errno, err error) error { return s.c.fail(s.peer, no, err) }

// noneSession tells a daemon who the client is, without proof
// (AuthNoneAuthorizer).
type noneSession struct {
	c        *Client
	peer     denc.EntityType
	globalID uint64
}

func (s *noneSession) Request() (uint32, []msgr.AuthMode, []byte, error) {
	if !slices.Contains(s.c.svcModes, msgr.ModeCRC) {
		return 0, nil, nil, s.c.fail(s.peer, 0, fmt.Errorf("%w: secure mode needs cephx", ErrMethod))
	}
	var e denc.Encoder
	e.Uint8(requestAuthorizer)
	e.EntityName(s.c.name)
	e.Uint64(s.globalID)
	return MethodNone, []msgr.AuthMode{msgr.ModeCRC}, e.Data(), nil
}

func (s *noneSession) BadMethod(_ uint32, result int32, methods []uint32, _ []msgr.AuthMode) error {
	if !slices.Contains(methods, MethodNone) {
		return s.c.fail(s.peer, errno(result), fmt.Errorf("%w: the daemon has %v, the monitor gave none", ErrMethod, methodNames(methods)))
	}
	return s.c.fail(s.peer, errno(result), ErrDenied)
}

func (s *noneSession) ReplyMore([]byte) ([]byte, error) {
	return nil, s.c.fail(s.peer, 0, fmt.Errorf("%w: a challenge without cephx", ErrProtocol))
}

func (s *noneSession) Done(uint64, msgr.AuthMode, []byte) (sessionKey, secret []byte, err error) {
	return nil, nil, nil
}
