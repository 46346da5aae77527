package msgr_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
	"capstan/internal/testutil"
)

// smallBuffer dials with a send buffer that makes large writes short ones.
func smallBuffer(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	nc, err := dialBench(ctx, a)
	if err == nil {
		err = nc.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return nc, err
}

// TestTCP has many goroutines send over one TCP connection, where writes are
// vectored and short: the answers of each come in its order, and whole.
func TestTCP(t *testing.T) {
	for _, mode := range []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure} {
		testutil.NoLeaks(t)
		const senders, count = 8, 100
		a := &cephtest.StaticAuth{Mode: mode}
		at := benchPeer(t, a, func(nc net.Conn, r *frame.Reader, w *frame.Writer) {
			var h frame.Header
			for {
				p, err := r.Next()
				if err != nil {
					return
				}
				if p.Tag != frame.TagMessage {
					continue
				}
				h.Parse(r.First())
				front, middle, data, _, err := r.Body(make([]byte, r.BodySize()))
				if err != nil {
					t.Errorf("the peer read: %v", err)
					return
				}
				w.Message(&h, front, middle, [][]byte{data})
				if _, err := w.Buffers().WriteTo(nc); err != nil {
					return
				}
				w.Flushed()
			}
		})
		m := msgr.New(msgr.Options{Auth: a, Dial: smallBuffer, KeepaliveInterval: time.Millisecond})
		d := newClient()
		all := make(chan struct{})
		next := make([]uint64, senders)
		n := 0
		d.onMessage = func(_ *msgr.Conn, m *msgr.Message) {
			who := m.Front[0]
			if m.Tid != next[who] {
				t.Errorf("sender %d: answer %d, want %d", who, m.Tid, next[who])
			}
			next[who]++
			if len(m.Data) != 1 || !bytes.Equal(m.Data[0], bytes.Repeat(m.Front[:1], len(m.Data[0]))) {
				t.Errorf("sender %d: answer %d is damaged", who, m.Tid)
			}
			m.Release()
			if n++; n == senders*count {
				close(all)
			}
		}
		c, err := m.Connect(denc.TypeOSD, at, msgr.Lossy, d)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for who := range byte(senders) {
			wg.Go(func() {
				for i := range uint64(count) {
					half := bytes.Repeat([]byte{who}, int(i*i%3000)*int(who)+1)
					if err := c.Send(&msgr.Message{Tid: i, Front: []byte{who}, Data: [][]byte{half, half}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		select {
		case <-all:
		case <-c.Done():
			t.Errorf("ended with %v", c.Err())
		}
		m.Close()
	}
}

// TestFromTheDispatcher: every method may be called from within a call.
func TestFromTheDispatcher(t *testing.T) {
	a := &cephtest.StaticAuth{}
	r := newRig(t, msgr.Options{Auth: a}, cephtest.Config{OnMessage: func(s *cephtest.Stream, m *msgr.Message) { s.Send(m) }})
	d := newClient()
	d.onReady = func(c *msgr.Conn) { c.Send(&msgr.Message{Tid: 1}) }
	d.onMessage = func(c *msgr.Conn, m *msgr.Message) {
		if m.Tid < 5 {
			c.Send(&msgr.Message{Tid: m.Tid + 1, Sent: func() { c.Features() }})
			return
		}
		c.Close()
		if _, err := r.m.Connect(denc.TypeMon, peerAddrs, msgr.Lossy, newClient()); err != nil {
			t.Error(err)
		}
	}
	c := r.connect(msgr.Lossy, d)
	<-d.closed
	<-c.Done()
	if len(d.msgs) != 5 || d.err != nil {
		t.Errorf("%d messages, %v", len(d.msgs), d.err)
	}
	r.close()
}
