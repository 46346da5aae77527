package osd

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
)

// TestTidsNeverRepeat: to an OSD, clients with one identity are one sender; what
// one writes must not be taken for a repetition of what another wrote, whether
// that is gone or works beside it.
func TestTidsNeverRepeat(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		beside := New(Options{Messenger: e.msgr, Maps: &fakeSource{current: e.src.current}})
		defer beside.Close()
		o := obj(1, "x")
		for i := range 3 {
			after := New(Options{Messenger: e.msgr, Maps: &fakeSource{current: e.src.current}})
			for j, c := range []*Client{after, beside, e.c} {
				want := fmt.Sprint(i, j)
				if err := c.WriteFull(t.Context(), o, []byte(want)); err != nil {
					t.Error(err)
				}
				if got, _ := e.objs.Data(id(o)); string(got) != want {
					t.Errorf("%q was written and acknowledged, the object holds %q", want, got)
				}
			}
			after.Close()
		}
	})
}

// TestIdentityStays: the OSDs know a request that comes again by the instance's
// number too, which stays when the monitors give the session a new one.
func TestIdentityStays(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		auth := &cephtest.StaticAuth{GlobalID: 100}
		e.osds[0].Close()
		e.osds[0] = e.net.NewOSD(0, addrOf(0, 6800), e.objs, func(c *cephtest.Config) { c.Auth = auth })
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { rq.Do() }) // done, and the answer lost
		f := e.flight()
		f.add(t.Context(), obj(1, "x"), appendOp("1"))
		synctest.Wait()
		e.osds[0].Script(nil)
		auth.GlobalID = 200
		e.osds[0].ResetAll()
		synctest.Wait()
		f.ok()
		if d, _ := e.objs.Data(id(obj(1, "x"))); string(d) != "1" {
			t.Errorf("object is %q: appended twice", d)
		}
	})
}

// TestRestlessOSD: one that answers something and breaks, again and again, is
// given short pauses.
func TestRestlessOSD(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			if rq.Object.Name == "y" {
				rq.Stream.Reset()
				return
			}
			r := rq.Refuse(0)
			r.Attempt = 77
			r.Send()
		})
		f := e.flight()
		f.add(t.Context(), obj(1, "x"), appendOp("1"))
		f.add(t.Context(), obj(1, "y"), appendOp("1"))
		before := e.net.Dials()
		time.Sleep(20 * time.Second)
		if n := e.net.Dials() - before; n < 2 || n > 20*20 {
			t.Errorf("%d connections in 20 s", n)
		}
		e.osds[0].Script(nil)
		time.Sleep(10 * time.Second)
		f.ok()
	})
}
