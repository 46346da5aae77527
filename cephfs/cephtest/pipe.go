package cephtest

import (
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBuffer is how much one direction of a connection holds: like a socket,
// it lets a writer run ahead, but not far.
const pipeBuffer = 64 << 10

// half is one direction of a connection in memory.
type half struct {
	mu     sync.Mutex
	change sync.Cond // of anything below
	buf    []byte
	passed int64 // bytes written so far
	limit  int64 // the connection breaks after so many
	err    error // for the reader, once buf is empty
	werr   error // for the writer
	until  [2]time.Time
	timer  [2]*time.Timer
	broken func() // breaks the other direction; called without mu
}

const (
	reading = 0
	writing = 1
)

func newHalf() *half {
	h := &half{limit: math.MaxInt64}
	h.change.L = &h.mu
	return h
}

func (h *half) expired(side int) bool {
	return !h.until[side].IsZero() && !time.Now().Before(h.until[side])
}

func (h *half) setDeadline(side int, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until[side] = t
	if h.timer[side] != nil {
		h.timer[side].Stop()
		h.timer[side] = nil
	}
	if !t.IsZero() {
		h.timer[side] = time.AfterFunc(time.Until(t), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.change.Broadcast()
		})
	}
	h.change.Broadcast()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.err == net.ErrClosed:
			return 0, h.err
		case h.expired(reading):
			return 0, os.ErrDeadlineExceeded
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			h.buf = h.buf[:copy(h.buf, h.buf[n:])]
			h.change.Broadcast()
			return n, nil
		case h.err != nil:
			return 0, h.err
		}
		h.change.Wait()
	}
}

func (h *half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(p) > 0 {
		switch {
		case h.werr != nil:
			return n, h.werr
		case h.expired(writing):
			return n, os.ErrDeadlineExceeded
		case len(h.buf) >= pipeBuffer:
			h.change.Wait()
			continue
		}
		k := min(len(p), pipeBuffer-len(h.buf))
		if left := h.limit - h.passed; int64(k) >= left {
			k = int(left)
			h.err, h.werr = syscall.ECONNRESET, syscall.ECONNRESET
		}
		h.buf = append(h.buf, p[:k]...)
		h.passed += int64(k)
		n += k
		p = p[k:]
		h.change.Broadcast()
		if h.werr != nil {
			h.mu.Unlock()
			h.broken()
			h.mu.Lock()
			return n, h.werr
		}
	}
	return n, nil
}

// stop ends the direction: with readErr after what is buffered (at once if
// drop), with writeErr for the writer.
func (h *half) stop(readErr, writeErr error, drop bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil || readErr == net.ErrClosed {
		h.err = readErr
	}
	if h.werr == nil {
		h.werr = writeErr
	}
	if drop {
		h.buf = nil
	}
	h.change.Broadcast()
}

func (h *half) stopTimers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.timer {
		if t != nil {
			t.Stop()
		}
	}
}

// conn is one end of a connection in memory.
type conn struct {
	in, out       *half
	local, remote net.Addr
}

// pipe returns the two ends of a connection.
func pipe(a, b net.Addr) (*conn, *conn) {
	x, y := newHalf(), newHalf()
	x.broken = func() { y.stop(syscall.ECONNRESET, syscall.ECONNRESET, true) }
	y.broken = func() { x.stop(syscall.ECONNRESET, syscall.ECONNRESET, true) }
	return &conn{in: x, out: y, local: a, remote: b}, &conn{in: y, out: x, local: b, remote: a}
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

// Close lets the other end read what was written, and then io.EOF.
func (c *conn) Close() error {
	c.out.stop(io.EOF, net.ErrClosed, false)
	c.in.stop(net.ErrClosed, syscall.ECONNRESET, true)
	c.in.stopTimers()
	c.out.stopTimers()
	return nil
}

// reset breaks both directions at once, and loses what was under way.
func (c *conn) reset() {
	c.out.stop(syscall.ECONNRESET, syscall.ECONNRESET, true)
	c.in.stop(syscall.ECONNRESET, syscall.ECONNRESET, true)
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(reading, t)
	c.out.setDeadline(writing, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(reading, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(writing, t)
	return nil
}
