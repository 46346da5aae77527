package osd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/cephtest"
	"capstan/internal/linear"
)

// history is what happened to one object, in moments that count up.
type history struct {
	mu  sync.Mutex
	now int64
	ops map[string][]linear.Op[string]
}

func newHistory() *history { return &history{ops: map[string][]linear.Op[string]{}} }

func (h *history) tick() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	return h.now
}

func (h *history) add(object string, op linear.Op[string]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops[object] = append(h.ops[object], op)
}

// register does one random operation on an object that is used as a register,
// and notes it. Values are unique, so that every mistake shows, and of one
// length, because comparisons are of so many bytes.
func (h *history) register(ctx context.Context, c *Client, o Object, rng *rand.Rand, value string, known *string) error {
	call := h.tick()
	op := linear.Op[string]{Call: call}
	var err error
	switch rng.IntN(3) {
	case 0:
		err = c.WriteFull(ctx, o, []byte(value))
		op.Name = "write " + value
		op.Step = func(string) (string, bool) { return value, true }
	case 1:
		b := make([]byte, 64)
		var n int
		n, err = c.Read(ctx, o, 0, b)
		got := string(b[:n])
		if IsNotExist(err) {
			got, err = "", nil
		}
		if err != nil {
			return err // saw nothing, did nothing
		}
		*known = got
		op.Name = "read " + got
		op.Step = func(s string) (string, bool) { return s, s == got }
	case 2:
		old := *known
		var list Op
		if old != "" {
			list.CompareExtent(0, []byte(old))
		} else {
			list.Create(true)
		}
		list.WriteFull([]byte(value))
		var reply *Reply
		reply, err = c.Do(ctx, o, &list)
		reply.Release()
		var diff *CompareError
		op.Name = "swap " + old + " for " + value
		switch {
		case errors.As(err, &diff), IsNotExist(err), errors.Is(err, syscall.EEXIST):
			err = nil
			op.Name += ", refused"
			op.Step = func(s string) (string, bool) { return s, s != old }
		case err == nil:
			op.Step = func(s string) (string, bool) { return value, s == old }
		default:
			op.Step = func(s string) (string, bool) {
				if s == old {
					return value, true
				}
				return s, true
			}
		}
	}
	op.Return = h.tick()
	if err != nil {
		op.Return = linear.Never
		op.Name += ", unknown"
	}
	h.add(o.Name, op)
	return err
}

func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, ops := range h.ops {
		if ok, stuck := linear.Check("", ops); !ok {
			t.Errorf("%s: %d operations are not linearizable; none of these could come next:", name, len(ops))
			for _, op := range stuck {
				t.Errorf("  %d-%d %s", op.Call, op.Return, op.Name)
			}
		}
	}
}

// worker is an OSD under chaos: it does what it is asked one by one, in order
// and with pauses, and drops what it has when the connection breaks or the
// placement group is not its own any more, as a real one does.
type worker struct {
	e   *env
	osd *cephtest.OSD
	rng *rand.Rand
	in  chan *cephtest.OSDRequest

	blocks uint64 // the id of the last back-off
}

func (w *worker) run() {
	for rq := range w.in {
		// Before the pause: else what was sent again waits behind what nobody
		// waits for.
		if !w.mine(rq) {
			continue
		}
		if w.rng.IntN(4) == 0 {
			time.Sleep(time.Duration(w.rng.IntN(50)) * time.Millisecond)
		}
		if !w.mine(rq) {
			continue
		}
		switch w.rng.IntN(40) {
		case 0: // before
			rq.Stream.Reset()
		case 1: // after
			rq.Do()
			rq.Stream.Reset()
		case 2: // answered twice, once as if it were an older try
			r := rq.Do()
			stale := *r
			stale.Attempt--
			stale.Result = -5
			if stale.Attempt >= 0 {
				stale.Send()
			}
			r.Send()
			r.Send()
		case 3: // not now: it is dropped, and so is what comes before it is lifted
			w.block(rq)
		default:
			rq.Answer()
		}
	}
}

func (w *worker) mine(rq *cephtest.OSDRequest) bool {
	w.e.src.mu.Lock()
	m := w.e.src.current
	w.e.src.mu.Unlock()
	pl := m.Place(rq.Pool, rq.Hash)
	return w.alive(rq.Stream) && pl.Primary == w.osd.ID && pl.PG.Seed == rq.Seed
}

