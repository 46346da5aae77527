package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"capstan/server"
)

// capstanBinary builds the binary under test with the tags of this test.
func capstanBinary(tb testing.TB) string {
	tb.Helper()
	bin, err := BuildCapstan(Context(tb), false, buildTags()...)
	if err != nil {
		tb.Fatal(err)
	}
	return bin
}

// Without a configuration a scratch export is served on loopback.
func TestServeWithoutConfiguration(t *testing.T) {
	Require(t, NeedRoot, NeedLibNFS)
	n := lab.Net(t)
	ctx := Context(t)
	Peer(t, "libnfs nfs3")
	c, err := StartCapstan(ctx, TempDir(t), CapstanOptions{Net: n, Tags: buildTags(), Addr: "127.0.0.1:2049"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	l := LibNFS{Net: n, Server: "127.0.0.1", Export: "/scratch"}
	local := filepath.Join(TempDir(t), "f")
	content := strings.Repeat("scratch ", 300_000)
	if err := os.WriteFile(local, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.Put(ctx, local, "/f"); err != nil {
		t.Fatal(err)
	}
	if b, err := l.Cat(ctx, "/f"); err != nil || string(b) != content {
		t.Errorf("%d bytes came back, %v", len(b), err)
	}
	if r, err := l.Ls(ctx, "/"); err != nil || !strings.Contains(r.Stdout, " f\n") {
		t.Errorf("nfs-ls: %q, %v", r.Stdout, err)
	}
	if conn, err := n.Dial(ctx, "tcp", net.JoinHostPort(ServerIP, "2049")); err == nil {
		conn.Close()
		t.Error("it listens beyond loopback")
	}
}

func TestVersionCommand(t *testing.T) {
	r, err := runCommand(Context(t), procSpec{argv: []string{capstanBinary(t), "version"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"capstan ", "engines: memory, local", "go1."} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q in %q", want, r.Stdout)
		}
	}
}

// check names file, line and key of everything that is wrong, at once, and prints the exports of a good file.
func TestCheckCommand(t *testing.T) {
	bin := capstanBinary(t)
	ctx := Context(t)
	file := filepath.Join(TempDir(t), "capstan.yaml")
	check := func(text string) (Result, error) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return runCommand(ctx, procSpec{argv: []string{bin, "check", "-c", file}})
	}
	r, err := check(`server:
  listen: 127.0.0.1:2049
  colour: blue
nfs:
  lease: soon
exports:
  - path: relative
    id: 1
    engine: memory
    access: [{clients: "*"}]
  - path: /two
    id: 1
    engine: floppy
    access: [{clients: "10.0.0.0/99", access: maybe}]
`)
	if err == nil || r.Code != 1 {
		t.Errorf("exit code %d, %v", r.Code, err)
	}
	for _, want := range []string{`:3: server.colour: `, `:5: nfs.lease: `, `:7: exports[0].path: `, `:13: exports[1].engine: `, `:14: exports[1].access[0].clients`, `:14: exports[1].access[0].access`} {
		if !strings.Contains(r.Stderr, file+want) {
			t.Errorf("no %q in\n%s", want, r.Stderr)
		}
	}
	if r, err := check("exports: [\n"); err == nil || !strings.Contains(r.Stderr, file+":") {
		t.Errorf("a file that is no YAML: %q, %v", r.Stderr, err)
	}
	if r, err := runCommand(ctx, procSpec{argv: []string{bin, "check", "-c", file + ".absent"}}); err == nil || !strings.Contains(r.Stderr, "no such file") {
		t.Errorf("a file that is not there: %q, %v", r.Stderr, err)
	}
	r, err = check(`exports:
  - {path: /a, id: 7, engine: memory, read_only: true, access: [{clients: "*"}]}
  - {path: /b/c, id: 8, engine: local, local: {root: /srv}, versions: [3, "4.2"], squash: all, access: [{clients: [10.0.0.0/8, "*.example"], access: ro, squash: none}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`/a +7 +memory +3 4\.1 4\.2 +root +\*\(ro\)`, `/b/c +8 +local +3 4\.2 +all +10\.0\.0\.0/8 \*\.example\(ro,squash=none\)`} {
		if !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("no %q in\n%s", want, r.Stdout)
		}
	}
}

// check --online says what is missing at the cluster.
func TestCheckOnline(t *testing.T) {
	requireLibCephFS(t)
	c := lab.Cluster(t)
	n := lab.Net(t)
	bin := capstanBinary(t)
	ctx := longContext(t, 4*time.Minute)
	dir := TempDir(t)
	if err := c.AddClient(ctx, "nomds", "mon", "allow r", "osd", "allow rw tag cephfs data="+c.FSName()); err != nil {
		t.Fatal(err)
	}
	if err := c.Authorize(ctx, "subtree", c.FSName(), "/", "rw"); err != nil {
		t.Fatal(err)
	}
	secret, err := c.Secret(ctx, "nomds")
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "wrong.keyring")
	if err := os.WriteFile(wrong, []byte("[client.subtree]\n\tkey = "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	noMons := filepath.Join(dir, "nomons.conf")
	if err := os.WriteFile(noMons, []byte("[global]\nmon host = 10.99.0.1:1\nkeyring = "+c.Keyring("admin")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, settings string
		want           []string // "" for no fault
	}{
		{"good", fmt.Sprintf("conf: %s, name: subtree, keyring: %s, filesystem: %s", c.ConfPath(), c.Keyring("subtree"), c.FSName()), nil},
		{"wrong-key", fmt.Sprintf("conf: %s, name: subtree, keyring: %s", c.ConfPath(), wrong), []string{"client.subtree", "wrong key"}},
		{"no-caps", fmt.Sprintf("conf: %s, name: nomds, keyring: %s", c.ConfPath(), c.Keyring("nomds")), []string{"client.nomds", "capabilities", "mds"}},
		{"no-key", fmt.Sprintf("conf: %s, name: nobody", c.ConfPath()), []string{"client.nobody", "key"}},
		{"no-fs", fmt.Sprintf("conf: %s, filesystem: nosuchfs", c.ConfPath()), []string{"nosuchfs"}},
		{"no-root", fmt.Sprintf("conf: %s, root: /no/such/directory", c.ConfPath()), []string{"/no/such/directory"}},
		{"no-mon", fmt.Sprintf("conf: %s, options: {client_mount_timeout: \"4\"}", noMons), []string{"10.99.0.1:1", "connection refused"}},
		{"no-conf", fmt.Sprintf("conf: %s", filepath.Join(dir, "absent.conf")), []string{"absent.conf", "file does not exist"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			Peer(t, "ceph")
			file := filepath.Join(dir, tc.name+".yaml")
			text := fmt.Sprintf("server: {state_dir: %q}\nexports:\n  - {path: /c, id: 1, engine: libcephfs, libcephfs: {%s}, access: [{clients: \"*\"}]}\n", dir, tc.settings)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			r, err := n.Run(ctx, bin, "check", "--online", "--timeout", "60s", "-c", file)
			t.Logf("%.1f s: %s%s", time.Since(start).Seconds(), r.Stdout, r.Stderr)
			if tc.want == nil {
				if err != nil || !strings.Contains(r.Stdout, "/c: ok") {
					t.Errorf("%v", err)
				}
				return
			}
			if r.Code != 1 {
				t.Errorf("exit code %d, %v", r.Code, err)
			}
			for _, w := range tc.want {
				if !strings.Contains(r.Stdout, w) {
					t.Errorf("%q is not named", w)
				}
			}
		})
	}
}

// check --online does not disturb a gateway that serves the same configuration.
func TestCheckOnlineBesideGateway(t *testing.T) {
	s := ownTree(t, "libcephfs", gatewayConfig{lease: "20s"})
	g := lab.Guest(t, 0)
	ctx := Context(t)
	at := mustMount(t, g, s.gw.mount("4.2", s.path()))
	c := startTool(t, ctx, g, GuestCommand{}, "control")
	c.must("open %s/f c", at)
	c.must("put 0 0 before")
	r, err := s.gw.Command(ctx, "check", "--online", "-c", s.gw.ConfigPath)
	if err != nil || !strings.Contains(r.Stdout, s.path()+": ok") {
		t.Errorf("%+v, %v", r, err)
	}
	c.must("write 0 6 -and-after")
	dropCaches(t, ctx, g)
	if got := c.must("read 0 0 20"); got != "before-and-after" {
		t.Errorf("read %q", got)
	}
	c.close()
	mustSh(t, ctx, g, `mkdir "$1/d" && rmdir "$1/d"`, at)
}

// status shows who is there and what they have open, for people and for programs.
func TestStatusCommand(t *testing.T) {
	s := ownTree(t, "memory", gatewayConfig{lease: "20s"})
	g := lab.Guest(t, 0)
	ctx := Context(t)
	at := mustMount(t, g, s.gw.mount("4.2", s.path()))
	c := startTool(t, ctx, g, GuestCommand{}, "control")
	for i := range 3 {
		c.must("open %s/f%d c", at, i)
	}
	c.must("lock 0 w 0 10 try")
	c.must("lock 0 w 20 10 try")
	r, err := s.gw.Command(ctx, "status", "--socket", s.gw.control)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`capstan \S+, up \S+, on .*10\.99\.0\.1:\d+`, `EXPORT +ID +ENGINE`, `/t +1 +memory +rw +.*4\.2.* +ok`,
		`NFSv4: 1 clients \(0 expired\), [1-9]\d* sessions, 3 opens, 1 locks`, g.IP() + `:\d+ +4\.2 +\d+ +3 +1 .*Linux NFSv4\.2 guest0`,
	} {
		if !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("no %q in\n%s", want, r.Stdout)
		}
	}
	if r, err = s.gw.Command(ctx, "status", "-c", s.gw.ConfigPath, "--json"); err != nil {
		t.Fatal(err)
	}
	var st server.Status
	if err := json.Unmarshal([]byte(r.Stdout), &st); err != nil {
		t.Fatal(err)
	}
	if len(st.Exports) != 1 || st.Exports[0].Path != s.path() || st.NFS4.Counts.Opens != 3 || len(st.NFS4.Clients) != 1 || st.RPC.Conns < 1 {
		t.Errorf("as JSON: %s", r.Stdout)
	}
	for i := range 3 {
		c.must("close %d", i)
	}
	if err := poll(ctx, "the opens to go", func() (bool, error) {
		st, err := s.gw.status(ctx)
		return err == nil && st.NFS4.Counts.Opens == 0 && st.NFS4.Counts.Locks == 0, err
	}); err != nil {
		t.Error(err)
	}
	c.close()
	if r, err := s.gw.Command(ctx, "status", "--socket", s.gw.control+".absent"); err == nil || !strings.Contains(r.Stderr, "no server answers") {
		t.Errorf("without a server: %q, %v", r.Stderr, err)
	}
}

// get fetches a page of the gateway's HTTP server.
func get(ctx context.Context, n *Net, url string) (int, string, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestMetricsAndHealth(t *testing.T) {
	n := lab.Net(t)
	ctx := Context(t)
	ports, err := freePorts(ctx, n, ServerIP, 1)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("%s:%d", ServerIP, ports[0])
	s := ownTree(t, "memory", gatewayConfig{server: "  metrics: " + addr + "\n"})
	g := lab.Guest(t, 0)
	for _, version := range []string{"3", "4.2"} {
		at := mustMount(t, g, s.gw.mount(version, s.path()))
		mustSh(t, ctx, g, `dd if=/dev/zero of="$1/f" bs=1M count=4 status=none; sync; stat "$1/f" >/dev/null`, at)
	}
	code, body, err := get(ctx, n, "http://"+addr+"/metrics")
	if err != nil || code != 200 {
		t.Fatalf("%d, %v", code, err)
	}
	for _, want := range []string{
		`(?m)^capstan_rpc_calls_total\{procedure="write",program="nfs3",result="ok"\} [1-9]`,
		`(?m)^capstan_rpc_calls_total\{procedure="compound",program="nfs4",result="ok"\} [1-9]`,
		`(?m)^capstan_connections [1-9]`, `(?m)^capstan_rpc_received_bytes_total [4-9]\.\d+e\+06|(?m)^capstan_rpc_received_bytes_total \d{7}`,
		`(?m)^capstan_build_info\{version=`, `(?m)^go_goroutines `, `(?m)^process_open_fds `,
	} {
		if !regexp.MustCompile(want).MatchString(body) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if code, body, err := get(ctx, n, "http://"+addr+"/healthz"); err != nil || code != 200 || body != "ok\n" {
		t.Errorf("healthz: %d %q %v", code, body, err)
	}
	if code, _, err := get(ctx, n, "http://"+addr+"/other"); err != nil || code != 404 {
		t.Errorf("another page: %d %v", code, err)
	}
}

// notified collects what a service tells its manager.
type notified struct {
	c *net.UnixConn

	mu    sync.Mutex
	lines []string // guarded by mu
}

func listenAll(tb testing.TB, path string) *notified {
	tb.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		tb.Fatal(err)
	}
	n := &notified{c: c}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			k, err := c.Read(b)
			if err != nil {
				return
			}
			n.mu.Lock()
			n.lines = append(n.lines, strings.Split(strings.TrimSpace(string(b[:k])), "\n")...)
			n.mu.Unlock()
		}
	}()
	tb.Cleanup(func() { c.Close(); <-done })
	return n
}

func (n *notified) said() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var l []string
	for _, s := range n.lines {
		name, value, _ := strings.Cut(s, "=")
		if name != "MONOTONIC_USEC" && name != "STATUS" {
			l = append(l, name+"="+value)
		}
	}
	return strings.Join(l, " ")
}

// The service manager hears of start, reload and stop, and of life in between if it asks for that.
func TestServiceNotification(t *testing.T) {
	Require(t, NeedRoot)
	dir := TempDir(t)
	ctx := Context(t)
	n := listenAll(t, dir+"/manager")
	gw := ownGateway(t, gatewayConfig{dir: dir, exports: []string{memoryExport("/m", 1)}, env: []string{"NOTIFY_SOCKET=" + dir + "/manager"}})
	expect := func(want string) {
		t.Helper()
		if err := poll(ctx, want, func() (bool, error) { return n.said() == want, nil }); err != nil {
			t.Fatalf("%v; heard %q", err, n.said())
		}
	}
	expect("READY=1")
	if err := gw.Reload(gatewayConfig{exports: []string{memoryExport("/m", 1), memoryExport("/n", 2)}}.text(dir, gw.port)); err != nil {
		t.Fatal(err)
	}
	expect("READY=1 RELOADING=1 READY=1")
	if err := gw.Reload("exports: 7"); err != nil {
		t.Fatal(err)
	}
	expect("READY=1 RELOADING=1 READY=1 RELOADING=1 READY=1")
	if err := gw.Stop(); err != nil {
		t.Error(err)
	}
	expect("READY=1 RELOADING=1 READY=1 RELOADING=1 READY=1 STOPPING=1")
}

// Reloads add, change and remove exports while clients work on another; a bad file changes nothing and says why.
func TestReloadUnderLoad(t *testing.T) {
	g := lab.Guest(t, 0)
	ctx := longContext(t, 5*time.Minute)
	base := localExport("/base", 1, "DIR/local")
	gw := ownGateway(t, gatewayConfig{exports: []string{base}})
	var load []*session
	for i, version := range []string{"3", "4.2"} {
		// soft: an answer that does not come is an error too.
		at := mustMount(t, g, gw.mount(version, "/base", "soft", "timeo=300"))
		load = append(load, startTool(t, ctx, g, GuestCommand{}, "records", fmt.Sprintf("%s/r%d", at, i), "1", "1000000"))
		load = append(load, startTool(t, ctx, g, GuestCommand{}, "save", at+"/"+mustSh(t, ctx, g, `mktemp -d "$1/XXXX" | xargs basename | tr -d '\n'`, at), "1000000"))
	}
	bad := 0
	for i := range sized(50, 500) {
		want := []string{"/base"}
		exports := []string{base}
		for j := range i % 4 {
			// One that comes and goes, and one whose settings change.
			exports = append(exports, fmt.Sprintf(`{path: /extra%d, id: %d, engine: memory, read_only: %t, access: [{clients: "10.0.%d.0/24"}]}`, j, 10+j, i%2 == 0, i%200))
			want = append(want, fmt.Sprintf("/extra%d", j))
		}
		text := gatewayConfig{exports: exports}.text(gw.dir, gw.port)
		if i%10 == 5 {
			bad++
			if err := gw.Reload(text + "  - {path: /bad, id: 99, engine: memory, acess: []}\n"); err != nil {
				t.Fatal(err)
			}
			if err := poll(ctx, "the refusal", func() (bool, error) {
				b, err := os.ReadFile(gw.LogPath)
				return strings.Count(string(b), "reload refused") == bad, errors.Join(err, gw.Err())
			}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := gw.Reload(text); err != nil {
			t.Fatal(err)
		}
		if err := poll(ctx, fmt.Sprint("exports ", want), func() (bool, error) {
			st, err := gw.status(ctx)
			if err != nil {
				return false, errors.Join(err, gw.Err())
			}
			var got []string
			for _, e := range st.Exports {
				got = append(got, e.Path)
			}
			return strings.Join(sorted(got), " ") == strings.Join(sorted(want), " "), nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range load {
		select {
		case <-l.job.Done():
			_, err := l.job.Wait()
			t.Errorf("load %d ended: %v", i, err)
		default:
			l.job.Kill()
		}
	}
	b, err := os.ReadFile(gw.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`problem=.*|key=exports\[\d\]\.acess`).Match(b) || !strings.Contains(string(b), "exports[") {
		t.Errorf("the log does not name line and key of the fault:\n%s", gw.Log(10))
	}
}

// SIGTERM while clients write: what runs is finished, data are kept, nothing is left, the exit code is 0; clients
// go on with the next start.
func TestStopUnderLoad(t *testing.T) {
	for _, engine := range []string{"local", "libcephfs"} {
		t.Run(engine, func(t *testing.T) {
			s := ownTree(t, engine, gatewayConfig{lease: "5s"})
			g := lab.Guest(t, 0)
			ctx := longContext(t, 5*time.Minute)
			var writers []*session
			for i, version := range versions {
				at := mustMount(t, g, s.gw.mount(version, s.path()))
				writers = append(writers, startTool(t, ctx, g, GuestCommand{}, "stream", fmt.Sprintf("%s/s%d", at, i), fmt.Sprint(i), fmt.Sprint(sized(32, 256))))
			}
			for i := range 2 {
				if err := poll(ctx, "data to flow", func() (bool, error) {
					out, err := s.w.sh(ctx, `stat -c %s s0 s1 s2 2>/dev/null | awk '{ n += $1 } END { print n }'`)
					var n int
					_, _ = fmt.Sscan(out, &n) // nothing there yet
					return n > (i+1)*6<<20, err
				}); err != nil {
					t.Fatal(err)
				}
				if err := s.gw.Stop(); err != nil {
					t.Errorf("stop %d: %v", i, err)
				}
				if _, err := os.Stat(s.gw.control); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the control socket is left: %v", err)
				}
				log := s.gw.Log(10)
				if a, b := strings.Index(log, "msg=stopping"), strings.LastIndex(log, "msg=stopped"); a < 0 || b < a {
					t.Errorf("no orderly end in the log:\n%s", log)
				}
				if err := s.gw.Start(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for i, w := range writers {
				out := w.wait()
				if got := s.w.sum(t, ctx, fmt.Sprintf("s%d", i)); len(out) != 1 || out[0] != got {
					t.Errorf("writer %d: the checksum is %s, was written as %v", i, got, out)
				}
			}
		})
	}
}

// A cluster that is down when the gateway starts keeps no other export from being served; its own clients wait, and
// go on once it is there.
func TestStartBeforeCluster(t *testing.T) {
	requireLibCephFS(t)
	Require(t, NeedRoot, NeedCeph, NeedGuest)
	n := lab.Net(t)
	ctx := longContext(t, 4*time.Minute)
	cluster, err := StartCluster(ctx, TempDir(t), ClusterOptions{Net: n, StoreMB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	Peer(t, "ceph")
	cluster.Daemon("mon.a").Kill()
	start := time.Now()
	gw := ownGateway(t, gatewayConfig{exports: []string{
		memoryExport("/mem", 1),
		fmt.Sprintf(`{path: /ceph, id: 2, engine: libcephfs, libcephfs: {conf: %s, options: {client_mount_timeout: "5"}}, squash: none, access: [{clients: "*"}]}`, cluster.ConfPath()),
	}})
	t.Logf("serving after %.1f s", time.Since(start).Seconds())
	g := lab.Guest(t, 0)
	at := mustMount(t, g, gw.mount("4.2", "/mem"))
	mustSh(t, ctx, g, `echo x >"$1/f"; cat "$1/f"`, at)
	st, err := gw.status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Exports) != 2 || st.Exports[0].Error != "" || st.Exports[1].Error == "" {
		t.Errorf("status: %+v", st.Exports)
	}
	root := mustMount(t, g, gw.mount("4.2", "/"))
	waiting := g.Exec(ctx, GuestCommand{Argv: []string{"sh", "-ec", `mkdir "$1/ceph/d"; echo late >"$1/ceph/d/f"; cat "$1/ceph/d/f"`, "sh", root}})
	select {
	case <-waiting.Done():
		r, err := waiting.Wait()
		t.Fatalf("a client of the missing cluster did not wait: %+v, %v", r, err)
	case <-time.After(5 * time.Second):
	}
	if err := cluster.Daemon("mon.a").Start(); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if r, err := waiting.Wait(); err != nil || r.Stdout != "late\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
	t.Logf("the client went on %.1f s after the cluster came", time.Since(start).Seconds())
	if st, err := gw.status(ctx); err != nil || st.Exports[1].Error != "" {
		t.Errorf("status: %+v, %v", st.Exports, err)
	}
}
