package cephtest

import (
	"fmt"
	"sync"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// Frame is a control frame, or any bytes in its place.
type Frame struct {
	Tag     frame.Tag
	Payload []byte
	Raw     []byte // sent as they are, instead of a frame
}

// Of returns the frame with a payload.
func Of(p frame.Payload) Frame {
	var e denc.Encoder
	p.Encode(&e)
	return Frame{Tag: p.Tag(), Payload: e.Data()}
}

// Config says what a peer is. All hooks may be nil; they are called from the
// stream's goroutine unless they say otherwise, and not for messages.
type Config struct {
	Type  denc.EntityType
	Num   int64        // as in osd.3
	Addrs denc.AddrVec // it listens at the first
	// Lossless peers keep sessions, as an MDS does.
	Lossless bool
	// Auth is the server's side of the authentication; nil: a StaticAuth.
	Auth ServerAuth
	// Supported and Required features; 0: those of the client.
	Supported, Required uint64
	// Banner, if set, is sent instead of the right one.
	Banner []byte

	// OnStream sees each stream before its first byte; n counts them from 1.
	// It is called from the goroutine that dials.
	OnStream func(s *Stream, n int)
	// OnReady is called when a stream's handshake is done.
	OnReady func(s *Stream)
	// OnMessage takes each message, once and in order if the peer is lossless.
	OnMessage func(s *Stream, m *msgr.Message)
	// Incoming sees each control frame; false swallows it.
	Incoming func(s *Stream, tag frame.Tag, payload []byte) bool
	// Outgoing gives what is sent instead of a control frame. It may be called
	// from any goroutine that sends.
	Outgoing func(s *Stream, f Frame) []Frame
	// OnEnd is called when a stream's goroutine ends, with what ended it.
	OnEnd func(s *Stream, err error)
}

// session is what a lossless peer keeps of a client.
type session struct {
	clientCookie, serverCookie uint64
	connectSeq                 uint64
	inSeq, outSeq              uint64
	unacked                    []*msgr.Message // the last has outSeq
	stream                     *Stream         // the present one
}

// Peer is one daemon. Its methods may be called from any goroutine.
type Peer struct {
	cfg Config
	net *Network
	wg  sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	count     int // streams accepted
	live      map[*Stream]bool
	sessions  map[uint64]*session // by server cookie
	cookie    uint64              // the last given out
	globalSeq uint64              // the highest seen
}

// NewPeer starts a peer. [Peer.Close] ends it.
func (n *Network) NewPeer(cfg Config) *Peer {
	if len(cfg.Addrs) == 0 || cfg.Type == 0 {
		panic("cephtest: a peer needs a type and an address")
	}
	if cfg.Auth == nil {
		cfg.Auth = &StaticAuth{}
	}
	if cfg.Supported == 0 {
		cfg.Supported = msgr.DefaultFeatures
	}
	if cfg.Required == 0 {
		cfg.Required = msgr.RequiredFeatures
	}
	p := &Peer{cfg: cfg, net: n, live: make(map[*Stream]bool), sessions: make(map[uint64]*session), cookie: 1000}
	n.listen(p)
	return p
}

// Addrs are where the peer listens.
func (p *Peer) Addrs() denc.AddrVec { return p.cfg.Addrs }

// Close stops listening, breaks all streams and waits for their goroutines.
// It must not be called from a hook.
func (p *Peer) Close() {
	p.net.unlisten(p)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ResetAll()
	p.wg.Wait()
}

// ResetAll breaks all streams.
func (p *Peer) ResetAll() {
	for _, s := range p.Live() {
		s.Reset()
	}
}

// Live returns the streams that were not broken yet.
func (p *Peer) Live() []*Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Stream, 0, len(p.live))
	for s := range p.live {
		all = append(all, s)
	}
	return all
}

// Streams is how many connections were accepted so far.
func (p *Peer) Streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Forget loses all sessions, as a restarted daemon does.
func (p *Peer) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.sessions)
}

// accept takes a connection. It calls OnStream before the client can write.
func (p *Peer) accept(c *conn) bool {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return false
	}
	p.count++
	s := newStream(p, c, p.count)
	p.live[s] = true
	p.wg.Add(2)
	p.mu.Unlock()
	if p.cfg.OnStream != nil {
		p.cfg.OnStream(s, s.n)
	}
	go s.run()
	go s.writeQueue()
	return true
}

// newSession answers CLIENT_IDENT.
func (p *Peer) newSession(s *Stream, clientCookie, globalSeq uint64) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.globalSeq = max(p.globalSeq, globalSeq)
	p.cookie++
	x := &session{clientCookie: clientCookie, serverCookie: p.cookie, stream: s}
	p.sessions[x.serverCookie] = x
	return x
}

// resume answers SESSION_RECONNECT: with the session, or with the frame that
// refuses it.
func (p *Peer) resume(s *Stream, r frame.Reconnect) (*session, *Frame) {
	p.mu.Lock()
	x := p.sessions[r.ServerCookie]
	refuse := func(pl frame.Payload) (*session, *Frame) {
		p.mu.Unlock()
		f := Of(pl)
		return nil, &f
	}
	switch {
	case x == nil || x.clientCookie != r.ClientCookie:
		return refuse(frame.Reset{Full: true})
	case r.GlobalSeq < p.globalSeq:
		return refuse(frame.Number{Of: frame.TagSessionRetryGlobal, Value: p.globalSeq})
	case r.ConnectSeq < x.connectSeq:
		return refuse(frame.Number{Of: frame.TagSessionRetry, Value: x.connectSeq})
	}
	p.globalSeq, x.connectSeq = r.GlobalSeq, r.ConnectSeq
	old := x.stream
	x.stream = s
	x.trim(r.MsgSeq)
	p.mu.Unlock()
	// What the old stream took is delivered before what comes on this one.
	if old != nil {
		old.Reset()
		<-old.gone
	}
	return x, nil
}

// trim drops what the client has. The peer's mutex is held.
func (x *session) trim(seq uint64) {
	first := x.outSeq - uint64(len(x.unacked)) + 1
	if seq >= first {
		n := min(int(seq-first)+1, len(x.unacked))
		x.unacked = x.unacked[n:]
	}
}

// String is the peer's entity name, such as mon.0.
func (p *Peer) String() string { return fmt.Sprintf("%v.%d", p.cfg.Type, p.cfg.Num) }
