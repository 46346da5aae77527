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
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/msgr"
)

// tap is the client's end of a connection: it stops reading where a test says,
// and damages what it reads there.
type tap struct {
	net.Conn
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	change chan struct{} // closed at each change
	left   int           // bytes that may be read; negative: all
	flip   int           // bytes before the one to damage; negative: none
}

func (c *tap) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		if c.left != 0 {
			if c.left > 0 {
				p = p[:min(len(p), c.left)]
			}
			c.mu.Unlock()
			break
		}
		change := c.change
		c.mu.Unlock()
		select {
		case <-change:
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		c.left = max(0, c.left-n)
	}
	if c.flip >= 0 {
		if c.flip < n {
			p[c.flip] ^= 0x11
		}
		c.flip -= n
	}
	return n, err
}

func (c *tap) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// set says what becomes of the bytes that come from now on.
func (c *tap) set(left, flip int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.flip = left, flip
	close(c.change)
	c.change = make(chan struct{})
}

// taps are the newest connections to each OSD.
type taps struct {
	mu sync.Mutex
	m  map[netip.Addr]*tap
}

func (t *taps) to(osd int32) *tap {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[addrOf(osd, 6800)[0].Host.Addr()]
}

// tapped has all connections tapped.
func (e *env) tapped() *taps {
	t := &taps{m: map[netip.Addr]*tap{}}
	e.redial(msgr.Options{}, func(ctx context.Context, p netip.AddrPort) (net.Conn, error) {
		nc, err := e.net.Dial(ctx, p)
		if err != nil {
			return nil, err
		}
		c := &tap{Conn: nc, closed: make(chan struct{}), change: make(chan struct{}), left: -1, flip: -1}
		t.mu.Lock()
		t.m[p.Addr()] = c
		t.mu.Unlock()
		return c, nil
	})
	return t
}

// noise is n bytes, none of them 0 or 0xff.
func noise(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 9))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + rng.IntN(254))
	}
	return b
}

const placedLen = 256 << 10

// have makes the object x, whose data it returns.
func (e *env) have(t *testing.T) []byte {
	data := noise(placedLen, 1)
	if err := e.c.WriteFull(t.Context(), obj(1, "x"), data); err != nil {
		t.Fatal(err)
	}
	return data
}

// pending reads x in the background.
func (e *env) pending(ctx context.Context, buf []byte) chan error {
	ended := make(chan error, 1)
	go func() {
		n, err := e.c.Read(ctx, obj(1, "x"), 0, buf)
		if err == nil && n != len(buf) {
			err = fmt.Errorf("%d bytes of %d", n, len(buf))
		}
		ended <- err
	}()
	synctest.Wait()
	return ended
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

func all(b []byte, c byte) bool { return bytes.Count(b, []byte{c}) == len(b) }

// TestPlaced: the data of an answer come where they are wanted, while they come.
func TestPlaced(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		taps := e.tapped()
		data := e.have(t)
		buf := make([]byte, placedLen)
		taps.to(0).set(placedLen/2, -1)
		ended := e.pending(t.Context(), buf)
		n := 0
		for n < len(buf) && buf[n] != 0 {
			n++
		}
		if n < placedLen/2-1024 || n > placedLen/2 || !bytes.Equal(buf[:n], data[:n]) {
			t.Errorf("in the middle of the answer the buffer has %d bytes", n)
		}
		taps.to(0).set(-1, -1)
		if err := <-ended; err != nil || !bytes.Equal(buf, data) {
			t.Errorf("read: %v", err)
		}
		if s := e.c.Stats(); s.Placed != 1 {
			t.Errorf("%d answers were placed", s.Placed)
		}
	})
}

// TestPlacedSecure: what is encrypted comes by storage of the messenger.
func TestPlacedSecure(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		e.c.Close()
		e.msgr.Close()
		e.msgr = msgr.New(msgr.Options{
			Auth: &cephtest.StaticAuth{Mode: msgr.ModeSecure}, Logger: slog.New(slog.DiscardHandler), Dial: e.net.Dial,
		})
		e.c = New(Options{Messenger: e.msgr, Maps: e.src})
		e.osds[0].Close()
		e.osds[0] = e.net.NewOSD(0, addrOf(0, 6800), e.objs, func(cfg *cephtest.Config) {
			cfg.Auth = &cephtest.StaticAuth{Mode: msgr.ModeSecure}
		})
		data := e.have(t)
		buf := make([]byte, placedLen)
		if err := <-e.pending(t.Context(), buf); err != nil || !bytes.Equal(buf, data) {
			t.Errorf("read: %v", err)
		}
		if s := e.c.Stats(); s.Placed != 0 {
			t.Errorf("%d answers were placed", s.Placed)
		}
	})
}

