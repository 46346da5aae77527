package integration

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// echoServer sends back what it gets.
func echoServer(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer c.Close()
				_, _ = io.Copy(c, c) // ends with the connection, however that ends
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func dialProxy(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProxyCutsAtByte(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	addr := echoServer(t)
	for _, n := range []int64{0, 1, 1000, 65536, 100_000} {
		var seen bytes.Buffer
		p := StartProxy(t, ProxyOptions{Server: addr, Tap: func(_ int, d Direction, b []byte) {
			if d == Down {
				seen.Write(b)
			}
		}})
		p.CutAfter(Down, n)
		c := dialProxy(t, p)
		go func() { _, _ = c.Write(bytes.Repeat([]byte("x"), 200_000)) }() // fails with the cut
		got, err := io.ReadAll(c)
		if int64(len(got)) != n || err == nil {
			t.Errorf("cut after %d: read %d bytes, %v", n, len(got), err)
		}
		if p.Bytes(Down) != n || int64(seen.Len()) != n || p.Bytes(Up) == 0 {
			t.Errorf("cut after %d: counted %d, tapped %d", n, p.Bytes(Down), seen.Len())
		}
		// The next connection works.
		c = dialProxy(t, p)
		if _, err := c.Write([]byte("again")); err != nil {
			t.Error(err)
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "again" {
			t.Errorf("after the cut: %q, %v", b, err)
		}
	}
}

func TestProxyHoldsBack(t *testing.T) {
	p := StartProxy(t, ProxyOptions{Server: echoServer(t)})
	c := dialProxy(t, p)
	p.Blackhole(true)
	if _, err := c.Write([]byte("held")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes through a black hole, %v", n, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	p.Blackhole(false)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "held" {
		t.Errorf("after the black hole: %q, %v", b, err)
	}
	p.Delay(Down, 30*time.Millisecond)
	start := time.Now()
	if _, err := c.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil || time.Since(start) < 30*time.Millisecond {
		t.Errorf("delayed: %v after %s", err, time.Since(start))
	}
	p.Cut()
	if _, err := c.Read(b); err == nil {
		t.Error("read after a cut")
	}
	p.Refuse(true)
	switch c, err := net.Dial("tcp", p.Addr()); {
	case errors.Is(err, syscall.ECONNRESET): // refused before Dial looked
	case err != nil:
		t.Fatal(err)
	default:
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(b); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read from a proxy that refuses: %v", err)
		}
	}
}
