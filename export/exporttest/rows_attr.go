package exporttest

import (
	"bytes"

	"capstan/export"
)

var attrRows = []row{
	{name: "Attr/NewFile", needs: users, run: func(f *fixture) {
		o := f.createAs(alice, f.base, "f", 0o640)
		a := f.attr(o)
		f.check(a.Type == export.TypeRegular && a.Mode == 0o640 && a.Nlink == 1 && a.Size == 0, "attributes: %+v", a)
		f.check(a.UID == 1001 && a.GID == 1001, "belongs to %d:%d", a.UID, a.GID)
		f.check(a.FileID != 0, "FileID is 0")
		f.recent("atime", a.Atime)
		f.recent("mtime", a.Mtime)
		f.recent("ctime", a.Ctime)
		if a.Btime != (export.Timespec{}) {
			f.recent("btime", a.Btime)
		}
	}},
	{name: "Attr/NewDirectory", needs: users, run: func(f *fixture) {
		res, err := f.v.Mkdir(ctx, alice, f.base, "d", mode(0o750))
		f.ok(err)
		a := f.attr(res.Object)
		f.check(a == res.Attr, "created with %+v, then %+v", res.Attr, a)
		f.check(a.Type == export.TypeDirectory && a.Mode == 0o750 && a.UID == 1001 && a.GID == 1001, "attributes: %+v", a)
	}},
	{name: "Attr/DirectoryLinksCountSubdirectories", run: func(f *fixture) {
		d := f.mkdir("d", 0o755)
		want := func(n uint32) {
			f.Helper()
			if got := f.attr(d).Nlink; got != n {
				f.Errorf("nlink %d, want %d", got, n)
			}
		}
		want(2)
		f.mkdirIn(d, "a", 0o755)
		f.mkdirIn(d, "b", 0o755)
		f.createAs(root, d, "file", 0o644)
		want(4)
		f.rename(d, "a", f.base, "a")
		want(3)
		f.rename(f.base, "a", d, "b")
		want(3)
		f.remove(d, "b")
		want(2)
	}},
	{name: "Attr/FileIDsDiffer", run: func(f *fixture) {
		seen := map[uint64]bool{f.attr(f.base).FileID: true}
		for _, o := range []export.Object{f.create("a", 0o644), f.create("b", 0o644), f.mkdir("c", 0o755)} {
			id := f.attr(o).FileID
			f.check(!seen[id], "FileID %d twice", id)
			seen[id] = true
		}
	}},
	{name: "Attr/OpenFileAgrees", run: func(f *fixture) {
		file := f.file("f", []byte("hello"))
		a, err := file.GetAttr(ctx, export.MaskAll)
		f.ok(err)
		f.check(a == f.attr(file.Object()), "file says %+v, volume %+v", a, f.attr(file.Object()))
	}},
	{name: "SetAttr/Mode", run: func(f *fixture) {
		o, d := f.create("f", 0o644), f.mkdir("d", 0o755)
		for _, m := range []uint32{0, 0o777, 0o4755, 0o2755, 0o1777, 0o7777} {
			f.chmod(o, m)
			f.check(f.attr(o).Mode == m, "file: set %o, got %o", m, f.attr(o).Mode)
			f.chmod(d, m)
			f.check(f.attr(d).Mode == m, "directory: set %o, got %o", m, f.attr(d).Mode)
		}
	}},
	{name: "SetAttr/ModeIsTheOwners", needs: users, run: func(f *fixture) {
		o := f.createAs(alice, f.base, "f", 0o666)
		for _, c := range []*export.Cred{bob, carol} {
			_, err := f.v.SetAttr(ctx, c, o, nil, mode(0o777))
			f.want("chmod by another", err, export.ErrPerm)
		}
		_, err := f.v.SetAttr(ctx, alice, o, nil, mode(0o600))
		f.want("chmod by the owner", err, export.OK)
		f.check(f.attr(o).Mode == 0o600, "mode %o", f.attr(o).Mode)
	}},
	{name: "SetAttr/SetGroupIDNeedsMembership", needs: users, run: func(f *fixture) {
		o := f.create("f", 0o755)
		f.chown(o, alice.UID, carol.GID)
		_, err := f.v.SetAttr(ctx, alice, o, nil, mode(0o2755))
		f.ok(err)
		f.check(f.attr(o).Mode == 0o755, "outsider: mode %o", f.attr(o).Mode)
		f.chown(o, alice.UID, staff)
		_, err = f.v.SetAttr(ctx, alice, o, nil, mode(0o2755))
		f.ok(err)
		f.check(f.attr(o).Mode == 0o2755, "member: mode %o", f.attr(o).Mode)
	}},
	{name: "SetAttr/Owner", needs: users, run: func(f *fixture) {
		o := f.createAs(alice, f.base, "f", 0o644)
		uid := func(c *export.Cred, uid uint32) error {
			_, err := f.v.SetAttr(ctx, c, o, nil, &export.SetAttr{Set: export.SetUID, UID: uid})
			return err
		}
		f.want("given away", uid(alice, bob.UID), export.ErrPerm)
		f.want("taken", uid(bob, bob.UID), export.ErrPerm)
		f.want("to herself", uid(alice, alice.UID), export.OK)
		f.want("by root", uid(root, 4000000000), export.OK)
		f.check(f.attr(o).UID == 4000000000, "uid %d", f.attr(o).UID)
	}},
	{name: "SetAttr/Group", needs: users, run: func(f *fixture) {
		o := f.createAs(alice, f.base, "f", 0o644)
		gid := func(c *export.Cred, gid uint32) error {
			_, err := f.v.SetAttr(ctx, c, o, nil, &export.SetAttr{Set: export.SetGID, GID: gid})
			return err
		}
		f.want("to a strange group", gid(alice, carol.GID), export.ErrPerm)
		f.want("by another member", gid(bob, staff), export.ErrPerm)
		f.want("to one of hers", gid(alice, staff), export.OK)
		f.check(f.attr(o).GID == staff, "gid %d", f.attr(o).GID)
		f.want("by root", gid(root, 4000000000), export.OK)
		f.check(f.attr(o).GID == 4000000000, "gid %d", f.attr(o).GID)
	}},
	{name: "SetAttr/OwnerClearsSetID", needs: users, run: func(f *fixture) {
		o, d := f.create("f", 0o6755), f.mkdir("d", 0o2755)
		f.chown(o, alice.UID, staff)
		f.check(f.attr(o).Mode == 0o755, "file has mode %o", f.attr(o).Mode)
		f.chown(d, alice.UID, staff)
		f.check(f.attr(d).Mode == 0o2755, "directory has mode %o", f.attr(d).Mode)
	}},
	{name: "SetAttr/SymlinkOwner", needs: symlinks | users, run: func(f *fixture) {
		file := f.create("f", 0o644)
		l := f.symlink("l", "f")
		f.chown(l, bob.UID, bob.GID)
		f.check(f.attr(l).UID == bob.UID, "link belongs to %d", f.attr(l).UID)
		f.check(f.attr(file).UID == 0, "target belongs to %d", f.attr(file).UID)
	}},
	{name: "SetAttr/Times", needs: setTime, run: func(f *fixture) {
		o, d := f.create("f", 0o644), f.mkdir("d", 0o755)
		at, mt := export.Timespec{Sec: 1e9, Nsec: 123456789}, export.Timespec{Sec: 1234567890, Nsec: 987654321}
		for _, o := range []export.Object{o, d} {
			f.set(o, export.SetAttr{Set: export.SetAtime | export.SetMtime, Atime: at, Mtime: mt})
			a := f.attr(o)
			f.check(f.sameTime(a.Atime, at) && f.sameTime(a.Mtime, mt), "times %v %v", a.Atime, a.Mtime)
			f.recent("ctime", a.Ctime)
			f.set(o, export.SetAttr{Set: export.SetMtime, Mtime: at})
			a = f.attr(o)
			f.check(f.sameTime(a.Atime, at) && f.sameTime(a.Mtime, at), "mtime alone: %v %v", a.Atime, a.Mtime)
		}
	}},
	{name: "SetAttr/TimesAfter2038", needs: setTime, run: func(f *fixture) {
		o := f.create("f", 0o644)
		far := export.Timespec{Sec: 1<<32 - 2}
		f.set(o, export.SetAttr{Set: export.SetAtime | export.SetMtime, Atime: far, Mtime: far})
		f.check(f.attr(o).Mtime == far, "mtime %v", f.attr(o).Mtime)
	}},
	{name: "SetAttr/TimesBefore1970", needs: setTime, run: func(f *fixture) {
		o := f.create("f", 0o644)
		old := export.Timespec{Sec: -1, Nsec: 500000000}
		f.set(o, export.SetAttr{Set: export.SetAtime | export.SetMtime, Atime: old, Mtime: old})
		f.check(f.sameTime(f.attr(o).Mtime, old), "mtime %v", f.attr(o).Mtime)
	}},
	{name: "SetAttr/TimesNow", needs: setTime, run: func(f *fixture) {
		o := f.create("f", 0o644)
		old := export.Timespec{Sec: 1e9}
		f.set(o, export.SetAttr{Set: export.SetAtime | export.SetMtime, Atime: old, Mtime: old})
		f.set(o, export.SetAttr{Set: export.SetAtimeNow | export.SetMtimeNow | export.SetAtime | export.SetMtime, Atime: old, Mtime: old})
		f.recent("atime", f.attr(o).Atime)
		f.recent("mtime", f.attr(o).Mtime)
	}},
	{name: "SetAttr/TimesPermission", needs: setTime | users, run: func(f *fixture) {
		o := f.createAs(alice, f.base, "f", 0o644)
		f.chown(o, alice.UID, staff)
		exact := &export.SetAttr{Set: export.SetMtime, Mtime: export.Timespec{Sec: 1e9}}
		now := &export.SetAttr{Set: export.SetAtimeNow | export.SetMtimeNow}
		set := func(c *export.Cred, s *export.SetAttr) error {
			_, err := f.v.SetAttr(ctx, c, o, nil, s)
			return err
		}
		f.want("now by one who cannot write", set(bob, now), export.ErrAccess)
		f.want("exact by one who cannot write", set(bob, exact), export.ErrPerm)
		f.chmod(o, 0o664)
		f.want("now by a writer", set(bob, now), export.OK)
		f.want("exact by a writer", set(bob, exact), export.ErrPerm)
		f.chmod(o, 0o444)
		f.want("exact by the owner of a read-only file", set(alice, exact), export.OK)
	}},
	{name: "SetAttr/Size", run: func(f *fixture) {
		file := f.file("f", []byte("0123456789"))
		o := file.Object()
		f.set(o, export.SetAttr{Set: export.SetSize, Size: 4})
		f.holds(file, []byte("0123"))
		f.set(o, export.SetAttr{Set: export.SetSize, Size: 12})
		f.holds(file, []byte("0123\x00\x00\x00\x00\x00\x00\x00\x00"))
		f.set(o, export.SetAttr{Set: export.SetSize})
		f.holds(file, nil)
	}},
	{name: "SetAttr/SizeOfLargeFile", run: func(f *fixture) {
		data := bytes.Repeat([]byte("capstan."), 40000)
		file := f.file("f", data)
		for _, size := range []int{len(data) - 1, 200001, 131072, 65537, 65536, 65535, 4097, 1} {
			f.set(file.Object(), export.SetAttr{Set: export.SetSize, Size: uint64(size)})
			f.holds(file, data[:size])
			f.set(file.Object(), export.SetAttr{Set: export.SetSize, Size: uint64(size + 70000)})
			f.holds(file, append(bytes.Clone(data[:size]), make([]byte, 70000)...))
			f.set(file.Object(), export.SetAttr{Set: export.SetSize, Size: uint64(size)})
		}
	}},
	{name: "SetAttr/SizeMovesTimes", needs: setTime, run: func(f *fixture) {
		o := f.create("f", 0o644)
		for _, size := range []uint64{10, 10, 0} {
			f.set(o, export.SetAttr{Set: export.SetMtime, Mtime: export.Timespec{Sec: 1e9}})
			f.set(o, export.SetAttr{Set: export.SetSize, Size: size})
			f.recent("mtime", f.attr(o).Mtime)
		}
	}},
	{name: "SetAttr/SizeWithMtime", needs: setTime, run: func(f *fixture) {
		o := f.create("f", 0o644)
		f.set(o, export.SetAttr{Set: export.SetSize | export.SetMtime, Size: 5, Mtime: export.Timespec{Sec: 1e9}})
		a := f.attr(o)
		f.check(a.Size == 5 && a.Mtime == export.Timespec{Sec: 1e9}, "size %d, mtime %v", a.Size, a.Mtime)
	}},
	{name: "SetAttr/SizePermission", needs: users, run: func(f *fixture) {
		o := f.createAs(alice, f.base, "f", 0o444)
		size := func(c *export.Cred, via export.File) error {
			_, err := f.v.SetAttr(ctx, c, o, via, &export.SetAttr{Set: export.SetSize, Size: 3})
			return err
		}
		f.want("owner of a read-only file", size(alice, nil), export.ErrAccess)
		f.want("other", size(carol, nil), export.ErrAccess)
		f.want("through a file open for reading", size(alice, f.open(alice, o, export.OpenRead)), export.ErrAccess)
		f.check(f.attr(o).Size == 0, "size %d", f.attr(o).Size)
		writer := f.open(alice, o, export.OpenWrite|export.OpenOwner)
		f.want("through a file open for writing", size(alice, writer), export.OK)
		f.check(f.attr(o).Size == 3, "size %d", f.attr(o).Size)
		other := f.open(alice, f.createAs(alice, f.base, "g", 0o644), export.OpenWrite)
		f.want("through another file", size(alice, other), export.ErrAccess)
	}},
	{name: "SetAttr/SizeOfOthers", run: func(f *fixture) {
		size := &export.SetAttr{Set: export.SetSize}
		_, err := f.v.SetAttr(ctx, root, f.mkdir("d", 0o755), nil, size)
		f.want("directory", err, export.ErrIsDir)
		if f.feat.Symlinks {
			_, err = f.v.SetAttr(ctx, root, f.symlink("l", "f"), nil, size)
			f.want("symlink", err, export.ErrInval)
		}
		if f.feat.Special {
			_, err = f.v.SetAttr(ctx, root, f.mknod("p", export.TypeFIFO), nil, size)
			f.want("FIFO", err, export.ErrInval)
		}
	}},
	{name: "SetAttr/SizeTooBig", run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		before := f.attr(file.Object())
		_, err := f.v.SetAttr(ctx, root, file.Object(), nil, &export.SetAttr{Set: export.SetSize, Size: f.feat.MaxFileSize + 1})
		f.want("one above the limit", err, export.ErrFBig)
		_, err = f.v.SetAttr(ctx, root, file.Object(), nil, &export.SetAttr{Set: export.SetSize, Size: 1<<64 - 1})
		f.want("2^64-1", err, export.ErrFBig)
		f.unchanged("refused size", file.Object(), before)
	}},
	{name: "SetAttr/SizeClearsSetID", needs: users, run: func(f *fixture) {
		o := f.create("f", 0o6775)
		f.set(o, export.SetAttr{Set: export.SetGID, GID: staff})
		f.chmod(o, 0o6775)
		f.set(o, export.SetAttr{Set: export.SetSize, Size: 2})
		f.check(f.attr(o).Mode == 0o6775, "by root: mode %o", f.attr(o).Mode)
		_, err := f.v.SetAttr(ctx, bob, o, nil, &export.SetAttr{Set: export.SetSize, Size: 1})
		f.ok(err)
		f.check(f.attr(o).Mode == 0o775, "by a member: mode %o", f.attr(o).Mode)
	}},
	{name: "SetAttr/Guard", run: func(f *fixture) {
		o := f.create("f", 0o644)
		before := f.attr(o)
		bad := before.Ctime
		bad.Sec--
		_, err := f.v.SetAttr(ctx, root, o, nil, &export.SetAttr{Set: export.SetMode | export.SetGuard, Mode: 0o600, Guard: bad})
		f.want("old ctime", err, export.ErrNotSync)
		f.unchanged("refused by the guard", o, before)
		_, err = f.v.SetAttr(ctx, root, o, nil, &export.SetAttr{Set: export.SetMode | export.SetGuard, Mode: 0o600, Guard: before.Ctime})
		f.want("present ctime", err, export.OK)
		f.check(f.attr(o).Mode == 0o600, "mode %o", f.attr(o).Mode)
	}},
	{name: "SetAttr/AllOrNothing", needs: users, run: func(f *fixture) {
		file := f.open(alice, f.createAs(alice, f.base, "f", 0o644), readWrite)
		f.writeAs(alice, file, 0, []byte("data"))
		before := f.attr(file.Object())
		_, err := f.v.SetAttr(ctx, alice, file.Object(), nil, &export.SetAttr{
			Set: export.SetMode | export.SetSize | export.SetUID, Mode: 0o600, UID: bob.UID,
		})
		f.want("size, mode and a forbidden owner", err, export.ErrPerm)
		f.unchanged("refused", file.Object(), before)
		f.holds(file, []byte("data"))
	}},
	{name: "SetAttr/ModeKeepsMtime", needs: setTime, run: func(f *fixture) {
		o := f.create("f", 0o644)
		f.set(o, export.SetAttr{Set: export.SetMtime, Mtime: export.Timespec{Sec: 1e9}})
		f.chmod(o, 0o600)
		f.check(f.attr(o).Mtime.Sec == 1e9, "mtime %v", f.attr(o).Mtime)
	}},
	{name: "SetAttr/Change", run: func(f *fixture) {
		for _, o := range []export.Object{f.create("f", 0o644), f.mkdir("d", 0o755)} {
			before := f.attr(o)
			f.changed("chmod", o, before, f.set(o, *mode(0o700)))
		}
		o := f.create("g", 0o644)
		before := f.attr(o)
		f.changed("truncate", o, before, f.set(o, export.SetAttr{Set: export.SetSize, Size: 100000}))
	}},
	{name: "StatFS/Sane", run: func(f *fixture) {
		for _, o := range []export.Object{f.base, f.create("f", 0o644)} {
			s, err := f.v.StatFS(ctx, o)
			f.ok(err)
			f.check(s.TotalBytes > 0 && s.AvailBytes <= s.FreeBytes && s.FreeBytes <= s.TotalBytes, "bytes: %+v", s)
			f.check(s.AvailFiles <= s.FreeFiles && s.FreeFiles <= s.TotalFiles, "files: %+v", s)
		}
	}},
	{name: "StatFS/WritingTakesSpace", run: func(f *fixture) {
		file := f.file("f", nil)
		var before, after export.StatFS
		for i := range uint64(5) { // others may free some meanwhile
			var err error
			before, err = f.v.StatFS(ctx, f.base)
			f.ok(err)
			f.writeFile(file, i<<22, bytes.Repeat([]byte("x"), 4<<20))
			f.ok(file.Commit(ctx, 0, 0))
			after, err = f.v.StatFS(ctx, f.base)
			f.ok(err)
			if after.FreeBytes+3<<20 < before.FreeBytes {
				return
			}
		}
		f.Errorf("free %d before 4 MiB, %d after", before.FreeBytes, after.FreeBytes)
	}},
	{name: "Features/Sane", run: func(f *fixture) {
		f.check(f.feat.MaxName >= 255, "MaxName %d", f.feat.MaxName)
		f.check(f.feat.MaxLink >= 1, "MaxLink %d", f.feat.MaxLink)
		f.check(f.feat.MaxFileSize >= 1<<40 && f.feat.MaxFileSize <= 1<<63-1, "MaxFileSize %d", f.feat.MaxFileSize)
		f.check(f.feat.TimeDelta.Sec > 0 || f.feat.TimeDelta.Nsec > 0, "TimeDelta is 0")
		f.check(!f.feat.ReadOnly, "the suite needs a writable Volume")
	}},
}

