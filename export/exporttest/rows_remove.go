package exporttest

import "capstan/export"

var removeRows = []row{
	{name: "Remove/File", run: func(f *fixture) {
		o := f.create("f", 0o644)
		before := f.attr(f.base)
		gone, ch, err := f.v.Remove(ctx, root, f.base, "f", export.RemoveFile)
		f.ok(err)
		f.check(gone == o, "gone is %v, want %v", gone, o)
		f.changed("directory", f.base, before, ch)
		f.absent(f.base, "f")
		_, err = f.v.GetAttr(ctx, root, o, export.MaskAll)
		f.want("getattr of what is gone", err, export.ErrStale)
	}},
	{name: "Remove/Directory", run: func(f *fixture) {
		o := f.mkdir("d", 0o755)
		before := f.attr(f.base)
		gone, ch, err := f.v.Remove(ctx, root, f.base, "d", export.RemoveDir)
		f.ok(err)
		f.check(gone == o, "gone is %v, want %v", gone, o)
		f.changed("directory", f.base, before, ch)
		_, err = f.v.Create(ctx, root, o, "f", &export.Create{})
		f.want("create in what is gone", err, export.ErrStale)
	}},
	{name: "Remove/AnyKind", run: func(f *fixture) {
		f.create("f", 0o644)
		f.mkdir("d", 0o755)
		for _, name := range []string{"f", "d"} {
			_, _, err := f.v.Remove(ctx, root, f.base, name, export.RemoveAny)
			f.want(name, err, export.OK)
		}
	}},
	{name: "Remove/WrongKind", run: func(f *fixture) {
		f.create("f", 0o644)
		f.mkdir("d", 0o755)
		_, _, err := f.v.Remove(ctx, root, f.base, "d", export.RemoveFile)
		f.want("directory as a file", err, export.ErrIsDir)
		_, _, err = f.v.Remove(ctx, root, f.base, "f", export.RemoveDir)
		f.want("file as a directory", err, export.ErrNotDir)
		if f.feat.Symlinks {
			f.symlink("l", "d")
			_, _, err = f.v.Remove(ctx, root, f.base, "l", export.RemoveDir)
			f.want("symlink to a directory as a directory", err, export.ErrNotDir)
			_, _, err = f.v.Remove(ctx, root, f.base, "l", export.RemoveFile)
			f.want("symlink as a file", err, export.OK)
			f.lookup(f.base, "d")
		}
	}},
	{name: "Remove/NoEnt", run: func(f *fixture) {
		for _, kind := range []export.RemoveKind{export.RemoveAny, export.RemoveFile, export.RemoveDir} {
			_, _, err := f.v.Remove(ctx, root, f.base, "f", kind)
			f.want("nothing there", err, export.ErrNoEnt)
		}
	}},
	{name: "Remove/NotEmpty", run: func(f *fixture) {
		d := f.mkdir("d", 0o755)
		f.createAs(root, d, "f", 0o644)
		for _, kind := range []export.RemoveKind{export.RemoveAny, export.RemoveDir} {
			_, _, err := f.v.Remove(ctx, root, f.base, "d", kind)
			f.want("not empty", err, export.ErrNotEmpty)
		}
		f.lookup(d, "f")
	}},
	{name: "Remove/NamesOneOfSeveral", needs: hardLinks, run: func(f *fixture) {
		o := f.create("f", 0o644)
		f.link(o, f.base, "g")
		f.remove(f.base, "f")
		f.check(f.attr(o).Nlink == 1 && f.lookup(f.base, "g") == o, "nlink %d", f.attr(o).Nlink)
	}},
	{name: "Remove/NameIsFreeAgain", run: func(f *fixture) {
		a := f.create("f", 0o644)
		f.remove(f.base, "f")
		b := f.create("f", 0o644)
		f.check(a != b, "the old object came back")
		_, err := f.v.GetAttr(ctx, root, a, export.MaskAll)
		f.want("the old object", err, export.ErrStale)
	}},
	{name: "Remove/OpenFileStaysUsable", run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		o := file.Object()
		f.remove(f.base, "f")
		f.holds(file, []byte("data"))
		f.writeFile(file, 4, []byte(" and more"))
		f.ok(file.Commit(ctx, 0, 0))
		f.holds(file, []byte("data and more"))
		f.check(f.attr(o).Nlink == 0 && f.attr(o).Size == 13, "by object: %+v", f.attr(o))
		f.set(o, export.SetAttr{Set: export.SetSize, Size: 4})
		second := f.open(root, o, export.OpenRead)
		f.ok(file.Close())
		f.holds(second, []byte("data"))
		f.ok(second.Close())
		_, err := f.v.GetAttr(ctx, root, o, export.MaskAll)
		f.want("after the last close", err, export.ErrStale)
	}},
	{name: "Remove/OpenFileThenNewOfThatName", run: func(f *fixture) {
		old := f.file("f", []byte("old"))
		f.remove(f.base, "f")
		young := f.file("f", []byte("young"))
		f.holds(old, []byte("old"))
		f.holds(young, []byte("young"))
	}},
}
