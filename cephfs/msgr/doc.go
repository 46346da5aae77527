// Package msgr speaks Ceph's messenger protocol 2.1 (ceph/ceph
// doc/dev/msgr2.rst, src/msg/async/ProtocolV2.cc), from the side that
// connects.
//
// A [Messenger] is one client instance: one address and one nonce, which every
// daemon sees and a blocklist names, and the connections made with
// [Messenger.Connect]. A [Conn] carries messages both ways; what arrives goes
// to a [Dispatcher]. Who the client is and how frames are protected is up to
// an [Authenticator], such as package auth's.
//
//	m := msgr.New(msgr.Options{Auth: authenticator})
//	defer m.Close()
//	c, err := m.Connect(denc.TypeMon, addrs, msgr.Lossy, dispatcher)
//	err = c.Send(&msgr.Message{Type: 5, Version: 1})
//
// # Promises
//
// Messages are delivered once and in the order in which [Conn.Send] took them,
// whatever their priority, which is for the peer's queues. A lossy connection
// ends at its first fault with one call of [Dispatcher.Closed]; who needs
// another asks for another. A lossless one reconnects with growing pauses,
// replays what was not acknowledged and drops what it receives again, until
// Close, or until trying is of no use: missing features, messenger v1, an
// error that wraps [ErrPermanent]. After the first handshake nothing ends it
// that a peer says before its signature was verified. If the peer lost the session it tells
// [Dispatcher.RemoteReset] and goes on with a new one.
//
// Every end and every fault is an [*Error] with a [Kind] and the peer.
//
// A payload is read by this package from Send to [Message.Sent] and belongs to
// it alone in between; it is written from where it lies, with one system call
// for a batch, and is copied only to be encrypted. A received payload lies in
// pooled storage which [Message.Release] gives back, or, if the dispatcher is a
// [Placer], its data where that wants them. Every length a peer
// announces is bounded before anything is allocated for it.
//
// Compression is not offered, and messenger 2.0 and v1 are refused.
//
// # Goroutines
//
// Each connection has three:
//
//   - run makes one stream after the other: it dials, leads the handshake, and
//     is then the stream's reader. It owns the session (session) and tears the
//     connection down. It calls of a dispatcher only the methods of a
//     [Placer], which do not wait, so that acknowledgements and keepalives go
//     on while one is slow; only when the bytes that wait
//     for the dispatcher exceed [Options.QueueBytes] does it stop reading, and
//     then the keepalive time-out does not run.
//   - write, while a stream is ready, takes batches from the send queue. It
//     also sends acknowledgements, and a keepalive every interval.
//   - dispatch makes all calls of the dispatcher, in order.
//
// A stream ends when its reader or its writer fails, which closes the net.Conn
// and so ends the other; run waits for the writer before it goes on. A peer is
// dead if nothing at all arrives for the keepalive time-out, or if it takes
// nothing of a write for as long: both are deadlines of the net.Conn, so that
// nothing else watches. [Messenger.Close] waits for every goroutine.
//
// # Locks
//
// The send queue, the receive queue, Conn and Messenger have a mutex each. All
// are leaves: with one held no other is taken, nothing is called that belongs
// to somebody else, and nothing waits, except that Messenger.mu is held while
// a connection is made.
//
// # States
//
// The handshake is a table of states and frames (state.go, with a picture),
// and a struct that turns frames into frames without input or output
// (handshake.go); the wire format is package frame. Around them:
//
//	attempt ── handshake ──▶ ready ── fault ──▶ lossy: end
//	   ▲            │ fault                │
//	   │            ▼                      ▼ lossless
//	   └───────── pause ◀──────────────── rewind (sendqueue.go)
package msgr
