package nfs4_test

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
)

// noID is a scenario of an operation with a stateid that has none, on an object
// of some kind.
func noID(on func(*world, *nfstest.Compound)) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		req := w.ses.Begin()
		on(w, req)
		withID[c.op](w, req, nfsv4.AnonymousStateID)
		return w.result(req)
	}
}

// far is beyond the end of the largest file.
const far = 1 << 63

func offered(change func(*export.Features)) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		w.vol.SetFeatures(change)
		return usual(acts[c.op].before)(w, c)
	}
}

// dataRules are about the bytes of files.
var dataRules = []rule{
	{err: nfsv4.ErrIsDir, ops: "READ WRITE SEEK ALLOCATE DEALLOCATE IO_ADVISE", name: "a directory", run: noID(onDir)},
	{err: nfsv4.ErrIsDir, ops: "COMMIT LOCKT", name: "a directory", run: usual(onDir)},
	{err: nfsv4.ErrSymlink, ops: "READ WRITE SEEK ALLOCATE DEALLOCATE IO_ADVISE", name: "a symbolic link", run: noID(onLink)},
	{err: nfsv4.ErrSymlink, ops: "COMMIT LOCKT", name: "a symbolic link", run: usual(onLink)},
	{err: nfsv4.ErrWrongType, ops: "READ WRITE SEEK ALLOCATE DEALLOCATE IO_ADVISE", name: "a FIFO", run: noID(onFIFO)},
	{err: nfsv4.ErrWrongType, ops: "COMMIT LOCKT", name: "a FIFO", run: usual(onFIFO)},
	{err: nfsv4.ErrPNFSIOHole, ops: "*", reason: "this is no data server of pNFS"},
	{err: nfsv4.ErrPNFSNoLayout, ops: "*", reason: "this is no data server of pNFS"},
	{err: nfsv4.ErrFBig, ops: "WRITE", name: "beyond 2^63-1", run: by(func(w *world, c *nfstest.Compound) {
		c.Write(w.open.ID, far-1, 0, []byte("data"))
	})},
	{err: nfsv4.ErrFBig, ops: "ALLOCATE", name: "beyond 2^63-1", run: by(func(w *world, c *nfstest.Compound) { c.Allocate(w.open.ID, far-1, 10) })},
	{err: nfsv4.ErrFBig, ops: "DEALLOCATE", name: "beyond 2^63-1", run: by(func(w *world, c *nfstest.Compound) { c.Deallocate(w.open.ID, far-1, 10) })},
	{err: nfsv4.ErrFBig, ops: "IO_ADVISE", reason: "a hint about what no file can hold is one more that is not followed"},
	{err: nfsv4.ErrInval, ops: "ALLOCATE", name: "no bytes", run: by(func(w *world, c *nfstest.Compound) { c.Allocate(w.open.ID, 0, 0) })},
	{err: nfsv4.ErrInval, ops: "DEALLOCATE", name: "no bytes", run: by(func(w *world, c *nfstest.Compound) { c.Deallocate(w.open.ID, 0, 0) })},
	{err: nfsv4.ErrInval, ops: "IO_ADVISE", reason: "hints are not followed, so none is wrong"},
	{err: nfsv4.ErrInval, ops: "READ WRITE SEEK", name: "the Volume finds something wrong", run: volume(export.ErrInval)},
	{err: nfsv4.ErrNXIO, ops: "SEEK", name: "at the end of the file", run: by(func(w *world, c *nfstest.Compound) { c.Seek(w.open.ID, 100, 0) })},
	{err: nfsv4.ErrUnionNotSupp, ops: "SEEK", name: "neither data nor hole", run: by(func(w *world, c *nfstest.Compound) { c.Seek(w.open.ID, 0, 9) })},
	{err: nfsv4.ErrNotSupp, ops: "SEEK", name: "the Volume knows no holes", run: offered(func(f *export.Features) { f.Seek = false })},
	{err: nfsv4.ErrNotSupp, ops: "ALLOCATE", name: "the Volume reserves nothing", run: offered(func(f *export.Features) { f.Allocate = false })},
	{err: nfsv4.ErrNotSupp, ops: "DEALLOCATE", name: "the Volume makes no holes", run: offered(func(f *export.Features) { f.Deallocate = false })},
	{err: nfsv4.ErrNotSupp, ops: "IO_ADVISE", reason: "hints are taken everywhere, and followed nowhere"},
}

