package billyfs

import (
	"context"
	"errors"
	"os"

	"capstan/export"
)

// entryWork is a call that adds an entry to a directory, between the checks
// that all of them share and the result that all of them give.
type entryWork struct {
	v    *Volume
	c    *export.Cred
	dir  *target
	pre  export.Attr // of dir
	ls   *lockSet
	name string
	path string
}

// begin finds and locks dir and checks what does not depend on the name being
// free. The caller calls w.ls.unlock and then v.tree.RUnlock.
func (v *Volume) begin(ctx context.Context, c *export.Cred, dir export.Object, name string) (*entryWork, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := v.writable(); err != nil {
		return nil, err
	}
	if len(name) > v.facts.MaxName {
		return nil, export.ErrNameTooLong
	}
	d, ls, err := v.lockedDir(c, dir, export.PermExec, true)
	if err != nil {
		return nil, err
	}
	return &entryWork{v: v, c: c, dir: d, pre: v.attr(&d.info, d.seq), ls: ls, name: name, path: join(d.path, name)}, nil
}

// free checks that the name may be added: that it is not taken, and that c may
// write to the directory.
func (w *entryWork) free() error {
	_, err := w.v.child(w.dir, w.name, 0)
	switch {
	case err == nil:
		return export.ErrExist
	case export.StatusOf(err) != export.ErrNoEnt:
		return err
	}
	return export.CheckAdd(w.c, &w.dir.info.Attr)
}

// attrs returns the attributes that a new object of type typ gets.
func (w *entryWork) attrs(typ export.FileType, s *export.SetAttr) (export.Attr, error) {
	a := export.Attr{Type: typ, UID: w.c.UID, Mode: 0o600}
	switch typ {
	case export.TypeDirectory:
		a.Mode = 0o700
	case export.TypeSymlink:
		a.Mode = 0o777
	}
	a.GID, _ = export.Inherit(w.c, &w.dir.info.Attr, typ, a.Mode)
	own := a // what c could set on its own file, whatever its mode
	set := *s
	set.Set &^= export.SetGuard
	if err := export.CheckSetAttr(w.c, &own, &set, true); err != nil {
		return a, err
	}
	if typ != export.TypeRegular && set.Set&export.SetSize != 0 {
		return a, export.ErrInval
	}
	if err := w.v.checkSize(&own, &set); err != nil {
		return a, err
	}
	if set.Set&export.SetUID != 0 {
		a.UID = set.UID
	}
	if set.Set&export.SetGID != 0 {
		a.GID = set.GID
	}
	if set.Set&export.SetMode != 0 {
		after := a
		set.Set &= export.SetMode
		a.Mode = export.ModeAfterSet(w.c, &after, &set)
	}
	_, a.Mode = export.Inherit(w.c, &w.dir.info.Attr, typ, a.Mode)
	return a, nil
}

// finish dresses the object just made as a wants it, and s its size and times.
// If that fails the entry is taken away again. f is the file if it is open.
func (w *entryWork) finish(a export.Attr, s *export.SetAttr, f File) (out export.Created, t *target, err error) {
	v := w.v
	t = &target{ref: nameRef{w.dir.obj.Ino, w.name}, path: w.path, seq: v.table.now()}
	undo := func(err error) (export.Created, *target, error) {
		if a.Type == export.TypeDirectory {
			_ = v.removePath(w.path, true)
		} else {
			_ = v.removePath(w.path, false)
		}
		v.changed(w.dir.obj, true)
		v.lists.drop(w.dir.obj)
		return export.Created{}, nil, err
	}
	if t.info, err = v.stat(t.ref, t.path, export.MaskAll); err != nil {
		return undo(err)
	}
	t.obj = objectOf(&t.info)
	m := v.mutatorOf(t)
	m.file = f
	defer m.close()
	if err := m.begin(false); err != nil {
		return undo(err)
	}
	if t.info.UID != a.UID || t.info.GID != a.GID {
		if err := m.chown(a.UID, a.GID); err != nil {
			return undo(err)
		}
	}
	if a.Type != export.TypeSymlink && (t.info.Mode != a.Mode || a.Mode&0o6000 != 0) {
		if err := m.chmod(a.Mode); err != nil {
			return undo(err)
		}
	}
	if s.Set&export.SetSize != 0 && s.Size > 0 {
		if err := m.truncate(int64(s.Size)); err != nil {
			return undo(err)
		}
	}
	at := timeOf(s, export.SetAtime, export.SetAtimeNow, s.Atime)
	mt := timeOf(s, export.SetMtime, export.SetMtimeNow, s.Mtime)
	if at.Set || mt.Set {
		if err := m.chtimes(at, mt); err != nil {
			return undo(err)
		}
	}
	if err := m.sync(); err != nil {
		return undo(err)
	}
	v.table.changed(t.obj.Ino, t.obj.NameHash)
	if err := v.met(t); err != nil {
		return undo(err)
	}
	return out, t, nil
}

