package msgr

import (
	"slices"
	"sync"
)

// sendQueue holds the messages of one connection from Send to Sent, in order:
//
//	base            base+written      base+taken
//	  │ acknowledged │ being written   │ not begun
//	  ▼   or not     ▼                 ▼
//	 [m m m m m m m m m m m m m m m m m m m m m m m]
//
// The number of a message is base + 1 + its place. On a lossless connection a
// message stays until it is acknowledged and a new stream begins again with
// the first one; on a lossy one it goes when it was written.
type sendQueue struct {
	// wake holds a token if there may be something to write.
	wake chan struct{}

	mu       sync.Mutex
	list     []*Message // from head on
	head     int
	base     uint64 // number of the last message that left the list
	start    uint64 // base when the session began
	begun    uint64 // number of the last message that a writer ever took
	taken    int
	written  int
	acked    uint64 // the peer has all up to here
	lossy    bool
	closed   bool
	dropping int  // remote resets that the dispatcher did not hear of
	ackDue   bool // an acknowledgement has to go out, with or without a message
	echoDue  bool
	echo     [8]byte // timestamp of the peer's last keepalive
}

func newSendQueue(lossy bool) *sendQueue {
	return &sendQueue{wake: make(chan struct{}, 1), lossy: lossy}
}

func (q *sendQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// push queues a message. What is sent between a remote reset and the
// dispatcher's call of it belongs to the lost session, and is dropped.
func (q *sendQueue) push(m *Message) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	if q.dropping > 0 {
		q.mu.Unlock()
		m.sent()
		return nil
	}
	q.list = append(q.list, m)
	q.mu.Unlock()
	q.signal()
	return nil
}

// work is what a writer takes at once. It belongs to the writer.
type work struct {
	msgs  []*Message
	first uint64 // number of msgs[0]
	ack   bool
	echo  bool
	stamp [8]byte
}

// take fills w with at most count messages, and with no more after size bytes.
func (q *sendQueue) take(w *work, count, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.ack, w.echo, w.stamp = q.ackDue, q.echoDue, q.echo
	q.ackDue, q.echoDue = false, false
	w.first = q.base + uint64(q.taken) + 1
	w.msgs = w.msgs[:0]
	for q.head+q.taken < len(q.list) && len(w.msgs) < count && size > 0 {
		m := q.list[q.head+q.taken]
		size -= m.size()
		w.msgs = append(w.msgs, m)
		q.taken++
	}
	q.begun = max(q.begun, q.base+uint64(q.taken))
}

// withdraw removes a message that no writer ever took, and reports whether it
// did. Those behind move up by one; a message keeps its number once it was
// taken, for a peer may know it by that.
func (q *sendQueue) withdraw(m *Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	// base is above begun if messages left that were never taken.
	first := q.head + int(max(q.begun, q.base)-q.base)
	for i := len(q.list) - 1; i >= first; i-- { // the newest is the likeliest
		if q.list[i] == m {
			q.list = slices.Delete(q.list, i, i+1)
			if q.head == len(q.list) {
				q.list, q.head = q.list[:0], 0
			}
			return true
		}
	}
	return false
}

// wrote says that all that was taken is written. The messages that are done
// with are appended to done.
func (q *sendQueue) wrote(done []*Message) []*Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.written = q.taken
	if q.lossy {
		return q.pop(q.written, done)
	}
	return q.popAcked(q.written, done)
}

// ack takes an acknowledgement of all up to seq. What is still being written
// stays until it is: the peer may be quicker than our own writer, or lie.
func (q *sendQueue) ack(seq uint64, done []*Message) ([]*Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lossy || seq <= q.acked {
		return done, nil
	}
	if seq > q.base+uint64(q.taken) {
		return done, faultf(KindProtocol, "message %d acknowledged, sent are %d", seq, q.base+uint64(q.taken))
	}
	q.acked = seq
	return q.popAcked(q.written, done), nil
}

// rewind prepares for a new stream: no writer is running, and everything that
// the peer did not acknowledge is to be sent again.
func (q *sendQueue) rewind(done []*Message) []*Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	done = q.popAcked(q.taken, done)
	q.taken, q.written = 0, 0
	q.ackDue, q.echoDue = false, false
	return done
}

// resume says what the peer has of an earlier stream. rewind was called. A
// peer that has less than it acknowledged lost messages that are gone here
// too; only in a session that it began anew, and that received nothing yet, it
// counts from 0.
func (q *sendQueue) resume(seq uint64, done []*Message) ([]*Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if seq < q.base && q.base == q.start {
		return done, nil
	}
	if last := max(q.base, q.begun); seq < q.base || seq > last {
		return done, faultf(KindProtocol, "the peer has messages up to %d; kept are %d to %d", seq, q.base+1, last)
	}
	q.acked = max(q.acked, seq)
	return q.popAcked(len(q.list)-q.head, done), nil
}

// renew begins a session in which what is not acknowledged is sent again,
// under its old numbers.
func (q *sendQueue) renew() {
	q.mu.Lock()
	q.start = q.base
	q.mu.Unlock()
}

// drop empties the queue for a session that the peer lost; see push.
func (q *sendQueue) drop(done []*Message) []*Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	done = q.pop(len(q.list)-q.head, done)
	q.base, q.start, q.acked, q.begun = 0, 0, 0, 0
	q.dropping++
	return done
}

// heard says that the dispatcher hears of a remote reset.
func (q *sendQueue) heard() {
	q.mu.Lock()
	q.dropping--
	q.mu.Unlock()
}

// close refuses what comes and gives up what is there.
func (q *sendQueue) close(done []*Message) []*Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	return q.pop(len(q.list)-q.head, done)
}

// refuse makes push fail from now on.
func (q *sendQueue) refuse() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

func (q *sendQueue) setLossy(lossy bool) {
	q.mu.Lock()
	q.lossy = lossy
	q.mu.Unlock()
}

// oweAck has an acknowledgement of the messages received sent.
func (q *sendQueue) oweAck() {
	q.mu.Lock()
	was := q.ackDue
	q.ackDue = true
	q.mu.Unlock()
	if !was {
		q.signal()
	}
}

// oweEcho has a keepalive answered. Only the newest one is.
func (q *sendQueue) oweEcho(stamp []byte) {
	q.mu.Lock()
	q.echoDue = true
	copy(q.echo[:], stamp)
	q.mu.Unlock()
	q.signal()
}

// popAcked removes what is acknowledged among the first n.
func (q *sendQueue) popAcked(n int, done []*Message) []*Message {
	if q.acked <= q.base {
		return done
	}
	return q.pop(min(n, int(q.acked-q.base)), done)
}

// pop removes the first n.
func (q *sendQueue) pop(n int, done []*Message) []*Message {
	gone := q.list[q.head : q.head+n]
	done = append(done, gone...)
	clear(gone)
	q.head += n
	q.base += uint64(n)
	q.taken = max(0, q.taken-n)
	q.written = max(0, q.written-n)
	switch {
	case q.head == len(q.list):
		q.list, q.head = q.list[:0], 0
	case q.head > 64 && q.head > len(q.list)/2:
		k := copy(q.list, q.list[q.head:])
		clear(q.list[k:])
		q.list, q.head = q.list[:k], 0
	}
	return done
}
