package msgr

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr/frame"
)

// TestSendQueueModel runs random steps of a lossless queue against a model: a
// list of all messages and three marks.
func TestSendQueueModel(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		q := newSendQueue(false)
		var (
			pushed, gone int // messages pushed; of those, the first gone
			taken        int // of all, the first taken in this stream
			begun        int // of all, the first that any stream took
			written      int
			acked        int
			w            work
		)
		check := func(done []*Message, upTo int) {
			t.Helper()
			for _, m := range done {
				if gone++; int(m.Tid) != gone {
					t.Fatalf("seed %d: message %d left as number %d", seed, m.Tid, gone)
				}
			}
			if gone != upTo {
				t.Fatalf("seed %d: %d messages left, the model says %d", seed, gone, upTo)
			}
		}
		for range 200 {
			switch rnd.IntN(7) {
			case 0, 1:
				pushed++
				if err := q.push(&Message{Tid: uint64(pushed)}); err != nil {
					t.Fatal(err)
				}
			case 2:
				n := 1 + rnd.IntN(4)
				q.take(&w, n, 1<<20)
				want := min(n, pushed-taken)
				if len(w.msgs) != want || want > 0 && (w.first != uint64(taken+1) || w.msgs[0].Tid != w.first) {
					t.Fatalf("seed %d: took %d from %d, the model says %d from %d", seed, len(w.msgs), w.first, want, taken+1)
				}
				taken += want
				begun = max(begun, taken)
			case 3:
				written = taken
				check(q.wrote(nil), max(gone, min(acked, written)))
			case 4:
				seq := gone + rnd.IntN(pushed-gone+2)
				done, err := q.ack(uint64(seq), nil)
				if bad := seq > taken && seq > acked; bad != (err != nil) {
					t.Fatalf("seed %d: acknowledged %d of %d taken: %v", seed, seq, taken, err)
				}
				if err == nil {
					acked = max(acked, seq)
				}
				check(done, max(gone, min(acked, written)))
			case 5:
				check(q.rewind(nil), max(gone, min(acked, taken)))
				taken, written = gone, gone
			case 6:
				if taken != gone {
					continue // only right after rewind
				}
				seq := max(0, gone-1) + rnd.IntN(pushed-gone+3)
				done, err := q.resume(uint64(seq), nil)
				if bad := seq < gone || seq > begun; bad != (err != nil) {
					t.Fatalf("seed %d: resumed at %d with %d to %d kept: %v", seed, seq, gone+1, pushed, err)
				}
				if err == nil {
					acked = max(acked, seq)
				}
				check(done, max(gone, min(acked, pushed)))
				taken, written = gone, gone
			}
		}
	}
}

func TestSendQueueLossy(t *testing.T) {
	q := newSendQueue(true)
	for i := range 300 {
		q.push(&Message{Tid: uint64(i + 1), Front: make([]byte, 10)})
	}
	var w work
	q.take(&w, 1000, 95)
	if len(w.msgs) != 10 || w.first != 1 {
		t.Errorf("95 bytes took %d messages of 10, from %d", len(w.msgs), w.first)
	}
	if done := q.wrote(nil); len(done) != 10 || done[0].Tid != 1 {
		t.Errorf("%d were done", len(done))
	}
	if done, err := q.ack(9999, nil); len(done) != 0 || err != nil {
		t.Errorf("an acknowledgement did something: %v", err)
	}
	q.take(&w, 128, 1<<20)
	if len(w.msgs) != 128 || w.first != 11 {
		t.Errorf("took %d from %d", len(w.msgs), w.first)
	}
	if done := q.close(nil); len(done) != 290 {
		t.Errorf("closing gave up %d", len(done))
	}
	if err := q.push(&Message{}); err != ErrClosed {
		t.Errorf("push after close: %v", err)
	}
}

// TestSendQueueDrop: what is sent before the dispatcher hears of a remote
// reset goes with the session.
func TestSendQueueDrop(t *testing.T) {
	q := newSendQueue(false)
	var sent []string
	push := func(name string) {
		q.push(&Message{Sent: func() { sent = append(sent, name) }})
	}
	push("before")
	for _, m := range q.drop(nil) {
		m.sent()
	}
	push("between")
	q.heard()
	push("after")
	var w work
	q.take(&w, 10, 100)
	if !slices.Equal(sent, []string{"before", "between"}) || len(w.msgs) != 1 || w.first != 1 {
		t.Errorf("dropped were %q, %d to send from %d", sent, len(w.msgs), w.first)
	}
}

