package billyfs

import (
	"capstan/export"
)

// mutator changes the attributes of one object by whatever way its filesystem
// has: through an open file where there is one, else by path. The caller holds
// the object's lock, calls begin before the first change, and close in the end.
type mutator struct {
	v     *Volume
	t     *target
	file  File // nil: by path
	owned bool // close closes file
}

func (v *Volume) mutatorOf(t *target) *mutator { return &mutator{v: v, t: t} }

// begin opens what changes are made through. write says that the size is going
// to change.
func (m *mutator) begin(write bool) error {
	switch {
	case m.file != nil || m.v.plain:
	case m.t.open != nil:
		m.file = m.t.open.any()
	case m.v.ext.attrOpener != nil && m.t.info.Type != export.TypeSymlink:
		f, err := m.v.ext.attrOpener.OpenAttrs(m.t.path, write)
		if err != nil {
			return err
		}
		m.file, m.owned = f, true
	}
	return nil
}

func (m *mutator) close() {
	if m.owned {
		_ = m.file.Close() // sync has told all there is to tell
		m.file, m.owned = nil, false
	}
}

// setter returns the file to change attributes through, nil for "by path".
func (m *mutator) setter() (FileAttrSetter, error) {
	if m.file == nil {
		return nil, nil
	}
	if f, ok := m.file.(FileAttrSetter); ok {
		return f, nil
	}
	if m.t.path == "" {
		return nil, export.ErrNotSupp
	}
	return nil, nil
}

func (m *mutator) chmod(mode uint32) error {
	if m.v.plain {
		m.v.table.setOwn(m.t.obj.Ino, func(o *ownAttr) { o.mode = mode })
		return nil
	}
	f, err := m.setter()
	switch {
	case err != nil:
		return err
	case f != nil:
		return f.Chmod(mode)
	case m.v.ext.setter != nil:
		return m.v.ext.setter.Lchmod(m.t.path, mode)
	case m.v.ext.change != nil:
		return m.v.ext.change.Chmod(m.t.path, GoMode(mode))
	case m.v.ext.chmod != nil:
		return m.v.ext.chmod.Chmod(m.t.path, GoMode(mode))
	}
	return export.ErrNotSupp
}

func (m *mutator) chown(uid, gid uint32) error {
	if m.v.plain {
		m.v.table.setOwn(m.t.obj.Ino, func(o *ownAttr) { o.uid, o.gid = uid, gid })
		return nil
	}
	f, err := m.setter()
	switch {
	case err != nil:
		return err
	case f != nil:
		return f.Chown(int(uid), int(gid))
	case m.v.ext.setter != nil:
		return m.v.ext.setter.Lchown(m.t.path, int(uid), int(gid))
	case m.v.ext.change != nil:
		return m.v.ext.change.Lchown(m.t.path, int(uid), int(gid))
	}
	return export.ErrNotSupp
}

func (m *mutator) chtimes(at, mt Time) error {
	now := export.TimespecOf(m.v.opt.now())
	if m.v.plain {
		m.v.table.setOwn(m.t.obj.Ino, func(o *ownAttr) {
			o.atime, o.mtime = pick(at, o.atime, now), pick(mt, o.mtime, now)
		})
		return nil
	}
	f, err := m.setter()
	switch {
	case err != nil:
		return err
	case f != nil:
		return f.Chtimes(at, mt)
	case m.v.ext.setter != nil:
		return m.v.ext.setter.Lutimes(m.t.path, at, mt)
	case m.v.ext.change != nil && m.t.info.Type != export.TypeSymlink:
		a, b := pick(at, m.t.info.Atime, now), pick(mt, m.t.info.Mtime, now)
		return m.v.ext.change.Chtimes(m.t.path, a.Time(), b.Time())
	}
	return export.ErrNotSupp
}

func pick(t Time, old, now export.Timespec) export.Timespec {
	switch {
	case t.Now:
		return now
	case t.Set:
		return t.At
	}
	return old
}

func (m *mutator) truncate(size int64) error {
	if m.file != nil && m.t.open == nil {
		return m.file.Truncate(size)
	}
	if op := m.v.openedOf(m.t.obj); op != nil {
		if f := op.writable(); f != nil {
			return f.Truncate(size)
		}
	}
	if m.t.path == "" {
		return export.ErrStale
	}
	if m.v.ext.truncater != nil {
		return m.v.ext.truncater.Truncate(m.t.path, size)
	}
	f, err := m.v.openPath(m.t.path, oWrite, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err2 := f.Close(); err == nil {
		err = err2
	}
	return err
}

// sync makes the changes stable.
func (m *mutator) sync() error {
	if m.v.opt.Async {
		return nil
	}
	var sync func() error
	switch s := m.file.(type) {
	case AttrSyncer:
		sync = s.SyncAttrs
	case Syncer:
		sync = s.Sync
	}
	switch {
	case sync == nil:
	case m.t.open != nil && !m.owned: // a file that data are written through
		return m.t.open.syncAlone(sync)
	default:
		return sync()
	}
	if m.t.path == "" {
		return nil
	}
	return m.v.syncAttrs(m.t.path)
}
