package nfs4

import (
	"testing"

	"capstan/server/nfs4/nfsv4"
)

const toEnd = nfsv4.LockToEndLength

// lockNew is LOCK by a new lock-owner, lockOld by one that has a stateid.
func lockNew(kind uint32, off, n uint64, open nfsv4.StateID, owner string) []any {
	return []any{kind, false, off, n, true, 0, open, 0, uint64(0), owner}
}

func lockOld(kind uint32, off, n uint64, id nfsv4.StateID) []any {
	return []any{kind, false, off, n, false, id, 0}
}

type denied struct {
	off, n uint64
	kind   uint32
	client uint64
	owner  string
}

func (r *reply) denied() denied {
	return denied{r.Uint64("offset"), r.Uint64("length"), r.Uint32("type"), r.Uint64("clientid"), r.String("owner", 1024)}
}

func TestLocksOfTwoClients(t *testing.T) {
	for _, minor := range []uint32{1, 2} {
		s := newSite(t)
		c1, c2 := s.newClient(minor, "one"), s.newClient(minor, "two")
		dir := c1.fh("data")
		o1 := c1.create(dir, "f", 0o666)
		o2 := c2.open(dir, openBy("o", 3, 0), noCreate(), byName("f"))

		id := c1.doOn(c1.on(o1.fh).add(nfsv4.OpLock, lockNew(nfsv4.LockWrite, 0, 100, o1.id, "A")...)).op(nfsv4.OpLock, nfsv4.OK).stateID()
		want := denied{0, 100, nfsv4.LockWrite, uint64(c1.id), "A"}
		r := c2.doOn(c2.on(o2.fh).add(nfsv4.OpLock, lockNew(nfsv4.LockWriteBlock, 50, 100, o2.id, "B")...)).op(nfsv4.OpLock, nfsv4.ErrDenied)
		if got := r.denied(); got != want {
			t.Errorf("LOCK denied by %+v, want %+v", got, want)
		}
		r.end()
		r = c2.doOn(c2.on(o2.fh).add(nfsv4.OpLockT, nfsv4.LockRead, uint64(99), toEnd, uint64(0), "B")).op(nfsv4.OpLockT, nfsv4.ErrDenied)
		if got := r.denied(); got != want {
			t.Errorf("LOCKT denied by %+v, want %+v", got, want)
		}
		r.end()
		c2.expect(nfsv4.OK, o2.fh, nfsv4.OpLockT, nfsv4.LockRead, uint64(100), toEnd, uint64(0), "B")
		c1.expect(nfsv4.OK, o1.fh, nfsv4.OpLockT, nfsv4.LockWrite, uint64(0), toEnd, uint64(0), "A") // its own

		// Split in the middle, to the end of all numbers, and back.
		r = c1.doOn(c1.on(o1.fh).add(nfsv4.OpLock, lockOld(nfsv4.LockRead, 40, toEnd, id)...)).op(nfsv4.OpLock, nfsv4.OK)
		id = r.stateID()
		r = c1.doOn(c1.on(o1.fh).add(nfsv4.OpLockU, nfsv4.LockRead, 0, id, uint64(60), uint64(20))).op(nfsv4.OpLockU, nfsv4.OK)
		if next := r.stateID(); next.Seq != id.Seq+1 {
			t.Errorf("stateid %v after %v", next, id)
		} else {
			c1.expect(nfsv4.ErrOldStateID, o1.fh, nfsv4.OpLockU, nfsv4.LockRead, 0, id, uint64(0), toEnd)
			id = next
		}
		c2.expect(nfsv4.OK, o2.fh, nfsv4.OpLockT, nfsv4.LockWrite, uint64(60), uint64(20), uint64(0), "B")
		c2.expect(nfsv4.ErrDenied, o2.fh, nfsv4.OpLockT, nfsv4.LockWrite, uint64(1<<63), uint64(1), uint64(0), "B")
		c2.expect(nfsv4.OK, o2.fh, nfsv4.OpLockT, nfsv4.LockRead, uint64(1<<63), uint64(1), uint64(0), "B")

		for _, x := range []struct{ off, n uint64 }{{0, 0}, {1, toEnd - 1}, {toEnd, 2}} {
			want := nfsv4.ErrInval
			if x.off == 1 {
				want = nfsv4.OK // ends at the largest number
			}
			c1.expect(want, o1.fh, nfsv4.OpLockT, nfsv4.LockRead, x.off, x.n, uint64(0), "A")
		}
		c1.expect(nfsv4.ErrBadXDR, o1.fh, nfsv4.OpLockT, 0, uint64(0), uint64(1), uint64(0), "A")
		c1.expect(nfsv4.ErrBadXDR, o1.fh, nfsv4.OpLockT, 5, uint64(0), uint64(1), uint64(0), "A")
		c1.expect(nfsv4.ErrIsDir, dir, nfsv4.OpLockT, nfsv4.LockRead, uint64(0), uint64(1), uint64(0), "A")
		c1.expect(nfsv4.ErrIsDir, dir, nfsv4.OpLock, lockNew(nfsv4.LockRead, 0, 1, o1.id, "A")...)
		c1.expect(nfsv4.ErrBadStateID, o1.fh, nfsv4.OpLock, lockNew(nfsv4.LockRead, 0, 1, nfsv4.AnonymousStateID, "A")...)

		// CLOSE gives back what is held.
		c1.expect(nfsv4.OK, o1.fh, nfsv4.OpClose, 0, o1.id)
		c2.expect(nfsv4.OK, o2.fh, nfsv4.OpLock, lockNew(nfsv4.LockWrite, 0, toEnd, o2.id, "B")...)
		c1.expect(nfsv4.ErrBadStateID, o1.fh, nfsv4.OpLock, lockOld(nfsv4.LockRead, 0, 1, id)...)
	}
}