func TestSendQueueAlloc(t *testing.T) {
	q := newSendQueue(false)
	m := &Message{}
	var w work
	var done []*Message
	var seq uint64
	if n := testing.AllocsPerRun(1000, func() {
		q.push(m)
		q.take(&w, 10, 100)
		q.wrote(nil)
		seq++
		done, _ = q.ack(seq, done[:0])
	}); n > 0 {
		t.Errorf("%v allocations a message", n)
	}
}

func TestRecvQueueBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRecvQueue(100)
		var mu sync.Mutex
		in := 0
		go func() {
			for range 5 {
				if !q.admit(40) {
					return
				}
				mu.Lock()
				in++
				mu.Unlock()
				q.push(event{kind: eventMessage, m: &Message{}, size: 40})
			}
		}()
		expect := func(n int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if in != n {
				t.Errorf("%d are in, want %d", in, n)
			}
		}
		expect(2)
		e := q.pop()
		expect(2) // it counts until it was dispatched
		q.forget(e.size)
		expect(3)
		q.forget(q.pop().size)
		q.forget(q.pop().size)
		expect(5)
		q.forget(q.pop().size)
		q.forget(q.pop().size)
		if !q.admit(1000) {
			t.Error("a message above the limit was not let in alone")
		}
		out := make(chan bool)
		go func() { out <- q.admit(1) }()
		synctest.Wait()
		released := 0
		q.push(event{kind: eventMessage, m: &Message{Release: func() { released++ }}, size: 1000})
		q.push(event{kind: eventClosed, err: errors.New("end")})
		q.drop()
		if <-out {
			t.Error("admitted after the drop")
		}
		if e := q.pop(); e.kind != eventClosed || released != 1 {
			t.Errorf("got event %d, %d released", e.kind, released)
		}
	})
}

func TestBackoff(t *testing.T) {
	b := backoff{initial: 100, max: 1000}
	var got []int
	for range 8 {
		d := b.next(-1)
		got = append(got, int(b.last))
		if d > b.last || d < b.last*3/4-1 {
			t.Errorf("%d for %d", d, b.last)
		}
	}
	if fmt.Sprint(got) != "[100 200 400 800 1000 1000 1000 1000]" {
		t.Error(got)
	}
	if d := b.next(500); d == 0 {
		t.Error("a stream that was ready for less than the last pause counts as one that held")
	}
	if d := b.next(1000); d != 0 || b.next(-1) > 100 {
		t.Errorf("after a stream that held: %d", d)
	}
}

// FuzzRead reads any bytes as the frames of a ready stream.
func FuzzRead(f *testing.F) {
	w := frame.NewWriter()
	w.Message(&frame.Header{Seq: 1, Type: 42, AckSeq: 2}, []byte("front"), []byte("mid"), [][]byte{[]byte("data")})
	w.Append(frame.Number{Of: frame.TagAck, Value: 1})
	w.Append(frame.Number{Of: frame.TagKeepalive2, Value: 1})
	w.Message(&frame.Header{Seq: 2}, nil, nil, nil)
	var wire bytes.Buffer
	w.Buffers().WriteTo(&wire)
	f.Add(wire.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		m := New(Options{Auth: &script{}})
		defer m.Close()
		c := newConn(m, denc.TypeMDS, testTarget, Lossless, nil)
		for range 3 {
			c.Send(&Message{})
		}
		c.out.take(&work{}, 2, 100)
		c.out.wrote(nil)
		r := frame.NewReader(bytes.NewReader(b), frame.Limits{Control: 4096, Front: 4096, Middle: 4096, Data: 4096})
		err := c.read(r)
		if err == nil || kindOf(err) == 0 {
			t.Fatalf("ended with %v", err)
		}
		size, last := 0, uint64(0)
		for _, e := range c.in.list {
			size += e.size
			if e.m.Seq <= last {
				t.Fatalf("message %d after %d", e.m.Seq, last)
			}
			last = e.m.Seq
		}
		if size != c.in.bytes || last != c.sess.inSeq {
			t.Fatalf("%d bytes are counted and %d queued; last message %d, counted %d", c.in.bytes, size, last, c.sess.inSeq)
		}
	})
}
