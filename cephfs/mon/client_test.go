package mon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"capstan/cephfs/auth"
	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/msgr"
)

var user = denc.EntityName{Type: denc.TypeClient, ID: "cap"}

// cluster is a scripted cluster with a client, inside a synctest bubble.
type cluster struct {
	t     *testing.T
	net   *cephtest.Network
	cephx *cephtest.Cephx
	mons  *cephtest.Monitors
	auth  *auth.Client
	msgr  *msgr.Messenger
	mon   *mon.Client
	logs  *logs
}

// logs keeps what a client logs.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *logs) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.lines {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// run starts a cluster of monitors and a client, and ends them after f.
func run(t *testing.T, names string, f func(t *testing.T, c *cluster)) {
	runWith(t, names, nil, f)
}

func runWith(t *testing.T, names string, change func(*cluster, *mon.Options, *auth.Options), f func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: cephtest.NewNetwork(), cephx: cephtest.NewCephx(auth.KeyAES256K), logs: &logs{}}
		c.mons = c.net.NewMonitors(c.cephx, strings.Fields(names)...)
		defer c.mons.Close()
		log := slog.New(slog.NewTextHandler(c.logs, nil))
		ao := auth.Options{Name: user, Key: c.cephx.AddUser(user)}
		mo := mon.Options{Monitors: c.mons.Addrs(), Hostname: "host", Logger: log}
		if change != nil {
			change(c, &mo, &ao)
		}
		var err error
		if c.auth, err = auth.New(ao); err != nil {
			t.Fatal(err)
		}
		messenger := func() *msgr.Messenger { return msgr.New(msgr.Options{Auth: c.auth, Dial: c.net.Dial, Logger: log}) }
		c.msgr = messenger()
		defer c.msgr.Close()
		mo.Auth, mo.Messenger, mo.Direct = c.auth, c.msgr, messenger
		if c.mon, err = mon.New(mo); err != nil {
			t.Fatal(err)
		}
		defer c.mon.Close()
		f(t, c)
	})
}

func (c *cluster) ready() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.mon.Ready(ctx); err != nil {
		c.t.Fatal(err)
	}
}

// using is the name of the monitor in use.
func (c *cluster) using() string {
	name, _, _ := c.mon.Monitor()
	return name
}

func command(prefix string) mon.Command { return mon.Command{Args: mon.Args{"prefix": prefix}} }

const typeFSMap = 45

// publish makes an epoch of the fsmap known.
func (c *cluster) publish(epoch uint32) {
	var e denc.Encoder
	e.Uint32(epoch)
	e.Bytes([]byte("fsmap"))
	c.mons.Publish("fsmap", typeFSMap, uint64(epoch), e.Data())
}

func TestReady(t *testing.T) {
	run(t, "a b c", func(t *testing.T, c *cluster) {
		// Nobody has to wait for Ready.
		if _, err := c.mon.Command(t.Context(), command("status")); err != nil {
			t.Error(err)
		}
		c.ready()
		if c.mon.FSID() != c.mons.FSID || c.mon.GlobalID() == 0 || len(c.mon.MonMap().Monitors) != 3 {
			t.Errorf("%v %d %v", c.mon.FSID(), c.mon.GlobalID(), c.mon.MonMap())
		}
		c.mons.OnCommand(func(_ *cephtest.Stream, call *cephtest.CommandCall) {
			call.Answer(0, "fine", fmt.Appendf(nil, "[%q, %q]", call.Args["format"], call.Input))
		})
		cmd := command("status")
		cmd.Input = []byte("in")
		r, err := c.mon.Command(t.Context(), cmd)
		var out []string
		if err != nil || r.Status != "fine" || r.Decode(&out) != nil || !slices.Equal(out, []string{"json", "in"}) {
			t.Errorf("%v, %v", r, err)
		}
		c.publish(7)
		if newest, oldest, err := c.mon.Version(t.Context(), mon.WhatFSMap); newest != 7 || oldest != 1 || err != nil {
			t.Errorf("%d %d %v", newest, oldest, err)
		}
		c.mons.OnCommand(func(_ *cephtest.Stream, call *cephtest.CommandCall) { call.Answer(-2, "not there", nil) })
		var e *mon.CommandError
		if _, err := c.mon.Command(t.Context(), cmd); !errors.As(err, &e) || e.Status != "not there" || e.Target != "mon" || e.Prefix != "status" {
			t.Errorf("%v", err)
		}
	})
}

