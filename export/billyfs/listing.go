package billyfs

import (
	"strings"
	"sync"
	"time"

	"github.com/google/btree"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"capstan/export"
)

// Directory cookies are 63-bit keyed hashes of the names, so they need no state,
// stay good when other entries come and go, and are the same after a restart.
// Two names of one hash (by chance once in 10^7 directories of a million
// names; on purpose not without the key) are told apart by adding one to the
// later in order of name: only then a removal can shift a cookie, by one.
//
// A directory is listed by name once and the sorted listing is kept. Later
// pages go on in it. The cost that this avoids: an rm -rf of n entries comes
// back after every page of p entries, and listing what is left each time would
// cost n*n/2p entries. Instead every change that goes through us is made in
// the kept listing too, in O(log n), and a listing is read anew only
//
//   - from cookie 0, when the directory's stamp (mtime, ctime, counter) is not
//     the one that the listing was last brought up to, so others changed it;
//   - from cookie 0, when that stamp is so young that a later change of others
//     could carry the same one (racyWindow), and the listing is older than
//     racyTrust. So a change of others can stay unseen that long, no longer;
//   - when it was dropped to make room.
//
// Every entry of a page is looked up before it is handed out if attributes are
// asked for or the filesystem's listing does not tell the object, and left out
// if it is gone.

const (
	racyWindow = 20 * time.Millisecond // above the tick of any kernel's clock
	racyTrust  = time.Second
)

// entry is one name of a listing.
type entry struct {
	hash uint64 // 63 bits, 3 and more
	name string
	typ  export.FileType // 0: unknown
	ino  uint64          // 0: unknown
}

func entryLess(a, b entry) bool {
	if a.hash != b.hash {
		return a.hash < b.hash
	}
	return a.name < b.name
}

func (t *table) nameHash(name string) uint64 {
	return max(t.sip.Sum64([]byte(name))>>1, 3)
}

// dirStamp tells states of a directory apart.
type dirStamp struct {
	mtime, ctime export.Timespec
	stamp        uint64
}

func stampOfDir(info *Info) dirStamp {
	return dirStamp{info.Mtime, info.Ctime, info.Stamp}
}

// listing is the kept listing of one directory.
type listing struct {
	mu      sync.Mutex
	entries *btree.BTreeG[entry] // guarded by mu
	stamp   dirStamp             // guarded by mu: what entries were brought up to
	stamped time.Time            // guarded by mu: when
	stale   bool                 // guarded by mu: others changed the directory; good for later pages only
	counted int                  // guarded by listings.mu: what it counts for there
}

// listings are the kept listings, the least recently used dropped first.
type listings struct {
	mu      sync.Mutex
	lru     *simplelru.LRU[export.Object, *listing]
	entries int // guarded by mu, of all listings
	limit   int
}

func newListings(limit int) *listings {
	l := &listings{limit: limit}
	l.lru, _ = simplelru.NewLRU(4096, func(_ export.Object, x *listing) { l.entries -= x.counted }) // called with mu held
	return l
}

func (l *listings) get(dir export.Object) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, _ := l.lru.Get(dir)
	return x
}

func (l *listings) put(dir export.Object, x *listing) {
	n := x.entries.Len() // before anyone else sees x
	l.mu.Lock()
	l.lru.Remove(dir)
	l.lru.Add(dir, x)
	l.mu.Unlock()
	l.recount(dir, x, n)
}

// recount notes that x has n entries now, and makes room. A single listing may
// be above the limit.
func (l *listings) recount(dir export.Object, x *listing, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept, ok := l.lru.Peek(dir); !ok || kept != x {
		return
	}
	l.entries += n + 8 - x.counted
	x.counted = n + 8
	for l.entries > l.limit && l.lru.Len() > 1 {
		l.lru.RemoveOldest()
	}
}

func (l *listings) drop(dir export.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lru.Remove(dir)
}

// current reports whether x shows the directory as info has it.
func (x *listing) current(info *Info, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stale || x.stamp != stampOfDir(info) {
		return false
	}
	young := x.stamped.Sub(x.stamp.ctime.Time()) < racyWindow
	return !young || now.Sub(x.stamped) < racyTrust
}

// edit makes one change of ours, which took the directory from pre to post, in
// its kept listing. The caller holds the directory exclusively.
func (v *Volume) edit(dir export.Object, pre, post *Info, removed string, added *entry) {
	x := v.lists.get(dir)
	if x == nil {
		return
	}
	x.mu.Lock()
	if x.stamp != stampOfDir(pre) {
		x.stale = true
	}
	x.stamp, x.stamped = stampOfDir(post), v.opt.now()
	if removed != "" {
		x.entries.Delete(entry{hash: v.table.nameHash(removed), name: removed})
	}
	if added != nil {
		added.hash = v.table.nameHash(added.name)
		x.entries.ReplaceOrInsert(*added)
	}
	n := x.entries.Len()
	x.mu.Unlock()
	v.lists.recount(dir, x, n)
}

// after returns up to n entries behind cookie with their cookies.
func (x *listing) after(cookie uint64, n int, buf []entry, cookies []uint64) ([]entry, []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var last uint64 // cookie of the entry before
	// Colliding names may have cookies above their hash: begin a little before.
	from := cookie
	if from > 64 {
		from -= 64
	} else {
		from = 0
	}
	x.entries.AscendGreaterOrEqual(entry{hash: from}, func(e entry) bool {
		c := max(e.hash, last+1)
		last = c
		if c <= cookie {
			return true
		}
		buf, cookies = append(buf, e), append(cookies, c)
		return len(buf) < n
	})
	return buf, cookies
}

// readNames lists the directory at path.
func (v *Volume) readNames(path string) ([]entry, error) {
	var es []entry
	if v.ext.lister != nil {
		err := v.ext.lister.ReadNames(path, func(name string, typ export.FileType, ino uint64) {
			es = append(es, entry{name: name, typ: typ, ino: ino})
		})
		return es, err
	}
	fis, err := v.fs.ReadDir(path)
	if err != nil {
		if path == "." && v.plain && export.StatusOf(err) == export.ErrNoEnt {
			return nil, nil
		}
		return nil, err
	}
	for _, fi := range fis {
		es = append(es, entry{name: fi.Name()})
	}
	return es, nil
}

func splitPath(path string) []string { return strings.Split(path, "/") }
