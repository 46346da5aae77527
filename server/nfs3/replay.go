package nfs3

import (
	"context"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"capstan/server/rpc"
)

// replayTime is how long a reply is kept for a client that did not get it:
// longer than clients take to reconnect, shorter than it takes for the same
// xid to come up for another call.
const replayTime = 2 * time.Minute

// replayCache answers calls that are sent again, because their connection
// broke before the reply came, with the reply they had: REMOVE would find
// nothing to remove, and MKDIR what it made itself (RFC 1813 section 4.5). It
// keeps the replies of procedures that are not idempotent, the oldest making
// room.
//
// A call sent again is known by the address of its client, its xid, and all
// that it says; the port of the client may have changed.
type replayCache struct {
	now  func() time.Time
	seed maphash.Seed

	mu  sync.Mutex // guards lru; never held while a call runs
	lru *simplelru.LRU[replayKey, *replayEntry]
}

type replayKey struct {
	addr          netip.Addr
	xid, proc     uint32
	uid, gid      uint32
	length        int
	argumentsHash uint64
}

// replayEntry is a call that runs, or has run. What follows done is set before
// done is closed and constant afterwards.
type replayEntry struct {
	began time.Time // constant
	done  chan struct{}
	reply []byte // the results, nil if the call must be run again
}

func newReplayCache(size int) *replayCache {
	lru, err := simplelru.NewLRU[replayKey, *replayEntry](size, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &replayCache{now: time.Now, seed: maphash.MakeSeed(), lru: lru}
}

// key names a call; its arguments are not read by that.
func (r *replayCache) key(rc *rpc.Call) replayKey {
	args := rc.Args
	b := args.Rest()
	return replayKey{
		addr: rc.Conn.Remote().Addr(), xid: rc.XID, proc: rc.Procedure, uid: rc.Cred.UID, gid: rc.Cred.GID,
		length: len(b), argumentsHash: maphash.Bytes(r.seed, b),
	}
}

// begin returns the reply of an earlier call with this key, waiting for it if
// that call still runs. If there is none the caller runs the call, and ends it
// with finish of the entry it got. Both are nil if ctx ended.
func (r *replayCache) begin(ctx context.Context, k replayKey) (reply []byte, run *replayEntry) {
	for {
		now := r.now()
		r.mu.Lock()
		e, ok := r.lru.Get(k)
		if !ok || now.Sub(e.began) > replayTime {
			e = &replayEntry{began: now, done: make(chan struct{})}
			r.lru.Add(k, e)
			r.mu.Unlock()
			return nil, e
		}
		r.mu.Unlock()
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, nil
		}
		if e.reply != nil {
			return e.reply, nil
		}
	}
}

// finish ends the call that begin let run. reply, nil for a call that has
// changed nothing and may run again, is kept.
func (r *replayCache) finish(k replayKey, e *replayEntry, reply []byte) {
	e.reply = reply
	if reply == nil {
		r.mu.Lock()
		if now, ok := r.lru.Peek(k); ok && now == e {
			r.lru.Remove(k)
		}
		r.mu.Unlock()
	}
	close(e.done)
}
