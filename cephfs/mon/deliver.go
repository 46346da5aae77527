package mon

import "sync"

// What may wait for the handlers. Above it the session's messages are not
// taken, which in the end stops its reader.
const (
	maxDeliveries    = 64
	maxDeliveryBytes = 64 << 20 // and one message more
)

// delivery is an update on its way to its subscriptions.
type delivery struct {
	update Update
	to     []*Subscription
	size   int // bytes of the message that the update keeps in memory
}

// deliveries is the queue of a client's updates. What is being delivered still
// counts.
type deliveries struct {
	maxBytes int // constant

	mu     sync.Mutex
	change sync.Cond // of anything below
	list   []delivery
	bytes  int
	closed bool
}

func newDeliveries(maxBytes int) *deliveries {
	q := &deliveries{maxBytes: maxBytes}
	q.change.L = &q.mu
	return q
}

// push waits for room: for less than maxBytes to be taken, so that a message of
// any size gets in. After close it does nothing.
func (q *deliveries) push(d delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && (q.bytes >= q.maxBytes || len(q.list) >= maxDeliveries) {
		q.change.Wait()
	}
	if q.closed {
		return
	}
	q.list = append(q.list, d)
	q.bytes += d.size
	q.change.Broadcast()
}

// pop waits for the next delivery; false after close. [deliveries.done] must
// follow.
func (q *deliveries) pop() (delivery, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && len(q.list) == 0 {
		q.change.Wait()
	}
	if q.closed {
		return delivery{}, false
	}
	d := q.list[0]
	q.list[0] = delivery{} // its bytes are not to stay with the array
	q.list = q.list[1:]
	q.change.Broadcast()
	return d, true
}

// done gives back what a delivery took.
func (q *deliveries) done(d delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= d.size
	q.change.Broadcast()
}

// close throws away what waits, and ends all waits.
func (q *deliveries) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.list = true, nil
	q.change.Broadcast()
}

// deliver calls the handlers.
func (c *Client) deliver() {
	defer c.wg.Done()
	for {
		d, ok := c.queue.pop()
		if !ok {
			return
		}
		for _, s := range d.to {
			c.handle(s, d.update)
		}
		c.queue.done(d)
	}
}
