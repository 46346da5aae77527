package msgr_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// raw is a frame as it is on the wire in crc mode, changed by edit.
func raw(edit func([]byte), add func(w *frame.Writer)) []byte {
	w := frame.NewWriter()
	add(w)
	var b bytes.Buffer
	w.Buffers().WriteTo(&b)
	if edit != nil {
		edit(b.Bytes())
	}
	return b.Bytes()
}

func rawMessage(edit func([]byte)) []byte {
	return raw(edit, func(w *frame.Writer) {
		w.Message(&frame.Header{Seq: 1}, []byte("front"), nil, [][]byte{[]byte("data")})
	})
}

func number(tag frame.Tag, v uint64) cephtest.Frame {
	return cephtest.Frame{Tag: tag, Payload: binary.LittleEndian.AppendUint64(nil, v)}
}

// TestFaultsWhenReady: whatever a peer sends, a lossy connection ends with an
// error of the right kind, and a lossless one reconnects and goes on.
func TestFaultsWhenReady(t *testing.T) {
	type row struct {
		name   string
		secure bool
		send   cephtest.Frame
		kind   msgr.Kind
	}
	flip := func(at int) func([]byte) { return func(b []byte) { b[at] ^= 1 } }
	rows := []row{
		{"preamble crc", false, cephtest.Frame{Raw: rawMessage(flip(3))}, msgr.KindChecksum},
		{"header crc", false, cephtest.Frame{Raw: rawMessage(flip(40))}, msgr.KindChecksum},
		{"front crc", false, cephtest.Frame{Raw: rawMessage(flip(32 + 41 + 4))}, msgr.KindChecksum},
		{"data crc", false, cephtest.Frame{Raw: rawMessage(flip(32 + 41 + 4 + 5))}, msgr.KindChecksum},
		{"late status", false, cephtest.Frame{Raw: rawMessage(func(b []byte) { b[len(b)-13] = 7 })}, msgr.KindProtocol},
		{"not a frame", false, cephtest.Frame{Raw: bytes.Repeat([]byte("nonsense"), 20)}, msgr.KindChecksum},
		{"not sealed", true, cephtest.Frame{Raw: bytes.Repeat([]byte("nonsense"), 20)}, msgr.KindCrypto},
		{"frame of crc mode", true, cephtest.Frame{Raw: append(rawMessage(nil), make([]byte, 100)...)}, msgr.KindCrypto},
		{"long data", false, cephtest.Frame{Raw: raw(nil, func(w *frame.Writer) {
			w.Message(&frame.Header{Seq: 1}, nil, nil, [][]byte{make([]byte, 1<<16+1)})
		})}, msgr.KindLength},
		{"long control frame", false, cephtest.Frame{Raw: raw(nil, func(w *frame.Writer) { w.Control(frame.TagAck, make([]byte, 1<<20)) })}, msgr.KindLength},
		{"short acknowledgement", false, cephtest.Frame{Tag: frame.TagAck, Payload: []byte{1}}, msgr.KindProtocol},
		{"short keepalive", true, cephtest.Frame{Tag: frame.TagKeepalive2, Payload: []byte{1}}, msgr.KindProtocol},
	}
	for tag := frame.Tag(0); tag < frame.TagLimit+2; tag++ {
		switch tag {
		case frame.TagAck, frame.TagKeepalive2, frame.TagKeepalive2Ack:
		case frame.TagMessage:
			rows = append(rows, row{"message without header", tag%2 == 0, number(tag, 1), msgr.KindLength})
		default:
			rows = append(rows, row{tag.String(), tag%2 == 0, number(tag, 1), msgr.KindProtocol})
		}
	}
	for _, x := range rows {
		for _, policy := range []msgr.Policy{msgr.Lossy, msgr.Lossless} {
			bubble(t, fmt.Sprintf("%s/%d", x.name, policy), func(t *testing.T) {
				a := &cephtest.StaticAuth{Key: []byte("key")}
				if x.secure {
					a.Mode = msgr.ModeSecure
				}
				var e echo
				r := newRig(t, msgr.Options{Auth: a, MaxData: 1 << 16}, cephtest.Config{
					Auth: a, Lossless: policy == msgr.Lossless, OnMessage: e.onMessage,
					OnReady: func(s *cephtest.Stream) {
						if s.N() == 1 {
							s.SendFrame(x.send)
						}
					},
				})
				defer r.close()
				d := newClient()
				c := r.connect(policy, d)
				if policy == msgr.Lossy {
					<-d.closed
					var me *msgr.Error
					if !errors.As(d.err, &me) || me.Kind != x.kind || me.Peer != peerAddrs[0] || me.Type != denc.TypeMon {
						t.Errorf("ended with %v, want %v", d.err, x.kind)
					}
					return
				}
				c.Send(&msgr.Message{Tid: 1})
				time.Sleep(time.Second)
				synctest.Wait()
				if !slices.Equal(e.got(), num(1)) || len(d.msgs) != 1 {
					t.Errorf("the peer received %v, the client %d", e.got(), len(d.msgs))
				}
				if msgr.KindOf(c.LastFault()) != x.kind {
					t.Errorf("the fault was %v, want %v", c.LastFault(), x.kind)
				}
			})
		}
	}
}

