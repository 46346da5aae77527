package nfs4_test

import (
	"context"
	"strings"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
)

// onVolume are the operations that ask the Volume, and so meet its faults.
const onVolume = "ACCESS COMMIT CREATE GETATTR LINK LOCK LOOKUP LOOKUPP NVERIFY OPEN READ READDIR READLINK REMOVE RENAME " +
	"SECINFO SECINFO_NO_NAME SETATTR VERIFY WRITE ALLOCATE DEALLOCATE SEEK GETXATTR SETXATTR LISTXATTRS REMOVEXATTR LOCKT LOCKU"

// sessionRules are about what holds for operations of any kind: their form,
// their place in the COMPOUND, the limits of the session.
var sessionRules = []rule{
	{err: nfsv4.ErrBadXDR, ops: "*", name: "arguments cut short", run: truncated},
	{err: nfsv4.ErrBadXDR, ops: "SEQUENCE", name: "arguments cut short", run: func(w *world, _ cell) nfstest.Result {
		return w.alone(func(c *nfstest.Compound) { c.Sequence(nfstest.SequenceArgs{Session: w.ses.ID}).Cut(4) })
	}},
	{err: nfsv4.ErrBadXDR, ops: "ILLEGAL", name: "fewer operations than announced", run: func(w *world, _ cell) nfstest.Result {
		return w.result(w.ses.Begin().PutRootFH().SetCount(3))
	}},
	{err: nfsv4.ErrOpIllegal, ops: "ILLEGAL", name: "a number that is no operation", run: func(w *world, _ cell) nfstest.Result {
		return w.result(w.ses.Begin().Op(9999))
	}},
	{err: nfsv4.ErrNotSupp, ops: "*", name: "not offered", run: func(w *world, c cell) nfstest.Result {
		return w.result(w.ses.Begin().PutFH(w.file).Missing(c.op))
	}},
	{err: nfsv4.ErrDeadSession, ops: "*", reason: "a session that is gone is forgotten: BADSESSION"},
	{err: nfsv4.ErrOpNotInSession, ops: "*", name: "first of its COMPOUND", run: func(w *world, c cell) nfstest.Result {
		return w.alone(func(req *nfstest.Compound) { acts[c.op].op(w, req) })
	}},
	{err: nfsv4.ErrNotOnlyOp, ops: "*", name: "first of two", run: func(w *world, c cell) nfstest.Result {
		return w.alone(func(req *nfstest.Compound) {
			acts[c.op].op(w, req)
			req.PutRootFH()
		})
	}},

	{err: nfsv4.ErrTooManyOps, ops: "*", name: "first of too many", run: func(w *world, c cell) nfstest.Result {
		s := w.limited(nfstest.Channel{MaxRequest: 4096, MaxResponse: 4096, MaxOperations: 3, MaxRequests: 1})
		req := s.Begin()
		acts[c.op].op(w, req)
		return w.result(req.PutRootFH().PutRootFH().PutRootFH())
	}},
	{err: nfsv4.ErrReqTooBig, ops: "*", name: "first of a request above ca_maxrequestsize", run: func(w *world, c cell) nfstest.Result {
		s := w.limited(nfstest.Channel{MaxRequest: 1024, MaxResponse: 4096, MaxOperations: 8, MaxRequests: 1})
		req := s.Begin()
		acts[c.op].op(w, req)
		return w.result(req.Lookup(strings.Repeat("x", 2000)))
	}},
	{err: nfsv4.ErrRetryUncachedRep, ops: "*", name: "first of a retry whose reply was not kept", run: func(w *world, c cell) nfstest.Result {
		req := w.ses.Begin()
		acts[c.op].op(w, req)
		w.send(req)
		return w.result(req)
	}},
	{err: nfsv4.ErrRepTooBig, ops: "*", name: "no room for the next result", run: func(w *world, c cell) nfstest.Result {
		return w.crowded(c, nfstest.Channel{MaxRequest: 8192, MaxResponse: 1000 + replyHeader, MaxOperations: 8, MaxRequests: 1}, false)
	}},
	{err: nfsv4.ErrRepTooBigToCache, ops: "*", name: "no room for the next result in the cache", run: func(w *world, c cell) nfstest.Result {
		return w.crowded(c, nfstest.Channel{MaxRequest: 8192, MaxResponse: 8192, MaxResponseCached: 1000, MaxOperations: 8, MaxRequests: 1}, true)
	}},

	{err: nfsv4.ErrTooManyOps, ops: "SEQUENCE", reason: sequenceTakes},
	{err: nfsv4.ErrReqTooBig, ops: "SEQUENCE", reason: sequenceTakes},
	{err: nfsv4.ErrRetryUncachedRep, ops: "SEQUENCE", reason: sequenceTakes},
	{err: nfsv4.ErrRepTooBig, ops: "SEQUENCE", reason: sequenceTakes},
	{err: nfsv4.ErrRepTooBigToCache, ops: "SEQUENCE", reason: sequenceTakes},
	{err: nfsv4.ErrTooManyOps, ops: "BIND_CONN_TO_SESSION", reason: standsAlone},
	{err: nfsv4.ErrReqTooBig, ops: "BIND_CONN_TO_SESSION", reason: standsAlone},
	{err: nfsv4.ErrRetryUncachedRep, ops: "BIND_CONN_TO_SESSION", reason: standsAlone},
	{err: nfsv4.ErrRepTooBig, ops: "BIND_CONN_TO_SESSION", reason: standsAlone},
	{err: nfsv4.ErrRepTooBigToCache, ops: "BIND_CONN_TO_SESSION", reason: standsAlone},

	{err: nfsv4.ErrDelay, ops: onVolume, name: "the Volume says later", run: volume(export.ErrDelay)},
	{err: nfsv4.ErrDelay, ops: "PUTFH", name: "a rule for a host name that cannot be had", run: func(w *world, _ cell) nfstest.Result {
		addr, err := w.srv.Listen()
		w.check(err)
		conn, err := nfstest.Dial(addr, nfstest.Root) // in memory there are no addresses
		w.check(err)
		w.Cleanup(func() { conn.Close() })
		w.ses.Conn = conn
		t := w.srv.Exports.Current()
		e := t.Export(4)
		root, err := e.Root(w.ctx)
		w.check(err)
		return w.result(w.ses.Begin().PutFH(t.AppendHandle(nil, export.Node{Export: e, Object: root})))
	}},
	{err: nfsv4.ErrDelay, ops: "IO_ADVISE", name: "the Volume says later", run: func(w *world, _ cell) nfstest.Result {
		req := w.in(w.file).IOAdvise(nfsv4.AnonymousStateID, 0, 0)
		w.vol.Fail("*", export.ErrDelay)
		return w.result(req)
	}},
	{err: nfsv4.ErrDelay, ops: "PUTROOTFH PUTPUBFH", reason: "the pseudo tree is in memory, and everybody may enter it"},
	{err: nfsv4.ErrDelay, ops: "CLOSE OPEN_DOWNGRADE FREE_STATEID TEST_STATEID", reason: "waits for nothing: what a Volume has to do is done behind the answer or does not fail"},
	{err: nfsv4.ErrDelay, ops: "BACKCHANNEL_CTL BIND_CONN_TO_SESSION DESTROY_CLIENTID DESTROY_SESSION EXCHANGE_ID RECLAIM_COMPLETE",
		reason: "state in memory that waits for nothing"},
	{err: nfsv4.ErrServerFault, ops: onVolume, name: "a fault behind the Volume", run: volume(export.ErrFault)},
	{err: nfsv4.ErrServerFault, ops: "IO_ADVISE", name: "a fault behind the Volume", run: func(w *world, _ cell) nfstest.Result {
		req := w.in(w.file).IOAdvise(nfsv4.AnonymousStateID, 0, 0)
		w.vol.Fail("*", export.ErrFault)
		return w.result(req)
	}},
	{err: nfsv4.ErrServerFault, ops: "PUTFH", name: "a fault behind the Volume of an export not entered yet", run: func(w *world, _ cell) nfstest.Result {
		return w.late(export.ErrFault)
	}},
	{err: nfsv4.ErrServerFault, ops: "*", reason: "state in memory, with nothing behind it that could be at fault"},
}

