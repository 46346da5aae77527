package export

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// pseudoTree holds the directories that join the exports: the Volume of the
// pseudo export. It is built by one goroutine and constant afterwards.
//
// A directory's inode number is made from its path, so that handles and
// cookies are the same after a restart and on every gateway that has the same
// path. The number of a child is also its cookie, and the order of a listing.
//
// The place where an export is joined is a directory of the tree too, which is
// never shown: crossing it leads to the export's root. It gives the export its
// mounted-on number.
type pseudoTree struct {
	root *pseudoDir
	inos map[uint64]*pseudoDir
	old  *pseudoTree // the predecessor, until finish
}

type pseudoDir struct {
	ino      uint64
	name     string
	path     string
	parent   *pseudoDir // nil of the root
	export   *Export    // joined here; then there are no children
	children map[string]*pseudoDir
	order    []*pseudoDir // children by ino

	// sum stands for everything that decides what some peer sees here.
	sum    [sha256.Size]byte
	change uint64
	time   Timespec
}

func newPseudoTree() *pseudoTree {
	root := &pseudoDir{ino: pseudoIno("/"), path: "/"}
	return &pseudoTree{root: root, inos: map[uint64]*pseudoDir{root.ino: root}}
}

// pseudoIno returns the inode number of the pseudo directory at path: from 3,
// the lowest cookie, to 2^63-1, the highest number a client's off_t holds.
func pseudoIno(path string) uint64 {
	sum := sha256.Sum256([]byte("capstan pseudo " + path))
	return binary.BigEndian.Uint64(sum[:])>>2 | 1<<62
}

// add makes the directories down to e and joins it there.
func (t *pseudoTree) add(e *Export) (*pseudoDir, error) {
	d := t.root
	for end := 1; end < len(e.Path); {
		start := end
		if i := strings.IndexByte(e.Path[start:], '/'); i >= 0 {
			end = start + i
		} else {
			end = len(e.Path)
		}
		if d.export != nil {
			return nil, fmt.Errorf("lies inside export %q", d.path)
		}
		next, err := t.child(d, e.Path[start:end], e.Path[:end])
		if err != nil {
			return nil, err
		}
		d, end = next, end+1
	}
	switch {
	case d.export != nil:
		return nil, errors.New("the path is there twice")
	case len(d.children) > 0:
		return nil, errors.New("another export lies inside it")
	}
	d.export = e
	return d, nil
}

func (t *pseudoTree) child(d *pseudoDir, name, path string) (*pseudoDir, error) {
	if c := d.children[name]; c != nil {
		return c, nil
	}
	c := &pseudoDir{ino: pseudoIno(path), name: name, path: path, parent: d}
	if other := t.inos[c.ino]; other != nil {
		return nil, fmt.Errorf("the inode number of %q is that of %q: choose another name", path, other.path)
	}
	t.inos[c.ino] = c
	if d.children == nil {
		d.children = make(map[string]*pseudoDir)
	}
	d.children[name] = c
	return c, nil
}

// finish orders the tree and gives each directory its times and its change
// attribute: those it had if it is what it was, else new ones that are above
// them, whatever the clock says.
func (t *pseudoTree) finish(now time.Time) {
	t.root.sort()
	for _, d := range t.inos {
		d.change, d.time = uint64(now.UnixNano()), TimespecOf(now)
		if t.old == nil {
			continue
		}
		if was := t.old.inos[d.ino]; was != nil && was.sum == d.sum {
			d.change, d.time = was.change, was.time
		} else if was != nil {
			d.change = max(d.change, was.change+1)
		}
	}
	t.old = nil
}

// sort orders the children of d and everything below, and sums them up.
func (d *pseudoDir) sort() {
	d.order = make([]*pseudoDir, 0, len(d.children))
	for _, c := range d.children {
		c.sort()
		d.order = append(d.order, c)
	}
	slices.SortFunc(d.order, func(a, b *pseudoDir) int { return cmp.Compare(a.ino, b.ino) })

	var b bytes.Buffer
	if e := d.export; e != nil {
		fmt.Fprintf(&b, "%d %v %v", e.ID, e.FileSystem(), e.Versions)
		for _, r := range e.Rules {
			fmt.Fprintf(&b, " %v %v", r.Client, r.Grant)
		}
	}
	for _, c := range d.order {
		b.Write(binary.BigEndian.AppendUint64(nil, c.ino))
		b.Write(c.sum[:])
	}
	d.sum = sha256.Sum256(b.Bytes())
}

// from returns the children of d whose cookie is above cookie.
func (d *pseudoDir) from(cookie uint64) []*pseudoDir {
	i, found := slices.BinarySearchFunc(d.order, cookie, func(c *pseudoDir, cookie uint64) int {
		return cmp.Compare(c.ino, cookie)
	})
	if found {
		i++
	}
	return d.order[i:]
}

// attr returns the attributes of d. Its link count is 1, which tells find(1)
// not to count subdirectories by it: how many there are hangs on who asks.
func (d *pseudoDir) attr() Attr {
	return Attr{
		Type: TypeDirectory, Mode: 0o555, Nlink: 1, FileID: d.ino, Size: 4096, Used: 4096,
		Atime: d.time, Mtime: d.time, Ctime: d.time, Btime: d.time, Change: d.change,
	}
}
