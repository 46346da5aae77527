package mon_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/msgr"
	"capstan/internal/testutil"
)

// live gives the configuration of the cluster that CAPSTAN_TEST_CEPH_CONF
// names, for a user that it makes if caps are given.
func live(t *testing.T, name string, caps ...string) auth.LoadOptions {
	t.Helper()
	conf := os.Getenv("CAPSTAN_TEST_CEPH_CONF")
	if conf == "" {
		t.Skip("CAPSTAN_TEST_CEPH_CONF names no cluster")
	}
	n, err := denc.ParseEntityName(name)
	if err != nil {
		t.Fatal(err)
	}
	o := auth.LoadOptions{Conf: conf, Name: n, Getenv: func(string) string { return "" }}
	if name == "client.admin" {
		return o
	}
	o.Keyring = t.TempDir() + "/keyring"
	if err := os.WriteFile(o.Keyring, ceph(t, append([]string{"auth", "get-or-create", name}, caps...)...), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ceph(t, "auth", "rm", name) })
	return o
}

// ceph runs the ceph tool, or in its place what CAPSTAN_TEST_CEPH_TOOL names,
// and returns its output. Tools older than 20.2 do not know its keys.
func ceph(t *testing.T, args ...string) []byte {
	t.Helper()
	tool := os.Getenv("CAPSTAN_TEST_CEPH_TOOL")
	if tool == "" {
		tool = "ceph"
	}
	cmd := exec.Command(tool, append([]string{"-c", os.Getenv("CAPSTAN_TEST_CEPH_CONF")}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ceph %v: %v\n%s", args, err, errs.String())
	}
	return out
}

// open connects to the cluster; change may change the options.
func open(t *testing.T, o auth.LoadOptions, change func(*auth.Options, *mon.Options)) *mon.Client {
	t.Helper()
	testutil.NoLeaks(t)
	cfg, err := auth.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	key, err := cfg.Key()
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := cfg.Monitors(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ao, mo := auth.Options{Name: cfg.Name, Key: key}, mon.Options{Monitors: addrs}
	if change != nil {
		change(&ao, &mo)
	}
	a, err := auth.New(ao)
	if err != nil {
		t.Fatal(err)
	}
	m := msgr.New(msgr.Options{Auth: a})
	t.Cleanup(m.Close)
	mo.Auth, mo.Messenger = a, m
	c, err := mon.New(mo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func decode(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	return v
}

func TestLiveCommands(t *testing.T) {
	for _, mode := range []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure} {
		c := open(t, live(t, "client.admin"), func(a *auth.Options, _ *mon.Options) {
			a.MonModes, a.ServiceModes = []msgr.AuthMode{mode}, []msgr.AuthMode{mode}
		})
		ctx := within(t)
		if err := c.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		if id := strings.TrimSpace(string(ceph(t, "fsid"))); c.FSID().String() != id || c.GlobalID() == 0 {
			t.Errorf("fsid %v, want %s; id %d", c.FSID(), id, c.GlobalID())
		}
		for _, words := range []string{"osd pool ls", "fs ls", "osd dump", "mon dump", "osd tree", "osd crush dump", "auth ls", "versions"} {
			var got, want any
			for range 5 { // maps change while somebody else works on the cluster
				r, err := c.Command(ctx, mon.Command{Args: mon.Args{"prefix": words}})
				if err != nil {
					t.Fatalf("%s: %v", words, err)
				}
				got, want = decode(t, r.Output), decode(t, ceph(t, append(strings.Fields(words), "-f", "json")...))
				if reflect.DeepEqual(got, want) {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", words, diff)
			}
		}
		r, err := c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "status"}})
		var status struct{ FSID string }
		if err != nil || r.Decode(&status) != nil || status.FSID != c.FSID().String() {
			t.Errorf("status: %v, %v", r, err)
		}
		r, err = c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "fsid", "format": ""}})
		if err != nil || strings.TrimSpace(string(r.Output)) != c.FSID().String() {
			t.Errorf("fsid as text: %v, %v", r, err)
		}
		var e *mon.CommandError
		if _, err = c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "no such command"}}); !errors.As(err, &e) || e.Errno != syscall.EINVAL {
			t.Errorf("%v", err)
		}
		if _, err = c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "osd pool get", "pool": "capstan-none", "var": "size"}}); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%v", err)
		}
		newest, oldest, err := c.Version(ctx, mon.WhatOSDMap)
		if err != nil || newest == 0 || oldest == 0 || oldest > newest {
			t.Errorf("osdmap %d to %d, %v", oldest, newest, err)
		}
		// Input goes with a command, and comes back.
		set := mon.Command{Args: mon.Args{"prefix": "config-key set", "key": "capstan/test"}, Input: []byte("some\x00thing")}
		if _, err := c.Command(ctx, set); err != nil {
			t.Error(err)
		}
		r, err = c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "config-key get", "key": "capstan/test", "format": ""}})
		if err != nil || string(r.Output) != "some\x00thing" {
			t.Errorf("%v, %v", r, err)
		}
		c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "config-key rm", "key": "capstan/test"}})
	}
}

