package osd

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/internal/testutil"
)

func TestMain(m *testing.M) { testutil.VerifyMain(m) }

// fakeMap is a map without CRUSH.
type fakeMap struct {
	epoch   uint32
	flags   MapFlags
	pools   map[int64]fakePool
	addrs   map[int32]denc.AddrVec
	blocked []denc.Addr
}

type fakePool struct {
	Pool
	acting func(seed uint32) []int32
}

func (m *fakeMap) Epoch() uint32   { return m.epoch }
func (m *fakeMap) Flags() MapFlags { return m.flags }
func (m *fakeMap) Pool(id int64) (Pool, bool) {
	p, ok := m.pools[id]
	return p.Pool, ok
}

func (m *fakeMap) Hash(o Object) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s\x1f%s", o.Namespace, o.Key)
	if o.Key == "" {
		h.Write([]byte(o.Name))
	}
	return h.Sum32()
}

func (m *fakeMap) Place(pool int64, hash uint32) Placement {
	p := m.pools[pool]
	seed := stableMod(hash, p.PGs)
	pl := Placement{PG: PG{Pool: pool, Seed: seed, Shard: noShard}, Primary: -1, Acting: p.acting(seed)}
	if len(pl.Acting) > 0 {
		pl.Primary = pl.Acting[0]
	}
	if p.Erasure {
		pl.PG.Shard = 0
	}
	return pl
}

func (m *fakeMap) Addrs(osd int32) (denc.AddrVec, bool) {
	a, ok := m.addrs[osd]
	return a, ok
}

func (m *fakeMap) Blocklisted(self denc.Addr) bool {
	for _, a := range m.blocked {
		if a.Nonce == self.Nonce {
			return true
		}
	}
	return false
}

// next returns a copy of m for the next epoch.
func (m *fakeMap) next(change func(*fakeMap)) *fakeMap {
	n := *m
	n.epoch++
	n.pools = map[int64]fakePool{}
	for id, p := range m.pools {
		n.pools[id] = p
	}
	n.addrs = map[int32]denc.AddrVec{}
	for id, a := range m.addrs {
		n.addrs[id] = a
	}
	if change != nil {
		change(&n)
	}
	return &n
}

// fakeSource brings the maps that a test pushes.
type fakeSource struct {
	mu      sync.Mutex
	current *fakeMap
	watch   func(Map)
	wanted  uint32
	latest  func(ctx context.Context) (uint32, error)
}

func (s *fakeSource) WatchMaps(f func(Map)) func() {
	s.mu.Lock()
	s.watch = f
	m := s.current
	s.mu.Unlock()
	if m != nil {
		f(m)
	}
	return func() {
		s.mu.Lock()
		s.watch = nil
		s.mu.Unlock()
	}
}

func (s *fakeSource) WantMap(epoch uint32) {
	s.mu.Lock()
	s.wanted = max(s.wanted, epoch)
	s.mu.Unlock()
}

func (s *fakeSource) LatestMap(ctx context.Context) (uint32, error) {
	s.mu.Lock()
	f, m := s.latest, s.current
	s.mu.Unlock()
	if f != nil {
		return f(ctx)
	}
	if m == nil {
		return 0, nil
	}
	return m.epoch, nil
}

func (s *fakeSource) push(m *fakeMap) {
	s.mu.Lock()
	s.current = m
	f := s.watch
	s.mu.Unlock()
	if f != nil {
		f(m)
	}
}

// change pushes the next epoch.
func (s *fakeSource) change(f func(*fakeMap)) {
	s.mu.Lock()
	m := s.current
	s.mu.Unlock()
	s.push(m.next(f))
}

func addrOf(id int32, port uint16) denc.AddrVec {
	return denc.AddrVec{{
		Type: denc.AddrMsgr2, Nonce: uint32(port),
		Host: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(id + 1)}), port),
	}}
}

// env is a cluster of three OSDs and a client. Pool 1 is replicated and all of
// it is on osd.0; objects of pool 2 are spread.
type env struct {
	t    *testing.T
	net  *cephtest.Network
	objs *cephtest.Objects
	osds []*cephtest.OSD
	src  *fakeSource
	msgr *msgr.Messenger
	c    *Client

	unstall func() // see stall
}

// run runs a test in a bubble, with everything closed at its end.
func run(t *testing.T, change func(*Options), f func(*testing.T, *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, change)
		f(t, e)
		e.close()
		synctest.Wait()
	})
}

