package osd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
)

func TestEveryOperation(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		ctx := t.Context()
		o := Object{Pool: 2, Namespace: "ns", Key: "key", Name: "name"}
		do := func(f func(*Op)) (*Reply, error) {
			t.Helper()
			var op Op
			f(&op)
			return e.c.Do(ctx, o, &op)
		}
		must := func(f func(*Op)) *Reply {
			t.Helper()
			reply, err := do(f)
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		want := func(errno error, f func(*Op)) *Reply {
			t.Helper()
			reply, err := do(f)
			if !errors.Is(err, errno) {
				t.Fatalf("got %v, want %v", err, errno)
			}
			return reply
		}
		want(syscall.ENOENT, func(op *Op) { op.Read(0, 10) })
		want(syscall.ENOENT, func(op *Op) { op.Read(0, 0) })
		must(func(op *Op) { op.Create(true) })
		want(syscall.EEXIST, func(op *Op) { op.Create(true) })
		must(func(op *Op) { op.Create(false) })
		must(func(op *Op) { op.Write(4, []byte("abcd")); op.Append([]byte("ef")) })
		r := must(func(op *Op) { op.Read(2, 100); op.Stat(); op.Read(5, 2); op.Read(100, 5); op.Read(1, 0) })
		if got := string(r.Data(0)); got != "\x00\x00abcdef" {
			t.Errorf("read %q", got)
		}
		if size, _, err := r.Stat(1); size != 10 || err != nil {
			t.Errorf("size %d, %v", size, err)
		}
		if string(r.Data(2)) != "bc" || len(r.Data(3)) != 0 || len(r.Data(4)) != 0 || r.Results[4].N != 0 {
			t.Errorf("reads of parts: %q %q %q", r.Data(2), r.Data(3), r.Data(4))
		}
		r.Release()
		b, v1, v2, v3 := make([]byte, 20), make([]byte, 3), make([]byte, 0), make([]byte, 9)
		r = must(func(op *Op) { op.ReadInto(0, b); op.ReadIntoVec(3, v1, v2, v3) })
		if r.Results[0].N != 10 || !bytes.Equal(b[:10], []byte("\x00\x00\x00\x00abcdef")) {
			t.Errorf("read into: %d %q", r.Results[0].N, b)
		}
		if r.Results[1].N != 7 || string(v1) != "\x00ab" || string(v3[:4]) != "cdef" {
			t.Errorf("read into several: %d %q %q", r.Results[1].N, v1, v3)
		}
		must(func(op *Op) { op.CompareExtent(4, []byte("abc")); op.WriteVec(4, []byte("A"), nil, []byte("BC")) })
		var diff *CompareError
		if _, err := do(func(op *Op) { op.CompareExtent(4, []byte("ABx")); op.Write(0, []byte("no")) }); !errors.As(err, &diff) || diff.Offset != 2 {
			t.Errorf("comparison: %v", err)
		}
		must(func(op *Op) { op.Zero(5, 2); op.Truncate(30) })
		r = must(func(op *Op) { op.SparseRead(0, 64) })
		ext, err := r.Extents(0)
		if err != nil || len(ext) != 1 || ext[0].Offset != 0 || string(ext[0].Data) != "\x00\x00\x00\x00A\x00\x00def\x00\x00\x00\x00\x00\x00" {
			t.Errorf("sparse read: %v %v", ext, err)
		}
		ver := r.Version
		must(func(op *Op) { op.AssertVersion(ver); op.WriteFull([]byte("full")) })
		want(syscall.ERANGE, func(op *Op) { op.AssertVersion(ver); op.WriteFull([]byte("no")) })
		want(syscall.EOVERFLOW, func(op *Op) { op.AssertVersion(ver + 100); op.Stat() })

		must(func(op *Op) { op.SetXattr("a", []byte("1")); op.SetXattr("b", nil) })
		r = must(func(op *Op) { op.GetXattr("a"); op.GetXattrs(); op.CompareXattr("a", []byte("1")) })
		x, err := r.Xattrs(1)
		if string(r.Data(0)) != "1" || err != nil || fmt.Sprintf("%s", x) != "[{a 1} {b }]" {
			t.Errorf("xattrs %q %s %v", r.Data(0), x, err)
		}
		want(syscall.ECANCELED, func(op *Op) { op.CompareXattr("a", []byte("2")); op.Remove() })
		must(func(op *Op) { op.RemoveXattr("a") })
		want(syscall.ENODATA, func(op *Op) { op.GetXattr("a") })

		must(func(op *Op) {
			op.OmapSet(map[string][]byte{"k1": []byte("v1"), "k2": []byte("v2"), "l3": nil})
			op.OmapSetHeader([]byte("head"))
		})
		r = must(func(op *Op) {
			op.OmapKeys("", 2)
			op.OmapVals("k1", "k", 10)
			op.OmapGet("l3", "nope", "k2")
			op.OmapHeader()
		})
		keys, more, err := r.OmapKeys(0)
		if fmt.Sprint(keys, more, err) != "[k1 k2] true <nil>" {
			t.Errorf("omap keys %v %v %v", keys, more, err)
		}
		vals, more, err := r.Omap(1)
		if fmt.Sprintf("%s %v %v", vals, more, err) != "[{k2 v2}] false <nil>" {
			t.Errorf("omap vals %s %v %v", vals, more, err)
		}
		vals, _, err = r.Omap(2)
		if fmt.Sprintf("%s %v", vals, err) != "[{k2 v2} {l3 }] <nil>" || string(r.Data(3)) != "head" {
			t.Errorf("omap get %s %v, header %q", vals, err, r.Data(3))
		}
		must(func(op *Op) { op.OmapRemove("k1", "k9"); op.AllocHint(4<<20, 4096, 1) })
		r = must(func(op *Op) { op.OmapKeys("", 10) })
		if keys, _, _ := r.OmapKeys(0); fmt.Sprint(keys) != "[k2 l3]" {
			t.Errorf("omap keys after a removal %v", keys)
		}
		must(func(op *Op) { op.OmapClear() })
		if size, _, err := e.c.Stat(ctx, o); size != 4 || err != nil {
			t.Errorf("stat %d %v", size, err)
		}
		must(func(op *Op) { op.Remove() })
		if err := e.c.Remove(ctx, o); !IsNotExist(err) {
			t.Errorf("removed twice: %v", err)
		}
		want(syscall.EINVAL, func(*Op) {})
	})
}