func TestLiveTell(t *testing.T) {
	for _, mode := range []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure} {
		c := open(t, live(t, "client.admin"), func(a *auth.Options, _ *mon.Options) {
			a.MonModes, a.ServiceModes = []msgr.AuthMode{mode}, []msgr.AuthMode{mode}
		})
		ctx := within(t)
		r, err := c.MgrCommand(ctx, mon.Command{Args: mon.Args{"prefix": "pg dump", "dumpcontents": []string{"pools"}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := decode(t, r.Output).(map[string]any); !ok || len(got) == 0 {
			t.Errorf("pg dump: %.200s", r.Output)
		}
		for _, daemon := range []string{"osd.0", "mds.a", "mgr", "mgr.x", "mon.a"} {
			r, err := c.Tell(ctx, daemon, mon.Command{Args: mon.Args{"prefix": "version"}})
			if err != nil {
				t.Errorf("%s: %v", daemon, err)
				continue
			}
			var v struct{ Version string }
			if err := r.Decode(&v); err != nil || v.Version == "" {
				t.Errorf("%s: %s, %v", daemon, r.Output, err)
			}
			t.Logf("%s: %s", daemon, r.Output)
		}
		for _, daemon := range []string{"osd.99", "mds.none", "mgr.none", "mon.none"} {
			if _, err := c.Tell(ctx, daemon, mon.Command{Args: mon.Args{"prefix": "version"}}); err == nil {
				t.Errorf("%s answered", daemon)
			} else {
				t.Log(err)
			}
		}
		if _, err := c.Tell(ctx, "osd.0", mon.Command{Args: mon.Args{"prefix": "no such"}}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v", err)
		}
	}
}

func TestLiveMaps(t *testing.T) {
	c := open(t, live(t, "client.admin"), nil)
	ctx := within(t)
	type got struct {
		what  mon.What
		epoch uint64
	}
	updates := make(chan got, 64)
	for _, w := range []mon.What{mon.WhatOSDMap, mon.WhatMDSMap, mon.WhatFSMap, mon.WhatFSMapUser, mon.WhatMgrMap, mon.WhatMonMap, mon.WhatConfig} {
		c.Subscribe(w, 0, func(u *mon.Update) uint64 {
			updates <- got{u.What, u.Epoch}
			return u.Epoch
		})
	}
	seen := map[mon.What]uint64{}
	for len(seen) < 7 {
		select {
		case g := <-updates:
			seen[g.what] = g.epoch
		case <-ctx.Done():
			t.Fatalf("only %v", seen)
		}
	}
	t.Log(seen)
	newest, _, err := c.Version(ctx, mon.WhatOSDMap)
	if err != nil || seen[mon.WhatOSDMap] > newest {
		t.Errorf("osdmap %d, newest %d, %v", seen[mon.WhatOSDMap], newest, err)
	}
	// A change is told.
	if _, err := c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "osd blocklist", "blocklistop": "add", "addr": "192.0.2.99:0/1", "expire": 1.0}}); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case g := <-updates:
			if g.what == mon.WhatOSDMap && g.epoch > newest {
				return
			}
		case <-ctx.Done():
			t.Fatal("the change was not told")
		}
	}
}

func TestLiveRefused(t *testing.T) {
	check := func(name string, c *mon.Client) {
		t.Helper()
		err := c.Ready(within(t))
		if !errors.Is(err, auth.ErrRefused) || !errors.Is(err, syscall.EACCES) {
			t.Errorf("%s: %v", name, err)
		}
		t.Log(err)
		if _, err := c.Command(within(t), mon.Command{Args: mon.Args{"prefix": "status"}}); !errors.Is(err, auth.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrong, _ := auth.NewKey(auth.KeyAES)
	check("wrong key", open(t, live(t, "client.admin"), func(a *auth.Options, _ *mon.Options) { a.Key = wrong }))
	check("unknown user", open(t, live(t, "client.admin"), func(a *auth.Options, _ *mon.Options) { a.Name.ID = "nobody" }))
	check("no mon caps", open(t, live(t, "client.capstan-nocaps"), nil))

	c := open(t, live(t, "client.capstan-ro", "mon", "allow r"), nil)
	if err := c.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Command(within(t), mon.Command{Args: mon.Args{"prefix": "osd pool create", "pool": "capstan-x"}})
	if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "caps") {
		t.Errorf("%v", err)
	}
	t.Log(err)
	_, err = c.Tell(within(t), "osd.0", mon.Command{Args: mon.Args{"prefix": "version"}})
	t.Log(err)
	if err == nil {
		t.Error("a user without osd caps may command an OSD")
	}

	c = open(t, live(t, "client.admin"), func(_ *auth.Options, o *mon.Options) { o.FSID = [16]byte{1} })
	if err := c.Ready(within(t)); !errors.Is(err, mon.ErrWrongCluster) {
		t.Errorf("%v", err)
	}
}

// A clock that is wrong by a day does no harm.
func TestLiveWrongClock(t *testing.T) {
	for _, skew := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		c := open(t, live(t, "client.admin"), func(a *auth.Options, _ *mon.Options) {
			a.Now = func() time.Time { return time.Now().Add(skew) }
		})
		if _, err := c.Tell(within(t), "osd.0", mon.Command{Args: mon.Args{"prefix": "version"}}); err != nil {
			t.Errorf("%v: %v", skew, err)
		}
	}
}
