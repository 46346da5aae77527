package memory

import (
	"context"

	"capstan/export"
)

// Remove implements [export.Volume].
func (v *Volume) Remove(_ context.Context, c *export.Cred, dir export.Object, name string, kind export.RemoveKind) (export.Object, export.Change, error) {
	n, ch, dead, st := v.remove(c, dir, name, kind)
	if st != export.OK {
		return export.Object{}, export.Change{}, fail("remove", name, st)
	}
	if dead {
		v.drop(n)
	}
	return n.object(), ch, nil
}

func (v *Volume) remove(c *export.Cred, dir export.Object, name string, kind export.RemoveKind) (n *node, ch export.Change, dead bool, st export.Status) {
	d, st := v.getDir(dir)
	if st != export.OK {
		return nil, ch, false, st
	}
	if len(name) > maxName {
		return nil, ch, false, export.ErrNameTooLong
	}
	d.dir.names.Lock()
	defer d.dir.names.Unlock()
	if st := d.searchLocked(c); st != export.OK {
		return nil, ch, false, st
	}
	e := d.dir.entries[name]
	if e == nil {
		return nil, ch, false, export.ErrNoEnt
	}
	n = e.node
	if st := d.mayUnlinkLocked(c, n); st != export.OK {
		return nil, ch, false, st
	}
	switch {
	case kind == export.RemoveDir && n.dir == nil:
		return nil, ch, false, export.ErrNotDir
	case kind == export.RemoveFile && n.dir != nil:
		return nil, ch, false, export.ErrIsDir
	}
	now := v.now()
	if n.dir == nil {
		dead = n.unlink(1, now)
		ch = d.changeDir(-1, 0, now)
	} else {
		if st := n.dir.retire(); st != export.OK {
			return nil, ch, false, st
		}
		dead = n.unlink(2, now)
		ch = d.changeDir(-1, -1, now)
	}
	d.dir.removeLocked(e)
	v.space.give(nameCost(name))
	return n, ch, dead, export.OK
}

// mayUnlinkLocked checks that c may take the name of n out of the directory d.
func (d *node) mayUnlinkLocked(c *export.Cred, n *node) export.Status {
	da, a := d.snapshot(), n.snapshot()
	return export.StatusOf(export.CheckRemove(c, &da, &a))
}

// retire marks an empty directory as removed, so that nothing can be added to
// it any more. The caller holds the names of its parent.
func (d *directory) retire() export.Status {
	d.names.Lock()
	defer d.names.Unlock()
	if len(d.entries) != 0 {
		return export.ErrNotEmpty
	}
	d.removed = true
	return export.OK
}