// TestWhatIsSent looks at the fields of a message that the store does not.
func TestWhatIsSent(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		o := Object{Pool: 2, Namespace: "n", Name: "obj"}
		op := &Op{
			Snap: SnapContext{Seq: 9, Snaps: []uint64{9, 4}}, Mtime: time.Unix(77, 88),
			Trunc: Trunc{Seq: 3, Size: 500}, OnFull: FullTry,
		}
		op.Write(100, []byte("x"))
		op.Truncate(600)
		if _, err := e.c.Do(t.Context(), o, op); err != nil {
			t.Fatal(err)
		}
		m := e.src.current
		pl := m.Place(2, m.Hash(o))
		rq := e.osds[pl.Primary].Seen()[0]
		seq, size := rq.Ops[0].Trunc()
		if seq != 3 || size != 500 || rq.Ops[0].Offset() != 100 || rq.Ops[0].Length() != 1 {
			t.Errorf("write extent: trunc %d %d, %d+%d", seq, size, rq.Ops[0].Offset(), rq.Ops[0].Length())
		}
		if seq, size = rq.Ops[1].Trunc(); seq != 3 || size != 600 {
			t.Errorf("truncate says %d %d: an OSD asserts that it is the size", seq, size)
		}
		if rq.SnapSeq != 9 || fmt.Sprint(rq.Snaps) != "[9 4]" || rq.SnapID != NoSnap {
			t.Errorf("snapshots %d %v %d", rq.SnapSeq, rq.Snaps, rq.SnapID)
		}
		if rq.MtimeSec != 77 || rq.Nsec != 88 || rq.Epoch != 10 || rq.Attempt != 0 {
			t.Errorf("time %d %d epoch %d attempt %d", rq.MtimeSec, rq.Nsec, rq.Epoch, rq.Attempt)
		}
		if rq.Hash != m.Hash(o) || rq.Seed != pl.PG.Seed || rq.Shard != -1 || rq.Pool != 2 {
			t.Errorf("placement %x in %d.%x s%d", rq.Hash, rq.Pool, rq.Seed, rq.Shard)
		}
		if want := uint32(flagWrite | flagOndisk | flagKnownRedir | flagPoolEIO | flagFullTry); rq.Flags != want {
			t.Errorf("flags %#x, want %#x", rq.Flags, want)
		}
	})
}

// TestResendAfterReset: what was under way is sent again, in order, once.
func TestResendAfterReset(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		f := e.flight()
		var held []*cephtest.OSDRequest
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { held = append(held, rq) })
		for i := range 10 {
			f.add(t.Context(), obj(1, "a"), appendOp(fmt.Sprint(i)))
		}
		synctest.Wait()
		// Four are done, and one is answered; the connection breaks.
		for _, rq := range held[:4] {
			if r := rq.Do(); rq.Tid%clientTids == 1 {
				r.Send()
			}
		}
		synctest.Wait()
		e.osds[0].Script(nil)
		held[0].Stream.Reset()
		synctest.Wait()
		f.ok()
		if got, _ := e.objs.Data(id(obj(1, "a"))); string(got) != "0123456789" {
			t.Errorf("object is %q", got)
		}
		want := "1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 "
		if got := tids(e.osds[0], "a"); got != want {
			t.Errorf("seen %s, want %s", got, want)
		}
		for _, rq := range e.osds[0].Seen()[10:] {
			if rq.Flags&flagRetry == 0 {
				t.Errorf("%d is not marked as a retry", rq.Tid)
			}
		}
	})
}

