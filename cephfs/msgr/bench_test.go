package msgr_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

// benchPeer is the leanest other side over TCP: it does the handshake and
// then hands over the stream, so that the allocations counted are ours.
func benchPeer(b testing.TB, a *cephtest.StaticAuth, serve func(nc net.Conn, r *frame.Reader, w *frame.Writer)) denc.AddrVec {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	b.Cleanup(func() {
		l.Close()
		<-done
	})
	at := denc.AddrVec{{Type: denc.AddrMsgr2, Host: l.Addr().(*net.TCPAddr).AddrPort()}}
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		r := frame.NewReader(nc, frame.Limits{Control: 1 << 20, Front: 1 << 26, Middle: 1 << 26, Data: 1 << 26})
		w := frame.NewWriter()
		send := func(p frame.Payload) {
			w.Append(p)
			w.Buffers().WriteTo(nc)
			w.Flushed()
		}
		w.Raw(frame.Banner{Supported: frame.FeatureRevision1}.Append(nil))
		r.Banner()
		send(frame.Hello{Type: denc.TypeOSD, Addr: at[0]})
		r.Next() // HELLO
		r.Next() // AUTH_REQUEST
		mode := max(a.Mode, msgr.ModeCRC)
		send(frame.AuthDone{GlobalID: 1, Mode: uint32(mode)})
		r.StopRecording()
		w.StopRecording()
		if mode == msgr.ModeSecure {
			frame.Secure(r, w, cephtest.Secret, true)
		}
		send(frame.Signature{})
		r.Next() // AUTH_SIGNATURE
		r.Next() // CLIENT_IDENT
		send(frame.ServerIdent{Addrs: at, Supported: msgr.DefaultFeatures, Flags: frame.FlagLossy})
		serve(nc, r, w)
	}()
	return at
}

// counter is a dispatcher that counts.
type counter struct {
	ready chan struct{}
	n     atomic.Int64
	until int64
	full  chan struct{}
}

func newCounter(until int) *counter {
	return &counter{ready: make(chan struct{}), until: int64(until), full: make(chan struct{})}
}

func (d *counter) Ready(*msgr.Conn) { close(d.ready) }
func (d *counter) Receive(_ *msgr.Conn, m *msgr.Message) {
	m.Release()
	if d.n.Add(1) == d.until {
		close(d.full)
	}
}
func (d *counter) RemoteReset(*msgr.Conn)   {}
func (d *counter) Closed(*msgr.Conn, error) {}

func dialBench(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", a.String())
}

func eachBench(b *testing.B, f func(b *testing.B, a *cephtest.StaticAuth, size int)) {
	for _, mode := range []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure} {
		for _, size := range []int{0, 4 << 10, 4 << 20} {
			b.Run(fmt.Sprintf("mode=%d/data=%d", mode, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				f(b, &cephtest.StaticAuth{Mode: mode}, size)
			})
		}
	}
}

// BenchmarkSend sends messages that exist; the peer drops the bytes.
func BenchmarkSend(b *testing.B) {
	eachBench(b, func(b *testing.B, a *cephtest.StaticAuth, size int) {
		at := benchPeer(b, a, func(nc net.Conn, _ *frame.Reader, _ *frame.Writer) {
			io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{nc}, make([]byte, 1<<20))
		})
		m := msgr.New(msgr.Options{Auth: a, Dial: dialBench})
		defer m.Close()
		d := newCounter(0)
		c, err := m.Connect(denc.TypeOSD, at, msgr.Lossy, d)
		if err != nil {
			b.Fatal(err)
		}
		<-d.ready
		// As many as a client has under way.
		free := make(chan *msgr.Message, 64)
		front := make([]byte, 200)
		for range min(64, max(2, 16<<20/(size+1))) {
			x := &msgr.Message{Type: 42, Front: front, Data: [][]byte{make([]byte, size)}}
			x.Sent = func() { free <- x }
			free <- x
		}
		held := len(free)
		b.ResetTimer()
		for range b.N {
			c.Send(<-free)
		}
		for range held {
			<-free
		}
	})
}

// BenchmarkReceive receives messages and releases them.
func BenchmarkReceive(b *testing.B) {
	eachBench(b, func(b *testing.B, a *cephtest.StaticAuth, size int) {
		start := make(chan struct{})
		at := benchPeer(b, a, func(nc net.Conn, _ *frame.Reader, w *frame.Writer) {
			<-start
			front, data := make([]byte, 200), [][]byte{make([]byte, size)}
			var h frame.Header
			for i := range b.N {
				h.Seq = uint64(i + 1)
				w.Message(&h, front, nil, data)
				if w.Len() > 256<<10 || i == b.N-1 {
					if _, err := w.Buffers().WriteTo(nc); err != nil {
						return
					}
					w.Flushed()
				}
			}
			io.Copy(io.Discard, nc)
		})
		m := msgr.New(msgr.Options{Auth: a, Dial: dialBench})
		defer m.Close()
		d := newCounter(b.N)
		if _, err := m.Connect(denc.TypeOSD, at, msgr.Lossy, d); err != nil {
			b.Fatal(err)
		}
		<-d.ready
		b.ResetTimer()
		close(start)
		<-d.full
	})
}

// BenchmarkRoundTrip is one request under way, answered by a peer that copies
// bytes.
func BenchmarkRoundTrip(b *testing.B) {
	at := benchPeer(b, &cephtest.StaticAuth{}, func(nc net.Conn, r *frame.Reader, w *frame.Writer) {
		var h frame.Header
		body := make([]byte, 1<<10)
		for {
			p, err := r.Next()
			if err != nil {
				return
			}
			if p.Tag != frame.TagMessage {
				continue
			}
			h.Parse(r.First())
			front, _, _, _, err := r.Body(body[:r.BodySize()])
			if err != nil {
				return
			}
			w.Message(&h, front, nil, nil)
			w.Buffers().WriteTo(nc)
			w.Flushed()
		}
	})
	m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: dialBench})
	defer m.Close()
	got := make(chan struct{}, 1)
	rd := &relay{got: got, ready: make(chan struct{})}
	c, err := m.Connect(denc.TypeOSD, at, msgr.Lossy, rd)
	if err != nil {
		b.Fatal(err)
	}
	<-rd.ready
	x := &msgr.Message{Type: 42, Front: bytes.Repeat([]byte("f"), 200)}
	b.ReportAllocs()
	for b.Loop() {
		c.Send(x)
		<-got
	}
}

type relay struct{ got, ready chan struct{} }

func (d *relay) Ready(*msgr.Conn) { close(d.ready) }
func (d *relay) Receive(_ *msgr.Conn, m *msgr.Message) {
	m.Release()
	d.got <- struct{}{}
}
func (d *relay) RemoteReset(*msgr.Conn)   {}
func (d *relay) Closed(*msgr.Conn, error) {}
