package msgr

import "capstan/cephfs/denc"

// Conn is one connection to a peer. Its methods may be called from any
// goroutine, those of a dispatcher included.
type Conn struct {
	done chan struct{}
}

// Send queues a message. It never waits for the network, so that the caller
// bounds what is under way. The only error is [ErrClosed]; m.Sent is then not
// called.
func (c *Conn) Send(m *Message) error { return nil }

// Close ends the connection. It does not wait: [Dispatcher.Closed] tells when
// no call to the dispatcher is to come.
func (c *Conn) Close() {}

// Done is closed when the connection is dead.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says what ended the connection: nil while it lives and after [Conn.Close].
func (c *Conn) Err() error { return nil }

// LastFault is what broke a lossless connection last, also while it
// reconnects; nil if nothing did.
func (c *Conn) LastFault() error { return nil }

// PeerType is the kind of daemon the connection was opened to.
func (c *Conn) PeerType() denc.EntityType { return 0 }

// Peer is the address the connection was opened to.
func (c *Conn) Peer() denc.Addr { return denc.Addr{} }

// PeerName is the name the peer gave itself; its number is [denc.NoNum] before
// the first handshake.
func (c *Conn) PeerName() denc.Name { return denc.Name{} }

// Mode is how frames are protected; 0 before the first handshake.
func (c *Conn) Mode() AuthMode { return 0 }

// Features are those both sides have; 0 before the first handshake.
func (c *Conn) Features() uint64 { return 0 }
