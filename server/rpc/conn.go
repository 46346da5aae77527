package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Why a connection ended ([Observer.ConnClosed], context.Cause of a call).
var (
	ErrServerClosed     = errors.New("rpc: server closed")
	ErrIdle             = errors.New("rpc: connection idle for too long")
	ErrRecordTimeout    = errors.New("rpc: record not complete in time")
	ErrWriteTimeout     = errors.New("rpc: replies not taken in time")
	ErrMadeRoom         = errors.New("rpc: idle connection closed to make room")
	ErrBadMessage       = errors.New("rpc: record is no RPC message")
	ErrTooManyConns     = errors.New("rpc: too many connections")
	ErrTooManyFromHost  = errors.New("rpc: too many connections from one host")
	errDrained          = errors.New("rpc: connection drained") // private form of ErrServerClosed
	errConnectionClosed = errors.New("rpc: connection closed")
)

// Conn is a connection to the server.
type Conn struct {
	id      uint64
	srv     *Server
	nc      net.Conn
	remote  netip.AddrPort
	local   netip.AddrPort
	ctx     context.Context // of the calls
	cancel  context.CancelCauseFunc
	send    sendQueue
	replies budget // bytes of payloads, see Options.MaxReplyBytesPerConn

	// Owned by the holder of the reading role.
	reader   recordReader
	reserved bool // the record being read counts in Server.calls
	unsent   int  // replies of a burst that are held back in the queue, see inline.go
	rescued  bool // the role comes from the rescuer

	machine atomic.Pointer[string] // the last machine name, so that it is made once

	// For the watchdog: when it began, in nanoseconds of Server.now, 0 if it is
	// not so.
	arrivingSince atomic.Int64 // a record is here in part
	idleSince     atomic.Int64 // no call is in flight
	greeted       atomic.Bool  // a record was complete once
	held          atomic.Bool  // the next record waits for a budget of the server

	mu       sync.Mutex
	calls    int  // in flight: read, and their replies not yet sent or dropped
	reading  bool // somebody holds the reading role, or it is on its way
	draining bool // no further record is read
	closed   bool
	alone    int  // calls in a row that were in flight alone; negative: see inlinePause
	burst    int  // calls that another followed at once; negative: see inlinePause
	watched  bool // the rescuer knows the connection
	attached map[any]any
	onClose  []func()

	// Odd while a call runs inline, see rescuer. Changed under mu.
	inlineSeq atomic.Uint64
}

func newConn(s *Server, nc net.Conn, id uint64) *Conn {
	c := &Conn{id: id, srv: s, nc: nc, remote: addrOf(nc.RemoteAddr()), local: addrOf(nc.LocalAddr())}
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	c.send.init(nc, s.now, c.Close)
	c.replies.limit = s.opt.MaxReplyBytesPerConn
	c.reader = recordReader{src: nc, limit: s.opt.MaxRecord, reserve: c.reserve, arriving: c.arriving}
	c.idleSince.Store(s.now())
	return c
}

