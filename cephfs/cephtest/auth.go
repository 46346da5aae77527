package cephtest

import (
	"bytes"
	"errors"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// ServerAuth is the server's side of the authentication of one stream. It is
// called from the stream's goroutine.
type ServerAuth interface {
	// Request takes AUTH_REQUEST, More AUTH_REQUEST_MORE.
	Request(s *Stream, method uint32, modes []msgr.AuthMode, payload []byte) AuthAnswer
	More(s *Stream, payload []byte) AuthAnswer
}

// AuthAnswer is the next step: Done, or Bad, or else More.
type AuthAnswer struct {
	Done *AuthDone
	Bad  *frame.AuthBadMethod
	More []byte
}

// AuthDone ends an authentication.
type AuthDone struct {
	GlobalID    uint64
	Mode        msgr.AuthMode
	Payload     []byte
	Key, Secret []byte // session key and connection secret
}

// A Secret of the right length for both sides.
var Secret = bytes.Repeat([]byte("cephtest secret."), 4)

// StaticAuth is both sides of an authentication that takes everybody and
// gives both the same session key and secret. The zero value is like
// authentication none in crc mode.
type StaticAuth struct {
	Key      []byte        // signs the handshake; none: no signature
	Mode     msgr.AuthMode // 0: ModeCRC
	GlobalID uint64        // 0: 4711
	Rounds   int           // of AUTH_REPLY_MORE before AUTH_DONE
}

const staticMethod = 1 // CEPH_AUTH_NONE

func (a *StaticAuth) mode() msgr.AuthMode {
	if a.Mode == 0 {
		return msgr.ModeCRC
	}
	return a.Mode
}

// Begin implements [msgr.Authenticator].
func (a *StaticAuth) Begin(denc.EntityType) (msgr.AuthSession, error) {
	return &staticSession{a: a}, nil
}

type staticSession struct {
	a      *StaticAuth
	rounds byte
}

func (s *staticSession) Request() (uint32, []msgr.AuthMode, []byte, error) {
	return staticMethod, []msgr.AuthMode{s.a.mode()}, []byte("hello"), nil
}

func (s *staticSession) BadMethod(method uint32, result int32, methods []uint32, modes []msgr.AuthMode) error {
	return &msgr.BadMethodError{Method: method, Result: result, Methods: methods, Modes: modes}
}

func (s *staticSession) ReplyMore(payload []byte) ([]byte, error) {
	if s.rounds++; !bytes.Equal(payload, []byte{s.rounds}) {
		return nil, errors.New("cephtest: wrong step of the authentication")
	}
	return payload, nil
}

func (s *staticSession) Done(uint64, msgr.AuthMode, []byte) (key, secret []byte, err error) {
	if int(s.rounds) != s.a.Rounds {
		return nil, nil, errors.New("cephtest: authentication done too early")
	}
	return s.a.Key, Secret, nil
}

// Request implements [ServerAuth].
func (a *StaticAuth) Request(s *Stream, _ uint32, modes []msgr.AuthMode, _ []byte) AuthAnswer {
	return a.step(s)
}

// More implements [ServerAuth].
func (a *StaticAuth) More(s *Stream, _ []byte) AuthAnswer { return a.step(s) }

func (a *StaticAuth) step(s *Stream) AuthAnswer {
	if s.rounds < a.Rounds {
		s.rounds++
		return AuthAnswer{More: []byte{byte(s.rounds)}}
	}
	id := a.GlobalID
	if id == 0 {
		id = 4711
	}
	return AuthAnswer{Done: &AuthDone{GlobalID: id, Mode: a.mode(), Key: a.Key, Secret: Secret}}
}
