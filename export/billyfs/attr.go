package billyfs

import (
	"context"
	"math"

	"capstan/export"
)

// GetAttr implements [export.Volume].
func (v *Volume) GetAttr(ctx context.Context, _ *export.Cred, o export.Object, mask export.AttrMask) (export.Attr, error) {
	if err := ctx.Err(); err != nil {
		return export.Attr{}, export.Wrap("getattr", label(o), err)
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, err := v.find(o, mask)
	if err != nil {
		return export.Attr{}, export.Wrap("getattr", label(o), err)
	}
	return v.attr(&t.info, t.seq), nil
}

// Access implements [export.Volume].
func (v *Volume) Access(ctx context.Context, c *export.Cred, o export.Object, want export.Access) (export.Access, export.Attr, error) {
	a, err := v.GetAttr(ctx, c, o, export.MaskAll)
	if err != nil {
		return 0, export.Attr{}, err
	}
	got := export.AccessOf(c, &a, want)
	if v.facts.ReadOnly {
		got &^= export.AccessModify | export.AccessExtend | export.AccessDelete | export.AccessXAWrite
	}
	if !v.facts.Xattrs {
		got &^= export.AccessXARead | export.AccessXAWrite | export.AccessXAList
	}
	return got, a, nil
}

// SetAttr implements [export.Volume].
func (v *Volume) SetAttr(ctx context.Context, c *export.Cred, o export.Object, via export.File, s *export.SetAttr) (ch export.Change, err error) {
	defer func() { err = export.Wrap("setattr", label(o), err) }()
	if err := ctx.Err(); err != nil {
		return ch, err
	}
	if err := v.writable(); err != nil {
		return ch, err
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, ls, err := v.locked(o, export.MaskAll, true)
	if err != nil {
		return ch, err
	}
	defer ls.unlock()
	pre := v.attr(&t.info, t.seq)
	if s.Set&export.SetGuard != 0 && s.Guard != pre.Ctime {
		return ch, export.ErrNotSync
	}
	written := false
	if f, ok := via.(*openFile); ok && f.op.obj == o && f.mode&export.OpenWrite != 0 {
		written = true
	}
	if err := export.CheckSetAttr(c, &pre, s, written); err != nil {
		return ch, err
	}
	if err := v.checkSize(&pre, s); err != nil {
		return ch, err
	}
	v.touch(o.Ino, s.Set&export.SetSize != 0) // before, so that given times stay
	changing := v.table.changing(o.Ino, o.NameHash)
	err = v.apply(c, t, &pre, s)
	before, this := v.table.changed(o.Ino, o.NameHash)
	v.table.done(changing)
	if err != nil {
		return ch, err
	}
	ch.Pre = pre.PreAttr()
	seq := v.table.now()
	if t.open != nil {
		t.info, err = t.open.stat(export.MaskAll)
	} else {
		t.info, err = v.stat(t.ref, t.path, export.MaskAll)
	}
	if err != nil {
		return ch, err
	}
	ch.Post, ch.Atomic = v.attr(&t.info, seq), v.atomic(t, before, this)
	if op := v.openedOf(o); op != nil {
		op.noteMode(ch.Post.Mode)
	}
	return ch, nil
}

// checkSize refuses sizes that cannot be.
func (v *Volume) checkSize(a *export.Attr, s *export.SetAttr) error {
	if s.Set&export.SetSize == 0 {
		return nil
	}
	switch {
	case a.Type == export.TypeDirectory:
		return export.ErrIsDir
	case a.Type != export.TypeRegular:
		return export.ErrInval
	case s.Size > v.facts.MaxFileSize || s.Size > math.MaxInt64:
		return export.ErrFBig
	}
	return nil
}

// apply makes the changes of s that are changes: the size first, since it is
// the likeliest to fail, then owner, mode and times. What was done is undone if
// a later step fails, except the size.
func (v *Volume) apply(c *export.Cred, t *target, a *export.Attr, s *export.SetAttr) error {
	mode := export.ModeAfterSet(c, a, s)
	uid, gid := a.UID, a.GID
	if s.Set&export.SetUID != 0 {
		uid = s.UID
	}
	if s.Set&export.SetGID != 0 {
		gid = s.GID
	}
	m := v.mutatorOf(t)
	defer m.close()
	if err := m.begin(s.Set&export.SetSize != 0); err != nil {
		return err
	}
	if s.Set&export.SetSize != 0 {
		if err := m.truncate(int64(s.Size)); err != nil {
			return err
		}
	}
	chown := uid != a.UID || gid != a.GID
	if chown {
		if err := m.chown(uid, gid); err != nil {
			return err
		}
	}
	undo := func(err error) error {
		if chown {
			_ = m.chown(a.UID, a.GID) // the first error is the one to tell
			if a.Type != export.TypeSymlink {
				_ = m.chmod(a.Mode)
			}
		}
		return err
	}
	// chown(2) clears set-id bits by rules of its own, so the mode is set again.
	explicit := s.Set&export.SetMode != 0 || chown && a.Mode&0o6000 != 0
	if a.Type != export.TypeSymlink && (mode != a.Mode || explicit) {
		if err := m.chmod(mode); err != nil {
			return undo(err)
		}
	}
	at := timeOf(s, export.SetAtime, export.SetAtimeNow, s.Atime)
	mt := timeOf(s, export.SetMtime, export.SetMtimeNow, s.Mtime)
	if at.Set || mt.Set {
		if err := m.chtimes(at, mt); err != nil {
			if a.Type != export.TypeSymlink {
				_ = m.chmod(a.Mode)
			}
			return undo(err)
		}
	}
	if s.Set&^export.SetGuard == 0 {
		return nil
	}
	return m.sync()
}

func timeOf(s *export.SetAttr, set, now export.SetMask, at export.Timespec) Time {
	switch {
	case s.Set&now != 0:
		return Time{Set: true, Now: true}
	case s.Set&set != 0:
		return Time{Set: true, At: at}
	}
	return Time{}
}
