package nfs4_test

import (
	"context"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
	"capstan/server/xdr"
)

// withID calls an operation with a stateid.
var withID = map[nfsv4.Op]func(*world, *nfstest.Compound, nfsv4.StateID){
	nfsv4.OpClose:         func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.Close(id) },
	nfsv4.OpOpenDowngrade: func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.OpenDowngrade(id, 1, 0) },
	nfsv4.OpFreeStateID:   func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.FreeStateID(id) },
	nfsv4.OpLock: func(_ *world, c *nfstest.Compound, id nfsv4.StateID) {
		c.LockOp(nfstest.LockArgs{Type: nfsv4.LockWrite, Offset: 200, Length: 10, Open: id, Owner: "new"})
	},
	nfsv4.OpLockU: func(_ *world, c *nfstest.Compound, id nfsv4.StateID) {
		c.LockU(nfstest.LockArgs{Length: 10, Lock: id})
	},
	nfsv4.OpRead:       func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.Read(id, 0, 10) },
	nfsv4.OpWrite:      func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.Write(id, 0, 0, []byte("data")) },
	nfsv4.OpSetAttr:    func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.SetAttr(id, nfstest.Size(5)) },
	nfsv4.OpSeek:       func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.Seek(id, 0, 0) },
	nfsv4.OpAllocate:   func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.Allocate(id, 0, 10) },
	nfsv4.OpDeallocate: func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.Deallocate(id, 0, 10) },
	nfsv4.OpIOAdvise:   func(_ *world, c *nfstest.Compound, id nfsv4.StateID) { c.IOAdvise(id, 0, 10) },
}

const stateful = "CLOSE OPEN_DOWNGRADE LOCK LOCKU READ WRITE SETATTR SEEK ALLOCATE DEALLOCATE IO_ADVISE"

// id is a scenario with a stateid that is chosen.
func id(choose func(*world, cell) nfsv4.StateID) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		chosen := choose(w, c)
		req := w.ses.Begin()
		acts[c.op].before(w, req)
		withID[c.op](w, req, chosen)
		return w.result(req)
	}
}

