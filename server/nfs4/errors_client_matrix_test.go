package nfs4_test

import (
	"context"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfstest"
)

// exchange is a scenario of EXCHANGE_ID.
func exchange(a nfstest.ExchangeIDArgs) func(*world, cell) nfstest.Result {
	return func(w *world, _ cell) nfstest.Result {
		return w.alone(func(c *nfstest.Compound) { c.ExchangeID(a) })
	}
}

// creating is a scenario of CREATE_SESSION for the client, with something wrong.
func creating(wrong func(*nfstest.CreateSessionArgs)) func(*world, cell) nfstest.Result {
	return func(w *world, _ cell) nfstest.Result {
		a := nfstest.CreateSessionArgs{Client: w.ses.Client.ID, Sequence: w.ses.Client.Sequence, Fore: nfstest.DefaultFore}
		wrong(&a)
		return w.alone(func(c *nfstest.Compound) { c.CreateSession(a) })
	}
}

// sequence is a scenario of SEQUENCE with something wrong.
func sequence(wrong func(*nfstest.SequenceArgs)) func(*world, cell) nfstest.Result {
	return func(w *world, _ cell) nfstest.Result {
		a := nfstest.SequenceArgs{Session: w.ses.ID, Sequence: w.ses.Sequence(0) + 1}
		wrong(&a)
		return w.alone(func(c *nfstest.Compound) { c.Sequence(a).PutRootFH() })
	}
}

