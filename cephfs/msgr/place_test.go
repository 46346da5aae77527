package msgr_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// placer is a client that has places for data.
type placer struct {
	*client
	place func(m *msgr.Message, n int) [][]byte
}

func (p *placer) Place(_ *msgr.Conn, m *msgr.Message, n int) [][]byte {
	p.note(fmt.Sprintf("place %d of %d: %s", n, m.Tid, m.Front))
	return p.place(m, n)
}

func (p *placer) Placed(_ *msgr.Conn, ok bool) { p.note(fmt.Sprintf("placed %v", ok)) }

// placed runs a test with a peer that, when the client is ready, calls send.
func placed(t *testing.T, a *cephtest.StaticAuth, policy msgr.Policy, place func(*msgr.Message, int) [][]byte, send func(*cephtest.Stream), check func(*placer, *msgr.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		net := cephtest.NewNetwork()
		at := denc.AddrVec{{Type: denc.AddrMsgr2, Nonce: 1, Host: netip.MustParseAddrPort("192.0.2.1:6800")}}
		peer := net.NewPeer(cephtest.Config{Type: denc.TypeOSD, Addrs: at, Auth: a, OnReady: send})
		defer peer.Close()
		m := msgr.New(msgr.Options{Auth: a, Dial: net.Dial})
		defer m.Close()
		d := &placer{newClient(), place}
		c, err := m.Connect(denc.TypeOSD, at, policy, d)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		check(d, c)
	})
}

func message(tid uint64, data []byte) *msgr.Message {
	return &msgr.Message{Type: 43, Version: 8, Tid: tid, Front: []byte("front"), Data: [][]byte{data}}
}

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// TestPlaced: large data go where the dispatcher says, small ones and those that
// it has no place for are as ever.
func TestPlaced(t *testing.T) {
	data := noise(100 << 10)
	store := make([]byte, 100<<10)
	place := func(m *msgr.Message, n int) [][]byte {
		if m.Tid == 2 {
			return nil
		}
		if m.Type != 43 || m.Version != 8 || string(m.Front) != "front" {
			t.Errorf("asked about %+v", m)
		}
		return [][]byte{store[:10], store[10:10], store[10:n]}
	}
	placed(t, &cephtest.StaticAuth{}, msgr.Lossy, place, func(s *cephtest.Stream) {
		s.Send(message(1, data[:msgr.MinPlaced-1]))
		s.Send(message(2, data))
		s.Send(message(3, data))
		s.Send(message(4, data[:msgr.MinPlaced]))
	}, func(d *placer, _ *msgr.Conn) {
		var l []string
		for _, m := range d.msgs {
			if want := map[uint64]int{1: msgr.MinPlaced - 1, 2: len(data), 3: len(data), 4: msgr.MinPlaced}[m.Tid]; m.DataLen() != want {
				t.Errorf("message %d has %d bytes", m.Tid, m.DataLen())
			}
			if m.Placed != (m.Tid > 2) || !m.Placed && !bytes.Equal(m.Data[0], data[:m.DataLen()]) {
				t.Errorf("message %d: placed %v", m.Tid, m.Placed)
			}
		}
		if !bytes.Equal(store, data) {
			t.Error("the data are not in their place")
		}
		for _, s := range d.lines() { // the dispatcher's goroutine may be later
			if strings.HasPrefix(s, "place") {
				l = append(l, s)
			}
		}
		if got := strings.Join(l, ", "); got != "place 102400 of 2: front, place 102400 of 3: front, placed true, place 16384 of 4: front, placed true" {
			t.Error(got)
		}
	})
}

// TestPlacedSecure: nobody is asked in secure mode.
func TestPlacedSecure(t *testing.T) {
	data := noise(100 << 10)
	placed(t, &cephtest.StaticAuth{Key: []byte("key"), Mode: msgr.ModeSecure}, msgr.Lossy, nil, func(s *cephtest.Stream) {
		s.Send(message(1, data))
	}, func(d *placer, _ *msgr.Conn) {
		if m := d.msgs[0]; m.Placed || !bytes.Equal(m.Data[0], data) {
			t.Error("wrong data")
		}
	})
}

