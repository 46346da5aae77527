package nfs4

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	bb "github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"capstan/export"
	"capstan/export/memory"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

type stateOptions = state.Options

// site is a server on memory volumes, called without a network.
type site struct {
	tb    testing.TB
	srv   *Server
	store *state.Store
	table *export.Table
	vol   *memory.Volume // of the export "/data"
	quiet bool           // do not ask the second opinion
}

func newVolume(tb testing.TB) *memory.Volume {
	tb.Helper()
	v, err := memory.New(memory.Options{RootMode: 0o777, MaxBytes: 256 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// newSite serves "/data" read-write without squash and "/ro" read-only, the
// same Volume, and "/a/b/deep" of another.
func newSite(tb testing.TB, change ...func(*Options, *state.Options)) *site {
	tb.Helper()
	s := &site{tb: tb, vol: newVolume(tb)}
	all := []export.Rule{export.AllowAll}
	t, err := export.NewTable(tb.Context(), []*export.Export{
		{ID: 1, Path: "/data", Volume: s.vol, Rules: all, Squash: export.SquashNone},
		{ID: 2, Path: "/ro", Volume: s.vol, Rules: all, Squash: export.SquashNone, ReadOnly: true},
		{ID: 3, Path: "/a/b/deep", Volume: newVolume(tb), Rules: all},
		{ID: 4, Path: "/none", Volume: newVolume(tb), Rules: []export.Rule{}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.table = t
	o := Options{Exports: export.NewExports(t), OpenFiles: export.NewOpenFiles(export.OpenFilesOptions{}), ServerOwner: "test"}
	var so state.Options
	for _, f := range change {
		f(&o, &so)
	}
	if s.store, err = state.New(so); err != nil {
		tb.Fatal(err)
	}
	o.State = s.store
	if s.srv, err = New(o); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.store.Close(context.Background()); err != nil {
			tb.Error(err)
		}
		o.OpenFiles.Close()
	})
	return s
}

// request is a COMPOUND being built.
type request struct {
	e  xdr.Encoder
	at int
	n  uint32
}

func newRequest(minor uint32) *request { return newTagged(minor, "") }

func newTagged(minor uint32, tag string) *request {
	r := new(request)
	r.e.String(tag)
	r.e.Uint32(minor)
	r.at = r.e.Reserve32()
	return r
}

// add appends an operation: numbers, booleans, strings (opaque), byte arrays
// (fixed), bitmaps and functions, encoded in order.
func (r *request) add(op nfsv4.Op, args ...any) *request {
	r.n++
	r.e.Patch32(r.at, r.n)
	r.e.Uint32(uint32(op))
	put(&r.e, args...)
	return r
}

func put(e *xdr.Encoder, args ...any) {
	for _, a := range args {
		switch a := a.(type) {
		case int:
			e.Uint32(uint32(a))
		case uint32:
			e.Uint32(a)
		case uint64:
			e.Uint64(a)
		case int64:
			e.Int64(a)
		case bool:
			e.Bool(a)
		case string:
			e.String(a)
		case []byte:
			e.Opaque(a)
		case nfsv4.SessionID:
			e.Fixed(a[:])
		case nfsv4.Verifier:
			e.Fixed(a[:])
		case nfsv4.StateID:
			a.Encode(e)
		case nfsv4.Bitmap:
			a.Encode(e)
		case func(*xdr.Encoder):
			a(e)
		default:
			panic(fmt.Sprintf("cannot encode %T", a))
		}
	}
}

// attrs is a fattr4: the attributes, and their values in order.
func attrs(mask nfsv4.Bitmap, values ...any) func(*xdr.Encoder) {
	return func(e *xdr.Encoder) {
		var v xdr.Encoder
		put(&v, values...)
		mask.Encode(e)
		e.Opaque(v.Bytes())
	}
}

func bitmap(n ...uint32) nfsv4.Bitmap { return nfsv4.BitmapOf(n...) }

// reply is a COMPOUND's result being read.
type reply struct {
	tb     testing.TB
	raw    []byte
	status nfsv4.Status
	tag    string
	n      int
	xdr.Decoder
}

// op reads the head of the next result and checks it.
func (r *reply) op(op nfsv4.Op, want nfsv4.Status) *reply {
	r.tb.Helper()
	if r.n == 0 {
		r.tb.Fatalf("no result of %v left, status %v", op, r.status)
	}
	r.n--
	got, st := nfsv4.Op(r.Uint32("resop")), nfsv4.Status(r.Uint32("status"))
	if got != op || st != want {
		r.tb.Fatalf("got %v %v, want %v %v", got, st, op, want)
	}
	return r
}

// end checks that the result ends here.
func (r *reply) end() {
	r.tb.Helper()
	if r.n != 0 {
		r.tb.Fatalf("%d more results", r.n)
	}
	if err := r.Finish(); err != nil {
		r.tb.Fatal(err)
	}
}

func (r *reply) stateID() nfsv4.StateID { return nfsv4.DecodeStateID(&r.Decoder) }
func (r *reply) mask() nfsv4.Bitmap     { b, _ := nfsv4.DecodeBitmap(&r.Decoder); return b }
func (r *reply) skip(bytes int) *reply  { r.Fixed("skipped", bytes); return r }

// fattr reads a fattr4 and returns a decoder of the values.
func (r *reply) fattr() (nfsv4.Bitmap, *xdr.Decoder) {
	mask := r.mask()
	return mask, xdr.NewDecoder(r.Opaque("attrlist", 1<<20))
}

// root and alice are callers.
var (
	root  = rpc.Credential{Flavor: rpc.FlavorSys, Machine: "test"}
	alice = rpc.Credential{Flavor: rpc.FlavorSys, Machine: "test", UID: 1000, GID: 1000}
	bob   = rpc.Credential{Flavor: rpc.FlavorSys, Machine: "test", UID: 1001, GID: 1001}
)

// send runs a request and returns the result's bytes.
func (s *site) send(cred rpc.Credential, args []byte) []byte {
	s.tb.Helper()
	call := &rpc.Call{Version: 4, Procedure: nfsv4.ProcCompound, Cred: cred, Size: len(args) + 64}
	call.Args.Reset(args)
	var e xdr.Encoder
	if st := s.srv.Serve(s.tb.Context(), call, &e); st != rpc.Success {
		s.tb.Fatalf("accept status %v", st)
	}
	out := bytes.Clone(e.Bytes())
	e.Reset()
	return out
}

// do runs a request and reads the head of its result.
func (s *site) do(cred rpc.Credential, req *request) *reply {
	s.tb.Helper()
	args := bytes.Clone(req.e.Bytes())
	raw := s.send(cred, args)
	if !s.quiet {
		secondOpinion(s.tb, args, raw)
	}
	r := &reply{tb: s.tb, raw: raw}
	r.Reset(raw)
	r.status = nfsv4.Status(r.Uint32("status"))
	r.tag = r.String("tag", 1<<20)
	r.n = int(r.Uint32("resarray"))
	return r
}

// secondOpinion has another implementation decode request and result, and
// encode them again. What it does not know, or takes for an error by its own
// limits in the request, it has no opinion on.
func secondOpinion(tb testing.TB, args, res []byte) {
	tb.Helper()
	var a bb.Compound4args
	if n, err := a.ReadFrom(bytes.NewReader(args)); err != nil || int(n) != len(args) {
		return
	}
	var again bytes.Buffer
	if _, err := a.WriteTo(&again); err != nil || !bytes.Equal(again.Bytes(), args) {
		tb.Fatalf("request is encoded differently by another implementation: %v", err)
	}
	var r bb.Compound4res
	n, err := r.ReadFrom(bytes.NewReader(res))
	if err != nil || int(n) != len(res) {
		tb.Fatalf("result of %d bytes is not decoded by another implementation: %d bytes, %v\n%x", len(res), n, err, res)
	}
	again.Reset()
	if _, err := r.WriteTo(&again); err != nil || !bytes.Equal(again.Bytes(), res) {
		tb.Fatalf("result is encoded differently by another implementation: %v\n%x\n%x", err, res, again.Bytes())
	}
}

// client is a client with a session, on slot 0.
type client struct {
	*site
	minor   uint32
	cred    rpc.Credential
	id      nfsv4.ClientID
	session nfsv4.SessionID
	seq     uint32
}

// exchangeID is the arguments of EXCHANGE_ID.
func exchangeID(owner string, verifier byte) []any {
	return []any{nfsv4.Verifier{verifier}, owner, 0, nfsv4.ProtectNone, 0}
}

// channel is channel_attrs4.
func channel(maxRequest, maxResponse, maxCached, maxOps, slots uint32) []any {
	return []any{uint32(0), maxRequest, maxResponse, maxCached, maxOps, slots, uint32(0)}
}

func (s *site) newClient(minor uint32, owner string) *client {
	s.tb.Helper()
	return s.newClientWith(minor, owner, channel(2<<20, 2<<20, 1<<20, 64, 4))
}

func (s *site) newClientWith(minor uint32, owner string, fore []any) *client {
	s.tb.Helper()
	c := s.newStarting(minor, owner, fore)
	c.do(c.with().add(nfsv4.OpReclaimComplete, false)).op(nfsv4.OpReclaimComplete, nfsv4.OK)
	return c
}

// newStarting is a client that has not sent RECLAIM_COMPLETE.
func (s *site) newStarting(minor uint32, owner string, fore []any) *client {
	s.tb.Helper()
	c := &client{site: s, minor: minor, cred: root}
	r := s.do(root, newRequest(minor).add(nfsv4.OpExchangeID, exchangeID(owner, 1)...)).op(nfsv4.OpExchangeID, nfsv4.OK)
	c.id = nfsv4.ClientID(r.Uint64("clientid"))
	seq := r.Uint32("sequenceid")
	args := append([]any{uint64(c.id), seq, 0}, fore...)
	args = append(args, channel(4096, 4096, 4096, 2, 1)...)
	args = append(args, 0x40000000, 1, nfsv4.AuthNone)
	r = s.do(root, newRequest(minor).add(nfsv4.OpCreateSession, args...)).op(nfsv4.OpCreateSession, nfsv4.OK)
	c.session = nfsv4.DecodeSessionID(&r.Decoder)
	return c
}

// with begins a request with SEQUENCE.
func (c *client) with() *request { return c.sequence(false) }

func (c *client) sequence(cache bool) *request {
	c.seq++
	return newRequest(c.minor).add(nfsv4.OpSequence, c.session, c.seq, 0, 0, cache)
}

// do runs a request of the session and reads SEQUENCE's result.
func (c *client) do(req *request) *reply {
	c.tb.Helper()
	return c.site.do(c.cred, req).op(nfsv4.OpSequence, nfsv4.OK).skip(36)
}

// at begins a request at a path, of names from the root.
func (c *client) at(path ...string) *request {
	r := c.with().add(nfsv4.OpPutRootFH)
	for _, name := range path {
		r.add(nfsv4.OpLookup, name)
	}
	return r
}

// doAt runs a request begun by at, and reads the results of the walk.
func (c *client) doAt(req *request, path ...string) *reply {
	c.tb.Helper()
	r := c.do(req).op(nfsv4.OpPutRootFH, nfsv4.OK)
	for range path {
		r.op(nfsv4.OpLookup, nfsv4.OK)
	}
	return r
}

// fh returns the handle of a path.
func (c *client) fh(path ...string) string {
	c.tb.Helper()
	return c.doAt(c.at(path...).add(nfsv4.OpGetFH), path...).op(nfsv4.OpGetFH, nfsv4.OK).String("fh", 128)
}

// on begins a request with a handle; doOn reads the result of PUTFH.
func (c *client) on(fh string) *request { return c.with().add(nfsv4.OpPutFH, fh) }

func (c *client) doOn(req *request) *reply {
	c.tb.Helper()
	return c.do(req).op(nfsv4.OpPutFH, nfsv4.OK)
}

// status runs one operation on a handle and returns its status.
func (c *client) status(fh string, op nfsv4.Op, args ...any) nfsv4.Status {
	c.tb.Helper()
	r := c.doOn(c.on(fh).add(op, args...))
	if got := nfsv4.Op(r.Uint32("resop")); got != op {
		c.tb.Fatalf("got a result of %v for %v", got, op)
	}
	return nfsv4.Status(r.Uint32("status"))
}

// expect runs one operation on a handle and checks its status.
func (c *client) expect(want nfsv4.Status, fh string, op nfsv4.Op, args ...any) {
	c.tb.Helper()
	if got := c.status(fh, op, args...); got != want {
		c.tb.Fatalf("%v: got %v, want %v", op, got, want)
	}
}

// Parts of OPEN.

func openBy(owner string, access, deny int) []any {
	return []any{0, access, deny, uint64(0), owner}
}

func unchecked(mask nfsv4.Bitmap, values ...any) []any {
	return []any{nfsv4.OpenCreate, nfsv4.CreateUnchecked, attrs(mask, values...)}
}

func guarded(mask nfsv4.Bitmap, values ...any) []any {
	return []any{nfsv4.OpenCreate, nfsv4.CreateGuarded, attrs(mask, values...)}
}

func exclusive(v nfsv4.Verifier) []any {
	return []any{nfsv4.OpenCreate, nfsv4.CreateExclusive, v}
}

func exclusive1(v nfsv4.Verifier, mask nfsv4.Bitmap, values ...any) []any {
	return []any{nfsv4.OpenCreate, nfsv4.CreateExclusive1, v, attrs(mask, values...)}
}

func byName(name string) []any { return []any{nfsv4.ClaimNull, name} }

func join(parts ...[]any) (all []any) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// opened is the result of OPEN.
type opened struct {
	id      nfsv4.StateID
	atomic  bool
	before  uint64
	after   uint64
	flags   uint32
	attrset nfsv4.Bitmap
	deleg   uint32
	why     uint32
	fh      string
}

func (r *reply) opened() (o opened) {
	o.id = r.stateID()
	o.atomic = r.Bool("atomic")
	o.before, o.after = r.Uint64("before"), r.Uint64("after")
	o.flags = r.Uint32("rflags")
	o.attrset = r.mask()
	if o.deleg = r.Uint32("deleg"); o.deleg == nfsv4.DelegateNoneExt {
		if o.why = r.Uint32("why"); o.why == nfsv4.WhyResource || o.why == nfsv4.WhyContention {
			r.Bool("will signal")
		}
	}
	return o
}

// open runs an OPEN with GETFH on a handle.
func (c *client) open(fh string, parts ...[]any) opened {
	c.tb.Helper()
	r := c.doOn(c.on(fh).add(nfsv4.OpOpen, join(parts...)...).add(nfsv4.OpGetFH))
	o := r.op(nfsv4.OpOpen, nfsv4.OK).opened()
	o.fh = r.op(nfsv4.OpGetFH, nfsv4.OK).String("fh", 128)
	r.end()
	return o
}

// create makes a file of the given mode, open for both.
func (c *client) create(dir, name string, mode uint32) opened {
	c.tb.Helper()
	return c.open(dir, openBy("owner", 3, 0), guarded(bitmap(nfsv4.AttrMode), mode), byName(name))
}

func (c *client) write(o opened, off uint64, data string, stable uint32) (committed uint32, v nfsv4.Verifier) {
	c.tb.Helper()
	r := c.doOn(c.on(o.fh).add(nfsv4.OpWrite, o.id, off, stable, data)).op(nfsv4.OpWrite, nfsv4.OK)
	if n := r.Uint32("count"); int(n) != len(data) {
		c.tb.Fatalf("%d bytes written, not %d", n, len(data))
	}
	committed = r.Uint32("committed")
	return committed, nfsv4.DecodeVerifier(&r.Decoder)
}

func (c *client) read(fh string, id nfsv4.StateID, off uint64, count uint32) (data string, eof bool) {
	c.tb.Helper()
	r := c.doOn(c.on(fh).add(nfsv4.OpRead, id, off, count)).op(nfsv4.OpRead, nfsv4.OK)
	eof = r.Bool("eof")
	data = r.String("data", 2<<20)
	r.end()
	return data, eof
}

// attr returns the value of one attribute of 4 or 8 bytes.
func (c *client) attr(fh string, n uint32) uint64 {
	c.tb.Helper()
	r := c.doOn(c.on(fh).add(nfsv4.OpGetAttr, bitmap(n))).op(nfsv4.OpGetAttr, nfsv4.OK)
	mask, d := r.fattr()
	if mask != bitmap(n) {
		c.tb.Fatalf("%s is not answered", nfsv4.AttrName(n))
	}
	if d.Remaining() == 4 {
		return uint64(d.Uint32("value"))
	}
	return d.Uint64("value")
}

// eachMinor runs a test as a client of each minor version, with the handle of
// "/data".
func eachMinor(t *testing.T, f func(t *testing.T, c *client, dir string)) {
	for _, minor := range []uint32{1, 2} {
		t.Run(fmt.Sprintf("4.%d", minor), func(t *testing.T) {
			c := newSite(t).newClient(minor, "client")
			f(t, c, c.fh("data"))
		})
	}
}

func nodeOf(e *export.Export, o export.Object) export.Node { return export.Node{Export: e, Object: o} }

func newEncoder() *xdr.Encoder { return new(xdr.Encoder) }