// TestPlacedLists does lists of reads of all kinds, whose results are those of
// the object, and touches nothing around the buffers.
func TestPlacedLists(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		data := e.have(t)
		rng := rand.New(rand.NewPCG(3, 4))
		for round := range 100 {
			var op Op
			var checks []func(*Reply) bool
			for range 1 + rng.IntN(4) {
				off, n := rng.IntN(placedLen+1000), rng.IntN(40000)
				if rng.IntN(8) == 0 {
					n = 0
				}
				want := data[min(off, placedLen):min(off+n, placedLen)]
				store := make([]byte, n+64)
				fill(store, 0xff)
				buf := store[32 : 32+n]
				around := func() bool { return all(store[:32], 0xff) && all(store[32+n:], 0xff) }
				var i int
				switch rng.IntN(6) {
				case 0, 1:
					i = op.ReadInto(uint64(off), buf)
				case 2:
					var vec [][]byte
					for rest := buf; ; {
						k := rng.IntN(len(rest) + 1)
						vec, rest = append(vec, rest[:k]), rest[k:]
						if len(rest) == 0 {
							break
						}
					}
					i = op.ReadIntoVec(uint64(off), vec...)
				case 3:
					i = op.Read(uint64(off), n)
					checks = append(checks, func(r *Reply) bool { return n == 0 || bytes.Equal(r.Data(i), want) })
					continue
				case 4:
					i = op.SparseRead(uint64(off), n)
					checks = append(checks, func(r *Reply) bool {
						ext, err := r.Extents(i)
						var got []byte
						for _, x := range ext {
							got = append(got, x.Data...)
						}
						return n == 0 || err == nil && bytes.Equal(got, want)
					})
					continue
				case 5:
					i = op.Stat()
					checks = append(checks, func(r *Reply) bool {
						size, _, err := r.Stat(i)
						return err == nil && size == placedLen
					})
					continue
				}
				checks = append(checks, func(r *Reply) bool {
					res := r.Results[i]
					return res.N == len(want) && res.Data == nil && bytes.Equal(buf[:res.N], want) && around()
				})
			}
			reply, err := e.c.Do(t.Context(), obj(1, "x"), &op)
			if err != nil {
				t.Fatal(err)
			}
			for i, ok := range checks {
				if !ok(reply) {
					t.Errorf("round %d, operation %d of %d: wrong result", round, i, len(checks))
				}
			}
			reply.Release()
		}
		if s := e.c.Stats(); s.Placed < 30 {
			t.Errorf("only %d answers were placed", s.Placed)
		}
	})
}

