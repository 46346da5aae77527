package msgr

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"capstan/cephfs/denc"
)

// Options configure a [Messenger]. The zero value of every field but Auth
// stands for its default.
type Options struct {
	// Auth authenticates each connection. It must be set.
	Auth Authenticator
	// Nonce tells this instance from others at its address. All connections
	// carry the same one, so that one blocklist entry stops them all. 0 stands
	// for a random number.
	Nonce uint32
	// Features is what the client says it supports (CEPH_FEATURE_*), and
	// Required what it refuses to do without. The defaults are
	// [DefaultFeatures] and [RequiredFeatures].
	Features, Required uint64
	// Dial opens a stream to a peer. It must return soon after ctx ends. The
	// default is TCP.
	Dial func(ctx context.Context, peer netip.AddrPort) (net.Conn, error)
	// Logger receives faults and reconnects. The default drops them.
	Logger *slog.Logger

	// HandshakeTimeout bounds one attempt to connect, from the dial to the
	// first message. The default is 10 s.
	HandshakeTimeout time.Duration
	// KeepaliveInterval is the time between keepalives; the default is 10 s.
	KeepaliveInterval time.Duration
	// KeepaliveTimeout is how long a peer may send nothing at all before the
	// connection counts as broken. The default is 30 s, and 90 s for OSDs,
	// which leave a connection unread while they are over their limits.
	KeepaliveTimeout time.Duration
	// BackoffInitial and BackoffMax bound the pause before a lossless
	// connection tries again: 200 ms, doubled each time up to 15 s.
	BackoffInitial, BackoffMax time.Duration

	// QueueBytes is how many bytes of received messages wait for a dispatcher
	// before the connection's reader stops; one message may exceed it. The
	// default is 32 MiB.
	QueueBytes int
	// MaxFront, MaxMiddle and MaxData bound the parts of a received message.
	// The defaults are 64 MiB, 16 MiB and 128 MiB; 1 GiB is the most.
	MaxFront, MaxMiddle, MaxData int
}

// The defaults of [Options].
const (
	defaultHandshakeTimeout    = 10 * time.Second // ms_connection_ready_timeout
	defaultKeepaliveInterval   = 10 * time.Second // mon_client_ping_interval
	defaultKeepaliveTimeout    = 30 * time.Second // mon_client_ping_timeout
	defaultKeepaliveTimeoutOSD = 90 * time.Second
	defaultBackoffInitial      = 200 * time.Millisecond // ms_initial_backoff
	defaultBackoffMax          = 15 * time.Second       // ms_max_backoff
	defaultQueueBytes          = 32 << 20
	defaultMaxFront            = 64 << 20 // an osdmap of a large cluster has some 10 MiB
	defaultMaxMiddle           = 16 << 20
	defaultMaxData             = 128 << 20 // above osd_max_write_size and osd_max_object_size
)

func (o Options) withDefaults() Options {
	if o.Features == 0 {
		o.Features = DefaultFeatures
	}
	if o.Required == 0 {
		o.Required = RequiredFeatures
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Nonce == 0 {
		o.Nonce = randomNonce()
	}
	setDefault(&o.HandshakeTimeout, defaultHandshakeTimeout)
	setDefault(&o.KeepaliveInterval, defaultKeepaliveInterval)
	setDefault(&o.BackoffInitial, defaultBackoffInitial)
	setDefault(&o.BackoffMax, defaultBackoffMax)
	setDefault(&o.QueueBytes, defaultQueueBytes)
	setDefault(&o.MaxFront, defaultMaxFront)
	setDefault(&o.MaxMiddle, defaultMaxMiddle)
	setDefault(&o.MaxData, defaultMaxData)
	for _, v := range []*int{&o.MaxFront, &o.MaxMiddle, &o.MaxData} {
		*v = min(*v, 1<<30)
	}
	return o
}

// keepaliveTimeout is how long a peer of the given type may be silent.
func (o *Options) keepaliveTimeout(peer denc.EntityType) time.Duration {
	switch {
	case o.KeepaliveTimeout > 0:
		return o.KeepaliveTimeout
	case peer == denc.TypeOSD:
		return defaultKeepaliveTimeoutOSD
	default:
		return defaultKeepaliveTimeout
	}
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func dialTCP(ctx context.Context, peer netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", peer.String())
}
