package portmap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"capstan/internal/testutil"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

func TestMain(m *testing.M) { testutil.VerifyMain(m) }

// fakeBinder is an rpcbind of one version.
type fakeBinder struct {
	version uint32
	calls   []string
	refuse  bool
}

func (f *fakeBinder) Number() uint32             { return program }
func (f *fakeBinder) Versions() (uint32, uint32) { return f.version, f.version }
func (f *fakeBinder) Serve(_ context.Context, c *rpc.Call, e *xdr.Encoder) rpc.AcceptStat {
	prog, vers := c.Args.Uint32("prog"), c.Args.Uint32("vers")
	what := fmt.Sprint(c.Version, " ", c.Procedure, " ", prog, " ", vers)
	if f.version == versRpcbind {
		what += fmt.Sprintf(" %s %s", c.Args.String("netid", 32), c.Args.String("addr", 128))
		c.Args.Opaque("owner", 128)
	} else {
		what += fmt.Sprintf(" %d %d", c.Args.Uint32("prot"), c.Args.Uint32("port"))
	}
	if c.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	f.calls = append(f.calls, what)
	e.Bool(!f.refuse)
	return rpc.Success
}

func serveFake(t *testing.T, f *fakeBinder) Registrar {
	s := rpc.NewServer(rpc.Options{})
	s.Register(f)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Shutdown(context.Background())
		<-done
	})
	return Registrar{Addr: l.Addr().String(), Timeout: 2 * time.Minute}
}

func TestCalls(t *testing.T) {
	one := []Service{{"nfs v4", 100003, 4}}
	for _, test := range []struct {
		version uint32
		addr    string
		want    string
	}{
		{4, "0.0.0.0:2049", "4 2 100003 4 tcp ;4 1 100003 4 tcp 0.0.0.0.8.1"},
		{4, "[::1]:2049", "4 2 100003 4 tcp6 ;4 1 100003 4 tcp6 ::1.8.1"},
		{2, "0.0.0.0:2049", "2 2 100003 4 6 0;2 1 100003 4 6 2049"},
		{2, "[::1]:2049", ""},
	} {
		f := &fakeBinder{version: test.version}
		r := serveFake(t, f)
		if err := r.Register(t.Context(), one, netip.MustParseAddrPort(test.addr)); err != nil {
			t.Error(err)
		}
		if got := strings.Join(f.calls, ";"); got != test.want {
			t.Errorf("v%d %s: %q, want %q", test.version, test.addr, got, test.want)
		}
	}
}

func TestErrorsNameTheService(t *testing.T) {
	r := serveFake(t, &fakeBinder{version: 4, refuse: true})
	err := r.Register(t.Context(), NFS, netip.MustParseAddrPort("0.0.0.0:2049"))
	if !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	for _, s := range NFS {
		if !strings.Contains(err.Error(), s.Name) {
			t.Errorf("%q does not name %s", err, s.Name)
		}
	}
	// Nobody listens.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Addr = l.Addr().String()
	l.Close()
	if err := r.Register(t.Context(), NFS, netip.MustParseAddrPort("0.0.0.0:2049")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
}

// TestRealRpcbind registers with a real rpcbind in a network of its own.
func TestRealRpcbind(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: not root, cannot make a network namespace for rpcbind")
	}
	rpcbind, err := exec.LookPath("rpcbind")
	if err != nil {
		t.Skip("skipped: rpcbind is not installed")
	}
	rpcinfo, err := exec.LookPath("rpcinfo")
	if err != nil {
		t.Skip("skipped: rpcinfo is not installed")
	}
	// The thread goes into new namespaces and is thrown away with them. The
	// daemon inherits them; its files under /run are on a mount of its own.
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- inNamespace(t, rpcbind, rpcinfo)
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func inNamespace(t *testing.T, rpcbind, rpcinfo string) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNET | syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount on /run: %w", err)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link: %w: %s", err, out)
	}
	daemon := exec.Command(rpcbind, "-f", "-w")
	if err := daemon.Start(); err != nil {
		return err
	}
	defer daemon.Wait()
	defer daemon.Process.Kill()
	ctx := t.Context()
	addr := netip.MustParseAddrPort("[::]:2049")
	r := Registrar{Timeout: 2 * time.Minute}
	var err error
	for range 1200 {
		if err = r.Register(ctx, NFS, addr); !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		time.Sleep(50 * time.Millisecond) // until the daemon listens
	}
	if err != nil {
		return err
	}
	list := func() (string, error) {
		out, err := exec.Command(rpcinfo).CombinedOutput()
		return string(out), err
	}
	out, err := list()
	if err != nil {
		return fmt.Errorf("rpcinfo: %w: %s", err, out)
	}
	for _, want := range []string{"100003 3 tcp 0.0.0.0.8.1", "100003 4 tcp6 ::.8.1", "100005 3 tcp 0.0.0.0.8.1", "100005 3 tcp6 ::.8.1"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("rpcinfo does not show %q:\n%s", want, out)
		}
	}
	// Again, as a server that was killed does, and at another port.
	if err := r.Register(ctx, NFS, netip.MustParseAddrPort("[::]:2050")); err != nil {
		return err
	}
	if out, _ := list(); !strings.Contains(out, "0.0.0.0.8.2") || strings.Contains(out, "0.0.0.0.8.1") {
		t.Errorf("not replaced:\n%s", out)
	}
	if err := r.Unregister(ctx, NFS, addr); err != nil {
		return err
	}
	if out, _ := list(); strings.Contains(out, "100003") || strings.Contains(out, "100005") {
		t.Errorf("still registered:\n%s", out)
	}
	return nil
}
