package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// nativePackages are those of the native client whose live tests run against the cluster that CAPSTAN_TEST_CEPH_CONF
// names.
var nativePackages = []string{"msgr", "mon", "osd"}

// nativeCluster starts a cluster on loopback for the native client: three of each, on BlueStore, so that daemons can
// be killed and started again.
func nativeCluster(t *testing.T) *Cluster {
	t.Helper()
	return startNative(t, ClusterOptions{
		Mons: 3, OSDs: 3, Replicas: 2, Store: BlueStore, StoreMB: 8192,
		Config: map[string]string{
			// Quick to miss a stopped OSD, but not to take one for dead on a machine that pauses; one witness is enough
			// among three; and one that was missed often does not give up.
			"osd heartbeat grace": "10", "osd max markdown count": "1000", "osd heartbeat interval": "1", "mon osd min down reporters": "1",
			// Splits are to happen at once.
			"osd pool default pg autoscale mode": "off", "mgr tick period": "1", "mon target pg per osd": "1000",
		},
	})
}

// startNative starts a cluster for one test and names it as the test's peer.
func startNative(t *testing.T, o ClusterOptions) *Cluster {
	t.Helper()
	Require(t, NeedRoot, NeedCeph)
	ctx := longContext(t, 5*time.Minute)
	c, err := StartCluster(ctx, TempDir(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.WaitManager(ctx); err != nil {
		t.Fatal(err)
	}
	v, err := c.Version(ctx)
	if err != nil {
		t.Fatal(err)
	}
	Peer(t, "ceph-"+v, string(c.opts.Store))
	return c
}

// nativeEnv is the environment of a test of the native client: the cluster, and tools of its release.
func nativeEnv(t *testing.T, c *Cluster) []string {
	t.Helper()
	dir := TempDir(t)
	env := []string{"CAPSTAN_TEST_CEPH_CONF=" + c.ConfPath(), "CAPSTAN_TEST_CEPH_KILL=1"} // its settings may be changed
	if c.opts.Tree == "" {
		return env
	}
	// Tools that see the tree as their root, and files of the test only in the cluster's directory.
	tmp := c.path("tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"ceph", "rados"} {
		argv := append([]string{"unshare", "-m"}, treeArgv(c.opts.Tree, []string{c.dir}, []string{tool})...)
		for i := range argv {
			argv[i] = "'" + strings.ReplaceAll(argv[i], "'", `'\''`) + "'"
		}
		script := "#!/bin/sh\nexec " + strings.Join(argv, " ") + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, tool), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return append(env, "TMPDIR="+tmp, "PATH="+dir+":"+os.Getenv("PATH"))
}

// notHere are live tests that want more than a cluster, and have tests of their own here, and those that record.
const notHere = "^(TestLiveMonitorsKilled|TestLiveRecord|TestLiveNone|TestLiveFull|TestLiveRoughNetwork)$"

// liveBuilt are the live tests built so far, by package: tests that run them many times would spend most of their time
// on linking them.
var liveBuilt struct {
	mu   sync.Mutex // held while one is built
	bins map[string]string
}

// liveTests builds the tests of a package, once.
func liveTests(ctx context.Context, pkg string) (string, error) {
	b := &liveBuilt
	b.mu.Lock()
	defer b.mu.Unlock()
	if bin, ok := b.bins[pkg]; ok {
		return bin, nil
	}
	dir, err := Scratch("live")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, pkg+".test")
	if _, err := runCommand(ctx, procSpec{argv: []string{"go", "test", "-c", "-o", bin, "capstan/cephfs/" + pkg}}); err != nil {
		return "", err
	}
	if b.bins == nil {
		b.bins = map[string]string{}
	}
	b.bins[pkg] = bin
	return bin, nil
}

// runLive runs the live tests of a package that match a pattern, but for those that are notHere, and returns how many
// passed.
func runLive(ctx context.Context, t *testing.T, pkg, pattern string, env []string) int {
	t.Helper()
	return runLiveBut(ctx, t, pkg, pattern, notHere, env)
}

// runLiveOne runs one live test, which must pass, and logs what it says.
func runLiveOne(ctx context.Context, t *testing.T, pkg, name string, env []string) {
	t.Helper()
	if n := runLiveBut(ctx, t, pkg, "^"+name+"$", "^$", env); n != 1 {
		t.Errorf("%s did not pass", name)
	}
}

func runLiveBut(ctx context.Context, t *testing.T, pkg, pattern, but string, env []string) int {
	t.Helper()
	dir := TempDir(t)
	bin, err := liveTests(ctx, pkg)
	if err != nil {
		t.Error(err) // not Fatal: users call it from goroutines of their own
		return 0
	}
	r, err := runCommand(ctx, procSpec{argv: []string{bin, "-test.v", "-test.run", pattern, "-test.skip", but, "-test.timeout", "100m"}, env: env, dir: dir})
	passed := strings.Count("\n"+r.Stdout, "\n--- PASS: ")
	if err != nil {
		t.Errorf("%v\n%s", err, r.Stdout)
	}
	for _, line := range r.Lines() {
		if strings.Contains(line, "--- SKIP") {
			t.Errorf("%s: %s", pkg, line)
		}
		if but != notHere && strings.Contains(line, "_test.go:") || strings.Contains(line, "CAPSTAN_TEST_SEED") {
			t.Log(strings.TrimSpace(line))
		}
	}
	return passed
}

// The native client against a cluster that is well: handshakes in both modes, tickets, commands, maps, every kind of
// operation on objects, read back by Ceph's own tools and the other way round.
func TestNativeClient(t *testing.T) {
	c := nativeCluster(t)
	ctx := longContext(t, time.Duration(sized(60, 60))*time.Minute)
	env := nativeEnv(t, c)
	for _, pkg := range nativePackages {
		t.Run(pkg, func(t *testing.T) {
			if n := runLive(ctx, t, pkg, "^TestLive", env); n < 4 {
				t.Errorf("only %d tests of %s ran", n, pkg)
			}
		})
	}
	t.Run("rough network", func(t *testing.T) { roughNetwork(ctx, t, c) })
	t.Run("monitors killed", func(t *testing.T) { monitorsKilled(ctx, t, c) })
	t.Run("tool", func(t *testing.T) { nativeTool(ctx, t, c) })
}

// Users work on a few objects while connections are cut and placement groups split (the live test does that), and
// OSDs are killed, stopped, frozen, marked out and in, and each monitor is killed once. No operation may be lost,
// done twice, out of order, or hang: the history of each object must be that of one that does them one at a time.
// CAPSTAN_TEST_SEED replays the choices of one round.
func TestNativeClientUnderFaults(t *testing.T) {
	c := nativeCluster(t)
	ctx := longContext(t, time.Duration(sized(40, 110))*time.Minute)
	// Each kind of pool has its users, who go on until all faults are over; faults go on until they have done enough. A
	// round makes a pool and removes it, which costs as much as some thousand operations.
	round, least := sized(2000, 10_000), sized(10_000, 100_000)
	env := append(nativeEnv(t, c), fmt.Sprintf("CAPSTAN_TEST_OPS=%d", round))
	over := make(chan struct{})
	var users, busy sync.WaitGroup // busy: those who have not done enough
	for _, pool := range []string{"erasure=false", "erasure=true"} {
		busy.Add(1)
		users.Go(func() {
			enough := sync.OnceFunc(busy.Done)
			defer enough()
			ops := 0
			for done := false; !t.Failed() && (!done || ops < least); {
				if runLive(ctx, t, "osd", "^TestLiveLinearizable$/^"+pool+"$", env) != 1 {
					t.Errorf("%s: the users' test did not pass", pool)
				}
				if ops += round; ops >= least {
					enough()
				}
				select {
				case <-over:
					done = true
				default:
				}
			}
			t.Logf("%s: %d operations", pool, ops)
		})
	}
	enough := make(chan struct{})
	go func() { busy.Wait(); close(enough) }()
	for again := true; again && !t.Failed(); {
		faults(ctx, t, c)
		select {
		case <-enough:
			again = false
		default:
			again = fullSizes()
		}
	}
	close(over)
	users.Wait()
}

// faults does to a cluster what happens to clusters, one thing at a time.
func faults(ctx context.Context, t *testing.T, c *Cluster) {
	ceph := func(args ...string) error {
		_, err := c.Ceph(ctx, args...)
		return err
	}
	pause := func() { // in which the users work with what is left
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"kill osd.0", func() error { c.Daemon("osd.0").Kill(); pause(); return c.Daemon("osd.0").Start() }},
		{"osd.1 out", func() error {
			if err := ceph("osd", "out", "1"); err != nil {
				return err
			}
			pause()
			return ceph("osd", "in", "1")
		}},
		{"kill mon.a", func() error { c.Daemon("mon.a").Kill(); pause(); return c.Daemon("mon.a").Start() }},
		{"stop osd.2", func() error {
			if err := c.Daemon("osd.2").Stop(); err != nil {
				return err
			}
			pause()
			return c.Daemon("osd.2").Start()
		}},
		{"kill mon.b", func() error { c.Daemon("mon.b").Kill(); pause(); return c.Daemon("mon.b").Start() }},
		{"freeze osd.1", func() error {
			if err := c.Daemon("osd.1").Pause(); err != nil {
				return err
			}
			// Until the others have missed it.
			err := c.poll(ctx, "osd.1 to be missed", func() (bool, error) {
				up, err := osdsUp(ctx, c)
				return up < 3, err
			})
			if resumeErr := c.Daemon("osd.1").Resume(); err == nil {
				err = resumeErr
			}
			return err
		}},
		{"kill mon.c", func() error { c.Daemon("mon.c").Kill(); pause(); return c.Daemon("mon.c").Start() }},
		{"kill osd.1", func() error { c.Daemon("osd.1").Kill(); pause(); return c.Daemon("osd.1").Start() }},
	}
	for _, s := range steps {
		began := time.Now()
		err := s.do()
		if err == nil {
			err = c.waitClean(ctx)
		}
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			return
		}
		t.Logf("%s, and all well again: %.1f s", s.name, time.Since(began).Seconds())
	}
}