// TestMove: a map moves a placement group; everything follows in order, new
// requests do not overtake, and the old primary's answers do not count.
func TestMove(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		f := e.flight()
		var held []*cephtest.OSDRequest
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { held = append(held, rq) })
		for i := range 5 {
			f.add(t.Context(), obj(1, "a"), appendOp(fmt.Sprint(i)))
		}
		synctest.Wait()
		late := held[1].Refuse(-int32(syscall.EPERM))
		e.src.change(func(m *fakeMap) {
			p := m.pools[1]
			p.acting = func(uint32) []int32 { return []int32{1, 2} }
			m.pools[1] = p
		})
		f.add(t.Context(), obj(1, "a"), appendOp("5"))
		late.Send()
		synctest.Wait()
		f.ok()
		if got := tids(e.osds[1], "a"); got != "1:1 2:1 3:1 4:1 5:1 6:0 " {
			t.Errorf("new primary saw %s", got)
		}
		if got, _ := e.objs.Data(id(obj(1, "a"))); string(got) != "012345" {
			t.Errorf("object is %q", got)
		}
		if s := e.c.Stats(); s.Stale+s.Stray == 0 {
			t.Error("the late answer was not noticed")
		}
	})
}

// TestMoveAwayAndBack: nothing that went to the same OSD in the end was left
// there from before.
func TestMoveAwayAndBack(t *testing.T) {
	for _, skip := range []bool{false, true} {
		t.Run(fmt.Sprintf("skip=%v", skip), func(t *testing.T) {
			run(t, nil, func(t *testing.T, e *env) {
				f := e.flight()
				e.osds[0].Script(func(*cephtest.OSDRequest) {})
				f.add(t.Context(), obj(1, "a"), appendOp("x"))
				synctest.Wait()
				e.osds[0].Script(nil)
				e.osds[1].Script(func(*cephtest.OSDRequest) {})
				if skip { // two epochs at once: nobody knows what happened
					m := e.src.current.next(nil).next(nil)
					e.src.push(m)
				} else {
					back := e.src.current.pools[1]
					e.src.change(func(m *fakeMap) {
						p := m.pools[1]
						p.acting = func(uint32) []int32 { return []int32{1} }
						m.pools[1] = p
					})
					e.src.change(func(m *fakeMap) { m.pools[1] = back })
				}
				synctest.Wait()
				f.ok()
			})
		})
	}
}

// TestSplitAndForcedResend: a changed number of placement groups, and an epoch
// at which the monitors want everything again.
func TestSplitAndForcedResend(t *testing.T) {
	for _, what := range []string{"split", "force"} {
		t.Run(what, func(t *testing.T) {
			run(t, nil, func(t *testing.T, e *env) {
				f := e.flight()
				e.osds[0].Script(func(*cephtest.OSDRequest) {})
				// One that stays where it is in the split.
				name := "a"
				for stableMod(e.src.current.Hash(obj(1, name)), 16) >= 8 {
					name += "a"
				}
				for i := range 3 {
					f.add(t.Context(), obj(1, name), appendOp(fmt.Sprint(i)))
				}
				synctest.Wait()
				e.src.change(nil)
				synctest.Wait()
				if n := len(e.osds[0].Seen()); n != 3 {
					t.Errorf("%d requests after a map that changed nothing", n)
				}
				e.osds[0].Script(nil)
				e.src.change(func(m *fakeMap) {
					p := m.pools[1]
					if what == "split" {
						p.PGs = 16
					} else {
						p.ForceResend = m.epoch
					}
					m.pools[1] = p
				})
				synctest.Wait()
				f.ok()
				if got := tids(e.osds[0], name); got != "1:0 2:0 3:0 1:1 2:1 3:1 " {
					t.Errorf("seen %s", got)
				}
			})
		})
	}
}

// TestStaleAttempt: only the answer to the last try counts.
func TestStaleAttempt(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		f := e.flight()
		var first *cephtest.OSDRequest
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			if first == nil {
				first = rq
				rq.Stream.Reset()
				return
			}
			stale := rq.Refuse(-int32(syscall.EIO))
			stale.Attempt = 0
			stale.Send()
			rq.Answer()
		})
		f.add(t.Context(), obj(1, "a"), appendOp("x"))
		synctest.Wait()
		f.ok()
		if s := e.c.Stats(); s.Stale != 1 {
			t.Errorf("%d stale answers, want 1", s.Stale)
		}
	})
}

