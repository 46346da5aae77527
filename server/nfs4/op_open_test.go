package nfs4

import (
	"strings"
	"testing"
	"time"

	"capstan/server/nfs4/nfsv4"
)

func noCreate() []any { return []any{nfsv4.OpenNoCreate} }

// openStatus runs an OPEN and returns its status.
func (c *client) openStatus(fh string, parts ...[]any) nfsv4.Status {
	c.tb.Helper()
	return c.status(fh, nfsv4.OpOpen, join(parts...)...)
}

func TestOpenCreateModes(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		mode := bitmap(nfsv4.AttrMode)
		o := c.open(dir, openBy("o", 3, 0), unchecked(mode, 0o640), byName("f"))
		if o.attrset != mode {
			t.Errorf("attrset %v", o.attrset)
		}
		c.write(o, 0, strings.Repeat("x", 1<<20), nfsv4.FileSync)

		// UNCHECKED on an existing file: opens it, and changes nothing but the size
		// if that is to be 0.
		again := c.open(dir, openBy("o", 3, 0), unchecked(mode, 0o777), byName("f"))
		if again.attrset != (nfsv4.Bitmap{}) || again.fh != o.fh || again.before != again.after {
			t.Errorf("second OPEN: %+v", again)
		}
		if again.id.Other != o.id.Other || again.id.Seq != o.id.Seq+1 {
			t.Errorf("stateid %v after %v", again.id, o.id)
		}
		c.open(dir, openBy("o", 3, 0), unchecked(bitmap(nfsv4.AttrSize), uint64(7)), byName("f"))
		if size := c.attr(o.fh, nfsv4.AttrSize); size != 1<<20 {
			t.Errorf("size 7 given to an existing file: size %d", size)
		}
		cut := c.open(dir, openBy("o", 3, 0), unchecked(bitmap(nfsv4.AttrSize, nfsv4.AttrMode), uint64(0), 0o777), byName("f"))
		if size := c.attr(o.fh, nfsv4.AttrSize); size != 0 || cut.attrset != bitmap(nfsv4.AttrSize) {
			t.Errorf("size %d, attrset %v", size, cut.attrset)
		}
		if m := c.attr(o.fh, nfsv4.AttrMode); m != 0o640 {
			t.Errorf("mode %o", m)
		}
		sized := c.open(dir, openBy("o", 3, 0), unchecked(bitmap(nfsv4.AttrSize), uint64(77)), byName("sized"))
		if size := c.attr(sized.fh, nfsv4.AttrSize); size != 77 {
			t.Errorf("size of a new file: %d", size)
		}

		if st := c.openStatus(dir, openBy("o", 3, 0), guarded(mode, 0o640), byName("f")); st != nfsv4.ErrExist {
			t.Errorf("GUARDED: %v", st)
		}
		if st := c.openStatus(dir, openBy("o", 1, 0), noCreate(), byName("none")); st != nfsv4.ErrNoEnt {
			t.Errorf("NOCREATE: %v", st)
		}
	})
}

// An exclusive create can be tried again, by its verifier; times are now.
func TestOpenExclusive(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		v, w := nfsv4.Verifier{1, 2, 3, 4, 5, 6, 7, 8}, nfsv4.Verifier{8, 7, 6, 5, 4, 3, 2, 1}
		before := time.Now().Unix()
		first := c.open(dir, openBy("o", 3, 0), exclusive(v), byName("e"))
		retry := c.open(dir, openBy("o", 3, 0), exclusive(v), byName("e"))
		if retry.fh != first.fh {
			t.Error("the retry opened another file")
		}
		for _, how := range [][]any{exclusive(w), guarded(bitmap()), exclusive1(w, bitmap())} {
			if st := c.openStatus(dir, openBy("o", 3, 0), how, byName("e")); st != nfsv4.ErrExist {
				t.Errorf("%v: %v", how, st)
			}
		}
		c.expect(nfsv4.OK, first.fh, nfsv4.OpSetAttr, nfsv4.AnonymousStateID, attrs(bitmap(nfsv4.AttrMode), 0o600))
		r := c.doOn(c.on(first.fh).add(nfsv4.OpGetAttr, bitmap(nfsv4.AttrTimeAccess, nfsv4.AttrTimeModify))).op(nfsv4.OpGetAttr, nfsv4.OK)
		_, d := r.fattr()
		for range 2 {
			if at := decodeTime(d); at.Sec < before-1 || at.Sec > time.Now().Unix()+1 {
				t.Errorf("time %v after an exclusive create", at)
			}
		}

		mask := bitmap(nfsv4.AttrMode)
		one := c.open(dir, openBy("o", 3, 0), exclusive1(v, mask, 0o444), byName("e1"))
		if one.attrset != mask || c.attr(one.fh, nfsv4.AttrMode) != 0o444 {
			t.Errorf("attrset %v, mode %o", one.attrset, c.attr(one.fh, nfsv4.AttrMode))
		}
		c.open(dir, openBy("o", 3, 0), exclusive1(v, mask, 0o444), byName("e1"))
	})
}

