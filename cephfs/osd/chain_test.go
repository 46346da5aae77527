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
