package inflight

import (
	"fmt"
	"sync"
	"testing"
)

// mutexTable is what the table is measured against: one mutex and a map, with
// the same promises about the oldest tid.
type mutexTable struct {
	mu     sync.Mutex
	next   uint64
	oldest uint64
	m      map[uint64]*req
}

func (t *mutexTable) add(r *req) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	tid := t.next
	t.next++
	r.tid = tid
	t.m[tid] = r
	return tid
}

func (t *mutexTable) take(tid uint64) *req {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.m[tid]
	delete(t.m, tid)
	for t.oldest < t.next {
		if _, ok := t.m[t.oldest]; ok {
			break
		}
		t.oldest++
	}
	return r
}

func (t *mutexTable) old() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.oldest
}

// BenchmarkTable is the life of a request: added, the oldest tid read for its
// message, taken by its reply, with 16 of each goroutine outstanding.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{1, 4, 16, 32} {
		b.Run(fmt.Sprintf("table/goroutines=%d", n), func(b *testing.B) {
			t := newTable()
			run(b, n, func(r *req) uint64 { tid, _ := t.Add(r); return tid }, t.Take, t.Oldest)
		})
		b.Run(fmt.Sprintf("mutex/goroutines=%d", n), func(b *testing.B) {
			t := &mutexTable{next: 1, oldest: 1, m: map[uint64]*req{}}
			run(b, n, t.add, t.take, t.old)
		})
	}
}

func run(b *testing.B, goroutines int, add func(*req) uint64, take func(uint64) *req, oldest func() uint64) {
	b.ReportAllocs()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			var reqs [16]req
			var tids [16]uint64
			for i := range b.N / goroutines {
				k := i % len(reqs)
				if i >= len(reqs) && take(tids[k]) == nil {
					b.Error("request lost")
				}
				tids[k] = add(&reqs[k])
				oldest()
			}
		})
	}
	wg.Wait()
}
