package msgr

import "capstan/cephfs/denc"

// Priorities of messages (ceph/ceph src/include/msgr.h, CEPH_MSG_PRIO_*).
const (
	PriorityLow     = 64
	PriorityDefault = 127
	PriorityHigh    = 196
	PriorityHighest = 255
)

// Message is one message of a connection: the header fields that users of the
// messenger set and read, and the three parts of the payload.
//
// A message to send belongs to the connection from [Conn.Send] on: nobody may
// change it or what its slices hold until Sent was called. A received message
// belongs to the [Dispatcher] it was given to.
type Message struct {
	Type     uint16 // CEPH_MSG_*, MSG_*
	Priority uint16 // for the peer's queues; 0 is sent as PriorityDefault
	Version  uint16 // of the front's encoding
	Compat   uint16 // the oldest version whose decoder can read the front
	Tid      uint64 // of the request this carries or answers; 0 if none

	Front  []byte
	Middle []byte
	// Data is sent piece after piece, and arrives as one piece, or none, unless
	// it was placed. No piece is copied, except to be encrypted. All together, and Front and
	// Middle each, are less than 4 GiB.
	Data [][]byte

	// Sent, if set, is called once, when the messenger needs none of the
	// slices any more: it was acknowledged by a lossless peer, or written to
	// a lossy one, or dropped with its connection, which may be in Send itself. It
	// must not block, nor take a lock that a caller of Send holds. The calls
	// for different messages may come from different goroutines at once.
	Sent func()

	// Seq is the number of a received message in its connection.
	Seq uint64
	// Placed, set on a received message, says that its data lie where a [Placer]
	// wanted them, of which Data is the list.
	Placed bool
	// Release, set on a received message, gives the storage of its payload
	// back. Calling it is optional, calling it twice is a fault, and nothing
	// of Front, Middle and Data may be used after it.
	Release func()
}

// DataLen is the number of bytes of Data.
func (m *Message) DataLen() int {
	n := 0
	for _, b := range m.Data {
		n += len(b)
	}
	return n
}

// size is the number of payload bytes.
func (m *Message) size() int { return len(m.Front) + len(m.Middle) + m.DataLen() }

// sent calls Sent.
func (m *Message) sent() {
	if m.Sent != nil {
		m.Sent()
	}
}

// drop gives a received message's storage back; m may be nil.
func (m *Message) drop() {
	if m != nil && m.Release != nil {
		m.Release()
	}
}

// Dispatcher is what a layer above implements to receive from its
// connections. All calls for one connection come one after the other from one
// goroutine, which is not the connection's reader: a dispatcher that is slow
// does not stop acknowledgements and keepalives, until the connection's queue
// of received bytes is full.
type Dispatcher interface {
	// Ready is called when the handshake is done: once for a lossy
	// connection, after each reconnect for a lossless one.
	Ready(c *Conn)
	// Receive takes one message.
	Receive(c *Conn, m *Message)
	// RemoteReset says that the peer of a lossless connection lost the
	// session: it will never see what was not acknowledged, and forgot the
	// rest. The connection goes on with sequence numbers from 0. All that was
	// given to Send before this call is dropped, and all that is given to it
	// from this call on belongs to the new session.
	RemoteReset(c *Conn)
	// Closed is the last call: the connection is dead. err is nil after
	// [Conn.Close], else it says what ended it.
	Closed(c *Conn, err error)
}

// Placer is what a [Dispatcher] may implement to have the data of messages
// received where they are wanted, without a copy. Its methods are called by the
// connection's reader, not by the goroutine of the dispatcher's other methods,
// and must not block.
type Placer interface {
	// Place says where the n bytes of data of a message go that is being
	// received: into buffers of n bytes together, one after the other, or, if it
	// returns nil, into storage of the messenger as ever. It is asked for
	// messages of at least [MinPlaced] bytes of data, on connections in crc mode.
	//
	// m is as [Dispatcher.Receive] will get it but for Data, Seq and Release, and
	// is valid until Place returns. Type, Version and Tid are as the peer sent
	// them. Front and Middle are not known to be: their checksums come last. Nor
	// is it sure that the message will be whole, or is not one that was received
	// before, so Place only says where, and Receive what came.
	Place(c *Conn, m *Message, n int) [][]byte
	// Placed follows each Place that returned buffers: from now on the messenger
	// writes nothing there. With ok the message is whole, its checksums are right
	// and Receive gets it next of all, unless the connection is closed before;
	// else the buffers hold anything, and there will be no such message.
	// [Conn.Close] makes a Placed that is due come soon, whatever the peer does.
	Placed(c *Conn, ok bool)
}

// MinPlaced is the least size of data that a [Placer] is asked about. Less than
// this came with the front, in one read, so that it has to be copied anyway.
const MinPlaced = 16 << 10

// Policy says what happens when a connection breaks.
type Policy uint8

const (
	// Lossy connections end at the first fault, even if the peer would keep a
	// session; what was under way is lost and the dispatcher's affair
	// (monitors, OSDs, managers).
	Lossy Policy = iota
	// Lossless connections reconnect until closed and deliver every message
	// once and in order, unless the peer forgot the session (MDS).
	Lossless
)

// AuthMode is how a connection protects its frames (CEPH_CON_MODE_*).
type AuthMode uint32

// The connection modes.
const (
	ModeCRC    AuthMode = 1
	ModeSecure AuthMode = 2
)

// Authenticator gives each connection its part of the authentication.
type Authenticator interface {
	// Begin starts the exchange of one connection attempt with a peer. It may
	// be called from many goroutines.
	Begin(peer denc.EntityType) (AuthSession, error)
}

// AuthSession is the authentication of one connection attempt. The messenger
// calls it from one goroutine, in the order of the handshake (ceph/ceph
// doc/dev/msgr2.rst, "authentication phase").
type AuthSession interface {
	// Request gives AUTH_REQUEST: the method, the modes the client wants, best
	// first, and the method's payload.
	Request() (method uint32, modes []AuthMode, payload []byte, err error)
	// BadMethod tells of AUTH_BAD_METHOD. Without an error Request is asked
	// again on the same connection.
	BadMethod(method uint32, result int32, methods []uint32, modes []AuthMode) error
	// ReplyMore answers AUTH_REPLY_MORE with the payload of AUTH_REQUEST_MORE.
	ReplyMore(payload []byte) ([]byte, error)
	// Done takes AUTH_DONE. The session key signs the handshake; the
	// connection secret (of at least 64 bytes in secure mode: key, then the
	// nonces of both directions) protects the frames. Both are empty with
	// auth none (method 1), and with it alone may the key be.
	Done(globalID uint64, mode AuthMode, payload []byte) (sessionKey, connectionSecret []byte, err error)
}
