package nfs4

import (
	"strings"
	"testing"

	"capstan/server/nfs4/nfsv4"
)

// badNames are names no operation takes, and what it answers.
var badNames = map[string]nfsv4.Status{
	"": nfsv4.ErrInval, ".": nfsv4.ErrBadName, "..": nfsv4.ErrBadName, "a/b": nfsv4.ErrBadChar, "a\x00b": nfsv4.ErrBadChar,
	strings.Repeat("x", 256): nfsv4.ErrNameTooLong, strings.Repeat("x", 60000): nfsv4.ErrNameTooLong,
}

func TestBadNames(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "good", 0o644)
		for name, want := range badNames {
			c.expect(want, dir, nfsv4.OpLookup, name)
			c.expect(want, dir, nfsv4.OpRemove, name)
			c.expect(want, dir, nfsv4.OpCreate, 2, name, attrs(bitmap()))
			c.expect(want, dir, nfsv4.OpSecInfo, name)
			if st := c.openStatus(dir, openBy("o", 1, 0), unchecked(bitmap()), byName(name)); st != want {
				t.Errorf("OPEN of %.10q: %v", name, st)
			}
			for _, names := range [][]any{{name, "new"}, {"good", name}} {
				r := c.doOn(c.on(dir).add(nfsv4.OpSaveFH).add(nfsv4.OpRename, names...))
				r.op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpRename, want)
			}
			r := c.doOn(c.on(o.fh).add(nfsv4.OpSaveFH).add(nfsv4.OpPutFH, dir).add(nfsv4.OpLink, name))
			r.op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpPutFH, nfsv4.OK).op(nfsv4.OpLink, want)
		}
	})
}

// Names are bytes: those that are not UTF-8 come back as they were, and twins
// in two normal forms stay two.
func TestNamesThatAreNotUTF8(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		c.quiet = true // the other implementation takes nothing but UTF-8
		names := []string{"\xff\xfe", "\x80", "caf\u00e9", "cafe\u0301", strings.Repeat("\xe9", 255)}
		for _, n := range names {
			c.create(dir, n, 0o644)
		}
		got := map[string]bool{}
		for _, e := range c.list(dir, 4096, 4096) {
			got[e.name] = true
		}
		for _, n := range names {
			if !got[n] {
				t.Errorf("%q is not listed", n)
			}
			c.expect(nfsv4.OK, dir, nfsv4.OpLookup, n)
			r := c.doOn(c.on(dir).add(nfsv4.OpSaveFH).add(nfsv4.OpRename, n, n+"2"))
			want := nfsv4.OK
			if len(n) == 255 {
				want = nfsv4.ErrNameTooLong
			}
			r.op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpRename, want)
		}
		c.expect(nfsv4.OK, dir, nfsv4.OpRemove, names[4])
	})
}

func TestCreateTypes(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		mode := attrs(bitmap(nfsv4.AttrMode), 0o640)
		for typ, args := range map[uint32][]any{
			2: {2, "dir", mode}, 3: {3, 8, 1, "blk", mode}, 4: {4, 1, 3, "chr", mode}, 5: {5, "tar/get", "lnk", mode},
			6: {6, "sock", mode}, 7: {7, "fifo", mode},
		} {
			r := c.doOn(c.on(dir).add(nfsv4.OpCreate, args...).add(nfsv4.OpGetFH)).op(nfsv4.OpCreate, nfsv4.OK)
			if atomic, before, after := r.Bool(""), r.Uint64(""), r.Uint64(""); !atomic || before == after {
				t.Errorf("type %d: change info %v %d %d", typ, atomic, before, after)
			}
			if set := r.mask(); set != bitmap(nfsv4.AttrMode) {
				t.Errorf("type %d: attrset %v", typ, set)
			}
			fh := r.op(nfsv4.OpGetFH, nfsv4.OK).String("fh", 128)
			if got := c.attr(fh, nfsv4.AttrType); got != uint64(typ) {
				t.Errorf("type %d made %d", typ, got)
			}
			if typ == 3 || typ == 4 {
				if dev := c.attr(fh, nfsv4.AttrRawDev); dev != map[uint32]uint64{3: 8<<32 | 1, 4: 1<<32 | 3}[typ] {
					t.Errorf("type %d: rawdev %x", typ, dev)
				}
			}
			if typ == 5 {
				r := c.doOn(c.on(fh).add(nfsv4.OpReadLink)).op(nfsv4.OpReadLink, nfsv4.OK)
				if target := r.String("target", 100); target != "tar/get" {
					t.Errorf("link to %q", target)
				}
			} else {
				c.expect(nfsv4.ErrWrongType, fh, nfsv4.OpReadLink)
			}
		}
		for _, typ := range []int{0, 1, 8, 9, 99} {
			c.expect(nfsv4.ErrBadType, dir, nfsv4.OpCreate, typ, "x", attrs(bitmap()))
		}
		c.expect(nfsv4.ErrExist, dir, nfsv4.OpCreate, 2, "dir", attrs(bitmap()))
		c.expect(nfsv4.ErrInval, dir, nfsv4.OpCreate, 5, "", "x", attrs(bitmap()))
		c.expect(nfsv4.ErrNameTooLong, dir, nfsv4.OpCreate, 5, strings.Repeat("t", 4096), "x", attrs(bitmap()))
		c.expect(nfsv4.ErrInval, dir, nfsv4.OpCreate, 2, "x", attrs(bitmap(nfsv4.AttrSize), uint64(0)))
		c.expect(nfsv4.ErrInval, dir, nfsv4.OpCreate, 2, "x", attrs(bitmap(nfsv4.AttrType), 2))
		c.expect(nfsv4.ErrAttrNotSupp, dir, nfsv4.OpCreate, 2, "x", attrs(bitmap(nfsv4.AttrACL), 0))
		c.expect(nfsv4.ErrBadXDR, dir, nfsv4.OpCreate, 2, "x", attrs(bitmap(nfsv4.AttrMode), 1, 2))
		c.expect(nfsv4.ErrBadOwner, dir, nfsv4.OpCreate, 2, "x", attrs(bitmap(nfsv4.AttrOwner), "nobody@nowhere"))
		c.expect(nfsv4.ErrNotDir, c.fh("data", "fifo"), nfsv4.OpCreate, 2, "x", attrs(bitmap()))
		c.expect(nfsv4.ErrROFS, c.fh("ro"), nfsv4.OpCreate, 2, "x", attrs(bitmap()))
		c.expect(nfsv4.ErrROFS, c.fh(), nfsv4.OpCreate, 2, "x", attrs(bitmap()))
	})
}

