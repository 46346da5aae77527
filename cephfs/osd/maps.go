package osd

import (
	"context"
	"sync"
	"sync/atomic"

	"capstan/cephfs/denc"
)

// Map is what the client asks of one epoch of the osdmap. It never changes and
// may be used by any goroutine. [FromOSDMap] makes one of an osdmap.Map.
type Map interface {
	Epoch() uint32
	// Flags of the whole cluster.
	Flags() MapFlags
	// Pool returns a pool, and whether there is such a one.
	Pool(id int64) (Pool, bool)
	// Hash is the hash of an object, which places it in its pool.
	Hash(o Object) uint32
	// Place returns where objects of a hash are. The pool exists.
	Place(pool int64, hash uint32) Placement
	// Addrs returns the addresses of an OSD that is up.
	Addrs(osd int32) (denc.AddrVec, bool)
	// Blocklisted reports whether an entry, single or of a network, names an
	// instance.
	Blocklisted(self denc.Addr) bool
}

// MapFlags are the flags of a map that hold operations.
type MapFlags struct {
	Full       bool
	PauseRead  bool
	PauseWrite bool
}

// Pool is what the client asks of a pool.
type Pool struct {
	PGs        uint32 // pg_num
	Full       bool
	QuotaFull  bool // Full because its quota is used up
	EIO        bool
	Erasure    bool
	Overwrites bool   // of an erasure-coded pool: any write is allowed, not only whole stripes
	Stripe     uint32 // of an erasure-coded pool: bytes of a stripe
	ReadTier   int64  // pool to read from instead; -1 if none
	WriteTier  int64
	// ForceResend is the epoch at which the monitors last asked clients to send
	// everything again (last_force_op_resend).
	ForceResend uint32
}

// Placement is where a placement group is.
type Placement struct {
	PG      PG
	Primary int32 // -1 if there is none
	// Acting are the OSDs that hold it, the primary first in a replicated pool.
	Acting []int32
}

// MapSource brings the maps; [MonMaps] is one.
type MapSource interface {
	// WatchMaps has f called with the newest map, if there is one, and with
	// every later one in the order of their epochs, from one goroutine at a
	// time. f does not block for the network. After stop returned f is not
	// called any more; stop must not be called from f.
	WatchMaps(f func(Map)) (stop func())
	// WantMap says that a map of at least this epoch is needed. It is called
	// with locks held, often, and by f too: it neither waits nor calls f.
	WantMap(epoch uint32)
	// LatestMap asks the monitors for the newest epoch there is.
	LatestMap(ctx context.Context) (uint32, error)
}

// mapState is a map with the placements that were asked of it: placing takes
// some 10 us, and most objects of a client share their placement groups.
type mapState struct {
	Map
	flags MapFlags
	// resend is the number of times that epochs were skipped: all that was sent
	// under an earlier one is sent again, for nobody knows whether it moved to
	// and fro meanwhile.
	resend uint32

	mu    sync.Mutex // guards the making of an entry of pools; a leaf
	pools sync.Map   // int64 to *poolState
}

// poolState is a pool with its cached placements.
type poolState struct {
	Pool
	places []atomic.Pointer[Placement] // by seed; nil if the pool is too large
}

// maxCachedPGs bounds the cache of a pool; 8 bytes each.
const maxCachedPGs = 1 << 17

func newMapState(m Map, resend uint32) *mapState {
	return &mapState{Map: m, flags: m.Flags(), resend: resend}
}

// pool returns a pool of the map, or nil.
func (ms *mapState) pool(id int64) *poolState {
	if p, ok := ms.pools.Load(id); ok {
		return p.(*poolState)
	}
	pool, ok := ms.Map.Pool(id)
	if !ok {
		return nil
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if p, ok := ms.pools.Load(id); ok {
		return p.(*poolState)
	}
	p := &poolState{Pool: pool}
	if pool.PGs <= maxCachedPGs {
		p.places = make([]atomic.Pointer[Placement], pool.PGs)
	}
	ms.pools.Store(id, p)
	return p
}

// place is Map.Place through the cache.
func (ms *mapState) place(id int64, p *poolState, hash uint32) *Placement {
	if seed := stableMod(hash, p.PGs); int(seed) < len(p.places) {
		if pl := p.places[seed].Load(); pl != nil {
			return pl
		}
		pl := ms.Map.Place(id, hash)
		p.places[seed].Store(&pl)
		return &pl
	}
	pl := ms.Map.Place(id, hash)
	return &pl
}

// stableMod is ceph_stable_mod: the seed of a hash among n placement groups,
// such that few change when n grows.
func stableMod(hash, n uint32) uint32 {
	if n == 0 {
		return 0
	}
	mask := uint32(1)
	for mask < n && mask != 0 {
		mask <<= 1
	}
	mask--
	if hash&mask < n {
		return hash & mask
	}
	return hash & (mask >> 1)
}
