package mon

import (
	"sync"
	"testing"
	"testing/synctest"
)

// However many updates come, and however slow the handlers are, the queue
// holds its bytes and one message more, and everything comes in order.
func TestDeliveriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, size, n = 100, 30, 20
		q := newDeliveries(limit)
		var wg sync.WaitGroup
		pushed := 0
		wg.Go(func() {
			for i := range n {
				q.push(delivery{update: Update{Epoch: uint64(i)}, size: size})
				q.mu.Lock()
				pushed++
				q.mu.Unlock()
			}
		})
		for i := range n {
			synctest.Wait()
			q.mu.Lock()
			if q.bytes >= limit+size || q.bytes < min(limit, (n-i)*size) || q.bytes != (pushed-i)*size {
				t.Errorf("%d bytes after %d of %d", q.bytes, i, pushed)
			}
			q.mu.Unlock()
			d, ok := q.pop()
			if !ok || d.update.Epoch != uint64(i) {
				t.Errorf("got %d, %v; wanted %d", d.update.Epoch, ok, i)
			}
			// What is with the handlers counts: nothing more gets in.
			before := pushed
			synctest.Wait()
			if pushed != before {
				t.Errorf("%d were taken while one is delivered, before %d", pushed, before)
			}
			q.done(d)
		}
		wg.Wait()

		// One larger than everything gets in, alone.
		q.push(delivery{size: 10 * limit})
		wg.Go(func() { q.push(delivery{size: 1}) })
		synctest.Wait()
		if q.bytes != 10*limit {
			t.Errorf("%d bytes", q.bytes)
		}
		q.close()
		wg.Wait()
		q.push(delivery{size: 1})
		if _, ok := q.pop(); ok {
			t.Error("something came after close")
		}

		// Small ones are counted.
		q = newDeliveries(limit)
		wg.Go(func() {
			for range maxDeliveries + 1 {
				q.push(delivery{})
			}
		})
		synctest.Wait()
		if len(q.list) != maxDeliveries {
			t.Errorf("%d wait", len(q.list))
		}
		q.close()
		wg.Wait()
	})
}
