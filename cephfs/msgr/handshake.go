package msgr

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr/frame"
)

const (
	// maxControl bounds the payload of a control frame. The largest are the
	// tickets of AUTH_DONE: some kilobytes.
	maxControl = 256 << 10
	// maxRounds bounds the steps of one authentication, and the retries of one
	// reconnect, so that a peer cannot keep a handshake going for ever.
	maxRounds = 32
	// methodNone is the only method without a session key (CEPH_AUTH_NONE).
	methodNone = 1
)

// session is what outlives a stream: a lossless connection reconnects with it.
// It belongs to the connection's run goroutine.
type session struct {
	clientCookie uint64 // ours; 0 for a lossy connection
	serverCookie uint64 // 0: there is no session
	globalSeq    uint64 // of this attempt, among all of the instance
	connectSeq   uint64 // of this attempt, in this session
	inSeq        uint64 // the last message received
}

// handshake leads one stream to stateReady. It does no input or output of its
// own: frames go in through receive, and answers are added to w.
type handshake struct {
	// Constant.
	conn     *Conn // for its options and messenger; no lock is taken
	peerType denc.EntityType
	target   denc.Addr
	auth     AuthSession
	r        *frame.Reader // for its record, and to switch the mode
	w        *frame.Writer
	sess     *session

	// learn takes the address the peer saw us at and returns the one to
	// identify with. nextGlobal gives a global seq above the given one, or
	// false if that is too large. reset tells that the peer lost the session, and acked which messages it had
	// received by the last stream; it fails if that cannot be.
	learn      func(denc.Addr) (denc.Addr, error)
	nextGlobal func(uint64) (uint64, bool)
	reset      func(full bool)
	acked      func(seq uint64) error
	lossy      bool // we asked for it, or the server grants no more

	// Owned by receive.
	state    state
	verified bool // the peer's signature was right
	rounds   int
	method   uint32     // asked for last
	modes    []AuthMode // offered last
	seenAt   denc.Addr
	self     denc.Addr
	globalID uint64
	mode     AuthMode
	expect   frame.Signature // of the peer
	peerNum  int64
	features uint64
}

// fault is an error with its kind, before the connection adds the peer.
type fault struct {
	kind Kind
	err  error
}

