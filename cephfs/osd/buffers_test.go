package osd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/msgr"
)

// redial gives an env, before its first operation, a messenger that dials with
// a function of the test.
func (e *env) redial(mo msgr.Options, dial func(context.Context, netip.AddrPort) (net.Conn, error)) {
	e.c.Close()
	e.msgr.Close()
	mo.Auth, mo.Logger, mo.Dial = &cephtest.StaticAuth{}, slog.New(slog.DiscardHandler), dial
	e.msgr = msgr.New(mo)
	e.c = New(Options{Messenger: e.msgr, Maps: e.src})
}

// gate has the connections to osd.0 wait until the channel is closed.
func (e *env) gate() chan struct{} {
	gate := make(chan struct{})
	e.redial(msgr.Options{}, func(ctx context.Context, p netip.AddrPort) (net.Conn, error) {
		if p.Addr() == addrOf(0, 6800)[0].Host.Addr() {
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return e.net.Dial(ctx, p)
	})
	return gate
}

// TestBuffersBackFromQueue: what lies in the queue of a connection when its
// context ends is never written, whatever becomes of its buffer.
func TestBuffersBackFromQueue(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		gate := e.gate()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		var released atomic.Int32
		async := appendOp("async")
		async.Released = func() { released.Add(1) }
		f := e.flight()
		f.add(ctx, obj(1, "async"), async)
		read := &Op{}
		read.Read(0, 1)
		f.add(ctx, obj(1, "read"), read)
		f.add(t.Context(), obj(1, "stays"), appendOp("stays"))
		buf := []byte("AAAAAAAA")
		if err := e.c.WriteFull(ctx, obj(1, "x"), buf); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		copy(buf, "BBBBBBBB")
		synctest.Wait()
		if took := time.Since(begin); took != time.Second || f.left() != 1 || released.Load() != 1 {
			t.Errorf("after %v %d are left, released %d", took, f.left(), released.Load())
		}
		close(gate)
		synctest.Wait()
		if n := len(e.osds[0].Seen()); n != 1 || f.left() != 0 {
			t.Errorf("the OSD saw %d requests, %d left", n, f.left())
		}
	})
}

// stall has osd.0 read no more once it has a request for the object "stall",
// until unstall is called.
func (e *env) stall(t *testing.T) (f *flight) {
	goon := make(chan struct{})
	e.unstall = func() { close(goon) }
	e.osds[0].Script(func(rq *cephtest.OSDRequest) {
		if rq.Object.Name == "stall" && rq.Attempt == 0 {
			<-goon
			return
		}
		rq.Answer()
	})
	f = e.flight()
	f.add(t.Context(), obj(1, "stall"), appendOp("s"))
	synctest.Wait()
	return f
}

// TestAbortsAreNoFailures: connections that the client breaks off itself, one
// soon after the other, give the OSD no rest.
func TestAbortsAreNoFailures(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		begin := time.Now()
		buf := make([]byte, 1<<20)
		for i := range 5 {
			if err := e.c.WriteFull(t.Context(), obj(1, "heard"), nil); err != nil {
				t.Fatal(err)
			}
			f := e.stall(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.c.WriteFull(ctx, obj(1, "x"), buf) }()
			synctest.Wait()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			e.unstall()
			synctest.Wait()
			f.ok()
			if n, took := e.c.Stats().Lost, time.Since(begin); n != uint64(i+1) || took != 0 {
				t.Errorf("%d connections were lost, and %v went by", n, took)
			}
		}
	})
}

// TestBuffersBackFromWrite: a connection whose OSD does not read holds the
// buffer of the message it is in the middle of. When that one's context ends
// the connection goes, and everything else on it is done on the next.
func TestBuffersBackFromWrite(t *testing.T) {
	for _, async := range []bool{false, true} {
		run(t, nil, func(t *testing.T, e *env) {
			f := e.stall(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begin := time.Now()
			buf := bytes.Repeat([]byte("A"), 1<<20)
			ended := make(chan error, 1)
			if async {
				op := &Op{}
				op.WriteFull(buf)
				if err := e.c.Submit(ctx, obj(1, "x"), op, func(_ *Reply, err error) { ended <- err }); err != nil {
					t.Fatal(err)
				}
			} else {
				go func() { ended <- e.c.WriteFull(ctx, obj(1, "x"), buf) }()
			}
			synctest.Wait()
			f.add(t.Context(), obj(1, "behind"), appendOp("b"))
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
				t.Errorf("ended after %v with %v", time.Since(begin), err)
			}
			for i := range buf {
				buf[i] = 'B'
			}
			e.unstall() // only the old connection was stuck
			time.Sleep(10 * time.Second)
			f.ok()
			if _, ok := e.objs.Data(id(obj(1, "x"))); ok {
				t.Error("half a message was done")
			}
			if s := e.c.Stats(); s.Lost != 1 {
				t.Errorf("%d connections were lost", s.Lost)
			}
		})
	}
}

