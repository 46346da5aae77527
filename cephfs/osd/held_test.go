package osd

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
)

// TestHeldKeepsNobodyOut: writes that wait for a full pool leave room for reads
// of others, and for the removals that would make room.
func TestHeldKeepsNobodyOut(t *testing.T) {
	run(t, func(o *Options) { o.MaxOps = 8 }, func(t *testing.T, e *env) {
		for _, p := range []int64{1, 2} {
			if err := e.c.WriteFull(t.Context(), obj(p, "old"), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		full := func(is bool) {
			e.src.change(func(m *fakeMap) {
				p := m.pools[2]
				p.Full, p.QuotaFull = is, is
				m.pools[2] = p
			})
		}
		f := e.flight()
		// Some are under way when the pool fills up, and are dropped there.
		e.osds[0].Script(func(*cephtest.OSDRequest) {})
		for i := range 5 {
			f.add(t.Context(), obj(2, fmt.Sprint("early", i)), appendOp("x"))
		}
		synctest.Wait()
		full(true)
		e.osds[0].Script(nil)
		for i := range 20 {
			go f.add(t.Context(), obj(2, fmt.Sprint(i)), appendOp("x"))
		}
		synctest.Wait()
		if s := e.c.Stats(); s.Ops != 0 {
			t.Errorf("what is held takes the room of %d", s.Ops)
		}
		if ops, _ := e.c.parked.inUse(); ops != 8 {
			t.Errorf("%d are held, want 8: the others wait outside", ops)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := e.c.Read(ctx, obj(1, "old"), 0, make([]byte, 1)); err != nil {
			t.Errorf("a read of another pool: %v", err)
		}
		rm := &Op{OnFull: FullTry}
		rm.Remove()
		if _, err := e.c.Do(ctx, obj(2, "old"), rm); err != nil {
			t.Errorf("a removal that makes room: %v", err)
		}
		full(false)
		synctest.Wait()
		f.ok()
		for i := range 20 {
			if data, _ := e.objs.Data(id(obj(2, fmt.Sprint(i)))); string(data) != "x" {
				t.Errorf("object %d is %q", i, data)
			}
		}
	})
}