// TestBackoff: an OSD holds a range; what is in it waits, in order, and nothing
// else does.
func TestBackoff(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		f := e.flight()
		o := e.osds[0]
		hash := e.src.current.Hash(obj(1, "a"))
		at := cephtest.OSDPosition{Object: id(obj(1, "a")), Hash: hash}
		rng := cephtest.OSDRange{Pool: 1, Seed: stableMod(hash, 8), Shard: -1, Begin: at, End: at}
		var got []string
		o.Script(func(rq *cephtest.OSDRequest) {
			got = append(got, rq.Object.Name)
			if len(got) == 1 {
				o.Block(rq.Stream, 7, rng)
				return
			}
			rq.Answer()
		})
		f.add(t.Context(), obj(1, "a"), appendOp("0"))
		synctest.Wait()
		f.add(t.Context(), obj(1, "a"), appendOp("1"))
		f.add(t.Context(), obj(1, "b"), appendOp("b"))
		cancelled, cancel := context.WithCancel(t.Context())
		dead := f.add(cancelled, obj(1, "a"), appendOp("never"))
		f.add(t.Context(), obj(1, "a"), appendOp("2"))
		synctest.Wait()
		if f.left() != 4 || len(got) != 2 || fmt.Sprint(o.Acks()) != "[7]" {
			t.Errorf("while blocked: %d left, %v sent, acknowledged %v", f.left(), got, o.Acks())
		}
		cancel()
		synctest.Wait()
		if out, _ := f.get(dead); !errors.Is(out.err, context.Canceled) {
			t.Errorf("cancelled: %v", out.err)
		}
		o.Unblock(o.Live()[0], 8, rng) // no such one
		synctest.Wait()
		part := rng
		part.End = cephtest.OSDPosition{Object: cephtest.ObjectID{Pool: 1}}
		o.Unblock(o.Live()[0], 7, part) // what counts is what it held
		synctest.Wait()
		if data, _ := e.objs.Data(id(obj(1, "a"))); string(data) != "012" || f.left() != 0 {
			t.Errorf("object is %q, %d left", data, f.left())
		}
		if s := tids(o, "a"); s != "1:0 1:1 2:0 5:0 " {
			t.Errorf("seen %s", s)
		}
	})
}

// TestBackoffEndsWithConnection: a new connection knows nothing of it.
func TestBackoffEndsWithConnection(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		f := e.flight()
		o := e.osds[0]
		begin := cephtest.OSDPosition{Object: cephtest.ObjectID{Pool: 1}}
		rng := cephtest.OSDRange{Pool: 1, Seed: stableMod(e.src.current.Hash(obj(1, "a")), 8), Shard: -1,
			Begin: begin, End: cephtest.OSDPosition{Max: true}}
		o.Script(func(rq *cephtest.OSDRequest) { o.Block(rq.Stream, 1, rng) })
		f.add(t.Context(), obj(1, "a"), appendOp("x"))
		synctest.Wait()
		o.Script(nil)
		if f.left() != 1 {
			t.Fatal("not blocked")
		}
		o.ResetAll()
		synctest.Wait()
		f.ok()
	})
}

func setFull(m *fakeMap, full, quota bool) {
	p := m.pools[1]
	p.Full, p.QuotaFull = full, quota
	m.pools[1] = p
}

