package nfs4

import (
	"strings"
	"testing"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

func TestCompoundMountAndUse(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "hello", 0o644)
		if o.deleg != nfsv4.DelegateNone || o.before == o.after || !o.atomic {
			t.Errorf("OPEN answers %+v", o)
		}
		committed, v := c.write(o, 0, "hello, world", nfsv4.Unstable)
		if committed > nfsv4.FileSync {
			t.Errorf("committed %d", committed)
		}
		r := c.doOn(c.on(o.fh).add(nfsv4.OpCommit, uint64(0), 0)).op(nfsv4.OpCommit, nfsv4.OK)
		if got := nfsv4.DecodeVerifier(&r.Decoder); got != v {
			t.Errorf("COMMIT answers verifier %x, WRITE %x", got, v)
		}
		if data, eof := c.read(o.fh, o.id, 0, 4096); data != "hello, world" || !eof {
			t.Errorf("read %q, eof %v", data, eof)
		}
		c.expect(nfsv4.OK, o.fh, nfsv4.OpClose, 0, o.id)
		c.expect(nfsv4.ErrBadStateID, o.fh, nfsv4.OpRead, o.id, uint64(0), 10)
	})
}

func TestCompoundHead(t *testing.T) {
	s := newSite(t)
	for _, minor := range []uint32{0, 3, 1 << 31} {
		r := s.do(root, newTagged(minor, "tag").add(nfsv4.OpPutRootFH))
		if r.status != nfsv4.ErrMinorVersMismatch || r.n != 0 || r.tag != "tag" {
			t.Errorf("minor version %d: %v, %d results, tag %q", minor, r.status, r.n, r.tag)
		}
	}
	if r := s.do(root, newTagged(1, "\xff").add(nfsv4.OpPutRootFH)); r.status != nfsv4.ErrInval || r.n != 0 {
		t.Errorf("tag not UTF-8: %v, %d results", r.status, r.n)
	}
	if r := s.do(root, newTagged(1, strings.Repeat("x", 1025)).add(nfsv4.OpPutRootFH)); r.status != nfsv4.ErrReqTooBig {
		t.Errorf("long tag: %v", r.status)
	}
	if r := s.do(root, newTagged(1, "empty")); r.status != nfsv4.OK || r.n != 0 || r.tag != "empty" {
		t.Errorf("no operation: %v, %d results", r.status, r.n)
	}
	for _, args := range [][]byte{nil, {0, 0, 0}, {0, 0, 0, 9, 1}, {0, 0, 0, 0, 0, 0, 0, 1, 0, 0}} {
		call := &rpc.Call{Procedure: nfsv4.ProcCompound, Cred: root}
		call.Args.Reset(args)
		if st := s.srv.Serve(t.Context(), call, new(xdr.Encoder)); st != rpc.GarbageArgs {
			t.Errorf("%x: %v", args, st)
		}
	}
	if st := s.srv.Serve(t.Context(), &rpc.Call{Procedure: 2}, new(xdr.Encoder)); st != rpc.ProcUnavail {
		t.Errorf("procedure 2: %v", st)
	}
}

func TestCompoundUnknownOperation(t *testing.T) {
	c := newSite(t).newClient(1, "client")
	for _, n := range []nfsv4.Op{0, 1, 2, nfsv4.OpSeek, nfsv4.OpGetXattr, 76, 9999, nfsv4.OpIllegal, 1 << 31} {
		r := c.do(c.with().add(nfsv4.OpPutRootFH).add(n).add(nfsv4.OpGetFH)).op(nfsv4.OpPutRootFH, nfsv4.OK)
		r.op(nfsv4.OpIllegal, nfsv4.ErrOpIllegal).end()
	}
	for _, n := range []nfsv4.Op{nfsv4.OpRenew, nfsv4.OpSetClientID, nfsv4.OpLayoutGet, nfsv4.OpDelegReturn} {
		r := c.do(c.with().add(nfsv4.OpPutRootFH).add(n)).op(nfsv4.OpPutRootFH, nfsv4.OK)
		r.op(n, nfsv4.ErrNotSupp).end()
	}
}

