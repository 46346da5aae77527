package state

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

// FileKey names an open file's object.
type FileKey struct {
	Export uint32 // export.Export.ID
	Object export.Object
}

// Access is a set of share access or share deny bits (OPEN4_SHARE_ACCESS_*,
// OPEN4_SHARE_DENY_*) without the delegation wants.
type Access uint32

// The bits.
const (
	AccessRead  Access = 1
	AccessWrite Access = 2
	AccessBoth  Access = 3
)

// file is what all clients together hold of one object: share reservations and
// open files. It exists while there are shares; it says nothing about names,
// so a removed file stays open. All fields are guarded by the fileShard.mu of
// its key.
type file struct {
	key     FileKey
	shard   *fileShard // constant
	shares  []*share
	accRead int // shares with these bits
	accWrit int
	denRead int
	denWrit int
	gone    bool       // its export went away
	handles [4]*handle // by Access; those whose last use ended are replaced
}

// share is one open-owner's reservation of a file (RFC 8881 section 9.7),
// pending or of an open. Changed under both Client.mu and fileShard.mu, read
// under either.
type share struct {
	owner        *openOwner
	file         *file
	access, deny Access
	index        int // in file.shares
}

// handle is an open file shared by opens. file is closed when the last
// reference is released.
type handle struct {
	file  export.File   // constant
	vol   export.Volume // constant: that opened file
	of    *file         // constant
	mode  Access        // constant
	refs  atomic.Int32
	store *Store
}

// hold takes another reference. Precondition: the caller has or guards one.
func (h *handle) hold() *handle {
	h.refs.Add(1)
	return h
}

// tryHold takes a reference unless the last one is gone.
func (h *handle) tryHold() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release drops a reference, and closes the file with the last. Precondition:
// no lock is held.
func (h *handle) release() {
	if h.refs.Add(-1) > 0 {
		return
	}
	sh := h.of.shard
	sh.mu.Lock()
	if h.of.handles[h.mode] == h {
		h.of.handles[h.mode] = nil
	}
	sh.mu.Unlock()
	h.store.closeFile(h.of.key, h.file)
}

func (s *Store) closeFile(key FileKey, f export.File) {
	if err := f.Close(); err != nil {
		s.opt.Logger.Warn("an open file did not close cleanly",
			"export", key.Export, "inode", key.Object.Ino, "err", err)
	}
}

// fileTable finds files by key.
type fileTable struct {
	seed   maphash.Seed
	shards [64]fileShard
}

type fileShard struct {
	mu    sync.Mutex
	files map[FileKey]*file
}

func (t *fileTable) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].files = make(map[FileKey]*file)
	}
}

func (t *fileTable) shard(key FileKey) *fileShard {
	return &t.shards[maphash.Comparable(t.seed, key)%uint64(len(t.shards))]
}

// fileLocked returns the file of key, made if need be.
func (sh *fileShard) fileLocked(key FileKey) *file {
	f := sh.files[key]
	if f == nil {
		f = &file{key: key, shard: sh}
		sh.files[key] = f
	}
	return f
}

// dropIfIdleLocked forgets f if nobody has it open.
func (f *file) dropIfIdleLocked() {
	if len(f.shares) == 0 && f.shard.files[f.key] == f {
		delete(f.shard.files, f.key)
	}
}

func (f *file) countLocked(access, deny Access, n int) {
	if access&AccessRead != 0 {
		f.accRead += n
	}
	if access&AccessWrite != 0 {
		f.accWrit += n
	}
	if deny&AccessRead != 0 {
		f.denRead += n
	}
	if deny&AccessWrite != 0 {
		f.denWrit += n
	}
}

func (f *file) addShareLocked(s *share) {
	s.file, s.index = f, len(f.shares)
	f.shares = append(f.shares, s)
	f.countLocked(s.access, s.deny, 1)
}

func (f *file) removeShareLocked(s *share) {
	last := len(f.shares) - 1
	f.shares[s.index] = f.shares[last]
	f.shares[s.index].index = s.index
	f.shares[last] = nil
	f.shares = f.shares[:last]
	f.countLocked(s.access, s.deny, -1)
	f.dropIfIdleLocked()
}

