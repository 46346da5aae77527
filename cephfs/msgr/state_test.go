package msgr

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr/frame"
)

// script is an AuthSession that agrees to everything.
type script struct {
	key, secret []byte
	err         error // of every step
	bad         error // of BadMethod
}

func (s *script) Begin(denc.EntityType) (AuthSession, error) { return s, s.err }
func (s *script) Request() (uint32, []AuthMode, []byte, error) {
	return 2, []AuthMode{ModeSecure, ModeCRC}, []byte("request"), s.err
}
func (s *script) BadMethod(uint32, int32, []uint32, []AuthMode) error { return s.bad }
func (s *script) ReplyMore(p []byte) ([]byte, error)                  { return append([]byte("re: "), p...), s.err }
func (s *script) Done(uint64, AuthMode, []byte) ([]byte, []byte, error) {
	return s.key, s.secret, s.err
}

var (
	testTarget = denc.Addr{Type: denc.AddrMsgr2, Host: mustAddr("v2:192.0.2.1:6800/0").Host, Nonce: 77}
	testSeenAt = mustAddr("any:192.0.2.9:51234/0")
)

func mustAddr(s string) denc.Addr {
	a, err := denc.ParseAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}

// bench is a handshake with what it is told and what it sends.
type bench struct {
	*handshake
	auth   *script
	resets []bool
	ackErr error
	acks   []uint64
}

func newBench(sess session, lossy bool) *bench {
	m := New(Options{Auth: &script{}, Nonce: 5})
	c := newConn(m, denc.TypeMDS, testTarget, Lossless, nil)
	b := &bench{auth: &script{key: []byte("key"), secret: bytes.Repeat([]byte("s"), 64)}}
	b.handshake = &handshake{
		conn: c, peerType: denc.TypeMDS, target: testTarget, auth: b.auth, lossy: lossy,
		r: frame.NewReader(new(bytes.Buffer), frame.Limits{}), w: frame.NewWriter(), sess: &sess,
		learn:      func(a denc.Addr) (denc.Addr, error) { return m.learn(a, a.Host.Addr()) },
		nextGlobal: m.nextGlobalSeq,
		reset:      func(full bool) { b.resets = append(b.resets, full) },
		acked:      func(seq uint64) error { b.acks = append(b.acks, seq); return b.ackErr },
	}
	return b
}

func payloadOf(p frame.Payload) []byte {
	var e denc.Encoder
	p.Encode(&e)
	return e.Data()
}

// good is an acceptable payload of each frame.
func (b *bench) good(tag frame.Tag) []byte {
	switch tag {
	case frame.TagHello:
		return payloadOf(frame.Hello{Type: denc.TypeMDS, Addr: testSeenAt})
	case frame.TagAuthBadMethod:
		return payloadOf(frame.AuthBadMethod{Method: 2, Result: -13, Methods: []uint32{2}, Modes: []uint32{1, 2}})
	case frame.TagAuthReplyMore:
		return payloadOf(frame.AuthReplyMore{Payload: []byte("more")})
	case frame.TagAuthDone:
		return payloadOf(frame.AuthDone{GlobalID: 9, Mode: uint32(ModeCRC), Payload: []byte("done")})
	case frame.TagAuthSignature:
		return payloadOf(b.expect)
	case frame.TagServerIdent:
		return payloadOf(frame.ServerIdent{
			Addrs: denc.AddrVec{testTarget}, GlobalID: 3, GlobalSeq: 1,
			Supported: DefaultFeatures, Required: RequiredFeatures, Cookie: 99,
		})
	case frame.TagSessionReset:
		return payloadOf(frame.Reset{Full: true})
	case frame.TagWait:
		return nil
	case frame.TagAuthRequest:
		return payloadOf(frame.AuthRequest{Method: 1})
	}
	return payloadOf(frame.Number{Of: tag, Value: 7})
}

// at leads a fresh handshake into a state.
func at(t testing.TB, s state) *bench {
	t.Helper()
	sess := session{globalSeq: 1}
	if s == stateReconnect {
		sess = session{clientCookie: 11, serverCookie: 22, globalSeq: 1, connectSeq: 1, inSeq: 5}
	}
	b := newBench(sess, false)
	if err := b.begin(frame.Banner{Supported: frame.FeatureRevision1}); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []frame.Tag{frame.TagHello, frame.TagAuthDone, frame.TagAuthSignature, frame.TagServerIdent} {
		if b.state == s {
			return b
		}
		if err := b.receive(tag, b.good(tag)); err != nil {
			t.Fatal(err)
		}
	}
	if b.state != s {
		t.Fatalf("in state %v, wanted %v", b.state, s)
	}
	return b
}

