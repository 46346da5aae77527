package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// victim is a process with a lab of its own that prints the children's ids and waits to be killed.
func victim() int {
	ctx := context.Background()
	fail := func(err error) int {
		fmt.Println("error:", err)
		return 1
	}
	n, err := NewNet(ctx)
	if err != nil {
		return fail(err)
	}
	dir, err := Scratch("v")
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(dir+"/g", 0o755); err != nil {
		return fail(err)
	}
	c, err := StartCluster(ctx, dir, ClusterOptions{Net: n})
	if err != nil {
		return fail(err)
	}
	g, err := StartGuest(ctx, n, 0, dir+"/g", GuestOptions{MemoryMB: 256})
	if err != nil {
		return fail(err)
	}
	ids := []string{fmt.Sprint(g.proc.Pid())}
	// UML runs each program of the guest as a process of the host.
	out, err := exec.Command("ps", "-o", "pid=", "--ppid", ids[0]).Output()
	if err != nil {
		return fail(err)
	}
	ids = append(ids, strings.Fields(string(out))...)
	for _, d := range c.Daemons() {
		ids = append(ids, fmt.Sprint(d.process().Pid()))
	}
	fmt.Println("children", strings.Join(ids, " "), "scratch", scratch.dir)
	select {}
}

// Nothing outlives a test binary that is killed.
func TestKilledHarnessLeavesNothing(t *testing.T) {
	t.Parallel()
	Require(t, NeedRoot, NeedCeph, NeedGuest)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"=victim")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if killErr := cmd.Process.Kill(); killErr != nil {
		t.Error(killErr)
	}
	_ = cmd.Wait()
	list, dir, ok := strings.Cut(strings.TrimSpace(line), " scratch ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	ids := strings.Fields(list)[1:]
	if len(ids) < 6 {
		t.Errorf("only the processes %v", ids)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, id := range ids {
		pid, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := poll(ctx, "process "+id+" to end", func() (bool, error) {
			// They are ours now, as orphans, and stay zombies until we wait for them.
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil
		}); err != nil {
			t.Error(err)
		}
	}
	// The next lab removes the directory once it is old enough not to be somebody's new one.
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// A cluster on the host's loopback, as the demo has it, beside others.
func TestClusterOnLoopback(t *testing.T) {
	t.Parallel()
	Require(t, NeedCeph)
	Peer(t, "ceph")
	c, err := StartCluster(longContext(t, 10*time.Minute), TempDir(t), ClusterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if r, err := c.Ceph(Context(t), "fs", "ls"); err != nil || !strings.Contains(r.Stdout, "name: a,") {
		t.Errorf("fs ls: %+v, %v", r, err)
	}
}

// Everything a cluster can have, and each kind of daemon lost and started again.
func TestClusterSurvives(t *testing.T) {
	t.Parallel()
	Require(t, NeedRoot, NeedCeph)
	Peer(t, "ceph")
	ctx := longContext(t, 10*time.Minute)
	c, err := StartCluster(ctx, TempDir(t), ClusterOptions{
		Net: lab.Net(t), Mons: 3, OSDs: 2, Replicas: 2, Store: BlueStore, Secure: true,
		Filesystems: []Filesystem{{Name: "x"}, {Name: "y", MaxMDS: 2}}, MDS: 4,
		// A dead MDS is noticed by its missing beacons, its successor waits for clients that may not come back, and
		// an OSD that comes back waits until nobody can still read from the dead one (0.8 of the grace).
		Config: map[string]string{"mds beacon grace": "4", "mds reconnect timeout": "3", "osd heartbeat grace": "6"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	rados := func(args ...string) (Result, error) {
		return c.run(ctx, append([]string{"rados", "-p", "cephfs.x.data"}, args...)...)
	}
	if _, err := rados("put", "object", c.ConfPath()); err != nil {
		t.Fatal(err)
	}
	c.Daemon("osd.0").Kill()
	c.Daemon("osd.1").Kill()
	old, err := c.ActiveMDS(ctx, "y", 1)
	if err != nil {
		t.Fatal(err)
	}
	old.Kill()
	if err := c.Daemon("osd.0").Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Daemon("osd.1").Start(); err != nil {
		t.Fatal(err)
	}
	if r, err := rados("get", "object", "-"); err != nil || !strings.Contains(r.Stdout, c.FSID()) {
		t.Errorf("object after the loss of both OSDs: %v", err)
	}
	if err := c.poll(ctx, "the standby to take over", func() (bool, error) {
		d, err := c.ActiveMDS(ctx, "y", 1)
		return err == nil && d != old, nil
	}); err != nil {
		t.Error(err)
	}
	c.Daemon("mon.c").Kill()
	if err := c.Daemon("mon.c").Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.waitQuorum(ctx); err != nil {
		t.Error(err)
	}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitActive(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Daemon("mds.a").Restart(); err != nil {
		t.Error(err)
	}
	// The end of a daemon that nobody asked for is a fault of the cluster.
	if err := syscall.Kill(c.Daemon("mgr.x").process().Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Daemon("mgr.x").process().Done()
	if err := c.Err(); err == nil {
		t.Error("a dead manager went unnoticed")
	}
	c.Daemon("mgr.x").Kill()
}

// fakeCapstan behaves as "capstan serve" does towards its surroundings.
func fakeCapstan() int {
	if len(os.Args) != 4 || os.Args[1] != "serve" || os.Args[2] != "-c" {
		fmt.Println("arguments:", os.Args)
		return 2
	}
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGHUP, syscall.SIGTERM)
	show := func() {
		b, err := os.ReadFile(os.Args[3])
		fmt.Printf("config %s %v\n", b, err)
	}
	show()
	c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err := c.Write([]byte("STATUS=on\nREADY=1")); err != nil {
		fmt.Println(err)
		return 1
	}
	for s := range sig {
		if s == syscall.SIGTERM {
			fmt.Println("orderly end")
			return 0
		}
		show()
	}
	return 0
}

func TestCapstanLifecycle(t *testing.T) {
	ctx := Context(t)
	c, err := StartCapstan(ctx, TempDir(t), CapstanOptions{Binary: os.Args[0], Config: "one", Env: []string{envRole + "=capstan"}})
	if err != nil {
		t.Fatal(err)
	}
	wait := func(what string) {
		t.Helper()
		if err := poll(ctx, what+" in the log", func() (bool, error) { return strings.Contains(c.Log(10), what), nil }); err != nil {
			t.Error(err)
		}
	}
	if err := c.Reload("two"); err != nil {
		t.Error(err)
	}
	wait("config two")
	if err := c.Restart(ctx); err != nil {
		t.Error(err)
	}
	wait("orderly end")
	c.Kill()
	if err := c.Start(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(c.Log(20), "config two"); n != 3 {
		t.Errorf("the log of all starts:\n%s", c.Log(20))
	}

	// A server that cannot start is told apart from one that takes long.
	if _, err := StartCapstan(ctx, TempDir(t), CapstanOptions{Binary: os.Args[0], Env: []string{envRole + "=capstan"}}); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("%v", err)
	}
}
