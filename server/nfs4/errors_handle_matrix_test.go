package nfs4_test

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
	"capstan/server/rpc"
)

// handleRules are about filehandles.
var handleRules = []rule{
	{err: nfsv4.ErrNoFileHandle, ops: "*", name: "without a filehandle", run: usual(nothing)},
	{err: nfsv4.ErrFHExpired, ops: "*", reason: "filehandles are persistent (fh_expire_type)"},
	{err: nfsv4.ErrMoved, ops: "*", reason: "no filesystem moves to another server, and none is referred to"},
	{err: nfsv4.ErrWrongSec, ops: "*", reason: "all exports take the same security flavors"},
	{err: nfsv4.ErrWrongCred, ops: "*", reason: "only SP4_NONE is granted, which binds nothing to a principal"},

	{err: nfsv4.ErrStale, ops: onVolume, name: "the object is gone", run: volume(export.ErrStale)},
	{err: nfsv4.ErrStale, ops: "IO_ADVISE", name: "the object is gone", run: func(w *world, _ cell) nfstest.Result {
		w.do(w.in(w.dir).Remove("victim"))
		return w.result(w.in(w.victim).IOAdvise(nfsv4.AnonymousStateID, 0, 0))
	}},
	{err: nfsv4.ErrStale, ops: "PUTFH", name: "the export is gone", run: func(w *world, _ cell) nfstest.Result {
		t, err := export.NewTable(w.ctx, nil, export.After(w.srv.Exports.Current()))
		w.check(err)
		w.srv.Exports.Swap(t)
		return w.result(w.in(w.file))
	}},
	{err: nfsv4.ErrStale, ops: "CLOSE OPEN_DOWNGRADE GETFH SAVEFH RESTOREFH RECLAIM_COMPLETE",
		reason: "PUTFH has looked at the export, and the object itself does not matter"},

	{err: nfsv4.ErrBadHandle, ops: "PUTFH", name: "a handle that was not made here", run: func(w *world, _ cell) nfstest.Result {
		fh := append([]byte(nil), w.file...)
		fh[len(fh)-1] ^= 1
		return w.result(w.in(fh))
	}},

	{err: nfsv4.ErrAccess, ops: "LOOKUP", name: "a directory that may not be searched", run: func(w *world, _ cell) nfstest.Result {
		w.do(w.in(w.sub).SetAttr(nfsv4.AnonymousStateID, nfstest.Mode(0o700)))
		return w.resultAs(nfstest.User(1000, 1000), w.in(w.sub).Lookup("inner"))
	}},
	{err: nfsv4.ErrAccess, ops: "OPEN", name: "a file that may not be read", run: func(w *world, _ cell) nfstest.Result {
		w.do(w.in(w.file).SetAttr(nfsv4.AnonymousStateID, nfstest.Mode(0o600)))
		return w.resultAs(nfstest.User(1000, 1000), acts[nfsv4.OpOpen].append(w, w.ses.Begin()))
	}},
	{err: nfsv4.ErrAccess, ops: "READ WRITE SEEK ALLOCATE DEALLOCATE IO_ADVISE SETATTR", name: "a file of another user, without an open", run: func(w *world, c cell) nfstest.Result {
		w.do(w.in(w.file).SetAttr(nfsv4.AnonymousStateID, nfstest.Mode(0o600)))
		req := w.in(w.file)
		withID[c.op](w, req, nfsv4.AnonymousStateID)
		return w.resultAs(nfstest.User(1000, 1000), req)
	}},
	{err: nfsv4.ErrAccess, ops: "LOCK LOCKU", reason: "the open was checked, and nothing else is: OPENMODE"},
	{err: nfsv4.ErrAccess, ops: "*", name: "the Volume refuses", run: volume(export.ErrAccess)},
	{err: nfsv4.ErrPerm, ops: "SETATTR", name: "chown by one who may not", run: func(w *world, _ cell) nfstest.Result {
		return w.resultAs(nfstest.User(1000, 1000), w.in(w.file).SetAttr(nfsv4.AnonymousStateID, nfstest.Owner("1000")))
	}},
	{err: nfsv4.ErrPerm, ops: "EXCHANGE_ID", name: "an update by another principal", run: func(w *world, _ cell) nfstest.Result {
		return w.aloneOn(w.connect(nfstest.User(5, 5)), func(c *nfstest.Compound) {
			c.ExchangeID(nfstest.ExchangeIDArgs{Owner: "client", Verifier: nfsv4.Verifier{1}, Flags: nfsv4.ExchangeUpdConfirmed})
		})
	}},
	{err: nfsv4.ErrPerm, ops: "*", name: "the Volume refuses", run: volume(export.ErrPerm)},
	{err: nfsv4.ErrIO, ops: "IO_ADVISE", name: "a fault of the disk", run: func(w *world, _ cell) nfstest.Result {
		req := w.in(w.file).IOAdvise(nfsv4.AnonymousStateID, 0, 0)
		w.vol.Fail("*", export.ErrIO)
		return w.result(req)
	}},
	{err: nfsv4.ErrIO, ops: "*", name: "a fault of the disk", run: volume(export.ErrIO)},
	{err: nfsv4.ErrNoSpc, ops: "CREATE_SESSION", name: "more sessions than a client may have",
		with: func(o *worldOptions) { o.limits.MaxSessions = 1 }, run: func(w *world, c cell) nfstest.Result {
			return w.alone(func(req *nfstest.Compound) { acts[c.op].op(w, req) })
		}},
	{err: nfsv4.ErrNoSpc, ops: "OPEN", name: "no space for a new file", run: func(w *world, _ cell) nfstest.Result { return w.openNew(export.ErrNoSpc) }},
	{err: nfsv4.ErrDQuot, ops: "OPEN", name: "no quota for a new file", run: func(w *world, _ cell) nfstest.Result { return w.openNew(export.ErrDQuot) }},
	{err: nfsv4.ErrNoSpc, ops: "*", name: "the filesystem is full", run: volume(export.ErrNoSpc)},
	{err: nfsv4.ErrDQuot, ops: "*", name: "the quota is used up", run: volume(export.ErrDQuot)},
	{err: nfsv4.ErrROFS, ops: "CREATE REMOVE", name: "a read-only export", run: usual(onRO)},
	{err: nfsv4.ErrROFS, ops: "LINK", name: "a read-only export", run: usual(twoOn(func(w *world) []byte { return w.roFile }, func(w *world) []byte { return w.ro }))},
	{err: nfsv4.ErrROFS, ops: "RENAME", name: "a read-only export", run: usual(twoOn(func(w *world) []byte { return w.ro }, func(w *world) []byte { return w.ro }))},
	{err: nfsv4.ErrROFS, ops: "OPEN", name: "a read-only export", run: usual(onRO)},
	{err: nfsv4.ErrROFS, ops: "SETATTR WRITE ALLOCATE DEALLOCATE SETXATTR REMOVEXATTR", name: "a read-only export", run: usual(onROFile)},
	{err: nfsv4.ErrROFS, ops: "LOCK", name: "the Volume became read-only", run: method("Lock", export.ErrROFS)},
	{err: nfsv4.ErrROFS, ops: "LOCKT", name: "the Volume became read-only", run: volume(export.ErrROFS)},
	{err: nfsv4.ErrROFS, ops: "OPEN_DOWNGRADE", reason: "what is given up needs no filesystem"},
	{err: nfsv4.ErrMLink, ops: "*", name: "as many links as there can be", run: volume(export.ErrMLink)},
	{err: nfsv4.ErrFileOpen, ops: "*", name: "the Volume does not take names off open files", run: volume(export.ErrFileOpen)},
}

func (w *world) resultAs(cred rpc.Credential, req *nfstest.Compound) nfstest.Result {
	w.Helper()
	r, err := w.ses.SendAs(w.ctx, &cred, req)
	w.check(err)
	return r.Last()
}

// openNew makes a file on a Volume that has no room for it.
func (w *world) openNew(err error) nfstest.Result {
	w.vol.Fail("Create", err)
	return w.result(w.in(w.dir).Open(nfstest.OpenArgs{Owner: "opener", How: nfstest.Guarded(nfstest.Attrs{}), Claim: nfstest.ByName("new")}))
}