// block backs the placement group off for a while, during which the OSD drops
// everything for it. What the client sent before it knew may lie in the queue
// when the time is over and is dropped too: it comes again, behind what was
// dropped before it (ceph/ceph src/osd/osd_types.h, Backoff: STATE_DELETING).
func (w *worker) block(rq *cephtest.OSDRequest) {
	rng := cephtest.OSDRange{Pool: rq.Pool, Seed: rq.Seed, Shard: -1,
		Begin: cephtest.OSDPosition{Object: cephtest.ObjectID{Pool: rq.Pool}}, End: cephtest.OSDPosition{Max: true}}
	w.blocks++
	id := w.blocks
	w.osd.Block(rq.Stream, id, rng)
	serve := func(other *cephtest.OSDRequest) {
		if other.Pool == rq.Pool && other.Seed == rq.Seed && other.Stream == rq.Stream {
			return
		}
		if w.mine(other) {
			other.Answer()
		}
	}
	for end := time.Now().Add(time.Duration(w.rng.IntN(100)) * time.Millisecond); ; {
		select {
		case <-time.After(time.Millisecond):
		case other, ok := <-w.in:
			if !ok {
				return
			}
			serve(other)
		}
		if time.Now().Before(end) || !slices.Contains(w.osd.Acks(), id) && w.alive(rq.Stream) {
			continue
		}
		for range len(w.in) {
			serve(<-w.in)
		}
		w.osd.Unblock(rq.Stream, id, rng)
		return
	}
}

// alive reports whether a connection still is.
func (w *worker) alive(s *cephtest.Stream) bool { return slices.Contains(w.osd.Live(), s) }

// TestChaos has clients' operations run through everything that can happen and
// checks that each object behaved as one. CAPSTAN_TEST_SEED replays one run.
func TestChaos(t *testing.T) {
	seeds := []uint64{}
	if s := os.Getenv("CAPSTAN_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, n)
	} else {
		first := rand.Uint64() >> 16
		for i := range uint64(8) {
			seeds = append(seeds, first+i)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			run(t, nil, func(t *testing.T, e *env) { chaos(t, e, seed) })
		})
	}
}

func chaos(t *testing.T, e *env, seed uint64) {
	var served sync.WaitGroup
	var workers []*worker
	for i, o := range e.osds {
		w := &worker{e: e, osd: o, rng: rand.New(rand.NewPCG(seed, uint64(i)+100)), in: make(chan *cephtest.OSDRequest, 10000)}
		workers = append(workers, w)
		o.Script(func(rq *cephtest.OSDRequest) { w.in <- rq })
		served.Go(w.run)
	}
	h := newHistory()
	var users sync.WaitGroup
	for u := range 6 {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(u)))
			known := map[string]*string{}
			for i := range 60 {
				o := obj(2, fmt.Sprint("object", rng.IntN(4)))
				if known[o.Name] == nil {
					known[o.Name] = new(string)
				}
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if rng.IntN(8) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
				}
				err := h.register(ctx, e.c, o, rng, fmt.Sprintf("u%d.%03d", u, i), known[o.Name])
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("user %d: %v", u, err)
				}
				time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
			}
		})
	}
	// And some who do not wait between their operations: those on one object
	// are done once and in order.
	var logs [4]*flight
	var want [4]string
	for u := range logs {
		logs[u] = e.flight()
		rng := rand.New(rand.NewPCG(seed, uint64(u)+500))
		users.Go(func() {
			for i := range 150 {
				s := fmt.Sprintf("%03d ", i)
				want[u] += s
				logs[u].add(t.Context(), obj(2, fmt.Sprint("log", u)), appendOp(s))
				if rng.IntN(4) == 0 {
					time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
				}
			}
			for logs[u].left() > 0 {
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	done := make(chan struct{})
	go func() { users.Wait(); close(done) }()
	rng := rand.New(rand.NewPCG(seed, 999))
	// After a while the cluster comes to rest, and whatever is under way has to
	// end: more requests than it can do between two changes would go round for
	// ever otherwise.
	rest := time.After(30 * time.Second)
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-rest:
			e.src.change(func(m *fakeMap) {
				p := m.pools[2]
				p.acting = func(s uint32) []int32 { return []int32{int32(s % 3)} }
				m.flags.PauseWrite = false
				m.pools[2] = p
			})
			<-done
			over = true
		case <-time.After(time.Duration(rng.IntN(150)) * time.Millisecond):
			e.src.change(func(m *fakeMap) {
				p := m.pools[2]
				switch shift := uint32(rng.IntN(4)); rng.IntN(6) {
				case 0:
					p.acting = func(uint32) []int32 { return nil }
				case 1:
					p.PGs = 8 + 8*(p.PGs/8%4)
				case 2:
					m.flags.PauseWrite = !m.flags.PauseWrite
				default:
					p.acting = func(s uint32) []int32 { return []int32{int32((s + shift) % 3)} }
				}
				m.pools[2] = p
			})
		}
	}
	h.check(t)
	for u := range logs {
		logs[u].ok()
		if got, _ := e.objs.Data(id(obj(2, fmt.Sprint("log", u)))); string(got) != want[u] {
			t.Errorf("log of user %d: %s", u, got)
		}
	}
	for i, w := range workers {
		e.osds[i].Close()
		close(w.in)
	}
	served.Wait()
	synctest.Wait()
}
