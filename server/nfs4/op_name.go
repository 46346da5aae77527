package nfs4

import (
	"bytes"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/xdr"
)

func nameOps() []operation {
	return []operation{
		op(nfsv4.OpLookup, 0, 2, needsFH, codec[nameArgs, none]{
			decode: (*nameArgs).decode, run: opLookup}),
		op(nfsv4.OpLookupP, 0, 2, needsFH, codec[none, none]{run: opLookupP}),
		op(nfsv4.OpReadLink, 0, 2, needsFH, codec[none, none]{run: opReadLink}),
		op(nfsv4.OpCreate, 0, 2, needsFH|modifies|writesFS, codec[createArgs, createRes]{
			decode: (*createArgs).decode, limit: limitCreate, run: opCreate, encode: (*createRes).encode}),
		op(nfsv4.OpLink, 0, 2, needsFH|needsSaved|modifies|writesFS, codec[nameArgs, changeInfo]{
			decode: (*nameArgs).decode, limit: limitChangeInfo[nameArgs], run: opLink, encode: (*changeInfo).encode}),
		op(nfsv4.OpRemove, 0, 2, needsFH|modifies|writesFS, codec[nameArgs, changeInfo]{
			decode: (*nameArgs).decode, limit: limitChangeInfo[nameArgs], run: opRemove, encode: (*changeInfo).encode}),
		op(nfsv4.OpRename, 0, 2, needsFH|needsSaved|modifies|writesFS, codec[renameArgs, renameRes]{
			decode: (*renameArgs).decode, limit: limitRename, run: opRename, encode: (*renameRes).encode}),
	}
}

// nameArgs are arguments that are one component name.
type nameArgs struct{ name []byte }

func (a *nameArgs) decode(d *xdr.Decoder) { a.name = decodeName(d) }

// checkName checks a name for the current filehandle's Volume.
func (c *compound) checkName(name []byte) nfsv4.Status {
	return checkName(name, maxNameOf(c.cur.vol()))
}

// changeInfo is change_info4 (RFC 8881 section 3.3.5).
type changeInfo struct {
	atomic        bool
	before, after uint64
}

const sizeofChangeInfo = 20

func changeInfoOf(ch *export.Change) changeInfo {
	return changeInfo{ch.Atomic, ch.Pre.Change, ch.Post.Change}
}

func limitChangeInfo[A any](*compound, *A) int { return sizeofChangeInfo }

func (i *changeInfo) encode(_ nfsv4.Status, e *xdr.Encoder) {
	e.Bool(i.atomic)
	e.Uint64(i.before)
	e.Uint64(i.after)
}

// dirStatus translates an error of a call that wanted the current filehandle
// to be a directory: a symbolic link is told so.
func (c *compound) dirStatus(err error) nfsv4.Status {
	st := c.statusOf(err)
	if st == nfsv4.ErrNotDir {
		a, err := c.cur.vol().GetAttr(c.ctx, c.cur.rights.Cred, c.cur.node.Object, 0)
		if err == nil && a.Type == export.TypeSymlink {
			return nfsv4.ErrSymlink
		}
	}
	return st
}

func opLookup(c *compound, a *nameArgs, _ *none) nfsv4.Status {
	if st := c.checkName(a.name); st != nfsv4.OK {
		return st
	}
	node, _, err := c.lookup(a.name, 0)
	if err != nil {
		return c.dirStatus(err)
	}
	return c.setCurrent(node)
}

func opLookupP(c *compound, _ *none, _ *none) nfsv4.Status {
	node, _, err := c.parent(0)
	if err != nil {
		return c.dirStatus(err)
	}
	return c.setCurrent(node)
}

func opReadLink(c *compound, _ *none, _ *none) nfsv4.Status {
	target, err := c.cur.vol().Readlink(c.ctx, c.cur.rights.Cred, c.cur.node.Object)
	if st := c.statusOf(err); st == nfsv4.ErrInval && c.minor > 0 {
		return nfsv4.ErrWrongType // RFC 8881 section 18.24.3
	} else if st != nfsv4.OK {
		return st
	}
	c.e.String(target)
	return nfsv4.OK
}

// maxLinkText is the longest target of a symbolic link, in bytes.
const maxLinkText = 4095

// createArgs is CREATE4args (RFC 8881 section 18.4.1).
type createArgs struct {
	typ    export.FileType
	target []byte
	rdev   export.Device
	name   []byte
	attrs  fattr
}

func (a *createArgs) decode(d *xdr.Decoder) {
	a.typ = export.FileType(d.Uint32("createtype4"))
	switch a.typ {
	case export.TypeSymlink:
		a.target = d.Opaque("linkdata", maxNameOnWire)
	case export.TypeBlock, export.TypeChar:
		a.rdev.Major = d.Uint32("specdata1")
		a.rdev.Minor = d.Uint32("specdata2")
	}
	a.name = decodeName(d)
	a.attrs.decode(d)
}

type createRes struct {
	info    changeInfo
	attrset nfsv4.Bitmap
}

// sizeofBitmap is the largest bitmap4 we send.
const sizeofBitmap = 16

func limitCreate(*compound, *createArgs) int { return sizeofChangeInfo + sizeofBitmap }

