package nfstest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// Record is one RPC message of a capture, its record mark left out.
type Record struct {
	FromClient bool
	Data       []byte
}

// Capture is what went over one connection, message by message in the order in
// which it was complete. As text it is a line that begins with > (from the
// client) or < and says how many bytes follow, then the bytes in hexadecimal,
// 32 a line; lines that begin with # are comments.
type Capture []Record

// maxCaptured bounds one message of a capture, in bytes.
const maxCaptured = 4 << 20

// WriteTo writes c as text.
func (c Capture) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	for _, r := range c {
		mark := byte('<')
		if r.FromClient {
			mark = '>'
		}
		fmt.Fprintf(&b, "%c %d\n", mark, len(r.Data))
		for data := r.Data; len(data) > 0; {
			n := min(len(data), 32)
			b.WriteString(hex.EncodeToString(data[:n]))
			b.WriteByte('\n')
			data = data[n:]
		}
	}
	return b.WriteTo(w)
}

// ReadCapture reads what WriteTo wrote.
func ReadCapture(r io.Reader) (c Capture, err error) {
	lines := bufio.NewScanner(r)
	want := 0 // bytes still to come
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case want == 0 && (line[0] == '>' || line[0] == '<'):
			if _, err := fmt.Sscanf(line[1:], "%d", &want); err != nil || want < 0 || want > maxCaptured {
				return nil, fmt.Errorf("capture, line %d: %q: a length is wanted", n, line)
			}
			c = append(c, Record{FromClient: line[0] == '>'})
		default:
			b, err := hex.DecodeString(line)
			if err != nil || len(b) > want {
				return nil, fmt.Errorf("capture, line %d: %q: at most %d bytes in hexadecimal are wanted", n, line, want)
			}
			last := &c[len(c)-1]
			last.Data = append(last.Data, b...)
			want -= len(b)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	if want > 0 {
		return nil, fmt.Errorf("capture: %d bytes are missing at the end", want)
	}
	return c, nil
}

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
	p.add(b, func(msg []byte) { r.capture = append(r.capture, Record{fromClient, msg}) })
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
func (c Capture) Replay(ctx context.Context, nc net.Conn, change func(n int, msg []byte) []byte) ([]Record, error) {
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
