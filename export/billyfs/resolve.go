package billyfs

import (
	"errors"
	"strings"

	"capstan/export"
)

// target is an object as it was found: where, and with which attributes.
type target struct {
	obj  export.Object
	ref  nameRef // the name it was found under; zero for the root
	path string  // "" if it has no name any more and is only open
	open *opened // set if path is ""
	info Info
	seq  uint64 // when the observation began
}

// maxDepth bounds how deep paths go, which also ends loops that a table gone
// wrong might hold.
const maxDepth = 2048

var errTooDeep = errors.New("billyfs: path too deep, or a loop in the handle table")

// missing reports whether err says that a path does not lead to an object, as
// opposed to a fault on the way.
func missing(err error) bool {
	switch export.StatusOf(err) {
	case export.ErrNoEnt, export.ErrNotDir, export.ErrSymlink, export.ErrXDev:
		return true
	}
	return false
}

// pathOf returns the path that the table knows for directory ino, unchecked.
// Called with v.tree held. ok is false if the table knows none.
func (t *table) pathOf(ino, root uint64) (path string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	epoch := t.epoch.Load()
	var up []*node // from ino to the one below what is known
	base := ""
	for at := ino; ; {
		if at == root {
			break
		}
		n := t.getLocked(at)
		if n == nil || len(n.names) == 0 || len(up) > maxDepth {
			return "", false
		}
		if n.pathEpoch == epoch {
			base = n.path
			break
		}
		up = append(up, n)
		at = n.names[0].parent
	}
	for i := len(up) - 1; i >= 0; i-- {
		n := up[i]
		if base == "" {
			base = n.names[0].name
		} else {
			base += "/" + n.names[0].name
		}
		n.path, n.pathEpoch = base, epoch
	}
	if base == "" {
		base = "."
	}
	return base, true
}

// find looks for o: under its names as the table knows them, then, if it was
// moved behind our back, by repairing the way to it, then by a bounded search;
// last among the files still open. ErrStale says that it is gone. Called with
// v.tree held.
func (v *Volume) find(o export.Object, mask export.AttrMask) (*target, error) {
	if o.Snap != export.SnapHead {
		return nil, export.ErrStale
	}
	if o.Ino == v.root.Ino {
		if o != v.root {
			return nil, export.ErrStale
		}
		t := &target{obj: o, path: ".", seq: v.table.now()}
		var err error
		t.info, err = v.stat(nameRef{}, ".", mask)
		if err == nil && t.info.FileID != o.Ino {
			err = export.ErrStale // the exported directory itself was replaced
		}
		return t, err
	}
	names, known, gone := v.table.names(o)
	if !gone {
		t, err := v.tryNames(o, names, mask)
		if t != nil || err != nil {
			return t, err
		}
	}
	// A file that is open answers for itself whatever its names are.
	if op := v.openedOf(o); op != nil {
		t := &target{obj: o, open: op, seq: v.table.now()}
		var err error
		t.info, err = op.stat(mask)
		return t, err
	}
	if gone || v.plain {
		return nil, export.ErrStale
	}
	if known && v.repair(names) {
		t, err := v.tryNames(o, names, mask)
		if t != nil || err != nil {
			return t, err
		}
	}
	return v.searchFor(o, names, mask)
}

// tryNames returns o if one of its names still leads to it.
func (v *Volume) tryNames(o export.Object, names []nameRef, mask export.AttrMask) (*target, error) {
	for _, ref := range names {
		dir, ok := v.table.pathOf(ref.parent, v.root.Ino)
		if !ok {
			continue
		}
		t := &target{obj: o, ref: ref, path: join(dir, ref.name), seq: v.table.now()}
		var err error
		t.info, err = v.stat(ref, t.path, mask)
		switch {
		case err == nil && objectOf(&t.info) == o:
			return t, nil
		case err != nil && !missing(err):
			return nil, err
		}
	}
	return nil, nil
}

// repair checks the directories that names lie in, from the root down, and
// looks for those that are not where they were. It reports whether any of
// them has another path now.
func (v *Volume) repair(names []nameRef) bool {
	moved := false
	for _, ref := range names {
		before, _ := v.table.pathOf(ref.parent, v.root.Ino)
		dir, ok := v.dirObject(ref.parent)
		if !ok {
			continue
		}
		if _, err := v.findDir(dir, 0); err != nil {
			continue
		}
		after, ok := v.table.pathOf(ref.parent, v.root.Ino)
		moved = moved || ok && after != before
	}
	return moved
}

// dirObject returns the Object of a directory that the table names by inode.
func (v *Volume) dirObject(ino uint64) (export.Object, bool) {
	if ino == v.root.Ino {
		return v.root, true
	}
	v.table.mu.Lock()
	defer v.table.mu.Unlock()
	n := v.table.getLocked(ino)
	if n == nil {
		return export.Object{}, false
	}
	return export.Object{Ino: ino, Snap: export.SnapHead, NameHash: n.gen}, true
}

// findDir makes sure that the table leads to dir, repairing what is above it.
func (v *Volume) findDir(dir export.Object, depth int) (string, error) {
	if dir == v.root {
		return ".", nil
	}
	if depth > maxDepth {
		return "", errTooDeep
	}
	names, known, _ := v.table.names(dir)
	if !known {
		return "", export.ErrStale
	}
	t, err := v.tryNames(dir, names, 0)
	if err != nil {
		return "", err
	}
	if t == nil && len(names) > 0 {
		above, ok := v.dirObject(names[0].parent)
		if !ok {
			return "", export.ErrStale
		}
		if _, err := v.findDir(above, depth+1); err != nil && export.StatusOf(err) != export.ErrStale {
			return "", err
		}
		t, err = v.tryNames(dir, names, 0)
		if err != nil {
			return "", err
		}
	}
	if t == nil {
		t, err = v.searchFor(dir, names, 0)
		if err != nil {
			return "", err
		}
	}
	return t.path, nil
}

// lockTries is how often a call begins anew because what it wanted to lock was
// moved in between. Each time some other call got on.
const lockTries = 256

// locked finds o and returns it locked: exclusively if change is set, and its
// directory shared, so that its path stays good among our own callers. The
// caller calls unlock. Called with v.tree held.
func (v *Volume) locked(o export.Object, mask export.AttrMask, change bool) (*target, *lockSet, error) {
	t, err := v.find(o, 0)
	if err != nil {
		return nil, nil, err
	}
	for range lockTries {
		ls := &lockSet{s: &v.stripes}
		ls.add(o.Ino, change)
		if t.path != "" && t.path != "." {
			ls.add(t.ref.parent, false)
		}
		ls.lock()
		again, err := v.find(o, mask)
		if err == nil && (again.ref == t.ref || again.path == "") {
			return again, ls, nil
		}
		ls.unlock()
		if err != nil {
			return nil, nil, err
		}
		t = again
	}
	return nil, nil, export.ErrDelay // it moves faster than we can follow
}

// label names an object for error texts.
func label(o export.Object) string {
	var b strings.Builder
	b.WriteString("inode ")
	b.WriteString(uitoa(o.Ino))
	return b.String()
}

func uitoa(n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		n /= 10
		if n == 0 {
			return string(b[i:])
		}
	}
}