func opCreate(c *compound, a *createArgs, r *createRes) nfsv4.Status {
	switch a.typ {
	case export.TypeDirectory, export.TypeSymlink, export.TypeBlock, export.TypeChar, export.TypeSocket, export.TypeFIFO:
	default:
		return nfsv4.ErrBadType
	}
	if st := c.checkName(a.name); st != nfsv4.OK {
		return st
	}
	s := &c.change
	if st := s.parse(c, &a.attrs); st != nfsv4.OK {
		return st
	}
	if s.Set&export.SetSize != 0 {
		return nfsv4.ErrInval
	}
	s.newMode()
	made, st := c.create(a, &s.SetAttr)
	if st != nfsv4.OK {
		return st
	}
	r.info, r.attrset = changeInfoOf(&made.Dir), a.attrs.mask
	return c.setCurrent(export.Node{Export: c.cur.node.Export, Object: made.Object})
}

func (c *compound) create(a *createArgs, s *export.SetAttr) (made export.Created, st nfsv4.Status) {
	vol, cred, dir, name := c.cur.vol(), c.cur.rights.Cred, c.cur.node.Object, string(a.name)
	var err error
	switch a.typ {
	case export.TypeDirectory:
		made, err = vol.Mkdir(c.ctx, cred, dir, name, s)
	case export.TypeSymlink:
		switch {
		case len(a.target) == 0 || bytes.IndexByte(a.target, 0) >= 0:
			return made, nfsv4.ErrInval
		case len(a.target) > maxLinkText:
			return made, nfsv4.ErrNameTooLong
		}
		made, err = vol.Symlink(c.ctx, cred, dir, name, string(a.target), s)
	default:
		made, err = vol.Mknod(c.ctx, cred, dir, name, &export.NewNode{Type: a.typ, Rdev: a.rdev, Attr: *s})
	}
	if st := c.statusOf(err); st == nfsv4.ErrNotSupp {
		return made, nfsv4.ErrBadType // the Volume has no objects of this type
	}
	if err != nil {
		return made, c.dirStatus(err)
	}
	return made, nfsv4.OK
}

func (r *createRes) encode(st nfsv4.Status, e *xdr.Encoder) {
	r.info.encode(st, e)
	r.attrset.Encode(e)
}

func opLink(c *compound, a *nameArgs, r *changeInfo) nfsv4.Status {
	if st := c.checkName(a.name); st != nfsv4.OK {
		return st
	}
	if c.saved.node.Export != c.cur.node.Export {
		return nfsv4.ErrXDev
	}
	made, err := c.cur.vol().Link(c.ctx, c.cur.rights.Cred, c.saved.node.Object, c.cur.node.Object, string(a.name))
	if err != nil {
		return c.dirStatus(err)
	}
	*r = changeInfoOf(&made.Dir)
	return nfsv4.OK
}

func opRemove(c *compound, a *nameArgs, r *changeInfo) nfsv4.Status {
	if st := c.checkName(a.name); st != nfsv4.OK {
		return st
	}
	gone, ch, err := c.cur.vol().Remove(c.ctx, c.cur.rights.Cred, c.cur.node.Object, string(a.name), export.RemoveAny)
	if err != nil {
		return c.dirStatus(err)
	}
	c.lostName(gone)
	*r = changeInfoOf(&ch)
	return nfsv4.OK
}

// lostName is told of an object of the current export that a name was taken
// from: what only the server keeps open must not keep its space.
func (c *compound) lostName(o export.Object) {
	c.srv.opts.OpenFiles.Forget(c.cur.vol(), o)
	c.srv.opts.State.Removed(c.ctx, state.FileKey{Export: c.cur.node.Export.ID, Object: o})
}

// renameArgs is RENAME4args (RFC 8881 section 18.26.1).
type renameArgs struct{ from, to []byte }

func (a *renameArgs) decode(d *xdr.Decoder) {
	a.from = decodeName(d)
	a.to = decodeName(d)
}

type renameRes struct{ from, to changeInfo }

func limitRename(*compound, *renameArgs) int { return 2 * sizeofChangeInfo }

func opRename(c *compound, a *renameArgs, r *renameRes) nfsv4.Status {
	for _, name := range [...][]byte{a.from, a.to} {
		if st := c.checkName(name); st != nfsv4.OK {
			return st
		}
	}
	if c.saved.node.Export != c.cur.node.Export {
		return nfsv4.ErrXDev
	}
	done, err := c.cur.vol().Rename(c.ctx, c.cur.rights.Cred, c.saved.node.Object, string(a.from), c.cur.node.Object, string(a.to))
	if err != nil {
		// A directory in the way of a file, which the table of RFC 8881 section
		// 15.2 has no ISDIR for, is EXIST (section 18.26.3).
		return c.statusOf(err)
	}
	if done.Replaced != nil {
		c.lostName(*done.Replaced)
	}
	r.from, r.to = changeInfoOf(&done.From), changeInfoOf(&done.To)
	return nfsv4.OK
}

func (r *renameRes) encode(st nfsv4.Status, e *xdr.Encoder) {
	r.from.encode(st, e)
	r.to.encode(st, e)
}
