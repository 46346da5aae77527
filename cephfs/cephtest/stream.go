package cephtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// Stream is one connection of a client to a peer. Its methods may be called
// from any goroutine.
type Stream struct {
	peer *Peer
	conn *conn
	n    int
	gone chan struct{} // closed when run ends

	// Owned by run.
	r      *frame.Reader
	rounds int // for StaticAuth
	inSeq  uint64

	// Set by run before OnReady.
	client   denc.Name
	addrs    denc.AddrVec // of the client
	features uint64
	sess     *session // nil for a lossy client

	mu     sync.Mutex
	change sync.Cond // of queue and ended
	w      *frame.Writer
	queue  [][]byte // encoded, for the writer; nil ends the direction
	queued int      // bytes ever put there
	ended  bool
	outSeq uint64 // of a lossy client
	ready  bool
}

func newStream(p *Peer, c *conn, n int) *Stream {
	const limit = 256 << 20
	s := &Stream{
		peer: p, conn: c, n: n, gone: make(chan struct{}),
		r: frame.NewReader(c, frame.Limits{Control: 1 << 20, Front: limit, Middle: limit, Data: limit}),
		w: frame.NewWriter(),
	}
	s.change.L = &s.mu
	return s
}

// Peer is whose stream it is.
func (s *Stream) Peer() *Peer { return s.peer }

// N counts the peer's streams from 1.
func (s *Stream) N() int { return s.n }

// Client is the client's name, and Addrs its addresses, as it identified.
func (s *Stream) Client() denc.Name { return s.client }

// Addrs are the client's addresses, as it identified.
func (s *Stream) Addrs() denc.AddrVec { return s.addrs }

// Features are those both sides have.
func (s *Stream) Features() uint64 { return s.features }

// Bytes is how many bytes the client wrote so far, and how many the peer has.
func (s *Stream) Bytes() (read, written int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.in.count(), s.queued
}

func (h *half) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int(h.passed)
}

// CutRead breaks the connection after n more bytes from the client.
func (s *Stream) CutRead(n int) { s.conn.in.cutAfter(n) }

// CutWrite breaks the connection after n more bytes to the client.
func (s *Stream) CutWrite(n int) { s.conn.out.cutAfter(n) }

// Reset breaks the connection now; what is under way is lost.
func (s *Stream) Reset() {
	s.conn.reset()
	s.peer.mu.Lock()
	delete(s.peer.live, s)
	s.peer.mu.Unlock()
}

// Close ends the connection after what was sent.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, nil)
	s.change.Broadcast()
}

func (h *half) cutAfter(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = h.passed + int64(n)
}

// Send sends a message with the next number. It does not wait for the client.
// A lossless peer keeps the message until the client acknowledges it, also
// while there is no stream: s may be an old one.
func (s *Stream) Send(m *msgr.Message) error {
	if s.sess == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outSeq++
		return s.write(m, s.outSeq, 0)
	}
	p := s.peer
	p.mu.Lock()
	x := s.sess
	x.outSeq++
	seq, in := x.outSeq, x.inSeq
	x.unacked = append(x.unacked, m)
	now := x.stream
	now.mu.Lock() // before another message takes its number to the stream
	p.mu.Unlock()
	defer now.mu.Unlock()
	if !now.ready {
		return nil // goes with the replay
	}
	return now.write(m, seq, in)
}

// SendSeq sends a message with any number and acknowledgement.
func (s *Stream) SendSeq(m *msgr.Message, seq, ack uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(m, seq, ack)
}

// write sends a message. The mutex is held.
func (s *Stream) write(m *msgr.Message, seq, ack uint64) error {
	h := frame.Header{Seq: seq, Tid: m.Tid, Type: m.Type, Priority: m.Priority, Version: m.Version, Compat: m.Compat, AckSeq: ack}
	if err := s.w.Message(&h, m.Front, m.Middle, m.Data); err != nil {
		return err
	}
	return s.flush()
}

// flush hands what was encoded to the writer, so that nobody waits for the
// client while a mutex is held. The mutex is held.
func (s *Stream) flush() error {
	b := bytes.Join(*s.w.Buffers(), nil)
	s.w.Flushed()
	if s.ended {
		return net.ErrClosed
	}
	if len(b) > 0 {
		s.queue = append(s.queue, b)
		s.queued += len(b)
		s.change.Broadcast()
	}
	return nil
}

// writeQueue sends the queue to the client.
func (s *Stream) writeQueue() {
	defer s.peer.wg.Done()
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.ended {
			s.change.Wait()
		}
		if s.ended {
			s.mu.Unlock()
			return
		}
		b := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		if b == nil {
			s.conn.out.stop(io.EOF, net.ErrClosed, false)
			return
		}
		if _, err := s.conn.Write(b); err != nil {
			return
		}
	}
}

// SendFrame sends a control frame past the Outgoing hook.
func (s *Stream) SendFrame(f Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sendLocked(f)
}

