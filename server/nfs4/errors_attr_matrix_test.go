package nfs4_test

import (
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
)

// withAttrs calls an operation with attributes.
var withAttrs = map[nfsv4.Op]func(*nfstest.Compound, nfstest.Attrs){
	nfsv4.OpCreate: func(c *nfstest.Compound, a nfstest.Attrs) { c.Mkdir("new", a) },
	nfsv4.OpOpen: func(c *nfstest.Compound, a nfstest.Attrs) {
		c.Open(nfstest.OpenArgs{Owner: "opener", How: nfstest.Guarded(a), Claim: nfstest.ByName("new")})
	},
	nfsv4.OpSetAttr: func(c *nfstest.Compound, a nfstest.Attrs) { c.SetAttr(nfsv4.AnonymousStateID, a) },
	nfsv4.OpVerify:  func(c *nfstest.Compound, a nfstest.Attrs) { c.Verify(a) },
	nfsv4.OpNVerify: func(c *nfstest.Compound, a nfstest.Attrs) { c.NVerify(a) },
}

// attrs is a scenario with certain attributes.
func attrs(a nfstest.Attrs) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		req := w.ses.Begin()
		acts[c.op].before(w, req)
		withAttrs[c.op](req, a)
		return w.result(req)
	}
}

var (
	anACL   = nfstest.Attrs{Mask: nfsv4.BitmapOf(nfsv4.AttrACL), Values: []any{0}}
	setOnly = nfstest.Attrs{Mask: nfsv4.BitmapOf(nfsv4.AttrTimeModifySet), Values: []any{0}}
)

// attrRules are about attributes.
var attrRules = []rule{
	{err: nfsv4.ErrAttrNotSupp, ops: "CREATE OPEN SETATTR VERIFY NVERIFY", name: "an ACL", run: attrs(anACL)},
	{err: nfsv4.ErrBadOwner, ops: "CREATE OPEN SETATTR", name: "an owner nobody knows", run: attrs(nfstest.Owner("nobody-knows@nowhere"))},
	{err: nfsv4.ErrInval, ops: "SETATTR", name: "a mode beyond 07777", run: attrs(nfstest.Mode(1 << 20))},
	{err: nfsv4.ErrInval, ops: "VERIFY NVERIFY", name: "an attribute that can only be set", run: attrs(setOnly)},
	{err: nfsv4.ErrInval, ops: "GETATTR", name: "an attribute that can only be set", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.GetAttr(nfsv4.AttrTimeModifySet)
	}))},
	{err: nfsv4.ErrInval, ops: "ACCESS", reason: "rights that are not known are left out of the answer"},
	{err: nfsv4.ErrSame, ops: "NVERIFY", name: "the size it has", run: attrs(nfstest.Size(100))},
	{err: nfsv4.ErrNotSame, ops: "VERIFY", name: "another size", run: attrs(nfstest.Size(1))},
	{err: nfsv4.ErrUnknownLayoutType, ops: "*", reason: "no attribute about layouts is supported"},
	{err: nfsv4.ErrWrongType, ops: "GETATTR VERIFY NVERIFY", reason: "every attribute supported is one of any type of object"},
	{err: nfsv4.ErrWrongType, ops: "SETATTR", reason: "a size for what has none is INVAL"},
	{err: nfsv4.ErrWrongType, ops: "LINK", reason: "all that is no directory can have links"},
	{err: nfsv4.ErrWrongType, ops: "RECLAIM_COMPLETE", reason: "any object stands for its filesystem"},
	{err: nfsv4.ErrWrongType, ops: "OPEN", reason: "special files are SYMLINK, upon which clients look them up and open them on their own"},
	{err: nfsv4.ErrWrongType, ops: "READLINK", name: "a directory", run: usual(onDir)},
}