func TestFull(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		ctx := t.Context()
		f := e.flight()
		// One that the OSD has when the pool fills up, and drops.
		e.osds[0].Script(func(*cephtest.OSDRequest) {})
		waits := f.add(ctx, obj(1, "w"), appendOp("w"))
		failing := appendOp("f")
		failing.OnFull = FullFail
		fails := f.add(ctx, obj(1, "f"), failing)
		synctest.Wait()
		e.osds[0].Script(nil)
		e.src.change(func(m *fakeMap) { setFull(m, true, true) })
		synctest.Wait()
		if out, ok := f.get(fails); !ok || !errors.Is(out.err, ErrQuota) || !errors.Is(out.err, syscall.EDQUOT) {
			t.Errorf("failing write: %v %v", out.err, ok)
		}
		// New ones.
		op := appendOp("x")
		op.OnFull = FullFail
		if _, err := e.c.Do(ctx, obj(1, "f"), op); !errors.Is(err, syscall.EDQUOT) {
			t.Errorf("new failing write: %v", err)
		}
		e.src.change(func(m *fakeMap) { setFull(m, true, false) })
		if _, err := e.c.Do(ctx, obj(1, "f"), op); !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("new failing write: %v", err)
		}
		e.src.change(func(m *fakeMap) { setFull(m, false, false); m.flags.Full = true })
		if _, err := e.c.Do(ctx, obj(1, "f"), op); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("new failing write in a full cluster: %v", err)
		}
		op = &Op{OnFull: FullTry}
		op.Create(false)
		if _, err := e.c.Do(ctx, obj(1, "t"), op); err != nil {
			t.Errorf("trying write: %v", err)
		}
		if _, err := e.c.Read(ctx, obj(1, "t"), 0, make([]byte, 1)); err != nil {
			t.Errorf("read: %v", err)
		}
		// A write that waits holds a read of the same object, and only that.
		readBehind := &Op{}
		readBehind.Read(0, 10)
		behind := f.add(ctx, obj(1, "w"), readBehind)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := e.c.Write(short, obj(1, "z"), 0, []byte("z")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("write that waited for a second: %v", err)
		}
		if _, ok := f.get(waits); ok {
			t.Error("the waiting write was done")
		}
		if _, ok := f.get(behind); ok {
			t.Error("a read overtook the waiting write")
		}
		e.src.change(func(m *fakeMap) { m.flags.Full = false })
		synctest.Wait()
		if out, ok := f.get(behind); !ok || out.err != nil || string(out.reply.Data(0)) != "w" {
			t.Errorf("read behind the waiting write: %v %v", out, ok)
		}
	})
}

func TestPaused(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		ctx := t.Context()
		if err := e.c.WriteFull(ctx, obj(1, "a"), []byte("a")); err != nil {
			t.Fatal(err)
		}
		e.src.change(func(m *fakeMap) { m.flags.PauseRead = true })
		f := e.flight()
		rd := &Op{}
		rd.Read(0, 1)
		f.add(ctx, obj(1, "a"), rd)
		f.add(ctx, obj(1, "b"), appendOp("b"))
		synctest.Wait()
		if f.left() != 1 {
			t.Errorf("%d left with reads paused, want the read", f.left())
		}
		e.src.change(func(m *fakeMap) { m.flags = MapFlags{PauseWrite: true} })
		f.add(ctx, obj(1, "b"), appendOp("b"))
		synctest.Wait()
		if f.left() != 1 {
			t.Errorf("%d left with writes paused, want the write", f.left())
		}
		if e.src.wanted <= e.src.current.epoch {
			t.Error("the next map was not asked for")
		}
		e.src.change(func(m *fakeMap) { m.flags = MapFlags{} })
		synctest.Wait()
		f.ok()
	})
}

// TestPausedInFlight: what was sent behind an operation that a map pauses is
// sent again behind it, for the OSD dropped both.
func TestPausedInFlight(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.osds[0].Script(func(*cephtest.OSDRequest) {})
		f := e.flight()
		f.add(t.Context(), obj(1, "a"), appendOp("a"))
		rd := &Op{}
		rd.Read(0, 10)
		behind := f.add(t.Context(), obj(1, "a"), rd)
		synctest.Wait()
		e.src.change(func(m *fakeMap) { m.flags.PauseWrite = true })
		synctest.Wait()
		e.osds[0].Script(nil)
		e.src.change(func(m *fakeMap) { m.flags.PauseWrite = false })
		synctest.Wait()
		f.ok()
		if out, ok := f.get(behind); ok && out.err == nil && string(out.reply.Data(0)) != "a" {
			t.Errorf("read %q behind the write", out.reply.Data(0))
		}
		if got := tids(e.osds[0], "a"); got != "1:0 2:0 1:1 2:1 " {
			t.Errorf("seen %s", got)
		}
	})
}