func osdsUp(ctx context.Context, c *Cluster) (int, error) {
	var st struct {
		Up int `json:"num_up_osds"`
	}
	err := c.Query(ctx, &st, "osd", "stat")
	return st.Up, err
}

// waitClean waits until every monitor is in the quorum, every OSD up, and every placement group has all its copies.
func (c *Cluster) waitClean(ctx context.Context) error {
	if err := c.waitQuorum(ctx); err != nil {
		return err
	}
	return c.poll(ctx, "OSDs up and placement groups clean", func() (bool, error) {
		if up, err := osdsUp(ctx, c); err != nil || up < c.opts.OSDs {
			return false, err
		}
		var st struct {
			Summary struct {
				PGs int `json:"num_pgs"`
				By  []struct {
					Name string `json:"name"`
					Num  int    `json:"num"`
				} `json:"num_pg_by_state"`
			} `json:"pg_summary"`
		}
		if err := c.Query(ctx, &st, "pg", "stat"); err != nil {
			return false, err
		}
		clean := 0
		for _, s := range st.Summary.By {
			if strings.HasPrefix(s.Name, "active+clean") {
				clean += s.Num
			}
		}
		return clean == st.Summary.PGs, nil
	})
}

// nativeTool compares what `capstan ceph` says with what Ceph's tools do.
func nativeTool(ctx context.Context, t *testing.T, c *Cluster) {
	bin, err := BuildCapstan(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.waitClean(ctx); err != nil {
		t.Fatal(err)
	}
	ours := func(args ...string) Result {
		t.Helper()
		r, err := runCommand(ctx, procSpec{argv: append([]string{bin, "ceph", "-c", c.ConfPath()}, args...)})
		if err != nil {
			t.Fatalf("%v\n%s", err, r.Stderr)
		}
		return r
	}
	theirs := func(args ...string) Result {
		t.Helper()
		r, err := c.run(ctx, append([]string{args[0], "-c", c.ConfPath()}, args[1:]...)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, r.Stderr)
		}
		return r
	}
	const pool = "cephfs.a.data"
	for _, o := range []string{"x", "10000000000.00000000", "an object with blanks", "ü"} {
		for _, ns := range []string{"", "ns"} {
			argv := []string{"ceph", "osd", "map", pool, o}
			if ns != "" {
				argv = append(argv, ns)
			}
			want := theirs(argv...).Stdout
			if got := ours("map", "-N", ns, pool, o).Stdout; epochLess(got) != epochLess(want) {
				t.Errorf("map %s %s:\n%s\nceph says\n%s", ns, o, got, want)
			}
		}
	}
	data := []byte(strings.Repeat("capstan and rados\n", 700_000))
	file, back := c.path("data"), c.path("back")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	same := func(what string) {
		t.Helper()
		got, err := os.ReadFile(back)
		if err != nil || string(got) != string(data) {
			t.Errorf("%s: %d bytes of %d, %v", what, len(got), len(data), err)
		}
		_ = os.Remove(back)
	}
	ours("put", pool, "ours", file)
	theirs("rados", "-p", pool, "get", "ours", back)
	same("rados reads what capstan put")
	theirs("rados", "-p", pool, "put", "theirs", file)
	ours("get", pool, "theirs", back)
	same("capstan gets what rados wrote")
	// Older tools of Ceph print whole seconds only.
	fraction := regexp.MustCompile(`\.\d+\+`)
	if got, want := ours("stat", pool, "ours").Stdout, theirs("rados", "-p", pool, "stat", "ours").Stdout; fraction.ReplaceAllString(got, "") != fraction.ReplaceAllString(want, "") {
		t.Errorf("stat: %q, rados says %q", got, want)
	}
	var names []string
	if err := json.Unmarshal([]byte(theirs("ceph", "osd", "pool", "ls", "--format", "json").Stdout), &names); err != nil {
		t.Fatal(err)
	}
	pools := ours("pools").Stdout
	for _, n := range names {
		if !strings.Contains(pools, " "+n+" ") {
			t.Errorf("no pool %s in\n%s", n, pools)
		}
	}
	if got := ours("status").Stdout; !strings.Contains(got, c.FSID()) || !strings.Contains(got, "osd: 3 osds: 3 up") {
		t.Errorf("status:\n%s", got)
	}
	if got := ours("ping", "mon.a", "mon.b", "mon.c", "osd.0", "mgr").Stdout; strings.Count(got, "answered in") != 5 {
		t.Errorf("ping:\n%s", got)
	}
	r, err := runCommand(ctx, procSpec{argv: []string{bin, "ceph", "-c", c.ConfPath(), "get", "nowhere", "x", "-"}})
	if err == nil || !strings.Contains(r.Stderr, `pool "nowhere": no such pool`) {
		t.Errorf("a pool that does not exist: %v %q", err, r.Stderr)
	}
	r, err = runCommand(ctx, procSpec{argv: []string{bin, "ceph", "-c", c.ConfPath(), "get", pool, "nothing", back}})
	if err == nil || !strings.Contains(r.Stderr, "no such file or directory") {
		t.Errorf("an object that does not exist: %v %q", err, r.Stderr)
	}
	if _, err := os.Stat(back); err == nil {
		t.Error("the failed get left a file")
	}
}

// epochLess takes the epoch of the osdmap out of a line.
func epochLess(s string) string { return regexp.MustCompile(`osdmap e\d+ `).ReplaceAllString(s, "") }
