package state

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

func TestLockConflict(t *testing.T) { // RFC 8881 section 18.10
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	po, qo := p.mustOpen("o", key(1), both, none), q.mustOpen("o", key(1), both, none)
	id, _, st := p.lock("owner a", po, key(1), LockRange{Write: true, Offset: 100, Length: 100})
	w.want(st, ok, "LOCK")
	if id.Seq != 1 || id.Other == po.Other {
		t.Errorf("stateid %v", id)
	}
	_, d, st := q.lock("owner b", qo, key(1), LockRange{Offset: 150, Length: math.MaxUint64})
	w.want(st, nfsv4.ErrDenied, "LOCK of a locked range")
	if d == nil || d.ClientID != p.id || string(d.Owner) != "owner a" || d.Range != (LockRange{true, 100, 100}) {
		t.Errorf("denied by %+v", d)
	}
	if n := len(w.s.clients[q.id].lockOwners); n != 0 {
		t.Errorf("%d lock-owners left of a LOCK that failed", n)
	}
	_, _, st = q.lock("owner b", qo, key(1), LockRange{Write: true, Offset: 200, Length: math.MaxUint64})
	w.want(st, ok, "LOCK beside it")
	id, d, st = p.relock(id, key(1), LockRange{Write: true, Offset: 0, Length: 201})
	w.want(st, nfsv4.ErrDenied, "LOCK into the other's")
	if d.Range != (LockRange{true, 200, math.MaxUint64}) || d.ClientID != q.id {
		t.Errorf("denied by %+v", d)
	}
	_ = id
}

func TestLockRanges(t *testing.T) { // 18.10.3
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	po, qo := p.mustOpen("o", key(1), both, none), q.mustOpen("o", key(1), both, none)
	const top = math.MaxUint64
	for _, c := range []struct {
		off, n uint64
		want   nfsv4.Status
		end    uint64
	}{
		{0, 0, nfsv4.ErrInval, 0},
		{top, 0, nfsv4.ErrInval, 0},
		{0, 1, ok, 0},
		{top, top, ok, top},
		{0, top, ok, top},
		{5, top, ok, top},
		{top - 1, 1, ok, top - 1},
		{top, 1, nfsv4.ErrInval, 0},
		{top - 1, 2, nfsv4.ErrInval, 0},
		{1, top - 1, ok, top - 1},
		{2, top - 1, nfsv4.ErrInval, 0},
	} {
		r := LockRange{Write: true, Offset: c.off, Length: c.n}
		id, _, st := p.lock("l", po, key(1), r)
		w.want(st, c.want, "LOCK")
		var d *LockDenied
		q.do(func(cl *Client) {
			f := w.vol.file(key(1).Object, both)
			defer f.Close()
			d, st = cl.LockT(context.Background(), &LockTArgs{Range: r, Owner: []byte("l"), File: f})
		})
		if c.want != ok {
			w.want(st, c.want, "LOCKT")
			_, st = q.unlock(id, key(1), r)
			w.want(st, c.want, "LOCKU")
			continue
		}
		w.want(st, nfsv4.ErrDenied, "LOCKT")
		if l, _ := d.Range.lock(0); l.Start != c.off || l.End != c.end {
			t.Errorf("%d+%d is told as %+v", c.off, c.n, d.Range)
		}
		_, st = p.unlock(id, key(1), r)
		w.want(st, ok, "LOCKU")
	}
	w.want(q.close(qo, key(1)), ok, "CLOSE")
}

