package rpc

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// inlineMode makes calls until they are run inline.
func inlineMode(t *testing.T, s *testServer, write func([]byte), read func() []byte, c *Conn) {
	t.Helper()
	for range 2 * (inlineAfter + inlinePause) {
		write(nullCall)
		read()
		synctest.Wait()
	}
	if c.inlineSeq.Load() == 0 {
		t.Fatal("no call was run inline")
	}
}

// TestRescue blocks a call that is run inline: the next call of the connection
// is served after a moment, and calls are inline again later.
func TestRescue(t *testing.T) {
	for _, proc := range []uint32{procBlock, procGoexit} {
		bubble(t, Options{}, func(t *testing.T, s *testServer, w *watch) {
			c, conn := s.peer()
			send := func(b []byte) { write(t, c, b) }
			read := func() []byte {
				b := receive(t, c)
				c.SetReadDeadline(time.Time{})
				return b
			}
			for range 2 {
				inlineMode(t, s, send, read, conn)
				before := conn.inlineSeq.Load()
				send(marked(rawCall(7, testProgram, 3, proc)))
				if proc == procGoexit {
					read()
				}
				began := time.Now()
				send(marked(rawCall(8, testProgram, 3, procNull)))
				equal(t, "reply", read(), words(8, 1, 0, 0, 0, 0))
				if d := time.Since(began); d > 3*rescuePeriod {
					t.Errorf("served after %v", d)
				}
				if n := conn.inlineSeq.Load() - before; n != 2 {
					t.Errorf("inline sequence moved by %d", n)
				}
				if proc == procBlock {
					s.unblock <- struct{}{}
					equal(t, "reply", read(), words(7, 1, 0, 0, 0, 0))
				}
			}
		})
	}
}

// TestRescuerEnds checks that the rescuer is there only for active connections.
func TestRescuerEnds(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *testServer, w *watch) {
		running := func() bool {
			s.rescuer.mu.Lock()
			defer s.rescuer.mu.Unlock()
			return s.rescuer.running
		}
		c, conn := s.peer()
		for range 3 {
			inlineMode(t, s, func(b []byte) { write(t, c, b) }, func() []byte { return receive(t, c) }, conn)
			if !running() {
				t.Error("no rescuer")
			}
			time.Sleep(2 * rescueIdle * rescuePeriod)
			if running() {
				t.Error("rescuer still there")
			}
		}
	})
}

// TestShutdownInline shuts down while a call runs inline.
func TestShutdownInline(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *testServer, w *watch) {
		c, conn := s.peer()
		inlineMode(t, s, func(b []byte) { write(t, c, b) }, func() []byte { return receive(t, c) }, conn)
		write(t, c, marked(rawCall(7, testProgram, 3, procBlock)))
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		s.unblock <- struct{}{}
		equal(t, "reply", receive(t, c), words(7, 1, 0, 0, 0, 0))
		closed(t, c)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// burstMode sends bursts of n calls until they are run as such.
func burstMode(t *testing.T, c net.Conn, conn *Conn, n int) {
	t.Helper()
	batch := bytes.Repeat(nullCall, n)
	for range 2*(inlineAfter+inlinePause)/n + 2 {
		write(t, c, batch)
		for range n {
			receive(t, c)
		}
		synctest.Wait()
	}
	before := conn.inlineSeq.Load()
	write(t, c, batch)
	for range n {
		receive(t, c)
	}
	synctest.Wait()
	if got := conn.inlineSeq.Load() - before; got != uint64(2*n) {
		t.Fatalf("inline sequence moved by %d in a burst of %d", got, n)
	}
	if conn.unsent != 0 {
		t.Fatalf("%d replies held behind a burst", conn.unsent)
	}
	c.SetReadDeadline(time.Time{})
}

// TestBurstRescue has a call in the middle of a burst block: the replies before
// it and the calls behind it are served after a moment, and there are bursts
// again later.
func TestBurstRescue(t *testing.T) {
	for _, proc := range []uint32{procBlock, procGoexit} {
		bubble(t, Options{}, func(t *testing.T, s *testServer, w *watch) {
			c, conn := s.peer()
			for range 2 {
				burstMode(t, c, conn, 4)
				began := time.Now()
				write(t, c, bytes.Join([][]byte{
					marked(rawCall(1, testProgram, 3, procNull)), marked(rawCall(2, testProgram, 3, procNull)),
					marked(rawCall(3, testProgram, 3, proc)), marked(rawCall(4, testProgram, 3, procNull)),
				}, nil))
				want := 3
				if proc == procGoexit {
					want = 4
				}
				got := map[uint32]bool{}
				for range want {
					got[binary.BigEndian.Uint32(receive(t, c))] = true
				}
				if !got[1] || !got[2] || !got[4] {
					t.Errorf("replies to %v", got)
				}
				if d := time.Since(began); d > 3*rescuePeriod {
					t.Errorf("served after %v", d)
				}
				if proc == procBlock {
					s.unblock <- struct{}{}
					equal(t, "reply", receive(t, c), words(3, 1, 0, 0, 0, 0))
				}
				synctest.Wait()
			}
		})
	}
}

// TestBurstIncomplete checks that replies are not held for a record that is
// here in part only, nor for one that is none.
func TestBurstIncomplete(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *testServer, w *watch) {
		c, conn := s.peer()
		burstMode(t, c, conn, 4)
		began := time.Now()
		write(t, c, append(bytes.Repeat(nullCall, 3), nullCall[:20]...))
		for range 3 {
			receive(t, c)
		}
		write(t, c, nullCall[20:])
		receive(t, c)
		if d := time.Since(began); d > 0 {
			t.Errorf("replies held for %v", d)
		}

		burstMode(t, c, conn, 4)
		write(t, c, bytes.Join([][]byte{nullCall, nullCall, marked(words(9, 7))}, nil))
		receive(t, c)
		receive(t, c)
		closed(t, c)
		synctest.Wait()
		if st := s.Stats(); st.Calls != 0 || st.RecordBytes != 0 {
			t.Errorf("left over: %+v", st)
		}
	})
}

// TestBurstLimit checks that a burst longer than what may be held, or be in
// flight, is answered whole.
func TestBurstLimit(t *testing.T) {
	for _, limit := range []int{3, 128} {
		bubble(t, Options{MaxInFlightPerConn: limit}, func(t *testing.T, s *testServer, w *watch) {
			c, conn := s.peer()
			if limit > 4 {
				burstMode(t, c, conn, 4)
			}
			for range 20 {
				send(t, c, bytes.Repeat(nullCall, 5*burstMax))
				for range 5 * burstMax {
					receive(t, c)
				}
			}
			synctest.Wait()
			if st := s.Stats(); st.Calls != 0 || st.RecordBytes != 0 {
				t.Errorf("left over: %+v", st)
			}
		})
	}
}