// addrOf returns the address and port of a, IPv4 as such, or the zero value.
func addrOf(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

// ID is the number of the connection, never 0 and not used again in the life of
// the server.
func (c *Conn) ID() uint64 { return c.id }

// Remote is the address of the peer; an IPv4 address is never mapped to IPv6.
// It is not valid for connections other than TCP.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Local is the address the peer connected to, like [Conn.Remote].
func (c *Conn) Local() netip.AddrPort { return c.local }

// Done is closed when the connection is gone.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err is why the connection ended, nil while it has not.
func (c *Conn) Err() error { return context.Cause(c.ctx) }

// Attach stores a value under key for the life of the connection, in place of
// the one stored there before; nil removes it.
func (c *Conn) Attach(key, v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v == nil {
		delete(c.attached, key)
		return
	}
	if c.attached == nil {
		c.attached = make(map[any]any)
	}
	c.attached[key] = v
}

// Attached returns what was attached under key, or nil.
func (c *Conn) Attached(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached[key]
}

// OnClose has f called once when the connection is gone, at once if it is gone
// already. Calls of the connection may still be running then. f must not block.
func (c *Conn) OnClose(f func()) {
	c.mu.Lock()
	if !c.closed {
		c.onClose = append(c.onClose, f)
		f = nil
	}
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

// Close ends the connection. The first reason is the one that counts. Running
// calls see their context end; their replies are dropped.
func (c *Conn) Close(reason error) {
	if reason == nil {
		reason = errConnectionClosed
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	onClose := c.onClose
	c.onClose = nil
	c.mu.Unlock()

	if errors.Is(reason, errDrained) {
		reason = ErrServerClosed
	}
	c.cancel(reason)
	c.nc.Close()
	c.send.fail(reason)
	c.srv.forget(c, reason)
	for _, f := range onClose {
		f()
	}
}

// step reads one record and runs the call in it. It reports whether the caller
// still holds the reading role afterwards. Precondition: the caller holds it.
func (c *Conn) step() bool {
	call := c.read()
	if call == nil {
		return false
	}
	kind := call.decode(call.record.Bytes(), c.intern)
	switch kind {
	case shapeBroken:
		call.record.Release()
		call.recycle()
		c.srv.calls.release(1)
		c.sendHeld()
		c.Close(ErrBadMessage)
		return false
	case shapeReply:
		// The place of a backchannel: replies to calls of the server's own would
		// be handed to their callers here.
		c.srv.log.Debug("rpc: reply without a call", "conn", c.id, "remote", c.remote, "xid", call.XID)
		c.sendHeld()
		call.record.Release()
		call.recycle()
		c.srv.calls.release(1)
		return true
	}
	switch inline, how := c.began(); how {
	case runAlone:
		return c.runInline(call, kind, inline)
	case runHold, runLast:
		return c.runBurst(call, kind, inline, how == runLast)
	}
	c.runCall(call, kind, false)
	return false
}

// read returns the next record as a Call, nil if there is none: then the
// reading role has ended.
func (c *Conn) read() *Call {
	record, err := c.reader.next()
	reserved := c.reserved
	c.reserved = false
	if err != nil {
		if reserved {
			c.srv.calls.release(1)
		}
		c.sendHeld()
		c.readFailed(err)
		return nil
	}
	if !c.greeted.Load() {
		c.greeted.Store(true)
	}
	call := callPool.Get().(*Call)
	call.Conn, call.record = c, record
	if c.srv.opt.Observer != nil {
		call.start = time.Now()
	}
	return call
}

// readFailed ends the reading role after err.
func (c *Conn) readFailed(err error) {
	c.mu.Lock()
	c.reading = false
	drain := c.draining && !c.closed
	last := drain && c.calls == 0
	c.mu.Unlock()
	switch {
	case last:
		c.Close(errDrained)
	case drain && errors.Is(err, os.ErrDeadlineExceeded):
		// The calls that run are still answered; the last of them closes.
	default:
		c.Close(err)
	}
}

// began counts a call that was read, and passes the reading role on. If the call
// is to be run inline instead, how says so and inline is its number.
func (c *Conn) began() (inline uint64, how runMode) {
	more := c.reader.whole()
	c.mu.Lock()
	c.calls++
	alone := c.calls == 1 && !c.reader.ahead()
	if c.calls == 1 {
		c.idleSince.Store(0)
	}
	if alone {
		c.alone++
		c.burst = min(c.burst, 0)
	} else {
		c.alone = min(c.alone, 0)
		c.send.company.Store(true)
		if more {
			c.burst++
		}
	}
	next := c.calls < c.srv.opt.MaxInFlightPerConn && !c.draining
	c.reading = next
	switch {
	case !next:
	case c.alone > inlineAfter:
		how = runAlone
	case c.burst > inlineAfter && c.calls == 1+c.unsent && (more || c.unsent > 0):
		// No call runs elsewhere: those in flight wait to be sent.
		if how = runHold; !more || c.unsent+1 >= burstMax {
			how = runLast
		}
	}
	flush := false
	if how != runPass {
		inline = c.inlineSeq.Add(1)
		if !c.watched {
			c.watched = true
			c.srv.rescuer.add(c)
		}
	} else {
		flush = c.unsent > 0
		c.unsent = 0
	}
	c.mu.Unlock()
	if how == runPass && next {
		c.srv.workers.submit(c)
	}
	if flush {
		c.send.kick()
	}
	return inline, how
}

// sendHeld sends the replies of a burst. Precondition: the caller holds the
// reading role, or held it last.
func (c *Conn) sendHeld() {
	if c.unsent > 0 {
		c.unsent = 0
		c.send.kick()
	}
}

// runCall runs the call and queues its reply, which is not sent yet if it is to
// be held. It returns how long the program took, if there is an Observer or the
// reply is held.
func (c *Conn) runCall(call *Call, kind shape, hold bool) (took time.Duration) {
	var began time.Time
	if hold || c.srv.opt.Observer != nil {
		began = time.Now()
	}
	returned := false
	// Deferred, because a program may end its goroutine; nobody would send a reply
	// that is held then.
	defer func() {
		if !began.IsZero() {
			took = time.Since(began)
		}
		c.queue(call, took, hold && returned)
	}()
	call.serve(c.ctx, kind)
	returned = true
	return took
}

// queue sends the reply of a call that has run, or holds it.
func (c *Conn) queue(call *Call, took time.Duration, hold bool) {
	call.record.Release()
	call.record = nil
	call.info.Run = took
	// What the program encoded without asking for it is charged now.
	if n := int64(call.reply.Len()) - call.paid; n > 0 {
		call.forced = n
		c.srv.replies.force(n)
		c.replies.force(n)
	}
	if hold && call.reply.Len() < yieldBelow {
		c.send.add(call)
	} else {
		c.send.push(call)
	}
}

// callDone ends a call whose reply was sent, or dropped if err is not nil.
func (c *Conn) callDone(call *Call, err error) {
	s := c.srv
	if call.forced > 0 {
		c.release(call.forced)
	}
	if o := s.opt.Observer; o != nil {
		info := call.info
		info.Program, info.Version, info.Procedure = call.Program, call.Version, call.Procedure
		info.In, info.Total, info.Sent = call.Size, time.Since(call.start), err == nil
		o.CallDone(info)
	}
	call.recycle()
	s.calls.release(1)

	c.mu.Lock()
	c.calls--
	if c.calls == 0 {
		c.send.company.Store(false)
		c.idleSince.Store(s.now())
	}
	resume := !c.reading && !c.draining && !c.closed
	if resume {
		c.reading = true
	}
	drained := c.draining && !c.reading && c.calls == 0
	c.mu.Unlock()
	if resume {
		s.workers.submit(c)
	}
	if drained {
		c.Close(errDrained)
	}
}

// drain has no further record read. When the calls in flight are answered the
// connection closes.
func (c *Conn) drain() {
	c.mu.Lock()
	if c.draining || c.closed {
		c.mu.Unlock()
		return
	}
	c.draining = true
	drained := !c.reading && c.calls == 0
	c.mu.Unlock()
	// Wakes the holder of the reading role.
	c.nc.SetReadDeadline(time.Unix(1, 0))
	if drained {
		c.Close(errDrained)
	}
}

// reserve waits until a record of n bytes and its call fit in the budgets of
// the server.
func (c *Conn) reserve(n int) (charger, error) {
	s := c.srv
	stop := c.ctx.Done()
	if !c.replies.free() || !s.replies.free() {
		if !c.hold(func() bool { return c.replies.wait(stop) && s.replies.wait(stop) }) {
			return nil, c.Err()
		}
	}
	if !s.calls.tryAcquire(1) {
		if !c.hold(func() bool { return s.calls.acquire(1, stop) }) {
			return nil, c.Err()
		}
	}
	c.reserved = true
	if !s.records.tryAcquire(int64(n)) {
		if !c.hold(func() bool { return s.records.acquire(int64(n), stop) }) {
			return nil, c.Err()
		}
	}
	return &s.records, nil
}

// hold waits for a budget. The time is the server's, not the peer's.
func (c *Conn) hold(wait func() bool) bool {
	c.sendHeld() // the wait may be for what they take up
	c.held.Store(true)
	ok := wait()
	c.arriving(true)
	c.held.Store(false)
	return ok
}

func (c *Conn) arriving(now bool) {
	var t int64
	if now {
		t = c.srv.now()
	}
	c.arrivingSince.Store(t)
}

// chargeReply takes n bytes of the budgets for replies, waiting for them if it
// may.
func (c *Conn) chargeReply(n int64, wait bool) error {
	s := c.srv
	if !wait {
		c.replies.force(n)
		s.replies.force(n)
		return nil
	}
	if !c.replies.acquire(n, c.ctx.Done()) {
		return c.Err()
	}
	if !s.replies.acquire(n, c.ctx.Done()) {
		c.replies.release(n)
		return c.Err()
	}
	return nil
}

// release gives back n bytes of the budgets for replies. It makes Conn the
// charger of payloads.
func (c *Conn) release(n int64) {
	c.replies.release(n)
	c.srv.replies.release(n)
}

// intern returns b as a string, without making one for the name that the peer
// sent last.
func (c *Conn) intern(b []byte) string {
	if p := c.machine.Load(); p != nil && *p == string(b) {
		return *p
	}
	s := string(b)
	c.machine.Store(&s)
	return s
}

// plainEnd reports whether err is an ordinary end of a connection.
func plainEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, ErrServerClosed) || errors.Is(err, ErrIdle) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) // how libnfs hangs up
}
