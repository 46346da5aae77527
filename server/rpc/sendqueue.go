package rpc

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"capstan/server/xdr"
)

// A write takes about this much at once: enough to be cheap per byte, and small
// enough that a peer which takes it too slowly is noticed.
const (
	chunkBytes    = 1 << 20
	chunkMessages = 256
	yieldBelow    = 16 << 10 // a larger message is worth a write of its own
)

// outgoing is a message to be sent: a record with its mark.
type outgoing interface {
	encoder() *xdr.Encoder
	// sent is called exactly once, when the message was written or dropped
	// (err != nil). It must not block.
	sent(err error)
}

// sendQueue writes the messages of one connection, several at once where
// several are ready. Whoever pushes a message while nobody writes holds the
// writing role until the queue is empty.
type sendQueue struct {
	conn    net.Conn        // constant, like the next four
	vectors bool            // conn takes several slices in one system call
	now     func() int64    // the time in nanoseconds, never 0
	failed  func(err error) // called once, when a write failed
	timeout time.Duration   // for one write, where no watchdog looks at since; or 0

	// company says that other messages may be on their way, and worth waiting for
	// as long as there is work to do.
	company atomic.Bool
	since   atomic.Int64 // when the write under way began, 0 if none is

	mu    sync.Mutex
	queue []outgoing // not yet taken by the writing role
	busy  bool       // somebody holds the writing role
	err   error      // why nothing is sent any more

	// Owned by the writing role.
	batch  []outgoing
	store  [][]byte
	vecs   net.Buffers
	gather []byte
}

func (q *sendQueue) init(conn net.Conn, now func() int64, failed func(error)) {
	q.conn, q.now, q.failed = conn, now, failed
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		q.vectors = true
	}
}

// push sends m, or leaves it to the holder of the writing role.
func (q *sendQueue) push(m outgoing) {
	q.mu.Lock()
	if err := q.err; err != nil {
		q.mu.Unlock()
		m.sent(err)
		return
	}
	q.queue = append(q.queue, m)
	if q.busy {
		q.mu.Unlock()
		return
	}
	q.busy = true
	q.mu.Unlock()
	if q.company.Load() && m.encoder().Len() < yieldBelow {
		// Calls that came together tend to end together: let those that can run
		// now add their replies to the write.
		runtime.Gosched()
	}
	q.flush()
}

// add leaves m in the queue, for the next push or kick to send.
func (q *sendQueue) add(m outgoing) {
	q.mu.Lock()
	err := q.err
	if err == nil {
		q.queue = append(q.queue, m)
	}
	q.mu.Unlock()
	if err != nil {
		m.sent(err)
	}
}

// kick sends what was added, unless somebody is sending already.
func (q *sendQueue) kick() {
	q.mu.Lock()
	if q.busy || len(q.queue) == 0 {
		q.mu.Unlock()
		return
	}
	q.busy = true
	q.mu.Unlock()
	q.flush()
}

// flush holds the writing role until nothing is left to write.
func (q *sendQueue) flush() {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.busy = false
			q.mu.Unlock()
			return
		}
		batch := q.queue
		q.queue, q.batch = q.batch[:0], batch
		err := q.err
		q.mu.Unlock()
		for len(batch) > 0 {
			n := q.chunk(batch)
			if err == nil {
				err = q.write()
				if err != nil {
					q.fail(err)
				}
			}
			for i, m := range batch[:n] {
				batch[i] = nil
				m.sent(err)
			}
			batch = batch[n:]
		}
	}
}

// chunk gathers the first messages of batch in q.vecs and returns how many.
func (q *sendQueue) chunk(batch []outgoing) int {
	size, n := 0, 0
	vecs := q.store[:0]
	for n < len(batch) && n < chunkMessages && size < chunkBytes {
		e := batch[n].encoder()
		size += e.Len()
		vecs = e.Vectors(vecs)
		n++
	}
	q.store, q.vecs = vecs, vecs
	return n
}

// write writes q.vecs.
func (q *sendQueue) write() (err error) {
	if q.timeout > 0 {
		q.conn.SetWriteDeadline(time.Now().Add(q.timeout))
	}
	q.since.Store(q.now())
	switch {
	case len(q.vecs) == 1:
		_, err = q.conn.Write(q.vecs[0])
	case q.vectors:
		_, err = q.vecs.WriteTo(q.conn)
	default:
		err = q.writeGathered()
	}
	q.since.Store(0)
	clear(q.store)
	return err
}

// writeGathered writes q.vecs to a connection that takes one slice at a time:
// small ones are copied together.
func (q *sendQueue) writeGathered() error {
	const small = 4 << 10
	q.gather = q.gather[:0]
	for _, v := range q.vecs {
		if len(v) > small || len(q.gather)+len(v) > 4*small {
			if err := q.writeGather(); err != nil {
				return err
			}
		}
		if len(v) <= small {
			q.gather = append(q.gather, v...)
		} else if _, err := q.conn.Write(v); err != nil {
			return err
		}
	}
	return q.writeGather()
}

func (q *sendQueue) writeGather() error {
	if len(q.gather) == 0 {
		return nil
	}
	_, err := q.conn.Write(q.gather)
	q.gather = q.gather[:0]
	return err
}

// fail makes all that is pushed from now on be dropped with err.
func (q *sendQueue) fail(err error) {
	q.mu.Lock()
	if q.err != nil {
		q.mu.Unlock()
		return
	}
	q.err = err
	q.mu.Unlock()
	q.failed(err)
}