// TestFaultsInHandshake ends lossy connections, and those lossless ones that
// cannot be helped.
func TestFaultsInHandshake(t *testing.T) {
	replace := func(tag frame.Tag, by ...cephtest.Frame) func(*cephtest.Stream, cephtest.Frame) []cephtest.Frame {
		return func(_ *cephtest.Stream, f cephtest.Frame) []cephtest.Frame {
			if f.Tag == tag {
				return by
			}
			return []cephtest.Frame{f}
		}
	}
	for _, x := range []struct {
		name  string
		cfg   cephtest.Config
		kind  msgr.Kind
		final bool // for a lossless connection too
	}{
		{"messenger v1", cephtest.Config{Banner: []byte("ceph v027 and more of it")}, msgr.KindLegacy, true},
		{"no Ceph at all", cephtest.Config{Banner: []byte("SSH-2.0-OpenSSH_9.2\r\n")}, msgr.KindProtocol, false},
		{"messenger 2.0", cephtest.Config{Banner: frame.Banner{}.Append(nil)}, msgr.KindFeatures, true},
		{"requires compression", cephtest.Config{Banner: frame.Banner{Supported: 3, Required: 2}.Append(nil)}, msgr.KindFeatures, true},
		{"requires a feature", cephtest.Config{Required: 1 << 62}, msgr.KindFeatures, true},
		{"too old", cephtest.Config{Supported: 1 << 59, Required: 1}, msgr.KindFeatures, true},
		{"other type", cephtest.Config{Type: denc.TypeOSD}, msgr.KindPeer, false},
		{"compression", cephtest.Config{Outgoing: replace(frame.TagServerIdent, number(frame.TagCompressionRequest, 0))}, msgr.KindProtocol, false},
		{"message too early", cephtest.Config{Outgoing: replace(frame.TagHello, cephtest.Frame{Raw: rawMessage(nil)})}, msgr.KindProtocol, false},
		{"wrong signature", cephtest.Config{Outgoing: replace(frame.TagAuthSignature, cephtest.Of(frame.Signature{1}))}, msgr.KindSignature, false},
		{"wrong address", cephtest.Config{Outgoing: replace(frame.TagServerIdent, cephtest.Of(frame.ServerIdent{
			Addrs: addrs("v2:192.0.2.1:3300/8"), Supported: msgr.DefaultFeatures,
		}))}, msgr.KindPeer, false},
		{"changed on the way", cephtest.Config{Outgoing: func(_ *cephtest.Stream, f cephtest.Frame) []cephtest.Frame {
			if f.Tag == frame.TagHello { // the peer records one, the client sees another
				return []cephtest.Frame{{Raw: raw(nil, func(w *frame.Writer) { w.Control(f.Tag, f.Payload) })}}
			}
			return []cephtest.Frame{f}
		}}, 0, false},
	} {
		for _, policy := range []msgr.Policy{msgr.Lossy, msgr.Lossless} {
			bubble(t, fmt.Sprintf("%s/%d", x.name, policy), func(t *testing.T) {
				a := &cephtest.StaticAuth{Key: []byte("key")}
				cfg := x.cfg
				cfg.Auth, cfg.Lossless = a, policy == msgr.Lossless
				r := newRig(t, msgr.Options{Auth: a}, cfg)
				defer r.close()
				d := newClient()
				c, err := r.m.Connect(denc.TypeMon, peerAddrs, policy, d)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				fault := c.LastFault()
				if policy == msgr.Lossy || x.final {
					fault = c.Err()
				} else if c.Err() != nil {
					t.Errorf("a lossless connection ended with %v", c.Err())
				}
				if msgr.KindOf(fault) != x.kind {
					t.Errorf("the fault was %v, want %v", fault, x.kind)
				}
			})
		}
	}
}

