package state

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"capstan/server/nfs4/nfsv4"
)

// EventKind is what happened to a client.
type EventKind uint8

// The kinds of events.
const (
	ClientArrived   EventKind = iota // its record was confirmed
	ClientLeft                       // it destroyed its client id
	ClientReplaced                   // a new incarnation of it was confirmed
	ClientExpired                    // its lease ran out; its state is kept for now
	ClientReturned                   // it renewed its lease after it had run out
	ClientDiscarded                  // it was dropped with all its state
)

// Event is something that happened to a client.
type Event struct {
	Kind   EventKind
	Client nfsv4.ClientID
	Owner  string // co_ownerid, printable
	Addr   netip.AddrPort
	Reason string // of ClientDiscarded
}

// eventText is the log line of each kind.
var eventText = [...]string{
	ClientArrived:   "client arrived",
	ClientLeft:      "client left",
	ClientReplaced:  "client restarted",
	ClientExpired:   "client expired, its state is kept until somebody needs it",
	ClientReturned:  "client returned after its lease had expired, with its state",
	ClientDiscarded: "client discarded",
}

// String returns the kind in words.
func (k EventKind) String() string {
	if int(k) < len(eventText) {
		return eventText[k]
	}
	return "event " + strconv.Itoa(int(k))
}

// nameClashPause is how long the log keeps quiet about one name after it told
// that two machines seem to share it.
const nameClashPause = time.Minute

// emit logs events and hands them on. No lock is held: a log may be slow.
func (s *Store) emit(events []Event) {
	for _, e := range events {
		attrs := []any{"client", clientIDText(e.Client), "owner", e.Owner, "addr", e.Addr}
		if e.Reason != "" {
			attrs = append(attrs, "reason", e.Reason)
		}
		s.opt.Logger.Info(e.Kind.String(), attrs...)
		if s.opt.OnEvent != nil {
			s.opt.OnEvent(e)
		}
	}
}

// event is of c, whose address is read: Store.mu is held.
func (c *Client) eventLocked(k EventKind, reason string) Event {
	return Event{Kind: k, Client: c.id, Owner: printable(c.owner), Addr: c.addr, Reason: reason}
}

// nameClash is what is logged when two machines seem to use one name.
type nameClash struct {
	owner     string
	old, new  netip.AddrPort
	oldID     nfsv4.ClientID
	principal bool // refused, because the principals differ as well
}

func (s *Store) warnNameClash(n *nameClash) {
	if n == nil {
		return
	}
	text := "two machines seem to use one client name: the second took the place of the first"
	if n.principal {
		text = "two clients of different identity use one client name: the second was refused"
	}
	s.opt.Logger.Warn(text, slog.String("owner", printable(n.owner)), slog.Any("first", n.old),
		slog.Any("second", n.new), slog.String("client", clientIDText(n.oldID)))
}

// printable makes an opaque owner fit for a log line.
func printable(owner string) string {
	const longest = 128
	cut := ""
	if len(owner) > longest {
		owner, cut = owner[:longest], "..."
	}
	q := strconv.QuoteToASCII(owner)
	return q[1:len(q)-1] + cut
}

func clientIDText(id nfsv4.ClientID) string { return fmt.Sprintf("%016x", uint64(id)) }
