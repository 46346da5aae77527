package exporttest

import (
	"bytes"
	"strings"

	"capstan/export"
)

func exclusive(v string, open export.OpenMode) *export.Create {
	c := &export.Create{Mode: export.CreateExclusive, Open: open}
	copy(c.Verifier[:], v)
	return c
}

// made makes a call of Create and closes its file at the end of the row.
func (f *fixture) made(c *export.Cred, name string, args *export.Create) export.Created {
	f.Helper()
	res, err := f.v.Create(ctx, c, f.base, name, args)
	f.ok(err)
	if res.File != nil {
		f.Cleanup(func() { res.File.Close() })
	}
	return res
}

var createRows = []row{
	{name: "Create/Guarded", run: func(f *fixture) {
		before := f.attr(f.base)
		res := f.made(root, "f", &export.Create{Mode: export.CreateGuarded, Attr: *mode(0o604)})
		f.check(res.New && res.File == nil, "New %v, File %v", res.New, res.File)
		f.check(res.Attr == f.attr(res.Object), "created with %+v, then %+v", res.Attr, f.attr(res.Object))
		f.check(res.Attr.Mode == 0o604, "mode %o", res.Attr.Mode)
		f.check(f.lookup(f.base, "f") == res.Object, "lookup finds another object")
		f.changed("directory", f.base, before, res.Dir)
	}},
	{name: "Create/GuardedExists", run: func(f *fixture) {
		f.create("f", 0o644)
		f.mkdir("d", 0o755)
		for _, name := range []string{"f", "d"} {
			_, err := f.v.Create(ctx, root, f.base, name, &export.Create{Mode: export.CreateGuarded})
			f.want(name, err, export.ErrExist)
		}
	}},
	{name: "Create/ExistsBeforePermission", needs: users, run: func(f *fixture) {
		f.create("f", 0o644)
		f.chmod(f.base, 0o755)
		_, err := f.v.Create(ctx, alice, f.base, "f", &export.Create{Mode: export.CreateGuarded})
		f.want("existing", err, export.ErrExist)
		_, err = f.v.Create(ctx, alice, f.base, "g", &export.Create{Mode: export.CreateGuarded})
		f.want("new", err, export.ErrAccess)
		_, err = f.v.Mkdir(ctx, alice, f.base, "f", mode(0o755))
		f.want("existing, mkdir", err, export.ErrExist)
	}},
	{name: "Create/UncheckedNew", run: func(f *fixture) {
		res := f.made(root, "f", &export.Create{Attr: export.SetAttr{Set: export.SetMode | export.SetSize, Mode: 0o640, Size: 10}})
		f.check(res.New && res.Attr.Mode == 0o640 && res.Attr.Size == 10, "New %v, %+v", res.New, res.Attr)
	}},
	{name: "Create/UncheckedTakesExisting", needs: users, run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		f.chmod(file.Object(), 0o666)
		before, dir := f.attr(file.Object()), f.attr(f.base)
		res := f.made(alice, "f", &export.Create{Attr: export.SetAttr{Set: export.SetMode | export.SetUID | export.SetSize, Mode: 0o600, UID: 1001, Size: 3}})
		f.check(!res.New && res.Object == file.Object(), "New %v, object %v", res.New, res.Object)
		f.unchanged("taken with a size that is not 0", file.Object(), before)
		f.unchanged("directory", f.base, dir)
		f.check(res.Dir.Pre.Change == res.Dir.Post.Change, "directory changed from %d to %d", res.Dir.Pre.Change, res.Dir.Post.Change)
	}},
	{name: "Create/UncheckedTruncates", run: func(f *fixture) {
		file := f.file("f", bytes.Repeat([]byte("x"), 1<<20))
		before := f.attr(file.Object())
		res := f.made(root, "f", &export.Create{Attr: export.SetAttr{Set: export.SetMode | export.SetSize, Mode: 0o600}})
		after := f.attr(file.Object())
		f.check(!res.New && after.Size == 0 && res.Attr.Size == 0, "size %d, said %d", after.Size, res.Attr.Size)
		f.check(after.Mode == before.Mode, "mode %o became %o", before.Mode, after.Mode)
		f.check(after.Change != before.Change, "change attribute stays")
		f.holds(file, nil)
	}},
	{name: "Create/UncheckedTruncatePermission", needs: users, run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		_, err := f.v.Create(ctx, alice, f.base, "f", &export.Create{Attr: export.SetAttr{Set: export.SetSize}})
		f.want("truncate without write permission", err, export.ErrAccess)
		f.holds(file, []byte("data"))
		f.made(alice, "f", &export.Create{Attr: export.SetAttr{Set: export.SetMode, Mode: 0o600}})
	}},
	{name: "Create/UncheckedOtherTypes", run: func(f *fixture) {
		f.mkdir("d", 0o755)
		_, err := f.v.Create(ctx, root, f.base, "d", &export.Create{})
		f.want("directory", err, export.ErrIsDir)
		if f.feat.Symlinks {
			f.symlink("l", "nowhere")
			_, err = f.v.Create(ctx, root, f.base, "l", &export.Create{})
			f.want("symlink", err, export.ErrSymlink)
			f.absent(f.base, "nowhere")
		}
		if f.feat.Special {
			f.mknod("p", export.TypeFIFO)
			_, err = f.v.Create(ctx, root, f.base, "p", &export.Create{})
			f.want("FIFO", err, export.ErrInval)
		}
	}},
	{name: "Create/UncheckedOpenPermission", needs: users, run: func(f *fixture) {
		f.chown(f.create("f", 0o640), alice.UID, staff)
		_, err := f.v.Create(ctx, bob, f.base, "f", &export.Create{Open: export.OpenWrite})
		f.want("write by a reader", err, export.ErrAccess)
		f.made(bob, "f", &export.Create{Open: export.OpenRead})
		_, err = f.v.Create(ctx, carol, f.base, "f", &export.Create{Open: export.OpenRead})
		f.want("read by another", err, export.ErrAccess)
	}},
	// Trial 14.
	{name: "Create/OpenWhateverItsMode", needs: users, run: func(f *fixture) {
		for i, m := range []uint32{0o444, 0, 0o200} {
			for j, kind := range []export.CreateMode{export.CreateUnchecked, export.CreateGuarded, export.CreateExclusive} {
				name := strings.Repeat("x", 1+3*i+j)
				res := f.made(alice, name, &export.Create{Mode: kind, Attr: *mode(m), Open: readWrite, Verifier: [8]byte{1}})
				data := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
				f.writeAs(alice, res.File, 0, data)
				f.holds(res.File, data)
				f.ok(res.File.Commit(ctx, 0, 0))
				_, err := f.v.SetAttr(ctx, alice, res.Object, res.File, &export.SetAttr{Set: export.SetSize, Size: 5})
				f.want("truncate through it", err, export.OK)
				f.holds(res.File, data[:5])
				f.check(f.attr(res.Object).Mode == m, "mode %o", f.attr(res.Object).Mode)
				_, err = f.v.Open(ctx, alice, res.Object, export.OpenWrite)
				f.wantIf("another open for writing", err, m&0o200 != 0, export.ErrAccess)
				_, err = f.v.Open(ctx, alice, res.Object, export.OpenRead)
				f.wantIf("another open for reading", err, m&0o400 != 0, export.ErrAccess)
			}
		}
	}},
	// Trial 15.
	{name: "Create/Exclusive", run: func(f *fixture) {
		res := f.made(root, "f", exclusive("verifier", readWrite))
		f.check(res.New && res.File != nil, "New %v, File %v", res.New, res.File)
		a := f.attr(res.Object)
		f.recent("atime", a.Atime)
		f.recent("mtime", a.Mtime)
		f.recent("ctime", a.Ctime)
	}},
	{name: "Create/ExclusiveWithAttributes", needs: setTime, run: func(f *fixture) {
		args := exclusive("verifier", 0)
		args.Attr = export.SetAttr{Set: export.SetMode | export.SetMtime | export.SetAtime | export.SetSize, Mode: 0o641, Size: 9,
			Atime: export.Timespec{Sec: 1e9}, Mtime: export.Timespec{Sec: 2e9}}
		a := f.attr(f.made(root, "f", args).Object)
		f.check(a.Mode == 0o641 && a.Size == 9 && a.Atime.Sec == 1e9 && a.Mtime.Sec == 2e9, "attributes %+v", a)
	}},
	{name: "Create/ExclusiveRetrySameVerifier", run: func(f *fixture) {
		first := f.made(root, "f", exclusive("verifier", readWrite))
		f.writeFile(first.File, 0, []byte("data"))
		again := f.made(root, "f", exclusive("verifier", readWrite))
		f.check(!again.New && again.Object == first.Object, "New %v, object %v", again.New, again.Object)
		f.holds(again.File, []byte("data"))
	}},
	{name: "Create/ExclusiveRetryAfterSetAttr", run: func(f *fixture) {
		first := f.made(root, "f", exclusive("verifier", 0))
		f.set(first.Object, export.SetAttr{Set: export.SetMode | export.SetAtimeNow | export.SetMtimeNow, Mode: 0o644})
		f.recent("mtime", f.attr(first.Object).Mtime)
		f.recent("atime", f.attr(first.Object).Atime)
	}},
	{name: "Create/ExclusiveRetryOpensReadOnlyFile", needs: users, run: func(f *fixture) {
		args := exclusive("verifier", readWrite)
		args.Attr = *mode(0o444)
		first := f.made(alice, "f", args)
		again := f.made(alice, "f", args)
		f.check(again.Object == first.Object && again.File != nil, "object %v, file %v", again.Object, again.File)
		f.writeAs(alice, again.File, 0, []byte("data"))
	}},
	{name: "Create/ExclusiveOtherVerifier", run: func(f *fixture) {
		f.made(root, "f", exclusive("verifier", 0))
		f.create("plain", 0o644)
		f.mkdir("d", 0o755)
		for _, name := range []string{"f", "plain", "d"} {
			_, err := f.v.Create(ctx, root, f.base, name, exclusive("another", 0))
			f.want(name, err, export.ErrExist)
		}
		_, err := f.v.Create(ctx, root, f.base, "plain", exclusive("", 0))
		f.want("a zero verifier on a file that has none", err, export.ErrExist)
		_, err = f.v.Create(ctx, root, f.base, "f", &export.Create{Mode: export.CreateGuarded})
		f.want("guarded", err, export.ErrExist)
	}},
	{name: "Create/OwnerInAttributes", needs: users, run: func(f *fixture) {
		give := func(c *export.Cred, s export.SetAttr) error {
			res, err := f.v.Create(ctx, c, f.base, "f", &export.Create{Mode: export.CreateGuarded, Attr: s})
			if err == nil {
				a := f.attr(res.Object)
				f.check(s.Set&export.SetUID == 0 || a.UID == s.UID, "uid %d", a.UID)
				f.check(s.Set&export.SetGID == 0 || a.GID == s.GID, "gid %d", a.GID)
				f.remove(f.base, "f")
			}
			return err
		}
		f.want("another owner", give(alice, export.SetAttr{Set: export.SetUID, UID: bob.UID}), export.ErrPerm)
		f.absent(f.base, "f")
		f.want("herself", give(alice, export.SetAttr{Set: export.SetUID, UID: alice.UID}), export.OK)
		f.want("a group of hers", give(alice, export.SetAttr{Set: export.SetGID, GID: staff}), export.OK)
		f.want("a strange group", give(alice, export.SetAttr{Set: export.SetGID, GID: carol.GID}), export.ErrPerm)
		f.want("root gives", give(root, export.SetAttr{Set: export.SetUID | export.SetGID, UID: bob.UID, GID: staff}), export.OK)
	}},
	{name: "Create/SetGroupIDDirectory", needs: users, run: func(f *fixture) {
		d := f.mkdir("d", 0o777)
		f.chown(d, 0, staff)
		f.chmod(d, 0o2777)
		a := f.attr(f.createAs(carol, d, "f", 0o2755))
		f.check(a.GID == staff && a.UID == carol.UID, "file of %d:%d", a.UID, a.GID)
		f.check(a.Mode == 0o755, "set-group-id for an outsider: mode %o", a.Mode)
		a = f.attr(f.createAs(bob, d, "g", 0o2755))
		f.check(a.GID == staff && a.Mode == 0o2755, "member's file: group %d, mode %o", a.GID, a.Mode)
		res, err := f.v.Mkdir(ctx, carol, d, "sub", mode(0o755))
		f.ok(err)
		a = f.attr(res.Object)
		f.check(a.GID == staff && a.Mode == 0o2755, "directory: group %d, mode %o", a.GID, a.Mode)
	}},
	{name: "Create/WithoutModeIsPrivate", run: func(f *fixture) {
		a := f.made(root, "f", &export.Create{}).Attr
		f.check(a.Mode&0o7077 == 0, "file mode %o", a.Mode)
		res, err := f.v.Mkdir(ctx, root, f.base, "d", &export.SetAttr{})
		f.ok(err)
		f.check(res.Attr.Mode&0o7077 == 0, "directory mode %o", res.Attr.Mode)
	}},
	{name: "Create/TimesInAttributes", needs: setTime, run: func(f *fixture) {
		s := export.SetAttr{Set: export.SetMtime | export.SetAtime, Mtime: export.Timespec{Sec: 1e9}, Atime: export.Timespec{Sec: 1e9 + 1}}
		a := f.made(root, "f", &export.Create{Attr: s}).Attr
		f.check(a.Mtime.Sec == 1e9 && a.Atime.Sec == 1e9+1, "file times %v %v", a.Mtime, a.Atime)
		res, err := f.v.Mkdir(ctx, root, f.base, "d", &s)
		f.ok(err)
		f.check(res.Attr.Mtime.Sec == 1e9, "directory time %v", res.Attr.Mtime)
	}},
	{name: "Create/SizeTooBig", run: func(f *fixture) {
		_, err := f.v.Create(ctx, root, f.base, "f", &export.Create{Attr: export.SetAttr{Set: export.SetSize, Size: 1 << 63}})
		f.want("2^63", err, export.ErrFBig)
		f.absent(f.base, "f")
	}},
	{name: "Create/UmaskOfTheServerDoesNotCount", run: func(f *fixture) {
		f.check(f.attr(f.create("f", 0o777)).Mode == 0o777, "file mode %o", f.attr(f.lookup(f.base, "f")).Mode)
		f.check(f.attr(f.mkdir("d", 0o777)).Mode == 0o777, "directory mode %o", f.attr(f.lookup(f.base, "d")).Mode)
	}},
	{name: "Create/Names", run: func(f *fixture) {
		for _, name := range oddNames(f) {
			o := f.create(name, 0o644)
			f.check(f.lookup(f.base, name) == o, "%q: lookup finds another object", name)
			f.rename(f.base, name, f.base, "~")
			f.rename(f.base, "~", f.base, name)
			found := f.names(f.base)
			f.check(len(found) == 1 && found[0] == name, "listed as %q, want %q", found, name)
			f.remove(f.base, name)
			f.absent(f.base, name)
		}
	}},
	{name: "Create/NamesStayDistinct", run: func(f *fixture) {
		if f.feat.CaseFold {
			return
		}
		// Composed and decomposed, upper and lower case, with and without blanks.
		names := []string{"caf\u00e9", "cafe\u0301", "README", "readme", "x", "x ", " x", "x.", "x\n", "\xe9", "\u00e9"}
		objects := map[export.Object]bool{}
		for _, name := range names {
			objects[f.create(name, 0o644)] = true
		}
		f.check(len(objects) == len(names), "%d objects for %d names", len(objects), len(names))
		f.check(len(f.names(f.base)) == len(names), "listed: %q", f.names(f.base))
	}},
}

// oddNames are all legal.
func oddNames(f *fixture) []string {
	all := []string{
		"...", ".hidden", "-rf", "with space", "tab\there", "new\nline", "back\\slash", "quo\"te", "*?[", ":", "a:b",
		"\u00fcn\u00efc\u00f6de", "\u65e5\u672c\u8a9e", "\U0001f600", // UTF-8
		"\xff\xfe", "latin\xe9", "\x80", "\x01\x02\x7f", // not UTF-8, control characters
		"con", "aux.txt", "~1", ".nfs0001",
		strings.Repeat("n", f.feat.MaxName), strings.Repeat("\xff", f.feat.MaxName), strings.Repeat("\u00e9", f.feat.MaxName/2),
	}
	return all
}
