package billyfs

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"capstan/export"
	"capstan/export/billyfs/store"
	"capstan/internal/siphash"
)

// Keys of the store: 'n' inode -> node record; 'i' parent name -> inode, only
// for a filesystem without inode numbers; 'm' words -> facts.
var (
	keySip    = []byte("m sipkey")
	keyNextID = []byte("m next id")
)

func nodeKey(ino uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'n'}, ino) }

func idKey(r nameRef) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{'i'}, r.parent), r.name...)
}

// rootID is the number of the root where we number objects ourselves.
const rootID = 1

// idBlock is how many numbers are set aside with one record of the store.
const idBlock = 1024

// table is the handle table: which names an inode has, and the little a Volume
// must remember of it. The newest nodes are in memory, all of them are in the
// store. Everything in it that a reply told a client is in the store's log
// before the reply.
type table struct {
	db *store.Store
	// sip makes directory cookies: it is kept, so that they outlive a restart,
	// and secret, so that nobody can choose names that collide. Constant.
	sip siphash.Key
	// root is the inode of the root directory, which has no name. Set before
	// the first call from outside, then constant.
	root uint64

	// seq numbers our own changes; see observe.
	seq atomic.Uint64
	// epoch moves whenever a directory may have another path; cached paths of
	// older epochs are not used. Atomic.
	epoch atomic.Uint64

	mu    sync.Mutex
	nodes *simplelru.LRU[uint64, *node]
	// gone remembers objects we removed, so that their handles are known to be
	// stale without a search.
	gone *simplelru.LRU[uint64, uint32]
	// Numbers still to be given out: [nextID, endID).
	nextID, endID uint64
	err           error // first failure of a write; runs on
}

func openTable(path string, opt store.Options, inMemory int) (*table, error) {
	db, err := store.Open(path, opt)
	if err != nil {
		return nil, err
	}
	t := &table{db: db}
	t.nodes, _ = simplelru.NewLRU(inMemory, t.evictedLocked) // errs only on a size below 1
	t.gone, _ = simplelru.NewLRU[uint64, uint32](65536, nil)
	k, ok := db.Get(keySip)
	if !ok {
		k = make([]byte, 16)
		rand.Read(k)
		var b store.Batch
		b.Put(keySip, k)
		if err := db.Apply(&b, true); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	if len(k) != 16 {
		return nil, errors.Join(fmt.Errorf("billyfs: %s: bad cookie key", path), db.Close())
	}
	t.sip = siphash.Key{K0: binary.BigEndian.Uint64(k), K1: binary.BigEndian.Uint64(k[8:])}
	if v, ok := db.Get(keyNextID); ok && len(v) == 8 {
		t.nextID = binary.BigEndian.Uint64(v)
	} else {
		t.nextID = rootID + 1
	}
	t.endID = t.nextID
	return t, nil
}

// getLocked returns the node of ino, or nil. Called with t.mu held.
func (t *table) getLocked(ino uint64) *node {
	if n, ok := t.nodes.Get(ino); ok {
		return n
	}
	rec, ok := t.db.Get(nodeKey(ino))
	if !ok {
		return nil
	}
	n := decodeNode(ino, rec)
	if n != nil {
		t.nodes.Add(ino, n)
	}
	return n
}

// makeLocked is getLocked, but makes a node where there is none or only one of
// an older generation. Called with t.mu held.
func (t *table) makeLocked(ino uint64, gen uint32) *node {
	n := t.getLocked(ino)
	if n == nil || n.gen != gen {
		n = &node{ino: ino, gen: gen}
		t.nodes.Add(ino, n)
	}
	return n
}

// evictedLocked keeps the change attribute right: a change nobody has looked at
// yet must not be forgotten. Called by the LRU with t.mu held.
func (t *table) evictedLocked(_ uint64, n *node) {
	if (n.unsure || n.lastChange > n.seen) && t.keptLocked(n) {
		n.bump++
		t.applyLocked(false, n)
	}
}

// keptLocked reports whether n belongs into the store: not once it is nameless.
func (t *table) keptLocked(n *node) bool { return len(n.names) > 0 || n.ino == t.root }

// applyLocked writes the records of nodes. A failure is kept and the table
// runs on: handles given from then on may not survive the process. Called with
// t.mu held.
func (t *table) applyLocked(sync bool, nodes ...*node) error {
	var b store.Batch
	for _, n := range nodes {
		b.Put(nodeKey(n.ino), n.encode())
	}
	return t.writeLocked(&b, sync)
}

func (t *table) writeLocked(b *store.Batch, sync bool) error {
	err := t.db.Apply(b, sync)
	if err != nil && t.err == nil {
		t.err = err
	}
	return err
}

// names returns the known names of o, newest first; known is false if the
// table has never met it, gone is true if we removed it.
func (t *table) names(o export.Object) (names []nameRef, known, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.getLocked(o.Ino); n != nil && n.gen == o.NameHash {
		return slices.Clone(n.names), true, false
	}
	if gen, ok := t.gone.Get(o.Ino); ok && gen == o.NameHash {
		return nil, false, true
	}
	return nil, false, false
}

// found is one object met under a name, to be recorded.
type found struct {
	ref nameRef
	ino uint64
	gen uint32
}

// record remembers the names under which objects were met. Only what is new is
// written, in one record.
func (t *table) record(fs ...found) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b store.Batch
	for _, f := range fs {
		n := t.makeLocked(f.ino, f.gen)
		if n.add(f.ref) {
			t.gone.Remove(f.ino)
			if n.pathEpoch != 0 { // a directory whose path is cached
				n.pathEpoch = 0
				t.epoch.Add(1)
			}
			b.Put(nodeKey(n.ino), n.encode())
		}
	}
	if b.Empty() {
		return nil
	}
	return t.writeLocked(&b, false)
}