// The creator of a read-only file writes it through the open that made it; a
// new open for writing is refused.
func TestOpenReadOnlyFileByItsCreator(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		c.cred = alice
		for _, mode := range []uint32{0o444, 0o000, 0o200} {
			name := "f" + string(rune('0'+mode&7)) + string(rune('0'+mode>>6))
			o := c.open(dir, openBy("o", 3, 0), exclusive1(nfsv4.Verifier{9}, bitmap(nfsv4.AttrMode), mode), byName(name))
			retry := c.open(dir, openBy("o", 3, 0), exclusive1(nfsv4.Verifier{9}, bitmap(nfsv4.AttrMode), mode), byName(name))
			if o.fh != retry.fh {
				t.Error("the retry opened another file")
			}
			o = retry
			c.write(o, 0, strings.Repeat("x", 300000), nfsv4.Unstable)
			if data, _ := c.read(o.fh, o.id, 299990, 100); data != "xxxxxxxxxx" {
				t.Errorf("mode %o: read %q", mode, data)
			}
			c.expect(nfsv4.OK, o.fh, nfsv4.OpCommit, uint64(0), 0)
			c.expect(nfsv4.OK, o.fh, nfsv4.OpSetAttr, o.id, attrs(bitmap(nfsv4.AttrSize), uint64(10)))
			if mode&0o200 == 0 {
				for _, claim := range [][]any{byName(name)} {
					if st := c.openStatus(dir, openBy("other", 2, 0), noCreate(), claim); st != nfsv4.ErrAccess {
						t.Errorf("mode %o: a new open for writing: %v", mode, st)
					}
				}
				if st := c.openStatus(o.fh, openBy("other", 2, 0), noCreate(), []any{nfsv4.ClaimFH}); st != nfsv4.ErrAccess {
					t.Errorf("mode %o: a new open for writing by handle: %v", mode, st)
				}
				c.expect(nfsv4.ErrAccess, o.fh, nfsv4.OpSetAttr, nfsv4.AnonymousStateID, attrs(bitmap(nfsv4.AttrSize), uint64(1)))
			}
			c.expect(nfsv4.OK, o.fh, nfsv4.OpClose, 0, o.id)
		}
	})
}