// clientRules are about clients, sessions and their channels.
var clientRules = []rule{
	{err: nfsv4.ErrInval, ops: "EXCHANGE_ID", name: "an unknown flag", run: exchange(nfstest.ExchangeIDArgs{Owner: "n", Flags: 1 << 20})},
	{err: nfsv4.ErrNoEnt, ops: "EXCHANGE_ID", name: "an update of what is not there",
		run: exchange(nfstest.ExchangeIDArgs{Owner: "n", Flags: nfsv4.ExchangeUpdConfirmed})},
	{err: nfsv4.ErrNotSame, ops: "EXCHANGE_ID", name: "an update with another verifier",
		run: exchange(nfstest.ExchangeIDArgs{Owner: "client", Verifier: nfsv4.Verifier{9}, Flags: nfsv4.ExchangeUpdConfirmed})},
	{err: nfsv4.ErrHashAlgUnsupp, ops: "EXCHANGE_ID", name: "SP4_SSV", run: exchange(nfstest.ExchangeIDArgs{Owner: "n", Protect: nfsv4.ProtectSSV})},
	{err: nfsv4.ErrEncrAlgUnsupp, ops: "EXCHANGE_ID", reason: "SP4_SSV is refused for its hash algorithms"},
	{err: nfsv4.ErrClIDInUse, ops: "EXCHANGE_ID", name: "the name of a client that holds state", run: func(w *world, _ cell) nfstest.Result {
		return w.aloneOn(w.connect(nfstest.User(5, 5)), func(c *nfstest.Compound) {
			c.ExchangeID(nfstest.ExchangeIDArgs{Owner: "client", Verifier: nfsv4.Verifier{2}})
		})
	}},
	{err: nfsv4.ErrClIDInUse, ops: "CREATE_SESSION", name: "by another principal", run: func(w *world, _ cell) nfstest.Result {
		n := w.newcomer("n", nfstest.Root)
		return w.aloneOn(w.connect(nfstest.User(5, 5)), func(c *nfstest.Compound) {
			c.CreateSession(nfstest.CreateSessionArgs{Client: n.ID, Sequence: n.Sequence})
		})
	}},
	{err: nfsv4.ErrInval, ops: "CREATE_SESSION", name: "an unknown flag", run: creating(func(a *nfstest.CreateSessionArgs) { a.Flags = 1 << 20 })},
	{err: nfsv4.ErrTooSmall, ops: "CREATE_SESSION", name: "requests of 100 bytes", run: creating(func(a *nfstest.CreateSessionArgs) { a.Fore.MaxRequest = 100 })},
	{err: nfsv4.ErrSeqMisordered, ops: "CREATE_SESSION", name: "a number left out", run: creating(func(a *nfstest.CreateSessionArgs) { a.Sequence++ })},
	{err: nfsv4.ErrStaleClientID, ops: "CREATE_SESSION", name: "a client nobody knows", run: creating(func(a *nfstest.CreateSessionArgs) { a.Client ^= 1 << 63 })},
	{err: nfsv4.ErrNoEnt, ops: "CREATE_SESSION", reason: "no RPCSEC_GSS handle is looked for"},
	{err: nfsv4.ErrDelay, ops: "CREATE_SESSION", name: "as many clients as there may be",
		with: func(o *worldOptions) { o.limits.MaxClients = 1 }, run: func(w *world, _ cell) nfstest.Result {
			n := w.newcomer("n", nfstest.Root)
			return w.alone(func(c *nfstest.Compound) {
				c.CreateSession(nfstest.CreateSessionArgs{Client: n.ID, Sequence: n.Sequence})
			})
		}},

	{err: nfsv4.ErrClientIDBusy, ops: "DESTROY_CLIENTID", name: "a client with a session", run: with(nothing, func(w *world, c *nfstest.Compound) {
		c.DestroyClientID(w.ses.Client.ID)
	})},
	{err: nfsv4.ErrStaleClientID, ops: "DESTROY_CLIENTID", name: "a client nobody knows", run: with(nothing, func(w *world, c *nfstest.Compound) {
		c.DestroyClientID(w.ses.Client.ID ^ 1<<63)
	})},
	{err: nfsv4.ErrStaleClientID, ops: "DESTROY_SESSION", reason: "the session of a client nobody knows is unknown: BADSESSION"},
	{err: nfsv4.ErrBadSession, ops: "DESTROY_SESSION", name: "a session nobody knows", run: with(nothing, func(_ *world, c *nfstest.Compound) {
		c.DestroySession(nfsv4.SessionID{1})
	})},
	{err: nfsv4.ErrConnNotBoundToSession, ops: "DESTROY_SESSION", name: "over another connection", run: func(w *world, _ cell) nfstest.Result {
		return w.aloneOn(w.connect(nfstest.Root), func(c *nfstest.Compound) { c.DestroySession(w.ses.ID) })
	}},
	{err: nfsv4.ErrBackChanBusy, ops: "DESTROY_SESSION", reason: "no callbacks are made"},
	{err: nfsv4.ErrCBPathDown, ops: "DESTROY_SESSION", reason: "no callbacks are made"},

	{err: nfsv4.ErrBadSession, ops: "BIND_CONN_TO_SESSION", name: "a session nobody knows", run: with(nothing, func(_ *world, c *nfstest.Compound) {
		c.BindConnToSession(nfsv4.SessionID{1}, nfsv4.BindFore)
	})},
	{err: nfsv4.ErrBadSessionDigest, ops: "BIND_CONN_TO_SESSION", reason: "only SP4_NONE is granted, which has no digests"},
	{err: nfsv4.ErrInval, ops: "BIND_CONN_TO_SESSION", reason: "a direction that is none is BADXDR"},
	{err: nfsv4.ErrInval, ops: "BACKCHANNEL_CTL", name: "no flavor", run: with(nothing, just(func(c *nfstest.Compound) *nfstest.Compound { return c.BackchannelCtl(1) }))},
	{err: nfsv4.ErrNoEnt, ops: "BACKCHANNEL_CTL", reason: "no RPCSEC_GSS handle is looked for"},

	{err: nfsv4.ErrCompleteAlready, ops: "RECLAIM_COMPLETE", name: "a second time", run: by(just(func(c *nfstest.Compound) *nfstest.Compound { return c.ReclaimComplete(false) }))},
	{err: nfsv4.ErrInval, ops: "RECLAIM_COMPLETE", reason: "its only argument is a boolean"},

	{err: nfsv4.ErrBadSession, ops: "SEQUENCE", name: "a session nobody knows", run: sequence(func(a *nfstest.SequenceArgs) { a.Session[15] ^= 0x80 })},
	{err: nfsv4.ErrBadSlot, ops: "SEQUENCE", name: "a slot that is not there", run: sequence(func(a *nfstest.SequenceArgs) { a.Slot = 9999 })},
	{err: nfsv4.ErrBadHighSlot, ops: "SEQUENCE", name: "a highest slot that is not there", run: sequence(func(a *nfstest.SequenceArgs) { a.HighestSlot = 9999 })},
	{err: nfsv4.ErrSeqMisordered, ops: "SEQUENCE", name: "a number left out", run: sequence(func(a *nfstest.SequenceArgs) { a.Sequence++ })},
	{err: nfsv4.ErrSeqFalseRetry, ops: "SEQUENCE", name: "the last number with another request", run: sequence(func(a *nfstest.SequenceArgs) { a.Sequence-- })},
	{err: nfsv4.ErrSequencePos, ops: "SEQUENCE", name: "a second SEQUENCE", run: func(w *world, _ cell) nfstest.Result {
		return w.result(w.ses.Begin().Sequence(nfstest.SequenceArgs{Session: w.ses.ID, Sequence: 2, Slot: 1}))
	}},
	{err: nfsv4.ErrConnNotBoundToSession, ops: "SEQUENCE", reason: "with SP4_NONE the first SEQUENCE binds its connection"},
	{err: nfsv4.ErrDelay, ops: "SEQUENCE", name: "a retry while the request runs", run: func(w *world, _ cell) nfstest.Result {
		req := w.in(w.file).GetAttr(nfsv4.AttrSize)
		other := w.connect(nfstest.Root)
		var again nfstest.Result
		w.vol.Hook("GetAttr", func(ctx context.Context) error {
			w.vol.Hook("GetAttr", nil)
			r, err := other.Bytes(ctx, nil, req.Bytes())
			if err == nil {
				again = r.Last()
			}
			return err
		})
		w.do(req)
		return again
	}},
}
