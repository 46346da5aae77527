package mon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
)

// Three real monitors are killed one by one, the one in use each time, and
// started again, while maps are followed and commands given. It needs a
// cluster of its own: CAPSTAN_TEST_CEPH_KILL=1 says that this may be done to
// the one that CAPSTAN_TEST_CEPH_CONF names. CAPSTAN_TEST_ROUNDS says how many.
func TestLiveMonitorsKilled(t *testing.T) {
	o := live(t, "client.admin")
	if os.Getenv("CAPSTAN_TEST_CEPH_KILL") == "" {
		t.Skip("CAPSTAN_TEST_CEPH_KILL is not set: monitors are not to be killed")
	}
	c := open(t, o, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	id := c.GlobalID()

	var mu sync.Mutex
	have, gaps := uint64(0), 0
	c.Subscribe(mon.WhatOSDMap, 0, func(u *mon.Update) uint64 {
		mu.Lock()
		defer mu.Unlock()
		d := denc.NewDecoder(u.Front)
		d.FSID("fsid")
		first := uint64(0)
		for range d.Count("incremental", 8) {
			if e := uint64(d.Uint32("epoch")); first == 0 || e < first {
				first = e
			}
			d.Bytes("map")
		}
		if have != 0 && first > have+1 {
			gaps++
		}
		have = max(have, u.Epoch)
		return have
	})
	rounds := 6
	if s := os.Getenv("CAPSTAN_TEST_ROUNDS"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		name, _, ok := c.Monitor()
		if !ok {
			t.Fatal("no monitor")
		}
		kill(t, o, name)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				r, err := c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "status"}})
				if err != nil || len(r.Output) == 0 {
					t.Errorf("round %d: %v", round, err)
				}
				// Each is a change of the osdmap.
				_, err = c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "osd blocklist", "blocklistop": "add", "addr": fmt.Sprintf("192.0.2.%d:0/%d", round+1, i+1), "expire": 60.0}})
				if err != nil && !errors.Is(err, mon.ErrOutcomeUnknown) {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		now, _, _ := c.Monitor()
		t.Logf("round %d: %s was killed, %s is used, commands done after %v", round, name, now, time.Since(start).Round(time.Millisecond))
		restart(t, o, name)
		for {
			var q struct {
				Quorum []int `json:"quorum"`
			}
			r, err := c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "quorum_status"}})
			if err != nil {
				t.Fatal(err)
			}
			if r.Decode(&q) == nil && len(q.Quorum) == 3 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	newest, _, err := c.Version(ctx, mon.WhatOSDMap)
	if err != nil {
		t.Fatal(err)
	}
	for {
		mu.Lock()
		h, g := have, gaps
		mu.Unlock()
		if g != 0 {
			t.Fatalf("%d gaps", g)
		}
		if h >= newest {
			t.Logf("osdmap %d, newest was %d", h, newest)
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("osdmap %d, newest is %d", h, newest)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if c.GlobalID() != id {
		t.Errorf("id %d after %d", c.GlobalID(), id)
	}
}

// Tickets of a few seconds are renewed by a real monitor, over the session and,
// the client's own, by new sessions. It too needs a cluster of its own.
func TestLiveRenewal(t *testing.T) {
	o := live(t, "client.admin")
	if os.Getenv("CAPSTAN_TEST_CEPH_KILL") == "" {
		t.Skip("CAPSTAN_TEST_CEPH_KILL is not set: settings are not to be changed")
	}
	for option, value := range map[string]string{"auth_service_ticket_ttl": "8", "auth_mon_ticket_ttl": "24"} {
		ceph(t, "config", "set", "mon", option, value)
		t.Cleanup(func() { ceph(t, "config", "rm", "mon", option) })
	}
	c := open(t, o, func(_ *auth.Options, mo *mon.Options) { mo.Logger = slog.New(slog.NewTextHandler(t.Output(), nil)) })
	a := mon.AuthOf(c)
	if err := c.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	id := c.GlobalID()
	for end := time.Now().Add(50 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, s := range []denc.EntityType{denc.TypeMgr, denc.TypeOSD, denc.TypeMDS} {
			// A monitor that is slower than the tickets are short leaves a gap.
			for late := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
				_, err := a.Begin(s)
				if err == nil {
					break
				}
				if !errors.Is(err, auth.ErrNoTicket) || time.Now().After(late) {
					t.Fatal(err)
				}
			}
		}
		if _, err := c.Command(within(t), mon.Command{Args: mon.Args{"prefix": "fsid"}}); err != nil {
			t.Fatal(err)
		}
	}
	if c.GlobalID() != id {
		t.Errorf("id %d after %d", c.GlobalID(), id)
	}
}

// monConfig is what the configuration says of one monitor.
func monConfig(t *testing.T, o auth.LoadOptions, name string) *auth.Config {
	t.Helper()
	o.Name = denc.EntityName{Type: denc.TypeMon, ID: name}
	cfg, err := auth.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// kill kills a monitor: itself, by its pid file, or by whoever keeps the
// daemons, who listens on the socket that CAPSTAN_TEST_CEPH_DAEMONS names.
func kill(t *testing.T, o auth.LoadOptions, name string) {
	t.Helper()
	if keeper(t, "kill mon."+name) {
		return
	}
	file, _ := monConfig(t, o, name).Get("pid file")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func restart(t *testing.T, o auth.LoadOptions, name string) {
	t.Helper()
	if keeper(t, "start mon."+name) {
		return
	}
	if out, err := exec.Command("ceph-mon", "-c", o.Conf, "-i", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// keeper tells the keeper of the daemons to do something, if there is one: a
// line, which is answered by "ok" or by what went wrong.
func keeper(t *testing.T, order string) bool {
	t.Helper()
	socket := os.Getenv("CAPSTAN_TEST_CEPH_DAEMONS")
	if socket == "" {
		return false
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, order); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || string(answer) != "ok\n" {
		t.Fatalf("%s: %s %v", order, answer, err)
	}
	return true
}

// A cluster without authentication lets anybody in, with or without a key.
func TestLiveNone(t *testing.T) {
	o := live(t, "client.admin")
	cfg, err := auth.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := cfg.Methods(); err != nil || len(m) == 0 || m[0] != auth.MethodNone {
		t.Skip("the cluster wants cephx")
	}
	key, _ := auth.NewKey(auth.KeyAES)
	for _, methods := range [][]uint32{{auth.MethodNone}, {auth.MethodCephx, auth.MethodNone}} {
		c := open(t, o, func(a *auth.Options, _ *mon.Options) { a.Key, a.Methods = key, methods })
		if _, err := c.Command(within(t), mon.Command{Args: mon.Args{"prefix": "quorum_status"}}); err != nil {
			t.Errorf("%d: %v", methods, err)
		}
	}
	c := open(t, o, func(a *auth.Options, _ *mon.Options) { a.Key = key })
	if err := c.Ready(within(t)); !errors.Is(err, auth.ErrMethod) {
		t.Errorf("cephx only: %v", err)
	}
}
