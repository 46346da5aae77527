package state

import "sync/atomic"

// gate decides between a client's requests and its removal in one atomic word:
//
//	bits 33-63  generation, one more with every hold, wrapping
//	bit  32     dead: no hold succeeds any more
//	bits 0-31   requests running
//
// Removing an idle client is a compare-and-swap from a word read before the
// lease was looked at. A request that came in between has moved the
// generation, even if it is over by then, so that the swap fails: either the
// request finds the client dead and has renewed nothing, or the removal finds
// the lease renewed.
type gate struct{ word atomic.Uint64 }

const (
	gateRunning = 1<<32 - 1
	gateDead    = 1 << 32
	gateHold    = 1<<33 | 1
)

// hold counts a request in; false if the client is dead.
func (g *gate) hold() bool {
	if g.word.Add(gateHold)&gateDead != 0 {
		g.release()
		return false
	}
	return true
}

// release counts a request out.
func (g *gate) release() { g.word.Add(^uint64(0)) }

// dead reports whether the gate was closed.
func (g *gate) dead() bool { return g.word.Load()&gateDead != 0 }

// running returns how many requests hold the gate.
func (g *gate) running() int { return int(g.word.Load() & gateRunning) }

// kill closes the gate whatever is running.
func (g *gate) kill() { g.word.Or(gateDead) }

// closeIf closes the gate if nothing runs and expired holds at that moment.
// It reports whether this call closed it.
func (g *gate) closeIf(expired func() bool) bool {
	for {
		w := g.word.Load()
		if w&(gateRunning|gateDead) != 0 || !expired() {
			return false
		}
		if g.word.CompareAndSwap(w, w|gateDead) {
			return true
		}
	}
}
