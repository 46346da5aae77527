package billyfs

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"capstan/export"
)

// searcher finds objects again that were moved behind our back, or whose name
// was lost with the machine. It costs a walk, so there is one at a time, each
// looks at no more than Options.SearchLimit entries, and what was not found is
// not looked for again for a while.
type searcher struct {
	mu     sync.Mutex // held while searching
	failed *lru.Cache[export.Object, time.Time]
}

// searchAgain is how long an object that was not found is taken to be gone.
const searchAgain = time.Minute

func newSearcher() *searcher {
	c, _ := lru.New[export.Object, time.Time](65536) // errs only on a size below 1
	return &searcher{failed: c}
}

// searchFor walks for o: first the directories it was last known in, then the
// tree, breadth first. What it meets on the way is not recorded, o is. Called
// with v.tree held.
func (v *Volume) searchFor(o export.Object, names []nameRef, mask export.AttrMask) (*target, error) {
	if v.opt.SearchLimit < 0 || v.plain {
		return nil, export.ErrStale
	}
	s := v.search
	if at, ok := s.failed.Get(o); ok && v.opt.now().Sub(at) < searchAgain {
		return nil, export.ErrStale
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.failed.Get(o); ok && v.opt.now().Sub(at) < searchAgain {
		return nil, export.ErrStale
	}
	type place struct {
		ino  uint64
		path string
	}
	var queue []place
	queued := map[uint64]bool{}
	push := func(ino uint64, path string) {
		if !queued[ino] {
			queued[ino] = true
			queue = append(queue, place{ino, path})
		}
	}
	for _, ref := range names {
		if p, ok := v.table.pathOf(ref.parent, v.root.Ino); ok {
			if info, err := v.stat(ref, p, 0); err == nil && info.FileID == ref.parent {
				push(ref.parent, p)
			}
		}
	}
	push(v.root.Ino, ".")
	budget := v.opt.SearchLimit
	for len(queue) > 0 && budget > 0 {
		dir := queue[0]
		queue = queue[1:]
		entries, err := v.readNames(dir.path)
		if err != nil {
			continue // not ours to enter, or gone
		}
		budget -= len(entries)
		for _, e := range entries {
			if e.ino != 0 && e.ino != o.Ino && e.typ != 0 && e.typ != export.TypeDirectory {
				continue
			}
			ref, path := nameRef{dir.ino, e.name}, join(dir.path, e.name)
			t := &target{obj: o, ref: ref, path: path, seq: v.table.now()}
			if t.info, err = v.stat(ref, path, mask); err != nil {
				continue
			}
			if objectOf(&t.info) == o {
				v.recordWay(dir.path)
				if t.info.Type == export.TypeDirectory {
					v.table.move(nameRef{}, ref, o.Ino, o.NameHash, false)
					v.table.epoch.Add(1)
				}
				return t, v.table.record(found{ref, o.Ino, o.NameHash})
			}
			if t.info.Type == export.TypeDirectory {
				push(t.info.FileID, path)
			}
		}
	}
	s.failed.Add(o, v.opt.now())
	return nil, export.ErrStale
}

// recordWay makes the table lead to the directory at path, which was just
// walked.
func (v *Volume) recordWay(path string) {
	if path == "." {
		return
	}
	at, parent := "", v.root.Ino
	for _, name := range splitPath(path) {
		if at == "" {
			at = name
		} else {
			at += "/" + name
		}
		ref := nameRef{parent, name}
		info, err := v.stat(ref, at, 0)
		if err != nil {
			return
		}
		v.table.move(nameRef{}, ref, info.FileID, info.Generation, false)
		parent = info.FileID
	}
	v.table.epoch.Add(1)
}