func TestLookup(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 5, ".", "link", attrs(bitmap()))
		o := c.create(dir, "file", 0o644)
		c.expect(nfsv4.ErrNoEnt, dir, nfsv4.OpLookup, "none")
		c.expect(nfsv4.ErrNotDir, o.fh, nfsv4.OpLookup, "x")
		c.expect(nfsv4.ErrSymlink, c.fh("data", "link"), nfsv4.OpLookup, "x")
		c.expect(nfsv4.ErrNotDir, o.fh, nfsv4.OpLookupP)
		c.expect(nfsv4.ErrSymlink, c.fh("data", "link"), nfsv4.OpLookupP)
		// An export nobody may enter is not there; nor is one above the root.
		c.expect(nfsv4.ErrNoEnt, c.fh(), nfsv4.OpLookup, "none")
		c.expect(nfsv4.ErrNoEnt, c.fh(), nfsv4.OpLookupP)
		if up := c.doOn(c.on(dir).add(nfsv4.OpLookupP).add(nfsv4.OpGetFH)).op(nfsv4.OpLookupP, nfsv4.OK).
			op(nfsv4.OpGetFH, nfsv4.OK).String("fh", 128); up != c.fh() {
			t.Error("above an export is not the root")
		}
		r := c.do(c.with().add(nfsv4.OpPutPubFH).add(nfsv4.OpGetFH)).op(nfsv4.OpPutPubFH, nfsv4.OK)
		if r.op(nfsv4.OpGetFH, nfsv4.OK).String("fh", 128) != c.fh() {
			t.Error("the public handle is not the root")
		}
	})
}

func TestPutFH(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		put := func(want nfsv4.Status, fh string) {
			t.Helper()
			c.do(c.on(fh)).op(nfsv4.OpPutFH, want)
		}
		put(nfsv4.ErrBadHandle, "")
		put(nfsv4.ErrBadHandle, "short")
		put(nfsv4.ErrBadXDR, strings.Repeat("x", 129))
		for i := range dir {
			b := []byte(dir)
			b[i] ^= 1
			r := c.do(c.on(string(b)))
			r.Uint32("resop")
			if st := nfsv4.Status(r.Uint32("status")); st != nfsv4.ErrBadHandle && st != nfsv4.ErrStale {
				t.Fatalf("byte %d changed: %v", i, st)
			}
		}
		// A handle of an export that the caller may not enter: as if it were gone.
		none := c.table.Export(4)
		rootDir, err := none.Root(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put(nfsv4.ErrStale, string(c.table.AppendHandle(nil, nodeOf(none, rootDir))))

		o := c.create(dir, "gone", 0o644)
		c.expect(nfsv4.OK, dir, nfsv4.OpRemove, "gone")
		c.write(o, 0, "still open", nfsv4.FileSync)
		c.expect(nfsv4.OK, o.fh, nfsv4.OpCommit, uint64(0), 0)
		c.expect(nfsv4.OK, o.fh, nfsv4.OpGetAttr, bitmap(nfsv4.AttrSize))
		c.expect(nfsv4.OK, o.fh, nfsv4.OpClose, 0, o.id)
	})
}

