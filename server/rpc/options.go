package rpc

import (
	"log/slog"
	"time"
)

// Options are the budgets of a [Server]. A zero field means its default. None
// of them is an error to the peer by itself: what happens at each limit is said
// beside it.
type Options struct {
	// MaxRecord is the largest record received, in bytes, headers included
	// (default 1 MiB + 64 KiB). A peer that announces more is disconnected: the
	// rest of its stream could only be thrown away.
	MaxRecord int

	// MaxConns is the number of connections in all (default 4096; each costs
	// about 24 KiB while idle). At the limit a new connection takes the place of
	// the one that has been idle longest, if that is a tenth of IdleTimeout or
	// more; else the new one is closed at once.
	MaxConns int

	// MaxConnsPerHost is the number of connections from one address (default
	// 256). A further one is closed at once. Connections without an address (of
	// tests) are not counted.
	MaxConnsPerHost int

	// MaxInFlightPerConn is the number of calls of one connection that run or
	// wait for their reply to be sent (default 128). At the limit the connection
	// is not read, so that TCP holds the peer back.
	MaxInFlightPerConn int

	// MaxInFlight is the same in all connections (default 1024). At the limit
	// the next calls wait unread, first come, first served, and a connection
	// that does not take its replies is given a tenth of WriteTimeout.
	MaxInFlight int

	// MaxInFlightBytes is the size of all received records still in use
	// (default 256 MiB). At the limit the next records wait unread, first come,
	// first served, and a record that is received only in part is given a tenth
	// of RecordTimeout. It is at least MaxRecord.
	MaxInFlightBytes int64

	// MaxReplyBytes is the size of all reply payloads from the time they are
	// asked for ([Call.Payload]) until they are sent (default 256 MiB). At the
	// limit calls wait in Payload, and a connection that does not take its
	// replies is given a tenth of WriteTimeout.
	MaxReplyBytes int64

	// MaxReplyBytesPerConn is the same for one connection (default 32 MiB). At
	// the limit calls of this connection wait in Payload, others do not.
	MaxReplyBytesPerConn int64

	// IdleTimeout is how long a connection without calls is kept (default 6
	// minutes; the Linux client closes its own after 5).
	IdleTimeout time.Duration

	// RecordTimeout is the time for one record from its first byte to its last,
	// and for a new connection to complete its first (default 30 s). A
	// connection that exceeds it is closed.
	RecordTimeout time.Duration

	// WriteTimeout is the time for one write, of about 1 MiB or one larger reply
	// (default 30 s). A connection that exceeds it is closed and its replies are
	// dropped.
	WriteTimeout time.Duration

	// Logger gets the events of the server, nil for none.
	Logger *slog.Logger

	// Observer is told of connections and calls, nil for nobody.
	Observer Observer
}

// withDefaults returns o with its zero fields filled in.
func (o Options) withDefaults() Options {
	def(&o.MaxRecord, 1<<20+64<<10)
	def(&o.MaxConns, 4096)
	def(&o.MaxConnsPerHost, 256)
	def(&o.MaxInFlightPerConn, 128)
	def(&o.MaxInFlight, 1024)
	def(&o.MaxInFlightBytes, 256<<20)
	def(&o.MaxReplyBytes, 256<<20)
	def(&o.MaxReplyBytesPerConn, 32<<20)
	def(&o.IdleTimeout, 6*time.Minute)
	def(&o.RecordTimeout, 30*time.Second)
	def(&o.WriteTimeout, 30*time.Second)
	o.MaxInFlightBytes = max(o.MaxInFlightBytes, int64(o.MaxRecord))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