// setShareLocked changes what s reserves.
func (f *file) setShareLocked(s *share, access, deny Access) {
	f.countLocked(s.access, s.deny, -1)
	s.access, s.deny = access, deny
	f.countLocked(s.access, s.deny, 1)
}

// conflictsLocked returns the shares of owners other than owner that access
// and deny cannot be granted beside: those that deny the access, and those
// that have what is to be denied.
func (f *file) conflictsLocked(owner *openOwner, access, deny Access) []*share {
	if !(access&AccessRead != 0 && f.denRead > 0 || access&AccessWrite != 0 && f.denWrit > 0 ||
		deny&AccessRead != 0 && f.accRead > 0 || deny&AccessWrite != 0 && f.accWrit > 0) {
		return nil // the usual case, however many have it open
	}
	var in []*share
	for _, s := range f.shares {
		if s.owner != owner && (s.deny&access != 0 || s.access&deny != 0) {
			in = append(in, s)
		}
	}
	return in
}

// clientsOf returns whose shares these are, each client once.
func clientsOf(shares []*share) []*Client {
	var cs []*Client
next:
	for _, s := range shares {
		for _, c := range cs {
			if c == s.owner.client {
				continue next
			}
		}
		cs = append(cs, s.owner.client)
	}
	return cs
}

// yield discards the clients in the way if every one of them is expired; it
// reports whether it is worth looking again.
func (s *Store) yield(inTheWay []*Client, reason string) bool {
	for _, c := range inTheWay {
		if !s.discardable(c) {
			return false
		}
	}
	for _, c := range inTheWay {
		if !s.discardExpired(c, reason) {
			return false
		}
	}
	return true
}

// yieldRounds is how often an operation looks again after expired clients have
// made room; others may have come in between.
const yieldRounds = 8

// handleLocked returns a reference to an open file that serves need: one there
// is already, or f, which v opened for mode and is then the handle's. need is
// within mode.
func (fl *file) handleLocked(s *Store, need, mode Access, f export.File, v export.Volume) (h *handle, took bool) {
	if h := fl.handles[need]; h != nil && h.tryHold() {
		return h, false
	}
	if h := fl.handles[AccessBoth]; h != nil && h.tryHold() {
		return h, false
	}
	h = &handle{file: f, vol: v, of: fl, mode: mode, store: s}
	h.refs.Store(1)
	fl.handles[mode] = h
	return h, true
}

// CheckDeny returns NFS4ERR_LOCKED if an open denies others this access, for
// requests without open state (special stateids, NFSv3). State of expired
// clients yields.
func (s *Store) CheckDeny(ctx context.Context, key FileKey, access Access) nfsv4.Status {
	sh := s.files.shard(key)
	for range yieldRounds {
		sh.mu.Lock()
		f := sh.files[key]
		if f == nil || !(access&AccessRead != 0 && f.denRead > 0 || access&AccessWrite != 0 && f.denWrit > 0) {
			sh.mu.Unlock()
			return nfsv4.OK
		}
		inTheWay := clientsOf(f.conflictsLocked(nil, access, 0))
		sh.mu.Unlock()
		if ctx.Err() != nil || !s.yield(inTheWay, "another client needs a file it denies") {
			break
		}
	}
	return nfsv4.ErrLocked
}

// Removed tells that key lost its last name, or was replaced by a rename:
// expired clients that keep it open are discarded, so that its space comes
// free.
func (s *Store) Removed(ctx context.Context, key FileKey) {
	sh := s.files.shard(key)
	sh.mu.Lock()
	var holders []*Client
	if f := sh.files[key]; f != nil {
		holders = clientsOf(f.shares)
	}
	sh.mu.Unlock()
	for _, c := range holders {
		if ctx.Err() == nil && s.discardable(c) {
			s.discardExpired(c, "a file it holds was removed")
		}
	}
}