func TestTimeouts(t *testing.T) {
	swallow := func(tag frame.Tag) func(*cephtest.Stream, frame.Tag, []byte) bool {
		return func(_ *cephtest.Stream, got frame.Tag, _ []byte) bool { return got != tag }
	}
	for _, x := range []struct {
		name     string
		cfg      cephtest.Config
		o        msgr.Options
		from, to time.Duration
		send     int
	}{
		{"handshake", cephtest.Config{Incoming: swallow(frame.TagAuthRequest)}, msgr.Options{}, 10 * time.Second, 10 * time.Second, 0},
		{"dial", cephtest.Config{}, msgr.Options{Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, 10 * time.Second, 10 * time.Second, 0},
		{"keepalive", cephtest.Config{Incoming: swallow(frame.TagKeepalive2)}, msgr.Options{}, 26 * time.Second, 30 * time.Second, 0},
		{"own keepalive", cephtest.Config{Incoming: swallow(frame.TagKeepalive2)}, msgr.Options{KeepaliveTimeout: time.Second}, 875 * time.Millisecond, time.Second, 0},
		{"reads nothing", cephtest.Config{OnMessage: func(*cephtest.Stream, *msgr.Message) { time.Sleep(time.Hour) }}, msgr.Options{}, 26 * time.Second, 30 * time.Second, 1 << 20},
	} {
		bubble(t, x.name, func(t *testing.T) {
			r := newRig(t, x.o, x.cfg)
			m := r.m
			if x.o.Dial != nil {
				x.o.Auth = &cephtest.StaticAuth{}
				m = msgr.New(x.o)
			}
			d := newClient()
			begin := time.Now()
			c, err := m.Connect(denc.TypeMon, peerAddrs, msgr.Lossy, d)
			if err != nil {
				t.Fatal(err)
			}
			if x.send > 0 {
				for range 4 {
					c.Send(&msgr.Message{Front: make([]byte, x.send)})
				}
			}
			<-d.closed
			if took := time.Since(begin); msgr.KindOf(d.err) != msgr.KindTimeout || took < x.from || took > x.to {
				t.Errorf("after %v: %v", took, d.err)
			}
			m.Close()
			r.close()
		})
	}
}

// TestSlowPeerIsNotDead: a peer that takes 24 s for what fills all buffers, and
// answers the keepalive behind it, stays connected.
func TestSlowPeerIsNotDead(t *testing.T) {
	inModes(t, func(t *testing.T, a *cephtest.StaticAuth) {
		got := 0
		r := newRig(t, msgr.Options{Auth: a}, cephtest.Config{Auth: a, OnMessage: func(*cephtest.Stream, *msgr.Message) {
			got++
			time.Sleep(1200 * time.Millisecond)
		}})
		defer r.close()
		c := r.connect(msgr.Lossy, newClient())
		for range 20 {
			c.Send(&msgr.Message{Front: make([]byte, 100<<10)})
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got != 20 || c.Err() != nil {
			t.Errorf("%d messages arrived, %v", got, c.Err())
		}
	})
}

// TestSlowDispatcher: a dispatcher that takes ten minutes stops neither
// acknowledgements nor keepalives while the queue has room, bounds what is
// read once it has none, and loses nothing.
func TestSlowDispatcher(t *testing.T) {
	inModes(t, func(t *testing.T, a *cephtest.StaticAuth) {
		const count, size = 200, 10 << 10
		var mu sync.Mutex
		acked, alive := uint64(0), 0
		r := newRig(t, msgr.Options{Auth: a, QueueBytes: 20 * (size + 1000)}, cephtest.Config{
			Auth: a, Lossless: true,
			Incoming: func(_ *cephtest.Stream, tag frame.Tag, p []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				switch tag {
				case frame.TagAck:
					acked, _ = frame.DecodeNumber(tag, p)
				case frame.TagKeepalive2Ack:
					if binary.LittleEndian.Uint32(p) != 12345 {
						t.Errorf("a keepalive came back as %x", p)
					}
					alive++
				}
				return true
			},
			OnReady: func(s *cephtest.Stream) {
				s.Keepalive(time.Unix(12345, 0))
				go func() {
					for i := range uint64(count) {
						s.Send(&msgr.Message{Tid: i + 1, Front: make([]byte, size)})
					}
				}()
			},
		})
		defer r.close()
		d := newClient()
		hold := make(chan struct{})
		var once sync.Once
		d.onMessage = func(_ *msgr.Conn, m *msgr.Message) {
			once.Do(func() { <-hold })
			m.Release()
		}
		c := r.connect(msgr.Lossless, d)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		mu.Lock()
		if acked < 19 || acked > 21 || alive != 1 {
			t.Errorf("%d messages were acknowledged and %d keepalives answered", acked, alive)
		}
		mu.Unlock()
		if c.LastFault() != nil || r.peer.Streams() != 1 {
			t.Errorf("%d streams, last fault %v", r.peer.Streams(), c.LastFault())
		}
		close(hold)
		synctest.Wait()
		if len(d.msgs) != count {
			t.Fatalf("%d messages arrived", len(d.msgs))
		}
		for i, m := range d.msgs {
			if m.Tid != uint64(i+1) {
				t.Fatalf("message %d came as number %d", m.Tid, i+1)
			}
		}
	})
}

// TestOthersAreNotBlocked: a dispatcher that never returns, and a peer that
// never reads, hold up nothing but their own connection.
func TestOthersAreNotBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e echo
		r := newRig(t, msgr.Options{QueueBytes: 1000}, cephtest.Config{OnMessage: e.onMessage})
		defer r.close()
		stuck := r.net.NewPeer(cephtest.Config{
			Type: denc.TypeOSD, Addrs: addrs("v2:192.0.2.2:6800/1"),
			OnReady: func(s *cephtest.Stream) {
				for range 20 {
					s.Send(&msgr.Message{Front: make([]byte, 900)})
				}
				time.Sleep(time.Minute)
			},
		})
		defer stuck.Close()
		hold := make(chan struct{})
		sd := newClient()
		sd.onMessage = func(*msgr.Conn, *msgr.Message) { <-hold }
		sc, err := r.m.Connect(denc.TypeOSD, stuck.Addrs(), msgr.Lossy, sd)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			sc.Send(&msgr.Message{Front: make([]byte, 1<<20)})
		}
		synctest.Wait()
		d := newClient()
		c := r.connect(msgr.Lossy, d)
		for i := range uint64(50) {
			c.Send(&msgr.Message{Tid: i})
		}
		synctest.Wait()
		if len(d.msgs) != 50 {
			t.Errorf("%d messages came back", len(d.msgs))
		}
		sc.Close()
		close(hold)
		<-sd.closed
	})
}

