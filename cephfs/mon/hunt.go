package mon

import (
	"math/rand/v2"
	"slices"
	"time"

	"capstan/cephfs/denc"
)

// candidate is a monitor that may be tried.
type candidate struct {
	name  string // empty if it is known by address only
	addrs denc.AddrVec
}

// hunt decides which monitor is tried when. It is a table of times and has no
// goroutine of its own.
//
// A round tries every candidate once, the next one as soon as one failed or
// after huntStagger, but never more than huntParallel at a time. Between two
// rounds it pauses, longer each time.
type hunt struct {
	queue   []candidate // of this round, still to be tried
	running int         // attempts under way
	next    time.Time   // no attempt before
	rounds  int         // begun without success
	// permanent counts the attempts of the round that failed for good, total
	// all that failed.
	permanent, total int
	short            int // sessions in a row that broke soon
}

// The pace of a hunt.
const (
	huntParallel = 3               // mon_client_hunt_parallel
	huntStagger  = 1 * time.Second // under mon_client_hunt_interval: attempts run side by side
	huntPause    = 500 * time.Millisecond
	huntPauseMax = 15 * time.Second // half of mon_client_hunt_interval times its largest multiple
	shortSession = 10 * time.Second // one that breaks sooner is no success
)

// step returns the candidate to try at now, or when to ask again; the zero
// time stands for: not before an attempt ends. fill gives the candidates of a
// new round.
func (h *hunt) step(now time.Time, fill func() []candidate) (c candidate, try bool, again time.Time) {
	if h.running >= huntParallel {
		return candidate{}, false, time.Time{}
	}
	if now.Before(h.next) {
		return candidate{}, false, h.next
	}
	if len(h.queue) == 0 {
		if h.running > 0 {
			return candidate{}, false, time.Time{} // the round ends with them
		}
		h.queue = fill()
		h.permanent, h.total = 0, 0
		h.rounds++
		if len(h.queue) == 0 {
			h.next = now.Add(huntPauseMax)
			return candidate{}, false, h.next
		}
	}
	c = h.queue[0]
	h.queue = h.queue[1:]
	h.running++
	h.next = now.Add(huntStagger)
	return c, true, time.Time{}
}

// failed notes the end of an attempt. It reports whether the round is over and
// every attempt of it failed for good.
func (h *hunt) failed(now time.Time, permanent bool) (hopeless bool) {
	h.running--
	h.total++
	if permanent {
		h.permanent++
	}
	h.next = now
	if len(h.queue) > 0 || h.running > 0 {
		return false
	}
	h.next = now.Add(backoff(huntPause, h.rounds-1))
	return h.permanent == h.total
}

// backoff doubles pause n times, and takes some off to be apart from other
// clients.
func backoff(pause time.Duration, n int) time.Duration {
	for range n {
		if pause *= 2; pause >= huntPauseMax {
			pause = huntPauseMax
			break
		}
	}
	return pause/2 + rand.N(pause/2+1)
}

// found ends the hunt; attempts under way are forgotten.
func (h *hunt) found() { *h = hunt{short: h.short} }

// lost begins anew after a session that lasted for lived: at once, but with
// pauses if sessions break as soon as they are there.
func (h *hunt) lost(now time.Time, lived time.Duration) {
	if lived >= shortSession {
		*h = hunt{next: now}
		return
	}
	*h = hunt{next: now.Add(backoff(huntPause/10, h.short)), short: h.short + 1}
}

// order shuffles the monitors of m: those with a lower priority number first,
// among equals by weight.
func order(m *MonMap) []candidate {
	mons := slices.Clone(m.Monitors)
	rand.Shuffle(len(mons), func(i, j int) { mons[i], mons[j] = mons[j], mons[i] })
	keys := make(map[string]float64, len(mons))
	for _, mon := range mons {
		// The order of exponential variates is a weighted shuffle; without a
		// weight a monitor comes after those that have one.
		if mon.Weight > 0 {
			keys[mon.Name] = rand.ExpFloat64() / float64(mon.Weight)
		} else {
			keys[mon.Name] = 1e9
		}
	}
	slices.SortStableFunc(mons, func(a, b Monitor) int {
		if a.Priority != b.Priority {
			return int(a.Priority) - int(b.Priority)
		}
		switch {
		case keys[a.Name] < keys[b.Name]:
			return -1
		case keys[a.Name] > keys[b.Name]:
			return 1
		}
		return 0
	})
	out := make([]candidate, len(mons))
	for i, mon := range mons {
		out[i] = candidate{mon.Name, mon.Addrs}
	}
	return out
}