func TestBarrier(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.c.SetBarrier(12)
		e.c.SetBarrier(11)
		f := e.flight()
		f.add(t.Context(), obj(1, "a"), appendOp("a"))
		waited := make(chan error, 1)
		go func() { waited <- e.c.WaitEpoch(t.Context(), 12) }()
		synctest.Wait()
		if f.left() != 1 || e.src.wanted < 12 || e.c.Barrier() != 12 || len(waited) != 0 {
			t.Errorf("%d left, epoch %d wanted, barrier %d", f.left(), e.src.wanted, e.c.Barrier())
		}
		e.src.change(nil)
		synctest.Wait()
		if f.left() != 1 {
			t.Error("done before the barrier")
		}
		e.src.change(nil)
		synctest.Wait()
		f.ok()
		if err := <-waited; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { waited <- e.c.WaitEpoch(ctx, 99) }()
		synctest.Wait()
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestBlocklisted(t *testing.T) {
	run(t, func(o *Options) { o.MaxOps, o.MaxOpsPerOSD = 4, 4 }, func(t *testing.T, e *env) {
		e.osds[0].Script(func(*cephtest.OSDRequest) {})
		f := e.flight()
		for range 4 {
			f.add(t.Context(), obj(1, "a"), appendOp("a"))
		}
		go f.add(t.Context(), obj(1, "a"), appendOp("waits for room"))
		synctest.Wait()
		e.src.change(func(m *fakeMap) { m.blocked = []denc.Addr{{Type: denc.AddrAny, Nonce: e.msgr.Addr().Nonce}} })
		synctest.Wait()
		for i := range 5 {
			out, ok := f.get(i)
			var typed *Error
			if !ok || !errors.Is(out.err, ErrBlocklisted) || !errors.As(out.err, &typed) || !errors.Is(out.err, syscall.ESHUTDOWN) {
				t.Errorf("operation %d: %v %v", i, ok, out.err)
			}
		}
		// For good, even if the entry goes.
		e.src.change(func(m *fakeMap) { m.blocked = nil })
		if err := e.c.Write(t.Context(), obj(1, "b"), 0, []byte("b")); !errors.Is(err, ErrBlocklisted) {
			t.Errorf("later: %v", err)
		}
		if err := e.c.WaitEpoch(t.Context(), 99); !errors.Is(err, ErrBlocklisted) {
			t.Errorf("wait for a map: %v", err)
		}
		if n := len(e.osds[0].Live()); n != 0 {
			t.Errorf("%d connections live", n)
		}
	})
}

// TestBlocklistedReply: an OSD may know before the client does.
func TestBlocklistedReply(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			r := rq.Refuse(-108)
			r.Epoch = 20
			r.Send()
		})
		if err := e.c.Write(t.Context(), obj(1, "b"), 0, []byte("b")); !errors.Is(err, ErrBlocklisted) {
			t.Error(err)
		}
		if e.src.wanted < 20 {
			t.Errorf("epoch %d wanted", e.src.wanted)
		}
	})
}

func TestPools(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		ctx := t.Context()
		// Never was.
		if err := e.c.Write(ctx, obj(9, "a"), 0, []byte("a")); !errors.Is(err, ErrNoPool) || !errors.Is(err, syscall.ENOENT) || IsNotExist(err) {
			t.Errorf("no pool: %v", err)
		}
		// Too new for the map.
		e.src.latest = func(context.Context) (uint32, error) { return 12, nil }
		f := e.flight()
		f.add(ctx, obj(9, "a"), appendOp("a"))
		synctest.Wait()
		e.src.change(nil)
		synctest.Wait()
		if f.left() != 1 || e.src.wanted < 12 {
			t.Errorf("%d left, epoch %d wanted", f.left(), e.src.wanted)
		}
		e.src.change(func(m *fakeMap) { m.pools[9] = m.pools[1] })
		synctest.Wait()
		f.ok()
		// Removed with something under way.
		e.osds[0].Script(func(*cephtest.OSDRequest) {})
		f = e.flight()
		f.add(ctx, obj(9, "a"), appendOp("a"))
		synctest.Wait()
		e.src.change(func(m *fakeMap) { delete(m.pools, 9) })
		synctest.Wait()
		if out, ok := f.get(0); !ok || !errors.Is(out.err, ErrNoPool) {
			t.Errorf("removed pool: %v %v", ok, out.err)
		}
		// Monitors out of reach, then not.
		e.osds[0].Script(nil)
		n := 0
		e.src.latest = func(context.Context) (uint32, error) {
			if n++; n < 3 {
				return 0, errors.New("no monitor")
			}
			return 1, nil
		}
		if err := e.c.Write(ctx, obj(9, "a"), 0, []byte("a")); !errors.Is(err, ErrNoPool) {
			t.Errorf("no pool: %v", err)
		}
		// And never, while the client is closed.
		e.src.latest = func(ctx context.Context) (uint32, error) { <-ctx.Done(); return 0, ctx.Err() }
		f = e.flight()
		f.add(ctx, obj(9, "a"), appendOp("a"))
		synctest.Wait()
		// The flag that fails everything.
		e.src.change(func(m *fakeMap) { p := m.pools[2]; p.EIO = true; m.pools[2] = p })
		if err := e.c.Write(ctx, obj(2, "a"), 0, []byte("a")); !errors.Is(err, ErrPoolEIO) || !errors.Is(err, syscall.EIO) {
			t.Errorf("eio: %v", err)
		}
	})
}

