package osdmap

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReadersShareMaps follows a cluster while others place groups with the
// current map and with old ones: under the race detector, nothing is written
// that a reader sees, and what a map says stays.
func TestReadersShareMaps(t *testing.T) {
	e := readEpochs(t, "testdata/epochs-16.tar.gz")
	first, err := Decode(e.full[e.last-60])
	if err != nil {
		t.Fatal(err)
	}
	var current atomic.Pointer[Map]
	current.Store(first)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var a, b Placement
			for {
				m := current.Load()
				for id := range m.Pools {
					m.Place(PG{id, 5}, &a)
					first.Place(PG{id, 5}, &b)
					m.Place(PG{id, 5}, &b)
					if !slices.Equal(a.Acting, b.Acting) {
						t.Errorf("epoch %d: pool %d: %v, then %v", m.Epoch, id, a, b)
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for n := first.Epoch + 1; n <= e.last; n++ {
		inc, err := DecodeIncremental(e.inc[n])
		if err != nil {
			t.Fatal(err)
		}
		m, err := current.Load().Apply(inc)
		if err != nil {
			t.Fatal(err)
		}
		current.Store(m)
	}
	close(stop)
	wg.Wait()
}
