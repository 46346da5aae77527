package osd

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
)

// TestRefused: a primary that answers EAGAIN is asked again, less and less
// often; what follows on the object waits behind, and the context ends it.
func TestRefused(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { rq.Refuse(-int32(syscall.EAGAIN)).Send() })
		f := e.flight()
		f.add(t.Context(), obj(1, "x"), appendOp("1"))
		f.add(t.Context(), obj(1, "x"), appendOp("2"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		var op Op
		op.Stat()
		if _, err := e.c.Do(ctx, obj(1, "y"), &op); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("ended after %v with %v", time.Since(begin), err)
		}
		synctest.Wait()
		// Eight pauses of less than 2 s, then some 35 of one to two; both of x
		// may have been under way at the first.
		if n := len(e.osds[0].Seen()); n < 80 || n > 2*(8+60)+1 {
			t.Errorf("%d requests in a minute", n)
		}
		e.osds[0].Script(nil)
		time.Sleep(2 * time.Second)
		f.ok()
		if data, _ := e.objs.Data(id(obj(1, "x"))); string(data) != "12" {
			t.Errorf("object is %q", data)
		}
	})
	// Nothing rests when the client is closed.
	run(t, nil, func(t *testing.T, e *env) {
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { rq.Refuse(-int32(syscall.EAGAIN)).Send() })
		f := e.flight()
		f.add(t.Context(), obj(1, "x"), appendOp("1"))
		time.Sleep(time.Minute)
		begin := time.Now()
		e.c.Close()
		if out, ok := f.get(0); !ok || !errors.Is(out.err, ErrClosed) || time.Since(begin) != 0 {
			t.Errorf("closed after %v: %v", time.Since(begin), out.err)
		}
	})
}