// SendRaw sends bytes that need not be a frame.
func (s *Stream) SendRaw(b []byte) error { return s.SendFrame(Frame{Raw: b}) }

func (s *Stream) sendLocked(f Frame) error {
	if f.Raw != nil {
		s.w.Raw(f.Raw)
	} else if err := s.w.Control(f.Tag, f.Payload); err != nil {
		return err
	}
	return s.flush()
}

// send sends a control frame as the hook wants it.
func (s *Stream) send(p frame.Payload) error { return s.sendHooked(Of(p)) }

func (s *Stream) sendHooked(f Frame) error {
	fs := []Frame{f}
	if s.peer.cfg.Outgoing != nil {
		fs = s.peer.cfg.Outgoing(s, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range fs {
		if err := s.sendLocked(f); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) run() {
	defer s.peer.wg.Done()
	defer close(s.gone)
	err := s.serve()
	s.mu.Lock()
	s.ready, s.ended = false, true
	s.change.Broadcast()
	s.mu.Unlock()
	s.peer.mu.Lock()
	delete(s.peer.live, s)
	s.peer.mu.Unlock()
	s.conn.Close()
	if s.peer.cfg.OnEnd != nil {
		s.peer.cfg.OnEnd(s, err)
	}
}

// serve is the server's side of a stream, from the banner to its end.
func (s *Stream) serve() error {
	banner := s.peer.cfg.Banner
	if banner == nil {
		banner = frame.Banner{Supported: frame.FeatureRevision1}.Append(nil)
	}
	if err := s.SendRaw(banner); err != nil {
		return err
	}
	if _, err := s.r.Banner(); err != nil {
		return err
	}
	seenAt, err := denc.ParseAddr("any:" + s.conn.remote.String() + "/0")
	if err != nil {
		return err
	}
	if err := s.send(frame.Hello{Type: s.peer.cfg.Type, Addr: seenAt}); err != nil {
		return err
	}
	for {
		p, err := s.r.Next()
		if err != nil {
			return err
		}
		if p.Tag == frame.TagMessage {
			if err := s.message(p); err != nil {
				return err
			}
			continue
		}
		payload := bytes.Clone(s.r.First())
		if s.peer.cfg.Incoming != nil && !s.peer.cfg.Incoming(s, p.Tag, payload) {
			continue
		}
		if err := s.control(p.Tag, payload); err != nil {
			return err
		}
	}
}

func (s *Stream) control(tag frame.Tag, payload []byte) error {
	switch tag {
	case frame.TagHello:
		_, err := frame.DecodeHello(payload)
		return err
	case frame.TagAuthRequest:
		m, err := frame.DecodeAuthRequest(payload)
		if err != nil {
			return err
		}
		modes := make([]msgr.AuthMode, len(m.Modes))
		for i, v := range m.Modes {
			modes[i] = msgr.AuthMode(v)
		}
		return s.answer(s.peer.cfg.Auth.Request(s, m.Method, modes, m.Payload))
	case frame.TagAuthRequestMore:
		m, err := frame.DecodeAuthRequestMore(payload)
		if err != nil {
			return err
		}
		return s.answer(s.peer.cfg.Auth.More(s, m.Payload))
	case frame.TagClientIdent:
		return s.ident(payload)
	case frame.TagSessionReconnect:
		return s.reconnect(payload)
	case frame.TagAck:
		seq, err := frame.DecodeNumber(tag, payload)
		if err != nil {
			return err
		}
		s.acked(seq)
		return nil
	case frame.TagKeepalive2:
		return s.sendHooked(Frame{Tag: frame.TagKeepalive2Ack, Payload: payload})
	case frame.TagKeepalive2Ack:
		return nil
	}
	return fmt.Errorf("cephtest: the client sent %v", tag)
}

// answer takes a step of the authentication. After the last one it reads the
// client's signature and checks it.
func (s *Stream) answer(a AuthAnswer) error {
	switch {
	case a.Bad != nil:
		return s.send(*a.Bad)
	case a.Done == nil:
		return s.send(frame.AuthReplyMore{Payload: a.More})
	}
	d := a.Done
	received := bytes.Clone(s.r.Recorded())
	if err := s.send(frame.AuthDone{GlobalID: d.GlobalID, Mode: uint32(d.Mode), Payload: d.Payload}); err != nil {
		return err
	}
	s.mu.Lock()
	expect := sign(d.Key, s.w.Recorded())
	s.r.StopRecording()
	s.w.StopRecording()
	var err error
	if d.Mode == msgr.ModeSecure {
		err = frame.Secure(s.r, s.w, d.Secret, true)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.send(sign(d.Key, received)); err != nil {
		return err
	}
	p, err := s.r.Next()
	if err != nil {
		return err
	}
	sig, err := frame.DecodeSignature(s.r.First())
	if p.Tag != frame.TagAuthSignature || err != nil || sig != expect {
		return errors.Join(errors.New("cephtest: the client's signature is wrong"), err)
	}
	return nil
}

func sign(key, record []byte) (s frame.Signature) {
	if len(key) > 0 {
		mac := hmac.New(sha256.New, key)
		mac.Write(record)
		mac.Sum(s[:0])
	}
	return s
}

func (s *Stream) ident(payload []byte) error {
	m, err := frame.DecodeClientIdent(payload)
	if err != nil {
		return err
	}
	cfg := &s.peer.cfg
	if missing := cfg.Required &^ m.Supported; missing != 0 {
		return s.send(frame.Number{Of: frame.TagIdentMissingFeatures, Value: missing})
	}
	if len(m.Addrs) == 0 || m.Addrs[0].IsBlank() {
		return errors.New("cephtest: the client gave no address")
	}
	s.addrs, s.features = m.Addrs, m.Supported&cfg.Supported
	s.client = denc.Name{Type: denc.TypeClient, Num: m.GlobalID}
	answer := frame.ServerIdent{
		Addrs: cfg.Addrs, GlobalID: cfg.Num, GlobalSeq: 1,
		Supported: cfg.Supported, Required: cfg.Required,
	}
	if cfg.Lossless {
		s.sess = s.peer.newSession(s, m.Cookie, m.GlobalSeq)
		answer.Cookie = s.sess.serverCookie
	} else {
		answer.Flags = frame.FlagLossy
	}
	return s.start(answer)
}

func (s *Stream) reconnect(payload []byte) error {
	m, err := frame.DecodeReconnect(payload)
	if err != nil {
		return err
	}
	x, refused := s.peer.resume(s, m)
	if refused != nil {
		return s.sendHooked(*refused)
	}
	s.addrs, s.sess = m.Addrs, x
	s.client = denc.Name{Type: denc.TypeClient, Num: denc.NoNum}
	s.peer.mu.Lock()
	in := x.inSeq
	s.peer.mu.Unlock()
	return s.start(frame.Number{Of: frame.TagSessionReconnectOK, Value: in})
}

// start sends the last frame of the handshake and replays what the client may
// not have.
func (s *Stream) start(last frame.Payload) error {
	if err := s.send(last); err != nil {
		return err
	}
	if s.sess == nil {
		s.mu.Lock()
		s.ready = true
		s.mu.Unlock()
	} else {
		p, x := s.peer, s.sess
		p.mu.Lock()
		again := append([]*msgr.Message(nil), x.unacked...)
		first, in := x.outSeq-uint64(len(again))+1, x.inSeq
		s.mu.Lock()
		p.mu.Unlock()
		s.ready = true
		for i, m := range again {
			if err := s.write(m, first+uint64(i), in); err != nil {
				s.mu.Unlock()
				return err
			}
		}
		s.mu.Unlock()
	}
	if s.peer.cfg.OnReady != nil {
		s.peer.cfg.OnReady(s)
	}
	return nil
}

func (s *Stream) acked(seq uint64) {
	if s.sess != nil {
		s.peer.mu.Lock()
		s.sess.trim(seq)
		s.peer.mu.Unlock()
	}
}

func (s *Stream) message(p frame.Preamble) error {
	var h frame.Header
	h.Parse(s.r.First())
	front, middle, data, complete, err := s.r.Body(make([]byte, s.r.BodySize()))
	if err != nil || !complete {
		return err
	}
	s.acked(h.AckSeq)
	m := &msgr.Message{
		Type: h.Type, Priority: h.Priority, Version: h.Version, Compat: h.Compat, Tid: h.Tid, Seq: h.Seq,
		Front: front, Middle: middle, Release: func() {},
	}
	if len(data) > 0 {
		m.Data = [][]byte{data}
	}
	if x := s.sess; x != nil {
		s.peer.mu.Lock()
		old, now := h.Seq <= x.inSeq, x.stream == s
		if !old && now {
			x.inSeq = h.Seq
		}
		s.peer.mu.Unlock()
		if !now {
			return errors.New("cephtest: the client has a newer stream")
		}
		if old {
			return nil
		}
	} else {
		if h.Seq != s.inSeq+1 {
			return fmt.Errorf("cephtest: message %d after %d", h.Seq, s.inSeq)
		}
		s.inSeq = h.Seq
	}
	if s.peer.cfg.OnMessage != nil {
		s.peer.cfg.OnMessage(s, m)
	}
	if s.sess != nil {
		return s.sendHooked(Frame{Tag: frame.TagAck, Payload: binary.LittleEndian.AppendUint64(nil, h.Seq)})
	}
	return nil
}

// Keepalive asks the client for a sign of life.
func (s *Stream) Keepalive(t time.Time) error {
	var e denc.Encoder
	e.Time(t)
	return s.SendFrame(Frame{Tag: frame.TagKeepalive2, Payload: e.Data()})
}
