package msgr_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/internal/testutil"
)

func TestMain(m *testing.M) { testutil.VerifyMain(m) }

// client records what a dispatcher is told, as lines.
type client struct {
	mu     sync.Mutex
	log    []string
	msgs   []*msgr.Message
	closed chan struct{}
	err    error

	readies chan struct{}      // if set, gets a token at each Ready
	arrived chan *msgr.Message // if set, gets each message

	onReady   func(*msgr.Conn)
	onMessage func(*msgr.Conn, *msgr.Message)
	onReset   func(*msgr.Conn)
}

func newClient() *client { return &client{closed: make(chan struct{})} }

func (d *client) note(s string) {
	d.mu.Lock()
	d.log = append(d.log, s)
	d.mu.Unlock()
}

func (d *client) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.log...)
}

func (d *client) Ready(c *msgr.Conn) {
	d.note("ready")
	if d.readies != nil {
		d.readies <- struct{}{}
	}
	if d.onReady != nil {
		d.onReady(c)
	}
}

func (d *client) Receive(c *msgr.Conn, m *msgr.Message) {
	d.note(fmt.Sprintf("message %d: %s", m.Tid, m.Front))
	d.mu.Lock()
	d.msgs = append(d.msgs, m)
	d.mu.Unlock()
	if d.arrived != nil {
		d.arrived <- m
	}
	if d.onMessage != nil {
		d.onMessage(c, m)
	}
}

func (d *client) RemoteReset(c *msgr.Conn) {
	d.note("remote reset")
	if d.onReset != nil {
		d.onReset(c)
	}
}

func (d *client) Closed(_ *msgr.Conn, err error) {
	d.note("closed")
	d.err = err
	close(d.closed)
}

func addrs(s ...string) (v denc.AddrVec) {
	for _, s := range s {
		a, err := denc.ParseAddr(s)
		if err != nil {
			panic(err)
		}
		v = append(v, a)
	}
	return v
}

var peerAddrs = addrs("v2:192.0.2.1:3300/7", "v1:192.0.2.1:6789/7")

// rig is a messenger, a network and a peer.
type rig struct {
	t    *testing.T
	net  *cephtest.Network
	m    *msgr.Messenger
	peer *cephtest.Peer
}

func newRig(t *testing.T, o msgr.Options, cfg cephtest.Config) *rig {
	r := &rig{t: t, net: cephtest.NewNetwork()}
	if cfg.Type == 0 {
		cfg.Type = denc.TypeMon
	}
	if cfg.Addrs == nil {
		cfg.Addrs = peerAddrs
	}
	if o.Auth == nil {
		o.Auth = &cephtest.StaticAuth{}
	}
	o.Dial = r.net.Dial
	if os.Getenv("MSGR_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	r.peer = r.net.NewPeer(cfg)
	r.m = msgr.New(o)
	return r
}

func (r *rig) connect(p msgr.Policy, d msgr.Dispatcher) *msgr.Conn {
	r.t.Helper()
	typ := denc.TypeMon
	c, err := r.m.Connect(typ, r.peer.Addrs(), p, d)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) close() {
	r.m.Close()
	r.peer.Close()
}

// inModes runs a test in crc and in secure mode, in a bubble of its own.
func inModes(t *testing.T, f func(t *testing.T, a *cephtest.StaticAuth)) {
	for _, a := range []*cephtest.StaticAuth{
		{},
		{Key: []byte("key"), Rounds: 2},
		{Key: []byte("key"), Mode: msgr.ModeSecure, Rounds: 1},
	} {
		name := "none"
		if a.Mode == msgr.ModeSecure {
			name = "secure"
		} else if a.Key != nil {
			name = "crc"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, a) })
		})
	}
}

func TestRoundTrip(t *testing.T) {
	inModes(t, func(t *testing.T, a *cephtest.StaticAuth) {
		for _, policy := range []msgr.Policy{msgr.Lossy, msgr.Lossless} {
			r := newRig(t, msgr.Options{Auth: a}, cephtest.Config{
				Auth: a, Num: 3, Lossless: policy == msgr.Lossless,
				OnMessage: func(s *cephtest.Stream, m *msgr.Message) {
					if err := s.Send(m); err != nil {
						t.Error(err)
					}
				},
			})
			d := newClient()
			c := r.connect(policy, d)
			var sent atomic.Int64
			var want []*msgr.Message
			for i := range 40 {
				m := &msgr.Message{
					Type: 42, Priority: 63, Version: 8, Compat: 2, Tid: uint64(i + 1),
					Front: []byte(fmt.Sprintf("front %d", i)), Middle: bytes.Repeat([]byte("m"), i%3*400),
					Data: [][]byte{bytes.Repeat([]byte("d"), i*300), nil, bytes.Repeat([]byte("e"), i)},
					Sent: func() { sent.Add(1) },
				}
				want = append(want, m)
				if err := c.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if len(d.msgs) != len(want) || int(sent.Load()) != len(want) {
				t.Fatalf("policy %v: %d of %d messages came back, %d are sent: %v", policy, len(d.msgs), len(want), sent.Load(), c.Err())
			}
			for i, m := range d.msgs {
				w := want[i]
				if m.Type != w.Type || m.Priority != w.Priority || m.Version != w.Version || m.Compat != w.Compat || m.Tid != w.Tid || m.Seq != uint64(i+1) {
					t.Errorf("message %d: got %+v", i, m)
				}
				if !bytes.Equal(m.Front, w.Front) || !bytes.Equal(m.Middle, w.Middle) || !bytes.Equal(bytes.Join(m.Data, nil), bytes.Join(w.Data, nil)) || len(m.Data) > 1 {
					t.Errorf("message %d has another payload", i)
				}
				m.Release()
			}
			mode := msgr.ModeCRC
			if a.Mode != 0 {
				mode = a.Mode
			}
			if c.Mode() != mode || c.Features() != msgr.DefaultFeatures || c.PeerName() != (denc.Name{Type: denc.TypeMon, Num: 3}) || c.Peer() != peerAddrs[0] {
				t.Errorf("mode %d, features %#x, peer %v at %v", c.Mode(), c.Features(), c.PeerName(), c.Peer())
			}
			if a := r.m.Addr(); a.Host != netip.AddrPortFrom(cephtest.ClientIP, 0) || a.Type != denc.AddrAny || a.Nonce == 0 {
				t.Errorf("the client's address is %v", a)
			}
			c.Close()
			<-d.closed
			if d.err != nil || c.Err() != nil {
				t.Errorf("closed with %v, %v", d.err, c.Err())
			}
			if err := c.Send(&msgr.Message{}); err != msgr.ErrClosed {
				t.Errorf("send after close: %v", err)
			}
			r.close()
			if _, err := r.m.Connect(denc.TypeMon, peerAddrs, msgr.Lossy, d); err != msgr.ErrClosed {
				t.Errorf("connect after close: %v", err)
			}
		}
	})
}

// sleep lets time pass in a bubble.
func sleep() { time.Sleep(200 * time.Millisecond) }