// TestPlacedEnds: whatever ends an operation while its answer comes, it is over
// soon, and then nobody writes its buffer any more.
func TestPlacedEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end func(*env)
		err error
	}{
		"context": {nil, context.DeadlineExceeded},
		"close":   {func(e *env) { e.c.Close() }, ErrClosed},
		"blocklist": {func(e *env) {
			e.src.change(func(m *fakeMap) { m.blocked = append(m.blocked, e.msgr.Addr()) })
		}, ErrBlocklisted},
		"pool": {func(e *env) { e.src.change(func(m *fakeMap) { delete(m.pools, 1) }) }, ErrNoPool},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(t *testing.T, e *env) {
				taps := e.tapped()
				e.have(t)
				buf := make([]byte, placedLen)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				old := taps.to(0)
				old.set(placedLen/2, -1)
				begin := time.Now()
				ended := e.pending(ctx, buf)
				if all(buf, 0) {
					t.Error("nothing came yet")
				}
				want := time.Second
				if tc.end != nil {
					tc.end(e)
					want = 0
				}
				if err := <-ended; !errors.Is(err, tc.err) || time.Since(begin) != want {
					t.Errorf("ended after %v with %v", time.Since(begin), err)
				}
				fill(buf, 0xff)
				old.set(-1, -1)
				time.Sleep(10 * time.Second)
				if !all(buf, 0xff) {
					t.Error("the buffer was written after the end")
				}
				if tc.end == nil {
					if err := <-e.pending(t.Context(), buf); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestPlacedThenSentAgain: while one OSD's answer is half read another becomes
// the primary. Its answer counts, whichever of the two is whole first.
func TestPlacedThenSentAgain(t *testing.T) {
	for _, oldFirst := range []bool{false, true} {
		for _, size := range []int{placedLen, 1} { // the other's answer is placed, or too small for that
			run(t, nil, func(t *testing.T, e *env) {
				taps := e.tapped()
				e.have(t)
				other := noise(size, 2)
				held := make(chan *cephtest.OSDRequest, 1)
				e.osds[1].Script(func(rq *cephtest.OSDRequest) { held <- rq })
				buf := make([]byte, placedLen)
				taps.to(0).set(placedLen/2, -1)
				ended := make(chan error, 1)
				go func() {
					n, err := e.c.Read(t.Context(), obj(1, "x"), 0, buf)
					if n != size {
						t.Errorf("read %d bytes", n)
					}
					ended <- err
				}()
				synctest.Wait()
				old := taps.to(0)
				e.src.change(func(m *fakeMap) {
					p := m.pools[1]
					p.acting = func(uint32) []int32 { return []int32{1, 0, 2} }
					m.pools[1] = p
				})
				synctest.Wait()
				answer := (<-held).Refuse(0)
				answer.Outs[0] = other
				if oldFirst {
					old.set(-1, -1)
					synctest.Wait()
				}
				answer.Send()
				if err := <-ended; err != nil || !bytes.Equal(buf[:size], other) {
					t.Errorf("read: %v", err)
				}
				fill(buf, 0xff)
				old.set(-1, -1)
				time.Sleep(10 * time.Second)
				if !all(buf, 0xff) {
					t.Error("the buffer was written after the end")
				}
				want, lost := uint64(1), uint64(1)
				if oldFirst {
					lost = 0
					if size == placedLen {
						want = 2
					}
				}
				if s := e.c.Stats(); s.Placed != want || s.Lost != lost {
					t.Errorf("placed %d, want %d; %d connections lost, want %d", s.Placed, want, s.Lost, lost)
				}
			})
		}
	}
}

// TestPlacedSameConnection: a request is sent again by the connection by which
// its first answer is coming.
func TestPlacedSameConnection(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		taps := e.tapped()
		data := e.have(t)
		buf := make([]byte, placedLen)
		taps.to(0).set(placedLen/2, -1)
		ended := e.pending(t.Context(), buf)
		e.src.push(e.src.current.next(nil).next(nil)) // a map was missed: all is sent again
		synctest.Wait()
		taps.to(0).set(-1, -1)
		if err := <-ended; err != nil || !bytes.Equal(buf, data) {
			t.Errorf("read: %v", err)
		}
		if s := e.c.Stats(); s.Placed != 2 || s.Stale != 1 || s.Resent != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestNotPlaced: answers that are not the one that is waited for touch no buffer,
// and those that do not fit are as without placing.
func TestNotPlaced(t *testing.T) {
	bad := bytes.Repeat([]byte{0xee}, placedLen)
	for name, tc := range map[string]struct {
		change func(*cephtest.OSDReply)
		err    error // nil: it is no answer, and the right one is waited for
		ends   bool  // it is an answer
	}{
		"later try":  {change: func(r *cephtest.OSDReply) { r.Attempt++ }},
		"stray":      {change: func(r *cephtest.OSDReply) { rq := *r.Request; rq.Tid += 1000; r.Request = &rq }},
		"failed":     {change: func(r *cephtest.OSDReply) { r.Result = -int32(syscall.EIO) }, err: syscall.EIO, ends: true},
		"more":       {change: func(r *cephtest.OSDReply) { r.Outs[0] = append(r.Outs[0], 0xee) }, ends: true},
		"no front":   {change: func(r *cephtest.OSDReply) { r.Nonsense = true }, err: ErrReply, ends: true},
		"two":        {change: func(r *cephtest.OSDReply) { two(r, 0) }, err: ErrReply, ends: true},
		"two, empty": {change: func(r *cephtest.OSDReply) { two(r, placedLen) }, err: ErrReply, ends: true},
		"none":       {change: func(r *cephtest.OSDReply) { r.Outs, r.Codes = nil, nil }, err: ErrReply, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, nil, func(t *testing.T, e *env) {
				data := e.have(t)
				held := make(chan *cephtest.OSDRequest, 1)
				e.osds[0].Script(func(rq *cephtest.OSDRequest) { held <- rq })
				buf := make([]byte, placedLen)
				ended := e.pending(t.Context(), buf)
				rq := <-held
				r := rq.Refuse(0)
				r.Outs[0] = bytes.Clone(bad)
				tc.change(r)
				r.Send()
				synctest.Wait()
				if n := e.c.Stats().Placed; n != 0 {
					t.Errorf("placed %d", n)
				}
				if !tc.ends {
					if !all(buf, 0) {
						t.Error("the buffer was touched")
					}
					rq.Answer()
				}
				err := <-ended
				switch {
				case !errors.Is(err, tc.err):
					t.Errorf("ended with %v", err)
				case tc.err != nil && !all(buf, 0):
					t.Error("the buffer was touched")
				case !tc.ends && !bytes.Equal(buf, data), tc.ends && tc.err == nil && !bytes.Equal(buf, bad):
					t.Error("wrong data")
				}
			})
		})
	}
}

// two makes a reply one of two results.
func two(r *cephtest.OSDReply, second int) {
	rq := *r.Request
	rq.Ops = append(rq.Ops[:1:1], rq.Ops[0])
	r.Request, r.Outs, r.Codes = &rq, append(r.Outs, make([]byte, second)), append(r.Codes, 0)
}

// TestPlacedTwice: an OSD that answers twice has the first answer taken, and the
// second one is kept off the buffer.
func TestPlacedTwice(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		taps := e.tapped()
		data := e.have(t)
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			rq.Answer()
			r := rq.Refuse(0)
			r.Outs[0] = bytes.Repeat([]byte{0xee}, placedLen)
			r.Send()
		})
		buf := make([]byte, placedLen)
		taps.to(0).set(placedLen*3/2, -1)
		ended := e.pending(t.Context(), buf)
		if err := <-ended; err != nil || !bytes.Equal(buf, data) {
			t.Errorf("read: %v", err)
		}
		taps.to(0).set(-1, -1)
		synctest.Wait()
		if !bytes.Equal(buf, data) {
			t.Error("the second answer was written into the buffer")
		}
		if s := e.c.Stats(); s.Placed != 1 || s.Stray != 1 || s.Lost != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestPlacedDamaged damages an answer at every byte before its data, and at some
// of those and behind: the connection breaks, and the read is done by the next.
func TestPlacedDamaged(t *testing.T) {
	const size = 40 << 10
	run(t, nil, func(t *testing.T, e *env) {
		taps := e.tapped()
		data := e.have(t)
		var before atomic.Int64 // bytes of the frame until its data
		e.osds[0].Script(func(rq *cephtest.OSDRequest) {
			if rq.Object.Name != "x" {
				return
			}
			_, began := rq.Stream.Bytes()
			rq.Answer()
			_, ended := rq.Stream.Bytes()
			before.Store(int64(ended - began - size - 13))
		})
		buf, other := make([]byte, size), make([]byte, size)
		read := func() error {
			n, err := e.c.Read(t.Context(), obj(1, "x"), 0, buf)
			if err == nil && (n != size || !bytes.Equal(buf, data[:size])) {
				err = errors.New("wrong data")
			}
			return err
		}
		err := read()
		synctest.Wait() // the script goes on after its answer
		head := int(before.Load())
		if err != nil || head < 100 || head > 1000 {
			t.Fatalf("%d bytes before the data: %v", head, err)
		}
		// Somebody else waits all the time.
		ctx, cancel := context.WithCancel(t.Context())
		waiting := e.flight()
		op := &Op{}
		op.ReadInto(0, other)
		waiting.add(ctx, obj(1, "y"), op)
		fill(other, 0xff)
		var at []int
		for i := range head {
			at = append(at, i)
		}
		at = append(at, head, head+size/2, head+size-1)
		for i := range 13 { // the checksums
			at = append(at, head+size+i)
		}
		for _, i := range at {
			fill(buf, 0)
			taps.to(0).set(-1, i)
			lost := e.c.Stats().Lost
			if err := read(); err != nil {
				t.Errorf("byte %d: %v", i, err)
			}
			if n := e.c.Stats().Lost - lost; n != 1 {
				t.Errorf("byte %d: %d connections lost", i, n)
			}
		}
		cancel()
		synctest.Wait()
		if waiting.left() != 0 || !all(other, 0xff) {
			t.Error("the buffer of another was written")
		}
	})
}

// TestPlacedCut: connections that break in the middle of an answer.
func TestPlacedCut(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		data := e.have(t)
		buf := make([]byte, placedLen)
		for n := 0; n < placedLen+400; n += 20011 {
			e.osds[0].Script(func(rq *cephtest.OSDRequest) {
				if rq.Attempt == 0 {
					rq.Stream.CutWrite(n)
				}
				rq.Answer()
			})
			fill(buf, 0)
			if err := <-e.pending(t.Context(), buf); err != nil || !bytes.Equal(buf, data) {
				t.Errorf("cut after %d: %v", n, err)
			}
		}
	})
}

