package nfs3

import (
	"capstan/export"
	"capstan/server/xdr"
)

// GETATTR (RFC 1813 section 3.3.1) needs no permission on the object.
func (c *call) getAttr() Status {
	if st := c.enter(0); st != OK {
		return st
	}
	t := &c.target[0]
	a, err := t.volume().GetAttr(c.ctx, t.rights.Cred, t.node.Object, export.MaskAll)
	if err != nil {
		return c.fail(err)
	}
	t.wcc.setPost(&a)
	return OK
}

func (c *call) encodeGetAttr() {
	t := &c.target[0]
	encodeAttr(c.reply, &t.wcc.post, t.fsid())
}

func decodeSetAttrArgs(c *call, d *xdr.Decoder) {
	c.decodeHandle(d, 0)
	decodeSetAttr(d, &c.args.attr)
	if d.Bool("guard") {
		c.args.attr.Set |= export.SetGuard
		c.args.attr.Guard = decodeTime(d, "guard ctime")
	}
}

// SETATTR (section 3.3.2). The owner of a file may set its size whatever the
// mode says, as it may write: a client that has the file open for writing asks
// on the strength of its own check at open.
func (c *call) setAttr() Status {
	if st := c.enterToModify(0); st != OK {
		return st
	}
	if st := checkSetAttr(&c.args.attr); st != OK {
		return st
	}
	t := &c.target[0]
	var via export.File
	if c.args.attr.Set&export.SetSize != 0 {
		if c.denied(t.node, true) {
			return ErrAccess
		}
		owner, err := c.ownerWithoutWrite(t)
		if err != nil {
			return c.fail(err)
		}
		if owner {
			f, release, err := c.server.files.Get(c.ctx, t.volume(), t.node.Object, export.OpenWrite)
			if err != nil {
				return c.fail(err)
			}
			defer release()
			via = f
		}
	}
	ch, err := t.volume().SetAttr(c.ctx, t.rights.Cred, t.node.Object, via, &c.args.attr)
	if err != nil {
		return c.fail(err)
	}
	t.wcc.change(&ch)
	return OK
}

// ownerWithoutWrite reports whether the caller owns the regular file t and has
// no write permission on it.
func (c *call) ownerWithoutWrite(t *target) (bool, error) {
	got, a, err := t.volume().Access(c.ctx, t.rights.Cred, t.node.Object, export.AccessModify)
	if err != nil {
		return false, err
	}
	return got == 0 && a.UID == t.rights.Cred.UID && a.Type == export.TypeRegular, nil
}

// accessMask is what ACCESS of NFSv3 can ask for.
const accessMask = export.AccessRead | export.AccessLookup | export.AccessModify |
	export.AccessExtend | export.AccessDelete | export.AccessExecute

// accessToModify is what a read-only export takes away.
const accessToModify = export.AccessModify | export.AccessExtend | export.AccessDelete

func decodeAccess(c *call, d *xdr.Decoder) {
	c.decodeHandle(d, 0)
	c.args.access = d.Uint32("access")
}

// ACCESS (section 3.3.4). Rights it has no bit for are not answered.
func (c *call) access() Status {
	if st := c.enter(0); st != OK {
		return st
	}
	t := &c.target[0]
	got, _, err := t.volume().Access(c.ctx, t.rights.Cred, t.node.Object, export.Access(c.args.access)&accessMask)
	if err != nil {
		return c.fail(err)
	}
	if t.rights.ReadOnly {
		got &^= accessToModify
	}
	c.res.access = got
	return OK
}

func (c *call) encodeAccess() {
	c.encodePostAttr(0)
	c.reply.Uint32(uint32(c.res.access))
}
