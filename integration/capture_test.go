package integration

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"capstan/server/nfstest"
)

var updateCaptures = flag.Bool("update-captures", false, "record the Linux client's conversations anew")

// captureSession is what the Linux client does while it is recorded: one call of each kind, small data.
const captureSession = `set -e
cd "$1"
mkdir d
echo hello >d/f
cat d/f >/dev/null
chmod 600 d/f
chown 1000:1000 d/f
touch -d @1000000000 d/f
truncate -s 100 d/f
ln d/f d/g
ln -s f d/l
readlink d/l >/dev/null
mknod d/p p
mknod d/c c 1 3
mv d/g d/h
ls -la d >/dev/null
df . >/dev/null
set -C; echo exclusive >d/x; set +C
flock d/f true
dd if=/dev/zero of=d/big bs=4k count=3 conv=fsync 2>/dev/null
rm d/h d/l d/p d/c d/x d/big d/f
rmdir d
`

// TestCaptureLinuxClient has the Linux client talk to capstan through a recording proxy and checks that the
// recordings the fuzz targets are seeded with still are what this client sends: the same operations, if not the same
// bytes. With -update-captures they are written anew.
func TestCaptureLinuxClient(t *testing.T) {
	Require(t, NeedGuest)
	n, g := lab.Net(t), lab.Guest(t, 0)
	gw := ownGateway(t, gatewayConfig{exports: []string{memoryExport("/mem", 1)}})
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			Peer(t, "linux-"+g.Kernel+" nfs"+version)
			captures := recordSession(t, n, g, gw, version)
			dir := filepath.Join("..", "server", "nfstest", "testdata")
			if *updateCaptures {
				for i, c := range captures {
					path := filepath.Join(dir, fmt.Sprintf("linux-v%s-%d.txt", version, i+1))
					if err := writeCapture(path, c, fmt.Sprintf("Linux %s, NFS %s, connection %d", g.Kernel, version, i+1)); err != nil {
						t.Fatal(err)
					}
				}
			}
			kept := map[string]bool{}
			paths, _ := filepath.Glob(filepath.Join(dir, "linux-v"+version+"-*.txt"))
			for _, path := range paths {
				c, err := readCapture(path)
				if err != nil {
					t.Fatal(err)
				}
				addProcedures(kept, c)
			}
			now := map[string]bool{}
			for _, c := range captures {
				addProcedures(now, c)
			}
			if want, got := slices.Sorted(maps.Keys(kept)), slices.Sorted(maps.Keys(now)); !slices.Equal(want, got) {
				t.Errorf("the client calls\n%v\nand in the recordings\n%v", got, want)
			}
		})
	}
}

func writeCapture(path string, c nfstest.Capture, title string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s.\n", title)
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func readCapture(path string) (nfstest.Capture, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return nfstest.ReadCapture(f)
}

// addProcedures notes which procedures the client of c calls.
func addProcedures(set map[string]bool, c nfstest.Capture) {
	for _, r := range c {
		if r.FromClient && len(r.Data) >= 24 {
			word := func(i int) uint32 { return binary.BigEndian.Uint32(r.Data[4*i:]) }
			set[fmt.Sprintf("%d v%d procedure %d", word(3), word(4), word(5))] = true
		}
	}
}

// recordSession mounts through a recording proxy, runs captureSession, and returns the recorded connections in the
// order in which they were made.
func recordSession(t *testing.T, n *Net, g *Guest, gw *gateway, version string) []nfstest.Capture {
	t.Helper()
	ctx := Context(t)
	l, err := n.Listen(ctx, "tcp", net.JoinHostPort(ServerIP, "0"))
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu       sync.Mutex
		captures []nfstest.Capture
		running  sync.WaitGroup
	)
	running.Go(func() {
		for i := 0; ; i++ {
			one, err := oneListener(l)
			if err != nil {
				return
			}
			mu.Lock()
			captures = append(captures, nil)
			mu.Unlock()
			running.Go(func() {
				c, err := nfstest.Proxy(one, func() (net.Conn, error) {
					return n.Dial(ctx, "tcp", fmt.Sprintf("%s:%d", ServerIP, gw.port))
				})
				if err != nil {
					t.Errorf("proxy: %v", err)
				}
				mu.Lock()
				captures[i] = c
				mu.Unlock()
			})
		}
	})
	port := l.Addr().(*net.TCPAddr).Port
	at, err := g.MountNFS(ctx, NFSMount{Server: ServerIP, Port: port, MountPort: port, Version: version, Path: "/mem"})
	if err == nil {
		var r Result
		if r, err = g.Run(ctx, "sh", "-c", captureSession, "sh", at); err != nil {
			err = fmt.Errorf("%w\n%s", err, r.Stderr)
		}
		if uerr := g.Unmount(ctx, at); err == nil {
			err = uerr
		}
	}
	l.Close()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return captures
}

// oneListener accepts a connection of l and returns it as a listener of its own.
func oneListener(l net.Listener) (net.Listener, error) {
	c, err := l.Accept()
	if err != nil {
		return nil, err
	}
	return &acceptedConn{Listener: l, c: c}, nil
}

type acceptedConn struct {
	net.Listener
	c net.Conn
}

func (a *acceptedConn) Accept() (net.Conn, error) { return a.c, nil }
