package msgr

import (
	"math/rand/v2"
	"testing"
)

// TestWithdraw runs random steps of both kinds of queue. What is taken back is
// never taken by a writer nor given up again; the others leave once and in
// order, and one that a writer took keeps its number in every later stream.
func TestWithdraw(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		lossy := seed%2 == 0
		q := newSendQueue(lossy)
		var (
			all      []*Message
			number   = map[*Message]uint64{}
			back     = map[*Message]bool{}
			gone     = map[*Message]bool{}
			lastGone uint64
			w        work
		)
		leave := func(done []*Message) {
			t.Helper()
			for _, m := range done {
				if back[m] || gone[m] || m.Tid <= lastGone {
					t.Fatalf("seed %d: message %d left after %d; taken back: %v", seed, m.Tid, lastGone, back[m])
				}
				gone[m], lastGone = true, m.Tid
			}
		}
		for range 200 {
			switch rnd.IntN(6) {
			case 0, 1:
				m := &Message{Tid: uint64(len(all) + 1)}
				all = append(all, m)
				if err := q.push(m); err != nil {
					t.Fatal(err)
				}
			case 2:
				q.take(&w, 1+rnd.IntN(3), 1<<20)
				for i, m := range w.msgs {
					n := w.first + uint64(i)
					if was, ok := number[m]; back[m] || ok && was != n {
						t.Fatalf("seed %d: message %d taken as %d; before as %d, taken back: %v", seed, m.Tid, n, was, back[m])
					}
					number[m] = n
				}
			case 3:
				leave(q.wrote(nil))
			case 4:
				if lossy {
					continue
				}
				done, err := q.ack(q.base+uint64(rnd.IntN(q.taken+1)), nil)
				if err != nil {
					t.Fatal(err)
				}
				leave(done)
				if rnd.IntN(3) == 0 {
					leave(q.rewind(nil))
				}
			case 5:
				if len(all) == 0 {
					continue
				}
				m := all[rnd.IntN(len(all))]
				_, begun := number[m]
				if want := !begun && !back[m] && !gone[m]; q.withdraw(m) != want {
					t.Fatalf("seed %d: withdrawing message %d: %v (begun %v)", seed, m.Tid, !want, begun)
				} else if want {
					back[m] = true
				}
			}
		}
		leave(q.close(nil))
		for _, m := range all {
			if gone[m] == back[m] {
				t.Fatalf("seed %d: message %d: left %v, taken back %v", seed, m.Tid, gone[m], back[m])
			}
		}
	}
}
