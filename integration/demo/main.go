// Command demo shows capstan at work on a machine of its own: it starts a
// one-node Ceph in a scratch directory on loopback, starts capstan exporting
// its CephFS, writes and reads files through it with libnfs, prints how to
// mount it, and serves until it is interrupted. It leaves nothing behind.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"capstan/integration"
)

func main() {
	binary := flag.String("capstan", "bin/capstan", "the capstan `binary`")
	port := flag.Int("port", 0, "TCP `port` of NFS on loopback; 0 takes 2049 if it is free, else any")
	once := flag.Bool("once", false, "stop after the files were written and read")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *binary, *port, *once)
	if cleanErr := integration.CleanUp(); err == nil {
		err = cleanErr
	}
	if err != nil && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	say("stopped; nothing is left behind")
}

func say(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }

func run(ctx context.Context, binary string, port int, once bool) (err error) {
	if err := integration.Missing(integration.NeedCeph, integration.NeedLibNFS); err != nil {
		return fmt.Errorf("%w\nrun `make deps` as root on Debian 12, or install what is missing by hand", err)
	}
	// Absolute, since the server runs in a directory of its own.
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	dir, err := integration.Scratch("demo")
	if err != nil {
		return err
	}
	if port == 0 {
		if port, err = freePort(2049); err != nil {
			return err
		}
	}
	begin := time.Now()
	say("starting a one-node Ceph in %s (monitor, manager, OSD in memory, MDS)", dir)
	start, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cluster, err := integration.StartCluster(start, filepath.Join(dir, "ceph"), integration.ClusterOptions{})
	if err != nil {
		return fmt.Errorf("the cluster did not start: %w", err)
	}
	defer func() { err = errors.Join(err, ignoreInterrupt(cluster.Close())) }()
	say("Ceph is up after %.1f s; its configuration is %s", time.Since(begin).Seconds(), cluster.ConfPath())

	work := filepath.Join(dir, "capstan")
	if err := os.MkdirAll(filepath.Join(work, "state"), 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf(demoConfig, port, work, work, cluster.ConfPath(), cluster.FSName())
	server, err := integration.StartCapstan(start, work, integration.CapstanOptions{
		Binary: binary, Config: text, Addr: fmt.Sprintf("127.0.0.1:%d", port),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	say("capstan serves that CephFS on 127.0.0.1:%d, with the configuration %s", port, server.ConfigPath)

	nfs := integration.LibNFS{Port: port, Version: 3, Export: "/cephfs"}
	if err := roundTrip(start, nfs, dir); err != nil {
		return fmt.Errorf("through libnfs: %w\n%s", err, server.Log(20))
	}
	say("ready %.1f s after the start", time.Since(begin).Seconds())
	fmt.Printf("\n"+
		"  kernel client   mount -t nfs4 -o vers=4.2,port=%[1]d 127.0.0.1:/cephfs /mnt\n"+
		"  NFSv3           mount -t nfs -o vers=3,nolock,tcp,port=%[1]d,mountport=%[1]d 127.0.0.1:/cephfs /mnt\n"+
		"  libnfs          nfs-ls '%[2]s'\n"+
		"  the cluster     CEPH_CONF=%[3]s ceph -s\n"+
		"  the server      %[4]s status --socket %[5]s/control.sock\n\n",
		port, nfs.URL("/"), cluster.ConfPath(), binary, work)
	if once {
		return nil
	}
	say("serving; Ctrl-C stops everything")
	select {
	case <-ctx.Done():
		say("stopping")
	case <-server.Proc().Done():
		return fmt.Errorf("capstan ended by itself:\n%s", server.Log(20))
	}
	return nil
}

// demoConfig wants port, control directory, state directory, ceph.conf and
// file system.
const demoConfig = `server:
  listen: 127.0.0.1:%d
  control: %s/control.sock
  state_dir: %s/state
exports:
  - path: /cephfs
    id: 1
    engine: libcephfs
    libcephfs: {conf: %s, name: admin, filesystem: %s}
    squash: none
    access: [{clients: 127.0.0.1}]
`

// roundTrip writes files through NFS, lists them and compares what comes back.
func roundTrip(ctx context.Context, nfs integration.LibNFS, dir string) error {
	for _, size := range []int{0, 1, 5000, 8 << 20} {
		content := make([]byte, size)
		_, _ = rand.Read(content)
		local := filepath.Join(dir, "file")
		if err := os.WriteFile(local, content, 0o644); err != nil {
			return err
		}
		name := fmt.Sprintf("/hello-%d", size)
		begin := time.Now()
		if err := nfs.Put(ctx, local, name); err != nil {
			return err
		}
		back, err := nfs.Cat(ctx, name)
		if err != nil {
			return err
		}
		if !bytes.Equal(back, content) {
			return fmt.Errorf("%s: %d bytes written, %d other bytes read", name, size, len(back))
		}
		say("wrote and read %s, %d bytes, in %.0f ms", name, size, float64(time.Since(begin).Microseconds())/1000)
	}
	list, err := nfs.Ls(ctx, "/")
	if err != nil {
		return err
	}
	say("the directory, as nfs-ls shows it:\n%s", strings.TrimRight(list.Stdout, "\n"))
	return nil
}

// freePort returns want if it is free on loopback, else a free port.
func freePort(want int) (int, error) {
	for _, p := range []int{want, 0} {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr).Port, nil
		}
	}
	return 0, errors.New("no free port on loopback")
}

// ignoreInterrupt drops what a daemon says that got the same Ctrl-C as we.
func ignoreInterrupt(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
