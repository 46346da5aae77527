package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"capstan/server/nfs4/state"
	"capstan/server/rpc"
)

// Status is a picture of a running server, as `capstan status` shows it.
type Status struct {
	Version   string         `json:"version"`
	Started   time.Time      `json:"started"`
	Addresses []string       `json:"addresses"`
	Exports   []ExportStatus `json:"exports"`
	RPC       rpc.Stats      `json:"rpc"`
	NFS4      state.Snapshot `json:"nfs4"`
	OpenFiles int            `json:"open_files"` // kept open for stateless calls
}

// ExportStatus is one export.
type ExportStatus struct {
	Path     string `json:"path"`
	ID       uint32 `json:"id"`
	Engine   string `json:"engine"`
	ReadOnly bool   `json:"read_only"`
	Versions string `json:"versions"`
	Error    string `json:"error,omitempty"` // why it cannot be served
}

// Status returns a picture of the server.
func (s *Server) Status() Status {
	st := Status{
		Version: s.opt.Version, Started: s.started, RPC: s.rpc.Stats(), NFS4: s.state.Snapshot(false), OpenFiles: s.files.Len(),
	}
	for _, a := range s.Addrs() {
		st.Addresses = append(st.Addresses, a.String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.served {
		e := m.Export
		x := ExportStatus{Path: e.Path, ID: e.ID, Engine: m.Engine.Name, ReadOnly: e.ReadOnly, Versions: e.Versions.String()}
		if err := s.broken[e.ID]; err != nil {
			x.Error = err.Error()
		}
		st.Exports = append(st.Exports, x)
	}
	return st
}

// Healthy returns why the server should not be considered alive: it is the
// answer of /healthz, and systemd's watchdog hangs on it. An export that cannot
// be served is no reason, since a restart would not mend it.
func (s *Server) Healthy() error {
	select {
	case err := <-s.failed:
		s.fail(err) // still to be delivered
		return err
	default:
	}
	return s.ctx.Err()
}

// httpTime bounds the requests of the HTTP servers.
const httpTime = 10 * time.Second

// serveMetrics serves /metrics and /healthz.
func (s *Server) serveMetrics(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.opt.Metrics)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	s.metricsAddr = l.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	s.serveHTTP(l, mux)
	return nil
}

// serveControl serves the status on a unix socket that only its owner may use.
func (s *Server) serveControl(ctx context.Context) error {
	path := s.opt.Control
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	// What an earlier process left is taken away; a socket that answers is not.
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return fmt.Errorf("control socket %s: another server answers there", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("control socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return fmt.Errorf("control socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(s.Status()); err != nil {
			s.log.Debug("status", "err", err)
		}
	})
	s.serveHTTP(l, mux)
	return nil
}

// serveHTTP serves h on l until Shutdown.
func (s *Server) serveHTTP(l net.Listener, h http.Handler) {
	srv := &http.Server{Handler: h, ReadTimeout: httpTime, WriteTimeout: httpTime, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	s.closers = append(s.closers, func(ctx context.Context) error {
		if err := srv.Shutdown(ctx); err != nil {
			return srv.Close()
		}
		return nil
	})
	s.background.Go(func() {
		if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("HTTP server ended", "address", l.Addr().String(), "err", err)
		}
	})
}

// ReadStatus asks the server behind a control socket.
func ReadStatus(ctx context.Context, socket string) (*Status, error) {
	var d net.Dialer
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://capstan/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no server answers on %s: %w", socket, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status of %s: %s", socket, resp.Status)
	}
	var st Status
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		return nil, fmt.Errorf("status of %s: %w", socket, err)
	}
	return &st, nil
}
