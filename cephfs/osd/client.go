package osd

import (
	"context"
	"hash/maphash"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"capstan/cephfs/inflight"
)

// nShards is the number of shards that objects are spread over: enough that two
// of some dozens of goroutines seldom meet in one.
const nShards = 64

// clientTids is how many tids a client has for itself: enough for years, and for
// a million clients.
const clientTids = 1 << 44

// clients counts the clients that this process made.
var clients atomic.Uint64

// Client does operations on objects. All methods may be called by any
// goroutine.
type Client struct {
	opts Options // constant
	log  *slog.Logger
	seed maphash.Seed // constant
	ctx  context.Context
	stop context.CancelFunc // ends ctx, when the client is dead

	table *inflight.Table[request]
	// tidBase is added to the table's tids, which begin with 1 in every client.
	// An OSD knows a request by its tid and by who sent it, and takes a tid
	// that it saw for a repetition: it answers and does nothing. Clients with
	// one messenger, or one authenticator, are one sender to it; in other
	// processes nobody is. So no two clients of a process share a tid.
	tidBase uint64 // constant
	// open has each request from its submission until its completion was called:
	// table's are taken before that.
	open   *inflight.Table[request]
	room   *throttle
	shards [nShards]shard

	state    atomic.Pointer[mapState]           // replaced under mapMu
	barrier  atomic.Uint32                      // see SetBarrier
	sessions atomic.Pointer[map[int32]*session] // replaced under sessionsMu
	parked   *throttle                          // holds what a map holds, instead of room
	homeless *throttle                          // stands in for that of an OSD
	dead     atomic.Pointer[error]              // why nothing is done any more
	wg       sync.WaitGroup                     // connections, timers and checks

	breaks atomic.Uint64 // links that died, counted after link.dead is set
	walks  atomic.Uint64 // numbers the walks

	mapMu      sync.Mutex // held while a map is taken in
	sessionsMu sync.Mutex

	watchOnce sync.Once
	unwatch   func()

	waitMu  sync.Mutex
	waiters map[chan struct{}]uint32 // by the epoch that ends the wait; guarded by waitMu

	calls sync.Pool // of *call; the client's own, for channels of tests stay in their bubble
	pools poolChecks
	stats counters
}

// shard owns the requests on a part of the objects.
type shard struct {
	mu     sync.Mutex
	chains map[Object]*chain // guarded by mu; by the object as the caller named it
	looks  uint64            // guarded by mu; at requests, to see whether to send them
	_      [32]byte
}

// New returns a client, which watches the maps of its source until it is
// closed.
func New(o Options) *Client {
	o = o.withDefaults()
	c := &Client{
		opts:     o,
		log:      o.Logger,
		seed:     maphash.MakeSeed(),
		table:    inflight.New(func(r *request, tid uint64) { r.tid = tid }),
		open:     inflight.New(func(r *request, tid uint64) { r.openTid = tid }),
		tidBase:  (clients.Add(1) - 1) * clientTids,
		room:     newThrottle(o.MaxOps, o.MaxBytes),
		parked:   newThrottle(o.MaxOps, o.MaxBytes),
		homeless: newThrottle(o.MaxOpsPerOSD, o.MaxBytesPerOSD),
		waiters:  map[chan struct{}]uint32{},
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.calls.New = newCall
	c.sessions.Store(&map[int32]*session{})
	for i := range c.shards {
		c.shards[i].chains = map[Object]*chain{}
	}
	c.unwatch = o.Maps.WatchMaps(c.handleMap)
	return c
}

// Close ends every operation with [ErrClosed], closes the connections and waits
// until all goroutines of the client ended. It must not be called from a
// completion or from the map source.
func (c *Client) Close() {
	c.die(ErrClosed)
	c.watchOnce.Do(c.unwatch)
	c.wg.Wait()
	// Contexts that ended complete operations on goroutines of their own.
	_ = c.open.WaitAll(context.Background())
}

// die ends everything with a reason. The first one stays.
func (c *Client) die(reason error) {
	c.dead.CompareAndSwap(nil, &reason)
	err := c.deadErr()
	c.stop()
	c.table.Close(func(_ uint64, r *request) { c.end(r, err) })
	// Whoever did not see dead yet has a shard locked. Once they are through,
	// no connection is made and no goroutine started any more.
	for i := range c.shards {
		c.shards[i].mu.Lock()
		//lint:ignore SA2001 passing through is the point
		c.shards[i].mu.Unlock()
	}
	c.sessionsMu.Lock()
	all := *c.sessions.Load()
	c.sessionsMu.Unlock()
	for _, s := range all {
		s.shut()
	}
	c.wakeWaiters(0)
}

// deadErr returns why the client does nothing any more, or nil.
func (c *Client) deadErr() error {
	if e := c.dead.Load(); e != nil {
		return *e
	}
	return nil
}

// shardOf returns the shard of an object.
func (c *Client) shardOf(o Object) *shard {
	return &c.shards[maphash.Comparable(c.seed, o)%nShards]
}

// session returns the session of an OSD, making it if need be, or nil if the
// client is dead.
func (c *Client) session(osd int32) *session {
	if s := (*c.sessions.Load())[osd]; s != nil {
		return s
	}
	c.sessionsMu.Lock()
	defer c.sessionsMu.Unlock()
	old := *c.sessions.Load()
	if s := old[osd]; s != nil {
		return s
	}
	if c.deadErr() != nil {
		return nil
	}
	s := &session{c: c, osd: osd, room: newThrottle(c.opts.MaxOpsPerOSD, c.opts.MaxBytesPerOSD)}
	next := maps.Clone(old)
	next[osd] = s
	c.sessions.Store(&next)
	return s
}

// end completes with err a request that the caller took from the table.
func (c *Client) end(r *request, err error) {
	r.shard.mu.Lock()
	var out finished
	c.removeLocked(r, &out)
	r.shard.mu.Unlock()
	r.complete(nil, r.fail(err), nil)
	out.complete()
}

// cancel completes a request with err if nobody else does. If somebody does, it
// sees to it that the request does not wait for a connection any more.
func (c *Client) cancel(r *request, err error) {
	if c.table.Take(r.tid) != nil {
		c.stats.cancelled.Add(1)
		c.end(r, err)
	} else {
		r.reclaim(nil)
	}
}

// Outstanding is the number of operations submitted and not completed. It
// counts them, and so is not for hot paths.
func (c *Client) Outstanding() int { return c.open.Len() }

// Flush waits until every operation that was submitted before the call is
// complete.
func (c *Client) Flush(ctx context.Context) error { return c.open.WaitAll(ctx) }
