package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"capstan/server/nfs4/nfsv4"
)

func TestShareConflicts(t *testing.T) { // RFC 8881 section 9.7
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	for a1 := read; a1 <= both; a1++ {
		for d1 := none; d1 <= both; d1++ {
			id := p.mustOpen("o", key(1), a1, d1)
			for a2 := read; a2 <= both; a2++ {
				for d2 := none; d2 <= both; d2++ {
					want := ok
					if a1&d2 != 0 || d1&a2 != 0 {
						want = nfsv4.ErrShareDenied
					}
					id2, st := q.open("o", key(1), a2, d2)
					w.want(st, want, fmt.Sprintf("access %d deny %d behind access %d deny %d", a2, d2, a1, d1))
					if st == ok {
						w.want(q.close(id2, key(1)), ok, "CLOSE")
					}
					// Another owner of the same client is another owner.
					id3, st := p.open("o2", key(1), a2, d2)
					w.want(st, want, "the same client")
					if st == ok {
						w.want(p.close(id3, key(1)), ok, "CLOSE")
					}
				}
			}
			w.want(p.close(id, key(1)), ok, "CLOSE")
		}
	}
	w.empty()
}

func TestOpenArguments(t *testing.T) { // 18.16
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	for _, c := range []struct{ a, d Access }{{0, 0}, {4, 0}, {read, 4}, {7, 0}} {
		_, st := p.open("o", key(1), c.a, c.d)
		w.want(st, nfsv4.ErrInval, fmt.Sprint(c))
	}
}

func TestOpenUpgradeAndDowngrade(t *testing.T) { // 18.16.3, 18.18
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	first := p.mustOpen("o", key(1), read, none)
	w.want(p.use(first, key(1), read), ok, "READ")
	w.want(p.use(first, key(1), write), nfsv4.ErrOpenMode, "WRITE")
	second := p.mustOpen("o", key(1), write, write)
	if second.Other != first.Other || second.Seq != first.Seq+1 {
		t.Fatalf("upgrade %v of %v", second, first)
	}
	w.want(p.use(first, key(1), read), nfsv4.ErrOldStateID, "the older stateid")
	w.want(p.use(second, key(1), write), ok, "WRITE")
	_, st := q.open("o", key(1), write, none)
	w.want(st, nfsv4.ErrShareDenied, "the denied write")

	down := func(id nfsv4.StateID, a, d Access) (n nfsv4.StateID, st nfsv4.Status) {
		p.do(func(c *Client) { n, st = c.OpenDowngrade(context.Background(), id, key(1), a, d) })
		return n, st
	}
	for _, bad := range []struct{ a, d Access }{{0, 0}, {read, write}, {both, none}, {both, both}, {write, none}, {8, 0}} {
		_, st := down(second, bad.a, bad.d)
		w.want(st, nfsv4.ErrInval, fmt.Sprintf("OPEN_DOWNGRADE to %v", bad))
	}
	same, st := down(second, both, write)
	w.want(st, ok, "OPEN_DOWNGRADE to what there is")
	third, st := down(same, read, none)
	w.want(st, ok, "OPEN_DOWNGRADE")
	if third.Other != first.Other || third.Seq != 4 {
		t.Errorf("stateid %v", third)
	}
	w.want(p.use(third, key(1), write), nfsv4.ErrOpenMode, "WRITE afterwards")
	_, st = down(third, both, write)
	w.want(st, nfsv4.ErrInval, "back up again")
	other := q.mustOpen("o", key(1), write, none)
	w.want(q.close(other, key(1)), ok, "CLOSE")
	w.want(p.close(third, key(1)), ok, "CLOSE")
	w.want(p.close(third, key(1)), nfsv4.ErrBadStateID, "CLOSE again")
	w.empty()
}

// One OPEN for both is not two: it cannot be taken down to a part.
func TestOpenDowngradeOfOneOpen(t *testing.T) { // 18.18.3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	id := p.mustOpen("o", key(1), both, none)
	p.do(func(c *Client) {
		_, st := c.OpenDowngrade(context.Background(), id, key(1), read, none)
		w.want(st, nfsv4.ErrInval, "OPEN_DOWNGRADE")
	})
}

func TestCloseReturnsInvalidStateID(t *testing.T) { // 18.2.3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	id := p.mustOpen("o", key(1), both, none)
	p.do(func(c *Client) {
		_, st := c.Close(context.Background(), id, key(2))
		w.want(st, nfsv4.ErrBadStateID, "CLOSE of another file")
		got, st := c.Close(context.Background(), newestOf(id), key(1))
		w.want(st, ok, "CLOSE")
		if got != nfsv4.InvalidStateID {
			t.Errorf("stateid %v", got)
		}
	})
}

