package mon_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"capstan/cephfs/auth"
	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/msgr"
)

// typeSubscribe is CEPH_MSG_MON_SUBSCRIBE.
const typeSubscribe = 15

// TestTellsAtOnce: an OSD keeps one connection of a client instance, so commands
// under way at once come by instances of their own (ceph/ceph src/ceph_osd.cc:
// stateless_registered_server).
func TestTellsAtOnce(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		c.mons.OnCommand(func(_ *cephtest.Stream, call *cephtest.CommandCall) {
			call.Answer(0, "", []byte(`{"up":1,"public_addrs":{"addrvec":[{"type":"v2","addr":"192.0.2.20:6800","nonce":0}]}}`))
		})
		var mu sync.Mutex
		conns := map[string]*cephtest.Stream{}
		osd := c.net.NewPeer(cephtest.Config{
			Type: denc.TypeOSD, Num: 3, Addrs: addrs("192.0.2.20:6800"), Auth: c.cephx.ServerAuth(denc.TypeOSD),
			OnReady: func(s *cephtest.Stream) {
				mu.Lock()
				old := conns[s.Addrs().String()]
				conns[s.Addrs().String()] = s
				mu.Unlock()
				if old != nil {
					old.Reset()
				}
			},
			OnMessage: func(s *cephtest.Stream, m *msgr.Message) {
				call := cephtest.Call(s, m)
				time.AfterFunc(time.Second, func() { call.Answer(0, "", []byte(`1`)) })
			},
		})
		defer osd.Close()
		c.ready()
		begin := time.Now()
		var all sync.WaitGroup
		for _, prefix := range []string{"bench", "bench", "version", "version"} {
			all.Go(func() {
				if _, err := c.mon.Tell(t.Context(), "osd.3", command(prefix)); err != nil || time.Since(begin) > 3*time.Second {
					t.Errorf("%s: %v after %v", prefix, err, time.Since(begin))
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
	})
}

// TestTooNewMonitors: that they want features which are not there will not pass.
func TestTooNewMonitors(t *testing.T) {
	change := func(c *cluster, _ *mon.Options, _ *auth.Options) {
		for _, n := range []string{"a", "b"} {
			c.mons.Stop(n)
			c.mons.Start(n, func(cfg *cephtest.Config) { cfg.Required = 1 << 62 })
		}
	}
	runWith(t, "a b", change, func(t *testing.T, c *cluster) {
		begin := time.Now()
		if err := c.mon.Ready(t.Context()); msgr.KindOf(err) != msgr.KindFeatures || time.Since(begin) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// TestMonMapNotUnderstood: who waits learns why there is no monmap.
func TestMonMapNotUnderstood(t *testing.T) {
	change := func(c *cluster, _ *mon.Options, _ *auth.Options) {
		c.mons.OnMessage(func(s *cephtest.Stream, m *msgr.Message) bool {
			if m.Type != typeSubscribe {
				return false
			}
			var e denc.Encoder
			b := e.Sized()
			e.Struct(20, 20)
			e.End(b)
			s.Send(&msgr.Message{Type: 4, Front: e.Data()})
			return true
		})
	}
	runWith(t, "a", change, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.mon.Ready(ctx); err == nil || !strings.Contains(err.Error(), "monmap") {
			t.Errorf("%v", err)
		}
	})
}

// TestRenewalBehindCommand: while the client's own ticket is due, and a command
// keeps the session that would have to end for it, services' tickets are renewed.
func TestRenewalBehindCommand(t *testing.T) {
	valid := func(c *cluster, _ *mon.Options, _ *auth.Options) { c.cephx.Validity(time.Hour, 72*time.Hour) }
	runWith(t, "a b", valid, func(t *testing.T, c *cluster) {
		c.ready()
		time.Sleep(53 * time.Hour)
		c.mons.OnCommand(func(*cephtest.Stream, *cephtest.CommandCall) {}) // takes its time
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.mon.Command(ctx, command("osd pool create"))
		for i := range 120 {
			time.Sleep(time.Minute)
			if _, err := c.auth.Begin(denc.TypeOSD); err != nil {
				t.Fatalf("after %d minutes: %v", i, err)
			}
		}
	})
}

// TestAgainFromSameStart: a handler that asks again from where it began is asked
// for that, although what it could not read was later.
func TestAgainFromSameStart(t *testing.T) {
	run(t, "a", func(t *testing.T, c *cluster) {
		c.publish(5)
		c.ready()
		var mu sync.Mutex
		var asked []string
		c.mons.OnMessage(func(_ *cephtest.Stream, m *msgr.Message) bool {
			if m.Type == typeSubscribe {
				d := denc.NewDecoder(m.Front)
				mu.Lock()
				defer mu.Unlock()
				for range d.Count("subscriptions", 1) {
					what, start := d.String("what"), d.Uint64("start")
					d.Uint8("flags")
					if mon.What(what) == mon.WhatFSMap {
						asked = append(asked, fmt.Sprint(start))
					}
				}
			}
			return false
		})
		made := make(chan struct{})
		var s *mon.Subscription
		updates := 0
		s = c.mon.Subscribe(mon.WhatFSMap, 0, func(u *mon.Update) uint64 {
			<-made
			if updates++; updates == 1 {
				s.Again(0) // not understood
				return 0
			}
			return u.Epoch
		})
		close(made)
		time.Sleep(time.Second)
		c.mons.Peer("a").ResetAll()
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(asked, " "); got != "0 0 6" {
			t.Errorf("asked from %s", got)
		}
	})
}
