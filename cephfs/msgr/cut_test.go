package msgr_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/msgr"
)

// exchange runs one conversation: the client sends messages, the peer answers
// each, and onStream breaks connections. It returns what each side received,
// how often each message was given back, and how the connection ended.
type exchange struct {
	policy   msgr.Policy
	auth     *cephtest.StaticAuth
	onStream func(s *cephtest.Stream, n int)
	count    int

	atPeer, atClient []uint64
	sent             []int
	err              error
	streams          int
	read, written    int // bytes of the first stream
	handshake        [2]int
	resets           int
}

func (x *exchange) run(t *testing.T) {
	var mu sync.Mutex
	var first *cephtest.Stream
	r := newRig(t, msgr.Options{Auth: x.auth}, cephtest.Config{
		Auth: x.auth, Lossless: x.policy == msgr.Lossless,
		OnStream: func(s *cephtest.Stream, n int) {
			if n == 1 {
				first = s
			}
			if x.onStream != nil {
				x.onStream(s, n)
			}
		},
		OnReady: func(s *cephtest.Stream) {
			if s.N() == 1 {
				x.handshake[0], x.handshake[1] = s.Bytes()
			}
		},
		OnMessage: func(s *cephtest.Stream, m *msgr.Message) {
			mu.Lock()
			x.atPeer = append(x.atPeer, m.Tid)
			mu.Unlock()
			s.Send(&msgr.Message{Tid: m.Tid, Front: m.Front, Data: m.Data})
		},
	})
	d := newClient()
	d.onMessage = func(_ *msgr.Conn, m *msgr.Message) {
		mu.Lock()
		x.atClient = append(x.atClient, m.Tid)
		mu.Unlock()
		m.Release()
	}
	d.onReset = func(*msgr.Conn) { x.resets++ }
	x.sent = make([]int, x.count)
	c := r.connect(x.policy, d)
	for i := range x.count {
		err := c.Send(&msgr.Message{
			Tid: uint64(i + 1), Front: fmt.Append(nil, "front ", i), Data: [][]byte{make([]byte, i*20%97)},
			Sent: func() {
				mu.Lock()
				x.sent[i]++
				mu.Unlock()
			},
		})
		if err != nil { // the connection is dead, and Sent is not called
			mu.Lock()
			x.sent[i]++
			mu.Unlock()
		}
		if i%4 == 3 {
			synctest.Wait() // else all go in one batch
		}
	}
	if x.policy == msgr.Lossless {
		for range 40 { // back-offs are under half a second for a few cuts
			synctest.Wait()
			mu.Lock()
			done := len(x.atClient) >= x.count
			mu.Unlock()
			if done {
				break
			}
			sleep()
		}
		synctest.Wait()
	} else {
		synctest.Wait()
	}
	c.Close()
	<-d.closed
	x.err = d.err
	x.streams = r.peer.Streams()
	x.read, x.written = first.Bytes()
	r.close()
}

// whole checks that everything arrived once and in order.
func (x *exchange) whole(t *testing.T, what string) {
	t.Helper()
	var want []uint64
	for i := range x.count {
		want = append(want, uint64(i+1))
	}
	if !slices.Equal(x.atPeer, want) || !slices.Equal(x.atClient, want) {
		t.Fatalf("%s: the peer received %v, the client %v", what, x.atPeer, x.atClient)
	}
	x.once(t, what)
}

// once checks that every message was given back, once.
func (x *exchange) once(t *testing.T, what string) {
	t.Helper()
	for i, n := range x.sent {
		if n != 1 {
			t.Fatalf("%s: Sent of message %d was called %d times", what, i+1, n)
		}
	}
}

// cutting runs an exchange for each place to cut the first stream in either
// direction: every handshakeStep bytes of the handshake (a little less often
// in secure mode), and then every step bytes.
func cutting(t *testing.T, policy msgr.Policy, handshakeStep, step int, check func(t *testing.T, x *exchange, what string)) {
	inBubble := func(t *testing.T, x *exchange) { synctest.Test(t, x.run) }
	for _, a := range []*cephtest.StaticAuth{{Key: []byte("key"), Rounds: 1}, {Key: []byte("key"), Mode: msgr.ModeSecure}} {
		plain := &exchange{policy: policy, auth: a, count: 12}
		inBubble(t, plain)
		plain.whole(t, "without a cut")
		for side, total := range []int{plain.read, plain.written} {
			for at := 0; at < total; {
				x := &exchange{policy: policy, auth: a, count: 12}
				x.onStream = func(s *cephtest.Stream, n int) {
					switch {
					case n == 1 && side == 0:
						s.CutRead(at)
					case n == 1:
						s.CutWrite(at)
					case n == 2: // and the next one somewhere else
						s.CutWrite(total - at%total/2)
					}
				}
				inBubble(t, x)
				check(t, x, fmt.Sprintf("mode %d, direction %d cut after %d of %d bytes", a.Mode, side, at, total))
				if at < plain.handshake[side] {
					at += handshakeStep
					if a.Mode == msgr.ModeSecure {
						at += 2
					}
				} else {
					at += step
				}
			}
		}
	}
}

// TestCutLossless cuts a lossless connection everywhere: all arrives, once and
// in order.
func TestCutLossless(t *testing.T) {
	cutting(t, msgr.Lossless, 17, 67, func(t *testing.T, x *exchange, what string) {
		x.whole(t, what)
		if x.err != nil {
			t.Fatalf("%s: %d streams, ended with %v", what, x.streams, x.err)
		}
	})
}

// TestCutLossy cuts a lossy connection everywhere: it ends with an error, and
// what did arrive is a prefix.
func TestCutLossy(t *testing.T) {
	cutting(t, msgr.Lossy, 1, 97, func(t *testing.T, x *exchange, what string) {
		x.once(t, what)
		if k := msgr.KindOf(x.err); k != msgr.KindIO || x.streams != 1 {
			t.Fatalf("%s: %d streams, ended with %v", what, x.streams, x.err)
		}
		for _, got := range [][]uint64{x.atPeer, x.atClient} {
			for i, tid := range got {
				if tid != uint64(i+1) {
					t.Fatalf("%s: received %v", what, got)
				}
			}
		}
	})
}
