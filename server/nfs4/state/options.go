package state

import (
	"crypto/rand"
	"io"
	"log/slog"
	"time"
)

// Options configures a [Store]. A zero field takes the default in its comment.
type Options struct {
	// Lease is how long a client may be silent (90 s).
	Lease time.Duration
	// Courtesy is how long the state of a silent client is kept, at most, when
	// nobody asks for it (24 h).
	Courtesy time.Duration
	// Now is the clock; its readings carry a monotonic part (time.Now).
	Now func() time.Time
	// Rand gives ids their randomness (crypto/rand).
	Rand io.Reader
	// Instance names this run of the server (NewInstance(Rand)).
	Instance Instance
	// Logger gets one line per event (discarded).
	Logger *slog.Logger
	// OnEvent, if set, is told what is logged about clients. It must not block
	// and not call the Store.
	OnEvent func(Event)

	Limits Limits
}

// Limits bounds what clients can make the server keep. A zero field takes the
// default in its comment.
type Limits struct {
	// MaxClients is how many confirmed client records are kept (16384). Above
	// it expired clients are discarded, oldest first; if there are none,
	// EXCHANGE_ID and CREATE_SESSION of newcomers answer NFS4ERR_DELAY.
	MaxClients int
	// MaxUnconfirmed is how many records wait for CREATE_SESSION (1024). Above
	// it the oldest is dropped.
	MaxUnconfirmed int
	// MaxCourtesy is how many expired clients may keep state (1024). Above it
	// the one that expired first is discarded.
	MaxCourtesy int
	// MaxSessions is how many sessions one client may have (16). Above it
	// CREATE_SESSION answers NFS4ERR_NOSPC.
	MaxSessions int
	// MaxSlots is the fore channel's ca_maxrequests (64).
	MaxSlots uint32
	// MaxRequest and MaxResponse are the fore channel's sizes in bytes, RPC
	// header included (1 MiB + 64 KiB).
	MaxRequest, MaxResponse uint32
	// MaxResponseCached is the largest cached reply in bytes (4096).
	MaxResponseCached uint32
	// MaxOperations is the most operations in a COMPOUND (128).
	MaxOperations uint32
	// MaxReplyCache is the memory all slots together may need for cached
	// replies, in bytes (256 MiB). New sessions get fewer slots as it fills,
	// and older ones are asked to shrink.
	MaxReplyCache int64
	// MaxConns is how many connections a session remembers (32). Above it the
	// one bound first is forgotten.
	MaxConns int
	// MaxOpens and MaxLocks are how many open and lock stateids one client may
	// hold (262144 each). Above it OPEN and LOCK answer NFS4ERR_DELAY.
	MaxOpens, MaxLocks int
	// MaxRanges is how many separate byte ranges one lock stateid may hold
	// (65536). Above it LOCK answers NFS4ERR_DELAY.
	MaxRanges int
}

// minResponse and minRequest are the sizes below which a channel is of no use:
// RPC header with AUTH_SYS, COMPOUND header, SEQUENCE and one small operation.
const (
	minRequest  = 512
	minResponse = 256
)

func (o *Options) setDefaults() {
	setDefault(&o.Lease, 90*time.Second)
	setDefault(&o.Courtesy, 24*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &o.Limits
	setDefault(&l.MaxClients, 16384)
	setDefault(&l.MaxUnconfirmed, 1024)
	setDefault(&l.MaxCourtesy, 1024)
	setDefault(&l.MaxSessions, 16)
	setDefault(&l.MaxSlots, 64)
	setDefault(&l.MaxRequest, 1<<20+64<<10)
	setDefault(&l.MaxResponse, 1<<20+64<<10)
	setDefault(&l.MaxResponseCached, 4096)
	setDefault(&l.MaxOperations, 128)
	setDefault(&l.MaxReplyCache, 256<<20)
	setDefault(&l.MaxConns, 32)
	setDefault(&l.MaxOpens, 262144)
	setDefault(&l.MaxLocks, 262144)
	setDefault(&l.MaxRanges, 65536)
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
