package state

import (
	"context"
	"slices"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

// openOwner is an open_owner4 of a client (RFC 8881 section 9.5). It exists
// while it has opens. Guarded by Client.mu.
type openOwner struct {
	client  *Client // constant
	name    string  // constant
	opens   map[FileKey]*openState
	pending int // PendingOpens
}

// openState is what one open-owner has of one file: all its OPENs of the file
// together, with one stateid. Guarded by Client.mu.
type openState struct {
	number  uint64 // constant
	seq     uint32
	share   *share // access and deny are the unions over its OPENs
	combos  combos
	read    *handle // for reading, nil if not open for it; holds a reference
	write   *handle // for writing, may be the same as read, with its own reference
	locks   []*lockState
	revoked nfsv4.Status
}

// handleFor returns the open file that serves want, any one if want is 0, nil
// if it was not opened for that.
func (os *openState) handleFor(want Access) *handle {
	switch {
	case want&AccessWrite != 0, want == 0 && os.read == nil:
		return os.write
	}
	return os.read
}

// dieLocked takes os and its locks apart, but not out of the tables of the
// client. Preconditions: Client.mu; no fileShard.mu.
func (os *openState) dieLocked(l *leavings) {
	f := os.share.file
	f.shard.mu.Lock()
	f.removeShareLocked(os.share)
	f.shard.mu.Unlock()
	if os.read != nil {
		l.handles = append(l.handles, os.read)
	}
	if os.write != nil {
		l.handles = append(l.handles, os.write)
	}
	os.read, os.write = nil, nil
}

// combos is a set of pairs of access and deny, one bit each: those an
// open-owner's OPENs of a file had.
type combos uint16

func comboBit(access, deny Access) combos { return 1 << ((access-1)*4 + deny) }

// within returns the pairs that fit into access and deny, and their union.
func (cs combos) within(access, deny Access) (in combos, unionAccess, unionDeny Access) {
	for a := AccessRead; a <= AccessBoth; a++ {
		for d := Access(0); d <= AccessBoth; d++ {
			b := comboBit(a, d)
			if cs&b != 0 && a&^access == 0 && d&^deny == 0 {
				in |= b
				unionAccess |= a
				unionDeny |= d
			}
		}
	}
	return in, unionAccess, unionDeny
}

// ownerLocked returns the open-owner of a name, made if need be.
func (c *Client) ownerLocked(name []byte) *openOwner {
	o := c.openOwners[string(name)]
	if o == nil {
		o = &openOwner{client: c, name: string(name), opens: make(map[FileKey]*openState)}
		c.openOwners[o.name] = o
	}
	return o
}

func (o *openOwner) dropIfIdleLocked() {
	if len(o.opens)+o.pending == 0 {
		delete(o.client.openOwners, o.name)
	}
}

// OpenArgs say what OPEN wants. Owner is the opaque part of open_owner4; its
// client id is that of the session.
type OpenArgs struct {
	Owner   []byte // copied
	Key     FileKey
	Access  Access        // AccessRead, AccessWrite or AccessBoth, else NFS4ERR_INVAL
	Deny    Access        // any
	Reclaim bool          // CLAIM_PREVIOUS: NFS4ERR_NO_GRACE
	Volume  export.Volume // opens the file
}

// PendingOpen is a share reservation whose file is not open yet: others
// conflict with it already. It ends with Commit or Abort. One goroutine at a
// time may use it.
type PendingOpen struct {
	client *Client
	owner  *openOwner
	share  *share
	vol    export.Volume
	done   bool
}

// BeginOpen reserves what an OPEN wants (RFC 8881 section 18.16):
// NFS4ERR_SHARE_DENIED if another open-owner is in the way. Call it before the
// file is truncated or opened. State of expired clients yields.
func (c *Client) BeginOpen(ctx context.Context, a *OpenArgs) (*PendingOpen, nfsv4.Status) {
	if a.Access == 0 || a.Access&^AccessBoth != 0 || a.Deny&^AccessBoth != 0 {
		return nil, nfsv4.ErrInval
	}
	if st := c.CanOpen(a.Reclaim); st != nfsv4.OK {
		return nil, st
	}
	for range yieldRounds {
		p, inTheWay, st := c.reserve(a)
		if len(inTheWay) == 0 {
			return p, st
		}
		if ctx.Err() != nil || !c.store.yield(inTheWay, "another client needs a file it holds") {
			break
		}
	}
	return nil, nfsv4.ErrShareDenied
}

// reserve is one attempt: a PendingOpen, the clients in the way, or a status.
func (c *Client) reserve(a *OpenArgs) (*PendingOpen, []*Client, nfsv4.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil, nil, nfsv4.ErrExpired
	}
	if c.opens+c.pending >= c.store.opt.Limits.MaxOpens {
		return nil, nil, nfsv4.ErrDelay
	}
	o := c.ownerLocked(a.Owner)
	defer o.dropIfIdleLocked()
	sh := c.store.files.shard(a.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := sh.fileLocked(a.Key)
	if in := f.conflictsLocked(o, a.Access, a.Deny); len(in) > 0 {
		return nil, clientsOf(in), nfsv4.ErrShareDenied
	}
	p := &PendingOpen{client: c, owner: o, vol: a.Volume, share: &share{owner: o, access: a.Access, deny: a.Deny}}
	f.addShareLocked(p.share)
	o.pending++
	c.pending++
	return p, nil, nfsv4.OK
}

// endLocked takes the reservation back. Preconditions: Client.mu and the
// fileShard.mu of the file.
func (p *PendingOpen) endLocked() {
	p.done = true
	p.owner.pending--
	p.client.pending--
}

// Abort drops the reservation. After Commit it does nothing, so it may be
// deferred.
func (p *PendingOpen) Abort() {
	if p.done {
		return
	}
	c := p.client
	c.mu.Lock()
	defer c.mu.Unlock()
	f := p.share.file
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	p.endLocked()
	f.removeShareLocked(p.share)
	p.owner.dropIfIdleLocked()
}

// Commit makes it an open with f, which was opened for at least
// OpenArgs.Access and is the Store's from now on, also if Commit fails: it is
// closed when it is not needed. The stateid is new, or that of the owner's
// open of this file, upgraded.
func (p *PendingOpen) Commit(f export.File) (nfsv4.StateID, nfsv4.Status) {
	id, took, st := p.commit(f)
	if !took {
		p.client.store.closeFile(p.share.file.key, f)
	}
	return id, st
}

func (p *PendingOpen) commit(f export.File) (_ nfsv4.StateID, took bool, _ nfsv4.Status) {
	c, fl := p.client, p.share.file
	c.mu.Lock()
	defer c.mu.Unlock()
	fl.shard.mu.Lock()
	defer fl.shard.mu.Unlock()
	if p.done {
		return nfsv4.StateID{}, false, nfsv4.ErrServerFault
	}
	p.endLocked()
	if c.dead || fl.gone {
		fl.removeShareLocked(p.share)
		p.owner.dropIfIdleLocked()
		if c.dead {
			return nfsv4.StateID{}, false, nfsv4.ErrExpired
		}
		return nfsv4.StateID{}, false, nfsv4.ErrStale
	}
	access, deny := p.share.access, p.share.deny
	os := p.owner.opens[fl.key]
	if os == nil {
		os = &openState{number: c.store.ids.Add(1), seq: 1, share: p.share}
		p.owner.opens[fl.key] = os
		c.states[os.number] = stateRef{open: os}
		c.opens++
	} else {
		os.seq = nextSeq(os.seq)
		fl.removeShareLocked(p.share)
		fl.setShareLocked(os.share, os.share.access|access, os.share.deny|deny)
	}
	os.combos |= comboBit(access, deny)

	need := access
	if os.read != nil {
		need &^= AccessRead
	}
	if os.write != nil {
		need &^= AccessWrite
	}
	if need != 0 {
		var h *handle
		h, took = fl.handleLocked(c.store, need, access, f, p.vol)
		if need == AccessBoth {
			h.hold()
		}
		if need&AccessRead != 0 {
			os.read = h
		}
		if need&AccessWrite != 0 {
			os.write = h
		}
	}
	return c.store.stateID(os.number, os.seq), took, nfsv4.OK
}

// findOpenLocked is findOnLocked for what must be the stateid of an open.
func (c *Client) findOpenLocked(id nfsv4.StateID, key FileKey) (*openState, nfsv4.Status) {
	ref, st := c.findOnLocked(id, key)
	if st != nfsv4.OK {
		return nil, st
	}
	if ref.open == nil {
		return nil, nfsv4.ErrBadStateID
	}
	return ref.open, nfsv4.OK
}

// OpenDowngrade is OPEN_DOWNGRADE (RFC 8881 section 18.18): access and deny
// must be the union of some of the owner's OPENs of the file, else
// NFS4ERR_INVAL.
func (c *Client) OpenDowngrade(ctx context.Context, id nfsv4.StateID, key FileKey, access, deny Access) (nfsv4.StateID, nfsv4.Status) {
	if access == 0 || access&^AccessBoth != 0 || deny&^AccessBoth != 0 {
		return nfsv4.StateID{}, nfsv4.ErrInval
	}
	var l leavings
	newID, st := c.downgrade(id, key, access, deny, &l)
	c.store.giveBack(context.WithoutCancel(ctx), &l)
	return newID, st
}

func (c *Client) downgrade(id nfsv4.StateID, key FileKey, access, deny Access, l *leavings) (nfsv4.StateID, nfsv4.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	os, st := c.findOpenLocked(id, key)
	if st != nfsv4.OK {
		return nfsv4.StateID{}, st
	}
	in, a, d := os.combos.within(access, deny)
	if a != access || d != deny {
		return nfsv4.StateID{}, nfsv4.ErrInval
	}
	f := os.share.file
	f.shard.mu.Lock()
	f.setShareLocked(os.share, access, deny)
	f.shard.mu.Unlock()
	os.combos = in
	if access&AccessRead == 0 && os.read != nil {
		l.handles = append(l.handles, os.read)
		os.read = nil
	}
	if access&AccessWrite == 0 && os.write != nil {
		l.handles = append(l.handles, os.write)
		os.write = nil
	}
	os.seq = nextSeq(os.seq)
	return c.store.stateID(os.number, os.seq), nfsv4.OK
}

// Close is CLOSE (RFC 8881 section 18.2). Locks held through the open are
// given back. The stateid returned is the special invalid one.
func (c *Client) Close(ctx context.Context, id nfsv4.StateID, key FileKey) (nfsv4.StateID, nfsv4.Status) {
	var l leavings
	c.mu.Lock()
	os, st := c.findOpenLocked(id, key)
	if st == nfsv4.OK {
		for _, ls := range slices.Clone(os.locks) {
			ls.removeLocked()
			ls.dieLocked(&l)
		}
		o := os.share.owner
		delete(c.states, os.number)
		delete(o.opens, key)
		c.opens--
		o.dropIfIdleLocked()
		os.dieLocked(&l)
	}
	c.mu.Unlock()
	if st != nfsv4.OK {
		return nfsv4.StateID{}, st
	}
	c.store.giveBack(context.WithoutCancel(ctx), &l)
	return nfsv4.InvalidStateID, nfsv4.OK
}
