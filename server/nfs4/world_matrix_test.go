package nfs4_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"capstan/export"
	"capstan/export/memory"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/nfstest"
	"capstan/server/rpc"
)

// world is a server with one client on it and one object of every kind, in
// which any operation can be made to succeed, or to fail in a certain way.
type world struct {
	testing.TB
	ctx   context.Context
	minor uint32

	srv  *nfstest.Server
	vol  *nfstest.Faults // of "/data" and, read-only, of "/ro"
	conn *nfstest.Conn
	ses  *nfstest.Session

	dir, sub, ro, other []byte // directories; other is of another Volume
	file, link, fifo    []byte
	roFile, victim      []byte
	open                *nfstest.Opened // of file: reading, and both
	lock                nfsv4.StateID   // write lock on the first 10 bytes of file
	unlocked            nfsv4.StateID   // of a lock-owner without locks
}

// worldOptions are what a scenario may change about the server.
type worldOptions struct {
	limits state.Limits
	lease  time.Duration
}

func newWorld(tb testing.TB, minor uint32, change ...func(*worldOptions)) *world {
	tb.Helper()
	w := &world{TB: tb, ctx: tb.Context(), minor: minor}
	var o worldOptions
	for _, f := range change {
		f(&o)
	}
	mem, err := memory.New(memory.Options{RootMode: 0o777, MaxFiles: 1000})
	w.check(err)
	w.vol = nfstest.NewFaults(mem)
	other, err := nfstest.NewVolume()
	w.check(err)
	ro := nfstest.Export(2, "/ro", w.vol)
	ro.ReadOnly = true
	byName := nfstest.Export(4, "/byname", other)
	byName.FSID = export.FSID{9, 9}
	byName.Rules = []export.Rule{{Client: mustClient(tb, "*.example.org"), Grant: export.GrantRW}}
	w.srv, err = nfstest.NewServer(w.ctx, nfstest.Options{
		Exports: []*export.Export{nfstest.Export(1, "/data", w.vol), ro, nfstest.Export(3, "/other", other), byName},
		Table:   []export.Option{export.WithHosts(export.NewHosts(export.HostsOptions{Resolver: noResolver{}}))},
		State:   state.Options{Limits: o.limits, Lease: o.lease},
	})
	w.check(err)
	tb.Cleanup(func() {
		if err := w.srv.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	w.conn = w.connect(nfstest.Root)
	w.ses, err = nfstest.Mount(w.ctx, w.conn, minor, "client")
	w.check(err)
	w.populate()
	return w
}

func mustClient(tb testing.TB, s string) export.Client {
	c, err := export.ParseClient(s)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// noResolver answers nothing.
type noResolver struct{}

func (noResolver) LookupAddr(context.Context, string) ([]string, error) {
	return nil, context.DeadlineExceeded
}

func (noResolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, context.DeadlineExceeded
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) connect(cred rpc.Credential) *nfstest.Conn {
	w.Helper()
	c, err := w.srv.Connect(cred)
	w.check(err)
	w.Cleanup(func() { c.Close() })
	return c
}

// populate makes the objects.
func (w *world) populate() {
	w.Helper()
	var err error
	w.dir, err = w.ses.Walk(w.ctx, "data")
	w.check(err)
	w.ro, err = w.ses.Walk(w.ctx, "ro")
	w.check(err)
	w.other, err = w.ses.Walk(w.ctx, "other")
	w.check(err)
	w.sub = w.made(w.in(w.dir).Mkdir("sub", nfstest.Mode(0o755)))
	w.link = w.made(w.in(w.dir).Symlink("link", "file", nfstest.Attrs{}))
	w.fifo = w.made(w.in(w.dir).Mknod(7, "fifo", nfstest.Mode(0o666)))
	w.made(w.in(w.sub).Mkdir("inner", nfstest.Mode(0o755)))
	victim := w.create(w.dir, "victim")
	w.victim = victim.FH
	w.do(w.in(w.victim).Close(victim.ID))
	w.create(w.other, "foreign")

	w.open = w.create(w.dir, "file")
	w.roFile, err = w.ses.Walk(w.ctx, "ro", "file")
	w.check(err)
	w.do(w.in(w.file0()).Write(w.open.ID, 0, nfsv4.FileSync, make([]byte, 100)))
	reading, err := w.ses.Open(w.ctx, w.dir, nfstest.OpenArgs{Access: nfsv4.ShareAccessRead, Owner: "owner", Claim: nfstest.ByName("file")})
	w.check(err)
	w.open = reading // the same stateid, one step on
	r := w.do(w.in(w.file0()).LockOp(nfstest.LockArgs{Type: nfsv4.LockWrite, Length: 10, Open: w.open.ID, Owner: "locker"}))
	w.lock = nfstest.Get[nfstest.LockRes](r).ID
	r = w.do(w.in(w.file0()).LockOp(nfstest.LockArgs{Offset: 50, Length: 10, Open: w.open.ID, Owner: "unlocker"}))
	w.unlocked = nfstest.Get[nfstest.LockRes](r).ID
	r = w.do(w.in(w.file0()).LockU(nfstest.LockArgs{Offset: 50, Length: 10, Lock: w.unlocked}))
	w.unlocked = nfstest.Get[nfstest.LockURes](r).ID
	if w.minor >= 2 {
		w.do(w.in(w.file0()).SetXattr(nfsv4.SetXattrEither, "x", []byte("value")))
	}
}

func (w *world) file0() []byte {
	w.file = w.open.FH
	return w.file
}

// in begins a COMPOUND on a handle.
func (w *world) in(fh []byte) *nfstest.Compound { return w.ses.Begin().PutFH(fh) }

func (w *world) send(req *nfstest.Compound) *nfstest.Reply {
	w.Helper()
	r, err := w.ses.Send(w.ctx, req)
	w.check(err)
	return r
}

func (w *world) do(req *nfstest.Compound) *nfstest.Reply {
	w.Helper()
	r, err := w.ses.Do(w.ctx, req)
	w.check(err)
	return r
}

// made runs a CREATE and returns the handle.
func (w *world) made(req *nfstest.Compound) []byte {
	w.Helper()
	return nfstest.Get[nfstest.GetFHRes](w.do(req.GetFH())).FH
}

func (w *world) create(dir []byte, name string) *nfstest.Opened {
	w.Helper()
	o, err := w.ses.Open(w.ctx, dir, nfstest.OpenArgs{Owner: "owner", How: nfstest.Guarded(nfstest.Mode(0o644)), Claim: nfstest.ByName(name)})
	w.check(err)
	return o
}

// act is an operation as it is called: what stands before it and itself.
type act struct {
	// before appends what the operation needs: the current and saved filehandle.
	before func(*world, *nfstest.Compound)
	// op appends the operation.
	op func(*world, *nfstest.Compound)
}

func on(fh func(*world) []byte) func(*world, *nfstest.Compound) {
	return func(w *world, c *nfstest.Compound) { c.PutFH(fh(w)) }
}

func nothing(*world, *nfstest.Compound) {}

var (
	onDir    = on(func(w *world) []byte { return w.dir })
	onSub    = on(func(w *world) []byte { return w.sub })
	onFile   = on(func(w *world) []byte { return w.file })
	onLink   = on(func(w *world) []byte { return w.link })
	onFIFO   = on(func(w *world) []byte { return w.fifo })
	onRO     = on(func(w *world) []byte { return w.ro })
	onROFile = on(func(w *world) []byte { return w.roFile })
)

// twoOn saves one handle and makes another the current one.
func twoOn(saved, current func(*world) []byte) func(*world, *nfstest.Compound) {
	return func(w *world, c *nfstest.Compound) { c.PutFH(saved(w)).SaveFH().PutFH(current(w)) }
}

var (
	theDir  = func(w *world) []byte { return w.dir }
	theSub  = func(w *world) []byte { return w.sub }
	theFile = func(w *world) []byte { return w.file }
)

func just(f func(*nfstest.Compound) *nfstest.Compound) func(*world, *nfstest.Compound) {
	return func(_ *world, c *nfstest.Compound) { f(c) }
}

// acts holds, for every operation that is offered, a call that succeeds.
var acts = map[nfsv4.Op]act{
	nfsv4.OpAccess:  {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.Access(nfsv4.AccessKnown42) })},
	nfsv4.OpClose:   {onFile, func(w *world, c *nfstest.Compound) { c.Close(w.open.ID) }},
	nfsv4.OpCommit:  {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.Commit(0, 0) })},
	nfsv4.OpCreate:  {onDir, just(func(c *nfstest.Compound) *nfstest.Compound { return c.Mkdir("new", nfstest.Attrs{}) })},
	nfsv4.OpGetAttr: {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.GetAttr(nfsv4.AttrSize) })},
	nfsv4.OpGetFH:   {onFile, just((*nfstest.Compound).GetFH)},
	nfsv4.OpLink:    {twoOn(theFile, theDir), just(func(c *nfstest.Compound) *nfstest.Compound { return c.Link("linked") })},
	nfsv4.OpLock: {onFile, func(w *world, c *nfstest.Compound) {
		c.LockOp(nfstest.LockArgs{Type: nfsv4.LockWrite, Offset: 200, Length: 10, Open: w.open.ID, Owner: "new"})
	}},
	nfsv4.OpLockT: {onFile, just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.LockT(nfstest.LockArgs{Offset: 200, Length: 10, Owner: "tester"})
	})},
	nfsv4.OpLockU: {onFile, func(w *world, c *nfstest.Compound) {
		c.LockU(nfstest.LockArgs{Length: 10, Lock: w.lock})
	}},
	nfsv4.OpLookup:  {onDir, just(func(c *nfstest.Compound) *nfstest.Compound { return c.Lookup("file") })},
	nfsv4.OpLookupP: {onSub, just((*nfstest.Compound).LookupP)},
	nfsv4.OpNVerify: {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.NVerify(nfstest.Size(1)) })},
	nfsv4.OpOpen: {onDir, just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.Open(nfstest.OpenArgs{Owner: "opener", Claim: nfstest.ByName("file")})
	})},
	nfsv4.OpOpenDowngrade: {onFile, func(w *world, c *nfstest.Compound) {
		c.OpenDowngrade(w.open.ID, nfsv4.ShareAccessRead, 0)
	}},
	nfsv4.OpPutFH:     {nothing, func(w *world, c *nfstest.Compound) { c.PutFH(w.file) }},
	nfsv4.OpPutPubFH:  {nothing, just((*nfstest.Compound).PutPubFH)},
	nfsv4.OpPutRootFH: {nothing, just((*nfstest.Compound).PutRootFH)},
	nfsv4.OpRead:      {onFile, func(w *world, c *nfstest.Compound) { c.Read(w.open.ID, 0, 100) }},
	nfsv4.OpReadDir: {onDir, just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.ReadDir(0, nfsv4.Verifier{}, 4096, 8192, nfsv4.AttrType)
	})},
	nfsv4.OpReadLink:      {onLink, just((*nfstest.Compound).ReadLink)},
	nfsv4.OpRemove:        {onDir, just(func(c *nfstest.Compound) *nfstest.Compound { return c.Remove("victim") })},
	nfsv4.OpRename:        {twoOn(theDir, theSub), just(func(c *nfstest.Compound) *nfstest.Compound { return c.Rename("victim", "moved") })},
	nfsv4.OpRestoreFH:     {func(w *world, c *nfstest.Compound) { c.PutFH(w.dir).SaveFH() }, just((*nfstest.Compound).RestoreFH)},
	nfsv4.OpSaveFH:        {onFile, just((*nfstest.Compound).SaveFH)},
	nfsv4.OpSecInfo:       {onDir, just(func(c *nfstest.Compound) *nfstest.Compound { return c.SecInfo("file") })},
	nfsv4.OpSecInfoNoName: {onSub, just(func(c *nfstest.Compound) *nfstest.Compound { return c.SecInfoNoName(nfsv4.SecInfoParent) })},
	nfsv4.OpSetAttr: {onFile, func(w *world, c *nfstest.Compound) {
		c.SetAttr(w.open.ID, nfstest.Size(50))
	}},
	nfsv4.OpVerify: {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.Verify(nfstest.Size(100)) })},
	nfsv4.OpWrite: {onFile, func(w *world, c *nfstest.Compound) {
		c.Write(w.open.ID, 0, nfsv4.Unstable, []byte("data"))
	}},
	nfsv4.OpBackChannelCtl: {nothing, just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.BackchannelCtl(0x40000000, nfsv4.AuthSys)
	})},
	nfsv4.OpBindConnToSession: {nothing, func(w *world, c *nfstest.Compound) {
		c.BindConnToSession(w.ses.ID, nfsv4.BindForeOrBoth)
	}},
	nfsv4.OpExchangeID: {nothing, just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.ExchangeID(nfstest.ExchangeIDArgs{Owner: "another", Verifier: nfsv4.Verifier{7}})
	})},
	nfsv4.OpCreateSession: {nothing, func(w *world, c *nfstest.Compound) {
		c.CreateSession(nfstest.CreateSessionArgs{Client: w.ses.Client.ID, Sequence: w.ses.Client.Sequence})
	}},
	nfsv4.OpDestroySession: {nothing, func(w *world, c *nfstest.Compound) { c.DestroySession(w.spare().ID) }},
	nfsv4.OpDestroyClientID: {nothing, func(w *world, c *nfstest.Compound) {
		c.DestroyClientID(w.newcomer("unconfirmed", nfstest.Root).ID)
	}},
	nfsv4.OpFreeStateID: {nothing, func(w *world, c *nfstest.Compound) { c.FreeStateID(w.unlocked) }},
	nfsv4.OpReclaimComplete: {onDir, just(func(c *nfstest.Compound) *nfstest.Compound {
		return c.ReclaimComplete(true)
	})},
	nfsv4.OpTestStateID: {nothing, func(w *world, c *nfstest.Compound) { c.TestStateID(w.open.ID, w.lock) }},
	nfsv4.OpSequence:    {nothing, nothing},

	nfsv4.OpAllocate:    {onFile, func(w *world, c *nfstest.Compound) { c.Allocate(w.open.ID, 0, 4096) }},
	nfsv4.OpDeallocate:  {onFile, func(w *world, c *nfstest.Compound) { c.Deallocate(w.open.ID, 0, 10) }},
	nfsv4.OpIOAdvise:    {onFile, func(w *world, c *nfstest.Compound) { c.IOAdvise(w.open.ID, 0, 10) }},
	nfsv4.OpSeek:        {onFile, func(w *world, c *nfstest.Compound) { c.Seek(w.open.ID, 0, 0) }},
	nfsv4.OpGetXattr:    {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.GetXattr("x") })},
	nfsv4.OpSetXattr:    {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.SetXattr(nfsv4.SetXattrEither, "y", []byte("v")) })},
	nfsv4.OpListXattrs:  {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.ListXattrs(0, 4096) })},
	nfsv4.OpRemoveXattr: {onFile, just(func(c *nfstest.Compound) *nfstest.Compound { return c.RemoveXattr("x") })},
}

