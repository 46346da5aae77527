package auth

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// errno turns a result of Ceph, a negative errno of Linux, into an errno.
func errno(result int32) syscall.Errno {
	if result < 0 && result > -4096 {
		return syscall.Errno(-result)
	}
	return syscall.EPROTO
}

// monSession authenticates one connection to a monitor: the monitor sends a
// challenge, the client answers with one of its own and the proof that it
// knows the key, and gets its tickets (CephxClientHandler.cc,
// MonConnection::get_auth_request).
type monSession struct {
	c       *Client
	methods []uint32 // that are accepted, best first
	method  uint32
	modes   []msgr.AuthMode

	globalID uint64  // that was asked for; 0 for a new one
	own      *ticket // the old ticket that was shown; nil if none
	answered bool    // the challenge
}

func (s *monSession) Request() (uint32, []msgr.AuthMode, []byte, error) {
	modes := s.modes
	s.c.mu.Lock()
	s.globalID, s.own = s.c.globalID, s.c.tickets[denc.TypeAuth]
	if s.c.stale {
		// The old id goes with the old ticket. Without it a new one is due.
		s.globalID, s.own = 0, nil
	}
	s.c.mu.Unlock()
	if s.method == MethodNone {
		// There is no secret to protect a connection with.
		modes = slices.DeleteFunc(slices.Clone(modes), func(m msgr.AuthMode) bool { return m == msgr.ModeSecure })
		if len(modes) == 0 {
			return 0, nil, nil, s.fail(0, fmt.Errorf("%w: secure mode needs cephx", ErrMethod))
		}
	}
	s.answered = false
	var e denc.Encoder
	e.Uint8(requestMon)
	e.EntityName(s.c.name)
	e.Uint64(s.globalID)
	return s.method, modes, e.Data(), nil
}

func (s *monSession) BadMethod(method uint32, result int32, methods []uint32, modes []msgr.AuthMode) error {
	// The next of our methods that the monitor has, if that is the reason.
	if i := slices.Index(s.methods, s.method); i >= 0 && !slices.Contains(methods, s.method) {
		for _, m := range s.methods[i+1:] {
			if slices.Contains(methods, m) {
				s.method = m
				return nil
			}
		}
		if s.c.keyErr != nil && slices.Contains(methods, MethodCephx) {
			return s.fail(errno(result), s.c.keyErr)
		}
		return s.fail(errno(result), fmt.Errorf("%w: the monitor has %v, we have %v", ErrMethod, methodNames(methods), methodNames(s.methods)))
	}
	if no := errno(result); no != syscall.EACCES && no != syscall.EPERM {
		if !common(s.modes, modes) {
			return s.fail(no, fmt.Errorf("%w: the monitor wants one of the modes %v, we have %v", ErrMethod, modes, s.modes))
		}
		return s.fail(no, ErrUnavailable)
	}
	if s.own != nil && s.answered {
		// It may be the old ticket that it does not like. Once more without,
		// with the next attempt.
		s.c.mu.Lock()
		s.c.stale = s.c.stale || s.c.tickets[denc.TypeAuth] == s.own
		s.c.mu.Unlock()
		return s.fail(errno(result), ErrTicketRefused)
	}
	return s.fail(errno(result), ErrRefused)
}

