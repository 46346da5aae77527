package nfs3

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// mountList is what DUMP shows: who mounted what, and did not say that it
// unmounted. It is a courtesy to administrators and means nothing else: a
// client that vanishes is never heard of again, so the list is bounded and the
// oldest mount drops out.
type mountList struct {
	mu  sync.Mutex // guards lru
	lru *simplelru.LRU[mountEntry, struct{}]
}

// mountEntry is a mount: the address of the client and the path it asked for.
type mountEntry struct{ host, path string }

func newMountList(size int) *mountList {
	lru, err := simplelru.NewLRU[mountEntry, struct{}](size, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &mountList{lru: lru}
}

// add reports whether the mount is new.
func (l *mountList) add(host, path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mountEntry{host, path}
	known := l.lru.Contains(m)
	l.lru.Add(m, struct{}{})
	return !known
}

func (l *mountList) remove(host, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lru.Remove(mountEntry{host, path})
}

func (l *mountList) removeHost(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.lru.Keys() {
		if m.host == host {
			l.lru.Remove(m)
		}
	}
}

// all returns the mounts, oldest first.
func (l *mountList) all() []mountEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lru.Keys()
}
