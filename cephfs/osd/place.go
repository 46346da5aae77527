package osd

import (
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// The data of reads are received where the caller wants them: the messenger asks
// for the place of an answer's data when it has the answer's front. What keeps a
// buffer from having two writers, and from being written after the completion:
//
//   - An answer is placed only if it is one to the last try of a request that
//     waits, by the connection of that try, and every length fits. Stale, stray
//     and nonsensical ones go to storage of the messenger, as do those that have
//     no data for a caller's buffer.
//   - Only one answer is placed at a time, and only one to each try. Another that
//     comes meanwhile, by another connection, goes to storage of the messenger.
//   - While an answer is placed the request has a hold. So it may be completed,
//     or sent again, at any moment, but its completion is told, and an answer
//     that was not placed is copied, only when nobody writes any more. Whoever
//     completes it breaks the connection that still writes ([request.reclaim]).
//
// The front may be damaged: its checksum comes behind the data. The header, with
// the tid, was checked, so the worst is that a buffer of a request that waits
// gets what is not for it. Then the connection breaks and the request is sent
// again.

// maxAside bounds the bytes that a placed answer brings beside what goes to
// buffers of the caller: the results of other operations of the list.
const maxAside = 64 << 10

// placement is what a request knows of answers received into its buffers.
type placement struct {
	link  *link  // whose reader writes into the buffers now; nil if none does
	try   int32  // of the answer placed last, counting from 1; 0 if there was none
	aside []byte // what that one brings besides
}

// Place implements msgr.Placer.
func (d *dispatcher) Place(_ *msgr.Conn, m *msgr.Message, n int) [][]byte {
	l := (*link)(d)
	c := l.s.c
	if m.Type != msgOpReply {
		return nil
	}
	r := c.table.Get(m.Tid - c.tidBase)
	if r == nil {
		return nil
	}
	var body reply
	var dec denc.Decoder
	var room [2]Result
	dec.Reset(m.Front)
	decodeReplyFront(&body, &dec, m.Version, n, room[:0])
	if !dec.OK() || body.result < 0 || body.redirected || body.try < 0 {
		return nil
	}
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	p := &r.placed
	if !r.awaitsLocked(l, body.try) || p.link != nil || p.try == r.tries {
		return nil
	}
	bufs := r.op.place(body.results, p)
	if bufs == nil {
		return nil
	}
	p.link, p.try = l, r.tries
	r.holds.Add(1) // not the first: a request in its chain has that of the result
	l.placing = r
	c.stats.placed.Add(1)
	return bufs
}

// Placed implements msgr.Placer.
func (d *dispatcher) Placed(_ *msgr.Conn, ok bool) {
	l := (*link)(d)
	r := l.placing
	l.placing = nil
	r.shard.mu.Lock()
	r.placed.link = nil
	if !ok {
		r.placed.try, r.placed.aside = 0, nil
	}
	r.shard.mu.Unlock()
	r.unhold()
}

// awaitsLocked reports whether an answer by a connection is the one that the
// request waits for; try is -1 if the answer does not say to which it is one.
//
// Precondition: r.shard.mu is held.
func (r *request) awaitsLocked(l *link, try int32) bool {
	return r.chain != nil && r.link == l && !l.dead.Load() && (try < 0 || try == r.tries-1)
}

// placeable says that the result belongs into buffers of the caller.
func (s *subop) placeable() bool { return s.copy && s.code == opRead }

// place lists the buffers for the data of an answer, of which only the lengths
// are known; nil if there is something that does not fit. What belongs to no
// buffer goes to p.aside.
func (o *Op) place(res []Result, p *placement) [][]byte {
	if len(res) != len(o.subops) {
		return nil
	}
	count, aside := 0, 0
	for i := range res {
		s, n := &o.subops[i], res[i].N
		switch {
		case n == 0:
		case !s.placeable():
			aside += n
			count++
		case n > s.read:
			return nil
		default:
			count += 1 + len(s.vec)
		}
	}
	if aside > maxAside {
		return nil
	}
	p.aside = nil
	if aside > 0 {
		p.aside = make([]byte, aside)
	}
	// Of its own: the list of an answer that turns out to be stale may still be
	// with the dispatcher.
	bufs := make([][]byte, 0, count)
	rest := p.aside
	for i := range res {
		s, n := &o.subops[i], res[i].N
		if n == 0 {
			continue
		}
		if !s.placeable() {
			bufs, rest = append(bufs, rest[:n]), rest[n:]
			continue
		}
		bufs, n = appendCut(bufs, s.into, n)
		for _, b := range s.vec {
			bufs, n = appendCut(bufs, b, n)
		}
	}
	return bufs
}

// appendCut appends b, or the first n bytes of it, and returns what is left of n.
func appendCut(bufs [][]byte, b []byte, n int) ([][]byte, int) {
	if b = b[:min(len(b), n)]; len(b) > 0 {
		bufs = append(bufs, b)
	}
	return bufs, n - len(b)
}

// takeAside gives a placed answer the data that belong to no buffer.
func (o *Op) takeAside(res []Result, aside []byte) {
	for i := range res {
		if n := res[i].N; !o.subops[i].placeable() {
			res[i].Data, aside = aside[:n:n], aside[n:]
		}
	}
}
