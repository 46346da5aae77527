package export

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// pseudoRights is what everybody has on the pseudo tree.
var pseudoRights = Rights{Cred: &Cred{UID: Nobody, GID: Nobody, Client: "anybody"}, ReadOnly: true}

// Enter applies the access rules, versions and squashing of e to the caller p:
// it returns the credential to use on e and whether p may only read. The error
// is [ErrAccess] if p may not enter, [ErrDelay] if that cannot be told now, or
// the error of a Volume that cannot name its root.
//
// The answer is remembered per caller and export, and then costs no memory.
func (t *Table) Enter(ctx context.Context, p *Peer, e *Export, v Version) (Rights, error) {
	if e.ID == 0 {
		return pseudoRights, nil
	}
	if !e.Versions.Has(v) {
		return Rights{}, ErrAccess
	}
	if e.root.Load() == nil {
		if _, err := e.Root(ctx); err != nil {
			return Rights{}, err
		}
	}
	key := keyOf(p, e)
	shard := t.rights.shard(&key)
	r := shard.get(&key, p.Groups)
	if r == nil {
		var err error
		if r, err = t.decide(ctx, p, key.addr, e); err != nil {
			return Rights{}, err
		}
		shard.add(&key, r)
	}
	if r.rights.Cred == nil {
		return Rights{}, ErrAccess
	}
	return r.rights, nil
}

// decide works out what Enter remembers. The Cred of one who may not enter is
// nil.
func (t *Table) decide(ctx context.Context, p *Peer, addr netip.Addr, e *Export) (*rightsEntry, error) {
	rule, until, err := t.rule(ctx, e, addr)
	if err != nil {
		return nil, err
	}
	r := &rightsEntry{groups: slices.Clone(p.Groups), until: until}
	if rule == nil || rule.Grant == GrantNone {
		return r, nil
	}
	how := e.Squash
	if rule.Squash != SquashDefault {
		how = rule.Squash
	}
	uid, gid, groups := p.UID, p.GID, p.Groups
	if p.Flavor != FlavorSys {
		uid, gid, groups = invalidID, invalidID, nil
	}
	if e.ManageGIDs && how != SquashAll && uid != invalidID {
		own, again, err := t.identity.Groups(ctx, uid)
		switch {
		case err == nil:
			groups = own
		case ctx.Err() != nil:
			return nil, StatusOf(ctx.Err())
		}
		// Unknown here or not to be had now: what the caller sent must do.
		if until.IsZero() || again.Before(until) {
			r.until = again
		}
	}
	r.rights = Rights{
		Cred:     squash(e, how, uid, gid, groups),
		ReadOnly: e.ReadOnly || rule.Grant == GrantRO || e.Volume.Features().ReadOnly,
	}
	r.rights.Cred.Client = addr.String()
	return r, nil
}

// rightsShards and rightsPerShard bound what Enter remembers. The shards keep
// callers on many connections from meeting at one lock.
const (
	rightsShards   = 16
	rightsPerShard = 512
)

// rightsCache remembers what Enter found, per caller and export.
type rightsCache [rightsShards]rightsShard

type rightsShard struct {
	mu  sync.Mutex // guards lru
	lru *simplelru.LRU[rightsKey, *rightsEntry]
	_   [48]byte // shards on cache lines of their own
}

// rightsKey is a caller on an export. groups is a hash of the groups, which an
// entry holds whole.
type rightsKey struct {
	addr   netip.Addr
	groups uint64
	export uint32
	flavor uint32
	uid    uint32
	gid    uint32
}

// rightsEntry is immutable.
type rightsEntry struct {
	rights Rights
	groups []uint32  // as the caller sent them
	until  time.Time // zero: for ever
}

func (c *rightsCache) init() {
	for i := range c {
		l, err := simplelru.NewLRU[rightsKey, *rightsEntry](rightsPerShard, nil)
		if err != nil {
			panic(err) // the size is positive
		}
		c[i].lru = l
	}
}

func keyOf(p *Peer, e *Export) rightsKey {
	k := rightsKey{addr: p.addr(), export: e.ID, flavor: p.Flavor, uid: p.UID, gid: p.GID, groups: uint64(len(p.Groups))}
	for _, g := range p.Groups {
		k.groups = (k.groups ^ uint64(g)) * 0x9e3779b97f4a7c15
		k.groups ^= k.groups >> 29
	}
	return k
}

func (c *rightsCache) shard(k *rightsKey) *rightsShard {
	a := k.addr.As16()
	h := binary.BigEndian.Uint64(a[:8]) ^ binary.BigEndian.Uint64(a[8:]) ^ uint64(k.uid)<<32 ^ uint64(k.export)
	h *= 0x9e3779b97f4a7c15
	return &c[h>>60]
}

// get returns what is known of k, whose groups are groups, or nil.
func (s *rightsShard) get(k *rightsKey, groups []uint32) *rightsEntry {
	s.mu.Lock()
	r, _ := s.lru.Get(*k)
	s.mu.Unlock()
	if r == nil || !slices.Equal(r.groups, groups) {
		return nil
	}
	if !r.until.IsZero() && !time.Now().Before(r.until) {
		return nil
	}
	return r
}

func (s *rightsShard) add(k *rightsKey, r *rightsEntry) {
	s.mu.Lock()
	s.lru.Add(*k, r)
	s.mu.Unlock()
}
