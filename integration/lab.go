package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// LabOptions describe what a Lab starts when it is asked for it.
type LabOptions struct {
	Cluster ClusterOptions // Net is filled in
	Guest   GuestOptions
	Ganesha GaneshaOptions
}

// Lab is a namespace with a cluster, guests and a reference server that many tests share. Each part starts when the
// first test asks for it and stays until Close. A test that kills or cuts something shared puts it right again, or
// makes its own with the Start functions.
type Lab struct {
	opts LabOptions

	mu      sync.Mutex // held while something starts; guards all below
	closers []io.Closer
	net     *Net
	cluster *Cluster
	ganesha *Ganesha
	guests  map[int]*Guest
	failed  map[string]error // what did not start is not tried again

	references map[string]string // workload and parameters -> report
}

// NewLab makes a lab in which nothing runs yet.
func NewLab(opts LabOptions) *Lab {
	return &Lab{opts: opts, guests: make(map[int]*Guest), failed: make(map[string]error), references: make(map[string]string)}
}

// Net returns the lab's namespace.
func (l *Lab) Net(tb testing.TB) *Net {
	tb.Helper()
	Require(tb, NeedRoot)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.netLocked(tb)
}

func (l *Lab) netLocked(tb testing.TB) *Net {
	tb.Helper()
	if l.net == nil {
		l.start(tb, "namespace", func(ctx context.Context) (c io.Closer, err error) {
			l.net, err = NewNet(ctx)
			return l.net, err
		})
	}
	return l.net
}

// Cluster returns the lab's cluster and records it as a peer of the test. Its logs are printed if the test fails.
func (l *Lab) Cluster(tb testing.TB) *Cluster {
	tb.Helper()
	Require(tb, NeedRoot, NeedCeph)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clusterLocked(tb)
	v, err := c.Version(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	Peer(tb, "ceph-"+v)
	tb.Cleanup(func() {
		if err := c.Err(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func (l *Lab) clusterLocked(tb testing.TB) *Cluster {
	tb.Helper()
	if l.cluster == nil {
		n := l.netLocked(tb)
		l.start(tb, "cluster", func(ctx context.Context) (io.Closer, error) {
			dir, err := Scratch("ceph")
			if err != nil {
				return nil, err
			}
			o := l.opts.Cluster
			o.Net = n
			l.cluster, err = StartCluster(ctx, dir, o)
			return l.cluster, err
		})
	}
	return l.cluster
}

// Guest returns guest number i of the lab and records it as a peer of the test. A guest that an earlier test
// switched off is started again. Its console is printed if the test fails.
func (l *Lab) Guest(tb testing.TB, i int) *Guest {
	tb.Helper()
	Require(tb, NeedRoot, NeedGuest)
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.guests[i]
	if g == nil {
		n := l.netLocked(tb)
		l.start(tb, fmt.Sprintf("guest %d", i), func(ctx context.Context) (io.Closer, error) {
			dir, err := Scratch("guest")
			if err != nil {
				return nil, err
			}
			g, err = StartGuest(ctx, n, i, dir, l.opts.Guest)
			l.guests[i] = g
			return g, err
		})
	} else if !g.On() {
		if err := g.PowerOn(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	Peer(tb, "linux-"+g.Kernel)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("console of %s:\n%s", g.Name(), g.Console(25))
		}
	})
	return g
}

// Ganesha returns the lab's reference server and records it as a peer of the test.
func (l *Lab) Ganesha(tb testing.TB) *Ganesha {
	tb.Helper()
	Require(tb, NeedRoot, NeedCeph, NeedGanesha)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ganesha == nil {
		c := l.clusterLocked(tb)
		l.start(tb, "ganesha", func(ctx context.Context) (io.Closer, error) {
			dir, err := Scratch("ganesha")
			if err != nil {
				return nil, err
			}
			l.ganesha, err = StartGanesha(ctx, c, dir, l.opts.Ganesha)
			return l.ganesha, err
		})
	}
	Peer(tb, "nfs-ganesha")
	return l.ganesha
}

// start runs one start with a time-out of its own, since what it starts outlives the test, and remembers a failure.
func (l *Lab) start(tb testing.TB, what string, f func(context.Context) (io.Closer, error)) {
	tb.Helper()
	if err := l.failed[what]; err != nil {
		tb.Fatalf("the lab's %s did not start: %s", what, firstLine(err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	c, err := f(ctx)
	if err != nil {
		l.failed[what] = err
		tb.Fatal(err)
	}
	l.closers = append(l.closers, c)
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// Close ends everything that was started, the latest first. It returns an error if something had died unnoticed.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i].Close())
	}
	l.closers, l.net, l.cluster, l.ganesha = nil, nil, nil, nil
	l.guests, l.failed = make(map[int]*Guest), make(map[string]error)
	return errors.Join(errs...)
}

// Main runs a package's tests, closes its labs and removes what this process left. Call it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(integration.Main(m, lab)) }
func Main(m *testing.M, labs ...*Lab) int {
	code := m.Run()
	for _, l := range labs {
		if err := l.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "integration:", err)
			code = max(code, 1)
		}
	}
	if err := CleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = max(code, 1)
	}
	return code
}

// MountNFS mounts a server in a guest for the length of a test and returns the directory.
func MountNFS(tb testing.TB, g *Guest, m NFSMount) string {
	tb.Helper()
	at, err := g.MountNFS(Context(tb), m)
	return mounted(tb, g, m.String(), at, err)
}

// MountCeph mounts a cluster natively in a guest for the length of a test and returns the directory.
func MountCeph(tb testing.TB, g *Guest, m CephMount) string {
	tb.Helper()
	at, err := g.MountCeph(Context(tb), m)
	return mounted(tb, g, m.String(), at, err)
}

func mounted(tb testing.TB, g *Guest, what, at string, err error) string {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	Peer(tb, "linux-"+g.Kernel, what)
	tb.Cleanup(func() {
		if !g.On() {
			return
		}
		// The test's context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := g.Unmount(ctx, at); err != nil {
			tb.Errorf("unmount: %v", err)
			_ = g.ForceUnmount(context.Background(), at)
		}
	})
	return at
}

// StartProxy starts a proxy for the length of a test. Start it before mounting through it: clean-up goes backwards.
func StartProxy(tb testing.TB, o ProxyOptions) *Proxy {
	tb.Helper()
	p, err := NewProxy(Context(tb), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// Context returns a context that ends with the test, and after defaultTimeout at the latest.
func Context(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(tb.Context(), defaultTimeout, errors.New("a test's default time is over"))
	tb.Cleanup(cancel)
	return ctx
}

// TempDir makes a scratch directory for one test and removes it with the test's end.
func TempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := Scratch("test")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if os.Getenv(EnvKeep) != "1" {
			_ = os.RemoveAll(dir)
		}
	})
	return dir
}