func (s *monSession) ReplyMore(payload []byte) ([]byte, error) {
	if s.method != MethodCephx || s.answered {
		return nil, s.fail(0, fmt.Errorf("%w: a challenge too many", ErrProtocol))
	}
	s.answered = true
	d := denc.NewDecoder(payload)
	d.Uint8("challenge.version")
	challenge := d.Uint64("challenge")
	if err := d.Err(); err != nil {
		return nil, s.fail(0, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	ours, err := s.c.random()
	if err != nil {
		return nil, s.fail(0, err)
	}
	response, err := s.c.key.Response(challenge, ours)
	if err != nil {
		return nil, s.fail(0, err)
	}
	var old blob
	if s.own != nil {
		old = s.own.blob
	}
	var e denc.Encoder
	encodeAuthenticate(&e, ours, response, old, services|denc.TypeAuth)
	return e.Data(), nil
}

func (s *monSession) Done(globalID uint64, mode msgr.AuthMode, payload []byte) (sessionKey, secret []byte, err error) {
	if s.method == MethodNone {
		return nil, nil, s.finish(globalID, nil)
	}
	if !s.answered {
		return nil, nil, s.fail(0, fmt.Errorf("%w: done without a challenge", ErrProtocol))
	}
	d := denc.NewDecoder(payload)
	request, status := decodeResponseHeader(d)
	if d.OK() && (request != getAuthSessionKey || status != 0) {
		return nil, nil, s.fail(0, fmt.Errorf("%w: answer of type %#x, status %d", ErrProtocol, request, status))
	}
	grants, err := decodeGrants(d, s.c.key, s.own)
	switch {
	case errors.Is(err, ErrSealed):
		return nil, nil, s.fail(0, fmt.Errorf("%w: %w", ErrMonitor, err))
	case err != nil:
		return nil, nil, s.fail(0, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	if len(grants) != 1 || grants[0].service != denc.TypeAuth {
		return nil, nil, s.fail(0, fmt.Errorf("%w: no session key", ErrProtocol))
	}
	session := grants[0].key
	sealedSecret, extra := d.Bytes("connection_secret"), d.Bytes("extra_tickets")
	if err := d.Err(); err != nil {
		return nil, nil, s.fail(0, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	if len(sealedSecret) > 0 {
		secret, err = openSecret(denc.NewDecoder(sealedSecret), session)
		if err != nil {
			return nil, nil, s.fail(0, fmt.Errorf("%w: %w", ErrProtocol, err))
		}
	}
	if err := checkSecret(mode, secret); err != nil {
		return nil, nil, s.fail(0, err)
	}
	if len(extra) > 0 {
		more, err := decodeGrants(denc.NewDecoder(extra), session, nil)
		if err != nil {
			return nil, nil, s.fail(0, fmt.Errorf("%w: %w", ErrProtocol, err))
		}
		for _, g := range more {
			if g.service != denc.TypeAuth {
				grants = append(grants, g)
			}
		}
	}
	return session.bytes(), secret, s.finish(globalID, grants)
}

// finish makes the session's outcome the client's.
func (s *monSession) finish(globalID uint64, grants []grant) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if globalID == 0 {
		return s.fail(0, fmt.Errorf("%w: no global id", ErrProtocol))
	}
	if s.method == MethodNone && c.proven {
		// Another session, begun at the same time, found out better.
		return s.fail(0, fmt.Errorf("%w: none after a session by cephx", ErrMethod))
	}
	if globalID != c.globalID {
		// Only a session that asked for a new id brings one, and the first of
		// several that did: the others would each have got another.
		if s.globalID != 0 || c.globalID != 0 && !c.stale {
			return s.fail(0, ErrSuperseded)
		}
		clear(c.tickets)
	}
	c.proven = s.method == MethodCephx
	c.globalID, c.method, c.stale, c.relogin = globalID, s.method, false, false
	c.grantLocked(grants)
	now := c.now()
	for v := denc.EntityType(1); v != 0; v <<= 1 {
		if services&v != 0 && c.tickets[v].due(now) {
			c.askAfter[v] = now.Add(retryGrant)
		}
	}
	return nil
}

func (s *monSession) fail(no syscall.Errno, err error) error { return s.c.fail(denc.TypeMon, no, err) }

// openSecret reads a connection secret: a string, sealed, with its length.
func openSecret(d *denc.Decoder, session Key) ([]byte, error) {
	text, err := open(d, "connection_secret", session, UsageConnectionSecret)
	if err != nil {
		return nil, err
	}
	t := denc.NewDecoder(text)
	secret := append([]byte(nil), t.Bytes("connection_secret")...)
	if len(secret) > maxConnectionSecret {
		t.Fail("connection_secret", denc.ErrTooLong)
	}
	return secret, t.Err()
}

// minSecret is a key of 16 bytes and two nonces of 12.
const minSecret = 16 + 2*12

func checkSecret(mode msgr.AuthMode, secret []byte) error {
	if mode == msgr.ModeSecure && len(secret) < minSecret {
		return fmt.Errorf("%w: secure mode with a secret of %d bytes", ErrProtocol, len(secret))
	}
	return nil
}

func common[T comparable](a, b []T) bool {
	return slices.ContainsFunc(a, func(v T) bool { return slices.Contains(b, v) })
}

// methodNames is for errors.
func methodNames(methods []uint32) []string {
	var names []string
	for _, m := range methods {
		switch m {
		case MethodNone:
			names = append(names, "none")
		case MethodCephx:
			names = append(names, "cephx")
		case 4:
			names = append(names, "gss")
		default:
			names = append(names, fmt.Sprintf("method%d", m))
		}
	}
	return names
}
