package osd

import (
	"fmt"
	"testing"
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