func TestOpenArguments(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "f", 0o644)
		c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 2, "sub", attrs(bitmap()))
		c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 5, "target", "link", attrs(bitmap()))
		c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 7, "fifo", attrs(bitmap()))
		for _, x := range []struct {
			want  nfsv4.Status
			fh    string
			parts [][]any
		}{
			{nfsv4.ErrInval, dir, [][]any{openBy("o", 0, 0), noCreate(), byName("f")}},
			{nfsv4.ErrInval, dir, [][]any{openBy("o", 1, 4), noCreate(), byName("f")}},
			{nfsv4.ErrInval, dir, [][]any{openBy("o", 1<<30|1, 0), noCreate(), byName("f")}},
			{nfsv4.ErrInval, dir, [][]any{openBy("o", 0x600|1, 0), noCreate(), byName("f")}},
			{nfsv4.ErrInval, dir, [][]any{openBy("o", 1, 0), noCreate(), byName("")}},
			{nfsv4.ErrBadName, dir, [][]any{openBy("o", 1, 0), noCreate(), byName("..")}},
			{nfsv4.ErrInval, o.fh, [][]any{openBy("o", 1, 0), unchecked(bitmap()), {nfsv4.ClaimFH}}},
			{nfsv4.ErrIsDir, dir, [][]any{openBy("o", 1, 0), noCreate(), byName("sub")}},
			{nfsv4.ErrIsDir, dir, [][]any{openBy("o", 1, 0), noCreate(), {nfsv4.ClaimFH}}},
			{nfsv4.ErrIsDir, dir, [][]any{openBy("o", 1, 0), unchecked(bitmap()), byName("sub")}},
			{nfsv4.ErrSymlink, dir, [][]any{openBy("o", 1, 0), noCreate(), byName("link")}},
			{nfsv4.ErrSymlink, dir, [][]any{openBy("o", 1, 0), unchecked(bitmap()), byName("link")}},
			{nfsv4.ErrSymlink, dir, [][]any{openBy("o", 1, 0), noCreate(), byName("fifo")}},
			{nfsv4.ErrSymlink, dir, [][]any{openBy("o", 1, 0), unchecked(bitmap()), byName("fifo")}},
			{nfsv4.ErrNotDir, o.fh, [][]any{openBy("o", 1, 0), noCreate(), byName("f")}},
			{nfsv4.ErrNotDir, o.fh, [][]any{openBy("o", 1, 0), unchecked(bitmap()), byName("f")}},
			{nfsv4.ErrNoGrace, dir, [][]any{openBy("o", 1, 0), noCreate(), {nfsv4.ClaimPrevious, 0}}},
			{nfsv4.ErrBadStateID, dir, [][]any{openBy("o", 1, 0), noCreate(), {nfsv4.ClaimDelegateCur, o.id, "f"}}},
			{nfsv4.ErrBadStateID, o.fh, [][]any{openBy("o", 1, 0), noCreate(), {nfsv4.ClaimDelegCurFH, o.id}}},
			{nfsv4.ErrReclaimBad, o.fh, [][]any{openBy("o", 1, 0), noCreate(), {nfsv4.ClaimDelegPrevFH}}},
			{nfsv4.ErrAttrNotSupp, dir, [][]any{openBy("o", 1, 0), unchecked(bitmap(nfsv4.AttrHidden), true), byName("new")}},
			{nfsv4.ErrInval, dir, [][]any{openBy("o", 1, 0), unchecked(bitmap(nfsv4.AttrFileID), uint64(1)), byName("new")}},
			{nfsv4.ErrBadXDR, dir, [][]any{openBy("o", 1, 0), {2}}},
			{nfsv4.ErrBadXDR, dir, [][]any{openBy("o", 1, 0), {nfsv4.OpenCreate, 4}}},
			{nfsv4.ErrBadXDR, dir, [][]any{openBy("o", 1, 0), noCreate(), {7}}},
		} {
			if st := c.openStatus(x.fh, x.parts...); st != x.want {
				t.Errorf("%v: got %v, want %v", x.parts, st, x.want)
			}
		}
		for name, want := range map[string]nfsv4.Status{"sub": nfsv4.ErrIsDir, "link": nfsv4.ErrSymlink, "fifo": nfsv4.ErrSymlink} {
			fh := c.fh("data", name)
			if st := c.openStatus(fh, openBy("o", 1, 0), noCreate(), []any{nfsv4.ClaimFH}); st != want {
				t.Errorf("CLAIM_FH of %s: %v", name, st)
			}
			if name == "fifo" {
				want = nfsv4.ErrWrongType // only OPEN keeps SYMLINK for it
			}
			c.expect(want, fh, nfsv4.OpCommit, uint64(0), 0)
			c.expect(want, fh, nfsv4.OpLockT, nfsv4.LockRead, uint64(0), uint64(1), uint64(0), "l")
			c.expect(want, fh, nfsv4.OpRead, nfsv4.AnonymousStateID, uint64(0), 1)
			c.expect(want, fh, nfsv4.OpWrite, nfsv4.AnonymousStateID, uint64(0), 0, "x")
		}
		// By handle, and wishes for delegations.
		if st := c.openStatus(o.fh, openBy("o", 3, 0), noCreate(), []any{nfsv4.ClaimFH}); st != nfsv4.OK {
			t.Errorf("CLAIM_FH: %v", st)
		}
		for wish, why := range map[uint32]uint32{
			nfsv4.WantNoDeleg: nfsv4.WhyNotWanted, nfsv4.WantCancel: nfsv4.WhyCancelled,
			nfsv4.WantReadDeleg: nfsv4.WhyResource, nfsv4.WantAnyDeleg | nfsv4.WantPushDelegUncont: nfsv4.WhyResource,
		} {
			got := c.open(dir, openBy("o", int(wish)|1, 0), noCreate(), byName("f"))
			if got.deleg != nfsv4.DelegateNoneExt || got.why != why {
				t.Errorf("wish %#x: type %d, reason %d", wish, got.deleg, got.why)
			}
		}
	})
}