// TestNumbers: a message received before is dropped, and a gap is not.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		aborted := rawMessage(func(b []byte) { b[len(b)-13] = 1 })
		r := newRig(t, msgr.Options{}, cephtest.Config{OnReady: func(s *cephtest.Stream) {
			for _, seq := range []uint64{1, 2, 2, 1, 5, 4, 5, 6} {
				s.SendSeq(&msgr.Message{Tid: seq}, seq, 0)
			}
			s.SendRaw(aborted)
			s.SendSeq(&msgr.Message{Tid: 7}, 7, 12345) // a lossy peer acknowledges nothing that counts
		}})
		defer r.close()
		d := newClient()
		c := r.connect(msgr.Lossy, d)
		synctest.Wait()
		var got []uint64
		for _, m := range d.msgs {
			got = append(got, m.Tid)
		}
		if !slices.Equal(got, num(1, 2, 5, 6, 7)) || c.Err() != nil {
			t.Errorf("received %v, %v", got, c.Err())
		}
	})
}

func TestAcknowledgesWhatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, msgr.Options{}, cephtest.Config{Lossless: true, OnReady: func(s *cephtest.Stream) {
			if s.N() == 1 {
				s.SendFrame(number(frame.TagAck, 3))
			}
		}})
		defer r.close()
		c := r.connect(msgr.Lossless, newClient())
		sleep()
		if msgr.KindOf(c.LastFault()) != msgr.KindProtocol {
			t.Errorf("the fault was %v", c.LastFault())
		}
	})
}

