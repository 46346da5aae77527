package memory

import (
	"context"
	"time"

	"capstan/export"
)

// GetAttr implements [export.Volume]. It always fills in everything.
func (v *Volume) GetAttr(_ context.Context, _ *export.Cred, o export.Object, _ export.AttrMask) (export.Attr, error) {
	n, st := v.get(o)
	if st == export.OK {
		var a export.Attr
		if a, st = n.getAttr(); st == export.OK {
			return a, nil
		}
	}
	return export.Attr{}, fail("getattr", "", st)
}

// Access implements [export.Volume].
func (v *Volume) Access(_ context.Context, c *export.Cred, o export.Object, want export.Access) (export.Access, export.Attr, error) {
	n, st := v.get(o)
	if st == export.OK {
		var a export.Attr
		if a, st = n.getAttr(); st == export.OK {
			return export.AccessOf(c, &a, want), a, nil
		}
	}
	return 0, export.Attr{}, fail("access", "", st)
}

// SetAttr implements [export.Volume].
func (v *Volume) SetAttr(_ context.Context, c *export.Cred, o export.Object, via export.File, s *export.SetAttr) (export.Change, error) {
	n, st := v.get(o)
	if st == export.OK {
		f, ok := via.(*file)
		written := ok && f.n == n && f.mode&export.OpenWrite != 0 && !f.closed.Load()
		var ch export.Change
		if ch, st = v.setAttr(c, n, written, s); st == export.OK {
			return ch, nil
		}
	}
	return export.Change{}, fail("setattr", "", st)
}

// setAttr applies s to n for c, who holds it open for writing if written.
func (v *Volume) setAttr(c *export.Cred, n *node, written bool, s *export.SetAttr) (export.Change, export.Status) {
	if s.Set&export.SetSize == 0 {
		return v.applyAttr(c, n, written, s)
	}
	switch {
	case n.dir != nil:
		return export.Change{}, export.ErrIsDir
	case n.content == nil:
		return export.Change{}, export.ErrInval
	case s.Size > maxFileSize:
		return export.Change{}, export.ErrFBig
	}
	n.content.io.Lock()
	defer n.content.io.Unlock()
	ch, st := v.applyAttr(c, n, written, s)
	if st == export.OK {
		n.content.resize(v, s.Size)
		used := n.content.used()
		n.mu.Lock()
		n.attr.Used = used
		n.mu.Unlock()
		ch.Post.Used = used
	}
	return ch, st
}

// applyAttr checks s and puts it into the attributes of n, all or nothing.
// The bytes of a file whose size changes are the caller's to cut, who holds
// its io lock.
func (v *Volume) applyAttr(c *export.Cred, n *node, written bool, s *export.SetAttr) (ch export.Change, st export.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := &n.attr
	if n.dead {
		return ch, export.ErrStale
	}
	if s.Set&export.SetGuard != 0 && s.Guard != a.Ctime {
		return ch, export.ErrNotSync
	}
	if err := export.CheckSetAttr(c, a, s, written); err != nil {
		return ch, export.StatusOf(err)
	}
	ch = export.Change{Pre: a.PreAttr(), Atomic: true}
	if s.Set&^export.SetGuard != 0 {
		a.Mode = export.ModeAfterSet(c, a, s)
		if s.Set&export.SetUID != 0 {
			a.UID = s.UID
		}
		if s.Set&export.SetGID != 0 {
			a.GID = s.GID
		}
		now := v.now()
		n.touchLocked(now)
		if s.Set&export.SetSize != 0 {
			a.Size = s.Size
			a.Mtime = a.Ctime
		}
		n.setTimesLocked(s, now)
	}
	ch.Post = *a
	return ch, export.OK
}

// setTimesLocked sets the times that s names.
func (n *node) setTimesLocked(s *export.SetAttr, now time.Time) {
	switch {
	case s.Set&export.SetAtimeNow != 0:
		n.attr.Atime = export.TimespecOf(now)
	case s.Set&export.SetAtime != 0:
		n.attr.Atime = s.Atime
	}
	switch {
	case s.Set&export.SetMtimeNow != 0:
		n.attr.Mtime = export.TimespecOf(now)
	case s.Set&export.SetMtime != 0:
		n.attr.Mtime = s.Mtime
	}
}
