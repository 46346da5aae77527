package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"capstan/export"
)

// xattrCost is what an attribute costs of Options.MaxBytes.
func xattrCost(name string, value []byte) int64 { return int64(len(name)+len(value)) + 64 }

// readXattrs calls read with the attributes of o if c may read them.
func (v *Volume) readXattrs(c *export.Cred, o export.Object, read func(map[string][]byte) export.Status) export.Status {
	n, st := v.get(o)
	if st != export.OK {
		return st
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.dead {
		return export.ErrStale
	}
	if err := export.CheckXattr(c, &n.attr, false); err != nil {
		return export.StatusOf(err)
	}
	return read(n.xattrs)
}

// writeXattrs calls write for the node of o if c may change its attributes,
// with node.mu held.
func (v *Volume) writeXattrs(c *export.Cred, o export.Object, write func(*node) export.Status) (ch export.Change, st export.Status) {
	n, st := v.get(o)
	if st != export.OK {
		return ch, st
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return ch, export.ErrStale
	}
	if err := export.CheckXattr(c, &n.attr, true); err != nil {
		return ch, export.StatusOf(err)
	}
	pre := n.attr.PreAttr()
	if st := write(n); st != export.OK {
		return ch, st
	}
	n.touchLocked(v.now())
	return export.Change{Pre: pre, Post: n.attr, Atomic: true}, export.OK
}

// checkXattrName checks the name without its "user." prefix, which counts.
func checkXattrName(name string) export.Status {
	switch {
	case name == "":
		return export.ErrInval
	case len(name) > maxName-len("user."):
		return export.ErrNameTooLong
	}
	return export.OK
}

// GetXattr implements [export.Volume].
func (v *Volume) GetXattr(_ context.Context, c *export.Cred, o export.Object, name string) ([]byte, error) {
	var value []byte
	st := checkXattrName(name)
	if st == export.OK {
		st = v.readXattrs(c, o, func(all map[string][]byte) export.Status {
			got, ok := all[name]
			if !ok {
				return export.ErrNoXattr
			}
			value = append(make([]byte, 0, len(got)), got...)
			return export.OK
		})
	}
	if st != export.OK {
		return nil, fail("getxattr", name, st)
	}
	return value, nil
}

// ListXattr implements [export.Volume].
func (v *Volume) ListXattr(_ context.Context, c *export.Cred, o export.Object) ([]string, error) {
	var names []string
	st := v.readXattrs(c, o, func(all map[string][]byte) export.Status {
		names = slices.Sorted(maps.Keys(all))
		return export.OK
	})
	if st == export.ErrNoXattr { // a type that has none
		return nil, nil
	}
	if st != export.OK {
		return nil, fail("listxattr", "", st)
	}
	return names, nil
}

// SetXattr implements [export.Volume].
func (v *Volume) SetXattr(_ context.Context, c *export.Cred, o export.Object, name string, value []byte, mode export.XattrMode) (export.Change, error) {
	var ch export.Change
	st := checkXattrName(name)
	if st == export.OK && len(value) > maxXattr {
		st = export.ErrXattrTooBig
	}
	if st == export.OK {
		ch, st = v.writeXattrs(c, o, func(n *node) export.Status {
			return n.setXattrLocked(v, name, value, mode)
		})
	}
	if st != export.OK {
		return export.Change{}, fail("setxattr", name, st)
	}
	return ch, nil
}

func (n *node) setXattrLocked(v *Volume, name string, value []byte, mode export.XattrMode) export.Status {
	old, exists := n.xattrs[name]
	switch {
	case exists && mode == export.XattrCreate:
		return export.ErrExist
	case !exists && mode == export.XattrReplace:
		return export.ErrNoXattr
	}
	total := len(name) + len(value)
	for other, value := range n.xattrs {
		if other != name {
			total += len(other) + len(value)
		}
	}
	cost := xattrCost(name, value)
	if exists {
		cost -= xattrCost(name, old)
	}
	if total > maxXattrs || !v.space.take(cost) {
		return export.ErrNoSpc
	}
	if n.xattrs == nil {
		n.xattrs = make(map[string][]byte)
	}
	n.xattrs[name] = bytes.Clone(value)
	return export.OK
}

// RemoveXattr implements [export.Volume].
func (v *Volume) RemoveXattr(_ context.Context, c *export.Cred, o export.Object, name string) (export.Change, error) {
	var ch export.Change
	st := checkXattrName(name)
	if st == export.OK {
		ch, st = v.writeXattrs(c, o, func(n *node) export.Status {
			old, ok := n.xattrs[name]
			if !ok {
				return export.ErrNoXattr
			}
			v.space.give(xattrCost(name, old))
			delete(n.xattrs, name)
			return export.OK
		})
	}
	if st != export.OK {
		return export.Change{}, fail("removexattr", name, st)
	}
	return ch, nil
}