func newEnv(t *testing.T, change func(*Options)) *env {
	e := &env{t: t, net: cephtest.NewNetwork(), objs: cephtest.NewObjects(), src: &fakeSource{}}
	m := &fakeMap{
		epoch: 10,
		pools: map[int64]fakePool{
			1: {Pool{PGs: 8, ReadTier: -1, WriteTier: -1}, func(uint32) []int32 { return []int32{0, 1, 2} }},
			2: {Pool{PGs: 8, ReadTier: -1, WriteTier: -1}, func(s uint32) []int32 {
				return []int32{int32(s % 3), int32((s + 1) % 3), int32((s + 2) % 3)}
			}},
		},
		addrs: map[int32]denc.AddrVec{},
	}
	for id := range int32(3) {
		m.addrs[id] = addrOf(id, 6800)
		e.osds = append(e.osds, e.net.NewOSD(id, m.addrs[id], e.objs, nil))
	}
	e.src.current = m
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("CAPSTAN_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	e.msgr = msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: e.net.Dial, Logger: log})
	o := Options{Messenger: e.msgr, Maps: e.src, Logger: log}
	if change != nil {
		change(&o)
	}
	e.c = New(o)
	return e
}

func (e *env) close() {
	e.c.Close()
	e.msgr.Close()
	for _, o := range e.osds {
		o.Close()
	}
	if n := e.c.Outstanding(); n != 0 {
		e.t.Errorf("%d operations are left", n)
	}
	for name, of := range map[string]*throttle{"all": e.c.room, "held": e.c.parked, "homeless": e.c.homeless} {
		if ops, bytes := of.inUse(); ops != 0 || bytes != 0 {
			e.t.Errorf("%s: room for %d operations and %d bytes was not given back", name, ops, bytes)
		}
	}
	for _, s := range *e.c.sessions.Load() {
		if ops, bytes := s.room.inUse(); ops != 0 || bytes != 0 {
			e.t.Errorf("osd.%d: room for %d operations and %d bytes was not given back", s.osd, ops, bytes)
		}
	}
	for i := range e.c.shards {
		if n := len(e.c.shards[i].chains); n != 0 {
			e.t.Errorf("%d chains are left", n)
		}
	}
}

// outcome is how a submitted operation ended.
type outcome struct {
	reply *Reply
	err   error
	order int // of completions
}

// flight is operations submitted together.
type flight struct {
	e    *env
	mu   sync.Mutex
	done map[int]outcome
	n    int
}

func (e *env) flight() *flight { return &flight{e: e, done: map[int]outcome{}} }

// add submits an operation and returns its number in the flight.
func (f *flight) add(ctx context.Context, o Object, op *Op) int {
	f.mu.Lock()
	i := f.n
	f.n++
	f.mu.Unlock()
	err := f.e.c.Submit(ctx, o, op, func(reply *Reply, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, ok := f.done[i]; ok {
			f.e.t.Errorf("operation %d was completed twice", i)
		}
		f.done[i] = outcome{reply, err, len(f.done)}
	})
	if err != nil {
		f.mu.Lock()
		f.done[i] = outcome{nil, err, len(f.done)}
		f.mu.Unlock()
	}
	return i
}

func (f *flight) get(i int) (outcome, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.done[i]
	return o, ok
}

func (f *flight) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n - len(f.done)
}

// ok fails the test unless everything was done without an error.
func (f *flight) ok() {
	f.e.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.n {
		if o, ok := f.done[i]; !ok {
			f.e.t.Errorf("operation %d is not done", i)
		} else if o.err != nil {
			f.e.t.Errorf("operation %d: %v", i, o.err)
		}
	}
}

func appendOp(s string) *Op {
	op := &Op{}
	op.Append([]byte(s))
	return op
}

func obj(pool int64, name string) Object { return Object{Pool: pool, Name: name} }

func id(o Object) cephtest.ObjectID {
	return cephtest.ObjectID{Pool: o.Pool, Namespace: o.Namespace, Key: o.Key, Name: o.Name}
}

// tids lists tid:attempt of what an OSD saw of an object; tids count from 1 in
// each client.
func tids(o *cephtest.OSD, name string) (s string) {
	for _, rq := range o.Seen() {
		if rq.Object.Name == name {
			s += fmt.Sprintf("%d:%d ", rq.Tid%clientTids, rq.Attempt)
		}
	}
	return s
}
