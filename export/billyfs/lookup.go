package billyfs

import (
	"context"

	"capstan/export"
)

// Lookup implements [export.Volume].
func (v *Volume) Lookup(ctx context.Context, c *export.Cred, dir export.Object, name string, mask export.AttrMask) (o export.Object, a export.Attr, err error) {
	defer func() { err = export.Wrap("lookup", name, err) }()
	if err := ctx.Err(); err != nil {
		return o, a, err
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	d, ls, err := v.lockedDir(c, dir, export.PermExec, false)
	if err != nil {
		return o, a, err
	}
	defer ls.unlock()
	t, err := v.child(d, name, mask)
	if err != nil {
		return o, a, err
	}
	return t.obj, v.attr(&t.info, t.seq), nil
}

// child looks name up in d, which the caller has locked, and records what it
// finds.
func (v *Volume) child(d *target, name string, mask export.AttrMask) (*target, error) {
	if len(name) > v.facts.MaxName {
		return nil, export.ErrNameTooLong
	}
	t := &target{ref: nameRef{d.obj.Ino, name}, path: join(d.path, name), seq: v.table.now()}
	var err error
	if t.info, err = v.stat(t.ref, t.path, mask); err != nil {
		if export.StatusOf(err) == export.ErrXDev {
			return nil, export.ErrAccess // a mount below the root: not ours to enter
		}
		return nil, err
	}
	t.obj = objectOf(&t.info)
	return t, v.met(t)
}

// met records the name under which t was found. A directory has one name, so a
// new one means that it was moved.
func (v *Volume) met(t *target) error {
	if v.plain {
		return nil // recorded when it got its number
	}
	if t.info.Type == export.TypeDirectory {
		names, known, _ := v.table.names(t.obj)
		if known && len(names) > 0 && names[0] != t.ref {
			v.table.move(names[0], t.ref, t.obj.Ino, t.obj.NameHash, false)
			v.table.epoch.Add(1)
			return nil
		}
	}
	if err := v.table.record(found{t.ref, t.obj.Ino, t.obj.NameHash}); err != nil {
		v.opt.Logger.Warn("handle table not written", "err", err)
	}
	return nil
}

// Parent implements [export.Volume].
func (v *Volume) Parent(ctx context.Context, c *export.Cred, dir export.Object, mask export.AttrMask) (o export.Object, a export.Attr, err error) {
	defer func() { err = export.Wrap("lookupp", label(dir), err) }()
	if err := ctx.Err(); err != nil {
		return o, a, err
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, err := v.find(dir, export.MaskAll)
	if err != nil {
		return o, a, err
	}
	if err := checkDir(c, t, export.PermExec); err != nil {
		return o, a, err
	}
	if dir == v.root {
		return dir, v.attr(&t.info, t.seq), nil
	}
	up, ok := v.dirObject(t.ref.parent)
	if !ok {
		return o, a, export.ErrStale
	}
	p, err := v.find(up, mask)
	if err != nil {
		return o, a, err
	}
	return up, v.attr(&p.info, p.seq), nil
}

// Readlink implements [export.Volume].
func (v *Volume) Readlink(ctx context.Context, _ *export.Cred, o export.Object) (target string, err error) {
	defer func() { err = export.Wrap("readlink", label(o), err) }()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, ls, err := v.locked(o, export.MaskAuth, false)
	if err != nil {
		return "", err
	}
	defer ls.unlock()
	if t.info.Type != export.TypeSymlink {
		return "", export.ErrInval
	}
	return v.fs.Readlink(t.path)
}

// StatFS implements [export.Volume].
func (v *Volume) StatFS(ctx context.Context, o export.Object) (st export.StatFS, err error) {
	defer func() { err = export.Wrap("statfs", label(o), err) }()
	if err := ctx.Err(); err != nil {
		return st, err
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, err := v.find(o, 0)
	if err != nil || v.ext.statfser == nil {
		return st, err
	}
	if t.path == "" {
		t.path = "."
	}
	return v.ext.statfser.StatFS(t.path)
}