// The users of a map do not notice that monitors come and go: every epoch
// comes once and in order.
func TestMonitorsLost(t *testing.T) {
	run(t, "a b c", func(t *testing.T, c *cluster) {
		var got []uint64
		c.mon.Subscribe(mon.WhatFSMap, 0, func(u *mon.Update) uint64 {
			got = append(got, u.Epoch)
			return u.Epoch
		})
		c.publish(1)
		c.ready()
		id := c.mon.GlobalID()
		epoch := uint32(1)
		for round := range 12 {
			lost := c.using()
			switch round % 4 {
			case 0:
				c.mons.Peer(lost).ResetAll()
			case 1:
				c.mons.Stop(lost)
			case 2: // cut in the middle of a message
				c.mons.Peer(lost).Live()[0].CutWrite(20)
			case 3:
				for _, name := range []string{"a", "b", "c"} {
					c.mons.Stop(name)
				}
				time.Sleep(time.Minute)
				for _, name := range []string{"a", "b", "c"} {
					c.mons.Start(name)
				}
			}
			epoch++
			c.publish(epoch)
			time.Sleep(time.Minute)
			c.ready()
			if round%4 == 1 {
				if c.using() == lost {
					t.Errorf("still uses %s, which is stopped", lost)
				}
				c.mons.Start(lost)
			}
		}
		synctest.Wait()
		for i, e := range got {
			if i > 0 && e <= got[i-1] {
				t.Errorf("epochs %d", got)
				break
			}
		}
		if len(got) == 0 || got[len(got)-1] != uint64(epoch) {
			t.Errorf("epochs %d, newest is %d", got, epoch)
		}
		if c.mon.GlobalID() != id {
			t.Errorf("id %d after %d", c.mon.GlobalID(), id)
		}
	})
}

// A lost monitor takes no command with it: those that read are put again,
// those that were not sent go out once, the others end with a clear error.
func TestCommandsOverLoss(t *testing.T) {
	run(t, "a b", func(t *testing.T, c *cluster) {
		c.ready()
		var mu sync.Mutex
		seen := map[string]int{}
		silent := true
		c.mons.OnCommand(func(_ *cephtest.Stream, call *cephtest.CommandCall) {
			mu.Lock()
			defer mu.Unlock()
			seen[call.Prefix]++
			if !silent {
				call.Answer(0, "", nil)
			}
		})
		results := map[string]error{}
		var wg sync.WaitGroup
		give := func(cmd mon.Command) {
			wg.Go(func() {
				_, err := c.mon.Command(t.Context(), cmd)
				mu.Lock()
				defer mu.Unlock()
				results[cmd.Args["prefix"].(string)] = err
			})
		}
		give(command("osd dump"))
		give(command("osd pool create"))
		again := command("osd set")
		again.Repeatable = true
		give(again)
		wg.Go(func() {
			_, _, err := c.mon.Version(t.Context(), mon.WhatOSDMap)
			mu.Lock()
			defer mu.Unlock()
			results["version"] = err
		})
		synctest.Wait()
		mu.Lock()
		silent = false
		mu.Unlock()
		c.mons.Stop("a")
		c.mons.Stop("b")
		synctest.Wait()
		give(command("osd pool rm")) // without a monitor
		time.Sleep(5 * time.Second)
		c.mons.Start("b")
		wg.Wait()
		if !errors.Is(results["osd pool create"], mon.ErrOutcomeUnknown) {
			t.Errorf("%v", results["osd pool create"])
		}
		for _, p := range []string{"osd dump", "osd set", "osd pool rm", "version"} {
			if results[p] != nil {
				t.Errorf("%s: %v", p, results[p])
			}
		}
		want := map[string]int{"osd dump": 2, "osd set": 2, "osd pool create": 1, "osd pool rm": 1}
		for p, n := range want {
			if seen[p] != n {
				t.Errorf("%s was seen %d times", p, seen[p])
			}
		}
	})
}

