package memory

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"capstan/export"
)

// The cookie of the n-th entry ever made in a directory is lastCookie-n:
// newest first, below 2^63, and never down to the reserved 0, 1 and 2.
const lastCookie = 1 << 62

// entrySize is what an entry counts in the size of a directory, entryCost what
// it costs of Options.MaxBytes beside its name: the entry, its node, their
// places in two maps and a list.
const (
	entrySize = 32
	entryCost = 640
)

func nameCost(name string) int64 { return entryCost + int64(len(name)) }

// directory is what a node of type directory has.
type directory struct {
	// parent is the directory above; the root's is the root. It changes under
	// Volume.moves and the names of both old and new parent.
	parent atomic.Pointer[node]

	names sync.RWMutex
	// Guarded by names.
	removed bool // no entry may be added any more
	entries map[string]*entry
	// order holds the entries by age, with nil or a removed entry where one is
	// gone, cut down when more than half of it is.
	order []*entry
	made  uint64 // entries ever made
}

// entry is a name in a directory. Guarded by directory.names.
type entry struct {
	name string
	seq  uint64 // constant: how many entries the directory had made before
	node *node  // nil when removed
}

func (e *entry) cookie() uint64 { return lastCookie - e.seq }

func newDirectory() *directory { return &directory{entries: make(map[string]*entry)} }

// addLocked adds an entry; the name must be free.
func (d *directory) addLocked(name string, n *node) {
	e := &entry{name: name, seq: d.made, node: n}
	d.made++
	d.entries[name] = e
	d.order = append(d.order, e)
}

// removeLocked removes e.
func (d *directory) removeLocked(e *entry) {
	delete(d.entries, e.name)
	e.node = nil
	if len(d.order) < 32 || len(d.order) < 2*len(d.entries) {
		return
	}
	live := d.order[:0]
	for _, e := range d.order {
		if e.node != nil {
			live = append(live, e)
		}
	}
	clear(d.order[len(live):])
	d.order = live
	if cap(d.order) > 4*len(d.order)+32 {
		d.order = append(make([]*entry, 0, 2*len(live)), live...)
	}
}

// behindLocked returns how many of d.order stand behind cookie in a listing,
// which goes from the end of d.order to its start.
func (d *directory) behindLocked(cookie uint64) int {
	if cookie == 0 {
		return len(d.order)
	}
	seq := lastCookie - cookie
	return sort.Search(len(d.order), func(i int) bool { return d.order[i].seq >= seq })
}

// changeDir records a change of the entries of the directory n: delta entries
// and links subdirectories more. The caller holds n.dir.names, which makes the
// Change atomic: nobody sees the entries in between.
func (n *node) changeDir(delta, links int, now time.Time) export.Change {
	n.mu.Lock()
	defer n.mu.Unlock()
	pre := n.attr.PreAttr()
	n.attr.Size = uint64(int64(n.attr.Size) + int64(delta)*entrySize)
	n.attr.Nlink = uint32(int64(n.attr.Nlink) + int64(links))
	n.touchDataLocked(now)
	return export.Change{Pre: pre, Post: n.attr, Atomic: true}
}
