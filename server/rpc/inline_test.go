package rpc

import (
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
