package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Server serves RPC programs on any number of listeners.
type Server struct {
	opt  Options
	log  *slog.Logger
	ctx  context.Context // ends when the server stops without waiting
	stop context.CancelCauseFunc

	programs atomic.Pointer[registry] // replaced under mu
	workers  pool
	rescuer  rescuer
	calls    budget // calls in flight
	records  budget // bytes of records in use
	replies  budget // bytes of replies not sent
	start    time.Time
	clock    atomic.Int64 // nanoseconds since start, 1 or more; kept by the watchdog
	refused  throttle

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*Conn]struct{}
	hosts     map[netip.Addr]int
	nextID    uint64
	closing   bool
	watching  chan struct{} // closed when the watchdog ended; nil if none was started
	empty     chan struct{} // closed when closing and no connection is left

	accepting sync.WaitGroup // running Serve and ServeConn
}

// NewServer returns a server without programs. [Server.Shutdown] ends it.
func NewServer(opt Options) *Server {
	s := &Server{
		opt:       opt.withDefaults(),
		start:     time.Now(),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*Conn]struct{}),
		hosts:     make(map[netip.Addr]int),
		empty:     make(chan struct{}),
	}
	s.log = s.opt.Logger
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.programs.Store(&registry{})
	s.calls.limit = int64(s.opt.MaxInFlight)
	s.records.limit = s.opt.MaxInFlightBytes
	s.replies.limit = s.opt.MaxReplyBytes
	s.workers = pool{run: s.work, keep: idleWorkers}
	s.rescuer = rescuer{workers: &s.workers, stop: make(chan struct{})}
	s.clock.Store(1)
	return s
}

// idleWorkers is how many workers without work are kept.
const idleWorkers = 256

// Register adds a program; it may be called while the server runs. It panics if
// the versions overlap those of another program of that number.
func (s *Server) Register(p Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.registry().with(p)
	s.programs.Store(&next)
}

func (s *Server) registry() registry { return *s.programs.Load() }

// work is what a worker does with the reading role of c.
func (s *Server) work(c *Conn) {
	if c.rescued {
		c.rescued, c.unsent = false, 0
		c.send.kick()
	}
	for c.step() {
	}
}

// Serve accepts connections on l until the server is shut down, or l fails, and
// closes l. It returns [ErrServerClosed] after a shutdown.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		l.Close()
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	s.accepting.Add(1)
	s.mu.Unlock()
	defer s.accepting.Done()
	defer func() {
		l.Close()
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()

	var delay time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			delay = 0
			s.ServeConn(nc)
			continue
		}
		s.mu.Lock()
		closing := s.closing
		s.mu.Unlock()
		if closing {
			return ErrServerClosed
		}
		if !passing(err) {
			return fmt.Errorf("rpc: accept on %v: %w", l.Addr(), err)
		}
		// Out of descriptors or memory: what there is must do for a while.
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		s.log.Warn("rpc: accept failed, trying again", "listener", l.Addr(), "err", err, "after", delay)
		select {
		case <-time.After(delay):
		case <-s.ctx.Done():
		}
	}
}

// passing reports whether accepting may work again after err.
func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ServeConn serves one connection that was made elsewhere, and takes it over. It
// returns at once; the result is nil if the connection was not let in, and
// closed therefore.
func (s *Server) ServeConn(nc net.Conn) *Conn {
	c, victim, err := s.admit(nc)
	if victim != nil {
		victim.Close(ErrMadeRoom)
	}
	if err != nil {
		remote := addrOf(nc.RemoteAddr())
		defer nc.Close()
		if !errors.Is(err, ErrServerClosed) {
			if o := s.opt.Observer; o != nil {
				o.ConnRefused(remote, err)
			}
			if n, ok := s.refused.allow(s.now()); ok {
				s.log.Warn("rpc: connection refused", "remote", remote, "err", err, "since_last", n)
			}
		}
		return nil
	}
	defer s.accepting.Done()
	if o := s.opt.Observer; o != nil {
		o.ConnOpened(c)
	}
	s.log.Debug("rpc: connection opened", "conn", c.id, "remote", c.remote, "local", c.local)
	c.mu.Lock()
	start := !c.closed && !c.draining
	c.reading = start
	c.mu.Unlock()
	if start {
		s.workers.submit(c)
	}
	return c
}

