package exporttest

import (
	"strings"

	"capstan/export"
)

// nodeRows are about Mkdir, Symlink, Readlink and Mknod.
var nodeRows = []row{
	{name: "Mkdir/New", run: func(f *fixture) {
		before := f.attr(f.base)
		res, err := f.v.Mkdir(ctx, root, f.base, "d", mode(0o1751))
		f.ok(err)
		f.check(res.New && res.Attr.Mode == 0o1751 && res.Attr.Type == export.TypeDirectory, "New %v, %+v", res.New, res.Attr)
		f.changed("directory", f.base, before, res.Dir)
		f.check(len(f.names(res.Object)) == 0, "not empty")
		p, _, err := f.v.Parent(ctx, root, res.Object, 0)
		f.ok(err)
		f.check(p == f.base, "parent %v", p)
	}},
	{name: "Mkdir/Exists", run: func(f *fixture) {
		f.create("f", 0o644)
		f.mkdir("d", 0o755)
		for _, name := range []string{"f", "d"} {
			_, err := f.v.Mkdir(ctx, root, f.base, name, mode(0o755))
			f.want(name, err, export.ErrExist)
		}
	}},
	{name: "Mkdir/SizeIsInvalid", run: func(f *fixture) {
		_, err := f.v.Mkdir(ctx, root, f.base, "d", &export.SetAttr{Set: export.SetSize})
		f.want("size", err, export.ErrInval)
		f.absent(f.base, "d")
	}},
	{name: "Symlink/New", needs: symlinks, run: func(f *fixture) {
		for i, target := range []string{"f", "/etc/passwd", "../../up", "\xff/\xfe", strings.Repeat("0123456789", 100)} {
			name := string(rune('a' + i))
			before := f.attr(f.base)
			res, err := f.v.Symlink(ctx, root, f.base, name, target, &export.SetAttr{})
			f.ok(err)
			f.changed("directory", f.base, before, res.Dir)
			f.check(res.Attr.Type == export.TypeSymlink && res.Attr.Size == uint64(len(target)), "attributes %+v", res.Attr)
			got, err := f.v.Readlink(ctx, root, res.Object)
			f.ok(err)
			f.check(got == target, "target %q, want %q", got, target)
		}
	}},
	{name: "Symlink/Exists", needs: symlinks, run: func(f *fixture) {
		f.create("f", 0o644)
		_, err := f.v.Symlink(ctx, root, f.base, "f", "x", &export.SetAttr{})
		f.want("over a file", err, export.ErrExist)
	}},
	{name: "Symlink/AnybodyReads", needs: symlinks | users, run: func(f *fixture) {
		got, err := f.v.Readlink(ctx, carol, f.symlink("l", "x"))
		f.want("readlink", err, export.OK)
		f.check(got == "x", "target %q", got)
	}},
	{name: "Symlink/NotSupported", without: symlinks, run: func(f *fixture) {
		_, err := f.v.Symlink(ctx, root, f.base, "l", "x", &export.SetAttr{})
		f.want("symlink", err, export.ErrNotSupp)
		f.absent(f.base, "l")
	}},
	{name: "Readlink/OtherTypes", run: func(f *fixture) {
		for _, o := range []export.Object{f.create("f", 0o644), f.mkdir("d", 0o755)} {
			_, err := f.v.Readlink(ctx, root, o)
			f.want("not a symlink", err, export.ErrInval)
		}
	}},
	{name: "Mknod/All", needs: special, run: func(f *fixture) {
		for _, tc := range []struct {
			name string
			typ  export.FileType
			rdev export.Device
		}{
			{"block", export.TypeBlock, export.Device{Major: 7, Minor: 300}},
			{"char", export.TypeChar, export.Device{Major: 1, Minor: 3}},
			{"socket", export.TypeSocket, export.Device{}},
			{"fifo", export.TypeFIFO, export.Device{}},
		} {
			before := f.attr(f.base)
			res, err := f.v.Mknod(ctx, root, f.base, tc.name, &export.NewNode{Type: tc.typ, Rdev: tc.rdev, Attr: *mode(0o621)})
			f.ok(err)
			f.changed(tc.name, f.base, before, res.Dir)
			a := f.attr(res.Object)
			f.check(a == res.Attr && a.Type == tc.typ && a.Rdev == tc.rdev && a.Mode == 0o621 && a.Nlink == 1, "%s: %+v", tc.name, a)
			_, err = f.v.Mknod(ctx, root, f.base, tc.name, &export.NewNode{Type: tc.typ})
			f.want(tc.name+" again", err, export.ErrExist)
		}
	}},
	{name: "Mknod/DevicesArePrivileged", needs: special | users, run: func(f *fixture) {
		for _, typ := range []export.FileType{export.TypeBlock, export.TypeChar} {
			_, err := f.v.Mknod(ctx, alice, f.base, "dev", &export.NewNode{Type: typ, Attr: *mode(0o600)})
			f.want("device by a user", err, export.ErrPerm)
		}
		_, err := f.v.Mknod(ctx, alice, f.base, "fifo", &export.NewNode{Type: export.TypeFIFO, Attr: *mode(0o600)})
		f.want("FIFO by a user", err, export.OK)
	}},
	{name: "Mknod/BadType", needs: special, run: func(f *fixture) {
		for _, typ := range []export.FileType{0, export.TypeRegular, export.TypeDirectory, export.TypeSymlink, 99} {
			_, err := f.v.Mknod(ctx, root, f.base, "x", &export.NewNode{Type: typ})
			f.want("type", err, export.ErrBadType)
		}
		f.absent(f.base, "x")
	}},
	{name: "Mknod/NotSupported", without: special, run: func(f *fixture) {
		_, err := f.v.Mknod(ctx, root, f.base, "x", &export.NewNode{Type: export.TypeFIFO})
		f.want("FIFO", err, export.ErrNotSupp)
		f.absent(f.base, "x")
	}},
}

