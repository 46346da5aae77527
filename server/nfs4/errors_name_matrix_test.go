package nfs4_test

import (
	"strings"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
)

// named calls an operation with a name.
var named = map[nfsv4.Op]func(*nfstest.Compound, string){
	nfsv4.OpCreate: func(c *nfstest.Compound, name string) { c.Mkdir(name, nfstest.Attrs{}) },
	nfsv4.OpLink:   func(c *nfstest.Compound, name string) { c.Link(name) },
	nfsv4.OpLookup: func(c *nfstest.Compound, name string) { c.Lookup(name) },
	nfsv4.OpOpen: func(c *nfstest.Compound, name string) {
		c.Open(nfstest.OpenArgs{Owner: "opener", Claim: nfstest.ByName(name)})
	},
	nfsv4.OpRemove:      func(c *nfstest.Compound, name string) { c.Remove(name) },
	nfsv4.OpRename:      func(c *nfstest.Compound, name string) { c.Rename(name, "moved") },
	nfsv4.OpSecInfo:     func(c *nfstest.Compound, name string) { c.SecInfo(name) },
	nfsv4.OpGetXattr:    func(c *nfstest.Compound, name string) { c.GetXattr(name) },
	nfsv4.OpSetXattr:    func(c *nfstest.Compound, name string) { c.SetXattr(nfsv4.SetXattrReplace, name, nil) },
	nfsv4.OpRemoveXattr: func(c *nfstest.Compound, name string) { c.RemoveXattr(name) },
}

// namedAs is a scenario with a certain name.
func namedAs(name string) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		req := w.ses.Begin()
		acts[c.op].before(w, req)
		named[c.op](req, name)
		return w.result(req)
	}
}

const withName = "CREATE LINK LOOKUP OPEN REMOVE RENAME SECINFO"

// onKind is a scenario on two handles of a kind, saved and current.
func onKind(saved, current func(*world) []byte) func(*world, cell) nfstest.Result {
	return usual(twoOn(saved, current))
}