func TestOpenShareAndDeny(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "f", 0o644)
		c.write(o, 0, "keep", nfsv4.FileSync)
		c.expect(nfsv4.OK, o.fh, nfsv4.OpClose, 0, o.id)
		denier := c.open(dir, openBy("d", 1, 2), noCreate(), byName("f"))
		if st := c.openStatus(dir, openBy("w", 2, 0), noCreate(), byName("f")); st != nfsv4.ErrShareDenied {
			t.Errorf("open for writing: %v", st)
		}
		// Refused before it is cut.
		if st := c.openStatus(dir, openBy("w", 3, 0), unchecked(bitmap(nfsv4.AttrSize), uint64(0)), byName("f")); st != nfsv4.ErrShareDenied {
			t.Errorf("open with truncation: %v", st)
		}
		if size := c.attr(o.fh, nfsv4.AttrSize); size != 4 {
			t.Errorf("size %d", size)
		}
		c.expect(nfsv4.ErrLocked, o.fh, nfsv4.OpWrite, nfsv4.AnonymousStateID, uint64(0), 0, "x")
		c.expect(nfsv4.ErrLocked, o.fh, nfsv4.OpSetAttr, nfsv4.AnonymousStateID, attrs(bitmap(nfsv4.AttrSize), uint64(0)))
		c.expect(nfsv4.OK, o.fh, nfsv4.OpClose, 0, denier.id)
		c.open(dir, openBy("w", 2, 0), noCreate(), byName("f"))
		// Who may not write may not keep others from reading.
		c.cred = bob
		if st := c.openStatus(dir, openBy("b", 1, 1), noCreate(), byName("f")); st != nfsv4.ErrAccess {
			t.Errorf("deny of reading by one who may not write: %v", st)
		}
	})
}

func TestOpenDowngradeAndCurrentStateID(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		c.create(dir, "f", 0o644)
		o := c.open(dir, openBy("owner", 1, 0), noCreate(), byName("f"))
		c.expect(nfsv4.ErrInval, o.fh, nfsv4.OpOpenDowngrade, o.id, 0, 0, 0)
		c.expect(nfsv4.ErrInval, o.fh, nfsv4.OpOpenDowngrade, o.id, 0, 2, 0) // was never opened so
		r := c.doOn(c.on(o.fh).add(nfsv4.OpOpenDowngrade, o.id, 0, 1, 0).
			add(nfsv4.OpRead, nfsv4.CurrentStateID, uint64(0), 10).
			add(nfsv4.OpWrite, nfsv4.CurrentStateID, uint64(0), 0, "x"))
		id := r.op(nfsv4.OpOpenDowngrade, nfsv4.OK).stateID()
		if id.Seq != o.id.Seq+1 || id.Other != o.id.Other {
			t.Errorf("stateid %v after %v", id, o.id)
		}
		r.op(nfsv4.OpRead, nfsv4.OK).skip(8)
		r.op(nfsv4.OpWrite, nfsv4.ErrOpenMode).end()
		c.expect(nfsv4.ErrOldStateID, o.fh, nfsv4.OpClose, 0, o.id)

		// OPEN, WRITE and CLOSE in one COMPOUND; PUTFH forgets the stateid, SAVEFH
		// and RESTOREFH carry it along.
		open := join(openBy("x", 3, 0), unchecked(bitmap()), byName("y"))
		r = c.doOn(c.on(dir).add(nfsv4.OpOpen, open...).
			add(nfsv4.OpWrite, nfsv4.CurrentStateID, uint64(0), 0, "x").add(nfsv4.OpSaveFH).add(nfsv4.OpPutFH, dir).
			add(nfsv4.OpRestoreFH).add(nfsv4.OpClose, 0, nfsv4.CurrentStateID))
		r.op(nfsv4.OpOpen, nfsv4.OK).opened()
		r.op(nfsv4.OpWrite, nfsv4.OK).skip(16).op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpPutFH, nfsv4.OK).
			op(nfsv4.OpRestoreFH, nfsv4.OK).op(nfsv4.OpClose, nfsv4.OK).skip(16).end()
		r = c.doOn(c.on(dir).add(nfsv4.OpOpen, open...).add(nfsv4.OpPutFH, dir).add(nfsv4.OpClose, 0, nfsv4.CurrentStateID))
		r.op(nfsv4.OpOpen, nfsv4.OK).opened()
		r.op(nfsv4.OpPutFH, nfsv4.OK).op(nfsv4.OpClose, nfsv4.ErrBadStateID).end()
	})
}

