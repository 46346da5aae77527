package msgr_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"capstan/cephfs/auth"
	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/internal/testutil"
)

// Numbers of messages (ceph/ceph src/include/ceph_fs.h, src/msg/Message.h).
const (
	typeMonMap    = 4
	typeMonGetMap = 5
	typeSession   = 22 // CEPH_MSG_CLIENT_SESSION
)

// liveConf is the ceph.conf of a cluster for tests.
func liveConf(t *testing.T) string {
	conf := os.Getenv("CAPSTAN_TEST_CEPH_CONF")
	if conf == "" {
		t.Skip("no cluster: CAPSTAN_TEST_CEPH_CONF names no ceph.conf")
	}
	return conf
}

func liveAuth(t *testing.T, secure bool) (*auth.Client, []denc.AddrVec) {
	t.Helper()
	mode := "crc"
	if secure {
		mode = "secure"
	}
	o := auth.LoadOptions{Conf: liveConf(t), Args: []string{"--ms-mon-client-mode", mode, "--ms-client-mode", mode}}
	cfg, err := auth.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	a, err := cfg.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	mons, err := cfg.Monitors(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a, mons
}

func await[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(30 * time.Second):
		t.Fatalf("waited too long for %s", what)
	}
	return v
}

// cutter dials TCP and can break all connections it made.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) dial(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", a.String())
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.conns = append(c.conns, nc)
	}
	return nc, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nc := range c.conns {
		nc.Close()
	}
	c.conns = nil
}

// live is a client of a real cluster with a connection to a monitor, which
// gave its tickets.
type live struct {
	*testing.T
	m    *msgr.Messenger
	net  cutter
	mons []denc.AddrVec
	mon  *msgr.Conn
}

// A daemon, or this process, may get no CPU for seconds.
const (
	liveInterval = 50 * time.Millisecond
	liveTimeout  = 10 * time.Second
)

func newLive(t *testing.T, secure bool) *live {
	a, mons := liveAuth(t, secure)
	l := &live{T: t, mons: mons}
	testutil.NoLeaks(t)
	l.m = msgr.New(msgr.Options{Auth: a, Dial: l.net.dial, KeepaliveInterval: liveInterval, KeepaliveTimeout: liveTimeout})
	t.Cleanup(l.m.Close)
	var d *client
	l.mon, d = l.connect(denc.TypeMon, mons[0], msgr.Lossy)
	l.ready(d)
	return l
}

// connect opens a connection; the dispatcher's ready channel gets a token each
// time it is ready.
func (l *live) connect(typ denc.EntityType, a denc.AddrVec, p msgr.Policy) (*msgr.Conn, *client) {
	l.Helper()
	d := newClient()
	d.readies = make(chan struct{}, 16)
	d.arrived = make(chan *msgr.Message, 16)
	c, err := l.m.Connect(typ, a, p, d)
	if err != nil {
		l.Fatal(err)
	}
	return c, d
}

func (l *live) ready(d *client) {
	l.Helper()
	select {
	case <-d.readies:
	case <-d.closed:
		l.Fatalf("not connected: %v", d.err)
	case <-time.After(30 * time.Second):
		l.Fatal("waited too long for a connection")
	}
}

