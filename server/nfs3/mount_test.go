package nfs3

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// MOUNT procedure numbers.
const (
	mountNull    = 0
	mountMnt     = 1
	mountDump    = 2
	mountUmnt    = 3
	mountUmntAll = 4
	mountExport  = 5
)

// mnt mounts a path and returns what MNT answers, whole.
func (b *bed) mnt(path string) (MountStatus, []byte) {
	b.t.Helper()
	stat, out := b.serve(b.server.Mount(), superuser, mountMnt, enc().str(path))
	if stat != rpc.Success {
		b.t.Fatal(stat)
	}
	d := xdr.NewDecoder(out)
	st := MountStatus(d.Uint32("status"))
	var fh []byte
	if st == MountOK {
		fh = readFH(d)
		if n, flavor := d.Uint32("flavors"), d.Uint32("flavor"); n != 1 || flavor != 1 {
			b.t.Errorf("%d flavors, the first %d", n, flavor)
		}
	}
	if err := d.Finish(); err != nil {
		b.t.Fatal(err)
	}
	return st, fh
}

// dump returns the list of mounts as host:path.
func (b *bed) dump() []string {
	b.t.Helper()
	_, out := b.serve(b.server.Mount(), rpc.Credential{}, mountDump, nil)
	d := xdr.NewDecoder(out)
	var list []string
	for d.Bool("next") {
		list = append(list, d.String("host", 255)+":"+d.String("dir", 1024))
	}
	if err := d.Finish(); err != nil {
		b.t.Fatal(err)
	}
	return list
}

func TestMount(t *testing.T) {
	b := newBed(t)
	shut := b.mkdir(b.root, "a", 0o750)
	b.chown(shut, 4242, 4242)
	inner := b.mkdir(shut, "b", 0o755)
	b.create(inner, "file", 0o644)
	b.ok(procSymlink, enc().fh(b.root).str("link").sattr(export.SetAttr{}).str("a"))
	for _, c := range []struct {
		path string
		st   MountStatus
		fh   []byte
	}{
		{"/export", MountOK, b.root},
		{"/export/", MountOK, b.root},
		{"//export/./a/../a", MountOK, shut},
		{"/export/a/b", MountOK, inner},
		{"/export/../other", MountOK, b.handle(idOther, b.rootOf(idOther))},
		{"/ro", MountOK, b.handle(idRO, b.rootOf(idRO))},
		{"/absent", MountErrNoEnt, nil},
		{"/export/a/absent", MountErrNoEnt, nil},
		{"/export/a/b/file", MountErrNotDir, nil},
		{"/export/a/b/file/x", MountErrNotDir, nil},
		{"/export/link/b", MountErrNotDir, nil},
		{"/closed", MountErrAccess, nil},
		{"/closed/a/b", MountErrAccess, nil},
		{"/closed-not", MountErrNoEnt, nil},
		{"/export/" + strings.Repeat("n", 256), MountErrNameTooLong, nil},
		{"/export/a\x00b", MountErrInval, nil},
	} {
		if st, fh := b.mnt(c.path); st != c.st || !bytes.Equal(fh, c.fh) {
			t.Errorf("%.40q: %v, handle %x; want %v, %x", c.path, st, fh, c.st, c.fh)
		}
	}
	for _, path := range []string{"/", ""} {
		st, fh := b.mnt(path)
		if st != MountOK {
			t.Fatalf("%q: %v", path, st)
		}
		if l := b.ok(procLookup, enc().fh(fh).str("export")); !bytes.Equal(l.fh, b.root) {
			t.Error("the pseudo root does not lead to the export")
		}
	}
	b.vol.fail["Lookup"] = export.ErrIO
	if st, _ := b.mnt("/export/a"); st != MountErrIO {
		t.Errorf("with a fault below: %v", st)
	}
	b.vol.fail["Lookup"] = export.ErrDelay
	if st, _ := b.mnt("/export/a"); st != MountErrServerFault {
		t.Errorf("with a delay below: %v", st)
	}
}

// TestMountBelowClosedDirectory: the mount succeeds, and every call is checked
// with the rights of its caller.
func TestMountBelowClosedDirectory(t *testing.T) {
	b := newBed(t)
	shut := b.mkdir(b.root, "a", 0o750)
	b.chown(shut, 4242, 4242)
	inner := b.mkdir(shut, "b", 0o755)
	private := b.mkdir(shut, "private", 0o750)
	b.chown(private, 4242, 4242)
	for path, want := range map[string]Status{"/export/a/b": OK, "/export/a/private": ErrAccess} {
		st, fh := b.mnt(path)
		if st != MountOK {
			t.Fatalf("%s: %v", path, st)
		}
		b.want(OK, nobody, procGetAttr, enc().fh(fh))
		b.want(want, nobody, procReadDir, enc().fh(fh).u64(0).u64(0).u32(4096))
		b.want(OK, user(4242, 1), procReadDir, enc().fh(fh).u64(0).u64(0).u32(4096))
	}
	// The way up leads to a directory that lets nobody go on.
	up := b.want(OK, nobody, procLookup, enc().fh(inner).str("..")).fh
	b.want(ErrAccess, nobody, procLookup, enc().fh(up).str("b"))
}