// sameTime reports whether got is want, to the granularity of the Volume.
func (f *fixture) sameTime(got, want export.Timespec) bool {
	d := want.Time().Sub(got.Time())
	return d >= 0 && d <= f.feat.TimeDelta.Time().Sub(export.Timespec{}.Time()) || d == 0
}

// change rows: the change attribute differs after every change (trial 3).
var changeRows = []row{
	{name: "Change/EveryWrite", run: func(f *fixture) {
		file := f.file("f", nil)
		seen := map[uint64]bool{f.attr(file.Object()).Change: true}
		for i := range 200 {
			f.writeFile(file, 0, []byte{byte(i)})
			c := f.attr(file.Object()).Change
			if seen[c] {
				f.Fatalf("write %d: change attribute %d again", i, c)
			}
			seen[c] = true
		}
	}},
	{name: "Change/EmptyWriteChangesNothing", run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		before := f.attr(file.Object())
		n, _, err := file.WriteAt(ctx, root, nil, 100, export.FileSync)
		f.ok(err)
		f.check(n == 0, "wrote %d", n)
		f.unchanged("empty write", file.Object(), before)
	}},
	{name: "Change/EveryEntry", run: func(f *fixture) {
		d := f.mkdir("d", 0o755)
		seen := map[uint64]bool{f.attr(d).Change: true}
		step := func(what string) {
			f.Helper()
			c := f.attr(d).Change
			f.check(!seen[c], "%s: change attribute %d again", what, c)
			seen[c] = true
		}
		for range 20 {
			f.createAs(root, d, "f", 0o644)
			step("create")
			f.rename(d, "f", d, "g")
			step("rename")
			f.mkdirIn(d, "s", 0o755)
			step("mkdir")
			f.remove(d, "s")
			step("rmdir")
			f.rename(d, "g", f.base, "g")
			step("rename away")
			f.rename(f.base, "g", d, "g")
			step("rename here")
			f.remove(d, "g")
			step("remove")
		}
	}},
	{name: "Change/EverySetAttr", run: func(f *fixture) {
		o := f.create("f", 0o644)
		seen := map[uint64]bool{f.attr(o).Change: true}
		for i := range 50 {
			f.chmod(o, 0o600+uint32(i%2))
			c := f.attr(o).Change
			f.check(!seen[c], "chmod %d: change attribute %d again", i, c)
			seen[c] = true
		}
	}},
	{name: "Change/LinkAndUnlink", needs: hardLinks, run: func(f *fixture) {
		o := f.create("f", 0o644)
		a := f.attr(o)
		f.link(o, f.base, "g")
		b := f.attr(o)
		f.remove(f.base, "g")
		c := f.attr(o)
		f.check(a.Change != b.Change && b.Change != c.Change && a.Change != c.Change, "change %d, %d, %d", a.Change, b.Change, c.Change)
	}},
	{name: "Change/ReadingChangesNothing", run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		f.ok(file.Commit(ctx, 0, 0))
		before, dir := f.attr(file.Object()), f.attr(f.base)
		f.holds(file, []byte("data"))
		f.lookup(f.base, "f")
		f.names(f.base)
		f.unchanged("read", file.Object(), before)
		f.unchanged("listed", f.base, dir)
	}},
	{name: "Change/FailedCallChangesNothing", run: func(f *fixture) {
		f.create("f", 0o644)
		d := f.mkdir("d", 0o755)
		f.createAs(root, d, "inside", 0o644)
		before := f.attr(f.base)
		_, err := f.v.Mkdir(ctx, root, f.base, "f", mode(0o755))
		f.want("mkdir", err, export.ErrExist)
		_, _, err = f.v.Remove(ctx, root, f.base, "d", export.RemoveDir)
		f.want("rmdir", err, export.ErrNotEmpty)
		_, err = f.v.Rename(ctx, root, f.base, "f", f.base, "d")
		f.want("rename", err, export.ErrIsDir)
		f.unchanged("failed calls", f.base, before)
	}},
}
