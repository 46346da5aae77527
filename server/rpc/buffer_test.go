package rpc

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestBufferClasses(t *testing.T) {
	for n := range 5 << maxClassBits >> 2 {
		if n > 4096 && n%509 != 0 && n&(n-1) > 1 {
			continue
		}
		class := classOf(n)
		if n > 1<<maxClassBits {
			if class != -1 {
				t.Fatalf("%d bytes are pooled", n)
			}
			continue
		}
		if size := classSize(class); size < n || class > 0 && classSize(class-1) >= n {
			t.Fatalf("%d bytes are in class %d of %d bytes", n, class, size)
		}
	}
	if last := classOf(1 << maxClassBits); last != len(bufferPools)-1 || classSize(last) != 1<<maxClassBits {
		t.Errorf("last class is %d of %d", last, len(bufferPools))
	}
}

func TestBufferReferences(t *testing.T) {
	owner := &budget{limit: 1000}
	owner.force(10)
	b := GetBuffer(10)
	b.owner, b.charge = owner, 10
	b.Retain()
	b.Releaser()()
	if owner.used.Load() != 10 {
		t.Error("charge given back too early")
	}
	b.Release()
	if owner.used.Load() != 0 {
		t.Error("charge not given back")
	}
	large := GetBuffer(5 << 20)
	if len(large.Bytes()) != 5<<20 {
		t.Error("large buffer")
	}
	large.Release()
	defer func() {
		if recover() == nil {
			t.Error("double release not noticed")
		}
	}()
	large.Release()
}

func TestBudgetLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{limit: 10}
		if !b.acquire(8, nil) {
			t.Fatal("not free")
		}
		var got atomic.Int32
		stop := make(chan struct{})
		for _, n := range []int64{5, 1, 20, 2} {
			go func() {
				if b.acquire(n, stop) {
					got.Add(1)
				}
			}()
			synctest.Wait()
		}
		// The small ones do not overtake the large one before them.
		if got.Load() != 0 || !b.short() || b.tryAcquire(1) {
			t.Fatalf("%d served", got.Load())
		}
		b.release(8)
		synctest.Wait()
		if b.used.Load() != 6 || got.Load() != 2 {
			t.Fatalf("used %d, %d served", b.used.Load(), got.Load())
		}
		// More than the limit is given to him who is alone.
		b.release(6)
		synctest.Wait()
		if b.used.Load() != 20 || got.Load() != 3 {
			t.Fatalf("used %d, %d served", b.used.Load(), got.Load())
		}
		close(stop)
		synctest.Wait()
		if b.short() || got.Load() != 3 {
			t.Error("still in line")
		}
		b.release(20)
		if b.used.Load() != 0 {
			t.Errorf("%d left", b.used.Load())
		}
	})
}