func TestFilesAreShared(t *testing.T) {
	w := newWorld(t, nil)
	var ps []*peer
	var ids []nfsv4.StateID
	for i := range 20 {
		p := w.connect(fmt.Sprint(i), 1)
		ps, ids = append(ps, p), append(ids, p.mustOpen("o", key(1), read, none))
	}
	p := w.connect("w", 1)
	wid := p.mustOpen("o", key(1), write, none)
	rw := p.mustOpen("p", key(1), both, none)
	if _, open := w.vol.held(); open != 3 {
		t.Errorf("%d files open for 22 opens of three modes", open)
	}
	p.mustOpen("q", key(1), read, none)
	if _, open := w.vol.held(); open != 3 {
		t.Errorf("%d files open", open)
	}
	w.want(p.close(wid, key(1)), ok, "CLOSE")
	w.want(p.close(rw, key(1)), ok, "CLOSE")
	for i := range ps {
		w.want(ps[i].use(ids[i], key(1), read), ok, "READ")
	}
	if _, open := w.vol.held(); open != 1 {
		t.Errorf("%d files open for readers", open)
	}
}

// A READ that runs while its file is closed keeps the file open to its end.
func TestUseOutlivesClose(t *testing.T) {
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	id := p.mustOpen("o", key(1), read, none)
	var u FileUse
	p.do(func(c *Client) {
		var st nfsv4.Status
		u, st = c.Use(context.Background(), id, key(1), read)
		w.want(st, ok, "READ")
	})
	w.want(p.close(id, key(1)), ok, "CLOSE")
	if _, open := w.vol.held(); open != 1 {
		t.Fatal("closed under a READ")
	}
	again := p.mustOpen("o", key(1), read, none) // a new file record meanwhile
	u.Release()
	u.Release()
	if _, open := w.vol.held(); open != 1 {
		t.Errorf("%d open", open)
	}
	w.want(p.close(again, key(1)), ok, "CLOSE")
	w.empty()
}

func TestPendingOpen(t *testing.T) {
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	p.do(func(c *Client) {
		po, st := c.BeginOpen(context.Background(), &OpenArgs{Owner: []byte("o"), Key: key(1), Access: write, Deny: both})
		w.want(st, ok, "BeginOpen")
		_, st = q.open("o", key(1), read, none)
		w.want(st, nfsv4.ErrShareDenied, "against a reservation")
		po.Abort()
		po.Abort()
		w.empty()
		id, st := q.open("o", key(1), read, none)
		w.want(st, ok, "once it is dropped")
		_, st = po.Commit(w.vol.file(key(1).Object, both))
		w.want(st, nfsv4.ErrServerFault, "Commit after Abort")
		w.want(q.close(id, key(1)), ok, "CLOSE")
	})
	w.empty()
}

// A client that is replaced in the middle of an OPEN gets no state.
func TestPendingOpenOfReplacedClient(t *testing.T) {
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	p.do(func(c *Client) {
		po, st := c.BeginOpen(context.Background(), &OpenArgs{Owner: []byte("o"), Key: key(1), Access: write})
		w.want(st, ok, "BeginOpen")
		w.connect("a", 2)
		_, st = po.Commit(w.vol.file(key(1).Object, write))
		w.want(st, nfsv4.ErrExpired, "Commit")
		po.Abort()
		_, st = c.BeginOpen(context.Background(), &OpenArgs{Owner: []byte("o"), Key: key(1), Access: write})
		w.want(st, nfsv4.ErrExpired, "BeginOpen")
		_, st = c.Use(context.Background(), nfsv4.MakeStateID(w.s.Instance().ID, 5), key(1), read)
		w.want(st, nfsv4.ErrExpired, "READ")
	})
	w.empty()
}

func TestOpensAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.MaxOpens = 5 })
	p := w.connect("a", 1)
	var id nfsv4.StateID
	for i := range uint64(5) {
		id = p.mustOpen("o", key(i), read, none)
	}
	_, st := p.open("o", key(9), read, none)
	w.want(st, nfsv4.ErrDelay, "OPEN of one too many")
	w.want(p.close(id, key(4)), ok, "CLOSE")
	p.mustOpen("o", key(9), read, none)
}

