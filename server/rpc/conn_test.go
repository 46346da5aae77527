package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"capstan/internal/testutil"
	"capstan/server/xdr"
)

// TestFragmentedStream sends two calls in fragments of one byte, in one write
// and in writes of one byte.
func TestFragmentedStream(t *testing.T) {
	stream := append(fragmented(rawCall(1, testProgram, 3, procNull), 1),
		fragmented(rawCall(2, testProgram, 4, procEcho, 3, 0x61626300), 1)...)
	for _, step := range []int{len(stream), 1} {
		s := newTestServer(t, Options{MaxInFlightPerConn: 1}) // keeps the order
		c := s.pipe()
		go func() {
			for b := stream; len(b) > 0; b = b[min(step, len(b)):] {
				c.Write(b[:min(step, len(b))])
			}
		}()
		equal(t, "first", receive(t, c), words(1, 1, 0, 0, 0, 0))
		equal(t, "second", receive(t, c), words(2, 1, 0, 0, 0, 0, 3, 0x61626300))
	}
}

// TestRepliesOutOfOrder checks that calls of a connection do not wait for each
// other.
func TestRepliesOutOfOrder(t *testing.T) {
	s := newTestServer(t, Options{})
	c := s.pipe()
	send(t, c, bytes.Join([][]byte{
		marked(rawCall(1, testProgram, 3, procBlock)),
		marked(rawCall(2, testProgram, 3, procBlock)),
		marked(rawCall(3, testProgram, 3, procNull)),
	}, nil))
	equal(t, "first reply", receive(t, c), words(3, 1, 0, 0, 0, 0))
	s.unblock <- struct{}{}
	s.unblock <- struct{}{}
	got := map[uint32]bool{}
	for range 2 {
		got[binary.BigEndian.Uint32(receive(t, c))] = true
	}
	if !got[1] || !got[2] {
		t.Errorf("replies to %v", got)
	}
}

