package msgr

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr/frame"
)

// Conn is one connection to a peer. Its methods may be called from any
// goroutine, those of a dispatcher included.
type Conn struct {
	// Constant.
	m        *Messenger
	peerType denc.EntityType
	target   denc.Addr
	disp     Dispatcher
	placer   Placer // disp, if it is one
	log      *slog.Logger
	ctx      context.Context // ends with Close, or with the messenger's
	cancel   context.CancelFunc
	done     chan struct{} // closed by run

	out *sendQueue
	in  *recvQueue

	// Owned by run.
	sess    session
	lossy   bool
	fading  []*Message // whose Sent is to be called
	held    bool       // a handshake was finished once
	trusted bool       // what ended the last attempt was not said by just anybody

	// received is the number of the last message received: session.inSeq, for
	// the writer.
	received atomic.Uint64

	mode     atomic.Uint32
	features atomic.Uint64
	peerNum  atomic.Int64

	mu        sync.Mutex
	err       error
	lastFault error
}

func newConn(m *Messenger, peerType denc.EntityType, target denc.Addr, p Policy, d Dispatcher) *Conn {
	c := &Conn{
		m: m, peerType: peerType, target: target, disp: d, lossy: p == Lossy,
		log:  m.opts.Logger.With("peer", peerType.String(), "addr", target.String()),
		done: make(chan struct{}),
		out:  newSendQueue(p == Lossy),
		in:   newRecvQueue(m.opts.QueueBytes),
	}
	c.placer, _ = d.(Placer)
	c.ctx, c.cancel = context.WithCancel(m.ctx)
	c.peerNum.Store(denc.NoNum)
	// A reader that waits for the dispatcher must not hold up Close.
	m.wg.Add(1)
	context.AfterFunc(c.ctx, func() {
		defer m.wg.Done()
		c.out.refuse()
		c.in.drop()
	})
	return c
}

// Send queues a message. It never waits for the network, so that the caller
// bounds what is under way. The only error is [ErrClosed]; m.Sent is then not
// called.
func (c *Conn) Send(m *Message) error { return c.out.push(m) }

// Withdraw takes a message back that was given to Send, if its writing was not
// begun. Then it is the caller's again, is never written, and its Sent is not
// called. Else, which includes that it left already, Withdraw reports false and
// Sent is called as ever; on a lossy connection Close makes that soon.
func (c *Conn) Withdraw(m *Message) bool { return c.out.withdraw(m) }

// Close ends the connection. It does not wait: [Dispatcher.Closed] tells when
// no call to the dispatcher is to come.
func (c *Conn) Close() {
	c.out.refuse()
	c.cancel()
}

// Done is closed when the connection is dead: nothing is sent or received any
// more, but the dispatcher may still have received messages to take.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says what ended the connection: nil while it lives and after [Conn.Close].
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// LastFault is what broke a lossless connection last, also while it
// reconnects; nil if nothing did.
func (c *Conn) LastFault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastFault
}

// PeerType is the kind of daemon the connection was opened to.
func (c *Conn) PeerType() denc.EntityType { return c.peerType }

// Peer is the address the connection was opened to.
func (c *Conn) Peer() denc.Addr { return c.target }

// PeerName is the name the peer gave itself; its number is [denc.NoNum] before
// the first handshake.
func (c *Conn) PeerName() denc.Name { return denc.Name{Type: c.peerType, Num: c.peerNum.Load()} }

// Mode is how frames are protected; 0 before the first handshake.
func (c *Conn) Mode() AuthMode { return AuthMode(c.mode.Load()) }

// Features are those both sides have; 0 before the first handshake.
func (c *Conn) Features() uint64 { return c.features.Load() }

// run makes streams until the connection ends, and reads them.
func (c *Conn) run() {
	defer c.m.wg.Done()
	pause := backoff{initial: c.m.opts.BackoffInitial, max: c.m.opts.BackoffMax}
	var err error
	for {
		ready, e := c.attempt()
		if c.ctx.Err() != nil {
			break
		}
		e = c.wrap(e)
		// Before its signature was verified a peer may be anybody: then it may
		// end a connection that never came about, not one that did.
		if c.lossy || permanent(e) && (c.trusted || !c.held) {
			err = e
			break
		}
		c.settle(c.out.rewind(c.fading))
		wait := pause.next(ready)
		if KindOf(e) == KindWait {
			wait = c.m.opts.BackoffMax
		}
		c.mu.Lock()
		c.lastFault = e
		c.mu.Unlock()
		c.log.Log(c.ctx, level(e), "connection broken, reconnecting", "err", e, "after", wait)
		if !c.sleep(wait) {
			break
		}
		if c.sess.serverCookie != 0 {
			c.sess.connectSeq++
		}
	}

	// Teardown: no stream and no writer is left. Refuse, give up what is
	// queued, store the reason, tell.
	c.settle(c.out.close(c.fading))
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	if err != nil {
		c.log.Log(c.ctx, level(err), "connection ended", "err", err)
	}
	close(c.done)
	c.in.push(event{kind: eventClosed, err: err})
}

// dispatch makes all calls to the dispatcher.
func (c *Conn) dispatch() {
	defer c.m.wg.Done()
	defer c.cancel() // ends the context of a connection that broke
	for {
		e := c.in.pop()
		switch e.kind {
		case eventMessage:
			c.disp.Receive(c, e.m)
			c.in.forget(e.size)
		case eventReady:
			c.disp.Ready(c)
		case eventRemoteReset:
			c.out.heard()
			c.disp.RemoteReset(c)
		case eventClosed:
			c.disp.Closed(c, e.err)
			return
		}
	}
}