func TestMountOtherVersionOnly(t *testing.T) {
	b := newBed(t)
	table, err := export.NewTable(b.ctx, []*export.Export{{
		ID: idExport, Path: "/export", Volume: b.vol, Rules: []export.Rule{export.AllowAll},
		Versions: export.Versions(export.Version41, export.Version42),
	}}, export.After(b.table))
	if err != nil {
		t.Fatal(err)
	}
	b.server.exports.Swap(table)
	if st, _ := b.mnt("/export"); st != MountErrAccess {
		t.Errorf("MNT: %v", st)
	}
	b.want(ErrAccess, superuser, procGetAttr, enc().fh(b.root))
	b.want(ErrStale, superuser, procGetAttr, enc().fh(b.handle2(idOther)))
}

// handle2 is the root of an export of the first table, signed with keys that
// later ones share.
func (b *bed) handle2(id uint32) []byte { return b.handle(id, b.rootOf(id)) }

func TestMountList(t *testing.T) {
	b := newBedWith(t, Options{MaxMounts: 3})
	for _, p := range []string{"/export", "/other", "/export", "/absent", "/ro"} {
		b.mnt(p)
	}
	const host = "invalid IP:"
	want := []string{host + "/other", host + "/export", host + "/ro"}
	if got := b.dump(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	b.mnt("/")
	b.serve(b.server.Mount(), superuser, mountUmnt, enc().str("/ro"))
	if got, want := b.dump(), []string{host + "/export", host + "/"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	b.serve(b.server.Mount(), superuser, mountUmntAll, nil)
	if got := b.dump(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	l := newMountList(4)
	l.add("a", "/x")
	l.add("b", "/x")
	l.add("a", "/y")
	if l.removeHost("a"); len(l.all()) != 1 {
		t.Errorf("%v", l.all())
	}
}

func TestMountExport(t *testing.T) {
	b := newBed(t)
	client := func(s string) export.Client {
		c, err := export.ParseClient(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	table, err := export.NewTable(b.ctx, []*export.Export{
		{ID: 1, Path: "/a", Volume: b.vol, Rules: []export.Rule{
			{Client: client("10.0.0.0/8"), Grant: export.GrantRW},
			{Client: client("192.0.2.1"), Grant: export.GrantNone},
			{Client: client("10.0.0.0/8"), Grant: export.GrantRO},
			{Client: export.AnyClient, Grant: export.GrantRO},
		}},
		{ID: 2, Path: "/b/c", Volume: b.vol, Rules: []export.Rule{{Client: client("10.0.0.0/8"), Grant: export.GrantRO}}},
		{ID: 3, Path: "/d", Volume: b.vol, Rules: []export.Rule{export.AllowAll}, Versions: export.Versions(export.Version41)},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := func(addr string) string {
		var e xdr.Encoder
		c := mountCall{Server: b.server, ctx: b.ctx, table: table, reply: &e}
		c.peer.Addr = netip.MustParseAddr(addr)
		c.export()
		d := xdr.NewDecoder(e.Bytes())
		var out strings.Builder
		for d.Bool("next") {
			fmt.Fprintf(&out, "%s", d.String("dir", 1024))
			for d.Bool("group") {
				fmt.Fprintf(&out, " %s", d.String("name", 255))
			}
			out.WriteByte('\n')
		}
		if err := d.Finish(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got, want := list("10.1.2.3"), "/a 10.0.0.0/8 *\n/b/c 10.0.0.0/8\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := list("198.51.100.7"), "/a 10.0.0.0/8 *\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := list("192.0.2.1"); got != "" {
		t.Errorf("%q for one who is shut out", got)
	}
}

// TestSquash: all-squash works over a directory of the anonymous user, and the
// superuser of a client is nobody by default.
func TestSquash(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o700)
	b.chown(d, 1001, 1001)
	table, err := export.NewTable(b.ctx, []*export.Export{
		{ID: 1, Path: "/all", Volume: b.vol, Rules: []export.Rule{export.AllowAll}, Squash: export.SquashAll, AnonUID: 1001, AnonGID: 1001},
		{ID: 2, Path: "/root", Volume: b.vol, Rules: []export.Rule{export.AllowAll}},
	}, export.After(b.table))
	if err != nil {
		t.Fatal(err)
	}
	b.table = table
	b.server.exports.Swap(table)
	all, root := b.via(1, d), b.via(2, d)
	for _, cred := range []rpc.Credential{superuser, nobody, {}} {
		r := b.want(OK, cred, procCreate, enc().fh(all).str("f").u32(createUnchecked).sattr(plain))
		if r.obj == nil || r.obj.uid != 1001 || r.obj.gid != 1001 {
			t.Errorf("%+v", r.obj)
		}
	}
	b.want(ErrAccess, superuser, procCreate, enc().fh(root).str("f").u32(createUnchecked).sattr(plain))
}

// TestFaultsAreLogged: a fault says which procedure met it for whom, once, and
// shows no file data; what clients do wrong is not logged.
func TestFaultsAreLogged(t *testing.T) {
	var log bytes.Buffer
	b := newBedWith(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b.want(ErrNoEnt, superuser, procLookup, enc().fh(b.root).str("absent"))
	if log.Len() != 0 {
		t.Errorf("%s", &log)
	}
	f := b.create(b.root, "f", 0o644)
	b.vol.fail["WriteAt"] = &export.Error{Op: "write", Status: export.ErrIO}
	b.want(ErrIO, superuser, procWrite, enc().fh(f).u64(0).u32(6).u32(0).str("secret"))
	if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "procedure=WRITE") ||
		!strings.Contains(s, "NFS3ERR_IO") || strings.Contains(s, "secret") {
		t.Errorf("%s", s)
	}
}
