package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestClusterAnswers(t *testing.T) {
	c := lab.Cluster(t)
	ctx := Context(t)
	var st struct {
		FSID   string `json:"fsid"`
		OSDMap struct {
			NumUp int `json:"num_up_osds"`
		} `json:"osdmap"`
		FSMap struct {
			Up int `json:"up"`
		} `json:"fsmap"`
	}
	if err := c.Query(ctx, &st, "-s"); err != nil {
		t.Fatal(err)
	}
	if st.FSID != c.FSID() || st.OSDMap.NumUp != 1 || st.FSMap.Up != 1 {
		t.Errorf("ceph -s: %+v", st)
	}
	if err := c.WaitManager(ctx); err != nil {
		t.Error(err)
	}
}

func TestGuestRunsCommands(t *testing.T) {
	g := lab.Guest(t, 0)
	ctx := Context(t)

	r, err := g.Run(ctx, "sh", "-c", "echo out; echo err >&2; exit 7")
	var ce *CommandError
	if !errors.As(err, &ce) || ce.Code != 7 || r.Code != 7 || r.Stdout != "out\n" || r.Stderr != "err\n" {
		t.Errorf("exit 7: %+v, %v", r, err)
	}
	if r, err := g.Run(ctx, "sh", "-c", "kill -9 $$"); err == nil || r.Code != -1 {
		t.Errorf("killed: %+v, %v", r, err)
	}
	if _, err := g.Run(ctx, "/no/such/program"); err == nil {
		t.Error("a program that does not exist ran")
	}
	if r, err := g.Run(ctx, "hostname"); err != nil || r.Stdout != "guest0\n" {
		t.Errorf("hostname: %+v, %v", r, err)
	}
	if r, err := g.RunCommand(ctx, GuestCommand{Argv: []string{"id"}, UID: 1234, GID: 55, Groups: []uint32{66}}); err != nil || !strings.Contains(r.Stdout, "uid=1234 gid=55 groups=55,66") {
		t.Errorf("id: %+v, %v", r, err)
	}

	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := g.WriteFile(ctx, "/tmp/big", big); err != nil {
		t.Fatal(err)
	}
	if b, err := g.ReadFile(ctx, "/tmp/big"); err != nil || !bytes.Equal(b, big) {
		t.Errorf("read back %d bytes, %v", len(b), err)
	}

	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := g.Run(short, "sleep", "1000"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sleep: %v", err)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("the time-out took %s", d)
	}
	if err := poll(ctx, "sleep to be killed", func() (bool, error) {
		r, _ := g.Run(ctx, "pidof", "sleep")
		return r.Stdout == "", nil
	}); err != nil {
		t.Error(err)
	}

	jobs := make([]*GuestJob, 8)
	for i := range jobs {
		jobs[i] = g.Exec(ctx, GuestCommand{Argv: []string{"sh", "-c", fmt.Sprintf("sleep 0.1; echo %d", i)}})
	}
	for i, j := range jobs {
		if r, err := j.Wait(); err != nil || r.Stdout != fmt.Sprintf("%d\n", i) {
			t.Errorf("job %d: %+v, %v", i, r, err)
		}
	}
}