// after says where each allowed frame of the handshake leads.
var after = map[state]map[frame.Tag]state{
	stateHello:     {frame.TagHello: stateAuth},
	stateAuth:      {frame.TagAuthBadMethod: stateAuth, frame.TagAuthReplyMore: stateAuth, frame.TagAuthDone: stateSign},
	stateSign:      {frame.TagAuthSignature: stateIdent},
	stateIdent:     {frame.TagServerIdent: stateReady},
	stateReconnect: {frame.TagSessionReconnectOK: stateReady, frame.TagSessionReset: stateIdent, frame.TagSessionRetry: stateReconnect, frame.TagSessionRetryGlobal: stateReconnect},
}

// TestEveryFrameInEveryState: what is not allowed is refused with its name,
// what is allowed leads on, and leads nowhere when it is cut short.
func TestEveryFrameInEveryState(t *testing.T) {
	for s := stateHello; s < stateReady; s++ {
		for tag := frame.Tag(0); tag < frame.TagLimit+3; tag++ {
			b := at(t, s)
			err := b.receive(tag, b.good(tag))
			next, allowed := after[s][tag]
			switch {
			case allowed:
				if err != nil || b.state != next {
					t.Errorf("%v in state %v: now in %v, %v; want %v", tag, s, b.state, err, next)
				}
				if b.state != stateReady && b.w.Len() == 0 {
					t.Errorf("%v in state %v: nothing was answered", tag, s)
				}
			case (s == stateIdent || s == stateReconnect) && tag == frame.TagWait:
				if kindOf(err) != KindWait {
					t.Errorf("%v in state %v: %v", tag, s, err)
				}
			case s == stateIdent && tag == frame.TagIdentMissingFeatures:
				if kindOf(err) != KindFeatures {
					t.Errorf("%v in state %v: %v", tag, s, err)
				}
			default:
				if kindOf(err) != KindProtocol || b.state != s {
					t.Errorf("%v in state %v: %v, now in %v", tag, s, err, b.state)
				}
			}
			if whole := at(t, s).good(tag); allowed {
				for n := range whole {
					b := at(t, s)
					if err := b.receive(tag, b.good(tag)[:n]); kindOf(err) != KindProtocol || b.state != s {
						t.Fatalf("%d bytes of %v in state %v: %v, now in %v", n, tag, s, err, b.state)
					}
				}
			}
		}
	}
	for tag := frame.Tag(0); tag < frame.TagLimit+3; tag++ {
		want := tag == frame.TagMessage || tag == frame.TagAck || tag == frame.TagKeepalive2 || tag == frame.TagKeepalive2Ack
		if got := lookup(stateReady, tag) != actRefuse; got != want {
			t.Errorf("%v when ready: allowed is %v", tag, got)
		}
	}
	if lookup(stateLimit, frame.TagAck) != actRefuse || lookup(0, frame.TagAck) != actRefuse {
		t.Error("something is allowed in no state")
	}
}

// sent reads the last frame that was added.
func (b *bench) sent(t *testing.T) (frame.Tag, []byte) {
	t.Helper()
	var wire bytes.Buffer
	b.w.Buffers().WriteTo(&wire)
	b.w.Flushed()
	r := frame.NewReader(&wire, frame.Limits{Control: maxControl})
	var tag frame.Tag
	var payload []byte
	for {
		p, err := r.Next()
		if err != nil {
			return tag, payload
		}
		tag, payload = p.Tag, bytes.Clone(r.First())
	}
}