// report syncs and describes what was done.
func (w *entryWork) report(t *target) (out export.Created, err error) {
	v := w.v
	v.changed(w.dir.obj, true)
	if err := v.syncEntries(w.dir.path); err != nil {
		return out, err
	}
	out = export.Created{Object: t.obj, New: true}
	seq := v.table.now()
	if t.info, err = v.stat(t.ref, t.path, export.MaskAll); err != nil {
		return out, err
	}
	out.Attr = v.attr(&t.info, seq)
	e := entry{name: w.name}
	if t.info.Generation == 0 {
		e.typ, e.ino = t.info.Type, t.info.FileID
	}
	out.Dir, err = w.dirChange("", &e)
	return out, err
}

// dirChange describes what happened to the directory, and does it to its kept
// listing.
func (w *entryWork) dirChange(removed string, added *entry) (export.Change, error) {
	v := w.v
	pre := w.dir.info
	seq := v.table.now()
	post, err := v.stat(w.dir.ref, w.dir.path, export.MaskAll)
	if err != nil {
		return export.Change{}, err
	}
	v.edit(w.dir.obj, &pre, &post, removed, added)
	return export.Change{Pre: w.pre.PreAttr(), Post: v.attr(&post, seq), Atomic: !v.shared}, nil
}

// unchanged is the Change of a directory that a call left alone.
func (w *entryWork) unchanged() export.Change {
	return export.Change{Pre: w.pre.PreAttr(), Post: w.pre, Atomic: !w.v.shared}
}

// Create implements [export.Volume].
func (v *Volume) Create(ctx context.Context, c *export.Cred, dir export.Object, name string, args *export.Create) (out export.Created, err error) {
	defer func() { err = export.Wrap("create", name, err) }()
	v.tree.RLock()
	defer v.tree.RUnlock()
	for range 8 {
		var w *entryWork
		if w, err = v.begin(ctx, c, dir, name); err != nil {
			return out, err
		}
		t, err := v.child(w.dir, name, export.MaskAll)
		if err == nil {
			out, err = w.existing(t, args)
			w.ls.unlock()
			return out, err
		}
		if export.StatusOf(err) != export.ErrNoEnt {
			w.ls.unlock()
			return out, err
		}
		out, err = w.create(args)
		w.ls.unlock()
		if export.StatusOf(err) != export.ErrExist {
			return out, err
		}
		// Others made it just now: what they made counts.
	}
	return out, export.ErrDelay
}

// create makes the file.
func (w *entryWork) create(args *export.Create) (out export.Created, err error) {
	v := w.v
	if err := export.CheckAdd(w.c, &w.dir.info.Attr); err != nil {
		return out, err
	}
	a, err := w.attrs(export.TypeRegular, &args.Attr)
	if err != nil {
		return out, err
	}
	// Nobody but us may open it before it has its owner and mode.
	f, err := v.openPath(w.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return out, err
	}
	_, t, err := w.finish(a, &args.Attr, f)
	if err != nil {
		return out, errors.Join(err, f.Close())
	}
	if args.Mode == export.CreateExclusive {
		if err := v.table.setVerifier(t.obj.Ino, t.obj.NameHash, args.Verifier); err != nil {
			_ = v.removePath(w.path, false)
			return out, errors.Join(err, f.Close())
		}
	}
	if args.Open == 0 {
		if err := f.Close(); err != nil {
			return out, err
		}
		return w.report(t)
	}
	op := v.hold(t.obj)
	if err := op.adopt(f); err != nil {
		return out, errors.Join(err, op.release())
	}
	if out, err = w.report(t); err != nil {
		return export.Created{}, errors.Join(err, op.release())
	}
	op.noteInfo(&t.info)
	out.File = &openFile{op: op, mode: args.Open & (export.OpenRead | export.OpenWrite)}
	return out, nil
}

// existing takes a file that is there already, as args say.
func (w *entryWork) existing(t *target, args *export.Create) (out export.Created, err error) {
	v := w.v
	verifier, made := v.table.verifierOf(t.obj.Ino, t.obj.NameHash)
	again := args.Mode == export.CreateExclusive && made && verifier == args.Verifier
	if args.Mode == export.CreateGuarded || args.Mode == export.CreateExclusive && !again {
		return out, export.ErrExist
	}
	mode := args.Open
	truncate := args.Mode == export.CreateUnchecked && args.Attr.Set&export.SetSize != 0 && args.Attr.Size == 0
	check := mode
	if truncate {
		check |= export.OpenWrite
	}
	if again {
		check |= export.OpenOwner // the retry of a create opens as the create did
	}
	if err := checkOpen(w.c, &t.info.Attr, check); err != nil {
		return out, err
	}
	if truncate && t.info.Size != 0 {
		// The object's own lock cannot be taken on top of the directory's; the
		// entry cannot change while the directory is held, which is enough.
		set := export.SetAttr{Set: export.SetSize}
		if err := v.apply(w.c, t, &t.info.Attr, &set); err != nil {
			return out, err
		}
		v.changed(t.obj, true)
		t.seq = v.table.now()
		if t.info, err = v.stat(t.ref, t.path, export.MaskAll); err != nil {
			return out, err
		}
	}
	out = export.Created{Object: t.obj, Attr: v.attr(&t.info, t.seq), Dir: w.unchanged()}
	if mode != 0 {
		out.File, err = v.openTarget(t, mode)
	}
	return out, err
}