// What a guest writes reaches the host only in its share.
func TestGuestProtectsHost(t *testing.T) {
	g := lab.Guest(t, 0)
	ctx := Context(t)
	// The guest's /tmp is its own: a directory outside of it shows what becomes of the host's files.
	dir, err := os.MkdirTemp("/var", "capstan-lab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(dir+"/host", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Sh(ctx, " echo x > "+dir+"/guest; echo x > /etc/capstan-lab-test; rm "+dir+"/host; echo x > /tmp/capstan-lab-test; echo x > /lab/out"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir + "/guest", "/etc/capstan-lab-test", "/tmp/capstan-lab-test"} {
		if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := os.Stat(dir + "/host"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(g.Share + "/out"); err != nil || string(b) != "x\n" {
		t.Errorf("share: %q, %v", b, err)
	}
}

func TestGuestPowerAndCut(t *testing.T) {
	g := lab.Guest(t, 1)
	ctx := Context(t)
	ping := func() error {
		_, err := g.Run(ctx, "ping", "-c", "1", "-W", "1", ServerIP)
		return err
	}
	for _, argv := range [][]string{{"ping", "-c", "1", "-W", "1", ServerIP}, {"ping", "-6", "-c", "1", "-W", "1", ServerIP6}} {
		if err := poll(ctx, strings.Join(argv, " "), func() (bool, error) {
			_, err := g.Run(ctx, argv...)
			return err == nil, nil
		}); err != nil {
			t.Error(err)
		}
	}
	if err := g.Cut(ctx); err != nil {
		t.Fatal(err)
	}
	if err := ping(); err == nil {
		t.Error("a cut guest reaches the server")
	}
	if err := g.Heal(ctx); err != nil {
		t.Fatal(err)
	}
	if err := poll(ctx, "ping after the cut", func() (bool, error) { return ping() == nil, nil }); err != nil {
		t.Error(err)
	}
	if err := g.WriteFile(ctx, "/tmp/memory", []byte("x")); err != nil {
		t.Error(err)
	}
	job := g.Exec(ctx, GuestCommand{Argv: []string{"sleep", "1000"}})
	g.Kill()
	if _, err := job.Wait(); err == nil {
		t.Error("a command outlived its guest")
	}
	if _, err := g.Run(ctx, "true"); err == nil {
		t.Error("a dead guest runs commands")
	}
	if err := g.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Run(ctx, "test", "!", "-e", "/tmp/memory"); err != nil {
		t.Error("memory survived the loss of power")
	}
}

// Two kernels see one CephFS: what one writes the other reads.
func TestGuestsMountCeph(t *testing.T) {
	c := lab.Cluster(t)
	g0, g1 := lab.Guest(t, 0), lab.Guest(t, 1)
	ctx := Context(t)
	at0 := MountCeph(t, g0, CephMount{Cluster: c})
	at1 := MountCeph(t, g1, CephMount{Cluster: c, Mode: "secure"})
	if _, err := g0.Sh(ctx, "mkdir "+at0+"/d && dd if=/dev/urandom of="+at0+"/d/f bs=1M count=5 status=none && sync -f "+at0); err != nil {
		t.Fatal(err)
	}
	want, err := g0.Run(ctx, "sh", "-c", "sha256sum < "+at0+"/d/f")
	if err != nil {
		t.Fatal(err)
	}
	got, err := g1.Run(ctx, "sh", "-c", "sha256sum < "+at1+"/d/f")
	if err != nil || got.Stdout != want.Stdout {
		t.Errorf("second guest reads %q, %v; first wrote %q", got.Stdout, err, want.Stdout)
	}
	// The cluster itself knows the two clients.
	mds, err := c.ActiveMDS(ctx, c.FSName(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var sessions []struct {
		State    string `json:"state"`
		Metadata struct {
			Hostname string `json:"hostname"`
		} `json:"client_metadata"`
	}
	if err := mds.Ask(ctx, &sessions, "session ls"); err != nil {
		t.Fatal(err)
	}
	hosts := map[string]bool{}
	for _, s := range sessions {
		hosts[s.Metadata.Hostname] = hosts[s.Metadata.Hostname] || s.State == "open" // older ones may be closing
	}
	if !hosts["guest0"] || !hosts["guest1"] {
		t.Errorf("sessions: %+v", sessions)
	}
	if _, err := g1.Run(ctx, "rm", "-r", at1+"/d"); err != nil {
		t.Error(err)
	}
}

// A key with few rights gets no more.
func TestClusterLimitedKey(t *testing.T) {
	c := lab.Cluster(t)
	g := lab.Guest(t, 0)
	ctx := Context(t)
	if err := c.Authorize(ctx, "reader", c.FSName(), "/", "r"); err != nil {
		t.Fatal(err)
	}
	at := MountCeph(t, g, CephMount{Cluster: c, Client: "reader"})
	if _, err := g.Run(ctx, "ls", at); err != nil {
		t.Error(err)
	}
	if r, err := g.Run(ctx, "mkdir", at+"/x"); err == nil || !strings.Contains(r.Stderr, "Permission denied") {
		t.Errorf("mkdir with a reader's key: %+v, %v", r, err)
	}
}

func TestGuestMountsGanesha(t *testing.T) {
	s := lab.Ganesha(t)
	c := lab.Cluster(t)
	g := lab.Guest(t, 0)
	native := MountCeph(t, g, CephMount{Cluster: c})
	for _, version := range []string{"4.1", "4.2", "3"} {
		t.Run("v"+version, func(t *testing.T) {
			ctx := Context(t)
			at := MountNFS(t, g, s.Mount(version))
			file := "/ganesha-" + version
			if err := g.WriteFile(ctx, at+file, []byte(version)); err != nil {
				t.Fatal(err)
			}
			if b, err := g.ReadFile(ctx, native+file); err != nil || string(b) != version {
				t.Errorf("native mount reads %q, %v", b, err)
			}
			if r, err := g.Run(ctx, "stat", "-f", "-c", "%T", at); err != nil || r.Stdout != "nfs\n" {
				t.Errorf("stat -f: %q, %v", r.Stdout, err)
			}
		})
	}
	t.Run("libnfs", func(t *testing.T) {
		Require(t, NeedLibNFS)
		Peer(t, "libnfs nfs3", "nfs-ganesha")
		ctx := Context(t)
		l := s.LibNFS()
		if b, err := l.Cat(ctx, "/ganesha-4.1"); err != nil || string(b) != "4.1" {
			t.Errorf("nfs-cat: %q, %v", b, err)
		}
		if r, err := l.Ls(ctx, "/"); err != nil || !strings.Contains(r.Stdout, "ganesha-4.2") {
			t.Errorf("nfs-ls: %q, %v", r.Stdout, err)
		}
		local := TempDir(t) + "/f"
		if err := os.WriteFile(local, []byte("copied"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := l.Put(ctx, local, "/libnfs"); err != nil {
			t.Error(err)
		}
		if b, err := g.ReadFile(ctx, native+"/libnfs"); err != nil || string(b) != "copied" {
			t.Errorf("native mount reads %q, %v", b, err)
		}
	})
}

// A mount through the proxy survives a cut in the middle of a write.
func TestProxyCutsMount(t *testing.T) {
	s := lab.Ganesha(t)
	g := lab.Guest(t, 0)
	ctx := Context(t)
	p := StartProxy(t, ProxyOptions{Net: lab.Net(t), Server: fmt.Sprintf("%s:%d", ServerIP, s.Port)})
	m := s.Mount("4.1")
	m.Port = p.Port()
	at := MountNFS(t, g, m)
	p.CutAfter(Up, 1<<20)
	if _, err := g.Sh(ctx, "head -c 4194304 /dev/zero | tr '\\0' 'x' > "+at+"/proxy && sync -f "+at); err != nil {
		t.Fatal(err)
	}
	if n := p.Cuts(); n != 1 {
		t.Errorf("%d cuts", n)
	}
	if p.Conns() < 2 {
		t.Error("the client did not connect again")
	}
	if p.Bytes(Up) < 4<<20 {
		t.Errorf("%d bytes up", p.Bytes(Up))
	}
	if _, err := g.Sh(ctx, "echo 3 > /proc/sys/vm/drop_caches; test $(tr -d x < "+at+"/proxy | wc -c) = 0; test $(stat -c %s "+at+"/proxy) = 4194304"); err != nil {
		t.Error(err)
	}
}