// A monitor that lets the client in and then says nothing is left.
func TestSilentMonitor(t *testing.T) {
	silent := func(c *cluster, _ *mon.Options, _ *auth.Options) {
		c.mons.OnMessage(func(s *cephtest.Stream, _ *msgr.Message) bool { return s.Peer() == c.mons.Peer("a") })
	}
	runWith(t, "a b", silent, func(t *testing.T, c *cluster) {
		start := time.Now()
		c.ready()
		if c.using() != "b" {
			t.Errorf("uses %s", c.using())
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
		// When b goes, a is tried, again and again but not all the time.
		c.mons.Stop("b")
		before := c.net.Dials()
		time.Sleep(10 * time.Minute)
		if n := c.net.Dials() - before; n < 20 || n > 400 {
			t.Errorf("%d dials in ten minutes", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.mon.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "before that: ") {
			t.Errorf("%v", err)
		}
		c.mons.OnMessage(nil)
		c.ready()
	})
}

// A monitor that breaks each session as soon as it has answered is not asked
// all the time.
func TestShortSessions(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		c.mons.OnCommand(func(s *cephtest.Stream, _ *cephtest.CommandCall) { s.Reset() })
		done := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			_, err := c.mon.Command(ctx, command("status"))
			done <- err
		}()
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if n := c.net.Dials(); n < 20 || n > 200 {
			t.Errorf("%d dials in ten minutes", n)
		}
	})
}

// A dead monitor, one that neither speaks nor closes, is noticed and left, and
// what waits for it goes elsewhere.
func TestDeadMonitor(t *testing.T) {
	run(t, "a b", func(t *testing.T, c *cluster) {
		c.ready()
		time.Sleep(time.Minute)
		dead := c.using()
		c.mons.Freeze(dead, true)
		start := time.Now()
		if _, err := c.mon.Command(t.Context(), command("status")); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > time.Minute || c.using() == dead {
			t.Errorf("uses %s after %v, %s is dead", c.using(), d, dead)
		}
	})
}

// A connection that breaks at any byte, in either direction, costs a retry and
// nothing else.
func TestCutAnywhere(t *testing.T) {
	cuts := 0
	for n := 0; n < 4000; n += 89 {
		for _, cut := range []func(*cephtest.Stream, int){(*cephtest.Stream).CutRead, (*cephtest.Stream).CutWrite} {
			first := true
			change := func(c *cluster, _ *mon.Options, _ *auth.Options) {
				c.mons.OnStream(func(s *cephtest.Stream) {
					if first {
						cut(s, n)
					}
					first = false
				})
			}
			runWith(t, "a b", change, func(t *testing.T, c *cluster) {
				var got []uint64
				c.publish(1)
				c.mon.Subscribe(mon.WhatFSMap, 0, func(u *mon.Update) uint64 {
					got = append(got, u.Epoch)
					return u.Epoch
				})
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				for range 3 {
					if _, err := c.mon.Command(ctx, command("status")); err != nil {
						t.Errorf("cut at %d: %v", n, err)
					}
				}
				c.publish(2)
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(got) == 0 || got[len(got)-1] != 2 {
					t.Errorf("cut at %d: epochs %d", n, got)
				}
				if c.net.Dials() > 1 {
					cuts++
				}
			})
		}
	}
	if cuts < 20 {
		t.Errorf("only %d connections broke", cuts)
	}
}