// TestHomeless: no OSD has the placement group, or the one that has it is down
// or not to be reached.
func TestHomeless(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		f := e.flight()
		with := e.src.current.pools[1]
		e.src.change(func(m *fakeMap) {
			p := m.pools[1]
			p.acting = func(uint32) []int32 { return nil }
			m.pools[1] = p
		})
		for i := range 3 {
			f.add(t.Context(), obj(1, "a"), appendOp(fmt.Sprint(i)))
		}
		e.src.change(func(m *fakeMap) { m.pools[1] = with; delete(m.addrs, 0) })
		synctest.Wait()
		e.osds[0].Close()
		e.src.change(func(m *fakeMap) { m.addrs[0] = addrOf(0, 6800) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.left() != 3 {
			t.Fatalf("%d left", f.left())
		}
		if n := e.net.Dials(); n < 5 || n > 30 {
			t.Errorf("%d attempts to connect in a minute", n)
		}
		e.osds[0] = e.net.NewOSD(0, addrOf(0, 6900), e.objs, nil)
		e.src.change(func(m *fakeMap) { m.addrs[0] = addrOf(0, 6900) })
		synctest.Wait()
		f.ok()
		if got, _ := e.objs.Data(id(obj(1, "a"))); string(got) != "012" {
			t.Errorf("object is %q", got)
		}
	})
}

// TestRestart: an OSD comes back at another address without having been seen
// down.
func TestRestart(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		f := e.flight()
		e.osds[0].Script(func(*cephtest.OSDRequest) {})
		f.add(t.Context(), obj(1, "a"), appendOp("a"))
		synctest.Wait()
		n := e.net.NewOSD(0, addrOf(0, 7000), e.objs, nil)
		defer n.Close()
		e.src.change(func(m *fakeMap) { m.addrs[0] = addrOf(0, 7000) })
		synctest.Wait()
		f.ok()
		if len(e.osds[0].Live()) != 0 {
			t.Error("the old connection lives")
		}
	})
}

func TestNoMapYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		e.c.Close()
		m := e.src.current
		e.src.current = nil
		e.c = New(Options{Messenger: e.msgr, Maps: e.src})
		f := e.flight()
		f.add(t.Context(), obj(1, "a"), appendOp("a"))
		synctest.Wait()
		if f.left() != 1 || e.src.wanted == 0 || e.c.Epoch() != 0 {
			t.Errorf("%d left, epoch %d wanted", f.left(), e.src.wanted)
		}
		e.src.push(m)
		synctest.Wait()
		f.ok()
		e.close()
	})
}

func TestCancel(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		var held []*cephtest.OSDRequest
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { held = append(held, rq) })
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("not wanted any more")
		buf := bytes.Repeat([]byte("."), 10)
		ended := make(chan error, 2)
		go func() {
			_, err := e.c.Read(ctx, obj(1, "a"), 0, buf)
			ended <- err
		}()
		var released sync.WaitGroup
		released.Add(1)
		w := appendOp("data")
		w.Released = released.Done
		f := e.flight()
		f.add(ctx, obj(1, "a"), w)
		synctest.Wait()
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("read ended with %v", err)
		}
		synctest.Wait()
		if out, ok := f.get(0); !ok || !errors.Is(out.err, why) {
			t.Errorf("write ended with %v %v", out.err, ok)
		}
		released.Wait()
		for _, rq := range held {
			r := rq.Do()
			r.Result, r.Codes[0] = 0, 0
			r.Outs[0] = []byte("too late")
			r.Send()
		}
		synctest.Wait()
		if string(buf) != ".........." {
			t.Errorf("buffer was written to: %q", buf)
		}
		if s := e.c.Stats(); s.Stray != 2 || s.Cancelled != 2 {
			t.Errorf("stats %+v", s)
		}
		// Already over.
		if err := e.c.Write(ctx, obj(1, "a"), 0, nil); !errors.Is(err, why) {
			t.Errorf("write with an ended context: %v", err)
		}
	})
}

func TestRedirect(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		to := cephtest.ObjectID{Pool: 2, Key: "k", Name: "there"}
		redirect := func(rq *cephtest.OSDRequest) {
			if rq.Flags&flagRedirected != 0 {
				rq.Answer()
				return
			}
			r := rq.Refuse(0)
			r.Redirect = &to
			r.Send()
		}
		for _, o := range e.osds {
			o.Script(redirect)
		}
		if err := e.c.WriteFull(t.Context(), obj(1, "here"), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got, ok := e.objs.Data(to); !ok || string(got) != "x" {
			t.Errorf("redirected object is %q", got)
		}
		// For ever.
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			r := rq.Refuse(0)
			r.Redirect = &cephtest.ObjectID{Pool: 1, Name: "a"}
			r.Send()
		})
		if err := e.c.WriteFull(t.Context(), obj(1, "a"), []byte("x")); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("redirected for ever: %v", err)
		}
	})
}

