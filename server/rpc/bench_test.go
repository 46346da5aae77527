package rpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"capstan/server/xdr"
)

const (
	benchRead  = 1 // n bytes out
	benchWrite = 2 // opaque in
)

// benchServer serves a program that does nothing, without counting.
func benchServer(b *testing.B) net.Addr {
	s := NewServer(Options{})
	s.Register(&funcProgram{testProgram, 3, 3, func(_ context.Context, c *Call, e *xdr.Encoder) AcceptStat {
		switch c.Procedure {
		case benchRead:
			p, err := c.Payload(int(c.Args.Uint32("n")))
			if err != nil {
				return SystemErr
			}
			e.OpaqueRef(p.Bytes(), p.Releaser())
		case benchWrite:
			c.Args.Opaque("data", 1<<20)
		}
		if c.Args.Finish() != nil {
			return GarbageArgs
		}
		return Success
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve(l)
	b.Cleanup(func() { s.Shutdown(canceled()) })
	return l.Addr()
}

func benchDial(b *testing.B, a net.Addr) net.Conn {
	c, err := net.Dial("tcp", a.String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// cpu is the CPU time of the process, both sides of a benchmark.
func cpu() time.Duration {
	var ru syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// perCPU reports calls per second of CPU time and returns when to stop.
func perCPU(b *testing.B) func() {
	began := cpu()
	return func() { b.ReportMetric(float64(b.N)/(cpu()-began).Seconds(), "ops/cpu-s") }
}

// BenchmarkNull makes small calls on some connections, with some of them
// pipelined on each: what the layer itself costs. The client does not allocate.
func BenchmarkNull(b *testing.B) {
	for _, conns := range []int{1, 4, 16} {
		for _, depth := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("conns=%d/depth=%d", conns, depth), func(b *testing.B) {
				addr := benchServer(b)
				var call xdr.Encoder
				call.Append(words(1, 0, 2, testProgram, 3, 0))
				(&Credential{Flavor: FlavorSys, Machine: "client", Groups: []uint32{1, 2, 3}}).AppendTo(&call)
				call.Append(words(0, 0))
				var batch []byte
				for range depth {
					batch = append(batch, marked(call.Bytes())...)
				}
				b.ReportAllocs()
				var wg sync.WaitGroup
				peers := make([]net.Conn, conns)
				for i := range peers {
					peers[i] = benchDial(b, addr)
				}
				b.ResetTimer()
				defer perCPU(b)()
				for _, c := range peers {
					wg.Go(func() {
						in := make([]byte, 28*depth)
						for n := b.N / conns; n > 0; n -= depth {
							k := min(n, depth)
							if _, err := c.Write(batch[:len(batch)/depth*k]); err != nil {
								b.Error(err)
								return
							}
							if _, err := io.ReadFull(c, in[:28*k]); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkPayload moves 1 MiB a call, 8 calls pipelined; BenchmarkCopy is what
// it is compared with.
func BenchmarkPayload(b *testing.B) {
	const size = 1 << 20
	run := func(b *testing.B, call []byte, reply int) {
		c := benchDial(b, benchServer(b))
		b.SetBytes(size)
		b.ReportAllocs()
		b.ResetTimer()
		tokens := make(chan struct{}, 8)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range b.N {
				tokens <- struct{}{}
				if _, err := c.Write(call); err != nil {
					b.Error(err)
					return
				}
			}
		})
		in := make([]byte, 1<<20+64)
		for range b.N {
			if _, err := io.ReadFull(c, in[:reply]); err != nil {
				b.Error(err)
				break
			}
			<-tokens
		}
		wg.Wait()
	}
	b.Run("read", func(b *testing.B) {
		run(b, marked(rawCall(1, testProgram, 3, benchRead, size)), 28+4+size)
	})
	b.Run("write", func(b *testing.B) {
		args := append(binary.BigEndian.AppendUint32(nil, size), make([]byte, size)...)
		run(b, marked(append(rawCall(1, testProgram, 3, benchWrite), args...)), 28)
	})
}

// BenchmarkCopy moves 1 MiB at a time over loopback, with nothing around it.
func BenchmarkCopy(b *testing.B) {
	const size = 1 << 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		out := make([]byte, size)
		for {
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}()
	c := benchDial(b, l.Addr())
	in := make([]byte, size)
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := io.ReadFull(c, in); err != nil {
			b.Fatal(err)
		}
	}
}
