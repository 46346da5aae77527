package billyfs

import (
	"context"
	"errors"

	"capstan/export"
)

// pair is the lock of a directory and of the object that one of its names
// stands for.
type pair struct {
	dir *target
	t   *target
	ls  *lockSet
}

// lockedEntry finds name in dir and locks both exclusively. c needs want on
// the directory. The caller calls ls.unlock.
func (v *Volume) lockedEntry(c *export.Cred, dir export.Object, name string, want export.Permission) (*pair, error) {
	if len(name) > v.facts.MaxName {
		return nil, export.ErrNameTooLong
	}
	d, ls, err := v.lockedDir(c, dir, export.PermExec, false)
	if err != nil {
		return nil, err
	}
	t, err := v.child(d, name, 0)
	ls.unlock()
	if err != nil {
		return nil, err
	}
	for range lockTries {
		ls := &lockSet{s: &v.stripes}
		ls.add(dir.Ino, true)
		ls.add(t.obj.Ino, true)
		ls.lock()
		p, err := v.entryLocked(c, dir, name, want)
		if err == nil && p.t.obj == t.obj {
			p.ls = ls
			return p, nil
		}
		ls.unlock()
		if err != nil {
			return nil, err
		}
		t = p.t
	}
	return nil, export.ErrDelay
}

// entryLocked looks name up in dir with everything locked.
func (v *Volume) entryLocked(c *export.Cred, dir export.Object, name string, want export.Permission) (*pair, error) {
	d, err := v.find(dir, export.MaskAll)
	if err != nil {
		return nil, err
	}
	if err := checkDir(c, d, export.PermExec); err != nil {
		return nil, err
	}
	t, err := v.child(d, name, export.MaskAll)
	if err != nil {
		return &pair{dir: d}, err
	}
	if err := checkDir(c, d, want); err != nil {
		return nil, err
	}
	return &pair{dir: d, t: t}, nil
}

// Remove implements [export.Volume].
func (v *Volume) Remove(ctx context.Context, c *export.Cred, dir export.Object, name string, kind export.RemoveKind) (gone export.Object, ch export.Change, err error) {
	defer func() { err = export.Wrap("remove", name, err) }()
	if err := ctx.Err(); err != nil {
		return gone, ch, err
	}
	if err := v.writable(); err != nil {
		return gone, ch, err
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	p, err := v.lockedEntry(c, dir, name, export.PermExec|export.PermWrite)
	if err != nil {
		return gone, ch, err
	}
	defer p.ls.unlock()
	isDir := p.t.info.Type == export.TypeDirectory
	if err := export.CheckRemove(c, &p.dir.info.Attr, &p.t.info.Attr); err != nil {
		return gone, ch, err
	}
	switch {
	case kind == export.RemoveFile && isDir:
		return gone, ch, export.ErrIsDir
	case kind == export.RemoveDir && !isDir:
		return gone, ch, export.ErrNotDir
	}
	w := &entryWork{v: v, dir: p.dir, pre: v.attr(&p.dir.info, p.dir.seq)}
	if err := v.takeAway(p.t, func() error { return v.removePath(p.t.path, isDir) }); err != nil {
		return gone, ch, err
	}
	v.changed(dir, true)
	if err := v.syncEntries(p.dir.path); err != nil {
		return gone, ch, err
	}
	ch, err = w.dirChange(name, nil)
	return p.t.obj, ch, err
}

// takeAway runs do, which takes the name t away from its object, and keeps the
// object usable if it is open. The caller holds the directory and the object
// exclusively.
func (v *Volume) takeAway(t *target, do func() error) (err error) {
	last := t.info.Type == export.TypeDirectory || t.info.Nlink <= 1
	op := v.opened(t.obj)
	if op != nil {
		defer func() { err = errors.Join(err, op.release()) }()
		op.noteInfo(&t.info)
		if last {
			// Once the name is gone nobody can open it for writing any more.
			_ = op.ensure(t, export.OpenRead|export.OpenWrite)
		}
	}
	if err := do(); err != nil {
		return err
	}
	if op != nil && last {
		op.mu.Lock()
		op.nameless = true
		op.mu.Unlock()
	}
	v.table.forget(t.ref, t.obj.Ino, t.obj.NameHash, last, v.plain)
	if last {
		v.lists.drop(t.obj)
	}
	if !last || op != nil {
		v.changed(t.obj, false)
	}
	return nil
}

// removePath removes one entry of a known kind.
func (v *Volume) removePath(path string, dir bool) error {
	switch {
	case v.ext.remover == nil:
		if dir {
			// billy leaves open what Remove does with a directory in use.
			es, err := v.readNames(path)
			if err != nil {
				return err
			}
			if len(es) > 0 {
				return export.ErrNotEmpty
			}
		}
		return v.fs.Remove(path)
	case dir:
		return v.ext.remover.Rmdir(path)
	default:
		return v.ext.remover.Unlink(path)
	}
}