// TestManyClients has calls of all kinds run at once and checks every reply.
func TestManyClients(t *testing.T) {
	s := newTestServer(t, Options{MaxInFlight: 20, MaxInFlightPerConn: 8, MaxInFlightBytes: 3 << 20, MaxReplyBytes: 2 << 20}).listen()
	var wg sync.WaitGroup
	for i := range 6 {
		cred := Credential{Flavor: FlavorSys, Machine: fmt.Sprint("host", i), UID: uint32(i), Groups: []uint32{uint32(i)}}
		c := s.dial(ClientOptions{Credential: cred})
		for j := range 8 {
			wg.Go(func() {
				ctx := t.Context() // what hangs runs into the time-out of the test binary
				data := pattern(1 + 40_000*j)
				for range 10 {
					r, err := c.Call(ctx, testProgram, 3, procEcho, func(e *xdr.Encoder) { e.Opaque(data) })
					if err != nil {
						t.Error(err)
						return
					}
					if got := r.Results.Opaque("data", 1<<20); !bytes.Equal(got, data) || r.Results.Finish() != nil {
						t.Error("data differ")
					}
					r.Release()
					if r, err = c.Call(ctx, testProgram, 4, procWho, nil); err != nil {
						t.Error(err)
						return
					}
					d := &r.Results
					d.Uint32("flavor")
					machine, uid := d.String("machine", 255), d.Uint32("uid")
					d.Uint32("gid")
					if n := d.Count("groups", 16, 4); n != 1 || d.Uint32("group") != uid || machine != cred.Machine || uid != cred.UID || d.Finish() != nil {
						t.Errorf("credential %q %d", machine, uid)
					}
					r.Release()
					var re *ReplyError
					if _, err = c.Call(ctx, testProgram, 3, procPanic, nil); !errors.As(err, &re) || re.Stat != SystemErr {
						t.Errorf("panic: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
}

// TestRecordKept checks that a retained record outlives its call.
func TestRecordKept(t *testing.T) {
	s := newTestServer(t, Options{})
	var kept *Buffer
	var alias []byte
	s.Register(&funcProgram{testProgram + 1, 1, 1, func(_ context.Context, c *Call, _ *xdr.Encoder) AcceptStat {
		kept, alias = c.Record(), c.Args.Rest()
		kept.Retain()
		return Success
	}})
	c := s.pipe()
	send(t, c, marked(rawCall(1, testProgram+1, 1, 0, 0xdeadbeef)))
	receive(t, c)
	for range 100 {
		send(t, c, marked(rawCall(2, testProgram, 3, procEcho, 4, 0x11111111)))
		receive(t, c)
	}
	equal(t, "kept arguments", alias, words(0xdeadbeef))
	if n := s.Stats().RecordBytes; n < 44 {
		t.Errorf("kept record not counted: %d", n)
	}
	kept.Release()
}

// TestConnData checks Attach, OnClose, Done and Err.
func TestConnData(t *testing.T) {
	s := newTestServer(t, Options{})
	a, b := net.Pipe()
	defer b.Close()
	c := s.ServeConn(a)
	type key struct{}
	c.Attach(key{}, 1)
	c.Attach(key{}, 2)
	if c.Attached(key{}) != 2 || c.Attached("other") != nil {
		t.Error("attached value is wrong")
	}
	c.Attach(key{}, nil)
	if c.Attached(key{}) != nil {
		t.Error("value not removed")
	}
	var order []int
	c.OnClose(func() { order = append(order, 1) })
	c.OnClose(func() { order = append(order, 2) })
	if c.Err() != nil || c.ID() == 0 || c.Remote().IsValid() {
		t.Error("fresh connection is wrong")
	}
	reason := errors.New("enough")
	c.Close(reason)
	c.Close(errors.New("again"))
	<-c.Done()
	c.OnClose(func() { order = append(order, 3) })
	if c.Err() != reason || fmt.Sprint(order) != "[1 2 3]" {
		t.Errorf("err %v, order %v", c.Err(), order)
	}
}

// TestContextEndsWithConnection checks that calls of a gone peer are told.
func TestContextEndsWithConnection(t *testing.T) {
	watch := newWatch()
	s := newTestServer(t, Options{Observer: watch})
	c := s.pipe()
	send(t, c, marked(rawCall(1, testProgram, 3, procBlock)))
	<-s.blocked
	c.Close()
	watch.closedFor(t, io.EOF)
	if calls := watch.done(t, 1); calls[0].Sent {
		t.Error("reply counted as sent")
	}
}

// TestFaults has the server's connection fail at the Nth read and write, for
// every N, under a load of calls that splice payloads.
func TestFaults(t *testing.T) {
	run := func(fault func(*testutil.FaultConn)) (ok bool) {
		s := newTestServer(t, Options{})
		a, b := net.Pipe()
		f := &testutil.FaultConn{Conn: a, Short: 1000}
		fault(f)
		s.ServeConn(f)
		c := NewClient(b, ClientOptions{})
		var requests []*Request
		for i := range 6 {
			r := c.NewRequest(testProgram, 3, procEcho)
			r.Args.Opaque(pattern(500 * i))
			requests = append(requests, r)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, r := range requests {
				r.Send()
			}
		})
		ok = true
		for _, r := range requests {
			if reply, err := r.Wait(soon(t)); err == nil {
				reply.Release()
			} else {
				ok = false
			}
		}
		wg.Wait()
		c.Close()
		s.Shutdown(canceled())
		s.checkClean()
		return ok
	}
	for name, fault := range map[string]func(f *testutil.FaultConn, n int64){
		"read":  func(f *testutil.FaultConn, n int64) { f.FailRead = n },
		"write": func(f *testutil.FaultConn, n int64) { f.FailWrite = n },
	} {
		t.Run(name, func(t *testing.T) {
			n := int64(1)
			for ; !run(func(f *testutil.FaultConn) { fault(f, n) }); n++ {
				if n > 200 {
					t.Fatal("never works")
				}
			}
			if n < 3 {
				t.Errorf("only %d operations", n)
			}
		})
	}
}
