package osd

import (
	"slices"

	"capstan/cephfs/msgr"
)

// backedOff reports whether the OSD asked not to be sent what concerns an
// object.
func (l *link) backedOff(pg PG, p position) bool {
	if l.backoffs.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.blocked, func(b *backoff) bool {
		return b.pg == pg && p.in(b.begin, b.end)
	})
}

// handleBackoff notes or lifts a back-off. The OSD dropped what came in the
// range before the client knew: when it is lifted everything in it is sent
// again, in order.
func (l *link) handleBackoff(m *msgr.Message) {
	c := l.s.c
	b, err := decodeBackoff(m.Front)
	release(m)
	if err != nil {
		c.log.Warn("osd: bad back-off message", "osd", l.s.osd, "error", err)
		return
	}
	// Under the lock of its shard a request is either sent before the back-off
	// is looked at here, and found by the walk, or looks at it.
	concerns := func(r *request) bool {
		return r.link == l && r.pg == b.pg && positionOf(r.target, r.hash).in(b.begin, b.end)
	}
	switch b.what {
	case backoffBlock:
		c.stats.backoffs.Add(1)
		l.mu.Lock()
		l.blocked = slices.DeleteFunc(l.blocked, func(o *backoff) bool {
			return o.id == b.id || o.pg == b.pg && o.begin == b.begin
		})
		l.blocked = append(l.blocked, b)
		l.backoffs.Store(int32(len(l.blocked)))
		l.mu.Unlock()
		c.walkOnly(func(r *request) {
			if concerns(r) {
				r.unsentLocked()
			}
		})
		ack := *b
		ack.what = backoffAckBlock
		// With the epoch of the block, by which the OSD tells an
		// acknowledgement from before a split.
		_ = l.conn.Send(&msgr.Message{ // an error means that the OSD forgot all this
			Type: msgBackoff, Priority: opPriority, Version: 1, Compat: 1, Front: encodeBackoff(&ack),
		})
	case backoffUnblock:
		l.mu.Lock()
		n := len(l.blocked)
		l.blocked = slices.DeleteFunc(l.blocked, func(o *backoff) bool {
			if o.id != b.id {
				return false
			}
			b.pg, b.begin, b.end = o.pg, o.begin, o.end // what it held
			return true
		})
		l.backoffs.Store(int32(len(l.blocked)))
		known := n != len(l.blocked)
		l.mu.Unlock()
		if !known {
			c.log.Warn("osd: back-off lifted that is not known", "osd", l.s.osd, "pg", b.pg, "id", b.id)
			return
		}
		c.walk(concerns)
	default:
		c.log.Warn("osd: unknown back-off", "osd", l.s.osd, "what", b.what)
	}
}
