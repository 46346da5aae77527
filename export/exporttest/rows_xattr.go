package exporttest

import (
	"bytes"
	"fmt"
	"slices"

	"capstan/export"
)

func (f *fixture) setx(o export.Object, name, value string) {
	f.Helper()
	_, err := f.v.SetXattr(ctx, root, o, name, []byte(value), export.XattrEither)
	f.ok(err)
}

// getx checks the value of an attribute.
func (f *fixture) getx(o export.Object, name, want string) {
	f.Helper()
	got, err := f.v.GetXattr(ctx, root, o, name)
	f.ok(err)
	f.check(string(got) == want, "%s is %s, want %s", name, brief(got), brief([]byte(want)))
}

var xattrRows = []row{
	{name: "Xattr/SetAndGet", needs: xattrs, run: func(f *fixture) {
		for _, o := range []export.Object{f.create("f", 0o644), f.mkdir("d", 0o755)} {
			before := f.attr(o)
			ch, err := f.v.SetXattr(ctx, root, o, "one", []byte("value"), export.XattrEither)
			f.ok(err)
			f.changed("setxattr", o, before, ch)
			f.getx(o, "one", "value")
			f.setx(o, "one", "other")
			f.getx(o, "one", "other")
			f.setx(o, "empty", "")
			f.getx(o, "empty", "")
			f.setx(o, "bin", "\x00\xff\n")
			f.getx(o, "bin", "\x00\xff\n")
			names, err := f.v.ListXattr(ctx, root, o)
			f.ok(err)
			f.check(slices.Equal(names, []string{"bin", "empty", "one"}), "names %q", names)
		}
	}},
	{name: "Xattr/Missing", needs: xattrs, run: func(f *fixture) {
		o := f.create("f", 0o644)
		_, err := f.v.GetXattr(ctx, root, o, "none")
		f.want("get", err, export.ErrNoXattr)
		_, err = f.v.RemoveXattr(ctx, root, o, "none")
		f.want("remove", err, export.ErrNoXattr)
		names, err := f.v.ListXattr(ctx, root, o)
		f.ok(err)
		f.check(len(names) == 0, "names %q", names)
	}},
	{name: "Xattr/Modes", needs: xattrs, run: func(f *fixture) {
		o := f.create("f", 0o644)
		set := func(mode export.XattrMode) error {
			_, err := f.v.SetXattr(ctx, root, o, "x", []byte{byte('0' + mode)}, mode)
			return err
		}
		f.want("replace what is not there", set(export.XattrReplace), export.ErrNoXattr)
		f.want("create", set(export.XattrCreate), export.OK)
		f.want("create again", set(export.XattrCreate), export.ErrExist)
		f.getx(o, "x", "1")
		f.want("replace", set(export.XattrReplace), export.OK)
		f.getx(o, "x", "2")
	}},
	{name: "Xattr/Remove", needs: xattrs, run: func(f *fixture) {
		o := f.create("f", 0o644)
		f.setx(o, "a", "1")
		f.setx(o, "b", "2")
		before := f.attr(o)
		ch, err := f.v.RemoveXattr(ctx, root, o, "a")
		f.ok(err)
		f.changed("removexattr", o, before, ch)
		names, err := f.v.ListXattr(ctx, root, o)
		f.ok(err)
		f.check(slices.Equal(names, []string{"b"}), "names %q", names)
	}},
	{name: "Xattr/BelongToTheInode", needs: xattrs | hardLinks, run: func(f *fixture) {
		o := f.create("f", 0o644)
		f.setx(o, "a", "1")
		f.link(o, f.base, "g")
		f.rename(f.base, "f", f.base, "h")
		f.getx(f.lookup(f.base, "g"), "a", "1")
		f.remove(f.base, "g")
		f.remove(f.base, "h")
		_, err := f.v.GetXattr(ctx, root, f.create("f", 0o644), "a")
		f.want("a new file of that name", err, export.ErrNoXattr)
	}},
	{name: "Xattr/Permission", needs: xattrs | users, run: func(f *fixture) {
		o := f.createAs(alice, f.base, "f", 0o640)
		f.set(o, export.SetAttr{Set: export.SetGID, GID: staff})
		_, err := f.v.SetXattr(ctx, alice, o, "a", []byte("1"), export.XattrEither)
		f.want("set by the owner", err, export.OK)
		_, err = f.v.GetXattr(ctx, bob, o, "a")
		f.want("get by a reader", err, export.OK)
		_, err = f.v.SetXattr(ctx, bob, o, "a", []byte("2"), export.XattrEither)
		f.want("set by a reader", err, export.ErrAccess)
		_, err = f.v.RemoveXattr(ctx, bob, o, "a")
		f.want("remove by a reader", err, export.ErrAccess)
		_, err = f.v.GetXattr(ctx, carol, o, "a")
		f.want("get by another", err, export.ErrAccess)
		got, _, err := f.v.Access(ctx, bob, o, export.AccessXARead|export.AccessXAWrite|export.AccessXAList)
		f.ok(err)
		f.check(got == export.AccessXARead|export.AccessXAList, "access of a reader: %#x", got)
		f.getx(o, "a", "1")
	}},
	{name: "Xattr/TooBig", needs: xattrs, run: func(f *fixture) {
		o := f.create("f", 0o644)
		_, err := f.v.SetXattr(ctx, root, o, "a", make([]byte, 65537), export.XattrEither)
		f.want("64 KiB + 1", err, export.ErrXattrTooBig)
		_, err = f.v.SetXattr(ctx, root, o, string(bytes.Repeat([]byte("n"), 251)), nil, export.XattrEither)
		f.want("name above 255 bytes with its prefix", err, export.ErrNameTooLong)
		f.setx(o, string(bytes.Repeat([]byte("n"), 250)), "v")
		f.setx(o, "b", string(make([]byte, 2048)))
	}},
	{name: "Xattr/TooMany", needs: xattrs, run: func(f *fixture) {
		o := f.create("f", 0o644)
		value := make([]byte, 2000)
		for i := range 4000 {
			if _, err := f.v.SetXattr(ctx, root, o, fmt.Sprint(i), value, export.XattrEither); err != nil {
				f.want(fmt.Sprintf("attribute %d", i), err, export.ErrNoSpc)
				f.getx(o, "0", string(value))
				return
			}
		}
		f.Errorf("8 MB of attributes on one file")
	}},
	{name: "Xattr/Names", needs: xattrs, run: func(f *fixture) {
		o := f.create("f", 0o644)
		for _, name := range []string{"a.b", "user.x", "\u00fc", "with space", "A", "a"} {
			f.setx(o, name, name)
		}
		for _, name := range []string{"a.b", "user.x", "\u00fc", "with space", "A", "a"} {
			f.getx(o, name, name)
		}
		_, err := f.v.GetXattr(ctx, root, o, "")
		f.want("empty name", err, export.ErrInval)
	}},
	{name: "Xattr/Symlink", needs: xattrs | symlinks, run: func(f *fixture) {
		f.create("f", 0o644)
		l := f.symlink("l", "f")
		_, err := f.v.SetXattr(ctx, root, l, "a", nil, export.XattrEither)
		f.want("set on a symlink", err, export.ErrPerm)
	}},
	{name: "Xattr/NotSupported", without: xattrs, run: func(f *fixture) {
		o := f.create("f", 0o644)
		_, err := f.v.GetXattr(ctx, root, o, "a")
		f.want("get", err, export.ErrNotSupp)
		_, err = f.v.SetXattr(ctx, root, o, "a", nil, export.XattrEither)
		f.want("set", err, export.ErrNotSupp)
		_, err = f.v.ListXattr(ctx, root, o)
		f.want("list", err, export.ErrNotSupp)
		_, err = f.v.RemoveXattr(ctx, root, o, "a")
		f.want("remove", err, export.ErrNotSupp)
	}},
}