func TestLockModes(t *testing.T) { // 9.1.2, 18.10.3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	ro, wo := p.mustOpen("r", key(1), read, none), p.mustOpen("w", key(1), write, none)
	_, _, st := p.lock("l", ro, key(1), LockRange{Write: true, Length: 1})
	w.want(st, nfsv4.ErrOpenMode, "write lock on a read open")
	_, _, st = p.lock("l", wo, key(1), LockRange{Length: 1})
	w.want(st, nfsv4.ErrOpenMode, "read lock on a write open")
	id, _, st := p.lock("l", ro, key(1), LockRange{Length: 1})
	w.want(st, ok, "read lock")
	_, _, st = p.lock("l", id, key(1), LockRange{Length: 1})
	w.want(st, nfsv4.ErrBadStateID, "a lock stateid for an open's")
	_, _, st = p.relock(ro, key(1), LockRange{Length: 1})
	w.want(st, nfsv4.ErrBadStateID, "an open's stateid for a lock's")
	w.want(p.use(id, key(1), read), ok, "READ with the lock stateid")
	w.want(p.use(id, key(1), write), nfsv4.ErrOpenMode, "WRITE with the lock stateid of a read open")
	// The same lock-owner through another open of the file: the same stateid,
	// and the locks stay with the open last used.
	id2, _, st := p.lock("l", wo, key(1), LockRange{Write: true, Offset: 5, Length: 1})
	w.want(st, ok, "write lock through the other open")
	if id2.Other != id.Other || id2.Seq != id.Seq+1 {
		t.Errorf("stateid %v behind %v", id2, id)
	}
	w.want(p.close(ro, key(1)), ok, "CLOSE of the first open")
	if locks, _ := w.vol.held(); locks != 2 {
		t.Errorf("%d locks", locks)
	}
	p.do(func(c *Client) {
		_, _, st := c.Lock(context.Background(), &LockArgs{Key: key(1), StateID: id2, Reclaim: true, Range: LockRange{Length: 1}})
		w.want(st, nfsv4.ErrNoGrace, "reclaim")
	})
	w.want(p.close(wo, key(1)), ok, "CLOSE of the second")
	w.want(p.test(id2)[0], nfsv4.ErrBadStateID, "the lock stateid behind CLOSE")
	w.empty()
}

func TestLockT(t *testing.T) { // 18.11
	w := newWorld(t, nil)
	p, q := w.connect("a", 1), w.connect("b", 1)
	po := p.mustOpen("o", key(1), both, none)
	_, _, st := p.lock("l", po, key(1), LockRange{Length: 10})
	w.want(st, ok, "LOCK")
	test := func(x *peer, owner string, r LockRange) (d *LockDenied, st nfsv4.Status) {
		x.do(func(c *Client) {
			f := w.vol.file(key(1).Object, both)
			defer f.Close()
			d, st = c.LockT(context.Background(), &LockTArgs{Range: r, Owner: []byte(owner), File: f})
		})
		return d, st
	}
	_, st = test(p, "l", LockRange{Write: true, Length: 5})
	w.want(st, ok, "one's own")
	_, st = test(q, "l", LockRange{Length: 5})
	w.want(st, ok, "shared beside shared")
	d, st := test(q, "l", LockRange{Write: true, Offset: 9, Length: 5})
	w.want(st, nfsv4.ErrDenied, "exclusive over shared")
	if d.ClientID != p.id || d.Range != (LockRange{false, 0, 10}) {
		t.Errorf("denied by %+v", d)
	}
	d, st = test(p, "another owner", LockRange{Write: true, Length: 1})
	w.want(st, nfsv4.ErrDenied, "another owner of the same client")
	if string(d.Owner) != "l" {
		t.Errorf("denied by %+v", d)
	}
	w.advance(91 * time.Second)
	_, st = test(q, "l", LockRange{Write: true, Length: 5})
	w.want(st, ok, "over the lock of an expired client")
	if p.alive() {
		t.Error("half of the expired client is left")
	}
}

func TestLockOfAForeigner(t *testing.T) { // 18.10.3
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	po := p.mustOpen("o", key(1), both, none)
	for _, owner := range []uint64{0, 1 << 62} {
		w.vol.locks[key(1).Object].Lock(export.Lock{Owner: owner, Write: true, Start: 3, End: export.LockEnd})
		_, d, st := p.lock("l", po, key(1), LockRange{Length: 10})
		w.want(st, nfsv4.ErrDenied, "LOCK")
		if d.ClientID != 0 || d.Owner != nil || d.Range != (LockRange{true, 3, math.MaxUint64}) {
			t.Errorf("denied by %+v", d)
		}
		w.vol.locks[key(1).Object].UnlockOwner(owner)
	}
}

