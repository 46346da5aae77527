package nfs3

import (
	"strings"
	"testing"

	"capstan/export"
)

func TestLookup(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o755)
	f := b.create(d, "f", 0o644)
	if r := b.ok(procLookup, enc().fh(d).str("f")); string(r.fh) != string(f) || r.obj == nil || r.post == nil {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		dir  []byte
		name string
		want []byte
	}{
		{d, ".", d}, {d, "..", b.root}, {b.root, ".", b.root}, {b.root, "..", b.root},
	} {
		if r := b.ok(procLookup, enc().fh(c.dir).str(c.name)); string(r.fh) != string(c.want) || r.obj.typ != 2 {
			t.Errorf("%q: %+v", c.name, r)
		}
	}
	shut := b.mkdir(b.root, "shut", 0o600)
	for _, name := range []string{".", "..", "f"} {
		b.want(ErrAccess, nobody, procLookup, enc().fh(shut).str(name))
		b.want(ErrNotDir, superuser, procLookup, enc().fh(f).str(name))
	}
	b.vol.fail["Access"] = export.ErrDelay
	b.want(ErrJukebox, superuser, procLookup, enc().fh(d).str("."))
}

// TestHandlesCrossNoExports: a handle shown on one export is worth nothing as
// one of another, whatever the client writes into it.
func TestHandlesCrossNoExports(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	forged := append([]byte(nil), f...)
	forged[5] = idOther
	b.want(ErrBadHandle, superuser, procGetAttr, enc().fh(forged))
	for _, n := range []int{0, 1, 55, 57, 64} {
		b.want(ErrBadHandle, superuser, procGetAttr, enc().fh(make([]byte, n)))
	}
}

// TestNames: what is refused in every procedure that takes a name, and how.
func TestNames(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	toMake := []Status{ErrExist, ErrExist}
	type procName struct {
		what string
		proc uint32
		args func(name string) args3
		dots []Status // "." and ".."
	}
	for _, p := range []procName{
		{"LOOKUP", procLookup, func(n string) args3 { return enc().fh(b.root).str(n) }, []Status{OK, OK}},
		{"CREATE", procCreate, func(n string) args3 { return enc().fh(b.root).str(n).u32(0).sattr(plain) }, toMake},
		{"CREATE EXCLUSIVE", procCreate, func(n string) args3 { return enc().fh(b.root).str(n).u32(2).u64(1) }, toMake},
		{"MKDIR", procMkdir, func(n string) args3 { return enc().fh(b.root).str(n).sattr(plain) }, toMake},
		{"SYMLINK", procSymlink, func(n string) args3 { return enc().fh(b.root).str(n).sattr(plain).str("x") }, toMake},
		{"MKNOD", procMknod, func(n string) args3 { return enc().fh(b.root).str(n).u32(7).sattr(plain) }, toMake},
		{"REMOVE", procRemove, func(n string) args3 { return enc().fh(b.root).str(n) }, []Status{ErrAccess, ErrAccess}},
		{"RMDIR", procRmdir, func(n string) args3 { return enc().fh(b.root).str(n) }, []Status{ErrInval, ErrExist}},
		{"RENAME from", procRename, func(n string) args3 { return enc().fh(b.root).str(n).fh(b.root).str("x") }, []Status{ErrInval, ErrInval}},
		{"RENAME to", procRename, func(n string) args3 { return enc().fh(b.root).str("f").fh(b.root).str(n) }, []Status{ErrInval, ErrInval}},
		{"LINK", procLink, func(n string) args3 { return enc().fh(f).fh(b.root).str(n) }, toMake},
	} {
		t.Run(p.what, func(t *testing.T) {
			b.t = t
			for name, want := range map[string]Status{
				"": ErrAccess, "a/b": ErrAccess, "/": ErrAccess, "../x": ErrAccess, "a\x00b": ErrAccess,
				strings.Repeat("n", 256): ErrNameTooLong, strings.Repeat("n", 65536): ErrNameTooLong,
				".": p.dots[0], "..": p.dots[1],
			} {
				if r := b.call(superuser, p.proc, p.args(name)); r.status != want {
					t.Errorf("%.20q (%d bytes): %v, want %v", name, len(name), r.status, want)
				}
			}
		})
	}
	b.t = t
	if n := len(b.list(false, b.root, 0, 4096)); n != 3 {
		t.Errorf("%d names, there were 3", n)
	}
	for _, name := range []string{strings.Repeat("n", 255), "\xff\xfe\x80", "e\u0301", "\u00e9", "...", ".x", "-rf *\n"} {
		fh := b.create(b.root, name, 0o644)
		if r := b.ok(procLookup, enc().fh(b.root).str(name)); string(r.fh) != string(fh) {
			t.Errorf("%q: another file", name)
		}
	}
}

