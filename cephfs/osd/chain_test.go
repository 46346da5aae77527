package osd

import (
	"context"
	"testing"
	"testing/synctest"

	"capstan/cephfs/cephtest"
)

// TestFailWhatIsCancelled: a map fails a request that a cancellation took from
// the table and not yet from its chain, and has the OSD elsewhere: those behind
// are sent there.
func TestFailWhatIsCancelled(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.osds[0].Script(func(*cephtest.OSDRequest) {})
		moved := e.net.NewOSD(0, addrOf(0, 6900), e.objs, nil)
		w, r := &Op{OnFull: FullFail}, &Op{}
		w.WriteFull([]byte("w"))
		r.Stat()
		var ended error
		rq, err := e.c.submit(t.Context(), obj(1, "x"), w, func(_ *Reply, err error) { ended = err }, false)
		if err != nil {
			t.Fatal(err)
		}
		f := e.flight()
		f.add(t.Context(), obj(1, "x"), r)
		synctest.Wait()
		if e.c.table.Take(rq.tid) == nil { // as cancel begins
			t.Fatal("not in the table")
		}
		e.src.change(func(m *fakeMap) {
			m.flags.Full = true
			m.addrs[0] = addrOf(0, 6900)
		})
		synctest.Wait()
		if f.left() != 0 || tids(moved, "x") != "2:1 " {
			t.Errorf("%d left, seen %s", f.left(), tids(moved, "x"))
		}
		e.c.end(rq, context.Canceled) // as it ends
		if rq.chain != nil || ended == nil {
			t.Errorf("the cancelled one ended with %v, in chain %v", ended, rq.chain)
		}
		e.c.Close()
		moved.Close()
	})
}

// TestStepsOfHotObject: what many operations on one object cost, in looks at
// requests, grows as they do, whether they go to one OSD or to all, and whether
// they may be sent or not.
func TestStepsOfHotObject(t *testing.T) {
	const n = 1000
	for _, tc := range []struct {
		name    string
		replica Replica
		write   bool
		barrier uint32
	}{
		{name: "reads"},
		{name: "reads of any replica", replica: ReplicaAny},
		{name: "writes", write: true},
		{name: "held reads", barrier: 1000},
		{name: "held reads of any replica", replica: ReplicaAny, barrier: 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, nil, func(t *testing.T, e *env) {
				for _, o := range e.osds {
					o.Script(func(rq *cephtest.OSDRequest) {})
				}
				e.c.SetBarrier(tc.barrier)
				ctx, cancel := context.WithCancel(t.Context())
				f := e.flight()
				step := func(what string, most uint64, do func()) {
					t.Helper()
					before := e.looks()
					do()
					synctest.Wait()
					if steps := e.looks() - before; steps > most {
						t.Errorf("%s: %d steps for %d operations", what, steps, n)
					}
				}
				step("submitting", 10*n, func() {
					for range n {
						op := &Op{Replica: tc.replica}
						if tc.write {
							op.Append([]byte("x"))
						} else {
							op.Read(0, 4096)
						}
						f.add(ctx, obj(1, "hot"), op)
					}
				})
				step("a map", 10*n, func() { e.src.change(nil) })
				step("a break", 20*n, func() { e.osds[1].ResetAll(); e.osds[0].ResetAll() })
				step("cancelling", 10*n, cancel)
				if f.left() != 0 {
					t.Errorf("%d left", f.left())
				}
			})
		})
	}
}

// looks counts the looks at requests so far.
func (e *env) looks() (n uint64) {
	for i := range e.c.shards {
		s := &e.c.shards[i]
		s.mu.Lock()
		n += s.looks
		s.mu.Unlock()
	}
	return n
}
