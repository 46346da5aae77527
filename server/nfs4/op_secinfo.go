package nfs4

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

func securityOps() []operation {
	return []operation{
		op(nfsv4.OpSecInfo, 0, 2, needsFH, codec[nameArgs, none]{
			decode: (*nameArgs).decode, run: opSecInfo, encode: encodeFlavors}),
		op(nfsv4.OpSecInfoNoName, 1, 2, needsFH, codec[secInfoNoNameArgs, none]{
			decode: (*secInfoNoNameArgs).decode, run: opSecInfoNoName, encode: encodeFlavors}),
	}
}

// flavors are the security flavors of every export, the preferred one first.
var flavors = [...]uint32{nfsv4.AuthSys, nfsv4.AuthNone}

func encodeFlavors(_ *none, _ nfsv4.Status, e *xdr.Encoder) {
	e.Uint32(uint32(len(flavors)))
	for _, f := range flavors {
		e.Uint32(f)
	}
}

// opSecInfo answers for a name, and consumes the current filehandle (RFC 8881
// section 18.29.3, 2.6.3.1.1.8).
func opSecInfo(c *compound, a *nameArgs, _ *none) nfsv4.Status {
	if st := c.checkName(a.name); st != nfsv4.OK {
		return st
	}
	if _, _, err := c.lookup(a.name, 0); err != nil {
		return c.dirStatus(err)
	}
	if c.minor > 0 {
		c.cur = handle{}
	}
	return nfsv4.OK
}

type secInfoNoNameArgs struct{ style uint32 }

func (a *secInfoNoNameArgs) decode(d *xdr.Decoder) {
	a.style = d.Uint32("secinfo_style4")
	if a.style > nfsv4.SecInfoParent {
		d.Fail("secinfo_style4", xdr.ErrValue)
	}
}

func opSecInfoNoName(c *compound, a *secInfoNoNameArgs, _ *none) nfsv4.Status {
	if a.style == nfsv4.SecInfoParent {
		if _, _, err := c.parent(0); err != nil {
			return c.dirStatus(err)
		}
	}
	c.cur = handle{}
	return nfsv4.OK
}

// lookup finds name below the current filehandle.
func (c *compound) lookup(name []byte, mask export.AttrMask) (export.Node, export.Attr, error) {
	return c.table.Lookup(c.ctx, &c.peer, c.version(), c.cur.rights, c.cur.node, string(name), mask)
}

// parent finds the directory above the current filehandle.
func (c *compound) parent(mask export.AttrMask) (export.Node, export.Attr, error) {
	return c.table.Parent(c.ctx, &c.peer, c.version(), c.cur.rights, c.cur.node, mask)
}