// spy is a connection that notes where the written bytes lie.
type spy struct {
	net.Conn
	mu   *sync.Mutex
	seen map[*byte]int
}

func (s spy) Write(p []byte) (int, error) {
	s.mu.Lock()
	if len(p) > 0 {
		s.seen[&p[0]] = len(p)
	}
	s.mu.Unlock()
	return s.Conn.Write(p)
}

// TestDataIsNotCopied: in crc mode the pieces of a message are written from
// where they lie.
func TestDataIsNotCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, msgr.Options{}, cephtest.Config{})
		defer r.close()
		s := spy{mu: new(sync.Mutex), seen: map[*byte]int{}}
		m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			nc, err := r.net.Dial(ctx, a)
			return spy{nc, s.mu, s.seen}, err
		}})
		defer m.Close()
		c, err := m.Connect(denc.TypeMon, peerAddrs, msgr.Lossy, newClient())
		if err != nil {
			t.Fatal(err)
		}
		front, middle, a, b := make([]byte, 2000), make([]byte, 600), make([]byte, 1<<20), make([]byte, 3)
		c.Send(&msgr.Message{Front: front, Middle: middle, Data: [][]byte{a, b}})
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, p := range map[string][]byte{"front": front, "middle": middle, "first piece": a, "second piece": b} {
			if s.seen[&p[0]] != len(p) {
				t.Errorf("the %s was copied", name)
			}
		}
	})
}

// TestLyingAck: an acknowledgement that overtakes the writing of its message
// does not give the message back while it is still being read.
func TestLyingAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, msgr.Options{}, cephtest.Config{Lossless: true, OnMessage: func(s *cephtest.Stream, m *msgr.Message) {
			if m.Tid == 1 {
				time.Sleep(time.Second) // the writer is stuck in message 2
				s.SendFrame(number(frame.TagAck, 2))
				time.Sleep(5 * time.Second)
			}
		}})
		defer r.close()
		c := r.connect(msgr.Lossless, newClient())
		var mu sync.Mutex
		given := 0
		back := func() { mu.Lock(); given++; mu.Unlock() }
		c.Send(&msgr.Message{Tid: 1, Sent: back})
		synctest.Wait()
		c.Send(&msgr.Message{Tid: 2, Data: [][]byte{make([]byte, 1<<20)}, Sent: back})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		mu.Lock()
		if given != 1 {
			t.Errorf("%d messages were given back while the second was being written", given)
		}
		mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if given != 2 {
			t.Errorf("%d messages were given back", given)
		}
	})
}
