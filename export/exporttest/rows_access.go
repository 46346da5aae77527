package exporttest

import (
	"fmt"

	"capstan/export"
)

// class is one who asks, and where in the mode of an object of alice's and the
// group staff's the answer stands.
type class struct {
	name  string
	cred  *export.Cred
	shift uint // of the digit of the mode
}

var classes = []class{
	{"owner", alice, 6},
	{"other group", bob, 3}, // by a supplementary group
	{"main group", &export.Cred{UID: 1004, GID: staff}, 3},
	{"last of 40 groups", &export.Cred{UID: 1005, GID: 1005, Groups: manyGroups()}, 3},
	{"other", carol, 0},
}

func manyGroups() []uint32 {
	var g []uint32
	for i := range uint32(39) {
		g = append(g, 3000+i)
	}
	return append(g, staff)
}

// eachMode calls do with every class and every digit, in modes where the two
// other digits are all 0 and all 7: only the own class counts.
func eachMode(do func(cl class, mode, digit uint32)) {
	for _, cl := range classes {
		for digit := range uint32(8) {
			others := ^(uint32(7) << cl.shift) & 0o777
			do(cl, digit<<cl.shift, digit)
			do(cl, digit<<cl.shift|others, digit)
		}
	}
}

func (f *fixture) wantIf(what string, err error, allowed bool, refused export.Status) {
	f.Helper()
	if allowed {
		refused = export.OK
	}
	f.want(what, err, refused)
}

