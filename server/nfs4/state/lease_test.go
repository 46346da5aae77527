package state

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capstan/server/nfs4/nfsv4"
)

// world in a bubble of testing/synctest: its clock is the bubble's, and
// runExpiry sweeps by it.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Now = time.Now })
		f(w)
	})
}

// A client that holds everything there is to hold.
type holder struct {
	*peer
	opens []nfsv4.StateID
	locks []nfsv4.StateID
}

func (w *world) holder(name string, verifier byte, files int) *holder {
	w.Helper()
	h := &holder{peer: w.connect(name, verifier)}
	for i := range files {
		k := key(uint64(i))
		open := h.mustOpen("o", k, both, none)
		lock, _, st := h.lock("l", open, k, LockRange{Write: true, Length: 100})
		w.want(st, ok, "LOCK")
		h.opens, h.locks = append(h.opens, open), append(h.locks, lock)
	}
	return h
}

// whole reports whether h's state is all there (true) or all gone (false); it
// fails if it is neither.
func (h *holder) whole() bool {
	h.w.Helper()
	var u SlotUse
	switch st := h.sequence(&u); st {
	case nfsv4.ErrBadSession:
		return false
	case ok:
	default:
		h.w.Fatalf("SEQUENCE: %v", st)
	}
	defer u.Finish(nil)
	if u.Result.StatusFlags != 0 {
		h.w.Fatalf("flags %x", u.Result.StatusFlags)
	}
	out := make([]nfsv4.Status, len(h.opens)+len(h.locks))
	u.Client().TestStateIDs(append(append([]nfsv4.StateID{}, h.opens...), h.locks...), out)
	for i, st := range out {
		if st != ok {
			h.w.Fatalf("stateid %d of a client that is there: %v", i, st)
		}
	}
	return true
}

// The network is cut for a while; nobody wants what the client holds.
func TestCutWithoutConflict(t *testing.T) { // RFC 8881 sections 8.3, 8.4.3
	bubble(t, func(w *world) {
		h := w.holder("a", 1, 20)
		const lease = 90 * time.Second
		for _, cut := range []time.Duration{lease - 2*time.Second, lease, lease + time.Second, lease + 2*time.Second, 2 * lease, 23 * time.Hour} {
			time.Sleep(cut)
			if !h.whole() {
				t.Errorf("state gone after %v", cut)
			}
		}
		if w.happened(ClientExpired) == 0 || w.happened(ClientReturned) != w.happened(ClientExpired) {
			t.Errorf("events %v", w.events)
		}
		time.Sleep(25 * time.Hour)
		if h.whole() {
			t.Error("state kept for ever")
		}
		w.empty()
		if w.happened(ClientDiscarded) != 1 {
			t.Errorf("events %v", w.events)
		}
	})
}

// The network is cut, and somebody wants a share or a lock the client holds.
func TestCutWithConflict(t *testing.T) { // RFC 8881 section 8.4.3
	const lease = 90 * time.Second
	wants := map[string]func(*peer) nfsv4.Status{
		"share": func(q *peer) nfsv4.Status {
			_, st := q.open("o", key(3), read, both)
			return st
		},
		"lock": func(q *peer) nfsv4.Status {
			open := q.mustOpen("x", key(3), both, none)
			_, _, st := q.lock("l", open, key(3), LockRange{Write: true, Length: 1})
			return st
		},
		"removal": func(q *peer) nfsv4.Status {
			q.w.s.Removed(context.Background(), key(3))
			return ok
		},
	}
	for name, want := range wants {
		for _, cut := range []time.Duration{lease - 2*time.Second, lease, lease + time.Second, lease + 2*time.Second, 2 * lease} {
			t.Run(fmt.Sprint(name, cut), func(t *testing.T) {
				bubble(t, func(w *world) {
					h := w.holder("a", 1, 20)
					q := w.connect("b", 1)
					time.Sleep(cut / 2)
					q.alive()
					time.Sleep(cut - cut/2)
					st := want(q)
					kept := h.whole()
					if cut <= lease != kept {
						t.Errorf("kept: %v", kept)
					}
					if name != "removal" && kept == (st == ok) {
						t.Errorf("the other got %v", st)
					}
					if !kept {
						synctest.Wait()
						if locks, _ := w.vol.held(); locks > 1 {
							t.Errorf("%d locks left", locks)
						}
					}
				})
			})
		}
	}
}