// Names move between directories of one export, and not to another.
func TestRenameAndLink(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 2, "a", attrs(bitmap()))
		c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 2, "b", attrs(bitmap()))
		a, b := c.fh("data", "a"), c.fh("data", "b")
		o := c.create(a, "f", 0o644)
		move := func(want nfsv4.Status, from, name, to, newName string) *reply {
			t.Helper()
			r := c.doOn(c.on(from).add(nfsv4.OpSaveFH).add(nfsv4.OpPutFH, to).add(nfsv4.OpRename, name, newName))
			return r.op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpPutFH, nfsv4.OK).op(nfsv4.OpRename, want)
		}
		r := move(nfsv4.OK, a, "f", b, "g")
		for range 2 {
			if atomic, before, after := r.Bool(""), r.Uint64(""), r.Uint64(""); !atomic || before == after {
				t.Errorf("change info %v %d %d", atomic, before, after)
			}
		}
		r.end()
		if c.fh("data", "b", "g") != o.fh {
			t.Error("the handle changed with the name")
		}
		move(nfsv4.ErrNoEnt, a, "f", b, "g")
		move(nfsv4.ErrExist, b, "g", dir, "a") // a file over a directory
		move(nfsv4.ErrInval, dir, "a", a, "sub")
		move(nfsv4.ErrNotEmpty, dir, "a", dir, "b")
		move(nfsv4.ErrXDev, b, "g", c.fh("a", "b", "deep"), "g")
		move(nfsv4.ErrROFS, c.fh("ro"), "a", c.fh("ro"), "c")

		link := func(want nfsv4.Status, fh, to, name string) {
			t.Helper()
			r := c.doOn(c.on(fh).add(nfsv4.OpSaveFH).add(nfsv4.OpPutFH, to).add(nfsv4.OpLink, name))
			r.op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpPutFH, nfsv4.OK).op(nfsv4.OpLink, want)
		}
		link(nfsv4.OK, o.fh, a, "hard")
		if n := c.attr(o.fh, nfsv4.AttrNumLinks); n != 2 {
			t.Errorf("%d links", n)
		}
		link(nfsv4.ErrExist, o.fh, a, "hard")
		link(nfsv4.ErrIsDir, a, b, "dir")
		link(nfsv4.ErrXDev, o.fh, c.fh("a", "b", "deep"), "x")
		link(nfsv4.ErrNotDir, o.fh, o.fh, "x")

		c.expect(nfsv4.ErrNotEmpty, dir, nfsv4.OpRemove, "a")
		c.expect(nfsv4.OK, a, nfsv4.OpRemove, "hard")
		c.expect(nfsv4.OK, dir, nfsv4.OpRemove, "a")
		c.expect(nfsv4.ErrNoEnt, dir, nfsv4.OpRemove, "a")
		c.expect(nfsv4.ErrNotDir, o.fh, nfsv4.OpRemove, "a")
	})
}

func TestSecInfo(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		flavors := func(r *reply) {
			t.Helper()
			if n, first := r.Uint32("n"), r.Uint32("flavor"); n != 2 || first != nfsv4.AuthSys {
				t.Errorf("%d flavors, the first %d", n, first)
			}
			r.skip(4)
		}
		// The current filehandle is consumed.
		r := c.do(c.at().add(nfsv4.OpSecInfo, "data").add(nfsv4.OpGetFH)).op(nfsv4.OpPutRootFH, nfsv4.OK)
		flavors(r.op(nfsv4.OpSecInfo, nfsv4.OK))
		r.op(nfsv4.OpGetFH, nfsv4.ErrNoFileHandle).end()
		for style, fh := range map[uint32]string{nfsv4.SecInfoCurrentFH: dir, nfsv4.SecInfoParent: dir} {
			r := c.doOn(c.on(fh).add(nfsv4.OpSecInfoNoName, style).add(nfsv4.OpGetFH))
			flavors(r.op(nfsv4.OpSecInfoNoName, nfsv4.OK))
			r.op(nfsv4.OpGetFH, nfsv4.ErrNoFileHandle).end()
		}
		c.expect(nfsv4.ErrNoEnt, c.fh(), nfsv4.OpSecInfoNoName, nfsv4.SecInfoParent)
		c.expect(nfsv4.ErrBadXDR, dir, nfsv4.OpSecInfoNoName, 2)
		c.expect(nfsv4.ErrNoEnt, dir, nfsv4.OpSecInfo, "none")
		c.expect(nfsv4.ErrNotDir, c.create(dir, "f", 0o644).fh, nfsv4.OpSecInfo, "none")
	})
}
