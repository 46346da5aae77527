package exporttest

import (
	"fmt"

	"capstan/export"
)

// restart reopens the Volume. Files that were open must not be used after it.
func (f *fixture) restart() {
	f.Helper()
	f.v = f.cfg.Reopen(f, f.v)
}

// stored makes a file with data that are safe, and closes it.
func (f *fixture) stored(name, data string) export.Object {
	f.Helper()
	o := f.create(name, 0o644)
	file, err := f.v.Open(ctx, root, o, readWrite)
	f.ok(err)
	_, _, err = file.WriteAt(ctx, root, []byte(data), 0, export.FileSync)
	f.ok(err)
	f.ok(file.Close())
	return o
}

// Trials 15 and 23.
var restartRows = []row{
	{name: "Restart/ObjectsStayGood", needs: restart, run: func(f *fixture) {
		deep := f.base
		for i := range 5 {
			deep = f.mkdirIn(deep, fmt.Sprint(i), 0o755)
		}
		o := f.stored("f", "data")
		moved := f.stored("m", "moved")
		f.rename(f.base, "m", deep, "n")
		want := map[export.Object]export.Attr{deep: f.attr(deep), o: f.attr(o), moved: f.attr(moved), f.base: f.attr(f.base)}
		f.restart()
		for o, a := range want {
			f.unchanged("after the restart", o, a)
		}
		f.holds(f.open(root, o, export.OpenRead), []byte("data"))
		f.holds(f.open(root, moved, export.OpenRead), []byte("moved"))
		f.check(f.lookup(f.base, "f") == o && f.lookup(deep, "n") == moved, "names have other objects")
		f.createAs(root, deep, "new", 0o644)
	}},
	{name: "Restart/ParentStaysGood", needs: restart, run: func(f *fixture) {
		d := f.mkdirIn(f.mkdir("a", 0o755), "b", 0o755)
		f.restart()
		p, _, err := f.v.Parent(ctx, root, d, 0)
		f.ok(err)
		f.check(p == f.lookup(f.base, "a"), "parent %v", p)
	}},
	{name: "Restart/WhatIsGoneStaysGone", needs: restart, run: func(f *fixture) {
		o := f.create("f", 0o644)
		f.remove(f.base, "f")
		f.restart()
		n := f.create("f", 0o644)
		_, err := f.v.GetAttr(ctx, root, o, export.MaskAll)
		f.want("the removed file", err, export.ErrStale)
		f.check(n != o, "the object came back")
	}},
	{name: "Restart/CookiesStayGood", needs: restart, run: func(f *fixture) {
		want := f.fill(f.base, 100)
		first, _ := f.page(f.base, 0, 37)
		cookie := first[36].Cookie
		f.remove(f.base, first[36].Name)
		f.restart()
		rest, eof := f.page(f.base, cookie, 0)
		f.check(eof, "no eof")
		f.listed("listed across the restart", append(first, rest...), want)
	}},
	{name: "Restart/ExclusiveRetry", needs: restart, run: func(f *fixture) {
		res := f.made(root, "f", exclusive("verifier", 0))
		f.restart()
		again := f.made(root, "f", exclusive("verifier", 0))
		f.check(!again.New && again.Object == res.Object, "New %v, object %v, want %v", again.New, again.Object, res.Object)
		_, err := f.v.Create(ctx, root, f.base, "f", exclusive("another", 0))
		f.want("another verifier", err, export.ErrExist)
		f.recent("mtime", f.attr(res.Object).Mtime)
		f.recent("atime", f.attr(res.Object).Atime)
	}},
	{name: "Restart/WriteVerifierDiffers", needs: restart, run: func(f *fixture) {
		seen := map[[8]byte]bool{}
		for range 4 {
			v := f.v.WriteVerifier()
			f.check(!seen[v], "verifier %x again", v)
			seen[v] = true
			f.restart()
		}
	}},
	{name: "Restart/ChangeDoesNotGoBack", needs: restart, run: func(f *fixture) {
		o := f.stored("f", "data")
		seen := map[uint64]bool{f.attr(o).Change: true}
		for range 5 {
			f.chmod(o, 0o600)
			c := f.attr(o).Change
			f.check(!seen[c], "change attribute %d again", c)
			seen[c] = true
		}
		f.restart()
		for range 5 {
			f.chmod(o, 0o644)
			c := f.attr(o).Change
			f.check(!seen[c], "change attribute %d again after the restart", c)
			seen[c] = true
		}
	}},
	{name: "Restart/HardLinks", needs: restart | hardLinks, run: func(f *fixture) {
		o := f.stored("f", "data")
		f.link(o, f.base, "g")
		f.remove(f.base, "f")
		f.restart()
		f.holds(f.open(root, o, export.OpenRead), []byte("data"))
		f.check(f.lookup(f.base, "g") == o, "the other name has another object")
	}},
	{name: "Restart/SymlinksAndXattrs", needs: restart | symlinks | xattrs, run: func(f *fixture) {
		l := f.symlink("l", "target")
		d := f.mkdir("d", 0o755)
		f.setx(d, "a", "value")
		f.restart()
		got, err := f.v.Readlink(ctx, root, l)
		f.ok(err)
		f.check(got == "target", "target %q", got)
		f.getx(d, "a", "value")
	}},
}