// TestPlacedFaults: after each Place comes a Placed, before the connection's end.
func TestPlacedFaults(t *testing.T) {
	data := noise(100 << 10)
	encoded := func(change func([]byte) []byte) func(*cephtest.Stream) {
		return func(s *cephtest.Stream) {
			w := frame.NewWriter()
			if err := w.Message(&frame.Header{Seq: 1, Tid: 1, Type: 43, Version: 8}, []byte("front"), nil, [][]byte{data}); err != nil {
				t.Error(err)
			}
			s.SendRaw(change(bytes.Join(*w.Buffers(), nil)))
		}
	}
	exact := func(_ *msgr.Message, n int) [][]byte { return [][]byte{make([]byte, n)} }
	for name, tc := range map[string]struct {
		place func(*msgr.Message, int) [][]byte
		send  func(*cephtest.Stream)
		kind  msgr.Kind // 0: the connection lives
	}{
		"damaged": {exact, encoded(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), msgr.KindChecksum},
		"given up": {exact, encoded(func(b []byte) []byte {
			b[len(b)-13] = 1 // late status
			return b
		}), 0},
		"cut": {exact, func(s *cephtest.Stream) { s.CutWrite(50 << 10); s.Send(message(1, data)) }, msgr.KindIO},
		"little room": {func(_ *msgr.Message, n int) [][]byte { return [][]byte{make([]byte, n-1)} },
			func(s *cephtest.Stream) { s.Send(message(1, data)) }, msgr.KindProtocol},
		"much room": {func(_ *msgr.Message, n int) [][]byte { return [][]byte{make([]byte, n), {0}} },
			func(s *cephtest.Stream) { s.Send(message(1, data)) }, msgr.KindProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			placed(t, &cephtest.StaticAuth{}, msgr.Lossy, tc.place, tc.send, func(d *placer, c *msgr.Conn) {
				if got := msgr.KindOf(c.Err()); c.Err() != nil && got != tc.kind || c.Err() == nil && tc.kind != 0 {
					t.Errorf("ended with %v", c.Err())
				}
				var l []string
				for _, s := range d.lines() {
					if strings.HasPrefix(s, "place") || strings.HasPrefix(s, "message") {
						l = append(l, s)
					}
				}
				if got := strings.Join(l, ", "); got != "place 102400 of 1: front, placed false" {
					t.Error(got)
				}
			})
		})
	}
}

// TestPlacedOnClose: Close has the messenger leave the buffers, though the peer
// sends nothing more.
func TestPlacedOnClose(t *testing.T) {
	data := noise(100 << 10)
	store := make([]byte, len(data))
	placed(t, &cephtest.StaticAuth{}, msgr.Lossless, func(*msgr.Message, int) [][]byte { return [][]byte{store} }, func(s *cephtest.Stream) {
		w := frame.NewWriter()
		if err := w.Message(&frame.Header{Seq: 1, Tid: 1, Type: 43}, []byte("front"), nil, [][]byte{data}); err != nil {
			t.Error(err)
		}
		s.SendRaw(bytes.Join(*w.Buffers(), nil)[:50<<10])
	}, func(d *placer, c *msgr.Conn) {
		if got := strings.Join(d.lines(), "\n"); !strings.Contains(got, "place 102400") || strings.Contains(got, "placed") {
			t.Errorf("got\n%s", got)
		}
		c.Close()
		synctest.Wait()
		if got := strings.Join(d.lines(), "\n"); !strings.Contains(got, "placed false") {
			t.Errorf("got\n%s", got)
		}
	})
}

// TestPlacedAgain: what was received before is not placed.
func TestPlacedAgain(t *testing.T) {
	data := noise(100 << 10)
	placed(t, &cephtest.StaticAuth{}, msgr.Lossy, func(_ *msgr.Message, n int) [][]byte { return [][]byte{make([]byte, n)} }, func(s *cephtest.Stream) {
		s.SendSeq(message(1, data), 1, 0)
		s.SendSeq(message(2, data), 1, 0)
		s.SendSeq(message(3, data), 2, 0)
	}, func(d *placer, _ *msgr.Conn) {
		var l []string
		for _, s := range d.lines() {
			if strings.HasPrefix(s, "place ") {
				l = append(l, s)
			}
		}
		if got := strings.Join(l, ", "); got != "place 102400 of 1: front, place 102400 of 3: front" {
			t.Error(got)
		}
	})
}