// admit makes a connection of nc if the limits allow it. victim is one to close
// in its favour.
func (s *Server) admit(nc net.Conn) (c, victim *Conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, nil, ErrServerClosed
	}
	host := addrOf(nc.RemoteAddr()).Addr()
	if host.IsValid() && s.hosts[host] >= s.opt.MaxConnsPerHost {
		return nil, nil, ErrTooManyFromHost
	}
	if len(s.conns) >= s.opt.MaxConns {
		if victim = s.longestIdleLocked(); victim == nil {
			return nil, nil, ErrTooManyConns
		}
	}
	if s.watching == nil {
		s.watching = make(chan struct{})
		s.clock.Store(s.elapsed())
		go s.watch()
	}
	s.nextID++
	c = newConn(s, nc, s.nextID)
	s.conns[c] = struct{}{}
	s.accepting.Add(1) // until ServeConn has started it
	if host.IsValid() {
		s.hosts[host]++
	}
	return c, victim, nil
}

// longestIdleLocked returns the connection that has been idle longest and for a
// tenth of IdleTimeout at least, or nil.
func (s *Server) longestIdleLocked() *Conn {
	var victim *Conn
	oldest := s.now() - int64(s.opt.IdleTimeout/10)
	for c := range s.conns {
		if t := c.idleSince.Load(); t != 0 && t <= oldest {
			victim, oldest = c, t
		}
	}
	return victim
}

// forget takes a closed connection off the books.
func (s *Server) forget(c *Conn, reason error) {
	s.mu.Lock()
	delete(s.conns, c)
	if host := c.remote.Addr(); host.IsValid() {
		if s.hosts[host]--; s.hosts[host] == 0 {
			delete(s.hosts, host)
		}
	}
	if s.closing && len(s.conns) == 0 {
		s.closeEmptyLocked()
	}
	s.mu.Unlock()
	if plainEnd(reason) {
		s.log.Debug("rpc: connection closed", "conn", c.id, "remote", c.remote, "reason", reason)
	} else {
		s.log.Info("rpc: connection closed", "conn", c.id, "remote", c.remote, "reason", reason)
	}
	if o := s.opt.Observer; o != nil {
		o.ConnClosed(c, reason)
	}
}

func (s *Server) closeEmptyLocked() {
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// Shutdown stops accepting and reading, waits until the calls that run are
// answered or ctx ends, closes all connections and waits for the goroutines. It
// returns the error of ctx if calls were cut. Programs must heed their context:
// one that does not end holds Shutdown up.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	listeners, conns := s.snapshotLocked()
	if len(conns) == 0 {
		s.closeEmptyLocked()
	}
	watching := s.watching
	s.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	for _, c := range conns {
		c.drain()
	}
	var err error
	select {
	case <-s.empty:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.stop(ErrServerClosed)
	s.mu.Lock()
	_, conns = s.snapshotLocked()
	s.mu.Unlock()
	for _, c := range conns {
		c.Close(ErrServerClosed)
	}
	s.accepting.Wait()
	s.rescuer.close()
	s.workers.close()
	if watching != nil {
		<-watching
	}
	return err
}

func (s *Server) snapshotLocked() (listeners []net.Listener, conns []*Conn) {
	for l := range s.listeners {
		listeners = append(listeners, l)
	}
	for c := range s.conns {
		conns = append(conns, c)
	}
	return listeners, conns
}

// Stats are the present values of what [Options] bounds.
type Stats struct {
	Conns       int   `json:"connections"`
	Calls       int64 `json:"calls"` // in flight
	RecordBytes int64 `json:"record_bytes"`
	ReplyBytes  int64 `json:"reply_bytes"`
}

// Stats returns the present values.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	return Stats{n, s.calls.used.Load(), s.records.used.Load(), s.replies.used.Load()}
}

// logPanic reports a panic of a program, v, from the deferred function that
// recovered it.
func (s *Server) logPanic(c *Call, v any) {
	s.log.Error("rpc: panic in a call", "program", c.Program, "version", c.Version, "procedure", c.Procedure,
		"xid", c.XID, "conn", c.Conn.id, "remote", c.Conn.remote, "panic", v, "stack", string(debug.Stack()))
}
