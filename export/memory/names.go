package memory

import (
	"context"

	"capstan/export"
)

// Lookup implements [export.Volume].
func (v *Volume) Lookup(_ context.Context, c *export.Cred, dir export.Object, name string, _ export.AttrMask) (export.Object, export.Attr, error) {
	n, a, st := v.lookup(c, dir, name)
	if st != export.OK {
		return export.Object{}, export.Attr{}, fail("lookup", name, st)
	}
	return n.object(), a, nil
}

func (v *Volume) lookup(c *export.Cred, dir export.Object, name string) (n *node, a export.Attr, st export.Status) {
	d, st := v.getDir(dir)
	if st != export.OK {
		return nil, a, st
	}
	if len(name) > maxName {
		return nil, a, export.ErrNameTooLong
	}
	d.dir.names.RLock()
	defer d.dir.names.RUnlock()
	if st := d.searchLocked(c); st != export.OK {
		return nil, a, st
	}
	e := d.dir.entries[name]
	if e == nil {
		return nil, a, export.ErrNoEnt
	}
	return e.node, e.node.snapshot(), export.OK
}

// searchLocked checks that the directory d is there and that c may search it.
// The caller holds d.dir.names.
func (d *node) searchLocked(c *export.Cred) export.Status {
	if d.dir.removed {
		return export.ErrStale
	}
	return d.permits(c, export.PermExec)
}

// Parent implements [export.Volume].
func (v *Volume) Parent(_ context.Context, c *export.Cred, dir export.Object, _ export.AttrMask) (export.Object, export.Attr, error) {
	p, a, st := v.parent(c, dir)
	if st != export.OK {
		return export.Object{}, export.Attr{}, fail("lookup", "..", st)
	}
	return p.object(), a, nil
}

func (v *Volume) parent(c *export.Cred, dir export.Object) (p *node, a export.Attr, st export.Status) {
	d, st := v.getDir(dir)
	if st != export.OK {
		return nil, a, st
	}
	d.dir.names.RLock()
	defer d.dir.names.RUnlock()
	if st := d.searchLocked(c); st != export.OK {
		return nil, a, st
	}
	p = d.dir.parent.Load()
	return p, p.snapshot(), export.OK
}

// Readlink implements [export.Volume].
func (v *Volume) Readlink(_ context.Context, c *export.Cred, o export.Object) (string, error) {
	n, st := v.get(o)
	if st == export.OK {
		_, st = n.getAttr()
	}
	if st == export.OK && n.typ != export.TypeSymlink {
		st = export.ErrInval
	}
	if st != export.OK {
		return "", fail("readlink", "", st)
	}
	return n.target, nil
}

// ReadDir implements [export.Volume]. It holds the directory's entries still
// while it calls emit.
func (v *Volume) ReadDir(_ context.Context, c *export.Cred, dir export.Object, cookie uint64, _ export.AttrMask, emit func(*export.Dirent) bool) (bool, error) {
	eof, st := v.readDir(c, dir, cookie, emit)
	if st != export.OK {
		return false, fail("readdir", "", st)
	}
	return eof, nil
}

func (v *Volume) readDir(c *export.Cred, dir export.Object, cookie uint64, emit func(*export.Dirent) bool) (eof bool, st export.Status) {
	d, st := v.getDir(dir)
	if st != export.OK {
		return false, st
	}
	if cookie > lastCookie || cookie == 1 || cookie == 2 {
		return false, export.ErrBadCookie
	}
	d.dir.names.RLock()
	defer d.dir.names.RUnlock()
	if d.dir.removed {
		return false, export.ErrStale
	}
	if st := d.permits(c, export.PermRead); st != export.OK {
		return false, st
	}
	var ent export.Dirent
	for i := d.dir.behindLocked(cookie) - 1; i >= 0; i-- {
		e := d.dir.order[i]
		if e.node == nil {
			continue
		}
		ent = export.Dirent{Name: e.name, Cookie: e.cookie(), Object: e.node.object(), Attr: e.node.snapshot()}
		if !emit(&ent) {
			return false, export.OK
		}
	}
	return true, export.OK
}