func TestWhatIsSent(t *testing.T) {
	b := at(t, stateIdent)
	tag, p := b.sent(t)
	id, err := frame.DecodeClientIdent(p)
	if tag != frame.TagClientIdent || err != nil {
		t.Fatalf("%v %v", tag, err)
	}
	if id.Cookie == 0 || id.Flags != 0 || id.GlobalID != 9 || id.GlobalSeq != 1 || id.Target != testTarget ||
		len(id.Addrs) != 1 || id.Addrs[0].String() != "any:192.0.2.9:0/5" && id.Addrs[0] != b.conn.m.Addr() {
		t.Errorf("a lossless client identified with %+v", id)
	}

	b = newBench(session{globalSeq: 4}, true)
	b.begin(frame.Banner{Supported: frame.FeatureRevision1})
	for _, tag := range []frame.Tag{frame.TagHello, frame.TagAuthDone, frame.TagAuthSignature} {
		if err := b.receive(tag, b.good(tag)); err != nil {
			t.Fatal(err)
		}
	}
	_, p = b.sent(t)
	if id, _ := frame.DecodeClientIdent(p); id.Cookie != 0 || id.Flags != frame.FlagLossy || id.GlobalSeq != 4 {
		t.Errorf("a lossy client identified with %+v", id)
	}

	b = at(t, stateReconnect)
	tag, p = b.sent(t)
	re, err := frame.DecodeReconnect(p)
	if tag != frame.TagSessionReconnect || err != nil || re.ClientCookie != 11 || re.ServerCookie != 22 || re.GlobalSeq != 1 || re.ConnectSeq != 1 || re.MsgSeq != 5 {
		t.Errorf("reconnected with %v %+v, %v", tag, re, err)
	}
	b.receive(frame.TagSessionRetry, payloadOf(frame.Number{Of: frame.TagSessionRetry, Value: 30}))
	_, p = b.sent(t)
	if re, _ := frame.DecodeReconnect(p); re.ConnectSeq != 31 {
		t.Errorf("after a retry: %+v", re)
	}
	b.receive(frame.TagSessionRetryGlobal, payloadOf(frame.Number{Of: frame.TagSessionRetryGlobal, Value: 40}))
	_, p = b.sent(t)
	if re, _ := frame.DecodeReconnect(p); re.GlobalSeq != 41 {
		t.Errorf("after a global retry: %+v", re)
	}
	b.receive(frame.TagSessionReset, payloadOf(frame.Reset{Full: false}))
	tag, p = b.sent(t)
	if id, _ := frame.DecodeClientIdent(p); tag != frame.TagClientIdent || id.Cookie != 11 || len(b.resets) != 1 || b.resets[0] || b.sess.inSeq != 0 || b.sess.serverCookie != 0 {
		t.Errorf("after a reset that is not full: %v %+v, told %v, session %+v", tag, id, b.resets, b.sess)
	}
	b = at(t, stateReconnect)
	b.receive(frame.TagSessionReset, payloadOf(frame.Reset{Full: true}))
	_, p = b.sent(t)
	if id, _ := frame.DecodeClientIdent(p); id.Cookie == 11 || id.Cookie == 0 || len(b.resets) != 1 || !b.resets[0] {
		t.Errorf("after a full reset: %+v, told %v", id, b.resets)
	}
}

func TestHandshakeRefusals(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		in   state
		edit func(*bench)
		tag  frame.Tag
		with frame.Payload // nil: good
		kind Kind
	}{
		{"other type", stateHello, nil, frame.TagHello, frame.Hello{Type: denc.TypeOSD, Addr: testSeenAt}, KindPeer},
		{"no request", stateHello, func(b *bench) { b.auth.err = broken }, frame.TagHello, nil, KindAuth},
		{"bad method", stateAuth, func(b *bench) { b.auth.bad = broken }, frame.TagAuthBadMethod, nil, KindAuth},
		{"bad step", stateAuth, func(b *bench) { b.auth.err = broken }, frame.TagAuthReplyMore, nil, KindAuth},
		{"bad end", stateAuth, func(b *bench) { b.auth.err = broken }, frame.TagAuthDone, nil, KindAuth},
		{"mode not offered", stateAuth, nil, frame.TagAuthDone, frame.AuthDone{Mode: 3}, KindAuth},
		{"downgraded", stateAuth, func(b *bench) { b.modes = []AuthMode{ModeSecure} }, frame.TagAuthDone, frame.AuthDone{Mode: uint32(ModeCRC)}, KindAuth},
		{"no mode", stateAuth, nil, frame.TagAuthDone, frame.AuthDone{}, KindAuth},
		{"short secret", stateAuth, func(b *bench) { b.auth.secret = make([]byte, 39) }, frame.TagAuthDone, frame.AuthDone{Mode: uint32(ModeSecure)}, KindAuth},
		{"no key", stateAuth, func(b *bench) { b.method, b.auth.key = 2, nil }, frame.TagAuthDone, nil, KindAuth},
		{"signature", stateSign, nil, frame.TagAuthSignature, frame.Signature{1}, KindSignature},
		{"no address", stateSign, func(b *bench) {
			b.learn = func(denc.Addr) (denc.Addr, error) { return b.conn.m.learn(denc.Addr{}, netip.Addr{}) }
		}, frame.TagAuthSignature, nil, KindProtocol},
		{"other address", stateIdent, nil, frame.TagServerIdent, frame.ServerIdent{Addrs: denc.AddrVec{testSeenAt}, Supported: DefaultFeatures}, KindPeer},
		{"other nonce", stateIdent, nil, frame.TagServerIdent, frame.ServerIdent{Addrs: denc.AddrVec{{Type: denc.AddrMsgr2, Host: testTarget.Host, Nonce: 78}}, Supported: DefaultFeatures}, KindPeer},
		{"too old", stateIdent, nil, frame.TagServerIdent, frame.ServerIdent{Addrs: denc.AddrVec{testTarget}, Supported: 1}, KindFeatures},
		{"too new", stateIdent, nil, frame.TagServerIdent, frame.ServerIdent{Addrs: denc.AddrVec{testTarget}, Supported: DefaultFeatures, Required: 1 << 62}, KindFeatures},
		{"acknowledges too much", stateReconnect, func(b *bench) { b.ackErr = faultf(KindProtocol, "too much") }, frame.TagSessionReconnectOK, nil, KindProtocol},
	} {
		b := at(t, c.in)
		if c.edit != nil {
			c.edit(b)
		}
		p := b.good(c.tag)
		if c.with != nil {
			p = payloadOf(c.with)
		}
		if err := b.receive(c.tag, p); kindOf(err) != c.kind {
			t.Errorf("%s: got %v, want %v", c.name, err, c.kind)
		}
	}
	b := newBench(session{}, false)
	if err := b.begin(frame.Banner{}); kindOf(err) != KindFeatures {
		t.Errorf("messenger 2.0: %v", err)
	}
	if err := b.begin(frame.Banner{Supported: 3, Required: frame.FeatureCompression}); kindOf(err) != KindFeatures {
		t.Errorf("compression required: %v", err)
	}
}

