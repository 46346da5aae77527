package billyfs

import (
	"slices"
	"sync"
)

// stripeCount is how many locks all inodes share. Two inodes on one stripe
// only wait for each other, they cannot deadlock: see lockSet.
const stripeCount = 1024

// stripes are the inode locks. A directory's lock held exclusively keeps its
// entries as they are, an object's lock its attributes; held shared they keep
// others from changing them.
type stripes [stripeCount]sync.RWMutex

type stripeRef struct {
	index     int
	exclusive bool
}

// lockSet is a set of inode locks that are taken together, in ascending order
// of their stripe.
type lockSet struct {
	s    *stripes
	refs []stripeRef
	buf  [4]stripeRef
}

func stripeOf(ino uint64) int {
	// Inode numbers that one directory got in a row go to different stripes.
	return int((ino * 0x9e3779b97f4a7c15) >> 54 % stripeCount)
}

// add puts ino into the set. Not after lock.
func (l *lockSet) add(ino uint64, exclusive bool) {
	if l.refs == nil {
		l.refs = l.buf[:0]
	}
	i := stripeOf(ino)
	for k := range l.refs {
		if l.refs[k].index == i {
			l.refs[k].exclusive = l.refs[k].exclusive || exclusive
			return
		}
	}
	l.refs = append(l.refs, stripeRef{i, exclusive})
}

func (l *lockSet) lock() {
	slices.SortFunc(l.refs, func(a, b stripeRef) int { return a.index - b.index })
	for _, r := range l.refs {
		if r.exclusive {
			l.s[r.index].Lock()
		} else {
			l.s[r.index].RLock()
		}
	}
}

func (l *lockSet) unlock() {
	for _, r := range l.refs {
		if r.exclusive {
			l.s[r.index].Unlock()
		} else {
			l.s[r.index].RUnlock()
		}
	}
	l.refs = nil
}