func TestOpenOnReadOnlyExport(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		c.create(dir, "f", 0o666)
		ro := c.fh("ro")
		o := c.open(ro, openBy("o", 1, 0), noCreate(), byName("f"))
		o = c.open(ro, openBy("o", 1, 0), unchecked(bitmap(nfsv4.AttrMode), 0o600), byName("f"))
		for _, x := range []struct {
			want  nfsv4.Status
			parts [][]any
		}{
			{nfsv4.ErrROFS, [][]any{openBy("o", 2, 0), noCreate(), byName("f")}},
			{nfsv4.ErrROFS, [][]any{openBy("o", 3, 0), unchecked(bitmap()), byName("f")}},
			{nfsv4.ErrROFS, [][]any{openBy("o", 1, 0), unchecked(bitmap()), byName("new")}},
			{nfsv4.ErrROFS, [][]any{openBy("o", 1, 0), guarded(bitmap()), byName("new")}},
			{nfsv4.ErrExist, [][]any{openBy("o", 1, 0), guarded(bitmap()), byName("f")}},
			{nfsv4.ErrROFS, [][]any{openBy("o", 1, 0), unchecked(bitmap(nfsv4.AttrSize), uint64(0)), byName("f")}},
		} {
			if st := c.openStatus(ro, x.parts...); st != x.want {
				t.Errorf("%v: got %v, want %v", x.parts, st, x.want)
			}
		}
		// A read lock is granted, a write lock is not.
		lock := func(kind uint32) []any {
			return []any{kind, false, uint64(0), uint64(10), true, 0, o.id, 0, uint64(0), "locker"}
		}
		c.expect(nfsv4.OK, o.fh, nfsv4.OpLock, lock(nfsv4.LockRead)...)
		c.expect(nfsv4.ErrOpenMode, o.fh, nfsv4.OpLock, lock(nfsv4.LockWrite)...)
	})
}

// OPEN before RECLAIM_COMPLETE is told to wait (RFC 8881 section 18.51.3).
func TestOpenBeforeReclaimComplete(t *testing.T) {
	s := newSite(t)
	c := s.newStarting(1, "client", channel(2<<20, 2<<20, 4096, 64, 4))
	dir := c.fh("data")
	if st := c.openStatus(dir, openBy("o", 3, 0), unchecked(bitmap()), byName("f")); st != nfsv4.ErrGrace {
		t.Errorf("OPEN: %v", st)
	}
	c.do(c.with().add(nfsv4.OpReclaimComplete, true)).op(nfsv4.OpReclaimComplete, nfsv4.ErrNoFileHandle)
	c.do(c.with().add(nfsv4.OpReclaimComplete, false)).op(nfsv4.OpReclaimComplete, nfsv4.OK)
	c.do(c.with().add(nfsv4.OpReclaimComplete, false)).op(nfsv4.OpReclaimComplete, nfsv4.ErrCompleteAlready)
	c.open(dir, openBy("o", 3, 0), unchecked(bitmap()), byName("f"))
}

// Who may only read a file cannot keep others from reading it, whichever way it
// is opened; who makes it can, whatever mode it gets.
func TestOpenDenyReadNeedsWrite(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "f", 0o644)
		c.expect(nfsv4.OK, o.fh, nfsv4.OpClose, 0, o.id)
		c.cred = bob
		for name, how := range map[string][]any{"plain": noCreate(), "create": unchecked(bitmap())} {
			if st := c.openStatus(dir, openBy(name, 1, 1), how, byName("f")); st != nfsv4.ErrAccess {
				t.Errorf("%s: %v", name, st)
			}
		}
		c.cred = root
		if st := c.openStatus(dir, openBy("owner", 1, 0), noCreate(), byName("f")); st != nfsv4.OK {
			t.Errorf("the owner is kept out: %v", st)
		}
		made := unchecked(bitmap(nfsv4.AttrMode), 0o444)
		if st := c.openStatus(dir, openBy("maker", 1, 1), made, byName("g")); st != nfsv4.OK {
			t.Errorf("of a new file: %v", st)
		}
	})
}
