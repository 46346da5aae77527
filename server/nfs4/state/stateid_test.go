package state

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"capstan/server/nfs4/nfsv4"
)

func TestStateIDRules(t *testing.T) { // RFC 8881 sections 8.2.2 to 8.2.4, 18.48
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	id := p.mustOpen("o", key(1), read, none)
	id = p.mustOpen("o", key(1), read, none)
	seq := func(n uint32) nfsv4.StateID { i := id; i.Seq = n; return i }
	earlier := nfsv4.MakeStateID(w.s.Instance().ID+1, 1)
	for name, c := range map[string]struct {
		id   nfsv4.StateID
		want nfsv4.Status
	}{
		"current":          {id, ok},
		"newest":           {seq(0), ok},
		"old":              {seq(1), nfsv4.ErrOldStateID},
		"future":           {seq(3), nfsv4.ErrBadStateID},
		"earlier instance": {earlier, nfsv4.ErrBadStateID},
		"anonymous":        {nfsv4.AnonymousStateID, nfsv4.ErrBadStateID},
		"bypass":           {nfsv4.BypassStateID, nfsv4.ErrBadStateID},
		"unknown":          {nfsv4.MakeStateID(w.s.Instance().ID, 1<<60), nfsv4.ErrBadStateID},
	} {
		w.want(p.test(c.id)[0], c.want, "TEST_STATEID "+name)
		if !c.id.Special() {
			w.want(p.use(c.id, key(1), read), c.want, "READ "+name)
		}
	}
	w.want(q.test(id)[0], nfsv4.ErrBadStateID, "another client's")
	w.want(q.use(id, key(1), read), nfsv4.ErrBadStateID, "READ with another client's")
	w.want(p.use(id, key(2), read), nfsv4.ErrBadStateID, "READ of another file")
	other := key(1)
	other.Export = 2
	w.want(p.use(id, other, read), nfsv4.ErrBadStateID, "READ in another export")
	w.want(p.use(id, key(1), 0), ok, "SETATTR")
}

func TestFreeStateID(t *testing.T) { // 18.38
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	open := p.mustOpen("o", key(1), both, none)
	w.want(p.free(open), nfsv4.ErrLocksHeld, "an open")
	w.want(p.free(nfsv4.AnonymousStateID), nfsv4.ErrBadStateID, "a special one")
	id, _, st := p.lock("l", open, key(1), LockRange{Offset: 5, Length: 5})
	w.want(st, ok, "LOCK")
	w.want(p.free(id), nfsv4.ErrLocksHeld, "with a lock")
	id2, st := p.unlock(id, key(1), LockRange{Length: ^uint64(0)})
	w.want(st, ok, "LOCKU")
	w.want(p.free(id), nfsv4.ErrOldStateID, "an old one")
	w.want(p.use(id2, key(1), read), ok, "READ with a lock stateid without locks")
	w.want(p.free(id2), ok, "without locks")
	w.want(p.free(id2), nfsv4.ErrBadStateID, "again")
	w.want(p.close(open, key(1)), ok, "CLOSE")
	w.empty()
}

