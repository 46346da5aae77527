package nfs3

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"capstan/export"
	"capstan/export/memory"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// bed is a server of two memory volumes, called without a network:
//
//	/export  volume A, read and write, no squash
//	/other   volume B, likewise
//	/ro      volume A read-only
//	/closed  volume A, for nobody
type bed struct {
	t      testing.TB
	ctx    context.Context
	server *Server
	table  *export.Table
	vol    *faulty
	other  *faulty
	root   []byte
}

const (
	idExport = 1
	idOther  = 2
	idRO     = 3
	idClosed = 4
)

func newBed(t testing.TB) *bed { return newBedWith(t, Options{}) }

func newBedWith(t testing.TB, o Options) *bed {
	t.Helper()
	b := &bed{t: t, ctx: context.Background()}
	b.vol, b.other = newFaulty(t), newFaulty(t)
	all := []export.Rule{export.AllowAll}
	table, err := export.NewTable(b.ctx, []*export.Export{
		{ID: idExport, Path: "/export", Volume: b.vol, Squash: export.SquashNone, Rules: all},
		{ID: idOther, Path: "/other", Volume: b.other, Squash: export.SquashNone, Rules: all},
		{ID: idRO, Path: "/ro", Volume: b.vol, ReadOnly: true, Squash: export.SquashNone, Rules: all},
		{ID: idClosed, Path: "/closed", Volume: b.vol},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.table = table
	files := export.NewOpenFiles(export.OpenFilesOptions{Idle: time.Hour}) // no test is to see files closed because it was slow
	t.Cleanup(files.Close)
	b.server = New(export.NewExports(table), files, o)
	b.root = b.handle(idExport, b.rootOf(idExport))
	return b
}

func (b *bed) rootOf(id uint32) export.Object {
	o, err := b.table.Export(id).Root(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

func (b *bed) handle(id uint32, o export.Object) []byte {
	return b.table.AppendHandle(nil, export.Node{Export: b.table.Export(id), Object: o})
}

// via is the handle of the same object on another export.
func (b *bed) via(id uint32, fh []byte) []byte { return b.handle(id, b.object(fh)) }

func (b *bed) object(fh []byte) export.Object {
	n, err := b.table.Resolve(fh)
	if err != nil {
		b.t.Fatal(err)
	}
	return n.Object
}

// user is a credential of AUTH_SYS.
func user(uid, gid uint32, groups ...uint32) rpc.Credential {
	return rpc.Credential{Flavor: rpc.FlavorSys, Machine: "client", UID: uid, GID: gid, Groups: groups}
}

var superuser = user(0, 0)

// Procedure numbers.
const (
	procGetAttr     = 1
	procSetAttr     = 2
	procLookup      = 3
	procAccess      = 4
	procReadLink    = 5
	procRead        = 6
	procWrite       = 7
	procCreate      = 8
	procMkdir       = 9
	procSymlink     = 10
	procMknod       = 11
	procRemove      = 12
	procRmdir       = 13
	procRename      = 14
	procLink        = 15
	procReadDir     = 16
	procReadDirPlus = 17
	procFSStat      = 18
	procFSInfo      = 19
	procPathConf    = 20
	procCommit      = 21
)

// serve makes a call of any program and returns the results.
func (b *bed) serve(p rpc.Program, cred rpc.Credential, proc uint32, args []byte) (rpc.AcceptStat, []byte) {
	rc := &rpc.Call{Program: p.Number(), Version: 3, Procedure: proc, Cred: cred, Size: len(args)}
	rc.Args.Reset(args)
	var e xdr.Encoder
	e.Uint32(0xfeedface) // a reply has a header already
	stat := p.Serve(b.ctx, rc, &e)
	out := append([]byte(nil), e.Bytes()[4:]...)
	e.Reset()
	return stat, out
}

// call makes an NFS call and returns its decoded reply.
func (b *bed) call(cred rpc.Credential, proc uint32, args args3) *reply3 {
	b.t.Helper()
	stat, out := b.serve(b.server.NFS(), cred, proc, args)
	if stat != rpc.Success {
		b.t.Fatalf("%s: accept_stat %v", procedures[proc].name, stat)
	}
	r, err := parseReply(proc, out)
	if err != nil {
		b.t.Fatalf("%s: reply: %v", procedures[proc].name, err)
	}
	return r
}

// ok is call by the superuser, which must succeed.
func (b *bed) ok(proc uint32, args args3) *reply3 {
	b.t.Helper()
	r := b.call(superuser, proc, args)
	if r.status != OK {
		b.t.Fatalf("%s: %v", procedures[proc].name, r.status)
	}
	return r
}

// want is call that must end with a status.
func (b *bed) want(st Status, cred rpc.Credential, proc uint32, args args3) *reply3 {
	b.t.Helper()
	r := b.call(cred, proc, args)
	if r.status != st {
		b.t.Errorf("%s: %v, want %v", procedures[proc].name, r.status, st)
	}
	return r
}

func (b *bed) mkdir(dir []byte, name string, mode uint32) []byte {
	b.t.Helper()
	return b.ok(procMkdir, enc().fh(dir).str(name).sattr(export.SetAttr{Set: export.SetMode, Mode: mode})).fh
}

func (b *bed) create(dir []byte, name string, mode uint32) []byte {
	b.t.Helper()
	return b.ok(procCreate, enc().fh(dir).str(name).u32(createGuarded).sattr(export.SetAttr{Set: export.SetMode, Mode: mode})).fh
}

func (b *bed) write(fh []byte, off uint64, data string, stable export.Stability) *reply3 {
	b.t.Helper()
	return b.ok(procWrite, enc().fh(fh).u64(off).u32(uint32(len(data))).u32(uint32(stable)).str(data))
}

func (b *bed) chown(fh []byte, uid, gid uint32) {
	b.t.Helper()
	b.ok(procSetAttr, enc().fh(fh).sattr(export.SetAttr{Set: export.SetUID | export.SetGID, UID: uid, GID: gid}).bool(false))
}

// stale returns the handle of an object that is gone.
func (b *bed) stale(dir bool) []byte {
	b.t.Helper()
	if dir {
		fh := b.mkdir(b.root, "gone", 0o755)
		b.ok(procRmdir, enc().fh(b.root).str("gone"))
		return fh
	}
	fh := b.create(b.root, "gone", 0o644)
	b.ok(procRemove, enc().fh(b.root).str("gone"))
	return fh
}

// faulty is a memory volume that fails on demand.
type faulty struct {
	export.Volume
	fail  map[string]error // by method; set while no call runs
	weak  bool             // files answer Unstable whatever is asked
	roll  atomic.Uint64    // write verifier
	syncs atomic.Int64     // Commits of files
	opens atomic.Int64
}

func newFaulty(t testing.TB) *faulty {
	v, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &faulty{Volume: v, fail: map[string]error{}}
}

func (v *faulty) GetAttr(ctx context.Context, c *export.Cred, o export.Object, m export.AttrMask) (export.Attr, error) {
	if err := v.fail["GetAttr"]; err != nil {
		return export.Attr{}, err
	}
	return v.Volume.GetAttr(ctx, c, o, m)
}

func (v *faulty) SetAttr(ctx context.Context, c *export.Cred, o export.Object, via export.File, s *export.SetAttr) (export.Change, error) {
	if err := v.fail["SetAttr"]; err != nil {
		return export.Change{}, err
	}
	if f, ok := via.(*faultyFile); ok {
		via = f.File
	}
	return v.Volume.SetAttr(ctx, c, o, via, s)
}

func (v *faulty) Access(ctx context.Context, c *export.Cred, o export.Object, want export.Access) (export.Access, export.Attr, error) {
	if err := v.fail["Access"]; err != nil {
		return 0, export.Attr{}, err
	}
	return v.Volume.Access(ctx, c, o, want)
}

func (v *faulty) Lookup(ctx context.Context, c *export.Cred, dir export.Object, name string, m export.AttrMask) (export.Object, export.Attr, error) {
	if err := v.fail["Lookup"]; err != nil {
		return export.Object{}, export.Attr{}, err
	}
	return v.Volume.Lookup(ctx, c, dir, name, m)
}

func (v *faulty) Readlink(ctx context.Context, c *export.Cred, o export.Object) (string, error) {
	if err := v.fail["Readlink"]; err != nil {
		return "", err
	}
	return v.Volume.Readlink(ctx, c, o)
}

func (v *faulty) ReadDir(ctx context.Context, c *export.Cred, dir export.Object, cookie uint64, m export.AttrMask, emit func(*export.Dirent) bool) (bool, error) {
	if err := v.fail["ReadDir"]; err != nil {
		return false, err
	}
	return v.Volume.ReadDir(ctx, c, dir, cookie, m, emit)
}

func (v *faulty) Create(ctx context.Context, c *export.Cred, dir export.Object, name string, a *export.Create) (export.Created, error) {
	if err := v.fail["Create"]; err != nil {
		return export.Created{}, err
	}
	return v.Volume.Create(ctx, c, dir, name, a)
}

func (v *faulty) Mkdir(ctx context.Context, c *export.Cred, dir export.Object, name string, s *export.SetAttr) (export.Created, error) {
	if err := v.fail["Mkdir"]; err != nil {
		return export.Created{}, err
	}
	return v.Volume.Mkdir(ctx, c, dir, name, s)
}

func (v *faulty) Symlink(ctx context.Context, c *export.Cred, dir export.Object, name, target string, s *export.SetAttr) (export.Created, error) {
	if err := v.fail["Symlink"]; err != nil {
		return export.Created{}, err
	}
	return v.Volume.Symlink(ctx, c, dir, name, target, s)
}

func (v *faulty) Mknod(ctx context.Context, c *export.Cred, dir export.Object, name string, a *export.NewNode) (export.Created, error) {
	if err := v.fail["Mknod"]; err != nil {
		return export.Created{}, err
	}
	return v.Volume.Mknod(ctx, c, dir, name, a)
}

func (v *faulty) Link(ctx context.Context, c *export.Cred, o, dir export.Object, name string) (export.Created, error) {
	if err := v.fail["Link"]; err != nil {
		return export.Created{}, err
	}
	return v.Volume.Link(ctx, c, o, dir, name)
}

func (v *faulty) Remove(ctx context.Context, c *export.Cred, dir export.Object, name string, kind export.RemoveKind) (export.Object, export.Change, error) {
	if err := v.fail["Remove"]; err != nil {
		return export.Object{}, export.Change{}, err
	}
	return v.Volume.Remove(ctx, c, dir, name, kind)
}

func (v *faulty) Rename(ctx context.Context, c *export.Cred, from export.Object, oldName string, to export.Object, newName string) (export.Renamed, error) {
	if err := v.fail["Rename"]; err != nil {
		return export.Renamed{}, err
	}
	return v.Volume.Rename(ctx, c, from, oldName, to, newName)
}

func (v *faulty) StatFS(ctx context.Context, o export.Object) (export.StatFS, error) {
	if err := v.fail["StatFS"]; err != nil {
		return export.StatFS{}, err
	}
	return v.Volume.StatFS(ctx, o)
}

func (v *faulty) Open(ctx context.Context, c *export.Cred, o export.Object, m export.OpenMode) (export.File, error) {
	v.opens.Add(1)
	if err := v.fail["Open"]; err != nil {
		return nil, err
	}
	f, err := v.Volume.Open(ctx, c, o, m)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: f, vol: v}, nil
}

func (v *faulty) WriteVerifier() [8]byte {
	w := v.Volume.WriteVerifier()
	w[7] += byte(v.roll.Load())
	return w
}

type faultyFile struct {
	export.File
	vol *faulty
}

func (f *faultyFile) ReadAt(ctx context.Context, p []byte, off uint64) (int, bool, error) {
	if err := f.vol.fail["ReadAt"]; err != nil {
		return 0, false, err
	}
	return f.File.ReadAt(ctx, p, off)
}

func (f *faultyFile) WriteAt(ctx context.Context, c *export.Cred, p []byte, off uint64, s export.Stability) (int, export.Stability, error) {
	if err := f.vol.fail["WriteAt"]; err != nil {
		return 0, 0, err
	}
	n, s, err := f.File.WriteAt(ctx, c, p, off, s)
	if f.vol.weak {
		s = export.Unstable
	}
	return n, s, err
}

func (f *faultyFile) Commit(ctx context.Context, off, n uint64) error {
	f.vol.syncs.Add(1)
	if err := f.vol.fail["Commit"]; err != nil {
		f.vol.roll.Add(1)
		return err
	}
	return f.File.Commit(ctx, off, n)
}