// A network that is up for 3 s and down for 10 s loses nothing, though another
// client is waiting for a chance.
func TestFlappingNetwork(t *testing.T) { // RFC 8881 section 8.3
	bubble(t, func(w *world) {
		h, q := w.holder("a", 1, 5), w.connect("b", 1)
		for range 46 {
			time.Sleep(10 * time.Second)
			if _, st := q.open("o", key(1), read, both); st != nfsv4.ErrShareDenied {
				t.Fatalf("the other got %v", st)
			}
			if !h.whole() {
				t.Fatal("state gone")
			}
			time.Sleep(3 * time.Second)
		}
	})
}

// SEQUENCE and a conflict in the very moment of expiry: one of them wins.
func TestRaceOfRenewalAndConflict(t *testing.T) { // RFC 8881 section 8.3
	w := newWorld(t, nil)
	q := w.connect("b", 1)
	var kept, gone int
	for round := range 300 {
		h := w.holder(fmt.Sprint("a", round), 1, 3)
		w.advance(90*time.Second + 1)
		q.alive()
		var start, done sync.WaitGroup
		start.Add(1)
		var renewed, got atomic.Int64
		done.Go(func() {
			start.Wait()
			var u SlotUse
			renewed.Store(int64(h.sequence(&u)))
			u.Finish(nil)
		})
		done.Go(func() {
			start.Wait()
			id, st := q.open("o", key(1), read, both)
			got.Store(int64(st))
			if st == ok {
				q.close(id, key(1))
			}
		})
		start.Done()
		done.Wait()
		switch r, g := nfsv4.Status(renewed.Load()), nfsv4.Status(got.Load()); {
		case r == ok && g == nfsv4.ErrShareDenied:
			kept++
			if !h.whole() {
				t.Fatal("renewed, and gone")
			}
			w.connect(fmt.Sprint("a", round), 2) // out of the way
		case r == nfsv4.ErrBadSession && g == ok:
			gone++
			if h.whole() {
				t.Fatal("discarded, and there")
			}
		case r == ok && g == ok:
			// The request was over before the other looked: it must have
			// been over before the lease ended.
			t.Fatal("renewed, and its share given away")
		default:
			t.Fatalf("renewal %v, conflict %v", r, g)
		}
	}
	t.Logf("kept %d, gone %d", kept, gone)
}

func TestGate(t *testing.T) {
	var g gate
	if !g.hold() || g.running() != 1 {
		t.Fatal("hold")
	}
	if g.closeIf(func() bool { return true }) {
		t.Fatal("closed under a request")
	}
	g.release()
	if g.closeIf(func() bool { return false }) {
		t.Fatal("closed although not expired")
	}
	// A request that comes and goes while the lease is looked at.
	looked := 0
	if g.closeIf(func() bool {
		looked++
		if looked == 1 {
			g.hold()
			g.release()
			return true
		}
		return false
	}) || looked != 2 {
		t.Fatalf("closed over a request, looked %d times", looked)
	}
	if !g.closeIf(func() bool { return true }) || !g.dead() || g.hold() || g.running() != 0 {
		t.Fatal("not closed")
	}
	if g.closeIf(func() bool { return true }) {
		t.Fatal("closed twice")
	}
	// The generation wraps without touching the rest.
	var h gate
	h.word.Store(^uint64(0) &^ (gateRunning | gateDead))
	if !h.hold() || h.running() != 1 || h.dead() {
		t.Fatalf("word %x", h.word.Load())
	}
}

func TestCourtesyIsBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.MaxCourtesy = 5 })
	var hs []*holder
	for i := range 20 {
		h := &holder{peer: w.connect(fmt.Sprint(i), 1)}
		h.opens = append(h.opens, h.mustOpen("o", key(uint64(i)), read, none))
		hs = append(hs, h)
		w.advance(time.Second)
	}
	stateless := w.connect("nothing", 1)
	w.advance(200 * time.Second)
	if n := w.s.Counts(); n.Courtesy != 21 || n.Opens != 20 {
		t.Errorf("%+v", n)
	}
	w.s.Sweep()
	if stateless.alive() {
		t.Error("an expired client without state is kept")
	}
	for i, h := range hs {
		if h.whole() != (i >= 15) {
			t.Errorf("client %d", i)
		}
	}
}

