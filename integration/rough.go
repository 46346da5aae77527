package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// RoughNet is a TCP proxy that stands for a bad network: it ends every connection somewhere, most often in the middle
// of a message, passes bytes on in odd pieces, and some of them late. A client says in a first line where it wants to
// go ("127.0.0.1:3300\n"), so one RoughNet stands before all daemons of a cluster.
//
// What happens to the Nth connection depends on the seed and N alone, and on counts of bytes, not on time: on a slow
// machine it is neither rougher nor gentler.
//
// Each connection has three goroutines, which Close waits for.
type RoughNet struct {
	l      net.Listener
	seed   uint64
	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	conns, cuts, bytes atomic.Int64
}

// roughest and gentlest bound, as powers of two, after how many bytes of one direction a connection ends: some end in
// the handshake, some let a good deal through.
const roughest, gentlest = 8, 20

// lateEvery is after about how many bytes a late connection is late, by up to mostLate.
const (
	lateEvery = 8 << 10
	mostLate  = 20 * time.Millisecond
)

// NewRoughNet starts a RoughNet on the host's loopback.
func NewRoughNet(seed uint64) (*RoughNet, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &RoughNet{l: l, seed: seed}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.wg.Go(func() {
		for n := uint64(0); ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() { r.runConn(c, rand.New(rand.NewPCG(r.seed, n))) })
		}
	})
	return r, nil
}

// Addr is where clients connect.
func (r *RoughNet) Addr() string { return r.l.Addr().String() }

// String tells what has been done so far.
func (r *RoughNet) String() string {
	return fmt.Sprintf("%d connections, %d of them cut, %d bytes passed", r.conns.Load(), r.cuts.Load(), r.bytes.Load())
}

// Close ends all connections and waits.
func (r *RoughNet) Close() error {
	r.cancel()
	err := r.l.Close()
	r.wg.Wait()
	return err
}

func (r *RoughNet) runConn(client net.Conn, rng *rand.Rand) {
	c := &proxyConn{client: client, server: client}
	defer func() { c.reset() }()
	stop := context.AfterFunc(r.ctx, func() { client.Close() })
	defer stop()
	in := bufio.NewReaderSize(client, 64)
	where, err := in.ReadString('\n')
	if err != nil {
		return
	}
	var d net.Dialer
	server, err := d.DialContext(r.ctx, "tcp", strings.TrimSpace(where))
	if err != nil {
		return
	}
	stopServer := context.AfterFunc(r.ctx, func() { server.Close() })
	defer stopServer()
	c.server = server
	r.conns.Add(1)

	// One direction ends the connection after so many bytes; the other goes on until then.
	left := [2]int64{-1, -1}
	power := roughest + rng.Float64()*(gentlest-roughest)
	left[rng.IntN(2)] = int64(float64(uint64(1)<<int(power)) * (1 + power - float64(int(power))))
	var pumps sync.WaitGroup
	for d, from := range []io.Reader{in, server} {
		to := []net.Conn{server, client}[d]
		pump := roughPump{from: from, to: to, left: left[d], rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), buf: make([]byte, 1<<(6+rng.IntN(11)))}
		if rng.IntN(2) == 0 {
			pump.late = mostLate
		}
		pumps.Go(func() {
			if pump.run(r) {
				r.cuts.Add(1)
			}
			c.reset() // both ways
		})
	}
	pumps.Wait()
}

// roughPump passes one direction of a connection on.
type roughPump struct {
	from io.Reader
	to   net.Conn
	left int64 // bytes until the cut; <0: none
	late time.Duration
	rng  *rand.Rand
	buf  []byte // its size is that of the pieces
}

// run passes bytes on until the connection ends, and reports whether it was cut.
func (p *roughPump) run(r *RoughNet) bool {
	for {
		n, err := p.from.Read(p.buf)
		// As often in small pieces as in large ones, by what passes: nothing is to become slow.
		if p.late > 0 && p.rng.IntN(lateEvery) < n {
			t := time.NewTimer(time.Duration(p.rng.Int64N(int64(p.late))))
			select {
			case <-t.C:
			case <-r.ctx.Done():
				t.Stop()
				return false
			}
		}
		cut := p.left >= 0 && int64(n) >= p.left
		if cut {
			n = int(p.left)
		}
		if p.left >= 0 {
			p.left -= int64(n)
		}
		if _, werr := p.to.Write(p.buf[:n]); err == nil {
			err = werr
		}
		r.bytes.Add(int64(n))
		if cut {
			waitSent(r.ctx, p.to) // the half of a message must arrive, which a reset throws away
			return true
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return false
			}
			waitSent(r.ctx, p.to)
			return false
		}
	}
}
