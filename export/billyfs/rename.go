package billyfs

import (
	"context"
	"errors"
	"strings"

	"capstan/export"
)

var errAgain = errors.New("billyfs: the name changed meanwhile")

// renaming is one rename, with everything it touches found and locked.
type renaming struct {
	v        *Volume
	c        *export.Cred
	from, to *target
	oldName  string
	newName  string
	src      *target
	dst      *target // nil if the new name is free
	newPath  string
}

// Rename implements [export.Volume].
func (v *Volume) Rename(ctx context.Context, c *export.Cred, from export.Object, oldName string, to export.Object, newName string) (out export.Renamed, err error) {
	defer func() { err = export.Wrap("rename", oldName, err) }()
	if err := ctx.Err(); err != nil {
		return out, err
	}
	if err := v.writable(); err != nil {
		return out, err
	}
	if len(newName) > v.facts.MaxName {
		return out, export.ErrNameTooLong
	}
	exclusive := false // holding the tree, for a directory that moves
	for try := range lockTries {
		if exclusive {
			v.tree.Lock()
		} else {
			v.tree.RLock()
		}
		r, ls, err := v.lockRename(c, from, oldName, to, newName)
		again := err == nil && r.src.info.Type == export.TypeDirectory && !exclusive
		if err == nil && !again {
			out, err = r.run()
		}
		if ls != nil {
			ls.unlock()
		}
		if exclusive {
			v.tree.Unlock()
		} else {
			v.tree.RUnlock()
		}
		if again {
			exclusive = true
			continue
		}
		if err == errAgain {
			exclusive = exclusive || try >= 2 // alone nothing moves
			continue
		}
		return out, err
	}
	return out, export.ErrDelay
}

// lockRename finds all there is and locks it; errAgain if something moved in
// between. Called with v.tree held.
func (v *Volume) lockRename(c *export.Cred, from export.Object, oldName string, to export.Object, newName string) (*renaming, *lockSet, error) {
	look := func(dir export.Object, name string) (*target, error) {
		d, ls, err := v.lockedDir(c, dir, export.PermExec, false)
		if err != nil {
			return nil, err
		}
		defer ls.unlock()
		return v.child(d, name, 0)
	}
	src, err := look(from, oldName)
	if err != nil {
		return nil, nil, err
	}
	dst, err := look(to, newName)
	if err != nil && export.StatusOf(err) != export.ErrNoEnt {
		return nil, nil, err
	}
	ls := &lockSet{s: &v.stripes}
	ls.add(from.Ino, true)
	ls.add(to.Ino, true)
	ls.add(src.obj.Ino, true)
	if dst != nil {
		ls.add(dst.obj.Ino, true)
	}
	ls.lock()
	const want = export.PermExec | export.PermWrite
	p, err := v.entryLocked(c, from, oldName, want)
	if err != nil {
		return nil, ls, err
	}
	if p.t.obj != src.obj {
		return nil, ls, errAgain
	}
	r := &renaming{v: v, c: c, from: p.dir, oldName: oldName, newName: newName, src: p.t}
	q, err := v.entryLocked(c, to, newName, want)
	switch {
	case err == nil:
		if dst == nil || q.t.obj != dst.obj {
			return nil, ls, errAgain
		}
		r.dst = q.t
	case export.StatusOf(err) == export.ErrNoEnt && q != nil:
		if err := checkDir(c, q.dir, want); err != nil {
			return nil, ls, err
		}
	default:
		return nil, ls, err
	}
	r.to = q.dir
	r.newPath = join(r.to.path, newName)
	return r, ls, nil
}

// check applies the rules of rename(2).
func (r *renaming) check() error {
	var replaced *export.Attr
	if r.dst != nil {
		replaced = &r.dst.info.Attr
	}
	err := export.CheckRename(r.c, &r.from.info.Attr, &r.src.info.Attr, &r.to.info.Attr, replaced, r.from.obj == r.to.obj)
	if err != nil {
		return err
	}
	isDir := r.src.info.Type == export.TypeDirectory
	if r.dst != nil {
		switch dstDir := r.dst.info.Type == export.TypeDirectory; {
		case strings.HasPrefix(r.src.path+"/", r.dst.path+"/"):
			return export.ErrNotEmpty // it holds what is to replace it
		case isDir && !dstDir:
			return export.ErrNotDir
		case !isDir && dstDir:
			return export.ErrIsDir
		}
	}
	if isDir && strings.HasPrefix(r.newPath+"/", r.src.path+"/") {
		return export.ErrInval // into itself
	}
	return nil
}

func (r *renaming) run() (out export.Renamed, err error) {
	v := r.v
	fw := &entryWork{v: v, dir: r.from, pre: v.attr(&r.from.info, r.from.seq)}
	tw := &entryWork{v: v, dir: r.to, pre: v.attr(&r.to.info, r.to.seq)}
	if r.dst != nil && r.dst.obj == r.src.obj {
		// Two names of one object, or one name twice: nothing happens (rename(2)).
		return export.Renamed{From: fw.unchanged(), To: tw.unchanged()}, nil
	}
	if err := r.check(); err != nil {
		return out, err
	}
	isDir := r.src.info.Type == export.TypeDirectory
	do := func() error { return r.move(isDir) }
	if r.dst != nil {
		replaced := do
		do = func() error { return v.takeAway(r.dst, replaced) }
	}
	if err := do(); err != nil {
		return out, err
	}
	to := nameRef{r.to.obj.Ino, r.newName}
	v.table.move(r.src.ref, to, r.src.obj.Ino, r.src.obj.NameHash, v.plain)
	if isDir {
		v.table.epoch.Add(1)
	}
	v.changed(r.src.obj, false)
	v.changed(r.from.obj, true)
	v.changed(r.to.obj, true)
	if err := v.syncEntries(r.to.path, r.from.path); err != nil {
		return out, err
	}
	e := entry{name: r.newName}
	if r.src.info.Generation == 0 && !v.plain {
		e.typ, e.ino = r.src.info.Type, r.src.info.FileID
	}
	if r.from.obj == r.to.obj {
		out.From, err = fw.dirChange(r.oldName, &e)
		out.To = out.From
	} else {
		if out.From, err = fw.dirChange(r.oldName, nil); err == nil {
			out.To, err = tw.dirChange("", &e)
		}
	}
	if r.dst != nil {
		o := r.dst.obj
		out.Replaced = &o
	}
	return out, err
}

// move renames in the filesystem below.
func (r *renaming) move(isDir bool) error {
	v := r.v
	if v.ext.renamer != nil {
		return v.ext.renamer.RenameNode(r.src.path, r.newPath)
	}
	if r.dst != nil {
		// billy promises no more than that a file is replaced; memfs and others
		// merge directories. Not atomic, and the docs say so.
		if isDir {
			if err := v.removePath(r.dst.path, true); err != nil {
				return err
			}
		} else if v.plain {
			if err := v.removePath(r.dst.path, false); err != nil {
				return err
			}
		}
	}
	return v.fs.Rename(r.src.path, r.newPath)
}
