package osd

import (
	"context"
	"errors"
	"math"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/msgr"
)

// TestReadsTooLarge: a list of reads that together may bring more than a message
// holds is refused, and no sum overflows.
func TestReadsTooLarge(t *testing.T) {
	big := make([]byte, 1<<20)
	var many [][]byte
	for range 121 {
		many = append(many, big)
	}
	for name, tc := range map[string]struct {
		fill func(*Op)
		ok   bool
	}{
		"one":         {func(o *Op) { o.Read(0, maxAnswer) }, true},
		"one more":    {func(o *Op) { o.Read(0, maxAnswer+1) }, false},
		"and a stat":  {func(o *Op) { o.Read(0, maxAnswer); o.Stat() }, false},
		"two":         {func(o *Op) { o.Read(0, 60<<20); o.Read(0, 60<<20) }, true},
		"three":       {func(o *Op) { o.Read(0, 60<<20); o.Read(0, 60<<20); o.ReadInto(0, big) }, false},
		"most":        {func(o *Op) { o.Read(0, math.MaxInt) }, false},
		"most twice":  {func(o *Op) { o.Read(0, math.MaxInt); o.Read(0, math.MaxInt) }, false},
		"sparse":      {func(o *Op) { o.SparseRead(0, 13<<20) }, true},
		"sparse more": {func(o *Op) { o.SparseRead(0, 14<<20) }, false},
		"sparse most": {func(o *Op) { o.SparseRead(0, math.MaxInt) }, false},
		"vector":      {func(o *Op) { o.ReadIntoVec(0, many...) }, false},
		"write":       {func(o *Op) { o.WriteVec(0, many...) }, true},
		"more written": {func(o *Op) {
			o.WriteVec(0, many...)
			o.WriteVec(0, many[:8]...)
		}, false},
	} {
		var op Op
		tc.fill(&op)
		if ok := op.err == nil; ok != tc.ok || !ok && !errors.Is(op.err, ErrTooLarge) {
			t.Errorf("%s: %v", name, op.err)
		}
		if op.read < 0 || op.answer < 0 || op.answer > maxAnswer || op.payload > maxPayload {
			t.Errorf("%s: sums %d, %d, %d", name, op.read, op.answer, op.payload)
		}
	}
}

// TestAnswerBreaksConnection: an operation whose answer is more than the
// messenger takes ends, and breaks only a few connections before; what else is
// on them is done.
func TestAnswerBreaksConnection(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.redial(msgr.Options{MaxData: 1 << 20}, e.net.Dial)
		if err := e.c.WriteFull(t.Context(), obj(1, "big"), make([]byte, 900<<10)); err != nil {
			t.Fatal(err)
		}
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			if rq.Object.Name != "big" {
				return
			}
			rq.Answer()
		})
		f := e.flight()
		f.add(t.Context(), obj(1, "small"), appendOp("x"))
		read := &Op{}
		read.Read(0, 4096)
		f.add(t.Context(), obj(1, "small"), read)
		synctest.Wait()
		var op Op
		op.Read(0, 900<<10)
		op.Read(0, 900<<10)
		begin := time.Now()
		reply, err := e.c.Do(t.Context(), obj(1, "big"), &op)
		reply.Release()
		synctest.Wait() // the last loss is counted after the operation ended by it
		if s := e.c.Stats(); !errors.Is(err, ErrReply) || msgr.KindOf(err) != msgr.KindLength || s.Lost != maxStrikes {
			t.Errorf("ended after %v with %v; %d connections lost", time.Since(begin), err, s.Lost)
		}
		e.osds[0].Script(nil)
		e.osds[0].ResetAll()
		time.Sleep(10 * time.Second)
		f.ok()
	})
}

// TestAnswerOfCancelledRead: an answer that is too large, for an operation that
// ended, costs nobody else anything but the connection.
func TestAnswerOfCancelledRead(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.redial(msgr.Options{MaxData: 1 << 20}, e.net.Dial)
		var reads []*cephtest.OSDRequest
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			if rq.Object.Name == "big" {
				reads = append(reads, rq)
			}
		})
		f := e.flight()
		f.add(t.Context(), obj(1, "w"), appendOp("x"))
		for range maxStrikes + 1 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			var op Op
			op.Read(0, 2<<20)
			if _, err := e.c.Do(ctx, obj(1, "big"), &op); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			synctest.Wait()
			r := reads[len(reads)-1].Refuse(0)
			r.Outs[0] = make([]byte, 2<<20)
			r.Send()
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		if out, ok := f.get(0); ok || e.c.Stats().Lost != maxStrikes+1 {
			t.Errorf("the write ended (%v) with %v; %d connections were lost", ok, out.err, e.c.Stats().Lost)
		}
		e.osds[0].Script(nil)
		e.osds[0].ResetAll()
		time.Sleep(10 * time.Second)
		f.ok()
	})
}

// TestReadsInWritingLists are refused: OSDs answer without the data.
func TestReadsInWritingLists(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		if err := e.c.WriteFull(t.Context(), obj(1, "x"), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func(*Op){
			"read":   func(o *Op) { o.Read(0, 5) },
			"into":   func(o *Op) { o.ReadInto(0, make([]byte, 5)) },
			"sparse": func(o *Op) { o.SparseRead(0, 5) },
		} {
			var op Op
			read(&op)
			op.SetXattr("a", []byte("1"))
			if _, err := e.c.Do(t.Context(), obj(1, "x"), &op); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s: %v", name, err)
			}
		}
		var op Op
		op.Stat() // it must exist
		op.SetXattr("a", []byte("1"))
		if _, err := e.c.Do(t.Context(), obj(1, "x"), &op); err != nil {
			t.Error(err)
		}
	})
}

// TestReadClipped: an OSD that answers with more than was asked for.
func TestReadClipped(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			r := rq.Refuse(0)
			r.Outs[0], r.Outs[1] = []byte("0123456789"), []byte("0123456789")
			r.Send()
		})
		var op Op
		b := make([]byte, 8)
		op.Read(0, 4)
		op.ReadInto(0, b[:4])
		reply, err := e.c.Do(t.Context(), obj(1, "x"), &op)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Release()
		if d := reply.Data(0); string(d) != "0123" || cap(d) != 4 || reply.Results[0].N != 4 {
			t.Errorf("read %q, N %d", d, reply.Results[0].N)
		}
		if string(b) != "0123\x00\x00\x00\x00" || reply.Results[1].N != 4 {
			t.Errorf("read into %q, N %d", b, reply.Results[1].N)
		}
	})
}
