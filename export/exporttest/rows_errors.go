package exporttest

import "capstan/export"

// call is one method of a Volume on one object.
type call struct {
	name string
	do   func(f *fixture, o export.Object) error
}

// dirCalls are the methods that take a directory, once for each directory.
var dirCalls = []call{
	{"Lookup", func(f *fixture, o export.Object) error {
		_, _, err := f.v.Lookup(ctx, root, o, "x", 0)
		return err
	}},
	{"Parent", func(f *fixture, o export.Object) error {
		_, _, err := f.v.Parent(ctx, root, o, 0)
		return err
	}},
	{"ReadDir", func(f *fixture, o export.Object) error {
		_, err := f.v.ReadDir(ctx, root, o, 0, 0, func(*export.Dirent) bool { return true })
		return err
	}},
	{"Create", func(f *fixture, o export.Object) error {
		_, err := f.v.Create(ctx, root, o, "x", &export.Create{})
		return err
	}},
	{"Mkdir", func(f *fixture, o export.Object) error {
		_, err := f.v.Mkdir(ctx, root, o, "x", mode(0o755))
		return err
	}},
	{"Remove", func(f *fixture, o export.Object) error {
		_, _, err := f.v.Remove(ctx, root, o, "x", export.RemoveAny)
		return err
	}},
	{"Rename from", func(f *fixture, o export.Object) error {
		_, err := f.v.Rename(ctx, root, o, "x", f.base, "y")
		return err
	}},
	{"Rename to", func(f *fixture, o export.Object) error {
		_, err := f.v.Rename(ctx, root, f.base, "source", o, "y")
		return err
	}},
}

// objectCalls are those that take any object, or a file.
var objectCalls = []call{
	{"GetAttr", func(f *fixture, o export.Object) error {
		_, err := f.v.GetAttr(ctx, root, o, export.MaskAll)
		return err
	}},
	{"SetAttr", func(f *fixture, o export.Object) error {
		_, err := f.v.SetAttr(ctx, root, o, nil, mode(0o600))
		return err
	}},
	{"SetAttr of size", func(f *fixture, o export.Object) error {
		_, err := f.v.SetAttr(ctx, root, o, nil, &export.SetAttr{Set: export.SetSize})
		return err
	}},
	{"Access", func(f *fixture, o export.Object) error {
		_, _, err := f.v.Access(ctx, root, o, export.AccessRead)
		return err
	}},
	{"Readlink", func(f *fixture, o export.Object) error {
		_, err := f.v.Readlink(ctx, root, o)
		return err
	}},
	{"Open", func(f *fixture, o export.Object) error {
		_, err := f.v.Open(ctx, root, o, export.OpenRead)
		return err
	}},
	{"StatFS", func(f *fixture, o export.Object) error {
		_, err := f.v.StatFS(ctx, o)
		return err
	}},
}

// callsFor adds the methods that hang on features.
func callsFor(f *fixture) (dirs, objects []call) {
	dirs, objects = append(dirs, dirCalls...), append(objects, objectCalls...)
	if f.feat.Symlinks {
		dirs = append(dirs, call{"Symlink", func(f *fixture, o export.Object) error {
			_, err := f.v.Symlink(ctx, root, o, "x", "target", &export.SetAttr{})
			return err
		}})
	}
	if f.feat.Special {
		dirs = append(dirs, call{"Mknod", func(f *fixture, o export.Object) error {
			_, err := f.v.Mknod(ctx, root, o, "x", &export.NewNode{Type: export.TypeFIFO})
			return err
		}})
	}
	if f.feat.HardLinks {
		dirs = append(dirs, call{"Link to", func(f *fixture, o export.Object) error {
			_, err := f.v.Link(ctx, root, f.lookup(f.base, "source"), o, "x")
			return err
		}})
		objects = append(objects, call{"Link of", func(f *fixture, o export.Object) error {
			_, err := f.v.Link(ctx, root, o, f.base, "x")
			return err
		}})
	}
	if f.feat.Xattrs {
		objects = append(objects,
			call{"GetXattr", func(f *fixture, o export.Object) error {
				_, err := f.v.GetXattr(ctx, root, o, "x")
				return err
			}},
			call{"SetXattr", func(f *fixture, o export.Object) error {
				_, err := f.v.SetXattr(ctx, root, o, "x", nil, export.XattrEither)
				return err
			}},
			call{"ListXattr", func(f *fixture, o export.Object) error {
				_, err := f.v.ListXattr(ctx, root, o)
				return err
			}},
			call{"RemoveXattr", func(f *fixture, o export.Object) error {
				_, err := f.v.RemoveXattr(ctx, root, o, "x")
				return err
			}})
	}
	return dirs, objects
}

var errorRows = []row{
	{name: "Errors/NotADirectory", run: func(f *fixture) {
		f.create("source", 0o644)
		others := map[string]export.Object{"file": f.create("f", 0o755)}
		if f.feat.Symlinks {
			f.mkdir("d", 0o755)
			others["symlink to a directory"] = f.symlink("l", "d")
		}
		if f.feat.Special {
			others["FIFO"] = f.mknod("p", export.TypeFIFO)
		}
		dirs, _ := callsFor(f)
		for what, o := range others {
			for _, c := range dirs {
				f.want(c.name+" in a "+what, c.do(f, o), export.ErrNotDir)
			}
		}
		f.lookup(f.base, "source")
	}},
	{name: "Errors/StaleFile", run: func(f *fixture) {
		f.create("source", 0o644)
		o := f.create("f", 0o644)
		f.remove(f.base, "f")
		_, objects := callsFor(f)
		for _, c := range objects {
			f.want(c.name, c.do(f, o), export.ErrStale)
		}
	}},
	{name: "Errors/StaleDirectory", run: func(f *fixture) {
		f.create("source", 0o644)
		o := f.mkdir("d", 0o755)
		f.remove(f.base, "d")
		dirs, _ := callsFor(f)
		for _, c := range dirs {
			f.want(c.name, c.do(f, o), export.ErrStale)
		}
		f.want("GetAttr", objectCalls[0].do(f, o), export.ErrStale)
	}},
	{name: "Errors/StaleAfterRenameOver", run: func(f *fixture) {
		f.create("source", 0o644)
		o := f.create("f", 0o644)
		f.create("g", 0o644)
		f.rename(f.base, "g", f.base, "f")
		_, objects := callsFor(f)
		for _, c := range objects {
			f.want(c.name, c.do(f, o), export.ErrStale)
		}
	}},
	{name: "Errors/NeverExisted", run: func(f *fixture) {
		f.create("source", 0o644)
		dirs, objects := callsFor(f)
		for _, o := range []export.Object{export.Live(1<<62 + 12345), {}} {
			for _, c := range append(dirs, objects...) {
				f.want(c.name, c.do(f, o), export.ErrStale)
			}
		}
	}},
	{name: "Errors/ClosedFile", run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		f.ok(file.Close())
		_, _, err := file.ReadAt(ctx, make([]byte, 4), 0)
		f.want("read", err, export.ErrStale)
		_, _, err = file.WriteAt(ctx, root, []byte("x"), 0, export.Unstable)
		f.want("write", err, export.ErrStale)
		_, err = file.Lock(ctx, rlock(1, 0, 9))
		f.want("lock", err, export.ErrStale)
		f.holds(f.open(root, f.lookup(f.base, "f"), export.OpenRead), []byte("data"))
	}},
}