func TestRemovedExport(t *testing.T) {
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	in := func(export uint32, ino uint64) FileKey { k := key(ino); k.Export = export; return k }
	gone := p.mustOpen("o", in(1, 1), both, both)
	lock, _, st := p.lock("l", gone, in(1, 1), LockRange{Write: true, Length: 1})
	w.want(st, ok, "LOCK")
	stays := p.mustOpen("o", in(2, 2), both, none)
	q.mustOpen("o", in(2, 2), both, none)
	var pending *PendingOpen
	q.do(func(c *Client) {
		pending, st = c.BeginOpen(context.Background(), &OpenArgs{Owner: []byte("x"), Key: in(1, 7), Access: read})
		w.want(st, ok, "BeginOpen")
		w.s.KeepExports(context.Background(), func(id uint32) bool { return id == 2 })
		_, st = pending.Commit(w.vol.file(in(1, 7).Object, read))
		w.want(st, nfsv4.ErrStale, "Commit in a removed export")
	})
	if locks, open := w.vol.held(); locks != 0 || open != 1 {
		t.Errorf("%d locks, %d files open", locks, open)
	}
	if got := p.test(gone, lock, stays); got[0] != nfsv4.ErrAdminRevoked || got[1] != nfsv4.ErrAdminRevoked || got[2] != ok {
		t.Errorf("TEST_STATEID %v", got)
	}
	w.want(p.use(gone, in(1, 1), read), nfsv4.ErrAdminRevoked, "READ")
	w.want(p.close(gone, in(1, 1)), nfsv4.ErrAdminRevoked, "CLOSE")
	flags := func() uint32 {
		var u SlotUse
		w.want(p.sequence(&u), ok, "SEQUENCE")
		defer u.Finish(nil)
		return u.Result.StatusFlags
	}
	if flags() != nfsv4.SeqAdminStateRevoked {
		t.Errorf("flags %x", flags())
	}
	w.want(p.free(gone), ok, "FREE_STATEID")
	if flags() != nfsv4.SeqAdminStateRevoked {
		t.Error("flag gone too early")
	}
	w.want(p.free(lock), ok, "FREE_STATEID")
	if flags() != 0 {
		t.Errorf("flags %x when all is acknowledged", flags())
	}
	// It comes back: a fresh start.
	p.mustOpen("o", in(1, 1), both, both)
	w.s.KeepExports(context.Background(), func(uint32) bool { return false })
	w.empty()
	q.alive()
}

// TestStateIDModel follows the sequence numbers of an open and its lock
// through every operation that moves them.
func TestStateIDModel(t *testing.T) { // RFC 8881 section 8.2.2
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	rapid.Check(t, func(t *rapid.T) {
		open := p.mustOpen("o", key(1), both, none)
		var lock nfsv4.StateID
		haveLock := false
		// given returns the newest stateid, or seq 0, or a wrong one, and what
		// that answers.
		given := func(t *rapid.T, id nfsv4.StateID) (nfsv4.StateID, nfsv4.Status) {
			switch n := rapid.IntRange(-2, 3).Draw(t, "which"); n {
			case 3:
				return newestOf(id), ok
			case 0:
				return id, ok
			default:
				i := id
				i.Seq += uint32(n)
				switch {
				case i.Seq == 0:
					return i, ok
				case n < 0:
					return i, nfsv4.ErrOldStateID
				}
				return i, nfsv4.ErrBadStateID
			}
		}
		follows := func(t *rapid.T, id nfsv4.StateID, now *nfsv4.StateID, st, want nfsv4.Status) {
			expect(t, st, want)
			if st != ok {
				return
			}
			if id.Other != now.Other || id.Seq != now.Seq+1 {
				t.Fatalf("%v behind %v", id, *now)
			}
			*now = id
		}
		r := LockRange{Length: 10}
		t.Repeat(map[string]func(*rapid.T){
			"reopen": func(t *rapid.T) {
				id, st := p.open("o", key(1), read, none)
				follows(t, id, &open, st, ok)
			},
			"downgrade": func(t *rapid.T) {
				id, want := given(t, open)
				var st nfsv4.Status
				var n nfsv4.StateID
				p.do(func(c *Client) { n, st = c.OpenDowngrade(context.Background(), id, key(1), both, none) })
				follows(t, n, &open, st, want)
			},
			"lock": func(t *rapid.T) {
				if !haveLock {
					id, want := given(t, open)
					n, _, st := p.lock("l", id, key(1), r)
					expect(t, st, want)
					if haveLock = st == ok; haveLock {
						if lock = n; n.Seq != 1 {
							t.Fatalf("first lock stateid %v", n)
						}
					}
					return
				}
				id, want := given(t, lock)
				n, _, st := p.relock(id, key(1), r)
				follows(t, n, &lock, st, want)
			},
			"unlock": func(t *rapid.T) {
				if !haveLock {
					t.Skip()
				}
				id, want := given(t, lock)
				n, st := p.unlock(id, key(1), r)
				follows(t, n, &lock, st, want)
			},
			"use": func(t *rapid.T) {
				id, want := given(t, open)
				expect(t, p.use(id, key(1), read), want)
				expect(t, p.test(id)[0], want)
			},
		})
		expect(t, p.close(open, key(1)), ok)
		w.empty()
	})
}

func TestSeqSkipsZero(t *testing.T) { // 8.2.2: 0 means the newest
	if nextSeq(1<<32-1) != 1 || nextSeq(1) != 2 {
		t.Error("nextSeq")
	}
}