func TestCompoundBrokenOperation(t *testing.T) {
	c := newSite(t).newClient(1, "client")
	// A name longer than what follows.
	req := c.with().add(nfsv4.OpPutRootFH).add(nfsv4.OpLookup, 1000)
	c.do(req).op(nfsv4.OpPutRootFH, nfsv4.OK).op(nfsv4.OpLookup, nfsv4.ErrBadXDR).end()
	// More operations announced than there are.
	req = c.with().add(nfsv4.OpPutRootFH)
	req.e.Patch32(req.at, 5)
	c.do(req).op(nfsv4.OpPutRootFH, nfsv4.OK).op(nfsv4.OpIllegal, nfsv4.ErrBadXDR).end()
	// A boolean that is none.
	req = newRequest(1).add(nfsv4.OpSequence, c.session, 99, 0, 0, 2)
	c.site.do(root, req).op(nfsv4.OpSequence, nfsv4.ErrBadXDR).end()
}

func TestCompoundPositions(t *testing.T) {
	s := newSite(t)
	c := s.newClient(1, "client")
	s.do(root, newRequest(1).add(nfsv4.OpPutRootFH)).op(nfsv4.OpPutRootFH, nfsv4.ErrOpNotInSession).end()
	c.do(c.with().add(nfsv4.OpSequence, c.session, c.seq+1, 0, 0, false)).op(nfsv4.OpSequence, nfsv4.ErrSequencePos).end()
	s.do(root, newRequest(1).add(nfsv4.OpExchangeID, exchangeID("x", 1)...).add(nfsv4.OpPutRootFH)).
		op(nfsv4.OpExchangeID, nfsv4.ErrNotOnlyOp).end()
	c.do(c.with().add(nfsv4.OpBindConnToSession, c.session, nfsv4.BindFore, false)).
		op(nfsv4.OpBindConnToSession, nfsv4.ErrNotOnlyOp).end()
	c.do(c.with().add(nfsv4.OpDestroySession, c.session).add(nfsv4.OpPutRootFH)).
		op(nfsv4.OpDestroySession, nfsv4.ErrNotOnlyOp).end()
	c.do(c.with().add(nfsv4.OpGetFH)).op(nfsv4.OpGetFH, nfsv4.ErrNoFileHandle).end()
	c.do(c.with().add(nfsv4.OpRestoreFH)).op(nfsv4.OpRestoreFH, nfsv4.ErrNoFileHandle).end()
	c.do(c.at().add(nfsv4.OpRename, "a", "b")).op(nfsv4.OpPutRootFH, nfsv4.OK).op(nfsv4.OpRename, nfsv4.ErrNoFileHandle).end()
	c.do(c.with().add(nfsv4.OpDestroySession, c.session)).op(nfsv4.OpDestroySession, nfsv4.OK).end()
	s.do(root, c.with().add(nfsv4.OpPutRootFH)).op(nfsv4.OpSequence, nfsv4.ErrBadSession).end()
}

func TestCompoundReplay(t *testing.T) {
	s := newSite(t)
	c := s.newClient(1, "client")
	dir := c.fh("data")
	req := c.sequence(true).add(nfsv4.OpPutFH, dir).add(nfsv4.OpCreate, 2, "made", attrs(bitmap()))
	first := s.do(root, req)
	again := s.do(root, req)
	if string(first.raw) != string(again.raw) || first.status != nfsv4.OK {
		t.Errorf("retry is answered %v, first try %v", again.status, first.status)
	}
	// Without sa_cachethis.
	req = c.on(dir).add(nfsv4.OpCreate, 2, "other", attrs(bitmap()))
	s.do(root, req)
	s.do(root, req).op(nfsv4.OpSequence, nfsv4.OK).skip(36).op(nfsv4.OpPutFH, nfsv4.ErrRetryUncachedRep).end()
	// Another request with the same number.
	c.seq--
	s.do(root, c.on(dir).add(nfsv4.OpRemove, "other")).op(nfsv4.OpSequence, nfsv4.ErrSeqFalseRetry).end()
	c.expect(nfsv4.OK, dir, nfsv4.OpRemove, "other")
}

