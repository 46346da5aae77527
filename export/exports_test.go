package export

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := oneExport(t, &Export{}), oneExport(t, &Export{})
		x := NewExports(first)
		a, b := x.Hold(), x.Hold()
		if a.Table != first || x.Current() != first {
			t.Error("another table")
		}
		x.Swap(second)
		c := x.Hold()
		if c.Table != second {
			t.Error("an old table")
		}
		var idle atomic.Bool
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := first.WaitIdle(t.Context()); err != nil {
					t.Error(err)
				}
				idle.Store(true)
			})
		}
		for _, h := range []Hold{a, b} {
			synctest.Wait()
			if idle.Load() {
				t.Error("idle while held")
			}
			h.Release()
		}
		wg.Wait()
		c.Release()

		h := x.Hold()
		x.Swap(first)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := second.WaitIdle(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("held for ever: %v", err)
		}
		h.Release()
		if err := second.WaitIdle(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestReloadUnderLoad swaps tables 500 times while calls run, each of which
// uses its table to the end, and checks that nobody uses a Volume after its
// table was found idle. One reload in ten is refused and changes nothing.
func TestReloadUnderLoad(t *testing.T) {
	type guarded struct {
		*fakeVolume
		closed atomic.Bool
	}
	ctx := t.Context()
	ring := testRing(t, testKey(1, 1))
	kept := &Export{ID: 1, Path: "/kept", Volume: newFakeVolume(), Rules: []Rule{AllowAll}}
	make2 := func(i int) (*Table, *guarded, error) {
		v := &guarded{fakeVolume: newFakeVolume()}
		e := &Export{ID: 2, Path: fmt.Sprintf("/changing/%d", i%7), Volume: v, Rules: []Rule{AllowAll}}
		if i%10 == 9 {
			e.Path = "broken"
		}
		table, err := NewTable(ctx, []*Export{kept, e}, WithKeys(ring))
		return table, v, err
	}
	table, volume, err := make2(0)
	if err != nil {
		t.Fatal(err)
	}
	x := NewExports(table)
	fh := table.AppendHandle(nil, Node{kept, Live(fakeRoot)})

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for uid := range uint32(4) {
		wg.Go(func() {
			p := peer("::1", 1000+uid, 1)
			for {
				select {
				case <-stop:
					return
				default:
				}
				h := x.Hold()
				n, err := h.Table.Resolve(fh)
				if err == nil {
					_, err = h.Table.Enter(ctx, p, n.Export, Version42)
				}
				if err != nil {
					t.Errorf("the untouched export: %v", err)
				}
				e := h.Table.Export(2)
				if _, err := h.Table.Enter(ctx, p, e, Version42); err != nil {
					t.Error(err)
				}
				if e.Volume.(*guarded).closed.Load() {
					t.Error("a closed volume was used")
				}
				h.Release()
				runtime.Gosched() // leave room for the reloads
			}
		})
	}
	for i := 1; i <= 500; i++ {
		next, v, err := make2(i)
		if i%10 == 9 {
			if err == nil {
				t.Error("a broken table was accepted")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		old := x.Swap(next)
		if err := old.WaitIdle(ctx); err != nil {
			t.Fatal(err)
		}
		volume.closed.Store(true)
		volume = v
	}
	close(stop)
	wg.Wait()
}

func TestHoldAllocs(t *testing.T) {
	x := NewExports(oneExport(t, &Export{}))
	if got := testing.AllocsPerRun(100, func() { x.Hold().Release() }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