// A Volume that hangs while an expired client is thrown out.
func TestDiscardWithHangingVolume(t *testing.T) {
	w := newWorld(t, nil)
	h := w.holder("a", 1, 3)
	q, r := w.connect("b", 1), w.connect("c", 1)
	w.advance(100 * time.Second)
	q.alive()
	r.alive()
	open := q.mustOpen("o", key(1), both, none)
	entered, release := w.blocked("unlock")
	c := w.s.clients[q.id]
	done := make(chan nfsv4.Status)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _, st := c.Lock(ctx, &LockArgs{Key: key(1), NewOwner: true, StateID: open, Owner: []byte("l"), Range: LockRange{Write: true, Length: 1}})
		done <- st
	}()
	<-entered
	if !r.alive() || !q.alive() {
		t.Error("SEQUENCE waits for the Volume")
	}
	if h.whole() {
		t.Error("the expired client is there")
	}
	w.connect("d", 1)
	w.s.Sweep()
	w.s.Snapshot(true)
	cancel()
	w.want(<-done, nfsv4.ErrDenied, "LOCK of a connection that is gone")
	w.vol.setGate(nil)
	release()
}

func TestSnapshot(t *testing.T) {
	w := newWorld(t, nil)
	h := w.holder("client\x00one", 1, 3)
	w.connect("b", 1)
	w.s.ExchangeID(exchangeArgs("u", 1))
	w.advance(100 * time.Second)
	h.alive()
	s := w.s.Snapshot(true)
	if s.Counts != (Counts{Clients: 2, Courtesy: 1, Sessions: 2, Opens: 3, Locks: 3}) || s.Counts != w.s.Counts() || s.Unconfirmed != 1 {
		t.Errorf("%+v", s)
	}
	c := s.Clients[0]
	if c.Owner != `client\x00one` || c.Expired || len(c.Files) != 3 || c.Files[0] != (OpenStatus{key(0), both, none, 1}) {
		t.Errorf("%+v", c)
	}
	if c = s.Clients[1]; !c.Expired || c.Idle != 100*time.Second || c.Sessions[0].Slots != 16 {
		t.Errorf("%+v", c)
	}
}

// A client with 1000 locks over 100 files vanishes; another takes each of its
// locks; it comes back as a new incarnation. Everything returns to where it
// was, round after round.
func TestLocksOfAVanishedClient(t *testing.T) { // RFC 8881 section 8.4.3
	w := newWorld(t, nil)
	q := w.connect("other", 1)
	const files, perFile = 100, 10
	rounds := 50
	if testing.Short() {
		rounds = 6
	}
	for round := range rounds {
		p := w.connect("vanishing", byte(round))
		for f := range uint64(files) {
			open := p.mustOpen("o", key(f), both, none)
			for l := range uint64(perFile) {
				_, _, st := p.lock(fmt.Sprint(l), open, key(f), LockRange{Write: true, Offset: l * 10, Length: 10})
				w.want(st, ok, "LOCK")
			}
		}
		if n := w.s.Counts(); n != (Counts{Clients: 2, Sessions: 2, Opens: files, Locks: files * perFile}) {
			t.Fatalf("round %d: %+v", round, n)
		}
		if round%2 == 0 { // it stays away until somebody wants its locks
			open := q.mustOpen("o", key(0), both, none)
			_, _, st := q.lock("l", open, key(0), LockRange{Write: true, Length: 1})
			w.want(st, nfsv4.ErrDenied, "LOCK within the lease")
			w.want(q.close(open, key(0)), ok, "CLOSE")
			w.advance(91 * time.Second)
			for f := range uint64(files) {
				open := q.mustOpen("o", key(f), both, none)
				for l := range uint64(perFile) {
					_, _, st := q.lock(fmt.Sprint(l), open, key(f), LockRange{Write: true, Offset: l * 10, Length: 10})
					w.want(st, ok, "LOCK")
				}
				w.want(q.close(open, key(f)), ok, "CLOSE")
			}
		} else { // it comes back at once
			w.connect("vanishing", byte(round)+100)
		}
		if n := w.s.Counts(); n.Opens != 0 || n.Locks != 0 || n.Clients > 2 {
			t.Fatalf("round %d: %+v", round, n)
		}
		w.empty()
		q.alive()
	}
}
