package cephtest

import (
	"bytes"
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

// Keepalive asks the client for a sign of life.
func (s *Stream) Keepalive(t time.Time) error {
	var e denc.Encoder
	e.Time(t)
	return s.SendFrame(Frame{Tag: frame.TagKeepalive2, Payload: e.Data()})
}
