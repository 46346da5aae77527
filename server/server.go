package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"capstan/export"
	"capstan/server/nfs3"
	"capstan/server/nfs4"
	"capstan/server/nfs4/state"
	"capstan/server/rpc"
)

// Server is a running NFS server.
type Server struct {
	// Constant after Start.
	opt         Options
	log         *slog.Logger
	started     time.Time
	keys        *export.KeyRing
	stateLock   *os.File // of the state directory, nil without one
	exports     *export.Exports
	files       *export.OpenFiles
	state       *state.Store
	rpc         *rpc.Server
	metrics     *metrics
	listeners   []net.Listener
	metricsAddr string // "" if metrics are not served

	stop       context.CancelFunc // ends ctx, the life of background work
	ctx        context.Context
	background sync.WaitGroup
	failed     chan error // size 1: why the server cannot go on
	closers    []func(context.Context) error

	reload  sync.Mutex         // held while the exports are exchanged
	volumes map[uint32]*volume // by export id; guarded by reload
	mounts  []Mount            // as configured; guarded by reload
	retry   chan struct{}      // size 1: there are engines to be opened

	mu     sync.Mutex
	served []Mount           // as last put in force; guarded by mu
	broken map[uint32]error  // why an engine is not open; guarded by mu
	lost   map[*volume]error // why; told of and not yet taken out; guarded by mu
}

// volume is an open engine.
type volume struct {
	id  uint32 // of the export
	key string
	v   export.Volume
}

// Start opens the engines, listens and serves. Clients of an export whose engine
// cannot be opened wait while it is tried again in the background, so that one
// of them does not stop the others; if none can be opened at all Start fails.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	s := &Server{
		opt: o, log: o.Logger, started: time.Now(),
		failed: make(chan error, 1), retry: make(chan struct{}, 1),
		volumes: map[uint32]*volume{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			err = errors.Join(err, s.Shutdown(clean))
		}
	}()
	// What another server may have comes before the engines, so that a second
	// one on the same configuration does not disturb the first.
	if err := s.openState(); err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if err := s.openExports(ctx); err != nil {
		return nil, err
	}
	if err := s.buildPrograms(); err != nil {
		return nil, err
	}
	if err := s.serve(ctx); err != nil {
		return nil, err
	}
	s.background.Go(s.runRetry)
	if o.Rpcbind {
		s.register(ctx)
	}
	s.log.Info("serving", "version", o.Version, "addresses", s.addresses(), "exports", len(s.exports.Current().Exports()))
	return s, nil
}

func (s *Server) openExports(ctx context.Context) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.mounts = s.opt.Mounts
	exports, errs := s.openLocked(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(s.volumes) == 0 && len(errs) > 0 {
		return fmt.Errorf("no export can be served: %w", errors.Join(errs...))
	}
	table, err := export.NewTable(ctx, exports, export.WithKeys(s.keys), export.WithIdentity(export.NewIdentity(s.opt.Identity)))
	if err != nil {
		return err
	}
	s.exports = export.NewExports(table)
	s.noteServed(errs)
	return nil
}

func (s *Server) buildPrograms() error {
	o := &s.opt
	s.metrics = newMetrics(o.Version)
	s.files = export.NewOpenFiles(export.OpenFilesOptions{Size: o.OpenFiles, Idle: o.OpenIdle, Logger: s.log})
	var err error
	if s.state, err = state.New(state.Options{Lease: o.Lease, Limits: o.State, Logger: s.log}); err != nil {
		return err
	}
	v4, err := nfs4.New(nfs4.Options{
		Exports: s.exports, OpenFiles: s.files, State: s.state, MaxIO: int(o.MaxIO), ServerOwner: s.owner(),
		Implementation: nfs4.Implementation{Name: "capstan " + o.Version}, Logger: s.log,
	})
	if err != nil {
		return err
	}
	v3 := nfs3.New(s.exports, s.files, nfs3.Options{MaxRead: o.MaxIO, MaxWrite: o.MaxIO, Shares: shares{s.state}, Logger: s.log})
	o.RPC.Logger, o.RPC.Observer = s.log, s.metrics
	s.rpc = rpc.NewServer(o.RPC)
	for _, p := range []rpc.Program{v3.NFS(), v3.Mount(), v4} {
		s.rpc.Register(p)
	}
	s.metrics.watch(s)
	return nil
}

// owner is what NFSv4.1 clients tell servers apart by. Two servers on one host
// are two servers, so the port is part of it.
func (s *Server) owner() string {
	if s.opt.Owner != "" {
		return s.opt.Owner
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
		s.log.Warn("host name", "err", err)
	}
	owner := "capstan:" + host
	if len(s.listeners) > 0 {
		if _, port, err := net.SplitHostPort(s.listeners[0].Addr().String()); err == nil {
			owner += ":" + port
		}
	}
	return owner
}

// listen opens the addresses of NFS.
func (s *Server) listen(ctx context.Context) error {
	var lc net.ListenConfig
	for _, addr := range s.opt.Listen {
		l, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			for _, l := range s.listeners {
				_ = l.Close()
			}
			s.listeners = nil
			return fmt.Errorf("listen on %s: %w", addr, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

// serve lets the world in.
func (s *Server) serve(ctx context.Context) error {
	for _, l := range s.listeners {
		s.background.Go(func() {
			if err := s.rpc.Serve(l); err != nil && !errors.Is(err, rpc.ErrServerClosed) {
				s.fail(fmt.Errorf("accept on %s: %w", l.Addr(), err))
			}
		})
	}
	if s.opt.Metrics != "" {
		if err := s.serveMetrics(ctx); err != nil {
			return err
		}
	}
	if s.opt.Control != "" {
		return s.serveControl(ctx)
	}
	return nil
}

// fail records that the server cannot go on.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Failed delivers an error after which the server should be shut down.
func (s *Server) Failed() <-chan error { return s.failed }

// Addrs returns the addresses that NFS is served on.
func (s *Server) Addrs() []net.Addr {
	out := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		out[i] = l.Addr()
	}
	return out
}

func (s *Server) addresses() string {
	var out []string
	for _, a := range s.Addrs() {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

// Shutdown stops in order: no new connections, running calls finish until ctx
// ends, open files are closed, Volumes are synced and closed. It is called
// once; the error holds whatever could not be done in order.
func (s *Server) Shutdown(ctx context.Context) error {
	var errs []error
	s.stop()
	if s.rpc != nil {
		if err := s.rpc.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("running calls: %w", err))
		}
	}
	for _, c := range s.closers {
		errs = append(errs, c(ctx))
	}
	s.background.Wait()
	// What holds data is closed in any case, even if ctx is over by now.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if s.state != nil {
		if err := s.state.Close(last); err != nil {
			errs = append(errs, fmt.Errorf("open files: %w", err))
		}
	}
	if s.files != nil {
		s.files.Close()
	}
	s.reload.Lock()
	defer s.reload.Unlock()
	for id, v := range s.volumes {
		if err := v.v.Close(last); err != nil {
			errs = append(errs, fmt.Errorf("export %d: %w", id, err))
		}
		delete(s.volumes, id)
	}
	for _, l := range s.listeners {
		_ = l.Close() // that was never served
	}
	if s.stateLock != nil {
		errs = append(errs, s.stateLock.Close())
		s.stateLock = nil
	}
	return errors.Join(errs...)
}

// closeTime is how long files and Volumes may take to be closed.
const closeTime = 30 * time.Second
