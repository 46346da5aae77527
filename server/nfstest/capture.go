package nfstest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"capstan/internal/testutil"
)

// Record is one RPC message of a [Capture].
type Record = testutil.Record

// Capture is what went over one connection.
type Capture = testutil.Capture

// ReadCapture reads what Capture.WriteTo wrote.
func ReadCapture(r io.Reader) (Capture, error) { return testutil.ReadCapture(r) }

// Recorder records the messages of a connection.
type Recorder struct {
	mu      sync.Mutex // guards the fields below
	capture Capture
	partial [2]splitter // from the client, from the server
}

// Capture returns what was recorded so far.
func (r *Recorder) Capture() Capture {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(Capture(nil), r.capture...)
}

// Client returns nc, which the client's end holds, with all that passes being
// recorded.
func (r *Recorder) Client(nc net.Conn) net.Conn { return &recordedConn{nc, r} }

func (r *Recorder) add(fromClient bool, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.partial[1]
	if fromClient {
		p = &r.partial[0]
	}
	p.add(b, func(msg []byte) { r.capture = append(r.capture, Record{FromClient: fromClient, Data: msg}) })
}

type recordedConn struct {
	net.Conn
	r *Recorder
}

func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.r.add(false, p[:n])
	return n, err
}

func (c *recordedConn) Write(p []byte) (int, error) {
	c.r.add(true, p) // before it can be answered
	return c.Conn.Write(p)
}

// splitter cuts a stream into messages (RFC 5531 section 11).
type splitter struct {
	buf []byte
	msg []byte
}

func (s *splitter) add(b []byte, emit func([]byte)) {
	s.buf = append(s.buf, b...)
	for len(s.buf) >= 4 {
		mark := binary.BigEndian.Uint32(s.buf)
		n := int(mark &^ (1 << 31))
		if len(s.buf)-4 < n {
			return
		}
		s.msg = append(s.msg, s.buf[4:4+n]...)
		s.buf = s.buf[4+n:]
		if mark&(1<<31) != 0 {
			emit(s.msg)
			s.msg = nil
		}
	}
}

// Proxy accepts one connection on l, passes it on to a connection that dial
// makes, and returns what was recorded when both sides are done.
func Proxy(l net.Listener, dial func() (net.Conn, error)) (Capture, error) {
	client, err := l.Accept()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	defer client.Close()
	server, err := dial()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	var rec Recorder
	recorded := rec.Client(server)
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(recorded, client) // ends with the client
		server.Close()
	})
	_, _ = io.Copy(client, recorded)
	client.Close()
	copying.Wait()
	return rec.Capture(), nil
}

// Replay sends the client's messages of c over nc one after the other, waits
// for the reply to each, and returns these replies. The messages are the very
// bytes recorded, unless change is given and returns others for the nth; nil
// from it leaves the message out.
func Replay(ctx context.Context, c Capture, nc net.Conn, change func(n int, msg []byte) []byte) ([]Record, error) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	var (
		replies []Record
		cut     splitter
		buf     [64 << 10]byte
	)
	n := 0
	for _, r := range c {
		if !r.FromClient {
			continue
		}
		msg := r.Data
		if change != nil {
			msg = change(n, msg)
		}
		n++
		if msg == nil {
			continue
		}
		frame := binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg)))
		if _, err := nc.Write(append(frame, msg...)); err != nil {
			return replies, fmt.Errorf("message %d: %w", n, err)
		}
		for have := len(replies); len(replies) == have; {
			k, err := nc.Read(buf[:])
			if err != nil {
				return replies, fmt.Errorf("reply to message %d: %w", n, err)
			}
			cut.add(buf[:k], func(msg []byte) { replies = append(replies, Record{Data: msg}) })
		}
	}
	return replies, nil
}