var accessRows = []row{
	{name: "Access/OpenByModeBits", needs: users, run: func(f *fixture) {
		o := f.create("f", 0)
		f.chown(o, alice.UID, staff)
		eachMode(func(cl class, m, digit uint32) {
			f.chmod(o, m)
			for _, how := range []struct {
				mode  export.OpenMode
				needs uint32
			}{
				{export.OpenRead, 4}, {export.OpenWrite, 2}, {readWrite, 6},
			} {
				file, err := f.v.Open(ctx, cl.cred, o, how.mode)
				f.wantIf(fmt.Sprintf("%s opens %03o for %o", cl.name, m, how.needs), err, digit&how.needs == how.needs, export.ErrAccess)
				if err == nil {
					file.Close()
				}
			}
			file, err := f.v.Open(ctx, cl.cred, o, export.OpenRead|export.OpenExec)
			f.wantIf(fmt.Sprintf("%s opens %03o to read or execute", cl.name, m), err, digit&5 != 0, export.ErrAccess)
			if err == nil {
				file.Close()
			}
		})
	}},
	{name: "Access/OpenByOwnerOverride", needs: users, run: func(f *fixture) {
		o := f.create("f", 0)
		f.chown(o, alice.UID, staff)
		for _, cl := range classes {
			file, err := f.v.Open(ctx, cl.cred, o, readWrite|export.OpenOwner)
			f.wantIf(cl.name, err, cl.cred == alice, export.ErrAccess)
			if err == nil {
				file.Close()
			}
		}
	}},
	{name: "Access/DirectoryByModeBits", needs: users, run: func(f *fixture) {
		d := f.mkdir("d", 0o777)
		f.createAs(root, d, "there", 0o644)
		f.chown(d, alice.UID, staff)
		eachMode(func(cl class, m, digit uint32) {
			f.chmod(d, m)
			what := func(verb string) string { return fmt.Sprintf("%s %s in %03o", cl.name, verb, m) }
			read, write, search := digit&4 != 0, digit&3 == 3, digit&1 != 0
			_, _, err := f.v.Lookup(ctx, cl.cred, d, "there", 0)
			f.wantIf(what("looks up"), err, search, export.ErrAccess)
			_, _, err = f.v.Parent(ctx, cl.cred, d, 0)
			f.wantIf(what("goes up"), err, search, export.ErrAccess)
			_, err = f.v.ReadDir(ctx, cl.cred, d, 0, 0, func(*export.Dirent) bool { return true })
			f.wantIf(what("lists"), err, read, export.ErrAccess)
			res, err := f.v.Create(ctx, cl.cred, d, "new", &export.Create{Mode: export.CreateGuarded, Attr: *mode(0o644)})
			f.wantIf(what("creates"), err, write, export.ErrAccess)
			if err != nil {
				_, _, err = f.v.Remove(ctx, cl.cred, d, "there", export.RemoveFile)
				f.want(what("removes"), err, export.ErrAccess)
				return
			}
			f.check(res.Attr.UID == cl.cred.UID, "%s: made for %d", cl.name, res.Attr.UID)
			_, err = f.v.Rename(ctx, cl.cred, d, "new", d, "renamed")
			f.want(what("renames"), err, export.OK)
			_, _, err = f.v.Remove(ctx, cl.cred, d, "renamed", export.RemoveFile)
			f.want(what("removes"), err, export.OK)
		})
	}},
	{name: "Access/AccessByModeBits", needs: users, run: func(f *fixture) {
		const all = export.AccessRead | export.AccessLookup | export.AccessModify | export.AccessExtend | export.AccessDelete | export.AccessExecute
		o, d := f.create("f", 0), f.mkdir("d", 0)
		f.chown(o, alice.UID, staff)
		f.chown(d, alice.UID, staff)
		eachMode(func(cl class, m, digit uint32) {
			f.chmod(o, m)
			f.chmod(d, m)
			var ofFile, ofDir export.Access
			if digit&4 != 0 {
				ofFile |= export.AccessRead
				ofDir |= export.AccessRead
			}
			if digit&2 != 0 {
				ofFile |= export.AccessModify | export.AccessExtend
			}
			if digit&3 == 3 { // entries change only with search permission too
				ofDir |= export.AccessModify | export.AccessExtend | export.AccessDelete
			}
			if digit&1 != 0 {
				ofFile |= export.AccessExecute
				ofDir |= export.AccessLookup
			}
			got, a, err := f.v.Access(ctx, cl.cred, o, all)
			f.ok(err)
			f.check(got == ofFile, "%s on file %03o: %#x, want %#x", cl.name, m, got, ofFile)
			f.check(a.Mode == m, "attributes have mode %o", a.Mode)
			got, _, err = f.v.Access(ctx, cl.cred, d, all)
			f.ok(err)
			f.check(got == ofDir, "%s on directory %03o: %#x, want %#x", cl.name, m, got, ofDir)
			got, _, err = f.v.Access(ctx, cl.cred, d, export.AccessLookup)
			f.ok(err)
			f.check(got == ofDir&export.AccessLookup, "%s asked for lookup alone: %#x", cl.name, got)
		})
	}},
	{name: "Access/RootOverrides", run: func(f *fixture) {
		o, d := f.create("f", 0), f.mkdir("d", 0)
		f.createAs(root, d, "inside", 0o644)
		f.lookup(d, "inside")
		f.open(root, o, readWrite)
		got, _, err := f.v.Access(ctx, root, o, export.AccessExecute|export.AccessRead)
		f.ok(err)
		f.check(got == export.AccessRead, "root on a file of mode 0: %#x", got)
		f.chmod(o, 0o001)
		got, _, err = f.v.Access(ctx, root, o, export.AccessExecute)
		f.ok(err)
		f.check(got == export.AccessExecute, "root on a file of mode 1: %#x", got)
	}},
	{name: "Access/SystemOverrides", run: func(f *fixture) {
		f.open(export.System(), f.create("f", 0), readWrite)
		got, _, err := f.v.Access(ctx, export.System(), f.mkdir("d", 0), export.AccessLookup|export.AccessDelete)
		f.ok(err)
		f.check(got == export.AccessLookup|export.AccessDelete, "system on a directory of mode 0: %#x", got)
	}},
	{name: "Access/StickyDirectory", needs: users, run: func(f *fixture) {
		d := f.mkdir("d", 0o1777)
		f.createAs(alice, d, "f", 0o666)
		f.createAs(bob, d, "b", 0o666)
		_, _, err := f.v.Remove(ctx, bob, d, "f", export.RemoveFile)
		f.want("remove another's", err, export.ErrPerm)
		_, err = f.v.Rename(ctx, bob, d, "f", f.base, "f")
		f.want("rename another's away", err, export.ErrPerm)
		_, err = f.v.Rename(ctx, bob, d, "b", d, "f")
		f.want("rename over another's", err, export.ErrPerm)
		_, err = f.v.Rename(ctx, alice, d, "f", d, "g")
		f.want("rename one's own", err, export.OK)
		_, _, err = f.v.Remove(ctx, alice, d, "g", export.RemoveFile)
		f.want("remove one's own", err, export.OK)
		f.chown(d, carol.UID, carol.GID)
		f.chmod(d, 0o1777)
		_, _, err = f.v.Remove(ctx, carol, d, "b", export.RemoveFile)
		f.want("remove in one's own directory", err, export.OK)
	}},
	{name: "Access/MoveDirectoryNeedsItsWrite", needs: users, run: func(f *fixture) {
		a, b := f.mkdir("a", 0o777), f.mkdir("b", 0o777)
		d := f.mkdirIn(a, "d", 0o555)
		f.chown(d, alice.UID, alice.GID)
		_, err := f.v.Rename(ctx, alice, a, "d", b, "d")
		f.want("move a read-only directory", err, export.ErrAccess)
		_, err = f.v.Rename(ctx, alice, a, "d", a, "e")
		f.want("rename it in place", err, export.OK)
	}},
}
