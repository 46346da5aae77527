package exporttest

import "capstan/export"

// renames makes a call that is expected to fail with want.
func (f *fixture) renames(what string, from export.Object, oldName string, to export.Object, newName string, want export.Status) {
	f.Helper()
	_, err := f.v.Rename(ctx, root, from, oldName, to, newName)
	f.want(what, err, want)
}

var renameRows = []row{
	{name: "Rename/InPlace", run: func(f *fixture) {
		o := f.create("a", 0o644)
		before := f.attr(f.base)
		res := f.rename(f.base, "a", f.base, "b")
		f.check(f.lookup(f.base, "b") == o, "another object")
		f.absent(f.base, "a")
		f.changed("directory", f.base, before, res.From)
		f.check(res.From == res.To, "From %+v, To %+v", res.From, res.To)
		f.check(res.Replaced == nil, "replaced %v", res.Replaced)
	}},
	{name: "Rename/Across", run: func(f *fixture) {
		a, b := f.mkdir("a", 0o755), f.mkdir("b", 0o755)
		o := f.createAs(root, a, "f", 0o644)
		before := [2]export.Attr{f.attr(a), f.attr(b)}
		res := f.rename(a, "f", b, "g")
		f.check(f.lookup(b, "g") == o, "another object")
		f.absent(a, "f")
		f.changed("from", a, before[0], res.From)
		f.changed("to", b, before[1], res.To)
	}},
	{name: "Rename/ReplacesFile", run: func(f *fixture) {
		o, old := f.create("a", 0o644), f.create("b", 0o644)
		res := f.rename(f.base, "a", f.base, "b")
		f.check(f.lookup(f.base, "b") == o, "another object")
		f.check(res.Replaced != nil && *res.Replaced == old, "replaced %v, want %v", res.Replaced, old)
		_, err := f.v.GetAttr(ctx, root, old, export.MaskAll)
		f.want("what was replaced", err, export.ErrStale)
		f.check(len(f.names(f.base)) == 1, "left: %q", f.names(f.base))
	}},
	{name: "Rename/ReplacesEmptyDirectory", run: func(f *fixture) {
		a, b := f.mkdir("a", 0o755), f.mkdir("b", 0o755)
		f.createAs(root, a, "inside", 0o644)
		res := f.rename(f.base, "a", f.base, "b")
		f.check(f.lookup(f.base, "b") == a, "another object")
		f.check(res.Replaced != nil && *res.Replaced == b, "replaced %v, want %v", res.Replaced, b)
		_, err := f.v.Create(ctx, root, b, "f", &export.Create{})
		f.want("create in what was replaced", err, export.ErrStale)
	}},
	{name: "Rename/ReplacesOneOfSeveralNames", needs: hardLinks, run: func(f *fixture) {
		old := f.create("b", 0o644)
		f.link(old, f.base, "c")
		f.create("a", 0o644)
		f.rename(f.base, "a", f.base, "b")
		f.check(f.attr(old).Nlink == 1, "nlink %d", f.attr(old).Nlink)
	}},
	{name: "Rename/ReplacesOpenFile", run: func(f *fixture) {
		old := f.file("b", []byte("old"))
		f.file("a", []byte("new"))
		f.rename(f.base, "a", f.base, "b")
		f.holds(old, []byte("old"))
		f.writeFile(old, 3, []byte("er"))
		f.holds(old, []byte("older"))
		f.check(f.attr(old.Object()).Nlink == 0, "nlink %d", f.attr(old.Object()).Nlink)
		f.holds(f.open(root, f.lookup(f.base, "b"), export.OpenRead), []byte("new"))
	}},
	{name: "Rename/OpenFileMoves", run: func(f *fixture) {
		d := f.mkdir("d", 0o755)
		file := f.file("a", []byte("data"))
		f.rename(f.base, "a", d, "b")
		f.writeFile(file, 4, []byte("!"))
		f.holds(file, []byte("data!"))
		f.check(f.lookup(d, "b") == file.Object(), "another object")
	}},
	// Trial 11: what is below a moved directory stays reachable by Object.
	{name: "Rename/TreeMoves", run: func(f *fixture) {
		a, b := f.mkdir("a", 0o755), f.mkdir("b", 0o755)
		top := f.mkdirIn(a, "top", 0o755)
		sub := f.mkdirIn(top, "sub", 0o755)
		file := f.open(root, f.createAs(root, sub, "f", 0o644), readWrite)
		f.rename(a, "top", b, "moved")
		f.writeFile(file, 0, []byte("data"))
		f.holds(file, []byte("data"))
		f.createAs(root, sub, "g", 0o644)
		f.check(len(f.names(sub)) == 2, "listed %q", f.names(sub))
		p, _, err := f.v.Parent(ctx, root, sub, 0)
		f.ok(err)
		f.check(p == top, "parent %v", p)
		f.check(f.lookup(f.lookup(b, "moved"), "sub") == sub, "another object")
	}},
	{name: "Rename/SameInodeDoesNothing", needs: hardLinks, run: func(f *fixture) {
		o := f.create("a", 0o644)
		f.link(o, f.base, "b")
		d := f.mkdir("d", 0o755)
		f.link(o, d, "c")
		before, dir := f.attr(o), f.attr(f.base)
		for _, to := range []struct {
			dir  export.Object
			name string
		}{{f.base, "b"}, {f.base, "a"}, {d, "c"}} {
			res := f.rename(f.base, "a", to.dir, to.name)
			f.check(res.Replaced == nil, "replaced %v", res.Replaced)
			f.check(res.From.Pre.Change == res.From.Post.Change, "the directory changed")
		}
		f.unchanged("file", o, before)
		f.unchanged("directory", f.base, dir)
		f.check(f.lookup(f.base, "a") == o && f.lookup(f.base, "b") == o, "a name is gone")
	}},
	{name: "Rename/OntoItself", run: func(f *fixture) {
		o, d := f.create("a", 0o644), f.mkdir("d", 0o755)
		f.rename(f.base, "a", f.base, "a")
		f.rename(f.base, "d", f.base, "d")
		f.check(f.lookup(f.base, "a") == o && f.lookup(f.base, "d") == d, "a name is gone")
	}},
	{name: "Rename/NoEnt", run: func(f *fixture) {
		f.create("b", 0o644)
		f.renames("nothing", f.base, "a", f.base, "c", export.ErrNoEnt)
		f.renames("nothing onto something", f.base, "a", f.base, "b", export.ErrNoEnt)
	}},
	{name: "Rename/WrongTypes", run: func(f *fixture) {
		f.create("f", 0o644)
		f.mkdir("d", 0o755)
		f.renames("file onto directory", f.base, "f", f.base, "d", export.ErrIsDir)
		f.renames("directory onto file", f.base, "d", f.base, "f", export.ErrNotDir)
		f.lookup(f.base, "f")
		f.lookup(f.base, "d")
	}},
	{name: "Rename/OntoDirectoryNotEmpty", run: func(f *fixture) {
		f.mkdir("a", 0o755)
		b := f.mkdir("b", 0o755)
		f.createAs(root, b, "f", 0o644)
		f.renames("directory onto one not empty", f.base, "a", f.base, "b", export.ErrNotEmpty)
		f.lookup(f.base, "a")
		f.lookup(b, "f")
	}},
	{name: "Rename/IntoItself", run: func(f *fixture) {
		a := f.mkdir("a", 0o755)
		b := f.mkdirIn(a, "b", 0o755)
		c := f.mkdirIn(b, "c", 0o755)
		f.renames("into itself", f.base, "a", a, "x", export.ErrInval)
		f.renames("into its child", f.base, "a", b, "x", export.ErrInval)
		f.renames("into its grandchild", f.base, "a", c, "x", export.ErrInval)
		f.renames("onto its child", f.base, "a", a, "b", export.ErrInval)
	}},
	{name: "Rename/OntoAncestor", run: func(f *fixture) {
		a := f.mkdir("a", 0o755)
		b := f.mkdirIn(a, "b", 0o755)
		c := f.mkdirIn(b, "c", 0o755)
		f.renames("onto its parent", a, "b", f.base, "a", export.ErrNotEmpty)
		f.renames("onto its grandparent", b, "c", f.base, "a", export.ErrNotEmpty)
		f.createAs(root, c, "f", 0o644)
		f.renames("file onto an ancestor", c, "f", f.base, "a", export.ErrNotEmpty)
	}},
	{name: "Rename/Permission", needs: users, run: func(f *fixture) {
		mine, theirs := f.mkdir("mine", 0o777), f.mkdir("theirs", 0o755)
		f.createAs(root, theirs, "f", 0o666)
		f.createAs(alice, mine, "g", 0o666)
		_, err := f.v.Rename(ctx, alice, theirs, "f", mine, "f")
		f.want("out of a directory of another", err, export.ErrAccess)
		_, err = f.v.Rename(ctx, alice, mine, "g", theirs, "g")
		f.want("into a directory of another", err, export.ErrAccess)
		_, err = f.v.Rename(ctx, alice, mine, "g", theirs, "f")
		f.want("onto a file of another's directory", err, export.ErrAccess)
	}},
	{name: "Rename/Symlink", needs: symlinks, run: func(f *fixture) {
		d := f.mkdir("d", 0o755)
		l := f.symlink("l", "d")
		f.rename(f.base, "l", f.base, "m")
		f.check(f.lookup(f.base, "m") == l && f.lookup(f.base, "d") == d, "the link was followed")
		f.create("f", 0o644)
		f.rename(f.base, "f", f.base, "m")
		f.lookup(f.base, "d")
	}},
	// A vim-like save, 100 times: write aside, rename over, set times.
	{name: "Rename/SaveOver", run: func(f *fixture) {
		f.file("doc", []byte("0"))
		for i := range 100 {
			data := []byte{byte(i)}
			file := f.file("doc.tmp", data)
			f.ok(file.Commit(ctx, 0, 0))
			f.rename(f.base, "doc.tmp", f.base, "doc")
			if f.feat.SetTime {
				f.set(file.Object(), export.SetAttr{Set: export.SetMtime, Mtime: export.Timespec{Sec: int64(i)}})
			}
			f.holds(f.open(root, f.lookup(f.base, "doc"), export.OpenRead), data)
		}
		f.check(len(f.names(f.base)) == 1, "left: %q", f.names(f.base))
	}},
}