const (
	sequenceTakes = "SEQUENCE takes the slot and succeeds; the operation behind it tells"
	standsAlone   = "it stands alone in its COMPOUND, and so in no session whose limits count"
	replyHeader   = 24 // of an accepted RPC reply
)

func truncated(w *world, c cell) nfstest.Result {
	req := acts[c.op].append(w, w.standing(c.op))
	if req.ArgsLen() == 0 {
		w.Fatal("there are no arguments")
	}
	return w.result(req.Cut(4))
}

// limited makes a session with other limits the one that is used.
func (w *world) limited(fore nfstest.Channel) *nfstest.Session {
	w.Helper()
	s, err := w.ses.Client.NewSession(w.ctx, fore)
	w.check(err)
	w.ses = s
	return s
}

// crowded runs an operation with so long a tag that its result has no room
// beside the head of another behind it. The reply may have 1000 bytes.
func (w *world) crowded(c cell, fore nfstest.Channel, cache bool) nfstest.Result {
	a, counting := acts[c.op], nfstest.NewCompound(w.minor)
	a.before(w, counting)
	s := w.limited(fore)
	const head, sequence, result = 12, 44, 8
	tag := strings.Repeat("x", 1000-head-sequence-result*(counting.Ops()+1))
	return w.result(a.append(w, s.BeginTagged(tag, 0, cache)).PutRootFH())
}

// late enters an export whose Volume cannot name its root.
func (w *world) late(err error) nfstest.Result {
	mem, verr := nfstest.NewVolume()
	w.check(verr)
	vol := nfstest.NewFaults(mem)
	vol.Fail("Root", err)
	e := nfstest.Export(9, "/late", vol)
	t, terr := export.NewTable(context.Background(), []*export.Export{e}, export.After(w.srv.Exports.Current()))
	w.check(terr)
	w.srv.Exports.Swap(t)
	return w.result(w.ses.Begin().PutFH(t.AppendHandle(nil, export.Node{Export: e, Object: export.Live(1)})))
}
