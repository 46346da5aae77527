package rpc

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs f with a server in a bubble of fake time, and shuts it down.
func bubble(t *testing.T, opt Options, f func(t *testing.T, s *testServer, w *watch)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch()
		opt.Observer = w
		s := newTestServer(t, opt)
		f(t, s, w)
	})
}

// peer serves one in-memory connection whose other end nobody closes.
func (s *testServer) peer() (net.Conn, *Conn) {
	a, b := net.Pipe()
	s.t.Cleanup(func() { b.Close() })
	return b, s.ServeConn(a)
}

// write writes b in the background, as far as the server reads it. Two of them
// must not wait at the same time: that would be for a mutex of the pipe, which
// synctest does not take for a wait.
func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	go func() { c.Write(b) }()
	synctest.Wait()
}

// endsAfter checks that the connection is closed for reason between min and min
// + 10 % after now.
func endsAfter(t *testing.T, w *watch, after time.Duration, reason error) {
	t.Helper()
	began := time.Now()
	got := <-w.ended
	took := time.Since(began)
	if got != reason || took < after || took > after+after/10+time.Second {
		t.Errorf("closed after %v for %v; want %v, %v", took, got, after, reason)
	}
}

// open checks that c is not closed.
func open(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.Err(); err != nil {
		t.Fatalf("connection closed: %v", err)
	}
}

var nullCall = marked(rawCall(1, testProgram, 3, procNull))

func TestIdle(t *testing.T) {
	bubble(t, Options{IdleTimeout: 100 * time.Second}, func(t *testing.T, s *testServer, w *watch) {
		c, conn := s.peer()
		for range 3 {
			write(t, c, nullCall)
			receive(t, c)
			c.SetReadDeadline(time.Time{})
			time.Sleep(90 * time.Second)
			open(t, conn)
		}
		// A call that runs is not idleness.
		write(t, c, marked(rawCall(1, testProgram, 3, procBlock)))
		time.Sleep(1000 * time.Second)
		open(t, conn)
		s.unblock <- struct{}{}
		receive(t, c)
		endsAfter(t, w, 100*time.Second, ErrIdle)
	})
}

func TestSilentNewcomer(t *testing.T) {
	bubble(t, Options{RecordTimeout: 10 * time.Second}, func(t *testing.T, s *testServer, w *watch) {
		s.peer()
		endsAfter(t, w, 10*time.Second, ErrIdle)
	})
}

func TestHalfRecord(t *testing.T) {
	for name, stream := range map[string][]byte{
		"half a mark":            {0x80, 0},
		"half a small record":    nullCall[:20],
		"half a large record":    marked(make([]byte, 1<<20))[:100_000],
		"half a split record":    fragmented(rawCall(1, testProgram, 3, procNull), 4)[:20],
		"behind a complete call": append(nullCall[:len(nullCall):len(nullCall)], nullCall[:20]...),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{RecordTimeout: 10 * time.Second}, func(t *testing.T, s *testServer, w *watch) {
				c, _ := s.peer()
				go io.Copy(io.Discard, c)
				write(t, c, stream)
				endsAfter(t, w, 10*time.Second, ErrRecordTimeout)
			})
		})
	}
}