// Mkdir implements [export.Volume].
func (v *Volume) Mkdir(ctx context.Context, c *export.Cred, dir export.Object, name string, s *export.SetAttr) (export.Created, error) {
	return v.make(ctx, c, dir, name, "mkdir", export.TypeDirectory, s, func(path string) error {
		if v.ext.mkdirer != nil {
			return v.ext.mkdirer.Mkdir(path, 0o700)
		}
		return v.fs.MkdirAll(path, 0o700)
	})
}

// Symlink implements [export.Volume].
func (v *Volume) Symlink(ctx context.Context, c *export.Cred, dir export.Object, name, target string, s *export.SetAttr) (export.Created, error) {
	if target == "" {
		return export.Created{}, export.Wrap("symlink", name, export.ErrInval)
	}
	return v.make(ctx, c, dir, name, "symlink", export.TypeSymlink, s, func(path string) error {
		return v.fs.Symlink(target, path)
	})
}

// Mknod implements [export.Volume].
func (v *Volume) Mknod(ctx context.Context, c *export.Cred, dir export.Object, name string, args *export.NewNode) (export.Created, error) {
	switch args.Type {
	case export.TypeSocket, export.TypeFIFO:
	case export.TypeBlock, export.TypeChar:
		if !c.Privileged() {
			return export.Created{}, export.Wrap("mknod", name, export.ErrPerm)
		}
	default:
		return export.Created{}, export.Wrap("mknod", name, export.ErrBadType)
	}
	if !v.facts.Special {
		return export.Created{}, export.Wrap("mknod", name, export.ErrNotSupp)
	}
	return v.make(ctx, c, dir, name, "mknod", args.Type, &args.Attr, func(path string) error {
		return v.ext.mknoder.Mknod(path, args.Type, 0o600, args.Rdev)
	})
}

// make adds an entry that mk puts there.
func (v *Volume) make(ctx context.Context, c *export.Cred, dir export.Object, name, op string, typ export.FileType, s *export.SetAttr, mk func(path string) error) (out export.Created, err error) {
	defer func() { err = export.Wrap(op, name, err) }()
	v.tree.RLock()
	defer v.tree.RUnlock()
	w, err := v.begin(ctx, c, dir, name)
	if err != nil {
		return out, err
	}
	defer w.ls.unlock()
	if err := w.free(); err != nil {
		return out, err
	}
	a, err := w.attrs(typ, s)
	if err != nil {
		return out, err
	}
	if err := mk(w.path); err != nil {
		return out, err
	}
	_, t, err := w.finish(a, s, nil)
	if err != nil {
		return out, err
	}
	return w.report(t)
}

// Link implements [export.Volume].
func (v *Volume) Link(ctx context.Context, c *export.Cred, o, dir export.Object, name string) (out export.Created, err error) {
	defer func() { err = export.Wrap("link", name, err) }()
	if err := ctx.Err(); err != nil {
		return out, err
	}
	if err := v.writable(); err != nil {
		return out, err
	}
	if len(name) > v.facts.MaxName {
		return out, export.ErrNameTooLong
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, err := v.find(o, 0)
	if err != nil {
		return out, err
	}
	switch {
	case t.info.Type == export.TypeDirectory:
		return out, export.ErrIsDir
	case !v.facts.HardLinks:
		return out, export.ErrNotSupp
	case t.path == "":
		return out, export.ErrNoEnt // as linkat(2) on a file without a name
	}
	for range lockTries {
		// The object, the directory it is in, and the one it is linked into.
		ls := &lockSet{s: &v.stripes}
		ls.add(o.Ino, true)
		ls.add(t.ref.parent, false)
		ls.add(dir.Ino, true)
		ls.lock()
		again, err := v.find(o, export.MaskAll)
		// By which of its names does not matter: others may come and go.
		if err == nil && (again.ref.parent == t.ref.parent || again.path == "") {
			defer ls.unlock()
			return v.linkLocked(c, again, dir, name)
		}
		ls.unlock()
		if err != nil {
			return out, err
		}
		t = again // it moved in between
	}
	return out, export.ErrDelay
}

// linkLocked gives t the name in dir, with everything locked.
func (v *Volume) linkLocked(c *export.Cred, t *target, dir export.Object, name string) (out export.Created, err error) {
	if t.path == "" {
		return out, export.ErrNoEnt
	}
	d, err := v.find(dir, export.MaskAll)
	if err != nil {
		return out, err
	}
	if err := checkDir(c, d, export.PermExec); err != nil {
		return out, err
	}
	w := &entryWork{v: v, c: c, dir: d, pre: v.attr(&d.info, d.seq), name: name, path: join(d.path, name)}
	if err := w.free(); err != nil {
		return out, err
	}
	if err := v.ext.linker.Link(t.path, w.path); err != nil {
		return out, err
	}
	v.changed(t.obj, false)
	n := &target{obj: t.obj, ref: nameRef{dir.Ino, name}, path: w.path, info: t.info}
	if err := v.met(n); err != nil {
		return out, err
	}
	return w.report(n)
}