// nameRules are about names, and about what is a directory.
var nameRules = []rule{
	{err: nfsv4.ErrBadChar, ops: withName, name: "a slash in a name", run: namedAs("a/b")},
	{err: nfsv4.ErrBadChar, ops: "GETXATTR SETXATTR REMOVEXATTR", reason: "names of attributes are bytes; NUL is INVAL"},
	{err: nfsv4.ErrBadChar, ops: "VERIFY NVERIFY SETATTR", reason: "owners are the only strings, and one that is no UTF-8 stands for nobody"},
	{err: nfsv4.ErrBadChar, ops: "EXCHANGE_ID", reason: "co_ownerid is bytes, and of nii_domain nothing is made"},
	{err: nfsv4.ErrBadName, ops: withName, name: "the name ..", run: namedAs("..")},
	{err: nfsv4.ErrInval, ops: withName, name: "a name of no bytes", run: namedAs("")},
	{err: nfsv4.ErrNameTooLong, ops: withName, name: "a name of 300 bytes", run: namedAs(strings.Repeat("n", 300))},
	{err: nfsv4.ErrNameTooLong, ops: "GETXATTR SETXATTR REMOVEXATTR", name: "a name of 300 bytes", run: namedAs(strings.Repeat("n", 300))},
	{err: nfsv4.ErrNameTooLong, ops: "LISTXATTRS", reason: "it has no name"},
	{err: nfsv4.ErrNoEnt, ops: "LOOKUP OPEN REMOVE RENAME SECINFO", name: "a name that is not there", run: namedAs("none")},
	{err: nfsv4.ErrNoEnt, ops: "LOOKUPP", name: "the root has no parent", run: with(just((*nfstest.Compound).PutRootFH), just((*nfstest.Compound).LookupP))},
	{err: nfsv4.ErrNoEnt, ops: "SECINFO_NO_NAME", name: "the root has no parent",
		run: with(just((*nfstest.Compound).PutRootFH), acts[nfsv4.OpSecInfoNoName].op)},
	{err: nfsv4.ErrNoEnt, ops: "LINK", name: "an open file that has no name left", run: func(w *world, c cell) nfstest.Result {
		w.do(w.in(w.dir).Remove("file"))
		return usual(acts[c.op].before)(w, c)
	}},
	{err: nfsv4.ErrNotDir, ops: "LOOKUP LOOKUPP CREATE LINK OPEN READDIR REMOVE RENAME SECINFO SECINFO_NO_NAME",
		name: "a file for a directory", run: onKind(theFile, theFile)},
	{err: nfsv4.ErrSymlink, ops: "LOOKUP LOOKUPP LINK", name: "a symbolic link for a directory",
		run: onKind(theFile, func(w *world) []byte { return w.link })},
	{err: nfsv4.ErrSymlink, ops: "OPEN", name: "a symbolic link", run: namedAs("link")},
	{err: nfsv4.ErrExist, ops: "CREATE LINK", name: "the name is taken", run: namedAs("file")},
	{err: nfsv4.ErrExist, ops: "OPEN", name: "GUARDED, and the name is taken", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.Open(nfstest.OpenArgs{Owner: "o", How: nfstest.Guarded(nfstest.Attrs{}), Claim: nfstest.ByName("file")})
	}))},
	{err: nfsv4.ErrExist, ops: "RENAME", name: "a file onto a directory", run: with(twoOn(theDir, theDir), just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.Rename("file", "sub")
	}))},
	{err: nfsv4.ErrNotEmpty, ops: "REMOVE", name: "a directory with an entry", run: namedAs("sub")},
	{err: nfsv4.ErrNotEmpty, ops: "RENAME", name: "onto a directory with an entry", run: func(w *world, _ cell) nfstest.Result {
		w.do(w.in(w.dir).Mkdir("empty", nfstest.Attrs{}))
		return w.result(w.in(w.dir).SaveFH().Rename("empty", "sub"))
	}},
	{err: nfsv4.ErrXDev, ops: "LINK RENAME", name: "the saved filehandle is of another export", run: onKind(func(w *world) []byte { return w.other }, theDir)},
	{err: nfsv4.ErrIsDir, ops: "LINK", name: "a directory", run: onKind(theSub, theDir)},
	{err: nfsv4.ErrIsDir, ops: "OPEN", name: "a directory", run: namedAs("sub")},
	{err: nfsv4.ErrBadType, ops: "CREATE", name: "a regular file", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.Mknod(1, "new", nfstest.Attrs{})
	}))},
	{err: nfsv4.ErrNotSupp, ops: "LINK", name: "the Volume has no links", run: volume(export.ErrNotSupp)},
	{err: nfsv4.ErrNotSupp, ops: "SECINFO_NO_NAME", reason: "it is offered everywhere"},
	{err: nfsv4.ErrUnsafeCompound, ops: "*", reason: "filehandles are persistent, so none expires within a COMPOUND"},

	{err: nfsv4.ErrBadCookie, ops: "READDIR", name: "a reserved cookie", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.ReadDir(1, nfsv4.Verifier{}, 4096, 4096, nfsv4.AttrType)
	}))},
	{err: nfsv4.ErrNotSame, ops: "READDIR", name: "a verifier that was not given out", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.ReadDir(1000, nfsv4.Verifier{1}, 4096, 4096, nfsv4.AttrType)
	}))},
	{err: nfsv4.ErrTooSmall, ops: "READDIR", name: "no room for one entry", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.ReadDir(0, nfsv4.Verifier{}, 20, 20, nfsv4.AttrType)
	}))},
	{err: nfsv4.ErrInval, ops: "READDIR", name: "an attribute that can only be set", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.ReadDir(0, nfsv4.Verifier{}, 4096, 4096, nfsv4.AttrTimeModifySet)
	}))},
	{err: nfsv4.ErrInval, ops: "SECINFO_NO_NAME", reason: "a style that is none is BADXDR"},
	{err: nfsv4.ErrInval, ops: "READLINK", reason: "what is no symbolic link is WRONG_TYPE"},
}
