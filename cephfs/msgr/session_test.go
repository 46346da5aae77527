package msgr_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// echo answers each message, and keeps the tids.
type echo struct {
	mu   sync.Mutex
	tids []uint64
	seqs []uint64
}

func (e *echo) onMessage(s *cephtest.Stream, m *msgr.Message) {
	e.mu.Lock()
	e.tids = append(e.tids, m.Tid)
	e.seqs = append(e.seqs, m.Seq)
	e.mu.Unlock()
	s.Send(&msgr.Message{Tid: m.Tid, Front: m.Front})
}

func (e *echo) got() []uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.tids)
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func num(tids ...uint64) []uint64 { return tids }

func TestRemoteReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e echo
		r := newRig(t, msgr.Options{}, cephtest.Config{Lossless: true, OnMessage: e.onMessage})
		defer r.close()
		d := newClient()
		var sent [5]atomic.Int64
		c := r.connect(msgr.Lossless, d)
		send := func(i int) {
			c.Send(&msgr.Message{Tid: uint64(i), Sent: func() { sent[i].Add(1) }})
		}
		d.onReset = func(*msgr.Conn) { send(4) }
		send(1)
		send(2)
		synctest.Wait()
		r.peer.Forget()
		r.peer.ResetAll()
		synctest.Wait()
		send(3) // to the session that is lost, which we do not know yet
		time.Sleep(time.Second)
		synctest.Wait()
		if got := e.got(); !slices.Equal(got, num(1, 2, 4)) || e.seqs[2] != 1 {
			t.Errorf("the peer received %v with numbers %v", got, e.seqs)
		}
		for i := range sent {
			if n := sent[i].Load(); n != int64(min(i, 1)) {
				t.Errorf("%d was given back %d times", i, n)
			}
		}
		want := []string{"ready", "message 1: ", "message 2: ", "remote reset", "ready", "message 4: "}
		if got := d.lines(); !slices.Equal(got, want) {
			t.Errorf("the dispatcher was told %q", got)
		}
		if k := msgr.KindOf(c.LastFault()); k != msgr.KindIO || c.Err() != nil {
			t.Errorf("last fault %v, error %v", c.LastFault(), c.Err())
		}
	})
}

// TestReconnectAnswers answers the first reconnect with something else.
func TestReconnectAnswers(t *testing.T) {
	var e *echo
	for _, c := range []struct {
		name   string
		answer frame.Payload
		check  func(t *testing.T, first, second frame.Reconnect, took time.Duration)
	}{
		{"retry", frame.Number{Of: frame.TagSessionRetry, Value: 50}, func(t *testing.T, first, second frame.Reconnect, _ time.Duration) {
			if first.ConnectSeq != 1 || second.ConnectSeq != 51 {
				t.Errorf("reconnected with %d, then %d", first.ConnectSeq, second.ConnectSeq)
			}
		}},
		{"retry global", frame.Number{Of: frame.TagSessionRetryGlobal, Value: 70}, func(t *testing.T, first, second frame.Reconnect, _ time.Duration) {
			if first.GlobalSeq != 2 || second.GlobalSeq != 71 {
				t.Errorf("reconnected with %d, then %d", first.GlobalSeq, second.GlobalSeq)
			}
		}},
		{"wait", frame.Wait{}, func(t *testing.T, first, second frame.Reconnect, took time.Duration) {
			if second.ConnectSeq != first.ConnectSeq+1 || took < 15*time.Second {
				t.Errorf("reconnected with %+v after %v", second, took)
			}
		}},
		{"partial reset", frame.Reset{}, nil},
	} {
		bubble(t, c.name, func(t *testing.T) {
			e = new(echo)
			var seen []frame.Reconnect
			r := newRig(t, msgr.Options{}, cephtest.Config{
				Lossless: true, OnMessage: e.onMessage,
				Incoming: func(s *cephtest.Stream, tag frame.Tag, payload []byte) bool {
					if tag != frame.TagSessionReconnect {
						return true
					}
					m, err := frame.DecodeReconnect(payload)
					if err != nil {
						t.Error(err)
					}
					seen = append(seen, m)
					if len(seen) == 1 {
						s.SendFrame(cephtest.Of(c.answer))
						return false
					}
					return true
				},
			})
			defer r.close()
			d := newClient()
			conn := r.connect(msgr.Lossless, d)
			for i := range uint64(3) {
				conn.Send(&msgr.Message{Tid: i + 1})
			}
			synctest.Wait()
			r.peer.ResetAll()
			begin := time.Now()
			conn.Send(&msgr.Message{Tid: 4})
			for range 1000 {
				if len(e.got()) == 4 {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			synctest.Wait()
			if got := e.got(); !slices.Equal(got, num(1, 2, 3, 4)) {
				t.Fatalf("the peer received %v: %v", got, conn.LastFault())
			}
			if slices.Contains(d.lines(), "remote reset") {
				t.Error("the dispatcher was told of a reset")
			}
			if c.check != nil {
				c.check(t, seen[0], seen[1], time.Since(begin))
			}
		})
	}
}

// TestPartialResetTwice: in a session begun anew the peer counts from what it
// received in it, which may be nothing.
func TestPartialResetTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e echo
		reconnects := 0
		r := newRig(t, msgr.Options{}, cephtest.Config{
			Lossless: true, OnMessage: e.onMessage,
			Incoming: func(s *cephtest.Stream, tag frame.Tag, _ []byte) bool {
				if tag == frame.TagSessionReconnect {
					if reconnects++; reconnects == 1 {
						s.SendFrame(cephtest.Of(frame.Reset{}))
						return false
					}
				}
				return true
			},
			OnReady: func(s *cephtest.Stream) {
				if s.N() == 2 {
					time.AfterFunc(time.Second, s.Reset)
				}
			},
		})
		defer r.close()
		d := newClient()
		c := r.connect(msgr.Lossless, d)
		c.Send(&msgr.Message{Tid: 1})
		synctest.Wait()
		r.peer.ResetAll()
		time.Sleep(5 * time.Second)
		c.Send(&msgr.Message{Tid: 2})
		synctest.Wait()
		if got := e.got(); !slices.Equal(got, num(1, 2)) || reconnects != 2 {
			t.Errorf("the peer received %v after %d reconnects: %v", got, reconnects, c.LastFault())
		}
	})
}