// What was in the way when the Volume looked, and is given back with its owner
// before the answer, is not in the way.
func TestLockGivenBackMeanwhile(t *testing.T) {
	for name, ask := range map[string]func(w *world, q *peer, open nfsv4.StateID) nfsv4.Status{
		"LOCK": func(w *world, q *peer, open nfsv4.StateID) nfsv4.Status {
			_, _, st := q.lock("l", open, key(1), LockRange{Write: true, Length: 10})
			return st
		},
		"LOCKT": func(w *world, q *peer, _ nfsv4.StateID) (st nfsv4.Status) {
			q.do(func(c *Client) {
				f := w.vol.file(key(1).Object, both)
				defer f.Close()
				_, st = c.LockT(context.Background(), &LockTArgs{Range: LockRange{Write: true, Length: 10}, Owner: []byte("l"), File: f})
			})
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			p, q := w.connect("a", 1), w.connect("b", 1)
			po, qo := p.mustOpen("o", key(1), both, none), q.mustOpen("o", key(1), both, none)
			_, _, st := p.lock("l", po, key(1), LockRange{Write: true, Length: 10})
			w.want(st, ok, "LOCK")
			w.vol.refused = func() { w.want(p.close(po, key(1)), ok, "CLOSE") }
			w.want(ask(w, q, qo), ok, name)
		})
	}
}

// A LOCK that fails leaves nothing, whatever the failure, even one that came
// when the Volume had already granted it.
func TestLockFailureIsUndone(t *testing.T) {
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	po := p.mustOpen("o", key(1), both, none)
	for err, want := range map[error]nfsv4.Status{
		export.ErrDelay:    nfsv4.ErrDelay,
		export.ErrNotSupp:  nfsv4.ErrLockNotSupp,
		export.ErrStale:    nfsv4.ErrStale,
		export.ErrDeadlock: nfsv4.ErrDeadlock,
		export.ErrCanceled: nfsv4.ErrDelay,
		export.ErrIO:       nfsv4.ErrServerFault,
		errFake:            nfsv4.ErrServerFault,
	} {
		w.vol.lockErr = err
		_, _, st := p.lock("l", po, key(1), LockRange{Length: 10})
		w.want(st, want, err.Error())
		w.vol.lockErr = nil
		w.vol.after = func(string) error { return err }
		_, _, st = p.lock("l", po, key(1), LockRange{Length: 10})
		w.want(st, want, err.Error())
		w.vol.after = nil
		if n := w.s.numbers.len(); n != 0 {
			t.Fatalf("%v: %d numbers left", err, n)
		}
		if locks, _ := w.vol.held(); locks != 0 {
			t.Fatalf("%v: %d locks left", err, locks)
		}
	}
	if c := w.s.clients[p.id]; c.locks != 0 || len(c.lockOwners) != 0 || len(c.states) != 1 {
		t.Errorf("%d locks, %d owners, %d states", c.locks, len(c.lockOwners), len(c.states))
	}
}

func TestLocksAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.MaxLocks, o.Limits.MaxRanges = 2, 3 })
	p := w.connect("a", 1)
	po := p.mustOpen("o", key(1), both, none)
	id, _, st := p.lock("1", po, key(1), LockRange{Length: 1})
	w.want(st, ok, "first")
	_, _, st = p.lock("2", po, key(1), LockRange{Length: 1})
	w.want(st, ok, "second")
	_, _, st = p.lock("3", po, key(1), LockRange{Length: 1})
	w.want(st, nfsv4.ErrDelay, "third")
	for i := range uint64(2) {
		id, _, st = p.relock(id, key(1), LockRange{Offset: 10 * (i + 1), Length: 1})
		w.want(st, ok, "range")
	}
	_, _, st = p.relock(id, key(1), LockRange{Offset: 100, Length: 1})
	w.want(st, nfsv4.ErrDelay, "a range too many")
	id, st = p.unlock(id, key(1), LockRange{Offset: 10, Length: 1})
	w.want(st, ok, "LOCKU")
	_, _, st = p.relock(id, key(1), LockRange{Offset: 100, Length: 1})
	w.want(st, ok, "when there is room")
}