func (f *fault) Error() string { return f.kind.String() + ": " + f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultf(k Kind, format string, args ...any) error {
	return &fault{k, fmt.Errorf(format, args...)}
}

// begin takes the peer's banner and says hello.
func (h *handshake) begin(b frame.Banner) error {
	if b.Supported&frame.FeatureRevision1 == 0 {
		return faultf(KindFeatures, "the peer does not speak messenger 2.1, only 2.0")
	}
	if more := b.Required &^ frame.FeatureRevision1; more != 0 {
		return faultf(KindFeatures, "the peer requires messenger features %#x", more)
	}
	h.state = stateHello
	return h.w.Append(frame.Hello{Type: denc.TypeClient, Addr: h.target})
}

// receive takes one frame, adds the answers and moves the state.
func (h *handshake) receive(tag frame.Tag, payload []byte) error {
	switch lookup(h.state, tag) {
	case actHello:
		return h.onHello(payload)
	case actBadMethod:
		return h.onBadMethod(payload)
	case actReplyMore:
		return h.onReplyMore(payload)
	case actDone:
		return h.onDone(payload)
	case actSignature:
		return h.onSignature(payload)
	case actServerIdent:
		return h.onServerIdent(payload)
	case actMissingFeatures:
		missing, err := frame.DecodeNumber(tag, payload)
		if err != nil {
			return err
		}
		return faultf(KindFeatures, "the peer requires features %#x", missing)
	case actReset:
		return h.onReset(payload)
	case actRetry:
		seq, err := frame.DecodeNumber(tag, payload)
		if err != nil {
			return err
		}
		if seq >= maxSeq {
			return faultf(KindProtocol, "connect seq %d", seq)
		}
		h.sess.connectSeq = seq + 1
		return h.again(h.reconnect)
	case actRetryGlobal:
		seq, err := frame.DecodeNumber(tag, payload)
		if err != nil {
			return err
		}
		next, ok := h.nextGlobal(seq)
		if !ok {
			return faultf(KindProtocol, "global seq %d", seq)
		}
		h.sess.globalSeq = next
		return h.again(h.reconnect)
	case actReconnectOK:
		seq, err := frame.DecodeNumber(tag, payload)
		if err != nil {
			return err
		}
		if err := h.acked(seq); err != nil {
			return err
		}
		h.state = stateReady
		return nil
	case actWait:
		return faultf(KindWait, "in state %v", h.state)
	default:
		return unexpected(h.state, tag)
	}
}

func unexpected(s state, tag frame.Tag) error {
	if tag == frame.TagCompressionRequest || tag == frame.TagCompressionDone {
		return faultf(KindProtocol, "%v in state %v, but compression was not offered", tag, s)
	}
	return faultf(KindProtocol, "unexpected %v in state %v", tag, s)
}

// again runs a step that the peer may ask for several times.
func (h *handshake) again(step func() error) error {
	if h.rounds++; h.rounds > maxRounds {
		return faultf(KindProtocol, "more than %d rounds in state %v", maxRounds, h.state)
	}
	return step()
}

func (h *handshake) onHello(payload []byte) error {
	m, err := frame.DecodeHello(payload)
	if err != nil {
		return err
	}
	if m.Type != h.peerType {
		return faultf(KindPeer, "it is a %v", m.Type)
	}
	h.seenAt = m.Addr
	h.state = stateAuth
	return h.request()
}

// request sends AUTH_REQUEST.
func (h *handshake) request() error {
	method, modes, payload, err := h.auth.Request()
	if err != nil {
		return &fault{KindAuth, err}
	}
	h.method, h.modes = method, modes
	wire := make([]uint32, len(modes))
	for i, m := range modes {
		wire[i] = uint32(m)
	}
	return h.w.Append(frame.AuthRequest{Method: method, Modes: wire, Payload: payload})
}

func (h *handshake) onBadMethod(payload []byte) error {
	m, err := frame.DecodeAuthBadMethod(payload)
	if err != nil {
		return err
	}
	modes := make([]AuthMode, len(m.Modes))
	for i, v := range m.Modes {
		modes[i] = AuthMode(v)
	}
	if err := h.auth.BadMethod(m.Method, m.Result, m.Methods, modes); err != nil {
		return &fault{KindAuth, err}
	}
	return h.again(h.request)
}

func (h *handshake) onReplyMore(payload []byte) error {
	m, err := frame.DecodeAuthReplyMore(payload)
	if err != nil {
		return err
	}
	return h.again(func() error {
		answer, err := h.auth.ReplyMore(bytes.Clone(m.Payload)) // the session may keep it
		if err != nil {
			return &fault{KindAuth, err}
		}
		return h.w.Append(frame.AuthRequestMore{Payload: answer})
	})
}

// onDone switches to the mode the server chose and signs what was received so
// far; what the server has to sign is what was sent so far.
func (h *handshake) onDone(payload []byte) error {
	m, err := frame.DecodeAuthDone(payload)
	if err != nil {
		return err
	}
	mode := AuthMode(m.Mode)
	if mode != ModeCRC && mode != ModeSecure || !slices.Contains(h.modes, mode) {
		return faultf(KindAuth, "the peer chose mode %d, offered were %v", mode, h.modes)
	}
	key, secret, err := h.auth.Done(m.GlobalID, mode, bytes.Clone(m.Payload))
	if err != nil {
		return &fault{KindAuth, err}
	}
	if len(key) == 0 && h.method != methodNone {
		// Without a key anybody's signature is right.
		return faultf(KindAuth, "method %d left no session key", h.method)
	}
	h.globalID, h.mode = m.GlobalID, mode
	mine := sign(key, h.r.Recorded())
	h.expect = sign(key, h.w.Recorded())
	h.r.StopRecording()
	h.w.StopRecording()
	if mode == ModeSecure {
		if err := frame.Secure(h.r, h.w, secret, false); err != nil {
			return &fault{KindAuth, err}
		}
	}
	h.state = stateSign
	return h.w.Append(mine)
}

// sign is zero without a key: authentication none.
func sign(key, record []byte) (s frame.Signature) {
	if len(key) == 0 {
		return s
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(record)
	mac.Sum(s[:0])
	return s
}

func (h *handshake) onSignature(payload []byte) error {
	s, err := frame.DecodeSignature(payload)
	if err != nil {
		return err
	}
	if !hmac.Equal(s[:], h.expect[:]) {
		return faultf(KindSignature, "the peer did not receive what was sent")
	}
	// Only now is the peer's word worth something.
	h.verified = true
	if h.self, err = h.learn(h.seenAt); err != nil {
		return err
	}
	h.rounds = 0
	if h.sess.serverCookie != 0 {
		return h.reconnect()
	}
	return h.ident()
}

// ident asks for a new session.
func (h *handshake) ident() error {
	h.state = stateIdent
	var flags uint64
	if h.lossy {
		flags = frame.FlagLossy
	} else if h.sess.clientCookie == 0 {
		h.sess.clientCookie = randomCookie()
	}
	o := &h.conn.m.opts
	return h.w.Append(frame.ClientIdent{
		Addrs: denc.AddrVec{h.self}, Target: h.target, GlobalID: int64(h.conn.m.numberOf(h.globalID)),
		GlobalSeq: h.sess.globalSeq, Supported: o.Features, Required: o.Required,
		Flags: flags, Cookie: h.sess.clientCookie,
	})
}

// reconnect asks to go on with the session.
func (h *handshake) reconnect() error {
	h.state = stateReconnect
	return h.w.Append(frame.Reconnect{
		Addrs: denc.AddrVec{h.self}, ClientCookie: h.sess.clientCookie, ServerCookie: h.sess.serverCookie,
		GlobalSeq: h.sess.globalSeq, ConnectSeq: h.sess.connectSeq, MsgSeq: h.sess.inSeq,
	})
}

func (h *handshake) onServerIdent(payload []byte) error {
	m, err := frame.DecodeServerIdent(payload)
	if err != nil {
		return err
	}
	if !slices.Contains(m.Addrs, h.target) {
		return faultf(KindPeer, "it has the addresses %v", m.Addrs)
	}
	o := &h.conn.m.opts
	if missing := o.Required &^ m.Supported; missing != 0 {
		return faultf(KindFeatures, "the peer lacks features %#x", missing)
	}
	if missing := m.Required &^ o.Features; missing != 0 {
		return faultf(KindFeatures, "the peer requires features %#x", missing)
	}
	h.peerNum, h.features = m.GlobalID, m.Supported&o.Features
	// Who asked for a lossy connection counts on its end at the first fault,
	// whatever the server would keep for it.
	h.lossy = h.lossy || m.Flags&frame.FlagLossy != 0
	if !h.lossy {
		h.sess.serverCookie = m.Cookie
	}
	h.state = stateReady
	return nil
}

func (h *handshake) onReset(payload []byte) error {
	m, err := frame.DecodeReset(payload)
	if err != nil {
		return err
	}
	h.sess.serverCookie, h.sess.connectSeq, h.sess.inSeq = 0, 0, 0
	if m.Full {
		h.sess.clientCookie = 0
	}
	h.reset(m.Full)
	return h.ident()
}

func randomCookie() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if c := binary.LittleEndian.Uint64(b[:]); c != 0 {
			return c
		}
	}
}

// BadMethodError is what an [AuthSession] may return from BadMethod: the peer
// refused the method or what it said.
type BadMethodError struct {
	Method  uint32
	Result  int32 // a negative errno
	Methods []uint32
	Modes   []AuthMode
}

// Error names the refused method and those that the peer takes.
func (e *BadMethodError) Error() string {
	return fmt.Sprintf("method %d refused: %v; the peer takes methods %v and modes %v",
		e.Method, syscall.Errno(-e.Result), e.Methods, e.Modes)
}

// Unwrap returns the peer's error number as a [syscall.Errno].
func (e *BadMethodError) Unwrap() error { return syscall.Errno(-e.Result) }
