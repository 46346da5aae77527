package memory

import (
	"sync"
	"time"

	"capstan/export"
)

// node is one object of a Volume.
type node struct {
	// Constant.
	ino     uint64
	typ     export.FileType
	target  string     // of a symbolic link
	dir     *directory // of a directory, else nil
	content *content   // of a regular file, else nil

	mu sync.RWMutex
	// Guarded by mu.
	attr   export.Attr
	xattrs map[string][]byte
	opens  int  // open Files
	dead   bool // nothing can reach it any more: no name and no open File
	// verifier is of the exclusive create that made it.
	verifier    [8]byte
	hasVerifier bool
}

// newNode makes a node that has the type, mode, owner and size of a and is not
// reachable yet.
func newNode(ino uint64, a export.Attr, now time.Time) *node {
	t := export.TimespecOf(now)
	a.FileID = ino
	a.Nlink = 1
	a.Atime, a.Mtime, a.Ctime, a.Btime = t, t, t, t
	a.Change = uint64(now.UnixNano())
	n := &node{ino: ino, typ: a.Type, attr: a}
	switch a.Type {
	case export.TypeDirectory:
		n.dir = newDirectory()
		n.attr.Nlink = 2
	case export.TypeRegular:
		n.content = new(content)
	}
	return n
}

func (n *node) object() export.Object { return export.Live(n.ino) }

// getAttr returns the attributes of a live node.
func (n *node) getAttr() (export.Attr, export.Status) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.dead {
		return export.Attr{}, export.ErrStale
	}
	return n.attr, export.OK
}

// snapshot returns the attributes of a node whether it is live or not.
func (n *node) snapshot() export.Attr {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.attr
}

// permits checks the permission bits of a live node.
func (n *node) permits(c *export.Cred, want export.Permission) export.Status {
	n.mu.RLock()
	defer n.mu.RUnlock()
	switch {
	case n.dead:
		return export.ErrStale
	case !export.Permits(c, &n.attr, want):
		return export.ErrAccess
	}
	return export.OK
}

// touchLocked marks a change of attributes now: a new ctime, and a change
// attribute above every earlier one even within one tick of the clock. It also
// follows the clock, so that a root directory of a new Volume does not repeat
// the values of the one before it.
func (n *node) touchLocked(now time.Time) {
	n.attr.Ctime = export.TimespecOf(now)
	n.attr.Change = max(n.attr.Change+1, uint64(now.UnixNano()))
}

// touchDataLocked is touchLocked for a change of data or entries.
func (n *node) touchDataLocked(now time.Time) {
	n.touchLocked(now)
	n.attr.Mtime = n.attr.Ctime
}

// unchanged is the Change of a call that changed nothing.
func (n *node) unchanged() export.Change {
	a := n.snapshot()
	return export.Change{Pre: a.PreAttr(), Post: a, Atomic: true}
}

// unlink takes links names from n and reports whether that was the end of it;
// then the caller passes it to Volume.drop once it holds no lock.
func (n *node) unlink(links uint32, now time.Time) (gone bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attr.Nlink -= links
	n.touchLocked(now)
	n.dead = n.attr.Nlink == 0 && n.opens == 0
	return n.dead
}

// drop frees a node that has just become dead. The caller holds no lock.
func (v *Volume) drop(n *node) {
	v.table.remove(n.ino)
	if n.content != nil {
		n.content.free(v)
	}
	n.mu.Lock()
	xattrs := n.xattrs
	n.xattrs = nil
	n.mu.Unlock()
	for name, value := range xattrs {
		v.space.give(xattrCost(name, value))
	}
	v.space.give(int64(len(n.target)))
	v.files.give(1)
}

// table finds nodes by inode number. It is cut into shards so that goroutines
// working on different files rarely meet.
type table struct {
	shards [64]shard
}

type shard struct {
	mu    sync.RWMutex
	nodes map[uint64]*node // guarded by mu
	_     [32]byte         // keeps shards on different cache lines
}

func (t *table) init() {
	for i := range t.shards {
		t.shards[i].nodes = make(map[uint64]*node)
	}
}

func (t *table) shard(ino uint64) *shard { return &t.shards[ino%uint64(len(t.shards))] }

func (t *table) get(ino uint64) *node {
	s := t.shard(ino)
	s.mu.RLock()
	n := s.nodes[ino]
	s.mu.RUnlock()
	return n
}

func (t *table) put(n *node) {
	s := t.shard(n.ino)
	s.mu.Lock()
	s.nodes[n.ino] = n
	s.mu.Unlock()
}

func (t *table) remove(ino uint64) {
	s := t.shard(ino)
	s.mu.Lock()
	delete(s.nodes, ino)
	s.mu.Unlock()
}