// openRules are about OPEN and stateids.
var openRules = []rule{
	{err: nfsv4.ErrBadStateID, ops: stateful + " FREE_STATEID", name: "a stateid that was not given out", run: id(func(w *world, _ cell) nfsv4.StateID {
		bad := w.open.ID
		bad.Other[0] ^= 0xff
		return bad
	})},
	{err: nfsv4.ErrBadStateID, ops: "OPEN", name: "CLAIM_DELEG_CUR_FH without a delegation", run: usualOpen(func(e *xdr.Encoder) {
		e.Uint32(nfsv4.ClaimDelegCurFH)
		nfsv4.StateID{Seq: 1}.Encode(e)
	})},
	{err: nfsv4.ErrOldStateID, ops: stateful + " FREE_STATEID", name: "a sequence number that is past", run: id(func(w *world, c cell) nfsv4.StateID {
		old := w.open.ID
		if c.op == nfsv4.OpLockU || c.op == nfsv4.OpFreeStateID {
			old = w.unlocked
		}
		if old.Seq < 2 {
			w.Fatalf("%v has no past", old)
		}
		old.Seq--
		return old
	})},
	{err: nfsv4.ErrOldStateID, ops: "OPEN", reason: "its only stateid is of a delegation, and there are none: BAD_STATEID"},
	{err: nfsv4.ErrAdminRevoked, ops: stateful, name: "the export was taken away and came back", run: func(w *world, c cell) nfstest.Result {
		w.srv.State.KeepExports(w.ctx, func(uint32) bool { return false })
		return usual(acts[c.op].before)(w, c)
	}},
	{err: nfsv4.ErrAdminRevoked, ops: "OPEN", reason: "its only stateid is of a delegation, and there are none: BAD_STATEID"},
	{err: nfsv4.ErrExpired, ops: stateful + " OPEN", name: "the client restarts while its request runs", run: func(w *world, c cell) nfstest.Result {
		req := w.in(w.file).GetAttr(nfsv4.AttrChange)
		acts[c.op].append(w, req)
		w.vol.Hook("GetAttr", func(context.Context) error {
			w.vol.Hook("GetAttr", nil)
			w.restart()
			return nil
		})
		return w.result(req)
	}},
	{err: nfsv4.ErrLocksHeld, ops: "CLOSE", reason: "CLOSE gives the locks back"},
	{err: nfsv4.ErrLocksHeld, ops: "FREE_STATEID", name: "locks are held", run: id(func(w *world, _ cell) nfsv4.StateID { return w.lock })},

	{err: nfsv4.ErrShareDenied, ops: "OPEN", name: "deny against an open for writing", run: by(just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.Open(nfstest.OpenArgs{Owner: "opener", Deny: nfsv4.ShareDenyWrite, Claim: nfstest.ByName("file")})
	}))},
	{err: nfsv4.ErrLocked, ops: "READ WRITE SETATTR SEEK ALLOCATE DEALLOCATE", name: "no open, and an open that denies", run: func(w *world, c cell) nfstest.Result {
		_, err := w.ses.Open(w.ctx, w.dir, nfstest.OpenArgs{Owner: "denier", Deny: nfsv4.ShareDenyBoth, Claim: nfstest.ByName("victim")})
		w.check(err)
		req := w.in(w.victim)
		withID[c.op](w, req, nfsv4.AnonymousStateID)
		return w.result(req)
	}},
	{err: nfsv4.ErrOpenMode, ops: "WRITE SETATTR ALLOCATE DEALLOCATE LOCK", name: "open for reading only", run: opened(nfsv4.ShareAccessRead)},
	{err: nfsv4.ErrOpenMode, ops: "READ SEEK", name: "open for writing only", run: opened(nfsv4.ShareAccessWrite)},

	{err: nfsv4.ErrGrace, ops: "OPEN", name: "before RECLAIM_COMPLETE", run: func(w *world, c cell) nfstest.Result {
		s, err := w.newcomer("starting", nfstest.Root).NewSession(w.ctx, nfstest.Channel{})
		w.check(err)
		w.ses = s
		return usual(acts[c.op].before)(w, c)
	}},
	{err: nfsv4.ErrGrace, ops: "*", reason: "no earlier state is known, so there is no grace period that keeps others waiting"},
	{err: nfsv4.ErrNoGrace, ops: "OPEN", name: "CLAIM_PREVIOUS", run: usualOpen(nfstest.Previous)},
	{err: nfsv4.ErrNoGrace, ops: "LOCK", name: "a reclaim", run: by(func(w *world, c *nfstest.Compound) {
		c.LockOp(nfstest.LockArgs{Reclaim: true, Offset: 200, Length: 10, Open: w.open.ID, Owner: "new"})
	})},
	{err: nfsv4.ErrReclaimBad, ops: "OPEN", name: "CLAIM_DELEG_PREV_FH", run: usualOpen(func(e *xdr.Encoder) { e.Uint32(nfsv4.ClaimDelegPrevFH) })},
	{err: nfsv4.ErrReclaimBad, ops: "LOCK", reason: "every reclaim is NO_GRACE"},
	{err: nfsv4.ErrReclaimConflict, ops: "*", reason: "every reclaim is NO_GRACE"},
	{err: nfsv4.ErrDelegAlreadyWanted, ops: "*", reason: "there are no delegations to want"},
	{err: nfsv4.ErrDelegRevoked, ops: "*", reason: "there are no delegations to be revoked"},
	{err: nfsv4.ErrFBig, ops: "OPEN SETATTR", name: "a size beyond 2^63-1", run: attrs(nfstest.Size(1 << 63))},
	{err: nfsv4.ErrInval, ops: "OPEN_DOWNGRADE", name: "what was never opened", run: by(func(w *world, c *nfstest.Compound) {
		c.OpenDowngrade(w.open.ID, nfsv4.ShareAccessWrite, 0)
	})},
}

// usualOpen is a scenario of OPEN with another claim, of the file itself.
func usualOpen(claim nfstest.Claim) func(*world, cell) nfstest.Result {
	return with(onFile, just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.Open(nfstest.OpenArgs{Owner: "opener", Claim: claim})
	}))
}

// opened is a scenario with the stateid of the victim, opened with access.
func opened(access uint32) func(*world, cell) nfstest.Result {
	return func(w *world, c cell) nfstest.Result {
		o, err := w.ses.Open(w.ctx, w.dir, nfstest.OpenArgs{Owner: "opener", Access: access, Claim: nfstest.ByName("victim")})
		w.check(err)
		req := w.in(w.victim)
		withID[c.op](w, req, o.ID)
		return w.result(req)
	}
}

// restart is the client coming up anew, on a connection of its own.
func (w *world) restart() {
	c, err := nfstest.NewClient(w.ctx, w.connect(nfstest.Root), w.minor, nfstest.ExchangeIDArgs{Owner: "client", Verifier: nfsv4.Verifier{2}})
	w.check(err)
	_, err = c.NewSession(w.ctx, nfstest.Channel{})
	w.check(err)
}