func TestTier(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.src.change(func(m *fakeMap) { p := m.pools[1]; p.ReadTier, p.WriteTier = 2, 2; m.pools[1] = p })
		if err := e.c.WriteFull(t.Context(), obj(1, "a"), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, ok := e.objs.Data(id(obj(2, "a"))); !ok {
			t.Error("the write did not go to the cache pool")
		}
		b := make([]byte, 4)
		if n, err := e.c.Read(t.Context(), obj(1, "a"), 0, b); n != 1 || err != nil {
			t.Errorf("read %d %v", n, err)
		}
	})
}

func TestReplicaReads(t *testing.T) {
	run(t, func(o *Options) { o.Distance = func(osd int32) int { return int(2 - osd) } }, func(t *testing.T, e *env) {
		ctx := t.Context()
		if err := e.c.WriteFull(ctx, obj(1, "a"), []byte("x")); err != nil {
			t.Fatal(err)
		}
		refuse := true
		e.osds[2].Script(func(rq *cephtest.OSDRequest) {
			if refuse {
				rq.Refuse(-int32(syscall.EAGAIN)).Send()
				return
			}
			rq.Answer()
		})
		read := func(r Replica) *Op {
			op := &Op{Replica: r}
			op.Read(0, 1)
			return op
		}
		if _, err := e.c.Do(ctx, obj(1, "a"), read(ReplicaNear)); err != nil {
			t.Error(err)
		}
		seen := e.osds[0].Seen()
		last := seen[len(seen)-1]
		if len(e.osds[2].Seen()) != 1 || last.Attempt != 1 || last.Flags&(flagLocalReads|flagBalanceReads) != 0 {
			t.Errorf("after EAGAIN: attempt %d, flags %#x", last.Attempt, last.Flags)
		}
		refuse = false
		if _, err := e.c.Do(ctx, obj(1, "a"), read(ReplicaNear)); err != nil {
			t.Error(err)
		}
		if rq := e.osds[2].Seen()[1]; rq.Flags&flagLocalReads == 0 {
			t.Errorf("flags %#x", rq.Flags)
		}
		for range 80 {
			if _, err := e.c.Do(ctx, obj(1, "a"), read(ReplicaAny)); err != nil {
				t.Error(err)
			}
		}
		for i, o := range e.osds {
			if len(o.Seen()) < 3 {
				t.Errorf("osd.%d served %d", i, len(o.Seen()))
			}
		}
		// Behind a write of its own only the primary will do.
		var held []*cephtest.OSDRequest
		e.osds[0].Script(func(rq *cephtest.OSDRequest) { held = append(held, rq) })
		n := len(e.osds[2].Seen())
		f := e.flight()
		f.add(ctx, obj(1, "a"), appendOp("y"))
		f.add(ctx, obj(1, "a"), read(ReplicaNear))
		synctest.Wait()
		if len(held) != 2 || len(e.osds[2].Seen()) != n {
			t.Error("a read overtook a write on a replica")
		}
	})
}

func TestBadReplies(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		for v := uint16(4); v <= 10; v++ {
			e.osds[0].Script(func(rq *cephtest.OSDRequest) {
				r := rq.Do()
				r.MsgVersion = v
				r.Send()
			})
			if err := e.c.WriteFull(t.Context(), obj(1, "a"), []byte("x")); err != nil {
				t.Errorf("version %d: %v", v, err)
			}
		}
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			r := rq.Do()
			r.Nonsense = true
			r.Send()
		})
		err := e.c.WriteFull(t.Context(), obj(1, "a"), []byte("x"))
		var d *denc.Error
		if !errors.Is(err, ErrReply) || !errors.As(err, &d) || !strings.Contains(err.Error(), "1/a") {
			t.Errorf("nonsense: %v", err)
		}
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			r := rq.Do()
			r.Outs, r.Codes = nil, nil
			r.Send()
		})
		if err := e.c.WriteFull(t.Context(), obj(1, "a"), []byte("x")); !errors.Is(err, ErrReply) {
			t.Errorf("a reply without results: %v", err)
		}
	})
}

func TestClose(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.osds[0].Script(func(*cephtest.OSDRequest) {})
		f := e.flight()
		f.add(t.Context(), obj(1, "a"), appendOp("x"))
		flushed := make(chan error, 1)
		go func() { flushed <- e.c.Flush(t.Context()) }()
		synctest.Wait()
		if len(flushed) != 0 {
			t.Error("flushed with something under way")
		}
		e.c.Close()
		if out, ok := f.get(0); !ok || !errors.Is(out.err, ErrClosed) {
			t.Errorf("outstanding: %v %v", out.err, ok)
		}
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		if err := e.c.Write(t.Context(), obj(1, "a"), 0, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("later: %v", err)
		}
	})
}