// TestLosslessBeforePeer: a peer that is not there yet is no fault for long.
func TestLosslessBeforePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := cephtest.NewNetwork()
		m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: n.Dial})
		defer m.Close()
		d := newClient()
		c, err := m.Connect(denc.TypeMDS, peerAddrs, msgr.Lossless, d)
		if err != nil {
			t.Fatal(err)
		}
		c.Send(&msgr.Message{Tid: 1})
		time.Sleep(10 * time.Minute)
		if k := msgr.KindOf(c.LastFault()); k != msgr.KindDial || !errors.Is(c.LastFault(), syscall.ECONNREFUSED) {
			t.Errorf("last fault %v", c.LastFault())
		}
		if n := n.Dials(); n < 40 || n > 60 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		var e echo
		p := n.NewPeer(cephtest.Config{Type: denc.TypeMDS, Addrs: peerAddrs, Lossless: true, OnMessage: e.onMessage})
		defer p.Close()
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if !slices.Equal(e.got(), num(1)) || len(d.msgs) != 1 {
			t.Errorf("the peer received %v", e.got())
		}
		m.Close()
	})
}

// TestOneIdentity: all connections of an instance show one address, whatever
// the peers see.
func TestOneIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, msgr.Options{Nonce: 99}, cephtest.Config{})
		defer r.close()
		var mu sync.Mutex
		var seen []string
		other := r.net.NewPeer(cephtest.Config{
			Type: denc.TypeOSD, Num: 1, Addrs: addrs("v2:192.0.2.2:6800/1"),
			Outgoing: func(_ *cephtest.Stream, f cephtest.Frame) []cephtest.Frame {
				if f.Tag == frame.TagHello { // this one sees us at another interface
					f = cephtest.Of(frame.Hello{Type: denc.TypeOSD, Addr: addrs("any:198.51.100.1:1/0")[0]})
				}
				return []cephtest.Frame{f}
			},
			OnReady: func(s *cephtest.Stream) {
				mu.Lock()
				seen = append(seen, s.Addrs().String())
				mu.Unlock()
			},
		})
		defer other.Close()
		if a := r.m.Addr(); !a.IsBlank() || a.Nonce != 99 {
			t.Errorf("before the first peer: %v", a)
		}
		r.connect(msgr.Lossy, newClient())
		synctest.Wait()
		if _, err := r.m.Connect(denc.TypeOSD, other.Addrs(), msgr.Lossy, newClient()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := denc.Addr{Type: denc.AddrAny, Nonce: 99, Host: netip.AddrPortFrom(cephtest.ClientIP, 0)}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1 || seen[0] != want.String() || r.m.Addr() != want {
			t.Errorf("the second peer saw %v, the messenger has %v", seen, r.m.Addr())
		}
		r.m.Close()
	})
}