// blocked makes the next call of op hang until release is called.
func (w *world) blocked(op string) (entered <-chan struct{}, release func()) {
	in, out := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.vol.setGate(func(o string) {
		if o == op {
			once.Do(func() { close(in); <-out })
		}
	})
	return in, func() { close(out) }
}

// Two LOCKs of one lock-owner take turns; one that goes away with its
// connection does not wait.
func TestLocksOfOneOwnerTakeTurns(t *testing.T) {
	w := newWorld(t, nil)
	p := w.connect("a", 1)
	po := p.mustOpen("o", key(1), both, none)
	c := w.s.clients[p.id]
	lock := func(ctx context.Context, off uint64) (nfsv4.StateID, nfsv4.Status) {
		id, _, st := c.Lock(ctx, &LockArgs{Key: key(1), NewOwner: true, StateID: po, Owner: []byte("l"), Range: LockRange{Offset: off, Length: 1}})
		return id, st
	}
	entered, release := w.blocked("lock")
	done := make(chan nfsv4.StateID, 2)
	go func() {
		id, st := lock(context.Background(), 0)
		if st != ok {
			t.Error(st)
		}
		done <- id
	}()
	<-entered
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, st := lock(gone, 1)
	w.want(st, nfsv4.ErrDelay, "LOCK of a connection that is gone")
	go func() {
		id, st := lock(context.Background(), 2)
		if st != ok {
			t.Error(st)
		}
		done <- id
	}()
	if !p.alive() {
		t.Error("SEQUENCE waits for the Volume")
	}
	release()
	a, b := <-done, <-done
	if a.Other != b.Other || a.Seq+b.Seq != 3 {
		t.Errorf("stateids %v %v", a, b)
	}
}

// Whatever takes a lock state away while the Volume works for it: the one who
// works gives everything back.
func TestLockStateDiesWhileBusy(t *testing.T) {
	for name, c := range map[string]struct {
		kill func(w *world, p *peer, open nfsv4.StateID)
		want nfsv4.Status
	}{
		"closed": {func(w *world, p *peer, open nfsv4.StateID) {
			w.want(p.close(open, key(1)), ok, "CLOSE")
		}, nfsv4.ErrBadStateID},
		"replaced": {func(w *world, p *peer, _ nfsv4.StateID) { w.connect("a", 2) }, nfsv4.ErrExpired},
		"revoked": {func(w *world, _ *peer, _ nfsv4.StateID) {
			w.s.KeepExports(context.Background(), func(uint32) bool { return false })
		}, nfsv4.ErrAdminRevoked},
	} {
		for _, op := range []string{"lock", "unlock"} {
			t.Run(name+" in "+op, func(t *testing.T) {
				w := newWorld(t, nil)
				p := w.connect("a", 1)
				open := p.mustOpen("o", key(1), both, none)
				id, _, st := p.lock("l", open, key(1), LockRange{Write: true, Length: 10})
				w.want(st, ok, "LOCK")
				cl := w.s.clients[p.id]
				entered, release := w.blocked(op)
				done := make(chan nfsv4.Status)
				go func() {
					var st nfsv4.Status
					if op == "lock" {
						_, _, st = cl.Lock(context.Background(), &LockArgs{Key: key(1), StateID: id, Range: LockRange{Write: true, Offset: 50, Length: 10}})
					} else {
						_, st = cl.LockU(context.Background(), id, key(1), LockRange{Offset: 3, Length: 1})
					}
					done <- st
				}()
				<-entered
				c.kill(w, p, open)
				release()
				w.want(<-done, c.want, op)
				w.vol.setGate(nil)
				w.empty()
			})
		}
	}
}