// A record is appended under a whole-file lock in one COMPOUND: the lock's
// stateid is the current one.
func TestLockIsTheCurrentStateID(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "f", 0o644)
		r := c.doOn(c.on(o.fh).add(nfsv4.OpLock, lockNew(nfsv4.LockWrite, 0, toEnd, o.id, "A")...).
			add(nfsv4.OpWrite, nfsv4.CurrentStateID, uint64(0), nfsv4.FileSync, "record").
			add(nfsv4.OpLockU, nfsv4.LockWrite, 0, nfsv4.CurrentStateID, uint64(0), toEnd))
		id := r.op(nfsv4.OpLock, nfsv4.OK).stateID()
		r.op(nfsv4.OpWrite, nfsv4.OK).skip(16)
		if after := r.op(nfsv4.OpLockU, nfsv4.OK).stateID(); after.Other != id.Other || after.Seq != id.Seq+1 {
			t.Errorf("stateid %v after %v", after, id)
		}
		r.end()

		// What TEST_STATEID and FREE_STATEID say of it.
		id.Seq++
		bad := id
		bad.Other[5] ^= 1
		r = c.do(c.with().add(nfsv4.OpTestStateID, 3, id, bad, nfsv4.AnonymousStateID)).op(nfsv4.OpTestStateID, nfsv4.OK)
		if n, a, b, s := r.Uint32(""), r.Uint32(""), r.Uint32(""), r.Uint32(""); n != 3 || a != 0 || nfsv4.Status(b) != nfsv4.ErrBadStateID || nfsv4.Status(s) != nfsv4.ErrBadStateID {
			t.Errorf("TEST_STATEID: %d, %d, %d, %d", n, a, b, s)
		}
		c.expect(nfsv4.OK, o.fh, nfsv4.OpFreeStateID, id)
		c.expect(nfsv4.ErrBadStateID, o.fh, nfsv4.OpFreeStateID, id)
		c.expect(nfsv4.ErrLocksHeld, o.fh, nfsv4.OpFreeStateID, o.id)
	})
}
