package auth

import (
	"time"

	"capstan/cephfs/denc"
)

// ticket is what lets the client speak with one kind of daemon. It is never
// changed once it is in Client.tickets.
type ticket struct {
	service denc.EntityType
	key     Key
	blob    blob

	// Readings of the client's clock, monotonic; zero if the ticket has no end.
	renew, expires time.Time
	// fresh says that the ticket was given after the service had refused the
	// one before: a refusal of this one is final.
	fresh bool
}

// newTicket starts the ticket's time at now, its arrival. It is renewed after
// three quarters of its validity, as Ceph's clients do.
func newTicket(g grant, now time.Time, fresh bool) *ticket {
	t := &ticket{service: g.service, key: g.key, blob: g.blob, fresh: fresh}
	if g.validity > 0 {
		t.expires = now.Add(g.validity)
		t.renew = t.expires.Add(-g.validity / 4)
	}
	return t
}

// valid reports whether t can be shown at now.
func (t *ticket) valid(now time.Time) bool {
	return t != nil && (t.expires.IsZero() || now.Before(t.expires))
}

// due reports whether t should be renewed at now.
func (t *ticket) due(now time.Time) bool {
	return t == nil || !t.renew.IsZero() && !now.Before(t.renew)
}