// TestServerDecidesLossy: a peer that keeps no session makes the connection
// lossy.
func TestServerDecidesLossy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, msgr.Options{}, cephtest.Config{})
		defer r.close()
		d := newClient()
		c := r.connect(msgr.Lossless, d)
		gone := 0
		c.Send(&msgr.Message{Sent: func() { gone++ }})
		synctest.Wait()
		if gone != 1 {
			t.Error("a message waits for an acknowledgement that never comes")
		}
		r.peer.ResetAll()
		<-d.closed
		if msgr.KindOf(d.err) != msgr.KindIO {
			t.Errorf("ended with %v", d.err)
		}
	})
}

// TestClientDecidesLossy: a peer that grants a session to who asked for a lossy
// connection does not keep that one from ending.
func TestClientDecidesLossy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, msgr.Options{}, cephtest.Config{Lossless: true})
		defer r.close()
		d := newClient()
		c := r.connect(msgr.Lossy, d)
		gone := 0
		c.Send(&msgr.Message{Sent: func() { gone++ }})
		synctest.Wait()
		if gone != 1 {
			t.Error("a message waits for an acknowledgement")
		}
		r.peer.Forget()
		r.peer.ResetAll()
		<-d.closed
		if msgr.KindOf(d.err) != msgr.KindIO || r.peer.Streams() != 1 {
			t.Errorf("ended with %v after %d streams", d.err, r.peer.Streams())
		}
	})
}

// fallback refuses the first request of each stream.
type fallback struct{ cephtest.StaticAuth }

func (f *fallback) Request(s *cephtest.Stream, method uint32, modes []msgr.AuthMode, p []byte) cephtest.AuthAnswer {
	if method == 1 {
		return cephtest.AuthAnswer{Bad: &frame.AuthBadMethod{Method: method, Result: -95, Methods: []uint32{2}, Modes: []uint32{1}}}
	}
	return f.StaticAuth.Request(s, method, modes, p)
}

// stepping tries method 1, then what it is told to.
type stepping struct {
	cephtest.StaticAuth
	method uint32

	mu  sync.Mutex
	err error
}

