package msgr_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/msgr"
)

// TestChaos sends both ways over a lossless connection whose streams are cut
// at random bytes, one after the other, while messages of all sizes are under
// way: each arrives once and in order, on both sides.
func TestChaos(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			a := &cephtest.StaticAuth{Key: []byte("key"), Rounds: int(seed % 3)}
			if seed%2 == 1 {
				a.Mode = msgr.ModeSecure
			}
			const count = 150
			var mu sync.Mutex
			var atPeer, atClient []uint64
			var last *cephtest.Stream
			r := newRig(t, msgr.Options{Auth: a, QueueBytes: 50000}, cephtest.Config{
				Auth: a, Lossless: true,
				OnStream: func(s *cephtest.Stream, n int) {
					if n > 40 {
						return // let it come to an end
					}
					mu.Lock()
					defer mu.Unlock()
					if rnd.IntN(2) == 0 {
						s.CutRead(rnd.IntN(30000))
					} else {
						s.CutWrite(rnd.IntN(30000))
					}
				},
				OnReady: func(s *cephtest.Stream) {
					mu.Lock()
					last = s
					mu.Unlock()
				},
				OnMessage: func(_ *cephtest.Stream, m *msgr.Message) {
					mu.Lock()
					atPeer = append(atPeer, m.Tid)
					mu.Unlock()
				},
			})
			defer r.close()
			d := newClient()
			d.onMessage = func(_ *msgr.Conn, m *msgr.Message) {
				mu.Lock()
				atClient = append(atClient, m.Tid)
				mu.Unlock()
				m.Release()
			}
			c := r.connect(msgr.Lossless, d)
			size := func() []byte {
				mu.Lock()
				defer mu.Unlock()
				return make([]byte, rnd.IntN(1<<rnd.IntN(16)+1))
			}
			given := 0
			back := func() { mu.Lock(); given++; mu.Unlock() }
			for i := range uint64(count) {
				c.Send(&msgr.Message{Tid: i + 1, Front: size(), Data: [][]byte{size()}, Sent: back})
				for {
					mu.Lock()
					s := last
					mu.Unlock()
					if s != nil {
						s.Send(&msgr.Message{Tid: i + 1, Front: size()})
						break
					}
					time.Sleep(time.Second)
				}
				if i%8 == 0 {
					time.Sleep(time.Second)
				}
			}
			for range 600 {
				time.Sleep(time.Second)
				synctest.Wait()
				mu.Lock()
				done := len(atPeer) >= count && len(atClient) >= count && given >= count
				mu.Unlock()
				if done {
					break
				}
			}
			var want []uint64
			for i := range uint64(count) {
				want = append(want, i+1)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(atPeer, want) || !slices.Equal(atClient, want) || given != count {
				t.Errorf("seed %d, %d streams: the peer received %v, the client %v, given back %d", seed, r.peer.Streams(), atPeer, atClient, given)
			}
			if r.peer.Streams() < 5 {
				t.Errorf("seed %d: only %d streams", seed, r.peer.Streams())
			}
			r.m.Close()
		})
	}
}
