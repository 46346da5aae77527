package nfs4

import (
	"testing"

	"capstan/server/nfs4/nfsv4"
)

func TestSeek(t *testing.T) {
	c := newSite(t).newClient(2, "client")
	dir := c.fh("data")
	o := c.create(dir, "sparse", 0o644)
	c.write(o, 50<<20, "data", nfsv4.FileSync)
	c.expect(nfsv4.OK, o.fh, nfsv4.OpSetAttr, o.id, attrs(bitmap(nfsv4.AttrSize), uint64(100<<20)))
	empty := c.create(dir, "empty", 0o644)
	seek := func(o opened, off uint64, what int) (eof bool, pos uint64) {
		t.Helper()
		r := c.doOn(c.on(o.fh).add(nfsv4.OpSeek, o.id, off, what)).op(nfsv4.OpSeek, nfsv4.OK)
		eof, pos = r.Bool("eof"), r.Uint64("offset")
		r.end()
		return eof, pos
	}
	if eof, pos := seek(o, 0, 0); eof || pos > 50<<20 || pos < 49<<20 {
		t.Errorf("data from 0: %d, eof %v", pos, eof)
	}
	if _, pos := seek(o, 0, 1); pos != 0 {
		t.Errorf("hole from 0: %d", pos)
	}
	if _, pos := seek(o, 50<<20, 1); pos < 50<<20+4 || pos > 51<<20 {
		t.Errorf("hole from 50 Mi: %d", pos)
	}
	if _, pos := seek(o, 60<<20, 1); pos != 60<<20 {
		t.Errorf("hole from 60 Mi: %d", pos)
	}
	// Data in the trailing hole: NXIO or eof.
	switch st := c.status(o.fh, nfsv4.OpSeek, o.id, uint64(60<<20), 0); st {
	case nfsv4.ErrNXIO:
	case nfsv4.OK:
		if eof, pos := seek(o, 60<<20, 0); !eof {
			t.Errorf("data from 60 Mi: %d", pos)
		}
	default:
		t.Errorf("data from 60 Mi: %v", st)
	}
	for _, what := range []int{0, 1} {
		c.expect(nfsv4.ErrNXIO, o.fh, nfsv4.OpSeek, o.id, uint64(100<<20), what)
		c.expect(nfsv4.ErrNXIO, o.fh, nfsv4.OpSeek, o.id, uint64(1<<64-1), what)
		c.expect(nfsv4.ErrNXIO, empty.fh, nfsv4.OpSeek, empty.id, uint64(0), what)
	}
	c.expect(nfsv4.ErrUnionNotSupp, o.fh, nfsv4.OpSeek, o.id, uint64(0), 2)
	c.expect(nfsv4.ErrIsDir, dir, nfsv4.OpSeek, nfsv4.AnonymousStateID, uint64(0), 0)
	c.expect(nfsv4.ErrBadStateID, o.fh, nfsv4.OpSeek, nfsv4.InvalidStateID, uint64(0), 0)
}

// TestAllocateDropsSetID: the set-id bits do not survive a change of the bytes
// by one without privilege, however it is made.
func TestAllocateDropsSetID(t *testing.T) {
	c := newSite(t).newClient(2, "client")
	dir := c.fh("data")
	for i, op := range []nfsv4.Op{nfsv4.OpAllocate, nfsv4.OpDeallocate} {
		o := c.create(dir, string(rune('a'+i)), 0o6755)
		if mode := c.attr(o.fh, nfsv4.AttrMode); mode != 0o6755 {
			t.Fatalf("created with mode %o", mode)
		}
		c.cred = alice
		c.expect(nfsv4.OK, o.fh, op, o.id, uint64(0), uint64(10))
		c.cred = root
		if mode := c.attr(o.fh, nfsv4.AttrMode); mode != 0o755 {
			t.Errorf("%v left mode %o", op, mode)
		}
	}
}

func TestAllocateAndDeallocate(t *testing.T) {
	c := newSite(t).newClient(2, "client")
	dir := c.fh("data")
	o := c.create(dir, "f", 0o644)
	c.write(o, 0, "0123456789", nfsv4.FileSync)
	c.expect(nfsv4.OK, o.fh, nfsv4.OpAllocate, o.id, uint64(5), uint64(100))
	if size := c.attr(o.fh, nfsv4.AttrSize); size != 105 {
		t.Errorf("size %d", size)
	}
	c.expect(nfsv4.OK, o.fh, nfsv4.OpDeallocate, o.id, uint64(2), uint64(1000))
	if data, _ := c.read(o.fh, o.id, 0, 6); data != "01\x00\x00\x00\x00" {
		t.Errorf("read %q", data)
	}
	if size := c.attr(o.fh, nfsv4.AttrSize); size != 105 {
		t.Errorf("size %d after a hole was made beyond the end", size)
	}
	read := c.open(dir, openBy("reader", 1, 0), noCreate(), byName("f"))
	for _, op := range []nfsv4.Op{nfsv4.OpAllocate, nfsv4.OpDeallocate} {
		c.expect(nfsv4.ErrInval, o.fh, op, o.id, uint64(0), uint64(0))
		c.expect(nfsv4.ErrFBig, o.fh, op, o.id, uint64(1<<63), uint64(1))
		c.expect(nfsv4.ErrFBig, o.fh, op, o.id, uint64(1), uint64(1<<64-1))
		c.expect(nfsv4.ErrOpenMode, o.fh, op, read.id, uint64(0), uint64(1))
		c.expect(nfsv4.ErrROFS, c.fh("ro", "f"), op, nfsv4.AnonymousStateID, uint64(0), uint64(1))
		c.expect(nfsv4.ErrIsDir, dir, op, nfsv4.AnonymousStateID, uint64(0), uint64(1))
	}
	r := c.doOn(c.on(o.fh).add(nfsv4.OpIOAdvise, read.id, uint64(0), uint64(10), bitmap(1))).op(nfsv4.OpIOAdvise, nfsv4.OK)
	if hints := r.mask(); !hints.Empty() {
		t.Errorf("hints %v", hints)
	}
}