// TestBuffersBackFromOldConnection: another OSD did it, and the connection to
// the first still holds the message, in its queue or half written.
func TestBuffersBackFromOldConnection(t *testing.T) {
	for _, writing := range []bool{false, true} {
		run(t, nil, func(t *testing.T, e *env) {
			if writing {
				e.stall(t)
				defer e.unstall()
			} else {
				defer close(e.gate())
			}
			begin := time.Now()
			ended := make(chan error, 1)
			buf := bytes.Repeat([]byte("A"), 1<<20)
			go func() { ended <- e.c.WriteFull(t.Context(), obj(1, "x"), buf) }()
			synctest.Wait()
			e.src.change(func(m *fakeMap) {
				p := m.pools[1]
				p.acting = func(uint32) []int32 { return []int32{1, 0, 2} }
				m.pools[1] = p
			})
			if err := <-ended; err != nil || time.Since(begin) != 0 {
				t.Errorf("ended after %v with %v", time.Since(begin), err)
			}
			for i := range buf {
				buf[i] = 'B'
			}
			if data, _ := e.objs.Data(id(obj(1, "x"))); !bytes.Equal(data, bytes.Repeat([]byte("A"), 1<<20)) {
				t.Error("something else was written")
			}
		})
	}
}

// TestOpReuse: an Op is the caller's at its completion: it may be reset there.
func TestOpReuse(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		var op Op
		for i := range 50 {
			op.Reset()
			op.WriteFull([]byte(fmt.Sprint(i)))
			if i%2 == 0 {
				if _, err := e.c.Do(t.Context(), obj(1, "x"), &op); err != nil {
					t.Fatal(err)
				}
				continue
			}
			var order string
			op.Released = func() { order += "released " }
			ended := make(chan error)
			err := e.c.Submit(t.Context(), obj(1, "x"), &op, func(_ *Reply, err error) {
				op.Reset()
				order += "done"
				ended <- err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil || order != "released done" {
				t.Fatalf("%s: %v", order, err)
			}
		}
	})
}

// TestReleasedOfEnded: an Op that was cancelled and submitted again tells of the
// second time when that is over.
func TestReleasedOfEnded(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		gate := e.gate()
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var op Op
		op.WriteFull([]byte("one"))
		if _, err := e.c.Do(ctx, obj(1, "x"), &op); err == nil {
			t.Error("done without an answer")
		}
		op.Reset()
		op.WriteFull([]byte("two"))
		var released atomic.Int32
		op.Released = func() { released.Add(1) }
		ctx, cancel = context.WithCancel(t.Context())
		e.flight().add(ctx, obj(1, "slow"), &op)
		close(gate)
		synctest.Wait()
		if n := released.Load(); n != 0 {
			t.Errorf("released %d times before the answer", n)
		}
		cancel()
		synctest.Wait()
		if n := released.Load(); n != 1 {
			t.Errorf("released %d times", n)
		}
	})
}

// TestEarlyAnswer: an OSD answers what it did not read to the end. The answer
// counts, and the context still ends the wait for the buffer.
func TestEarlyAnswer(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.stall(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		ended := make(chan error, 1)
		buf := bytes.Repeat([]byte("A"), 1<<20)
		go func() { ended <- e.c.WriteFull(ctx, obj(1, "x"), buf) }()
		synctest.Wait()
		rq := *e.osds[0].Seen()[0]
		rq.Tid++
		rq.Object.Name = "x"
		rq.Refuse(0).Send()
		if err := <-ended; err != nil || time.Since(begin) != time.Second {
			t.Errorf("ended after %v with %v", time.Since(begin), err)
		}
		for i := range buf {
			buf[i] = 'B'
		}
		e.unstall()
		time.Sleep(10 * time.Second)
	})
}

// TestBuffersUnderChaos: callers use their buffers again as soon as a write
// returned, however it did, while connections break, OSDs do not read and
// contexts end at any moment. What is stored is what somebody wrote.
func TestBuffersUnderChaos(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		for _, o := range e.osds {
			o.Script(func(rq *cephtest.OSDRequest) {
				switch rand.IntN(10) {
				case 0:
					time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) // reads nothing
				case 1:
					rq.Stream.Reset()
					return
				}
				for i := range rq.Ops {
					if d := rq.Ops[i].Data; len(d) > 0 && (d[0] == 0xff || bytes.Count(d, d[:1]) != len(d)) {
						t.Errorf("a message of %d bytes with what nobody wrote", len(d))
					}
				}
				rq.Answer()
			})
		}
		var wg sync.WaitGroup
		var done atomic.Int32
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(2, uint64(g)))
				buf := make([]byte, 200<<10)
				var op Op
				for i := range 40 {
					b := buf[:1+rng.IntN(len(buf))]
					for k := range b {
						b[k] = byte(g*16 + i%16)
					}
					op.Reset()
					op.WriteFull(b)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(40))*time.Millisecond)
					_, err := e.c.Do(ctx, obj(2, fmt.Sprint(rng.IntN(6))), &op)
					cancel()
					for k := range b {
						b[k] = 0xff
					}
					if err == nil {
						done.Add(1)
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if done.Load() == 0 {
			t.Error("nothing was done")
		}
		s := e.c.Stats()
		t.Logf("%d of 320 done; %+v", done.Load(), s)
	})
}