func TestRefusedForGood(t *testing.T) {
	wrong, _ := auth.NewKey(auth.KeyAES256K)
	runWith(t, "a b c", func(_ *cluster, _ *mon.Options, o *auth.Options) { o.Key = wrong }, func(t *testing.T, c *cluster) {
		start := time.Now()
		err := c.mon.Ready(t.Context())
		if !errors.Is(err, auth.ErrRefused) || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if _, err := c.mon.Command(t.Context(), command("status")); !errors.Is(err, auth.ErrRefused) {
			t.Errorf("%v", err)
		}
		if _, err := c.mon.MgrCommand(t.Context(), command("status")); !errors.Is(err, auth.ErrRefused) {
			t.Errorf("%v", err)
		}
		// The key is set right: the client gets in without being made anew.
		c.cephx.User(user, func(u *cephtest.CephxUser) { u.Key = wrong })
		time.Sleep(time.Minute)
		if err := c.mon.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestWrongCluster(t *testing.T) {
	runWith(t, "a b", func(_ *cluster, o *mon.Options, _ *auth.Options) { o.FSID = uuid.New() }, func(t *testing.T, c *cluster) {
		if err := c.mon.Ready(t.Context()); !errors.Is(err, mon.ErrWrongCluster) {
			t.Errorf("%v", err)
		}
	})
}

func TestLegacyMonitors(t *testing.T) {
	legacy := []denc.AddrVec{{{Type: denc.AddrLegacy, Host: netip.MustParseAddrPort("192.0.2.1:6789")}}}
	runWith(t, "a", func(_ *cluster, o *mon.Options, _ *auth.Options) { o.Monitors = legacy }, func(t *testing.T, c *cluster) {
		if err := c.mon.Ready(t.Context()); msgr.KindOf(err) != msgr.KindLegacy {
			t.Errorf("%v", err)
		}
	})
}

// Tickets are renewed over the session, for hours; the client's own ticket by
// a new session, which nobody notices.
func TestRenewal(t *testing.T) {
	// Before the client starts: it asks for its first tickets at once.
	valid := func(c *cluster, _ *mon.Options, _ *auth.Options) { c.cephx.Validity(time.Hour, 4*time.Hour) }
	runWith(t, "a b", valid, func(t *testing.T, c *cluster) {
		c.ready()
		id := c.mon.GlobalID()
		for range 13 {
			time.Sleep(30 * time.Minute)
			c.ready()
			for _, s := range []denc.EntityType{denc.TypeOSD, denc.TypeMDS, denc.TypeMgr} {
				if _, err := c.auth.Begin(s); err != nil {
					t.Errorf("%v", err)
				}
			}
		}
		// 6.5 h: of the renewals every 45 minutes two were sessions.
		if n := c.cephx.Granted(denc.TypeOSD); n < 8 || n > 11 {
			t.Errorf("%d tickets for OSDs", n)
		}
		if n := c.cephx.Granted(denc.TypeAuth); n < 2 || n > 5 {
			t.Errorf("%d sessions", n)
		}
		if c.mon.GlobalID() != id {
			t.Errorf("id %d after %d", c.mon.GlobalID(), id)
		}
	})
}

// The monitors do not take the ticket that a renewal shows.
func TestRenewalRefused(t *testing.T) {
	run(t, "a b", func(t *testing.T, c *cluster) {
		c.ready()
		id := c.mon.GlobalID()
		c.cephx.Rotate(denc.TypeAuth)
		time.Sleep(50 * time.Minute)
		c.ready()
		if c.mon.GlobalID() == id {
			t.Error("the id did not change")
		}
		if _, err := c.auth.Begin(denc.TypeOSD); err != nil {
			t.Error(err)
		}
	})
}

// The monitor in use is removed from the cluster, others are added.
func TestMonMapChanges(t *testing.T) {
	run(t, "a b c", func(t *testing.T, c *cluster) {
		c.ready()
		used := c.using()
		left := slices.DeleteFunc([]string{"a", "b", "c"}, func(s string) bool { return s == used })
		c.mons.SetMonMap(left...)
		time.Sleep(10 * time.Second)
		c.ready()
		if c.using() == used || len(c.mon.MonMap().Monitors) != 2 {
			t.Errorf("uses %s of %v", c.using(), c.mon.MonMap())
		}
	})
}

// A handler that cannot go on asks again and gets what it wants.
func TestHandlerAsksAgain(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		c.ready()
		c.publish(5)
		var got []uint64
		var s *mon.Subscription
		made := make(chan struct{})
		s = c.mon.Subscribe(mon.WhatFSMap, 3, func(u *mon.Update) uint64 {
			<-made
			got = append(got, u.Epoch)
			switch len(got) {
			case 1:
				return 2 // has not got on: it is asked for once more
			case 2:
				s.Again(0)
				return u.Epoch
			}
			return u.Epoch
		})
		close(made)
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(got, []uint64{5, 5, 5}) {
			t.Errorf("%d", got)
		}
		s.Close()
		c.publish(6)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(got) != 3 {
			t.Errorf("%d after Close", got)
		}
	})
}

// A monitor that grants a session, although none was asked for, is left when
// its connection breaks as any other is; and even a connection that came back
// by itself would not leave the client without a monitor.
func TestLosslessMonitor(t *testing.T) {
	lossless := func(c *cluster, _ *mon.Options, _ *auth.Options) {
		for _, name := range []string{"a", "b"} {
			c.mons.Stop(name)
			c.mons.Start(name, func(cfg *cephtest.Config) { cfg.Lossless = true })
		}
	}
	for what, lose := range map[string]func(*cluster){
		"reset":     func(c *cluster) { c.mons.Peer(c.using()).ResetAll() },
		"come back": func(c *cluster) { mon.ReadyAgain(c.mon) },
	} {
		runWith(t, "a b", lossless, func(t *testing.T, c *cluster) {
			c.ready()
			epochs := make(chan uint64, 10)
			c.mon.Subscribe(mon.WhatFSMap, 0, func(u *mon.Update) uint64 { epochs <- u.Epoch; return u.Epoch })
			lose(c)
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := c.mon.Command(ctx, command("status")); err != nil {
				t.Errorf("%s: no monitor is used any more: %v", what, err)
			}
			c.publish(5)
			select {
			case <-epochs:
			case <-ctx.Done():
				t.Errorf("%s: nothing is published any more", what)
			}
		})
	}
}

// Two subscriptions to one subject each get what they want.
func TestTwoSubscriptions(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		var a, b []uint64
		c.publish(2)
		c.mon.Subscribe(mon.WhatFSMap, 3, func(u *mon.Update) uint64 { a = append(a, u.Epoch); return u.Epoch })
		c.ready()
		c.mon.Subscribe(mon.WhatFSMap, 0, func(u *mon.Update) uint64 { b = append(b, u.Epoch); return u.Epoch })
		time.Sleep(time.Second)
		synctest.Wait()
		c.publish(3)
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Contains(a, 3) || !slices.Equal(b, []uint64{2, 3}) {
			t.Errorf("%d %d", a, b)
		}
	})
}