// spare is another session of the client.
func (w *world) spare() *nfstest.Session {
	w.Helper()
	s, err := w.ses.Client.NewSession(w.ctx, nfstest.Channel{})
	w.check(err)
	return s
}

// newcomer is a client record that is not confirmed.
func (w *world) newcomer(owner string, cred rpc.Credential) *nfstest.Client {
	w.Helper()
	c, err := nfstest.NewClient(w.ctx, w.connect(cred), w.minor, nfstest.ExchangeIDArgs{Owner: owner, Verifier: nfsv4.Verifier{1}})
	w.check(err)
	return c
}

// append appends the whole act.
func (a act) append(w *world, c *nfstest.Compound) *nfstest.Compound {
	a.before(w, c)
	a.op(w, c)
	return c
}

// TestEveryOperationSucceeds makes sure that what the error matrix changes is
// right before it is changed.
func TestEveryOperationSucceeds(t *testing.T) {
	for _, o := range operations(t) {
		for minor := max(o.FirstMinor, 1); minor <= o.LastMinor; minor++ {
			if !o.Supported {
				continue
			}
			w := newWorld(t, minor)
			a := acts[o.Op]
			if a.op == nil {
				t.Errorf("%v: no call that succeeds", o.Op)
				continue
			}
			req := nfstest.NewCompound(minor)
			if !o.Alone || o.Op == nfsv4.OpSequence {
				req = w.ses.Begin()
			}
			if r := w.send(a.append(w, req)); r.Status != nfsv4.OK {
				t.Errorf("4.%d %v: %v", minor, o.Op, r.Results)
			}
		}
	}
}