// TestMakeEverything: each kind of object with its attributes, and a wcc whose
// two states differ.
func TestMakeEverything(t *testing.T) {
	b := newBed(t)
	s := export.SetAttr{
		Set:  export.SetMode | export.SetUID | export.SetGID | export.SetSize | export.SetMtime,
		Mode: 0o640, UID: 5, GID: 6, Size: 0, Mtime: export.Timespec{Sec: 100, Nsec: 7},
	}
	for _, c := range []struct {
		name string
		proc uint32
		args args3
		typ  uint32
		dev  bool
	}{
		{"file", procCreate, enc().u32(createGuarded).sattr(s), 1, false},
		{"dir", procMkdir, enc().sattr(s), 2, false},
		{"link", procSymlink, enc().sattr(s).str("to/where"), 5, false},
		{"block", procMknod, enc().u32(3).sattr(s).u32(8).u32(300), 3, true},
		{"char", procMknod, enc().u32(4).sattr(s).u32(8).u32(300), 4, true},
		{"socket", procMknod, enc().u32(6).sattr(s), 6, false},
		{"fifo", procMknod, enc().u32(7).sattr(s), 7, false},
	} {
		r := b.ok(c.proc, append(enc().fh(b.root).str(c.name), c.args...))
		a := r.obj
		if a == nil || a.typ != c.typ || a.uid != 5 || a.gid != 6 || a.mtime != 100 || a.mtimeNs != 7 {
			t.Errorf("%s: %+v", c.name, a)
		}
		if a.mode != 0o640 && c.typ != 5 {
			t.Errorf("%s: mode %o", c.name, a.mode)
		}
		if c.dev != (a.major == 8 && a.minor == 300) {
			t.Errorf("%s: device %d:%d", c.name, a.major, a.minor)
		}
		if got := b.ok(procGetAttr, enc().fh(r.fh)).obj; *got != *a {
			t.Errorf("%s: GETATTR %+v", c.name, got)
		}
		w := r.wcc[0]
		if w.pre == nil || w.post == nil || w.pre.ctime == w.post.ctime && w.pre.ctimeNsec == w.post.ctimeNsec {
			t.Errorf("%s: wcc %+v", c.name, w)
		}
	}
	if r := b.ok(procReadLink, enc().fh(b.ok(procLookup, enc().fh(b.root).str("link")).fh)); r.link != "to/where" || r.post == nil {
		t.Errorf("%+v", r)
	}
	for _, typ := range []uint32{0, 1, 2, 5, 8, 1 << 31} {
		b.want(ErrBadType, superuser, procMknod, enc().fh(b.root).str("x").u32(typ))
	}
	b.want(ErrInval, superuser, procSymlink, enc().fh(b.root).str("x").sattr(plain).str(""))
	b.want(ErrInval, superuser, procSymlink, enc().fh(b.root).str("x").sattr(plain).str("a\x00b"))
	b.want(ErrNameTooLong, superuser, procSymlink, enc().fh(b.root).str("x").sattr(plain).str(strings.Repeat("p", 4096)))
	b.ok(procSymlink, enc().fh(b.root).str("x").sattr(plain).str(strings.Repeat("p", 4095)))
}

// TestCreateUnchecked: of an existing file only size 0 is taken.
func TestCreateUnchecked(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o640)
	b.chown(f, 1000, 1000)
	b.write(f, 0, strings.Repeat("x", 1<<20), export.FileSync)
	unchecked := func(s export.SetAttr) *reply3 {
		return b.want(OK, nobody, procCreate, enc().fh(b.root).str("f").u32(createUnchecked).sattr(s))
	}
	r := unchecked(export.SetAttr{Set: export.SetMode | export.SetMtime, Mode: 0o777})
	if a := b.ok(procGetAttr, enc().fh(f)).obj; string(r.fh) != string(f) || a.size != 1<<20 || a.mode != 0o640 || a.mtime == 0 {
		t.Errorf("without size: %+v", a)
	}
	unchecked(export.SetAttr{Set: export.SetMode | export.SetSize, Mode: 0o777, Size: 5})
	if a := b.ok(procGetAttr, enc().fh(f)).obj; a.size != 1<<20 || a.mode != 0o640 {
		t.Errorf("with size 5: %+v", a)
	}
	r = unchecked(export.SetAttr{Set: export.SetMode | export.SetUID | export.SetSize, Mode: 0o777, UID: 7})
	if a := r.obj; a.size != 0 || a.mode != 0o640 || a.uid != 1000 {
		t.Errorf("with size 0: %+v", a)
	}
	b.want(ErrExist, superuser, procCreate, enc().fh(b.root).str("f").u32(createGuarded).sattr(plain))
	b.mkdir(b.root, "d", 0o755)
	if r := b.call(superuser, procCreate, enc().fh(b.root).str("d").u32(createUnchecked).sattr(plain)); r.status != ErrExist && r.status != ErrIsDir {
		t.Errorf("over a directory: %v", r.status)
	}
}

