package osd

import (
	"fmt"
	"testing"
	"testing/synctest"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
)

// TestCutEverywhere breaks the first connection after each number of bytes, in
// each direction: everything is done once, in order.
func TestCutEverywhere(t *testing.T) {
	for _, read := range []bool{true, false} {
		for n := 0; n < 3500; n += 37 {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, nil)
				e.osds[0].Close()
				e.osds[0] = e.net.NewOSD(0, addrOf(0, 6800), e.objs, func(c *cephtest.Config) {
					c.OnStream = func(s *cephtest.Stream, i int) {
						switch {
						case i > 1:
						case read:
							s.CutRead(n)
						default:
							s.CutWrite(n)
						}
					}
				})
				f := e.flight()
				want := ""
				for i := range 6 {
					f.add(t.Context(), obj(1, "a"), appendOp(fmt.Sprint(i)))
					want += fmt.Sprint(i)
				}
				for f.left() > 0 {
					synctest.Wait()
					sleep(t.Context(), 1e8)
				}
				f.ok()
				if got, _ := e.objs.Data(id(obj(1, "a"))); string(got) != want {
					t.Errorf("cut at %d (read %v): object is %q", n, read, got)
				}
				e.close()
			})
		}
	}
}

// TestDownAndUp: the map says that an OSD that holds an operation is down, and
// later that it is up again, in the same place.
func TestDownAndUp(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		f := e.flight()
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			if rq.Attempt > 0 {
				rq.Answer()
			}
		})
		f.add(t.Context(), obj(1, "a"), appendOp("x"))
		synctest.Wait()
		e.src.change(func(m *fakeMap) { delete(m.addrs, 0) })
		synctest.Wait()
		if f.left() != 1 || len(e.osds[0].Live()) != 0 {
			t.Errorf("%d left, %d connections", f.left(), len(e.osds[0].Live()))
		}
		e.src.change(func(m *fakeMap) { m.addrs[0] = denc.AddrVec{e.osds[0].Addrs()[0]} })
		synctest.Wait()
		f.ok()
	})
}
