package rpc

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"capstan/server/xdr"
)

// TestAddresses checks what a program sees of IPv4 and IPv6 peers, on a
// listener that takes both.
func TestAddresses(t *testing.T) {
	w := newWatch()
	s := newTestServer(t, Options{MaxConnsPerHost: 2, Observer: w})
	seen := make(chan *Conn, 1)
	s.Register(&funcProgram{testProgram + 1, 1, 1, func(_ context.Context, c *Call, _ *xdr.Encoder) AcceptStat {
		seen <- c.Conn
		return Success
	}})
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	defer func() {
		s.Shutdown(canceled())
		<-done
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "::1"} {
		s.addr = net.JoinHostPort(host, port)
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			if host == "::1" {
				t.Log("no IPv6 here")
				continue
			}
			t.Fatal(err)
		}
		c.Close()
		<-w.ended // it counts no more
		for range 2 {
			r, err := s.dial(ClientOptions{}).Call(soon(t), testProgram+1, 1, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
			conn := <-seen
			if conn.Remote().Addr() != netip.MustParseAddr(host) || conn.Local().String() != s.addr {
				t.Errorf("remote %v, local %v", conn.Remote(), conn.Local())
			}
		}
	}
}

func TestRegisterTwice(t *testing.T) {
	for _, p := range []*funcProgram{{testProgram, 4, 5, nil}, {testProgram, 1, 9, nil}, {testProgram + 1, 2, 1, nil}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("versions %d to %d taken", p.low, p.high)
				}
			}()
			newTestServer(t, Options{}).Register(p)
		}()
	}
}
