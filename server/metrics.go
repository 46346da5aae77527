package server

import (
	"errors"
	"net/netip"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"capstan/server/rpc"
)

// metrics counts what the RPC layer does. It is an [rpc.Observer]; its methods
// run on the workers, so that every counter a call needs is looked up once, at
// start.
type metrics struct {
	registry *prometheus.Registry
	calls    map[callKey]*callMetrics // constant
	other    *callMetrics             // calls of nothing we serve

	connections prometheus.Gauge
	accepted    prometheus.Counter
	refused     *prometheus.CounterVec
	bytesIn     prometheus.Counter
	bytesOut    prometheus.Counter
	dropped     prometheus.Counter
}

// callKey is a procedure.
type callKey struct{ program, version, procedure uint32 }

type callMetrics struct {
	ok, failed, denied prometheus.Counter
	seconds            prometheus.Observer
}

// procedures lists what is served, by program and version, with the names the
// metrics use.
var procedures = []struct {
	program, version uint32
	label            string
	names            []string
}{
	{100003, 3, "nfs3", []string{"null", "getattr", "setattr", "lookup", "access", "readlink", "read", "write", "create", "mkdir", "symlink",
		"mknod", "remove", "rmdir", "rename", "link", "readdir", "readdirplus", "fsstat", "fsinfo", "pathconf", "commit"}},
	{100003, 4, "nfs4", []string{"null", "compound"}},
	{100005, 3, "mount3", []string{"null", "mnt", "dump", "umnt", "umntall", "export"}},
}

func newMetrics(version string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), calls: map[callKey]*callMetrics{}}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_rpc_calls_total", Help: "Calls by procedure and how the RPC layer answered them.",
	}, []string{"program", "procedure", "result"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "capstan_rpc_call_seconds", Help: "Time from a call's last byte to its reply's.",
		Buckets: prometheus.ExponentialBuckets(16e-6, 4, 11), // 16 us to 17 s
	}, []string{"program", "procedure"})
	add := func(label, name string) *callMetrics {
		return &callMetrics{
			ok:      calls.WithLabelValues(label, name, "ok"),
			failed:  calls.WithLabelValues(label, name, "failed"),
			denied:  calls.WithLabelValues(label, name, "denied"),
			seconds: seconds.WithLabelValues(label, name),
		}
	}
	for _, p := range procedures {
		for i, name := range p.names {
			m.calls[callKey{p.program, p.version, uint32(i)}] = add(p.label, name)
		}
	}
	m.other = add("other", "other")

	m.connections = prometheus.NewGauge(prometheus.GaugeOpts{Name: "capstan_connections", Help: "Open connections."})
	m.accepted = prometheus.NewCounter(prometheus.CounterOpts{Name: "capstan_connections_total", Help: "Connections accepted."})
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_connections_refused_total", Help: "Connections closed because of a limit.",
	}, []string{"limit"})
	m.bytesIn = prometheus.NewCounter(prometheus.CounterOpts{Name: "capstan_rpc_received_bytes_total", Help: "Bytes of calls."})
	m.bytesOut = prometheus.NewCounter(prometheus.CounterOpts{Name: "capstan_rpc_sent_bytes_total", Help: "Bytes of replies."})
	m.dropped = prometheus.NewCounter(prometheus.CounterOpts{Name: "capstan_rpc_replies_dropped_total", Help: "Replies that could not be sent."})
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "capstan_build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	m.registry.MustRegister(calls, seconds, m.connections, m.accepted, m.refused, m.bytesIn, m.bytesOut, m.dropped, info,
		goCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// goCollector reports on the Go runtime: what is usual, and where CPU time went,
// garbage collection included (the runtime brings that up to date with each
// collection).
func goCollector() prometheus.Collector {
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
		collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/cpu/classes/`)}))
}

// ConnOpened is part of [rpc.Observer].
func (m *metrics) ConnOpened(*rpc.Conn) {
	m.connections.Inc()
	m.accepted.Inc()
}

// ConnClosed is part of [rpc.Observer].
func (m *metrics) ConnClosed(*rpc.Conn, error) { m.connections.Dec() }

// ConnRefused is part of [rpc.Observer].
func (m *metrics) ConnRefused(_ netip.AddrPort, reason error) {
	limit := "connections"
	if errors.Is(reason, rpc.ErrTooManyFromHost) {
		limit = "connections_per_host"
	}
	m.refused.WithLabelValues(limit).Inc()
}

// CallDone is part of [rpc.Observer].
func (m *metrics) CallDone(i rpc.CallInfo) {
	c := m.calls[callKey{i.Program, i.Version, i.Procedure}]
	if c == nil {
		c = m.other
	}
	switch {
	case i.Denied:
		c.denied.Inc()
	case i.Stat != rpc.Success:
		c.failed.Inc()
	default:
		c.ok.Inc()
	}
	c.seconds.Observe(i.Total.Seconds())
	m.bytesIn.Add(float64(i.In))
	m.bytesOut.Add(float64(i.Out))
	if !i.Sent {
		m.dropped.Inc()
	}
}

// watch adds what is read off the server when somebody asks.
func (m *metrics) watch(s *Server) {
	gauge := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("capstan_nfs4_clients", "Confirmed NFSv4 clients.", func() float64 { return float64(s.state.Counts().Clients) })
	gauge("capstan_nfs4_clients_courtesy", "NFSv4 clients whose lease has run out and whose state is kept.", func() float64 { return float64(s.state.Counts().Courtesy) })
	gauge("capstan_nfs4_sessions", "NFSv4 sessions.", func() float64 { return float64(s.state.Counts().Sessions) })
	gauge("capstan_nfs4_opens", "Files open by NFSv4 clients.", func() float64 { return float64(s.state.Counts().Opens) })
	gauge("capstan_nfs4_locks", "Lock stateids of NFSv4 clients.", func() float64 { return float64(s.state.Counts().Locks) })
	gauge("capstan_open_files", "Files kept open for stateless calls.", func() float64 { return float64(s.files.Len()) })
	gauge("capstan_rpc_calls_running", "Calls being served.", func() float64 { return float64(s.rpc.Stats().Calls) })
	gauge("capstan_exports", "Exports.", func() float64 { return float64(len(s.exports.Current().Exports())) })
	gauge("capstan_exports_broken", "Exports whose engine is not open.", func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.broken))
	})
}