func TestDenyAgainstSpecialStateIDs(t *testing.T) { // 8.2.3
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	p.mustOpen("o", key(1), read, write)
	p.mustOpen("o", key(2), write, read)
	for _, c := range []struct {
		id   nfsv4.StateID
		k    FileKey
		want Access
		st   nfsv4.Status
	}{
		{nfsv4.AnonymousStateID, key(1), read, ok},
		{nfsv4.AnonymousStateID, key(1), write, nfsv4.ErrLocked},
		{nfsv4.AnonymousStateID, key(2), read, nfsv4.ErrLocked},
		{nfsv4.AnonymousStateID, key(2), write, ok},
		{nfsv4.AnonymousStateID, key(3), both, ok},
		{nfsv4.BypassStateID, key(2), read, ok},
		{nfsv4.BypassStateID, key(1), write, nfsv4.ErrLocked},
		{nfsv4.CurrentStateID, key(3), read, nfsv4.ErrBadStateID},
		{nfsv4.InvalidStateID, key(3), read, nfsv4.ErrBadStateID},
	} {
		w.want(q.use(c.id, c.k, c.want), c.st, fmt.Sprint(c.id, c.k.Object.Ino, c.want))
	}
	w.want(w.s.CheckDeny(context.Background(), key(1), write), nfsv4.ErrLocked, "NFSv3 WRITE")
	w.advance(91 * time.Second)
	w.want(w.s.CheckDeny(context.Background(), key(1), write), ok, "NFSv3 WRITE when it has expired")
	if p.alive() {
		t.Error("half of the expired client is left")
	}
	w.want(w.s.CheckDeny(context.Background(), key(2), read), ok, "its other file")
}

// TestShareModel compares the share table with a list that is searched.
func TestShareModel(t *testing.T) { // RFC 8881 sections 9.7 to 9.9
	w := newWorld(t, nil)
	ps := []*peer{w.connect("a", 1), w.connect("b", 1)}
	rapid.Check(t, func(t *rapid.T) {
		type slot struct{ peer, owner int }
		type opened struct {
			id     nfsv4.StateID
			combos map[[2]Access]bool
		}
		held := map[slot]*opened{}
		union := func(o *opened, in func([2]Access) bool) (a, d Access) {
			for c := range o.combos {
				if in(c) {
					a, d = a|c[0], d|c[1]
				}
			}
			return a, d
		}
		all := func([2]Access) bool { return true }
		pick := func(t *rapid.T) slot {
			return slot{rapid.IntRange(0, 1).Draw(t, "peer"), rapid.IntRange(0, 1).Draw(t, "owner")}
		}
		share := func(t *rapid.T) (a, d Access) {
			return Access(rapid.IntRange(1, 3).Draw(t, "access")), Access(rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "deny"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				s := pick(t)
				a, d := share(t)
				want := ok
				for other, o := range held {
					oa, od := union(o, all)
					if other != s && (oa&d != 0 || od&a != 0) {
						want = nfsv4.ErrShareDenied
					}
				}
				id, st := ps[s.peer].open(fmt.Sprint(s.owner), key(1), a, d)
				expect(t, st, want)
				if st != ok {
					return
				}
				o := held[s]
				if o == nil {
					o = &opened{combos: map[[2]Access]bool{}}
					held[s] = o
				} else if id.Other != o.id.Other || id.Seq != o.id.Seq+1 {
					t.Fatalf("%v behind %v", id, o.id)
				}
				o.id, o.combos[[2]Access{a, d}] = id, true
			},
			"downgrade": func(t *rapid.T) {
				s := pick(t)
				o := held[s]
				if o == nil {
					t.Skip()
				}
				a, d := share(t)
				fits := func(c [2]Access) bool { return c[0]&^a == 0 && c[1]&^d == 0 }
				ua, ud := union(o, fits)
				var id nfsv4.StateID
				var st nfsv4.Status
				ps[s.peer].do(func(c *Client) { id, st = c.OpenDowngrade(context.Background(), o.id, key(1), a, d) })
				if ua != a || ud != d {
					expect(t, st, nfsv4.ErrInval)
					return
				}
				expect(t, st, ok)
				o.id = id
				for c := range o.combos {
					if !fits(c) {
						delete(o.combos, c)
					}
				}
			},
			"close": func(t *rapid.T) {
				s := pick(t)
				if o := held[s]; o != nil {
					expect(t, ps[s.peer].close(o.id, key(1)), ok)
					delete(held, s)
				}
			},
			"": func(t *rapid.T) {
				for s, o := range held {
					a, _ := union(o, all)
					for want := read; want <= write; want++ {
						st := ok
						if a&want == 0 {
							st = nfsv4.ErrOpenMode
						}
						expect(t, ps[s.peer].use(o.id, key(1), want), st)
					}
				}
			},
		})
		for s, o := range held {
			expect(t, ps[s.peer].close(o.id, key(1)), ok)
		}
		w.empty()
	})
}