// forget removes a name; last says that the object has no other.
func (t *table) forget(ref nameRef, ino uint64, gen uint32, last, ids bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b store.Batch
	if ids {
		b.Delete(idKey(ref))
	}
	n := t.getLocked(ino)
	if n != nil && n.gen == gen {
		n.drop(ref)
		n.pathEpoch = 0
		if last {
			n.names = nil
			t.gone.Add(ino, gen)
			t.nodes.Remove(ino) // calls evictedLocked, which writes nothing for a nameless node
			b.Delete(nodeKey(ino))
		} else {
			b.Put(nodeKey(ino), n.encode())
		}
	}
	_ = t.writeLocked(&b, false)
}

// move records that an object has the name to instead of from.
func (t *table) move(from, to nameRef, ino uint64, gen uint32, ids bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b store.Batch
	n := t.makeLocked(ino, gen)
	n.drop(from)
	n.drop(to)
	n.add(to)
	n.pathEpoch = 0
	b.Put(nodeKey(ino), n.encode())
	if ids {
		b.Delete(idKey(from))
		b.Put(idKey(to), binary.BigEndian.AppendUint64(nil, ino))
	}
	_ = t.writeLocked(&b, false)
}

// assign returns our number for the object named ref, and gives it one if it
// is new; own is then what we know of it.
func (t *table) assign(ref nameRef, own func() ownAttr) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok := t.db.Get(idKey(ref)); ok && len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	var b store.Batch
	if t.nextID >= t.endID {
		t.endID = t.nextID + idBlock
		b.Put(keyNextID, binary.BigEndian.AppendUint64(nil, t.endID))
	}
	id := t.nextID
	t.nextID++
	o := own()
	n := &node{ino: id, names: []nameRef{ref}, own: &o}
	t.nodes.Add(id, n)
	b.Put(idKey(ref), binary.BigEndian.AppendUint64(nil, id))
	b.Put(nodeKey(id), n.encode())
	_ = t.writeLocked(&b, false)
	return id
}

// own returns the attributes kept for ino.
func (t *table) own(ino uint64) (ownAttr, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.getLocked(ino); n != nil && n.own != nil {
		return *n.own, true
	}
	return ownAttr{}, false
}

// setOwn changes the attributes kept for ino; nothing happens if there are none.
func (t *table) setOwn(ino uint64, f func(*ownAttr)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.getLocked(ino); n != nil && n.own != nil {
		f(n.own)
		_ = t.applyLocked(false, n)
	}
}

// setVerifier keeps the verifier of an exclusive create, on the disk.
func (t *table) setVerifier(ino uint64, gen uint32, v [8]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.makeLocked(ino, gen)
	n.verified, n.verifier = true, v
	return t.applyLocked(true, n)
}

// verifierOf returns the verifier of the exclusive create that made the object.
func (t *table) verifierOf(ino uint64, gen uint32) ([8]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.getLocked(ino)
	if n == nil || n.gen != gen {
		return [8]byte{}, false
	}
	return n.verifier, n.verified
}

func (t *table) close() error {
	t.mu.Lock()
	t.nodes.Purge() // writes the changes nobody has looked at
	err := t.err
	t.mu.Unlock()
	return errors.Join(err, t.db.Close())
}

// keepOwn begins to keep attributes for ino.
func (t *table) keepOwn(ino uint64, o ownAttr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.makeLocked(ino, 0)
	n.own = &o
	_ = t.applyLocked(false, n)
}
