package state

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// benchStore is a Store with n clients that have one session each.
func benchStore(b *testing.B, n int) (*Store, []SequenceArgs) {
	b.Helper()
	s, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(context.Background()) })
	args := make([]SequenceArgs, n)
	for i := range args {
		r, st := s.ExchangeID(exchangeArgs(fmt.Sprint(i), 1))
		if st != ok {
			b.Fatal(st)
		}
		cs, st := s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
		if st != ok {
			b.Fatal(st)
		}
		args[i] = SequenceArgs{Session: cs.Session, Conn: NewConn(uint64(i), addr("192.0.2.1:1"))}
	}
	return s, args
}

func benchSequence(b *testing.B, cache bool) {
	s, args := benchStore(b, runtime.GOMAXPROCS(0))
	reply := make([]byte, 200)
	var next atomic.Int32
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		a := args[int(next.Add(1)-1)%len(args)]
		a.CacheThis = cache
		var u SlotUse
		for pb.Next() {
			a.Sequence++
			if st := s.Sequence(&a, &u); st != ok {
				b.Error(st)
				return
			}
			u.Finish(reply)
		}
	})
}

func BenchmarkSequence(b *testing.B)       { benchSequence(b, false) }
func BenchmarkSequenceCached(b *testing.B) { benchSequence(b, true) }

func BenchmarkUse(b *testing.B) {
	s, args := benchStore(b, 1)
	vol := newFakeVolume()
	a := args[0]
	a.Sequence = 1
	var u SlotUse
	if st := s.Sequence(&a, &u); st != ok {
		b.Fatal(st)
	}
	defer u.Finish(nil)
	c := u.Client()
	c.ReclaimComplete(false)
	po, _ := c.BeginOpen(context.Background(), &OpenArgs{Owner: []byte("o"), Key: key(1), Access: read})
	id, st := po.Commit(vol.file(key(1).Object, read))
	if st != ok {
		b.Fatal(st)
	}
	b.ReportAllocs()
	for b.Loop() {
		u, st := c.Use(context.Background(), id, key(1), read)
		if st != ok {
			b.Fatal(st)
		}
		u.Release()
	}
}

func BenchmarkOpenClose(b *testing.B) {
	s, args := benchStore(b, 1)
	vol := newFakeVolume()
	a := args[0]
	a.Sequence = 1
	var u SlotUse
	if st := s.Sequence(&a, &u); st != ok {
		b.Fatal(st)
	}
	defer u.Finish(nil)
	c := u.Client()
	c.ReclaimComplete(false)
	open := &OpenArgs{Owner: []byte("o"), Key: key(1), Access: read}
	b.ReportAllocs()
	for b.Loop() {
		po, _ := c.BeginOpen(context.Background(), open)
		id, _ := po.Commit(vol.file(key(1).Object, read))
		if _, st := c.Close(context.Background(), id, key(1)); st != ok {
			b.Fatal(st)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	args := make([]byte, 1<<20)
	for b.Loop() {
		Digest(args, 7, 1, 0)
	}
}

// TestSequenceAllocatesNothing holds the hot path to its promise.
func TestSequenceAllocatesNothing(t *testing.T) {
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	a := SequenceArgs{Session: p.ses, Sequence: p.seq, Conn: NewConn(1, addr("192.0.2.1:1"))}
	reply := make([]byte, 300)
	var u SlotUse
	for _, cache := range []bool{false, true} {
		a.CacheThis = cache
		if n := testing.AllocsPerRun(1000, func() {
			a.Sequence++
			if st := w.s.Sequence(&a, &u); st != ok {
				t.Fatal(st)
			}
			u.Finish(reply)
		}); n != 0 {
			t.Errorf("%v allocations, cached: %v", n, cache)
		}
	}
}

// 10,000 clients come, open a file, lock it, and go, with and without saying
// so; the memory in use afterwards is what it was after the first thousand.
func TestMemoryOfClientsThatComeAndGo(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Limits.MaxCourtesy = 50
		o.Logger, o.OnEvent = nil, nil
	})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var early uint64
	for i := range 10000 {
		p := w.connect(fmt.Sprint("client ", i), 1)
		k := key(uint64(i % 500))
		open := p.mustOpen("o", k, both, none)
		if _, _, st := p.lock("l", open, k, LockRange{Offset: uint64(i), Length: 1}); st != ok {
			t.Fatal(st)
		}
		switch i % 3 {
		case 0: // properly
			w.want(p.close(open, k), ok, "CLOSE")
			var u SlotUse
			w.want(p.sequence(&u), ok, "SEQUENCE")
			w.want(w.s.DestroySession(p.ses, nil, &u), ok, "DESTROY_SESSION")
			u.Finish(nil)
			w.want(w.s.DestroyClientID(p.id), ok, "DESTROY_CLIENTID")
		case 1: // comes back once, then vanishes
			w.connect(fmt.Sprint("client ", i), 2)
		}
		w.advance(time.Second)
		if i%100 == 99 {
			w.s.Sweep()
			if n := w.s.Counts(); n.Clients > 50+200 || n.Courtesy > 50 {
				t.Fatalf("%+v", n)
			}
		}
		if i == 1000 {
			early = heap()
		}
	}
	if late := heap(); late > early+early/2+1<<20 {
		t.Errorf("%d KiB in use, %d KiB after the first thousand clients", late>>10, early>>10)
	}
}
