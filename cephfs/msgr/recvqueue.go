package msgr

import "sync"

type eventKind uint8

const (
	eventMessage eventKind = iota
	eventReady
	eventRemoteReset
	eventClosed
)

// event is one call of the dispatcher.
type event struct {
	kind eventKind
	m    *Message
	size int // bytes of the queue's limit it takes
	err  error
}

// recvQueue holds what waits for the dispatcher, in order. The bytes of the
// message being dispatched still count.
type recvQueue struct {
	limit int

	mu      sync.Mutex
	change  sync.Cond // of anything below
	list    []event
	head    int
	bytes   int
	dropped bool // nothing but eventClosed is of interest any more
}

func newRecvQueue(limit int) *recvQueue {
	q := &recvQueue{limit: limit}
	q.change.L = &q.mu
	return q
}

// admit waits until n more bytes may be read, and counts them. One message of
// any size is let in alone. It returns false once the queue was dropped.
func (q *recvQueue) admit(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > 0 && q.bytes+n > q.limit && !q.dropped {
		q.change.Wait()
	}
	if q.dropped {
		return false
	}
	q.bytes += n
	return true
}

// forget gives back bytes that were admitted and did not come.
func (q *recvQueue) forget(n int) {
	q.mu.Lock()
	q.bytes -= n
	q.mu.Unlock()
	q.change.Broadcast()
}

func (q *recvQueue) push(e event) {
	q.mu.Lock()
	if q.dropped && e.kind != eventClosed {
		q.mu.Unlock()
		e.m.drop()
		return
	}
	q.list = append(q.list, e)
	q.mu.Unlock()
	q.change.Broadcast()
}

// pop waits for the next event.
func (q *recvQueue) pop() event {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.list) {
		q.change.Wait()
	}
	e := q.list[q.head]
	q.list[q.head] = event{}
	q.head++
	switch {
	case q.head == len(q.list):
		q.list, q.head = q.list[:0], 0
	case q.head > 64 && q.head > len(q.list)/2:
		k := copy(q.list, q.list[q.head:])
		clear(q.list[k:])
		q.list, q.head = q.list[:k], 0
	}
	return e
}

// drop throws away what waits, but for the last call, and wakes the reader.
func (q *recvQueue) drop() {
	q.mu.Lock()
	old := q.list[q.head:]
	q.list, q.head = nil, 0
	for _, e := range old {
		if e.kind == eventClosed {
			q.list = append(q.list, e)
		}
		q.bytes -= e.size
	}
	q.dropped = true
	q.mu.Unlock()
	q.change.Broadcast()
	for _, e := range old {
		e.m.drop()
	}
}