// attempt makes a stream and reads it until it breaks. ready is how long it
// was ready, or negative.
func (c *Conn) attempt() (ready time.Duration, err error) {
	ready = -1
	c.trusted = true
	o := &c.m.opts
	auth, err := o.Auth.Begin(c.peerType)
	if err != nil {
		return ready, &fault{KindAuth, err}
	}
	ctx, cancel := context.WithTimeout(c.ctx, o.HandshakeTimeout)
	defer cancel()
	until, _ := ctx.Deadline()
	nc, err := o.Dial(ctx, c.target.Host)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ready, &fault{KindTimeout, err}
		}
		return ready, &fault{KindDial, err}
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(c.ctx, func() {
		defer close(closed)
		nc.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
		nc.Close()
	}()
	if err := nc.SetDeadline(until); err != nil {
		return ready, err
	}

	s := &stream{nc: nc}
	c.sess.globalSeq, _ = c.m.nextGlobalSeq(0)
	h := c.handshake(s, auth)
	err = c.shake(s, h)
	c.trusted = h.verified
	if err != nil {
		return ready, err
	}
	c.held = true
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return ready, err
	}
	s.timeout = o.keepaliveTimeout(c.peerType)
	if h.lossy && !c.lossy {
		c.log.Warn("the peer keeps no session: the connection is lossy")
	}
	c.lossy = h.lossy
	c.out.setLossy(h.lossy)
	c.mode.Store(uint32(h.mode))
	if h.features != 0 { // a reconnect keeps those of the session
		c.features.Store(h.features)
		c.peerNum.Store(h.peerNum)
	}
	c.received.Store(c.sess.inSeq)
	c.log.Debug("connected", "mode", h.mode, "session", c.sess.serverCookie != 0)
	c.in.push(event{kind: eventReady})

	// The writer ends when its write fails or the stream is closed; whichever
	// of the two fails first closes the stream, and its reason counts.
	begin := time.Now()
	var once sync.Once
	fail := func(e error) {
		once.Do(func() { err = e })
		nc.Close()
	}
	gone := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if e := c.write(s, h.w, gone); e != nil {
			fail(e)
		}
	}()
	fail(c.read(h.r))
	close(gone)
	<-ended
	return time.Since(begin), err
}

func (c *Conn) handshake(s *stream, auth AuthSession) *handshake {
	o := &c.m.opts
	return &handshake{
		conn: c, peerType: c.peerType, target: c.target, auth: auth,
		r: frame.NewReader(s, frame.Limits{
			Control: maxControl, Front: uint32(o.MaxFront), Middle: uint32(o.MaxMiddle), Data: uint32(o.MaxData),
		}),
		w: frame.NewWriter(), sess: &c.sess, lossy: c.lossy,
		learn:      func(seen denc.Addr) (denc.Addr, error) { return c.m.learn(seen, localIP(s.nc)) },
		nextGlobal: c.m.nextGlobalSeq,
		reset: func(full bool) {
			c.log.Warn("the peer lost the session", "full", full)
			if !full {
				c.out.renew()
				return
			}
			c.settle(c.out.drop(c.fading))
			c.in.push(event{kind: eventRemoteReset})
		},
		acked: func(seq uint64) error {
			done, err := c.out.resume(seq, c.fading)
			c.settle(done)
			return err
		},
	}
}

// shake exchanges banners and leads h to stateReady.
func (c *Conn) shake(s *stream, h *handshake) error {
	h.w.Raw(frame.Banner{Supported: frame.FeatureRevision1, Required: frame.FeatureRevision1}.Append(nil))
	if err := s.flush(h.w); err != nil {
		return err
	}
	b, err := h.r.Banner()
	if err != nil {
		return err
	}
	if err := h.begin(b); err != nil {
		return err
	}
	for h.state != stateReady {
		if err := s.flush(h.w); err != nil {
			return err
		}
		p, err := h.r.Next()
		if err != nil {
			return err
		}
		if err := h.receive(p.Tag, h.r.First()); err != nil {
			return err
		}
	}
	return nil
}

// settle calls Sent of the messages in done, which is c.fading grown.
func (c *Conn) settle(done []*Message) {
	for i, m := range done {
		m.sent()
		done[i] = nil
	}
	c.fading = done[:0]
}

// sleep waits, and reports whether the connection is still wanted.
func (c *Conn) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// wrap makes err an *Error.
func (c *Conn) wrap(err error) error {
	var f *fault
	e := &Error{Kind: kindOf(err), Type: c.peerType, Peer: c.target, Err: err}
	if errors.As(err, &f) && err == error(f) {
		e.Err = f.err
	}
	return e
}

// level of a fault in the log: that daemons come and go is no news.
func level(err error) slog.Level {
	switch KindOf(err) {
	case KindDial, KindIO:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// permanent reports whether another attempt is of no use.
func permanent(err error) bool {
	switch KindOf(err) {
	case KindFeatures, KindLegacy:
		return true
	}
	return errors.Is(err, ErrPermanent)
}

func localIP(nc net.Conn) netip.Addr {
	if a, ok := nc.LocalAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// backoff is the pause before the next attempt: none after a stream that held,
// else doubled each time.
type backoff struct {
	initial, max time.Duration
	last         time.Duration
}

// next takes how long the last stream was ready, negative if it never was.
func (b *backoff) next(ready time.Duration) time.Duration {
	if ready >= max(b.last, b.initial) {
		b.last = 0
		return 0
	}
	b.last = min(max(2*b.last, b.initial), b.max)
	// Up to a quarter less, so that the clients of a restarted daemon do not
	// all come at once.
	return b.last - rand.N(b.last/4+1)
}
