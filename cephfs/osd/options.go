package osd

import (
	"log/slog"
	"time"

	"capstan/cephfs/msgr"
)

// Options configure a [Client]. The zero value of every field but Messenger and
// Maps stands for its default.
type Options struct {
	// Messenger makes the connections. Its address is the one that a blocklist
	// names. The client closes its connections, not the messenger. It should
	// take answers of 128 MiB, as it does by default: an answer that is larger
	// than it takes breaks the connection.
	Messenger *msgr.Messenger
	// Maps brings the osdmaps.
	Maps MapSource
	// Logger receives what goes wrong on the way and is mended.
	Logger *slog.Logger

	// MaxOps and MaxBytes bound what is under way, in operations and in the
	// bytes they write and ask for: 4096 and 256 MiB. A single operation may
	// exceed MaxBytes when it is alone. What has to wait for a map (a full pool,
	// a pause, the barrier) is bounded by the same numbers once more, so that it
	// does not keep others out.
	MaxOps   int
	MaxBytes int64
	// MaxOpsPerOSD and MaxBytesPerOSD bound the same for one OSD, so that one
	// slow OSD does not take the room of the others: half of the above.
	MaxOpsPerOSD   int
	MaxBytesPerOSD int64

	// ReconnectInitial and ReconnectMax bound the pause before an OSD that
	// could not be reached is tried again: 100 ms, doubled each time up to 5 s.
	ReconnectInitial, ReconnectMax time.Duration

	// Distance says how far an OSD is, for [ReplicaNear]: the smallest wins, a
	// negative number is unknown. Without it the primary is asked. It is called
	// with locks held, and must neither block nor call the client.
	Distance func(osd int32) int
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxOps <= 0 {
		o.MaxOps = 4096
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	if o.MaxOpsPerOSD <= 0 {
		o.MaxOpsPerOSD = max(o.MaxOps/2, 1)
	}
	if o.MaxBytesPerOSD <= 0 {
		o.MaxBytesPerOSD = max(o.MaxBytes/2, 1)
	}
	if o.ReconnectInitial <= 0 {
		o.ReconnectInitial = 100 * time.Millisecond
	}
	if o.ReconnectMax <= 0 {
		o.ReconnectMax = 5 * time.Second
	}
	return o
}
