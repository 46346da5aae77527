package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"capstan/server/nfs4/nfsv4"
)

// Everything at once: clients that open, lock, close, vanish and restart, an
// administrator who reloads exports, time that passes. Whatever happened,
// nothing is left when all clients are gone, and nothing hangs.
func TestEverythingAtOnce(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.MaxCourtesy, o.Limits.MaxClients = 3, 12 })
	const workers, rounds, files = 8, 400, 6
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			var p *peer
			var opens, locks []nfsv4.StateID
			for round := range rounds {
				if p == nil {
					p = tryConnect(w, fmt.Sprint("c", rnd.IntN(workers)), byte(rnd.IntN(250)))
					opens, locks = nil, nil
					if p == nil {
						continue
					}
				}
				var u SlotUse
				if st := p.sequence(&u); st != ok {
					if st != nfsv4.ErrBadSession {
						t.Errorf("SEQUENCE: %v", st)
					}
					p = nil
					continue
				}
				c, k := u.Client(), key(uint64(rnd.IntN(files)))
				ctx := context.Background()
				switch rnd.IntN(8) {
				case 0, 1:
					deny := Access(0)
					if rnd.IntN(4) == 0 {
						deny = write
					}
					if id, st := w.openAs(c, fmt.Sprint(rnd.IntN(2)), k, Access(1+rnd.IntN(3)), deny); st == ok {
						opens = append(opens, id)
					}
				case 2, 3:
					if len(opens) > 0 {
						o := newestOf(opens[rnd.IntN(len(opens))])
						for f := range uint64(files) { // only one is the right one
							id, _, st := c.Lock(ctx, &LockArgs{Key: key(f), NewOwner: true, StateID: o,
								Owner: []byte(fmt.Sprint(rnd.IntN(3))), Range: LockRange{Offset: uint64(rnd.IntN(50)), Length: 5, Write: rnd.IntN(2) == 0}})
							if st == ok {
								locks = append(locks, id)
							}
						}
					}
				case 4:
					if len(locks) > 0 {
						l := newestOf(locks[rnd.IntN(len(locks))])
						for f := range uint64(files) {
							c.LockU(ctx, l, key(f), LockRange{Offset: uint64(rnd.IntN(50)), Length: 20})
						}
						c.FreeStateID(ctx, l)
					}
				case 5:
					if len(opens) > 0 {
						i := rnd.IntN(len(opens))
						for f := range uint64(files) {
							if _, st := c.Close(ctx, newestOf(opens[i]), key(f)); st == ok {
								break
							}
						}
						opens = append(opens[:i], opens[i+1:]...)
					}
				case 6:
					if len(opens) > 0 {
						for f := range uint64(files) {
							if u, st := c.Use(ctx, newestOf(opens[0]), key(f), read); st == ok {
								u.Release()
							}
						}
					}
				case 7:
					w.s.CheckDeny(ctx, k, write)
					w.s.Removed(ctx, k)
					w.s.Snapshot(true)
				}
				u.Finish(nil)
				switch rnd.IntN(60) {
				case 0:
					p = nil // vanish
				case 1:
					w.advance(40 * time.Second)
				case 2:
					w.s.Sweep()
				case 3:
					if round%3 == 0 {
						w.s.KeepExports(ctx, func(uint32) bool { return false })
					}
				}
			}
		})
	}
	all.Wait()
	w.advance(100 * 24 * time.Hour)
	w.s.Sweep()
	if n := w.s.Counts(); n != (Counts{}) {
		t.Errorf("%+v left", n)
	}
	// Close waits for what is still being given back, and checks for the rest.
}

// tryConnect is connect for when others are at it: nil if they were faster.
func tryConnect(w *world, owner string, verifier byte) *peer {
	r, st := w.s.ExchangeID(exchangeArgs(owner, verifier))
	if st != ok {
		return nil
	}
	cs, st := w.s.CreateSession(context.Background(), createArgs(r.ClientID, r.Sequence))
	if st != ok {
		return nil
	}
	p := &peer{w: w, id: r.ClientID, ses: cs.Session}
	var u SlotUse
	if p.sequence(&u) != ok {
		return nil
	}
	defer u.Finish(nil)
	u.Client().ReclaimComplete(false)
	return p
}
