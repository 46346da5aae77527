package integration

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

// OSDs become full, by what is stored and not by a quota: writes fail or wait as their users chose, reads go on, room is
// made by removing, and nothing that was acknowledged is lost.
func TestNativeClientFullCluster(t *testing.T) {
	c := startNative(t, ClusterOptions{
		OSDs: 3, Replicas: 2, Store: BlueStore, StoreMB: 1024,
		Config: map[string]string{
			// Of a GiB the database takes 300 MiB from the start, and must not run out of room itself.
			"mon osd nearfull ratio": "0.38", "mon osd backfillfull ratio": "0.39", "mon osd full ratio": "0.4",
			"osd heartbeat interval": "1", // that often an OSD looks at its use
		},
	})
	ctx := longContext(t, 9*time.Minute)
	runLiveOne(ctx, t, "osd", "TestLiveFull", nativeEnv(t, c))
	toolWaits(ctx, t, c)
}

// toolWaits has `capstan ceph put` wait for a full pool: it says so, ends when it is told to, and goes on when there is
// room.
func toolWaits(ctx context.Context, t *testing.T, c *Cluster) {
	const pool = "cephfs.a.data"
	bin, err := BuildCapstan(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	ratio := func(r string) {
		t.Helper()
		for _, what := range []string{"full", "backfillfull", "nearfull"} {
			if _, err := c.Ceph(ctx, "osd", "set-"+what+"-ratio", r); err != nil {
				t.Fatal(err)
			}
		}
	}
	ratio("0.01")
	if err := c.poll(ctx, "the pool to be full", func() (bool, error) {
		r, err := c.Ceph(ctx, "osd", "pool", "ls", "detail")
		for line := range strings.Lines(r.Stdout) {
			if strings.Contains(line, "'"+pool+"'") && strings.Contains(line, ",full") {
				return true, nil
			}
		}
		return false, err
	}); err != nil {
		t.Fatal(err)
	}
	// put starts the tool and waits for the line that says what it waits for. The other lines follow, until it ends.
	put := func() (*Proc, <-chan string) {
		t.Helper()
		r, w := io.Pipe()
		p, err := startProc(procSpec{
			name: "capstan ceph put", argv: []string{bin, "ceph", "-c", c.ConfPath(), "put", "-N", "ns", pool, "waits", "-"},
			stdin: strings.NewReader("x"), stderr: w, stdout: w,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		stop := context.AfterFunc(ctx, p.Kill)
		go func() { <-p.Done(); stop(); w.Close() }()
		lines := make(chan string, 1000)
		go func() {
			defer close(lines)
			for s := bufio.NewScanner(r); s.Scan(); {
				lines <- s.Text()
			}
		}()
		if first, want := <-lines, "capstan: "+pool+"/ns/waits: waiting: pool "+pool+" is full"; first != want {
			t.Fatalf("%q, want %q", first, want)
		}
		return p, lines
	}
	p, lines := put()
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	last := ""
	for line := range lines {
		last = line
	}
	<-p.Done()
	if want := "capstan: writefull " + pool + "/ns/waits: interrupted while waiting: pool " + pool + " is full"; last != want || p.err == nil {
		t.Errorf("interrupted: %q, %v, want %q", last, p.err, want)
	}
	p, lines = put()
	ratio("0.95")
	for line := range lines {
		if !strings.Contains(line, ": waiting: ") { // for an OSD that is slow, say
			t.Errorf("when there was room: %q", line)
		}
	}
	<-p.Done()
	if p.err != nil {
		t.Errorf("when there was room: %v", p.err)
	}
	if r, err := c.run(ctx, "rados", "-c", c.ConfPath(), "-p", pool, "-N", "ns", "get", "waits", "-"); err != nil || r.Stdout != "x" {
		t.Errorf("rados reads %q, %v", r.Stdout, err)
	}
	var ce *CommandError
	r, err := runCommand(ctx, procSpec{argv: []string{bin, "ceph", "status"}, env: []string{"CEPH_ARGS=--id admin -c"}})
	if !errors.As(err, &ce) || r.Stderr != "capstan: cluster: CEPH_ARGS: -c needs a value\n" {
		t.Errorf("-c without a value: %v", err)
	}
}