// addrsOf asks the ceph tool, or what CAPSTAN_TEST_CEPH_TOOL names, for the first addresses at a path of its output.
func addrsOf(t *testing.T, command []string, get func(json.RawMessage) (json.RawMessage, error)) (v denc.AddrVec) {
	t.Helper()
	args := append([]string{"-c", liveConf(t), "-f", "json"}, command...)
	tool := os.Getenv("CAPSTAN_TEST_CEPH_TOOL")
	if tool == "" {
		tool = "ceph"
	}
	out, err := exec.CommandContext(t.Context(), tool, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := get(out)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Addrvec []struct {
			Type, Addr string
			Nonce      uint32
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, a := range list.Addrvec {
		x := addrs(a.Type + ":" + a.Addr + "/0")[0]
		x.Nonce = a.Nonce
		v = append(v, x)
	}
	if len(v) == 0 {
		t.Skip("no such daemon in this cluster")
	}
	return v
}

func osdAddrs(t *testing.T) denc.AddrVec {
	return addrsOf(t, []string{"osd", "dump"}, func(b json.RawMessage) (json.RawMessage, error) {
		var d struct {
			OSDs []struct {
				Addrs json.RawMessage `json:"public_addrs"`
			} `json:"osds"`
		}
		if err := json.Unmarshal(b, &d); err != nil || len(d.OSDs) == 0 {
			return json.RawMessage("{}"), err
		}
		return d.OSDs[0].Addrs, nil
	})
}

func mdsAddrs(t *testing.T) denc.AddrVec {
	return addrsOf(t, []string{"fs", "dump"}, func(b json.RawMessage) (json.RawMessage, error) {
		var d struct {
			Filesystems []struct {
				MDSMap struct {
					Info map[string]struct {
						State string
						Addrs json.RawMessage
					}
				} `json:"mdsmap"`
			}
		}
		if err := json.Unmarshal(b, &d); err != nil {
			return nil, err
		}
		for _, fs := range d.Filesystems {
			for _, i := range fs.MDSMap.Info {
				if i.State == "up:active" {
					return i.Addrs, nil
				}
			}
		}
		return json.RawMessage("{}"), nil
	})
}

func liveModes(t *testing.T, f func(t *testing.T, secure bool)) {
	liveConf(t)
	t.Run("crc", func(t *testing.T) { f(t, false) })
	t.Run("secure", func(t *testing.T) { f(t, true) })
}

func TestLiveMonitor(t *testing.T) {
	liveModes(t, func(t *testing.T, secure bool) {
		l := newLive(t, secure)
		c, d := l.connect(denc.TypeMon, l.mons[0], msgr.Lossy)
		l.ready(d)
		if want := map[bool]msgr.AuthMode{false: msgr.ModeCRC, true: msgr.ModeSecure}[secure]; c.Mode() != want {
			t.Errorf("mode %d", c.Mode())
		}
		if err := c.Send(&msgr.Message{Type: typeMonGetMap}); err != nil {
			t.Fatal(err)
		}
		m := await(t, "the monmap", d.arrived)
		if m.Type != typeMonMap || len(m.Front) == 0 {
			t.Errorf("the answer is of type %d with %d bytes", m.Type, len(m.Front))
		}
		m.Release()
		t.Logf("%v in mode %d, features %#x; we are %v", c.PeerName(), c.Mode(), c.Features(), l.m.Addr())
	})
}

// TestLiveKeepalive: a peer that answers keepalives is not taken for dead, one
// by one kind of daemon.
func TestLiveKeepalive(t *testing.T) {
	liveModes(t, func(t *testing.T, secure bool) {
		l := newLive(t, secure)
		c, d := l.connect(denc.TypeOSD, osdAddrs(t), msgr.Lossy)
		l.ready(d)
		select {
		case <-c.Done():
			t.Errorf("the connection to %v broke: %v", c.PeerName(), c.Err())
		case <-l.mon.Done():
			t.Errorf("the connection to the monitor broke: %v", l.mon.Err())
		case <-time.After(liveTimeout + time.Second): // above the time-out
		}
	})
}

// TestLiveReconnect cuts the connection to an MDS: the session goes on, and
// what was sent meanwhile is acknowledged.
func TestLiveReconnect(t *testing.T) {
	liveModes(t, func(t *testing.T, secure bool) {
		l := newLive(t, secure)
		c, d := l.connect(denc.TypeMDS, mdsAddrs(t), msgr.Lossless)
		l.ready(d)
		acked := make(chan struct{}, 100)
		for range 5 {
			for range 4 {
				// A renewal of caps without a session: ignored, but counted.
				e := denc.Encoder{}
				e.Uint32(2)
				e.Raw(make([]byte, 8+8+4+4))
				if err := c.Send(&msgr.Message{Type: typeSession, Version: 1, Compat: 1, Front: e.Data(), Sent: func() { acked <- struct{}{} }}); err != nil {
					t.Fatal(err)
				}
			}
			l.net.cut()
			l.ready(d)
			for range 4 {
				await(t, "an acknowledgement", acked)
			}
		}
		if got := d.lines(); len(got) != 6 {
			t.Errorf("the dispatcher was told %q", got)
		}
	})
}

func TestLiveRefusals(t *testing.T) {
	_, mons := liveAuth(t, false)
	mon, _ := mons[0].Msgr2()
	for _, c := range []struct {
		name string
		typ  denc.EntityType
		addr denc.Addr
		kind msgr.Kind
	}{
		{"wrong type", denc.TypeOSD, mon, msgr.KindPeer},
		{"no such method", denc.TypeMon, mon, msgr.KindAuth},
		{"messenger v1", denc.TypeMon, func() denc.Addr {
			v1, ok := mons[0].Legacy()
			if !ok {
				t.Skip("the monitor has no address of messenger v1")
			}
			return denc.Addr{Type: denc.AddrMsgr2, Host: v1.Host}
		}(), msgr.KindLegacy},
		{"nobody", denc.TypeMon, denc.Addr{Type: denc.AddrMsgr2, Host: netip.AddrPortFrom(mon.Host.Addr(), 1)}, msgr.KindDial},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}})
			defer m.Close()
			d := newClient()
			if _, err := m.Connect(c.typ, denc.AddrVec{c.addr}, msgr.Lossy, d); err != nil {
				t.Fatal(err)
			}
			await(t, "the end", d.closed)
			if msgr.KindOf(d.err) != c.kind {
				t.Errorf("got %v, want %v", d.err, c.kind)
			}
			var bad *msgr.BadMethodError
			if c.kind == msgr.KindAuth && (!errors.As(d.err, &bad) || len(bad.Methods) == 0) {
				t.Errorf("got %v", d.err)
			}
			t.Log(d.err)
		})
	}
}