// TestTrickle sends a byte now and then, which does not prolong the time of a
// record.
func TestTrickle(t *testing.T) {
	bubble(t, Options{RecordTimeout: 10 * time.Second}, func(t *testing.T, s *testServer, w *watch) {
		c, _ := s.peer()
		go func() {
			for _, b := range fragmented(rawCall(1, testProgram, 3, procNull), 1) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		endsAfter(t, w, 10*time.Second, ErrRecordTimeout)
		time.Sleep(time.Second) // for the writer to notice
	})
}

// TestSlowReader does not take replies. Its connection is cut, the payloads are
// released, and others are served meanwhile.
func TestSlowReader(t *testing.T) {
	bubble(t, Options{WriteTimeout: 10 * time.Second}, func(t *testing.T, s *testServer, w *watch) {
		slow, _ := s.peer()
		for range 5 {
			write(t, slow, marked(rawCall(1, testProgram, 3, procFill, 100_000)))
		}
		if n := s.Stats().ReplyBytes; n < 500_000 {
			t.Errorf("%d reply bytes counted", n)
		}
		c, conn := s.peer()
		write(t, c, nullCall)
		receive(t, c)
		endsAfter(t, w, 10*time.Second, ErrWriteTimeout)
		synctest.Wait()
		if st := s.Stats(); st.ReplyBytes != 0 || st.Calls != 0 {
			t.Errorf("left: %+v", st)
		}
		s.payload.check(t)
		open(t, conn)
	})
}

// TestInFlightPerConn checks that a connection with its share of calls is not
// read, and is read again when one is answered.
func TestInFlightPerConn(t *testing.T) {
	bubble(t, Options{MaxInFlightPerConn: 2, IdleTimeout: time.Hour}, func(t *testing.T, s *testServer, w *watch) {
		c, _ := s.peer()
		write(t, c, bytes.Repeat(marked(rawCall(1, testProgram, 3, procBlock)), 4))
		if n := len(s.blocked); n != 2 {
			t.Errorf("%d calls run, want 2", n)
		}
		other, _ := s.peer()
		write(t, other, nullCall)
		receive(t, other)
		for i := range 4 {
			s.unblock <- struct{}{}
			receive(t, c)
			synctest.Wait()
			if n := len(s.blocked); n != min(3+i, 4) {
				t.Errorf("after %d replies %d calls were run", i+1, n)
			}
		}
	})
}

// TestInFlight checks the limit over all connections, and that calls pass it in
// the order they came.
func TestInFlight(t *testing.T) {
	bubble(t, Options{MaxInFlight: 2}, func(t *testing.T, s *testServer, w *watch) {
		var peers []net.Conn
		for i := range 5 {
			c, _ := s.peer()
			peers = append(peers, c)
			write(t, c, marked(rawCall(uint32(i), testProgram, 3, procBlock)))
		}
		for i := range peers {
			if n := len(s.blocked); n != min(2, 5-i) {
				t.Errorf("%d calls run", n)
			}
			if xid := <-s.blocked; xid != uint32(i) {
				t.Errorf("call %d runs before call %d", xid, i)
			}
			s.unblock <- struct{}{}
			receive(t, peers[i])
			synctest.Wait()
		}
	})
}

// TestInFlightUnsent checks that calls whose replies are not taken do not hold
// the places of others for long, though no budget of bytes is used up.
func TestInFlightUnsent(t *testing.T) {
	opt := Options{MaxInFlight: 4, WriteTimeout: 100 * time.Second}
	bubble(t, opt, func(t *testing.T, s *testServer, w *watch) {
		slow, _ := s.peer()
		write(t, slow, bytes.Repeat(marked(rawCall(1, testProgram, 3, procFill, 1000)), 10))
		c, conn := s.peer()
		write(t, c, nullCall)
		endsAfter(t, w, 10*time.Second, ErrWriteTimeout)
		receive(t, c)
		open(t, conn)
	})
}

// TestRecordBytes checks that large records wait for the budget, that a peer
// that keeps it with half a record is cut early, and that small calls of others
// are served after that.
func TestRecordBytes(t *testing.T) {
	opt := Options{MaxRecord: 1 << 20, MaxInFlightBytes: 1 << 20, RecordTimeout: 100 * time.Second}
	bubble(t, opt, func(t *testing.T, s *testServer, w *watch) {
		greedy, _ := s.peer()
		write(t, greedy, words(lastFragment|1<<20))
		write(t, greedy, make([]byte, stageSize))
		if n := s.Stats().RecordBytes; n != 1<<20 {
			t.Errorf("%d bytes reserved", n)
		}
		c, conn := s.peer()
		write(t, c, nullCall)
		endsAfter(t, w, 10*time.Second, ErrRecordTimeout)
		equal(t, "reply", receive(t, c), words(1, 1, 0, 0, 0, 0))
		open(t, conn)
	})
}

// TestReplyBytes checks that payloads wait for the budget, that who does not
// take his replies is cut early, and that the waiting calls go on then.
func TestReplyBytes(t *testing.T) {
	opt := Options{MaxReplyBytes: 100_000, WriteTimeout: 100 * time.Second}
	bubble(t, opt, func(t *testing.T, s *testServer, w *watch) {
		slow, _ := s.peer()
		write(t, slow, marked(rawCall(1, testProgram, 3, procFill, 90_000)))
		c, conn := s.peer()
		write(t, c, marked(rawCall(2, testProgram, 3, procFill, 50_000)))
		endsAfter(t, w, 10*time.Second, ErrWriteTimeout)
		if n := len(receive(t, c)); n != 24+4+50_000 {
			t.Errorf("reply of %d bytes", n)
		}
		open(t, conn)
	})
}

// TestReplyBytesPerConn checks that a connection with many unsent replies holds
// up itself only.
func TestReplyBytesPerConn(t *testing.T) {
	opt := Options{MaxReplyBytesPerConn: 100_000, WriteTimeout: 100 * time.Second}
	bubble(t, opt, func(t *testing.T, s *testServer, w *watch) {
		slow, _ := s.peer()
		write(t, slow, bytes.Repeat(marked(rawCall(1, testProgram, 3, procFill, 60_000)), 10))
		if n := s.Stats().ReplyBytes; n > 130_000 {
			t.Errorf("%d bytes of replies for one connection", n)
		}
		c, _ := s.peer()
		write(t, c, marked(rawCall(2, testProgram, 3, procFill, 90_000)))
		receive(t, c)
		for range 10 {
			receive(t, slow)
		}
	})
}

// TestConnLimit floods the server with connections.
func TestConnLimit(t *testing.T) {
	bubble(t, Options{MaxConns: 3, IdleTimeout: 100 * time.Second}, func(t *testing.T, s *testServer, w *watch) {
		var peers []net.Conn
		for range 3 {
			c, _ := s.peer()
			write(t, c, nullCall)
			receive(t, c)
			peers = append(peers, c)
			time.Sleep(4 * time.Second)
		}
		write(t, peers[0], marked(rawCall(1, testProgram, 3, procBlock)))
		// The first is busy; of the others one has been idle for long enough.
		time.Sleep(3 * time.Second)
		if _, conn := s.peer(); conn == nil {
			t.Fatal("no room made")
		}
		endsAfter(t, w, 0, ErrMadeRoom)
		closed(t, peers[1])
		for range 10 {
			if c, conn := s.peer(); conn != nil {
				t.Error("connection above the limit")
			} else {
				closed(t, c)
			}
		}
		if len(w.refused) != 10 || w.refused[0] != ErrTooManyConns {
			t.Errorf("refused %v", w.refused)
		}
	})
}

// TestShutdownDrains checks that calls that run are answered, and nothing else.
func TestShutdownDrains(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *testServer, w *watch) {
		busy, _ := s.peer()
		idle, _ := s.peer()
		half, _ := s.peer()
		write(t, busy, marked(rawCall(7, testProgram, 3, procBlock)))
		write(t, half, nullCall[:10])
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(ctx) }()
		synctest.Wait()
		closed(t, idle)
		closed(t, half)
		if s.ServeConn(half) != nil {
			t.Error("connection let in")
		}
		time.Sleep(time.Second)
		s.unblock <- struct{}{}
		equal(t, "reply", receive(t, busy), words(7, 1, 0, 0, 0, 0))
		closed(t, busy)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownCuts checks that calls that do not end are cut.
func TestShutdownCuts(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *testServer, w *watch) {
		c, _ := s.peer()
		for range 3 {
			write(t, c, marked(rawCall(7, testProgram, 3, procBlock)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Error(err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("took %v", d)
		}
		closed(t, c)
		w.closedFor(t, ErrServerClosed)
	})
}
