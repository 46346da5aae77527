package nfs3

import (
	"bytes"

	"capstan/export"
	"capstan/server/xdr"
)

// createmode3 (RFC 1813 section 3.3.8).
const (
	createUnchecked = 0
	createGuarded   = 1
	createExclusive = 2
)

func decodeCreate(c *call, d *xdr.Decoder) {
	c.args.name = c.decodeDirOp(d, 0)
	switch d.Uint32("createmode") {
	case createUnchecked:
		c.args.createMode = export.CreateUnchecked
		decodeSetAttr(d, &c.args.attr)
	case createGuarded:
		c.args.createMode = export.CreateGuarded
		decodeSetAttr(d, &c.args.attr)
	case createExclusive:
		c.args.createMode = export.CreateExclusive
		copy(c.args.createVerf[:], d.Fixed("createverf", len(c.args.createVerf)))
	default:
		d.Fail("createmode", xdr.ErrValue)
	}
}

// CREATE (section 3.3.8) makes a regular file. Of an existing one UNCHECKED
// changes nothing, except that size 0 truncates it; EXCLUSIVE takes it if it
// was made with the same verifier.
func (c *call) create() Status {
	if st := c.enterToMake(); st != OK {
		return st
	}
	t := &c.target[0]
	// An existing file is cut as SETATTR would, once it is known which it is. A
	// new one is empty anyway.
	attr := c.args.attr
	cut := c.args.createMode == export.CreateUnchecked && attr.Set&export.SetSize != 0 && attr.Size == 0
	if cut {
		withoutSize(&attr)
	}
	made, err := t.volume().Create(c.ctx, t.rights.Cred, t.node.Object, string(c.args.name), &export.Create{
		Mode: c.args.createMode, Attr: attr, Verifier: c.args.createVerf,
	})
	if st := c.made(&made, err); st != OK || made.New || !cut {
		return st
	}
	return c.cutFound()
}

// cutFound sets the size of the results' object to 0. Unlike with SETATTR its
// owner needs write permission too: he asks to open the file.
func (c *call) cutFound() Status {
	n := c.res.object
	if c.denied(n, true) {
		return ErrAccess
	}
	ch, err := n.Export.Volume.SetAttr(c.ctx, c.target[0].rights.Cred, n.Object, nil, &export.SetAttr{Set: export.SetSize})
	if err != nil {
		return c.fail(err)
	}
	c.found(n, &ch.Post)
	return OK
}

// enterToMake enters the directory of a new object and checks what it is to
// be.
func (c *call) enterToMake() Status {
	if st := c.enterToName(0, c.args.name, dotsToMake); st != OK {
		return st
	}
	return checkSetAttr(&c.args.attr)
}

// made records a new object.
func (c *call) made(m *export.Created, err error) Status {
	if err != nil {
		return c.fail(err)
	}
	t := &c.target[0]
	c.found(export.Node{Export: t.node.Export, Object: m.Object}, &m.Attr)
	t.wcc.change(&m.Dir)
	return OK
}

func (c *call) encodeCreated() {
	c.reply.Bool(true) // post_op_fh3
	c.encodeHandle(c.res.object)
	c.encodeFoundAttr()
	c.encodeWcc(0)
}

// withoutSize drops a size given for an object that has none to set.
func withoutSize(s *export.SetAttr) *export.SetAttr {
	s.Set &^= export.SetSize
	return s
}

func decodeMkdir(c *call, d *xdr.Decoder) {
	c.args.name = c.decodeDirOp(d, 0)
	decodeSetAttr(d, &c.args.attr)
}

// MKDIR (section 3.3.9).
func (c *call) mkdir() Status {
	if st := c.enterToMake(); st != OK {
		return st
	}
	t := &c.target[0]
	made, err := t.volume().Mkdir(c.ctx, t.rights.Cred, t.node.Object, string(c.args.name), withoutSize(&c.args.attr))
	return c.made(&made, err)
}

func decodeSymlink(c *call, d *xdr.Decoder) {
	c.args.name = c.decodeDirOp(d, 0)
	decodeSetAttr(d, &c.args.attr)
	c.args.path = d.Opaque("symlink_data", wireNameMax)
}

// SYMLINK (section 3.3.10). The target is stored as it is; nobody here follows
// it.
func (c *call) symlink() Status {
	if st := c.enterToMake(); st != OK {
		return st
	}
	switch {
	case len(c.args.path) == 0, bytes.IndexByte(c.args.path, 0) >= 0:
		return ErrInval
	case len(c.args.path) > pathMax:
		return ErrNameTooLong
	}
	t := &c.target[0]
	made, err := t.volume().Symlink(c.ctx, t.rights.Cred, t.node.Object, string(c.args.name),
		string(c.args.path), withoutSize(&c.args.attr))
	return c.made(&made, err)
}

func decodeMknod(c *call, d *xdr.Decoder) {
	c.args.name = c.decodeDirOp(d, 0)
	c.args.nodeType = d.Uint32("type")
	switch export.FileType(c.args.nodeType) {
	case export.TypeChar, export.TypeBlock:
		decodeSetAttr(d, &c.args.attr)
		c.args.rdev = export.Device{Major: d.Uint32("specdata1"), Minor: d.Uint32("specdata2")}
	case export.TypeSocket, export.TypeFIFO:
		decodeSetAttr(d, &c.args.attr)
	}
	// Every other type is void here, and BADTYPE for mknod.
}

// MKNOD (section 3.3.11).
func (c *call) mknod() Status {
	if st := c.enterToMake(); st != OK {
		return st
	}
	typ := export.FileType(c.args.nodeType)
	switch typ {
	case export.TypeChar, export.TypeBlock, export.TypeSocket, export.TypeFIFO:
	default:
		return ErrBadType
	}
	t := &c.target[0]
	made, err := t.volume().Mknod(c.ctx, t.rights.Cred, t.node.Object, string(c.args.name), &export.NewNode{
		Type: typ, Rdev: c.args.rdev, Attr: *withoutSize(&c.args.attr),
	})
	return c.made(&made, err)
}