// TestPlacedUnderChaos: callers use their buffers as soon as a read returned,
// however it did, while connections break and stall, primaries move and contexts
// end at any moment. What a read brings is the object's, and nothing is written
// into a buffer that is the caller's.
func TestPlacedUnderChaos(t *testing.T) {
	run(t, nil, func(t *testing.T, e *env) {
		objects := map[string][]byte{}
		for i := range 6 {
			name := fmt.Sprint(i)
			objects[name] = noise(100<<10, uint64(i))
			if err := e.c.WriteFull(t.Context(), obj(2, name), objects[name]); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range e.osds {
			o.Script(func(rq *cephtest.OSDRequest) {
				switch rand.IntN(12) {
				case 0:
					rq.Stream.CutWrite(rand.IntN(120 << 10))
				case 1:
					rq.Stream.Reset()
					return
				case 2:
					r := rq.Do()
					r.Attempt--
					r.Send()
				case 3:
					rq.Answer()
				case 4:
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				}
				rq.Answer()
			})
		}
		taps := e.tapped()
		stop := make(chan struct{})
		var wg, chaos sync.WaitGroup
		chaos.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond):
				}
				if c := taps.to(int32(rand.IntN(3))); c != nil {
					switch rand.IntN(3) {
					case 0:
						c.set(rand.IntN(150<<10), -1)
					case 1:
						c.set(-1, rand.IntN(150<<10))
					default:
						c.set(-1, -1)
					}
				}
				if i%5 == 0 {
					shift := uint32(rand.IntN(3))
					e.src.change(func(m *fakeMap) {
						p := m.pools[2]
						p.acting = func(s uint32) []int32 {
							s += shift
							return []int32{int32(s % 3), int32((s + 1) % 3), int32((s + 2) % 3)}
						}
						m.pools[2] = p
					})
				}
			}
		})
		var done atomic.Int32
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(2, uint64(g)))
				buf := make([]byte, 100<<10)
				for range 60 {
					name := fmt.Sprint(rng.IntN(6))
					off := rng.IntN(50 << 10)
					b := buf[off:]
					fill(buf, 0xff)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(60))*time.Millisecond)
					n, err := e.c.Read(ctx, obj(2, name), uint64(off), b)
					cancel()
					switch {
					case err == nil && (n != len(b) || !bytes.Equal(b, objects[name][off:])):
						t.Errorf("%d bytes, or others than the object's", n)
					case err == nil:
						done.Add(1)
					case !errors.Is(err, context.DeadlineExceeded):
						t.Error(err)
					}
					if !all(buf[:off], 0xff) {
						t.Error("something beside the buffer was written")
					}
					fill(buf, 0xff)
					time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
					if !all(buf, 0xff) {
						t.Error("the buffer was written after the end")
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		chaos.Wait()
		s := e.c.Stats()
		if done.Load() == 0 || s.Placed == 0 {
			t.Error("nothing was done")
		}
		t.Logf("%d of 480 done; %+v", done.Load(), s)
	})
}
