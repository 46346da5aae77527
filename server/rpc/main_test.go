package rpc

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"capstan/internal/testutil"
	"capstan/server/xdr"
)

func TestMain(m *testing.M) { testutil.VerifyMain(m) }

// The program that tests serve.
const (
	testProgram = 0x20000099
	procNull    = 0
	procEcho    = 1 // opaque in, the same opaque out, spliced
	procBlock   = 2 // answers when let, see testServer.unblock
	procPanic   = 3
	procWho     = 4 // the credential
	procFill    = 5 // n bytes out, as a payload
	procGoexit  = 6
	procDeny    = 7
	procGarbage = 8 // appends results and a payload, then GARBAGE_ARGS
)

// funcProgram is a Program made of a function.
type funcProgram struct {
	number, low, high uint32
	serve             func(context.Context, *Call, *xdr.Encoder) AcceptStat
}

func (p *funcProgram) Number() uint32             { return p.number }
func (p *funcProgram) Versions() (uint32, uint32) { return p.low, p.high }
func (p *funcProgram) Serve(ctx context.Context, c *Call, e *xdr.Encoder) AcceptStat {
	return p.serve(ctx, c, e)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// testServer is a server with the test program in versions 3 and 4.
type testServer struct {
	*Server
	t       testing.TB
	addr    string
	unblock chan struct{} // a value lets one procBlock go on
	blocked chan uint32   // xids of procBlock calls as they arrive
	payload payloadCount
}

// quiet checks the arguments of log calls without printing them.
var quiet = slog.New(slog.NewTextHandler(discard{}, &slog.HandlerOptions{Level: slog.LevelDebug}))

func newTestServer(t testing.TB, opt Options) *testServer {
	if opt.Logger == nil {
		opt.Logger = quiet
	}
	s := &testServer{Server: NewServer(opt), t: t, unblock: make(chan struct{}), blocked: make(chan uint32, 4096)}
	s.Register(&funcProgram{testProgram, 3, 3, s.serve})
	s.Register(&funcProgram{testProgram, 4, 4, s.serve})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		s.checkClean()
	})
	return s
}

// checkClean checks that all budgets were given back and all payloads released.
func (s *testServer) checkClean() {
	s.t.Helper()
	if st := s.Stats(); st != (Stats{}) {
		s.t.Errorf("after shutdown: %+v", st)
	}
	s.payload.check(s.t)
}

// listen serves on loopback.
func (s *testServer) listen() *testServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	s.t.Cleanup(func() {
		s.Shutdown(canceled())
		if err := <-done; err != ErrServerClosed {
			s.t.Errorf("Serve: %v", err)
		}
	})
	return s
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// pipe serves one in-memory connection and returns the peer's end.
func (s *testServer) pipe() net.Conn {
	a, b := net.Pipe()
	s.ServeConn(a)
	s.t.Cleanup(func() { b.Close() })
	return b
}

func (s *testServer) dial(opt ClientOptions) *Client {
	s.t.Helper()
	c, err := Dial(context.Background(), "tcp", s.addr, opt)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

func (s *testServer) serve(ctx context.Context, c *Call, e *xdr.Encoder) AcceptStat {
	switch c.Procedure {
	case procNull:
	case procEcho:
		data := c.Args.Opaque("data", 8<<20)
		if c.Args.Finish() != nil {
			return GarbageArgs
		}
		c.Record().Retain()
		e.OpaqueRef(data, s.payload.track(c.Record().Releaser()))
	case procBlock:
		s.blocked <- c.XID
		select {
		case <-s.unblock:
		case <-ctx.Done():
		}
	case procPanic:
		e.OpaqueRef(make([]byte, 100), s.payload.track(nil))
		panic("as asked")
	case procGoexit:
		goexit()
	case procWho:
		e.Uint32(uint32(c.Cred.Flavor))
		e.String(c.Cred.Machine)
		e.Uint32(c.Cred.UID)
		e.Uint32(c.Cred.GID)
		e.Uint32(uint32(len(c.Cred.Groups)))
		for _, g := range c.Cred.Groups {
			e.Uint32(g)
		}
	case procFill:
		n := int(c.Args.Uint32("n"))
		b, err := c.Payload(n)
		if err != nil {
			return SystemErr
		}
		e.OpaqueRef(b.Bytes(), s.payload.track(b.Releaser()))
	case procDeny:
		e.Uint32(1)
		c.Deny(AuthTooWeak)
	case procGarbage:
		e.Uint32(1)
		e.OpaqueRef(make([]byte, 100), s.payload.track(nil))
		return GarbageArgs
	default:
		return ProcUnavail
	}
	return Success
}

// soon is for waits that end at once unless something is broken.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