// TestRounds: no peer keeps a handshake going for ever.
func TestRounds(t *testing.T) {
	for s, tag := range map[state]frame.Tag{stateAuth: frame.TagAuthReplyMore, stateReconnect: frame.TagSessionRetry} {
		b := at(t, s)
		var err error
		n := 0
		for ; err == nil && n < 1000; n++ {
			err = b.receive(tag, b.good(tag))
		}
		if kindOf(err) != KindProtocol || n > maxRounds+1 {
			t.Errorf("%v was answered %d times: %v", tag, n, err)
		}
	}
}

// TestLargeSeqs: what a peer claims to have seen does not wrap the numbers, nor
// does it bring those of all connections to their end.
func TestLargeSeqs(t *testing.T) {
	for _, tag := range []frame.Tag{frame.TagSessionRetry, frame.TagSessionRetryGlobal} {
		for _, seq := range []uint64{maxSeq, 1<<64 - 2, 1<<64 - 1} {
			b := at(t, stateReconnect)
			if err := b.receive(tag, payloadOf(frame.Number{Of: tag, Value: seq})); kindOf(err) != KindProtocol {
				t.Errorf("%v %d: %v", tag, seq, err)
			}
			if b.sess.globalSeq != 1 || b.sess.connectSeq != 1 {
				t.Errorf("%v %d: left seqs %d and %d", tag, seq, b.sess.globalSeq, b.sess.connectSeq)
			}
		}
	}
	// The largest there is gets an answer, and honest peers go on from it.
	b := at(t, stateReconnect)
	const tag = frame.TagSessionRetryGlobal
	for _, seq := range []uint64{maxSeq - 1, maxSeq, maxSeq + 1} {
		if err := b.receive(tag, payloadOf(frame.Number{Of: tag, Value: seq})); err != nil || b.sess.globalSeq != seq+1 {
			t.Errorf("%d: %v, answered %d", seq, err, b.sess.globalSeq)
		}
	}
	if err := b.receive(tag, payloadOf(frame.Number{Of: tag, Value: maxSeq + 3})); kindOf(err) != KindProtocol {
		t.Errorf("above all that was given: %v", err)
	}
}

// FuzzHandshake feeds any frames to a handshake in any state.
func FuzzHandshake(f *testing.F) {
	for s := stateHello; s < stateReady; s++ {
		for tag := range after[s] {
			f.Add(uint8(s), uint8(tag), at(f, s).good(tag), uint8(frame.TagAuthDone), []byte{})
		}
	}
	f.Fuzz(func(t *testing.T, s, tag1 uint8, p1 []byte, tag2 uint8, p2 []byte) {
		b := at(t, stateHello+state(s)%(stateReady-stateHello))
		for _, f := range []struct {
			tag uint8
			p   []byte
		}{{tag1, p1}, {tag2, p2}} {
			if b.state == stateReady {
				return
			}
			if err := b.receive(frame.Tag(f.tag), f.p); err != nil {
				if kindOf(err) == 0 {
					t.Fatalf("%v has no kind", err)
				}
				return
			}
		}
	})
}