func (s *stepping) Begin(t denc.EntityType) (msgr.AuthSession, error) {
	x, err := s.StaticAuth.Begin(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	return &steppingSession{x, s, 1}, errors.Join(err, s.err)
}

type steppingSession struct {
	msgr.AuthSession
	s      *stepping
	method uint32
}

func (s *steppingSession) Request() (uint32, []msgr.AuthMode, []byte, error) {
	_, modes, p, err := s.AuthSession.Request()
	return s.method, modes, p, err
}

func (s *steppingSession) BadMethod(method uint32, result int32, methods []uint32, modes []msgr.AuthMode) error {
	if s.s.method == 0 {
		return s.AuthSession.BadMethod(method, result, methods, modes)
	}
	s.method = methods[0]
	return nil
}

func TestAuthSteps(t *testing.T) {
	bubble(t, "fallback", func(t *testing.T) {
		signed := cephtest.StaticAuth{Key: []byte("key")}
		r := newRig(t, msgr.Options{Auth: &stepping{StaticAuth: signed, method: 2}}, cephtest.Config{Auth: &fallback{signed}})
		defer r.close()
		d := newClient()
		r.connect(msgr.Lossy, d)
		synctest.Wait()
		if got := d.lines(); !slices.Equal(got, []string{"ready"}) {
			t.Errorf("told %q", got)
		}
	})
	bubble(t, "no key from cephx", func(t *testing.T) {
		r := newRig(t, msgr.Options{Auth: &stepping{method: 2}}, cephtest.Config{Auth: &fallback{}})
		defer r.close()
		d := newClient()
		r.connect(msgr.Lossy, d)
		<-d.closed
		if msgr.KindOf(d.err) != msgr.KindAuth {
			t.Errorf("ended with %v", d.err)
		}
	})
	bubble(t, "refused", func(t *testing.T) {
		r := newRig(t, msgr.Options{Auth: &stepping{}}, cephtest.Config{Auth: &fallback{}})
		defer r.close()
		d := newClient()
		r.connect(msgr.Lossy, d)
		<-d.closed
		var bad *msgr.BadMethodError
		if msgr.KindOf(d.err) != msgr.KindAuth || !errors.As(d.err, &bad) || bad.Methods[0] != 2 || !errors.Is(d.err, syscall.EOPNOTSUPP) {
			t.Errorf("ended with %v", d.err)
		}
	})
	bubble(t, "lossless tries again", func(t *testing.T) {
		a := &stepping{err: errors.New("no ticket")}
		r := newRig(t, msgr.Options{Auth: a}, cephtest.Config{Lossless: true})
		defer r.close()
		d := newClient()
		c := r.connect(msgr.Lossless, d)
		time.Sleep(time.Minute)
		if msgr.KindOf(c.LastFault()) != msgr.KindAuth || c.Err() != nil {
			t.Errorf("%v, %v", c.LastFault(), c.Err())
		}
		a.mu.Lock()
		a.err = nil
		a.mu.Unlock()
		time.Sleep(16 * time.Second)
		if got := d.lines(); !slices.Equal(got, []string{"ready"}) {
			t.Errorf("told %q", got)
		}
	})
	bubble(t, "permanent", func(t *testing.T) {
		r := newRig(t, msgr.Options{Auth: &stepping{err: fmt.Errorf("no key: %w", msgr.ErrPermanent)}}, cephtest.Config{Lossless: true})
		defer r.close()
		d := newClient()
		r.connect(msgr.Lossless, d)
		<-d.closed
		if msgr.KindOf(d.err) != msgr.KindAuth || !errors.Is(d.err, msgr.ErrPermanent) {
			t.Errorf("ended with %v", d.err)
		}
	})
}

// TestStrangersEndNothing: who answers at the peer's address without being the
// peer, or speaks up on the way, cannot end a session for good.
func TestStrangersEndNothing(t *testing.T) {
	refusal := func(s *cephtest.Stream, f cephtest.Frame) []cephtest.Frame {
		if f.Tag != frame.TagHello {
			return []cephtest.Frame{f}
		}
		return []cephtest.Frame{f, cephtest.Of(frame.AuthBadMethod{Method: 1, Result: -13, Methods: []uint32{1}, Modes: []uint32{1}})}
	}
	for name, stranger := range map[string]cephtest.Config{
		"messenger v1":  {Banner: []byte("ceph v027 and more of it, to the end of the banner")},
		"messenger 2.0": {Banner: frame.Banner{}.Append(nil)},
		"compression":   {Banner: frame.Banner{Supported: 3, Required: frame.FeatureCompression}.Append(nil)},
		"refusal":       {Outgoing: refusal},
	} {
		bubble(t, name, func(t *testing.T) {
			a := &permanent{cephtest.StaticAuth{Key: []byte("key")}}
			echo := &echo{}
			r := newRig(t, msgr.Options{Auth: a}, cephtest.Config{Lossless: true, Auth: &a.StaticAuth, OnMessage: echo.onMessage})
			defer r.close()
			d := newClient()
			c := r.connect(msgr.Lossless, d)
			c.Send(&msgr.Message{Tid: 1})
			synctest.Wait()
			home := r.peer
			home.Close()
			stranger.Type, stranger.Addrs, stranger.Auth = denc.TypeMon, home.Addrs(), &a.StaticAuth
			p := r.net.NewPeer(stranger)
			c.Send(&msgr.Message{Tid: 2})
			time.Sleep(time.Minute)
			if p.Streams() < 2 || c.Err() != nil || c.LastFault() == nil {
				t.Errorf("%d streams, %v, last %v", p.Streams(), c.Err(), c.LastFault())
			}
			p.Close()
			r.peer = r.net.NewPeer(cephtest.Config{Type: denc.TypeMon, Addrs: home.Addrs(), Lossless: true, Auth: &a.StaticAuth, OnMessage: echo.onMessage})
			time.Sleep(time.Minute)
			c.Send(&msgr.Message{Tid: 3})
			synctest.Wait()
			// The peer was restarted and has lost the session, which is its to say.
			if got := echo.got(); !slices.Equal(got, num(1, 3)) {
				t.Errorf("the peer took %d", got)
			}
		})
		bubble(t, name+" at first", func(t *testing.T) {
			a := &permanent{cephtest.StaticAuth{Key: []byte("key")}}
			stranger.Auth = &a.StaticAuth
			r := newRig(t, msgr.Options{Auth: a}, stranger)
			defer r.close()
			d := newClient()
			r.connect(msgr.Lossless, d)
			<-d.closed // who never was there is not waited for
			if d.err == nil {
				t.Error("ended without a reason")
			}
		})
	}
}

// permanent takes every refusal for the last word.
type permanent struct{ cephtest.StaticAuth }

func (p *permanent) Begin(t denc.EntityType) (msgr.AuthSession, error) {
	s, err := p.StaticAuth.Begin(t)
	return permanentSession{s}, err
}

type permanentSession struct{ msgr.AuthSession }

func (s permanentSession) BadMethod(method uint32, result int32, methods []uint32, modes []msgr.AuthMode) error {
	return fmt.Errorf("%w: %w", s.AuthSession.BadMethod(method, result, methods, modes), msgr.ErrPermanent)
}

func TestConnectRefusals(t *testing.T) {
	m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}})
	defer m.Close()
	for _, v := range []denc.AddrVec{nil, addrs("v1:192.0.2.1:6789/0"), addrs("v2:192.0.2.1:0/0"), {{}}} {
		if _, err := m.Connect(denc.TypeMon, v, msgr.Lossy, newClient()); msgr.KindOf(err) != msgr.KindLegacy {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// TestCloseAnywhere closes in every phase: the dispatcher is told once, and
// nothing is left running, which the bubble checks.
func TestCloseAnywhere(t *testing.T) {
	never := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	swallow := func(tag frame.Tag) func(*cephtest.Stream, frame.Tag, []byte) bool {
		return func(_ *cephtest.Stream, got frame.Tag, _ []byte) bool { return got != tag }
	}
	for _, c := range []struct {
		name string
		dial func(context.Context, netip.AddrPort) (net.Conn, error)
		cfg  cephtest.Config
		send int // bytes
	}{
		{name: "dialling", dial: never},
		{name: "banner", cfg: cephtest.Config{Banner: []byte("ceph")}},
		{name: "authentication", cfg: cephtest.Config{Incoming: swallow(frame.TagAuthRequest)}},
		{name: "ident", cfg: cephtest.Config{Incoming: swallow(frame.TagClientIdent)}},
		{name: "back-off", dial: func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, syscall.EHOSTUNREACH }},
		{name: "ready", cfg: cephtest.Config{Lossless: true}},
		{name: "writing", cfg: cephtest.Config{Lossless: true, OnMessage: func(*cephtest.Stream, *msgr.Message) { time.Sleep(time.Hour) }}, send: 1 << 20},
		{name: "receiving", cfg: cephtest.Config{Lossless: true, OnReady: func(s *cephtest.Stream) {
			go func() {
				for range 100 {
					s.Send(&msgr.Message{Front: make([]byte, 1000)})
				}
			}()
		}}},
	} {
		for _, whole := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s/all=%v", c.name, whole), func(t *testing.T) {
				r := newRig(t, msgr.Options{QueueBytes: 8000}, c.cfg)
				m := r.m
				if c.dial != nil {
					m = msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: c.dial})
				}
				d := newClient()
				blocked := make(chan struct{})
				d.onMessage = func(*msgr.Conn, *msgr.Message) { <-blocked }
				conn, err := m.Connect(denc.TypeMon, peerAddrs, msgr.Lossless, d)
				if err != nil {
					t.Fatal(err)
				}
				var given atomic.Int64
				for range 3 {
					conn.Send(&msgr.Message{Front: make([]byte, c.send), Sent: func() { given.Add(1) }})
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if whole {
					go m.Close()
				} else {
					conn.Close()
					conn.Close()
				}
				<-conn.Done()
				if n := given.Load(); n != 3 {
					t.Errorf("%d messages were given back", n)
				}
				close(blocked)
				<-d.closed
				if d.err != nil || conn.Err() != nil {
					t.Errorf("ended with %v, %v", d.err, conn.Err())
				}
				m.Close()
				m.Close()
				r.close()
			})
		}
	}
}
