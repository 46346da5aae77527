package msgr

import (
	"errors"
	"strconv"

	"capstan/cephfs/denc"
)

// Kind classes what breaks a connection.
type Kind uint8

// The kinds.
const (
	// KindClosed: the connection, or its messenger, was closed from this side.
	KindClosed Kind = iota + 1
	// KindDial: the peer could not be reached.
	KindDial
	// KindIO: the stream broke or the peer closed it.
	KindIO
	// KindTimeout: the peer did not finish the handshake, sent nothing for the
	// keepalive time-out, or took nothing for as long.
	KindTimeout
	// KindProtocol: the peer sent what the protocol does not allow there.
	KindProtocol
	// KindLength: a length was above its limit or against the protocol.
	KindLength
	// KindChecksum: a frame arrived damaged.
	KindChecksum
	// KindCrypto: a secure frame was not what the peer sent.
	KindCrypto
	// KindSignature: the handshake was not what the peer saw; somebody may
	// have changed it on the way.
	KindSignature
	// KindAuth: authentication failed.
	KindAuth
	// KindFeatures: one side lacks a feature that the other requires.
	KindFeatures
	// KindPeer: somebody else answered: another type or other addresses.
	KindPeer
	// KindLegacy: the peer speaks messenger v1 only.
	KindLegacy
	// KindWait: the peer asked to wait and try again.
	KindWait
)

var kindNames = [...]string{
	KindClosed: "closed", KindDial: "not reached", KindIO: "connection lost",
	KindTimeout: "timed out", KindProtocol: "protocol fault", KindLength: "bad length",
	KindChecksum: "bad checksum", KindCrypto: "bad authentication tag",
	KindSignature: "bad handshake signature", KindAuth: "authentication failed",
	KindFeatures: "missing features", KindPeer: "wrong peer",
	KindLegacy: "speaks messenger v1 only", KindWait: "told to wait",
}

// String says in words what kind it is.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind" + strconv.Itoa(int(k))
}

// Error says what broke a connection, and to whom.
type Error struct {
	Kind Kind
	Type denc.EntityType // of the peer
	Peer denc.Addr
	Err  error // the cause; may be nil
}

// Error names the peer, the kind and the cause.
func (e *Error) Error() string {
	s := "msgr: " + e.Type.String() + " at " + e.Peer.String() + ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes an error of kind [KindClosed] match [ErrClosed].
func (e *Error) Is(target error) bool { return target == ErrClosed && e.Kind == KindClosed }

var (
	// ErrClosed is what [Conn.Send] and [Messenger.Connect] return after Close.
	ErrClosed = errors.New("msgr: closed")
	// ErrPermanent, wrapped in an error of an [Authenticator] or its session,
	// ends a lossless connection too: trying again would be of no use. One of
	// an [AuthSession] does so only if there was no handshake before: it comes
	// from what a peer says that has proved nothing yet.
	ErrPermanent = errors.New("permanent")
)

var errNoAddress = errors.New("no address of messenger v2")

// KindOf returns the kind of the [Error] in err's chain, or 0.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}
