package nfs3

import (
	"capstan/export"
	"capstan/server/xdr"
)

func decodeLookup(c *call, d *xdr.Decoder) { c.args.name = c.decodeDirOp(d, 0) }

// LOOKUP (RFC 1813 section 3.3.3). "." and ".." are resolved here, since no
// Volume has them as names; the root of an export is its own parent, since a
// client of NFSv3 mounts one export and must not be led out of it.
func (c *call) lookup() Status {
	if st := c.enter(0); st != OK {
		return st
	}
	t := &c.target[0]
	var n export.Node
	var a export.Attr
	var err error
	switch name := string(c.args.name); name {
	case ".", "..":
		var ok bool
		if n, a, ok, err = c.lookupDot(t, name); err == nil && !ok {
			return ErrAccess
		}
	default:
		f := t.volume().Features()
		if st := checkPlainName(c.args.name, &f); st != OK {
			return st
		}
		n, a, err = c.table.Lookup(c.ctx, &c.peer, version, t.rights, t.node, name, export.MaskAll)
	}
	if err != nil {
		return c.fail(err)
	}
	c.found(n, &a)
	return OK
}

// lookupDot resolves "." and "..", for which the caller needs search permission
// like for any name; ok is false if it has none.
func (c *call) lookupDot(t *target, name string) (n export.Node, a export.Attr, ok bool, err error) {
	v, cred := t.volume(), t.rights.Cred
	got, a, err := v.Access(c.ctx, cred, t.node.Object, export.AccessLookup)
	switch {
	case err != nil:
		return n, a, false, err
	case a.Type != export.TypeDirectory:
		return n, a, false, export.ErrNotDir
	case got == 0:
		return n, a, false, nil
	}
	if name == ".." {
		n, a, err = c.table.Parent(c.ctx, &c.peer, version, t.rights, t.node, export.MaskAll)
		return n, a, true, err
	}
	a, err = v.GetAttr(c.ctx, cred, t.node.Object, export.MaskAll)
	return t.node, a, true, err
}

func (c *call) encodeLookup() {
	c.encodeHandle(c.res.object)
	c.encodeFoundAttr()
	c.encodePostAttr(0)
}

// READLINK (section 3.3.5).
func (c *call) readLink() Status {
	if st := c.enter(0); st != OK {
		return st
	}
	t := &c.target[0]
	link, err := t.volume().Readlink(c.ctx, t.rights.Cred, t.node.Object)
	if err != nil {
		return c.fail(err)
	}
	c.res.link = link
	return OK
}

func (c *call) encodeReadLink() {
	c.encodePostAttr(0)
	c.reply.String(c.res.link)
}

func decodeRemove(c *call, d *xdr.Decoder) { c.args.name = c.decodeDirOp(d, 0) }

// REMOVE (section 3.3.12) removes anything but a directory.
func (c *call) remove() Status { return c.removeEntry(export.RemoveFile, dotsToRemove) }

// RMDIR (section 3.3.13) removes an empty directory.
func (c *call) rmdir() Status { return c.removeEntry(export.RemoveDir, dotsToRmdir) }

func (c *call) removeEntry(kind export.RemoveKind, d dots) Status {
	if st := c.enterToName(0, c.args.name, d); st != OK {
		return st
	}
	t := &c.target[0]
	gone, ch, err := t.volume().Remove(c.ctx, t.rights.Cred, t.node.Object, string(c.args.name), kind)
	if err != nil {
		return c.fail(err)
	}
	if kind == export.RemoveFile {
		// An open file would keep the object, and its space, alive.
		c.lostName(0, gone)
	}
	t.wcc.change(&ch)
	return OK
}

func decodeRename(c *call, d *xdr.Decoder) {
	c.args.name = c.decodeDirOp(d, 0)
	c.args.toName = c.decodeDirOp(d, 1)
}

// RENAME (section 3.3.14). Incompatible targets are told apart (ISDIR, NOTDIR,
// NOTEMPTY) as POSIX does and as every client in use understands, where the
// RFC would have EXIST for all of them.
func (c *call) rename() Status {
	if st := c.enterToName(0, c.args.name, dotsToRename); st != OK {
		return st
	}
	if st := c.enterToName(1, c.args.toName, dotsToRename); st != OK {
		return st
	}
	from, to := &c.target[0], &c.target[1]
	if from.node.Export != to.node.Export {
		return ErrXDev
	}
	r, err := from.volume().Rename(c.ctx, from.rights.Cred, from.node.Object, string(c.args.name),
		to.node.Object, string(c.args.toName))
	if err != nil {
		return c.fail(err)
	}
	if r.Replaced != nil {
		c.lostName(1, *r.Replaced)
	}
	from.wcc.change(&r.From)
	to.wcc.change(&r.To)
	return OK
}

func decodeLink(c *call, d *xdr.Decoder) {
	c.decodeHandle(d, 0)
	c.args.toName = c.decodeDirOp(d, 1)
}

// LINK (section 3.3.15).
func (c *call) link() Status {
	if st := c.enterToModify(0); st != OK {
		return st
	}
	if st := c.enterToName(1, c.args.toName, dotsToMake); st != OK {
		return st
	}
	file, dir := &c.target[0], &c.target[1]
	if file.node.Export != dir.node.Export {
		return ErrXDev
	}
	made, err := dir.volume().Link(c.ctx, dir.rights.Cred, file.node.Object, dir.node.Object, string(c.args.toName))
	if err != nil {
		return c.fail(err)
	}
	file.wcc.setPost(&made.Attr)
	dir.wcc.change(&made.Dir)
	return OK
}