var linkRows = []row{
	{name: "Link/New", needs: hardLinks, run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		o := file.Object()
		d := f.mkdir("d", 0o755)
		dir := f.attr(d)
		res, err := f.v.Link(ctx, root, o, d, "g")
		f.ok(err)
		f.changed("directory", d, dir, res.Dir)
		f.check(res.Object == o && res.Attr.Nlink == 2 && f.attr(o).Nlink == 2, "object %v, nlink %d", res.Object, res.Attr.Nlink)
		f.check(f.lookup(d, "g") == o, "lookup finds another object")
		f.remove(f.base, "f")
		f.check(f.attr(o).Nlink == 1, "nlink %d", f.attr(o).Nlink)
		f.holds(f.open(root, f.lookup(d, "g"), export.OpenRead), []byte("data"))
	}},
	{name: "Link/Exists", needs: hardLinks, run: func(f *fixture) {
		o := f.create("f", 0o644)
		f.mkdir("d", 0o755)
		for _, name := range []string{"f", "d"} {
			_, err := f.v.Link(ctx, root, o, f.base, name)
			f.want(name, err, export.ErrExist)
		}
		f.check(f.attr(o).Nlink == 1, "nlink %d", f.attr(o).Nlink)
	}},
	{name: "Link/Directory", needs: hardLinks, run: func(f *fixture) {
		_, err := f.v.Link(ctx, root, f.mkdir("d", 0o755), f.base, "e")
		f.want("link to a directory", err, export.ErrIsDir)
	}},
	{name: "Link/Symlink", needs: hardLinks | symlinks, run: func(f *fixture) {
		f.create("f", 0o644)
		l := f.symlink("l", "f")
		f.link(l, f.base, "m")
		f.check(f.lookup(f.base, "m") == l && f.attr(l).Nlink == 2, "the link was followed")
	}},
	{name: "Link/Special", needs: hardLinks | special, run: func(f *fixture) {
		p := f.mknod("p", export.TypeFIFO)
		f.link(p, f.base, "q")
		f.check(f.attr(p).Nlink == 2, "nlink %d", f.attr(p).Nlink)
	}},
	{name: "Link/Permission", needs: hardLinks | users, run: func(f *fixture) {
		o := f.create("f", 0o600)
		d := f.mkdir("d", 0o755)
		_, err := f.v.Link(ctx, alice, o, d, "g")
		f.want("into a directory of another", err, export.ErrAccess)
		f.check(f.attr(o).Nlink == 1, "nlink %d", f.attr(o).Nlink)
	}},
	{name: "Link/UnlinkedOpenFile", needs: hardLinks, run: func(f *fixture) {
		file := f.file("f", nil)
		f.remove(f.base, "f")
		_, err := f.v.Link(ctx, root, file.Object(), f.base, "g")
		f.want("a new name for a file without any", err, export.ErrNoEnt)
		f.absent(f.base, "g")
	}},
	{name: "Link/NotSupported", without: hardLinks, run: func(f *fixture) {
		_, err := f.v.Link(ctx, root, f.create("f", 0o644), f.base, "g")
		f.want("link", err, export.ErrNotSupp)
	}},
}

var lookupRows = []row{
	{name: "Root/Itself", run: func(f *fixture) {
		r, err := f.v.Root(ctx)
		f.ok(err)
		f.check(f.attr(r).Type == export.TypeDirectory, "not a directory")
		p, a, err := f.v.Parent(ctx, root, r, export.MaskAll)
		f.ok(err)
		f.check(p == r && a.FileID == f.attr(r).FileID, "parent of the root is %v", p)
	}},
	{name: "Lookup/Found", run: func(f *fixture) {
		o := f.create("f", 0o644)
		got, a, err := f.v.Lookup(ctx, root, f.base, "f", export.MaskAll)
		f.ok(err)
		f.check(got == o && a == f.attr(o), "object %v, %+v", got, a)
	}},
	{name: "Lookup/NoEnt", run: func(f *fixture) {
		f.absent(f.base, "f")
		f.absent(f.base, strings.Repeat("n", f.feat.MaxName))
	}},
	{name: "Lookup/SameObjectEveryWay", needs: hardLinks, run: func(f *fixture) {
		o := f.create("f", 0o644)
		d := f.mkdir("d", 0o755)
		f.link(o, d, "g")
		f.check(f.lookup(f.base, "f") == o && f.lookup(d, "g") == o, "hard links have several objects")
		ents := f.list(d, 0)
		f.check(len(ents) == 1 && ents[0].Object == o, "listed as %+v", ents)
	}},
	{name: "Parent/FollowsRename", run: func(f *fixture) {
		a, b := f.mkdir("a", 0o755), f.mkdir("b", 0o755)
		d := f.mkdirIn(a, "d", 0o755)
		f.rename(a, "d", b, "e")
		p, attr, err := f.v.Parent(ctx, root, d, export.MaskAll)
		f.ok(err)
		f.check(p == b && attr == f.attr(b), "parent %v, want %v", p, b)
	}},
}
