package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"capstan/cephfs/libcephfs"
	"capstan/server"
)

// versions are the protocol versions that every test of capstan with a kernel client covers.
var versions = []string{"3", "4.1", "4.2"}

// fullSizes says that tests use the sizes that the product is measured by instead of those that suit CI.
func fullSizes() bool { return os.Getenv("CAPSTAN_FULL") == "1" }

// sized returns the size for CI, or the full one.
func sized(ci, full int) int {
	if fullSizes() {
		return full
	}
	return ci
}

// buildTags are the tags of this test binary: the capstan under test is built with the same.
func buildTags() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return strings.FieldsFunc(s.Value, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return nil
}

// requireLibCephFS skips a test, or fails it, in a build without the engine libcephfs.
func requireLibCephFS(tb testing.TB) {
	tb.Helper()
	if libcephfs.Available {
		return
	}
	const reason = "these tests were built without the tag librados"
	logPeer(tb, "SKIP", reason)
	if os.Getenv(EnvRequire) == "1" {
		tb.Fatalf("%s=1, but: %s", EnvRequire, reason)
	}
	tb.Skipf("no real peer: %s", reason)
}

// gateway is a capstan in the lab's namespace with a directory for all that it keeps.
type gateway struct {
	*Capstan
	dir     string
	port    int
	control string
}

// gatewayConfig describes the configuration of a gateway. Exports are YAML list items; in them DIR stands for the
// gateway's directory.
type gatewayConfig struct {
	lease   string // "20s" if empty
	server  string // further lines of the section server, YAML flow or indented by two
	nfs     string // further lines of the section nfs
	exports []string
	private map[string]string // as CapstanOptions.Private
	env     []string          // added to the environment
	dir     string            // of the gateway; a fresh one if empty
}

func (c gatewayConfig) text(dir string, port int) string {
	var b strings.Builder
	lease := c.lease
	if lease == "" {
		lease = "20s"
	}
	listen := []string{fmt.Sprintf(`"%s:%d"`, ServerIP, port)}
	if haveIPv6() {
		listen = append(listen, fmt.Sprintf(`"[%s]:%d"`, ServerIP6, port))
	}
	fmt.Fprintf(&b, "server:\n  listen: [%s]\n  control: DIR/control.sock\n  state_dir: DIR/state\n%s", strings.Join(listen, ", "), c.server)
	fmt.Fprintf(&b, "nfs:\n  lease: %s\n%sexports:\n", lease, c.nfs)
	for _, e := range c.exports {
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(strings.TrimSpace(e), "\n", "\n    "))
	}
	return strings.ReplaceAll(b.String(), "DIR", dir)
}

func haveIPv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

// memoryExport, localExport and cephExport are exports to everyone, nobody squashed.
func memoryExport(path string, id int) string {
	return fmt.Sprintf("{path: %s, id: %d, engine: memory, memory: {size: 2GiB}, squash: none, access: [{clients: \"*\"}]}", path, id)
}

func localExport(path string, id int, root string) string {
	return fmt.Sprintf("{path: %s, id: %d, engine: local, local: {root: %s}, squash: none, access: [{clients: \"*\"}]}", path, id, root)
}

func cephExport(c *Cluster, path string, id int, root string) string {
	return fmt.Sprintf("{path: %s, id: %d, engine: libcephfs, libcephfs: {conf: %s, name: admin, filesystem: %s, root: %s}, squash: none, access: [{clients: \"*\"}]}",
		path, id, c.ConfPath(), c.FSName(), root)
}

// startGateway starts a gateway in dir.
func startGateway(ctx context.Context, n *Net, dir string, c gatewayConfig) (*gateway, error) {
	for _, d := range []string{"state", "local"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(ctx, n, ServerIP, 1)
	if err != nil {
		return nil, err
	}
	g := &gateway{dir: dir, port: ports[0], control: filepath.Join(dir, "control.sock")}
	g.Capstan, err = StartCapstan(ctx, dir, CapstanOptions{
		Net: n, Config: c.text(dir, g.port), Tags: buildTags(), Race: os.Getenv("CAPSTAN_RACE") == "1", Env: c.env, Private: c.private,
		Addr: fmt.Sprintf("%s:%d", ServerIP, g.port),
	})
	return g, err
}

// ownGateway starts a gateway for the length of a test. Its log is printed if the test fails.
func ownGateway(tb testing.TB, c gatewayConfig) *gateway {
	tb.Helper()
	n := lab.Net(tb)
	dir := c.dir
	if dir == "" {
		dir = TempDir(tb)
	}
	g, err := startGateway(Context(tb), n, dir, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// In order: the session of a killed one would be in the way of the next test for a minute.
		if err := errors.Join(g.Err(), g.Stop()); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			tb.Logf("log of capstan:\n%s", g.Log(25))
		}
	})
	return g
}

// local is the directory of this machine that localExport with the root DIR/local exports.
func (g *gateway) local() string { return filepath.Join(g.dir, "local") }

// mount returns the mount of an export.
func (g *gateway) mount(version, path string, options ...string) NFSMount {
	return NFSMount{Version: version, Port: g.port, Path: path, Options: strings.Join(options, ",")}
}

// status asks the gateway for its status.
func (g *gateway) status(ctx context.Context) (*server.Status, error) {
	return server.ReadStatus(ctx, g.control)
}

var sharedGateway *gateway // guarded by lab.mu

// sharedExports are the exports of the shared gateway: its paths by engine.
var sharedExports = map[string]string{"memory": "/mem", "local": "/export/local", "libcephfs": "/export/ceph"}

// capstan returns the gateway that tests share; nobody kills it. It exports every engine, see sharedExports.
func capstan(tb testing.TB) *gateway {
	tb.Helper()
	requireLibCephFS(tb)
	c := lab.Cluster(tb)
	lab.mu.Lock()
	defer lab.mu.Unlock()
	if sharedGateway == nil {
		lab.start(tb, "capstan", func(ctx context.Context) (io.Closer, error) {
			dir, err := Scratch("capstan")
			if err != nil {
				return nil, err
			}
			sharedGateway, err = startGateway(ctx, lab.net, dir, gatewayConfig{exports: []string{
				memoryExport(sharedExports["memory"], 1),
				localExport(sharedExports["local"], 2, "DIR/local"),
				cephExport(c, sharedExports["libcephfs"], 3, "/"),
			}})
			return sharedGateway, err
		})
	}
	g := sharedGateway
	tb.Cleanup(func() {
		if err := g.Err(); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			tb.Logf("log of capstan:\n%s", g.Log(25))
		}
	})
	return g
}

// mustMount mounts for the length of a test and returns the directory. When the test is over, programs that hang
// in the mount do not keep it.
func mustMount(tb testing.TB, g *Guest, m NFSMount) string {
	tb.Helper()
	return MountNFS(tb, g, m)
}

// mustSh runs a shell script in a guest and returns what it printed; it ends the test if the script fails.
func mustSh(tb testing.TB, ctx context.Context, g *Guest, script string, args ...string) string {
	tb.Helper()
	r, err := g.Run(ctx, append([]string{"sh", "-ec", script, "sh"}, args...)...)
	if err != nil {
		tb.Fatal(err)
	}
	return r.Stdout
}

// longContext is Context with a time of its own.
func longContext(tb testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(tb.Context(), d, errors.New("the time of this test is over"))
	tb.Cleanup(cancel)
	return ctx
}

func sorted(l []string) []string {
	slices.Sort(l)
	return l
}
