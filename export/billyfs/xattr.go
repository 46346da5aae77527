package billyfs

import (
	"context"
	"slices"
	"strings"

	"capstan/export"
)

// xattrPrefix is the name space that RFC 8276 gives clients.
const xattrPrefix = "user."

// The limits of Linux: XATTR_NAME_MAX, and XATTR_SIZE_MAX in bytes.
const (
	maxXattrName = 255
	maxXattr     = 65536
)

// xattrTarget finds and locks o for a call on its extended attributes.
func (v *Volume) xattrTarget(ctx context.Context, c *export.Cred, o export.Object, name *string, change bool) (*target, *lockSet, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if !v.facts.Xattrs {
		return nil, nil, export.ErrNotSupp
	}
	if name != nil {
		switch n := *name; {
		case n == "" || strings.IndexByte(n, 0) >= 0:
			return nil, nil, export.ErrInval
		case len(xattrPrefix)+len(n) > maxXattrName:
			return nil, nil, export.ErrNameTooLong
		}
	}
	if change {
		if err := v.writable(); err != nil {
			return nil, nil, err
		}
	}
	t, ls, err := v.locked(o, export.MaskAll, change)
	if err != nil {
		return nil, nil, err
	}
	err = export.CheckXattr(c, &t.info.Attr, change)
	if err == nil && t.path == "" {
		err = export.ErrStale // by path only, and it has none
	}
	if err != nil {
		ls.unlock()
		return nil, nil, err
	}
	return t, ls, nil
}

// GetXattr implements [export.Volume].
func (v *Volume) GetXattr(ctx context.Context, c *export.Cred, o export.Object, name string) (value []byte, err error) {
	defer func() { err = export.Wrap("getxattr", name, err) }()
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, ls, err := v.xattrTarget(ctx, c, o, &name, false)
	if err != nil {
		return nil, err
	}
	defer ls.unlock()
	return v.ext.xattrer.Lgetxattr(t.path, xattrPrefix+name)
}

// ListXattr implements [export.Volume].
func (v *Volume) ListXattr(ctx context.Context, c *export.Cred, o export.Object) (names []string, err error) {
	defer func() { err = export.Wrap("listxattr", label(o), err) }()
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, ls, err := v.xattrTarget(ctx, c, o, nil, false)
	if export.StatusOf(err) == export.ErrNoXattr {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer ls.unlock()
	all, err := v.ext.xattrer.Llistxattr(t.path)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		if short, ok := strings.CutPrefix(n, xattrPrefix); ok && short != "" {
			names = append(names, short)
		}
	}
	slices.Sort(names)
	return names, nil
}

// SetXattr implements [export.Volume].
func (v *Volume) SetXattr(ctx context.Context, c *export.Cred, o export.Object, name string, value []byte, mode export.XattrMode) (export.Change, error) {
	if len(value) > maxXattr {
		return export.Change{}, export.Wrap("setxattr", name, export.ErrXattrTooBig)
	}
	return v.changeXattr(ctx, c, o, "setxattr", name, func(path string) error {
		return v.ext.xattrer.Lsetxattr(path, xattrPrefix+name, value, mode)
	})
}

// RemoveXattr implements [export.Volume].
func (v *Volume) RemoveXattr(ctx context.Context, c *export.Cred, o export.Object, name string) (export.Change, error) {
	return v.changeXattr(ctx, c, o, "removexattr", name, func(path string) error {
		return v.ext.xattrer.Lremovexattr(path, xattrPrefix+name)
	})
}

func (v *Volume) changeXattr(ctx context.Context, c *export.Cred, o export.Object, op, name string, do func(path string) error) (ch export.Change, err error) {
	defer func() { err = export.Wrap(op, name, err) }()
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, ls, err := v.xattrTarget(ctx, c, o, &name, true)
	if err != nil {
		return ch, err
	}
	defer ls.unlock()
	pre := v.attr(&t.info, t.seq)
	if err := do(t.path); err != nil {
		return ch, err
	}
	before, this := v.changed(o, false)
	if err := v.syncAttrs(t.path); err != nil {
		return ch, err
	}
	seq := v.table.now()
	info, err := v.stat(t.ref, t.path, export.MaskAll)
	if err != nil {
		return ch, err
	}
	return export.Change{Pre: pre.PreAttr(), Post: v.attr(&info, seq), Atomic: v.atomic(t, before, this)}, nil
}
