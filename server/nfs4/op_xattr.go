package nfs4

import (
	"bytes"
	"cmp"
	"slices"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// xattrOps are the operations of RFC 8276.
func xattrOps() []operation {
	return []operation{
		op(nfsv4.OpGetXattr, 2, 2, needsFH, codec[nameArgs, none]{
			decode: (*nameArgs).decode, run: opGetXattr}),
		op(nfsv4.OpSetXattr, 2, 2, needsFH|modifies|writesFS, codec[setXattrArgs, changeInfo]{
			decode: (*setXattrArgs).decode, limit: limitChangeInfo[setXattrArgs], run: opSetXattr, encode: (*changeInfo).encode}),
		op(nfsv4.OpListXattrs, 2, 2, needsFH, codec[listXattrsArgs, none]{
			decode: (*listXattrsArgs).decode, run: opListXattrs}),
		op(nfsv4.OpRemoveXattr, 2, 2, needsFH|modifies|writesFS, codec[nameArgs, changeInfo]{
			decode: (*nameArgs).decode, limit: limitChangeInfo[nameArgs], run: opRemoveXattr, encode: (*changeInfo).encode}),
	}
}

// maxXattrName is the longest name, in bytes: 255 with the "user." that the
// protocol leaves out.
const maxXattrName = 250

// checkXattr checks what all operations on a named attribute ask for.
func (c *compound) checkXattr(name []byte) nfsv4.Status {
	switch {
	case !c.cur.vol().Features().Xattrs:
		return nfsv4.ErrNotSupp
	case len(name) == 0 || bytes.IndexByte(name, 0) >= 0:
		return nfsv4.ErrInval
	case len(name) > maxXattrName:
		return nfsv4.ErrNameTooLong
	}
	return nfsv4.OK
}

func opGetXattr(c *compound, a *nameArgs, _ *none) nfsv4.Status {
	if st := c.checkXattr(a.name); st != nfsv4.OK {
		return st
	}
	value, err := c.cur.vol().GetXattr(c.ctx, c.cur.rights.Cred, c.cur.node.Object, string(a.name))
	if err != nil {
		return c.statusOf(err)
	}
	if !c.fits(4 + len(value) + 3) {
		return c.tooBig
	}
	c.e.Opaque(value)
	return nfsv4.OK
}

// setXattrArgs is SETXATTR4args (RFC 8276 section 8.4.2).
type setXattrArgs struct {
	option export.XattrMode
	name   []byte
	value  []byte
}

func (a *setXattrArgs) decode(d *xdr.Decoder) {
	option := d.Uint32("sxa_option")
	if option > nfsv4.SetXattrReplace {
		d.Fail("sxa_option", xdr.ErrValue)
	}
	a.option = export.XattrMode(option)
	a.name = decodeName(d)
	a.value = d.Opaque("sxa_value", d.Remaining())
}

func opSetXattr(c *compound, a *setXattrArgs, r *changeInfo) nfsv4.Status {
	if st := c.checkXattr(a.name); st != nfsv4.OK {
		return st
	}
	ch, err := c.cur.vol().SetXattr(c.ctx, c.cur.rights.Cred, c.cur.node.Object, string(a.name), a.value, a.option)
	*r = changeInfoOf(&ch)
	return c.statusOf(err)
}

func opRemoveXattr(c *compound, a *nameArgs, r *changeInfo) nfsv4.Status {
	if st := c.checkXattr(a.name); st != nfsv4.OK {
		return st
	}
	ch, err := c.cur.vol().RemoveXattr(c.ctx, c.cur.rights.Cred, c.cur.node.Object, string(a.name))
	*r = changeInfoOf(&ch)
	return c.statusOf(err)
}

// listXattrsArgs is LISTXATTRS4args (RFC 8276 section 8.4.3).
type listXattrsArgs struct {
	cookie   uint64
	maxCount uint32
}

func (a *listXattrsArgs) decode(d *xdr.Decoder) {
	a.cookie = d.Uint64("lxa_cookie")
	a.maxCount = d.Uint32("lxa_maxcount")
}

// xattrCookie is where a listing goes on behind a name: a hash of it, so that
// names that come and go meanwhile move nothing. FNV-1a, never 0.
func xattrCookie(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return max(h>>1, 1)
}

func opListXattrs(c *compound, a *listXattrsArgs, _ *none) nfsv4.Status {
	if !c.cur.vol().Features().Xattrs {
		return nfsv4.ErrNotSupp
	}
	names, err := c.cur.vol().ListXattr(c.ctx, c.cur.rights.Cred, c.cur.node.Object)
	if err != nil {
		return c.statusOf(err)
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(xattrCookie(x), xattrCookie(y)), cmp.Compare(x, y))
	})
	first, _ := slices.BinarySearchFunc(names, a.cookie, func(n string, cookie uint64) int {
		if xattrCookie(n) <= cookie {
			return -1
		}
		return 1
	})
	names = names[first:]
	n := fitXattrs(names, min(int(a.maxCount), c.room()))
	if n == 0 && len(names) > 0 || int(a.maxCount) < sizeofXattrList {
		if int(a.maxCount) > c.room() {
			return c.tooBig
		}
		return nfsv4.ErrTooSmall
	}
	cookie := a.cookie
	if n > 0 {
		cookie = xattrCookie(names[n-1])
	}
	c.e.Uint64(cookie)
	c.e.Uint32(uint32(n))
	for _, name := range names[:n] {
		c.e.String(name)
	}
	c.e.Bool(n == len(names))
	return nfsv4.OK
}

// sizeofXattrList is LISTXATTRS4resok without names: cookie, count and eof.
const sizeofXattrList = 8 + 4 + 4

// fitXattrs returns how many of names fit into room bytes. Names of one cookie
// are kept on one page.
func fitXattrs(names []string, room int) (n int) {
	room -= sizeofXattrList
	for i, name := range names {
		room -= 4 + (len(name)+3)&^3
		if room < 0 {
			break
		}
		if i+1 == len(names) || xattrCookie(names[i+1]) != xattrCookie(name) {
			n = i + 1
		}
	}
	return n
}
