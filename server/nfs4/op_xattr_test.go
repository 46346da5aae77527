package nfs4

import (
	"fmt"
	"strings"
	"testing"

	"capstan/server/nfs4/nfsv4"
)

func TestXattrs(t *testing.T) {
	c := newSite(t).newClient(2, "client")
	dir := c.fh("data")
	o := c.create(dir, "f", 0o644)
	set := func(want nfsv4.Status, option uint32, name, value string) {
		t.Helper()
		c.expect(want, o.fh, nfsv4.OpSetXattr, option, name, value)
	}
	set(nfsv4.ErrNoXattr, nfsv4.SetXattrReplace, "a", "1")
	set(nfsv4.OK, nfsv4.SetXattrCreate, "a", "1")
	set(nfsv4.ErrExist, nfsv4.SetXattrCreate, "a", "1")
	set(nfsv4.OK, nfsv4.SetXattrReplace, "a", "22")
	set(nfsv4.OK, nfsv4.SetXattrEither, "b\xff/", "")
	r := c.doOn(c.on(o.fh).add(nfsv4.OpSetXattr, 0, "c", strings.Repeat("x", 5000))).op(nfsv4.OpSetXattr, nfsv4.OK)
	if atomic, before, after := r.Bool(""), r.Uint64(""), r.Uint64(""); !atomic || before == after {
		t.Errorf("change info %v %d %d", atomic, before, after)
	}
	for name, want := range map[string]string{"a": "22", "b\xff/": "", "c": strings.Repeat("x", 5000)} {
		r := c.doOn(c.on(o.fh).add(nfsv4.OpGetXattr, name)).op(nfsv4.OpGetXattr, nfsv4.OK)
		if got := r.String("value", 1<<20); got != want {
			t.Errorf("%q is %.10q", name, got)
		}
	}
	c.expect(nfsv4.ErrNoXattr, o.fh, nfsv4.OpGetXattr, "none")
	c.expect(nfsv4.ErrNoXattr, o.fh, nfsv4.OpRemoveXattr, "none")
	c.expect(nfsv4.OK, o.fh, nfsv4.OpRemoveXattr, "a")
	for _, op := range []nfsv4.Op{nfsv4.OpGetXattr, nfsv4.OpRemoveXattr} {
		c.expect(nfsv4.ErrInval, o.fh, op, "")
		c.expect(nfsv4.ErrInval, o.fh, op, "a\x00")
		c.expect(nfsv4.ErrNameTooLong, o.fh, op, strings.Repeat("n", 251))
	}
	set(nfsv4.ErrNameTooLong, 0, strings.Repeat("n", 251), "")
	set(nfsv4.ErrXattrTooBig, 0, "big", strings.Repeat("x", 64<<10+1))
	set(nfsv4.ErrBadXDR, 3, "x", "")
	ro := c.fh("ro", "f")
	c.expect(nfsv4.ErrROFS, ro, nfsv4.OpSetXattr, 0, "x", "")
	c.expect(nfsv4.ErrROFS, ro, nfsv4.OpRemoveXattr, "c")
	c.expect(nfsv4.ErrNotSupp, c.fh(), nfsv4.OpListXattrs, uint64(0), 100)
	c.expect(nfsv4.ErrNotSupp, c.fh(), nfsv4.OpGetXattr, "x")
	c.cred = bob
	c.expect(nfsv4.ErrAccess, o.fh, nfsv4.OpSetXattr, 0, "x", "")
}

func TestListXattrs(t *testing.T) {
	c := newSite(t).newClient(2, "client")
	o := c.create(c.fh("data"), "f", 0o644)
	for i := range 50 {
		c.expect(nfsv4.OK, o.fh, nfsv4.OpSetXattr, 0, fmt.Sprint("name", i), "v")
	}
	for _, maxCount := range []uint32{28, 60, 200, 10000} {
		seen := map[string]bool{}
		for cookie, eof := uint64(0), false; !eof; {
			r := c.doOn(c.on(o.fh).add(nfsv4.OpListXattrs, cookie, maxCount)).op(nfsv4.OpListXattrs, nfsv4.OK)
			if r.Remaining() > int(maxCount) {
				t.Fatalf("%d bytes, %d allowed", r.Remaining(), maxCount)
			}
			cookie = r.Uint64("cookie")
			for range r.Uint32("n") {
				name := r.String("name", 255)
				if seen[name] {
					t.Fatalf("%q again", name)
				}
				seen[name] = true
			}
			eof = r.Bool("eof")
			r.end()
			// Names that were listed go away: nothing else moves.
			if maxCount == 60 && len(seen) == 9 {
				for name := range seen {
					c.expect(nfsv4.OK, o.fh, nfsv4.OpRemoveXattr, name)
				}
			}
		}
		if want := map[uint32]int{28: 50, 60: 50, 200: 41, 10000: 41}[maxCount]; len(seen) != want {
			t.Errorf("%d names, want %d", len(seen), want)
		}
	}
	c.expect(nfsv4.ErrTooSmall, o.fh, nfsv4.OpListXattrs, uint64(0), 20)
	c.expect(nfsv4.ErrTooSmall, o.fh, nfsv4.OpListXattrs, uint64(1<<64-1), 15)
	r := c.doOn(c.on(o.fh).add(nfsv4.OpListXattrs, uint64(1<<64-1), 16)).op(nfsv4.OpListXattrs, nfsv4.OK)
	if _, n, eof := r.Uint64(""), r.Uint32(""), r.Bool(""); n != 0 || !eof {
		t.Errorf("behind the last: %d names, eof %v", n, eof)
	}
}