// TestCreateExclusive: the same verifier meets the same file, another one and
// the other modes meet EXIST.
func TestCreateExclusive(t *testing.T) {
	b := newBed(t)
	dir := b.mkdir(b.root, "d", 0o777)
	excl := func(verf uint64) args3 { return enc().fh(dir).str("f").u32(createExclusive).u64(verf) }
	first := b.want(OK, nobody, procCreate, excl(77))
	again := b.want(OK, nobody, procCreate, excl(77))
	if string(first.fh) != string(again.fh) || len(first.fh) == 0 {
		t.Error("the retry met another file")
	}
	b.want(ErrExist, nobody, procCreate, excl(78))
	b.want(ErrExist, nobody, procCreate, enc().fh(dir).str("f").u32(createGuarded).sattr(plain))
	// The client sets the attributes next: size 0, mode and server time.
	b.want(OK, nobody, procSetAttr, enc().fh(first.fh).sattr(export.SetAttr{
		Set: export.SetMode | export.SetSize | export.SetAtimeNow | export.SetMtimeNow, Mode: 0o600,
	}).bool(false))
	a := b.ok(procGetAttr, enc().fh(first.fh)).obj
	now := b.ok(procGetAttr, enc().fh(b.mkdir(b.root, "now", 0o755))).obj.ctime
	for _, got := range []uint32{a.atime, a.mtime, a.ctime} {
		if got > now || now-got > 60 {
			t.Errorf("time %d, now is %d", got, now)
		}
	}
	if a.mode != 0o600 || a.uid != 1000 {
		t.Errorf("%+v", a)
	}
	b.ok(procRemove, enc().fh(dir).str("f"))
	if third := b.want(OK, nobody, procCreate, excl(77)); string(third.fh) == string(first.fh) {
		t.Error("a removed file was met again")
	}
}

func TestLink(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	d := b.mkdir(b.root, "d", 0o755)
	r := b.ok(procLink, enc().fh(f).fh(d).str("g"))
	if r.post == nil || r.post.nlink != 2 || r.wcc[0].pre == nil || r.wcc[0].post == nil {
		t.Errorf("%+v", r)
	}
	if l := b.ok(procLookup, enc().fh(d).str("g")); string(l.fh) != string(f) {
		t.Error("the link leads to another file")
	}
	b.ok(procRemove, enc().fh(b.root).str("f"))
	if a := b.ok(procGetAttr, enc().fh(f)).obj; a.nlink != 1 {
		t.Errorf("nlink %d", a.nlink)
	}
	b.want(ErrIsDir, superuser, procLink, enc().fh(d).fh(b.root).str("x"))
}

func TestRename(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	d := b.mkdir(b.root, "d", 0o755)
	r := b.ok(procRename, enc().fh(b.root).str("f").fh(d).str("g"))
	for i, w := range r.wcc {
		if w.pre == nil || w.post == nil {
			t.Errorf("wcc %d: %+v", i, w)
		}
	}
	b.want(ErrNoEnt, superuser, procLookup, enc().fh(b.root).str("f"))
	b.ok(procGetAttr, enc().fh(f)) // the handle is as good as before
	b.create(b.root, "file", 0o644)
	b.want(ErrNotDir, superuser, procRename, enc().fh(b.root).str("d").fh(b.root).str("file"))
	b.want(ErrIsDir, superuser, procRename, enc().fh(b.root).str("file").fh(b.root).str("d"))
	// Two names of one file: nothing happens, and that is no fault.
	b.ok(procLink, enc().fh(f).fh(b.root).str("h"))
	b.ok(procRename, enc().fh(d).str("g").fh(b.root).str("h"))
	b.ok(procLookup, enc().fh(d).str("g"))
}

func TestRemove(t *testing.T) {
	b := newBed(t)
	b.mkdir(b.root, "d", 0o755)
	b.create(b.root, "f", 0o644)
	b.want(ErrIsDir, superuser, procRemove, enc().fh(b.root).str("d"))
	b.want(ErrNotDir, superuser, procRmdir, enc().fh(b.root).str("f"))
	r := b.ok(procRmdir, enc().fh(b.root).str("d"))
	if w := r.wcc[0]; w.pre == nil || w.post == nil {
		t.Errorf("%+v", w)
	}
}

func TestFSCalls(t *testing.T) {
	b := newBedWith(t, Options{MaxRead: 64 << 10, MaxWrite: 32 << 10, MaxDir: 16 << 10})
	i := b.ok(procFSInfo, enc().fh(b.root)).info
	want := []uint64{64 << 10, 64 << 10, 4096, 32 << 10, 32 << 10, 4096, 16 << 10, 1<<63 - 1, 0, 1, 0x01 | 0x02 | 0x08 | 0x10}
	for n := range want {
		if i[n] != want[n] {
			t.Errorf("FSINFO %d: %#x, want %#x", n, i[n], want[n])
		}
	}
	p := b.ok(procPathConf, enc().fh(b.root)).info
	for n, w := range []uint64{65000, 255, 1, 1, 0, 1} {
		if p[n] != w {
			t.Errorf("PATHCONF %d: %d, want %d", n, p[n], w)
		}
	}
	s := b.ok(procFSStat, enc().fh(b.root))
	if s.post == nil || s.space[0] == 0 || s.space[1] > s.space[0] || s.space[2] > s.space[1] || s.space[3] == 0 {
		t.Errorf("FSSTAT %v", s.space)
	}
}