// lockRules are about byte-range locks.
var lockRules = []rule{
	{err: nfsv4.ErrDenied, ops: "LOCK", name: "another owner's lock", run: by(func(w *world, c *nfstest.Compound) {
		c.LockOp(nfstest.LockArgs{Length: 1, Open: w.open.ID, Owner: "new"})
	})},
	{err: nfsv4.ErrDenied, ops: "LOCKT", name: "another owner's lock", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.LockT(nfstest.LockArgs{Length: 1, Owner: "new"})
	}))},
	{err: nfsv4.ErrInval, ops: "LOCK", name: "a range beyond 2^64-1", run: by(func(w *world, c *nfstest.Compound) {
		c.LockOp(nfstest.LockArgs{Offset: 2, Length: ^uint64(0) - 1, Open: w.open.ID, Owner: "new"})
	})},
	{err: nfsv4.ErrInval, ops: "LOCKT", name: "no bytes", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.LockT(nfstest.LockArgs{Owner: "new"})
	}))},
	{err: nfsv4.ErrInval, ops: "LOCKU", name: "no bytes", run: by(func(w *world, c *nfstest.Compound) { c.LockU(nfstest.LockArgs{Lock: w.lock}) })},
	{err: nfsv4.ErrIsDir, ops: "LOCK", name: "a directory", run: noID(onDir)},
	{err: nfsv4.ErrSymlink, ops: "LOCK", reason: "no stateid is one of a symbolic link's: BAD_STATEID"},
	{err: nfsv4.ErrWrongType, ops: "LOCK", reason: "no stateid is one of a special file's: BAD_STATEID"},
	{err: nfsv4.ErrDeadlock, ops: "LOCK", name: "the Volume sees a deadlock", run: method("Lock", export.ErrDeadlock)},
	{err: nfsv4.ErrLockNotSupp, ops: "LOCK", name: "the Volume has no locks", run: method("Lock", export.ErrNotSupp)},
	{err: nfsv4.ErrBadRange, ops: "*", reason: "ranges of 64 bits are served"},
	{err: nfsv4.ErrLockRange, ops: "*", reason: "locks are split and joined as POSIX has it"},
}

// xattrRules are about RFC 8276.
var xattrRules = []rule{
	{err: nfsv4.ErrNotSupp, ops: "GETXATTR SETXATTR LISTXATTRS REMOVEXATTR", name: "the Volume has none", run: offered(func(f *export.Features) { f.Xattrs = false })},
	{err: nfsv4.ErrNoXattr, ops: "GETXATTR SETXATTR REMOVEXATTR", name: "a name that is not there", run: namedAs("none")},
	{err: nfsv4.ErrNoXattr, ops: "LISTXATTRS", reason: "an object without attributes has an empty list"},
	{err: nfsv4.ErrInval, ops: "GETXATTR SETXATTR REMOVEXATTR", name: "a name of no bytes", run: namedAs("")},
	{err: nfsv4.ErrInval, ops: "LISTXATTRS", name: "the Volume finds something wrong", run: volume(export.ErrInval)},
	{err: nfsv4.ErrExist, ops: "SETXATTR", name: "SETXATTR4_CREATE, and it is there", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.SetXattr(nfsv4.SetXattrCreate, "x", nil)
	}))},
	{err: nfsv4.ErrExist, ops: "REMOVEXATTR", reason: "what is removed is there"},
	{err: nfsv4.ErrXattrTooBig, ops: "SETXATTR", name: "a value of 100,000 bytes", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.SetXattr(nfsv4.SetXattrEither, "big", make([]byte, 100_000))
	}))},
	{err: nfsv4.ErrTooSmall, ops: "LISTXATTRS", name: "no room for one name", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.ListXattrs(0, 16)
	}))},
	{err: nfsv4.ErrTooSmall, ops: "GETXATTR", reason: "the client gives no limit of its own"},
	{err: nfsv4.ErrBadCookie, ops: "LISTXATTRS", reason: "any cookie is a place to go on from"},
	{err: nfsv4.ErrWrongType, ops: "GETXATTR SETXATTR LISTXATTRS REMOVEXATTR", reason: "the Volume says PERM of objects that may have none"},
}