// After a reconnect a client encodes the request anew, with the highest slot it
// uses by then. It is the same request all the same.
func TestCompoundReplayEncodedAnew(t *testing.T) { // RFC 8881 section 2.10.6
	s := newSite(t)
	c := s.newClient(1, "client")
	dir := c.fh("data")
	c.seq++
	encoded := func(highest int, cache bool) *request {
		return newRequest(c.minor).add(nfsv4.OpSequence, c.session, c.seq, 0, highest, cache).
			add(nfsv4.OpPutFH, dir).add(nfsv4.OpCreate, 2, "made", attrs(bitmap()))
	}
	first := s.do(root, encoded(0, true))
	for _, again := range []*reply{s.do(root, encoded(3, true)), s.do(root, encoded(0, false))} {
		if string(first.raw) != string(again.raw) || first.status != nfsv4.OK {
			t.Errorf("retry is answered %v, first try %v", again.status, first.status)
		}
	}
	// One operation less, or somebody else.
	short := newRequest(c.minor).add(nfsv4.OpSequence, c.session, c.seq, 0, 0, true).add(nfsv4.OpPutFH, dir)
	s.do(root, short).op(nfsv4.OpSequence, nfsv4.ErrSeqFalseRetry).end()
	s.do(bob, encoded(0, true)).op(nfsv4.OpSequence, nfsv4.ErrSeqFalseRetry).end()
}

func TestCompoundLimits(t *testing.T) {
	s := newSite(t)
	big := s.newClient(1, "big")
	dir := big.fh("data")

	c := s.newClientWith(1, "small", channel(1024, 400, 200, 8, 1))
	many := c.on(dir)
	for range 7 {
		many.add(nfsv4.OpSaveFH)
	}
	c.do(many).op(nfsv4.OpPutFH, nfsv4.ErrTooManyOps).end()
	many = c.on(dir)
	many.e.Patch32(many.at, 1<<31)
	c.do(many).op(nfsv4.OpPutFH, nfsv4.ErrTooManyOps).end()
	c.do(c.on(dir).add(nfsv4.OpLookup, strings.Repeat("x", 1000))).op(nfsv4.OpPutFH, nfsv4.ErrReqTooBig).end()

	// 400 bytes less the header of RPC (24) leave room for the head (12),
	// SEQUENCE (44), PUTFH (8) and four GETFH (68).
	req := c.on(dir)
	for range 5 {
		req.add(nfsv4.OpGetFH)
	}
	r := c.doOn(req)
	for range 4 {
		r.op(nfsv4.OpGetFH, nfsv4.OK).skip(60)
	}
	r.op(nfsv4.OpGetFH, nfsv4.ErrRepTooBig).end()
	if len(r.raw) > 400-replyHeader {
		t.Errorf("the reply has %d bytes", len(r.raw))
	}

	// What changes something is not run if it could not be answered.
	req = c.sequence(true).add(nfsv4.OpPutFH, dir).add(nfsv4.OpGetFH).add(nfsv4.OpGetFH).add(nfsv4.OpCreate, 2, "unmade", attrs(bitmap()))
	c.doOn(req).op(nfsv4.OpGetFH, nfsv4.OK).skip(60).op(nfsv4.OpGetFH, nfsv4.ErrRepTooBigToCache).end()
	req = c.sequence(true).add(nfsv4.OpPutFH, dir).add(nfsv4.OpGetFH).add(nfsv4.OpSaveFH).add(nfsv4.OpSaveFH).add(nfsv4.OpSaveFH).add(nfsv4.OpSaveFH).add(nfsv4.OpCreate, 2, "unmade", attrs(bitmap()))
	c.doOn(req).op(nfsv4.OpGetFH, nfsv4.OK).skip(60).op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpSaveFH, nfsv4.OK).
		op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpCreate, nfsv4.ErrRepTooBigToCache).end()
	big.expect(nfsv4.ErrNoEnt, dir, nfsv4.OpLookup, "unmade")
}

// A READ larger than the session's replies is cut, a READDIR filled to what
// there is room for.
func TestCompoundLimitsOfData(t *testing.T) {
	s := newSite(t)
	big := s.newClient(1, "big")
	dir := big.fh("data")
	o := big.create(dir, "file", 0o644)
	big.write(o, 0, strings.Repeat("x", 5000), nfsv4.FileSync)

	c := s.newClientWith(1, "small", channel(1024, 1000, 200, 8, 1))
	data, eof := c.read(o.fh, nfsv4.AnonymousStateID, 0, 4096)
	if len(data) < 700 || len(data) > 1000 || eof {
		t.Errorf("read %d bytes, eof %v", len(data), eof)
	}
	r := c.doOn(c.on(dir).add(nfsv4.OpReadDir, uint64(0), nfsv4.Verifier{}, 4096, 4096, bitmap(nfsv4.AttrFileID)))
	r.op(nfsv4.OpReadDir, nfsv4.OK)
	if len(r.raw) > 1000-replyHeader {
		t.Errorf("the reply has %d bytes", len(r.raw))
	}
}