// Every wait ends with its context, and with Close.
func TestWaitsEnd(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		c.ready()
		c.mons.OnMessage(func(*cephtest.Stream, *msgr.Message) bool { return true })
		waits := map[string]func(ctx context.Context) error{
			"Command": func(ctx context.Context) error { _, err := c.mon.Command(ctx, command("status")); return err },
			"Version": func(ctx context.Context) error { _, _, err := c.mon.Version(ctx, mon.WhatOSDMap); return err },
			"Mgr":     func(ctx context.Context) error { _, err := c.mon.MgrCommand(ctx, command("status")); return err },
			"OSD":     func(ctx context.Context) error { _, err := c.mon.Tell(ctx, "osd.1", command("status")); return err },
			"MDS":     func(ctx context.Context) error { _, err := c.mon.Tell(ctx, "mds.x", command("status")); return err },
		}
		for name, wait := range waits {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		errs := make(chan error, len(waits))
		for _, wait := range waits {
			go func() { errs <- wait(t.Context()) }()
		}
		synctest.Wait()
		c.mon.Close()
		for range waits {
			if err := <-errs; !errors.Is(err, mon.ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if err := c.mon.Ready(t.Context()); !errors.Is(err, mon.ErrClosed) {
			t.Errorf("%v", err)
		}
		c.mon.Subscribe(mon.WhatOSDMap, 0, func(*mon.Update) uint64 { return 0 }).Close()
		c.mon.Close()
	})
}

// Close at any time leaves nothing behind; the bubble would not end otherwise.
func TestCloseAnyTime(t *testing.T) {
	for _, after := range []time.Duration{0, time.Microsecond, time.Millisecond, time.Second, time.Minute} {
		run(t, "a b", func(t *testing.T, c *cluster) {
			c.mon.Subscribe(mon.WhatFSMap, 0, func(u *mon.Update) uint64 { return u.Epoch })
			c.publish(1)
			time.Sleep(after)
			if after == time.Second {
				c.mons.Stop("a")
				c.mons.Stop("b")
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// A monitor that talks nonsense does not bring the client down.
func TestNonsense(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		c.ready()
		var seen int
		c.mon.Subscribe(mon.WhatFSMap, 0, func(u *mon.Update) uint64 { seen++; return u.Epoch })
		for _, typ := range []uint16{4, 16, 18, 20, 21, 41, 45, 51, 62, 98, 103, 0x704, 999} {
			for _, front := range [][]byte{nil, {1}, make([]byte, 24), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
				for _, s := range c.mons.Peer("a").Live() {
					s.Send(&msgr.Message{Type: typ, Front: front, Tid: 77})
				}
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		c.publish(9)
		time.Sleep(time.Second)
		synctest.Wait()
		c.ready()
		if _, err := c.mon.Command(t.Context(), command("status")); err != nil {
			t.Error(err)
		}
		if c.logs.count("message of a monitor") == 0 {
			t.Error("nothing was logged")
		}
	})
}

const typeMgrMap = 0x704

func (c *cluster) publishMgr(epoch uint32, addr string, available bool) {
	var e denc.Encoder
	s := e.Struct(11, 6)
	e.Uint32(epoch)
	e.AddrVec(addrs(addr))
	e.Uint64(4711)
	e.Bool(available)
	e.String("x")
	e.End(s)
	c.mons.Publish("mgrmap", typeMgrMap, uint64(epoch), e.Data())
}

func addrs(s string) denc.AddrVec {
	return denc.AddrVec{{Type: denc.AddrMsgr2, Host: netip.MustParseAddrPort(s)}}
}

// The manager is waited for and found again after a failover.
func TestMgrCommand(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		echo := func(name string) func(*cephtest.Stream, *msgr.Message) {
			return func(s *cephtest.Stream, m *msgr.Message) {
				if call := cephtest.Call(s, m); call != nil {
					call.Answer(0, name, nil)
				}
			}
		}
		mgr := func(name, addr string, f func(*cephtest.Stream, *msgr.Message)) *cephtest.Peer {
			return c.net.NewPeer(cephtest.Config{Type: denc.TypeMgr, Addrs: addrs(addr), Auth: c.cephx.ServerAuth(denc.TypeMgr), OnMessage: f})
		}
		x := mgr("x", "192.0.2.10:6800", echo("x"))
		defer x.Close()
		result := make(chan string, 1)
		give := func() {
			r, err := c.mon.MgrCommand(t.Context(), command("fs subvolume getpath"))
			if err != nil {
				result <- err.Error()
				return
			}
			result <- r.Status
		}
		go give()
		c.publishMgr(1, "192.0.2.10:6800", false)
		time.Sleep(time.Minute)
		select {
		case r := <-result:
			t.Fatalf("%s before a manager was there", r)
		default:
		}
		c.publishMgr(2, "192.0.2.10:6800", true)
		if r := <-result; r != "x" {
			t.Error(r)
		}
		// Its key was changed meanwhile: the ticket is renewed on the way.
		c.cephx.Rotate(denc.TypeMgr)
		go give()
		if r := <-result; r != "x" {
			t.Error(r)
		}
		// It dies while it has the command; another becomes active.
		x.Close()
		dying := mgr("x", "192.0.2.10:6800", func(s *cephtest.Stream, _ *msgr.Message) { s.Reset() })
		go give()
		time.Sleep(time.Second)
		synctest.Wait()
		dying.Close()
		y := mgr("y", "192.0.2.11:6800", echo("y"))
		defer y.Close()
		c.publishMgr(3, "192.0.2.11:6800", true)
		if r := <-result; r != "y" {
			t.Error(r)
		}
	})
}

func TestTell(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		answer := func(s *cephtest.Stream, m *msgr.Message) {
			switch call := cephtest.Call(s, m); call.Prefix {
			case "cut":
				s.Reset()
			default:
				call.Answer(0, "", []byte(`"`+call.Prefix+`"`))
			}
		}
		osd := c.net.NewPeer(cephtest.Config{Type: denc.TypeOSD, Num: 3, Addrs: addrs("192.0.2.20:6800"), Auth: c.cephx.ServerAuth(denc.TypeOSD), OnMessage: answer})
		defer osd.Close()
		mds := c.net.NewPeer(cephtest.Config{Type: denc.TypeMDS, Addrs: addrs("192.0.2.21:6800"), Auth: c.cephx.ServerAuth(denc.TypeMDS), OnMessage: answer})
		defer mds.Close()
		c.mons.OnCommand(func(_ *cephtest.Stream, call *cephtest.CommandCall) {
			switch call.Prefix {
			case "osd info":
				up := 1
				switch call.Args["id"] {
				case 5.0:
					up = 0
				case 3.0:
				default:
					call.Answer(-2, "no such osd", nil)
					return
				}
				call.Answer(0, "", fmt.Appendf(nil, `{"up":%d,"public_addrs":{"addrvec":[{"type":"v2","addr":"192.0.2.20:6800","nonce":0},{"type":"v1","addr":"192.0.2.20:6801","nonce":5}]}}`, up))
			case "mds metadata":
				call.Answer(0, "", []byte(`{"addr":"[v2:192.0.2.21:6800/0,v1:192.0.2.21:6801/1]"}`))
			default:
				call.Answer(0, "", []byte(`"mon"`))
			}
		})
		// OSDs that never took a ticket of this user end the wait.
		c.cephx.Refuse(denc.TypeOSD, 2)
		if _, err := c.mon.Tell(t.Context(), "osd.3", command("version")); !errors.Is(err, auth.ErrDenied) {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Minute) // until another is asked for
		for daemon, want := range map[string]string{"osd.3": `"version"`, "mds.a": `"version"`, "mon.a": `"mon"`} {
			r, err := c.mon.Tell(t.Context(), daemon, command("version"))
			if err != nil || string(r.Output) != want {
				t.Errorf("%s: %v, %v", daemon, r, err)
			}
		}
		if _, err := c.mon.Tell(t.Context(), "osd.3", command("cut")); !errors.Is(err, mon.ErrOutcomeUnknown) {
			t.Errorf("%v", err)
		}
		for _, daemon := range []string{"osd.x", "osd", "rgw.a", "osd.-1"} {
			if _, err := c.mon.Tell(t.Context(), daemon, command("version")); err == nil {
				t.Errorf("%s answered", daemon)
			}
		}
		var e *mon.CommandError
		if _, err := c.mon.Tell(t.Context(), "osd.4", command("version")); !errors.As(err, &e) {
			t.Errorf("%v", err)
		}
		down, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.mon.Tell(down, "osd.5", command("version")); !errors.Is(err, mon.ErrNoDaemon) {
			t.Errorf("%v", err)
		}
		if _, err := c.mon.Tell(t.Context(), "mon.z", command("version")); !errors.Is(err, mon.ErrNoDaemon) {
			t.Errorf("%v", err)
		}
		// It waits out a time in which OSDs take no tickets of this user.
		c.cephx.Refuse(denc.TypeOSD, 4)
		if _, err := c.mon.Tell(t.Context(), "osd.3", command("version")); err != nil {
			t.Errorf("%v", err)
		}
	})
}
