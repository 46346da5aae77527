package integration

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Direction is one of the two ways through a Proxy.
type Direction int

// Directions.
const (
	Up   Direction = iota // client to server
	Down                  // server to client
)

func (d Direction) String() string {
	if d == Up {
		return "up"
	}
	return "down"
}

// Proxy stands between TCP clients and a server and can be a bad network: it cuts connections, at once or after an
// exact number of bytes, holds bytes back, delays them, and counts them.
//
// Each connection has two pump goroutines, which Close waits for.
type Proxy struct {
	l    net.Listener
	dial func(context.Context) (net.Conn, error)
	tap  func(conn int, d Direction, b []byte)

	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	cond    *sync.Cond // on mu: hold or an allowance changed, or closed
	conns   map[int]*proxyConn
	next    int // connections accepted so far
	refuse  bool
	hold    [2]bool          // by Direction
	delay   [2]time.Duration // by Direction
	allow   [2]int64         // bytes until the cut, by Direction; <0 for no cut
	count   [2]int64         // bytes forwarded, by Direction
	closed  bool
	cutters int // cuts made by an allowance
}

type proxyConn struct {
	id             int
	client, server net.Conn
}

// ProxyOptions describe a Proxy.
type ProxyOptions struct {
	Net    *Net   // where it listens and connects; nil for the host
	Listen string // "10.99.0.1:13049"; a free port of ServerIP or 127.0.0.1 if empty
	Server string // "10.99.0.1:2049"
	// Tap is called with all bytes forwarded, in order for each connection and direction, before they go on; for
	// recording real messages. It must not keep b.
	Tap func(conn int, d Direction, b []byte)
}

// NewProxy starts a proxy.
func NewProxy(ctx context.Context, o ProxyOptions) (*Proxy, error) {
	listen := o.Listen
	switch {
	case listen == "" && o.Net != nil:
		listen = net.JoinHostPort(ServerIP, "0")
	case listen == "":
		listen = "127.0.0.1:0"
	}
	l, err := o.Net.Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		l: l, tap: o.Tap, conns: make(map[int]*proxyConn), allow: [2]int64{-1, -1},
		dial: func(ctx context.Context) (net.Conn, error) { return o.Net.Dial(ctx, "tcp", o.Server) },
	}
	p.cond = sync.NewCond(&p.mu)
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.wg.Add(1)
	go p.runAccept()
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Port is the port of Addr.
func (p *Proxy) Port() int { return p.l.Addr().(*net.TCPAddr).Port }

// Conns is the number of connections accepted so far.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// Bytes is the number of bytes forwarded in a direction.
func (p *Proxy) Bytes(d Direction) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[d]
}

// Cut resets all connections. New ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.reset()
	}
}

// CutAfter lets n further bytes pass in a direction, all connections together, and then resets all connections;
// after that bytes pass freely again. A negative n takes the order back.
func (p *Proxy) CutAfter(d Direction, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allow[d] = n
	p.cond.Broadcast()
}

// Cuts is the number of cuts that CutAfter has led to.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutters
}

// Refuse makes the proxy reset connections as soon as they are accepted, or accept them again.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Blackhole holds back all bytes of both directions, of new connections too, or lets them go on: nothing is lost.
func (p *Proxy) Blackhole(on bool) {
	p.Hold(Up, on)
	p.Hold(Down, on)
}

// Hold holds back the bytes of one direction, or lets them go on.
func (p *Proxy) Hold(d Direction, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold[d] = on
	p.cond.Broadcast()
}

// Delay delays each chunk of bytes of a direction.
func (p *Proxy) Delay(d Direction, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay[d] = by
}

// Close ends all connections and the proxy.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.l.Close()
	p.mu.Lock()
	p.closed = true
	for _, c := range p.conns {
		c.reset()
	}
	p.cond.Broadcast()
	p.mu.Unlock()
	p.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *proxyConn) reset() {
	for _, n := range []net.Conn{c.client, c.server} {
		if t, ok := n.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // RST instead of FIN
		}
		n.Close()
	}
}

func (p *Proxy) runAccept() {
	defer p.wg.Done()
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go p.runConn(client)
	}
}

func (p *Proxy) runConn(client net.Conn) {
	defer p.wg.Done()
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	c := &proxyConn{client: client, server: client}
	if refuse {
		c.reset()
		return
	}
	server, err := p.dial(p.ctx)
	if err != nil {
		c.reset()
		return
	}
	c.server = server
	p.mu.Lock()
	c.id = p.next
	p.next++
	p.conns[c.id] = c
	if p.closed {
		c.reset()
	}
	p.mu.Unlock()

	var pumps sync.WaitGroup
	pumps.Add(2)
	go func() { defer pumps.Done(); p.runPump(c, Up, client, server) }()
	go func() { defer pumps.Done(); p.runPump(c, Down, server, client) }()
	pumps.Wait()
	p.mu.Lock()
	delete(p.conns, c.id)
	p.mu.Unlock()
	client.Close()
	server.Close()
}

// runPump forwards one direction of a connection until it ends.
func (p *Proxy) runPump(c *proxyConn, d Direction, from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.forward(c, d, to, buf[:n]) {
			return
		}
		if err != nil {
			// An orderly end goes on as such, an error ends both ways.
			if t, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
				_ = t.CloseWrite()
			} else {
				c.reset()
			}
			return
		}
	}
}

// forward passes bytes on as hold, delay and allowance say; it reports false when the connection is over.
func (p *Proxy) forward(c *proxyConn, d Direction, to net.Conn, b []byte) bool {
	p.mu.Lock()
	delay := p.delay[d]
	p.mu.Unlock()
	if delay > 0 {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.ctx.Done():
			return false
		}
	}
	for len(b) > 0 {
		p.mu.Lock()
		for p.hold[d] && !p.closed {
			p.cond.Wait()
		}
		if p.closed {
			p.mu.Unlock()
			return false
		}
		n := len(b)
		cut := false
		if a := p.allow[d]; a >= 0 {
			if int64(n) >= a {
				n, cut = int(a), true
				p.allow[d] = -1
			} else {
				p.allow[d] -= int64(n)
			}
		}
		p.count[d] += int64(n)
		p.mu.Unlock()
		if p.tap != nil && n > 0 {
			p.tap(c.id, d, b[:n])
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				c.reset()
				return false
			}
		}
		if cut {
			// The last bytes must arrive: a reset right behind them would throw them away at the receiver.
			waitSent(p.ctx, to)
			p.mu.Lock()
			p.cutters++
			p.mu.Unlock()
			p.Cut()
			return false
		}
		b = b[n:]
	}
	return true
}

// waitSent waits until the peer's kernel has acknowledged all that was written to a TCP connection.
func waitSent(ctx context.Context, c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_ = poll(ctx, "acknowledgement", func() (bool, error) {
		queued, err := 0, error(nil)
		if e := raw.Control(func(fd uintptr) { queued, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); e != nil {
			err = e
		}
		return queued == 0, err
	})
}
