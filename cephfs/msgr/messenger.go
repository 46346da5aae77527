package msgr

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"sync"

	"capstan/cephfs/denc"
)

// Messenger is one client instance: what its connections share.
type Messenger struct {
	opts Options // constant

	ctx    context.Context // ends with Close; constant
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines of all connections

	mu        sync.Mutex
	addr      denc.Addr
	globalSeq uint64
	number    uint64 // of the instance's name; 0 before the first session
	closed    bool
}

// New returns a messenger without connections. o.Auth must be set.
func New(o Options) *Messenger {
	m := &Messenger{opts: o.withDefaults()}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.addr = denc.Addr{Type: denc.AddrAny, Nonce: m.opts.Nonce}
	return m
}

// Addr is the address of this instance, as peers know it and as a blocklist
// names it: of type any, with port 0, and without an IP until the first peer
// said what it is.
func (m *Messenger) Addr() denc.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addr
}

// learn sets the IP of this instance once and for all, from what an
// authenticated peer saw; local is what to take if it saw nothing. It returns
// the address to identify with.
func (m *Messenger) learn(seen denc.Addr, local netip.Addr) (denc.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.addr.IsBlank() {
		return m.addr, nil
	}
	ip := seen.Host.Addr().Unmap()
	if !ip.IsValid() || ip.IsUnspecified() {
		ip = local.Unmap()
	}
	if !ip.IsValid() || ip.IsUnspecified() {
		return m.addr, faultf(KindProtocol, "the peer did not say what address it sees")
	}
	m.addr.Host = netip.AddrPortFrom(ip.WithZone(""), 0)
	return m.addr, nil
}

// numberOf returns the number of this instance's name, given what an
// authenticated session says: the first one stays, as in Ceph, whose clients
// name their messenger once. An OSD knows a request that comes again by it.
func (m *Messenger) numberOf(globalID uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.number == 0 {
		m.number = globalID
	}
	return m.number
}

// maxSeq bounds the numbers that a peer may tell a client to go on from. It
// leaves more than can be counted up to: one peer must not bring the numbers of
// all to their end.
const maxSeq = 1 << 63

// nextGlobalSeq returns a number above all given before, and above least, which
// a peer has seen; false if it cannot have. What was given before it can have,
// from 2^63 on too.
func (m *Messenger) nextGlobalSeq(least uint64) (uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if least > m.globalSeq && least >= maxSeq {
		return 0, false
	}
	m.globalSeq = max(m.globalSeq, least) + 1
	return m.globalSeq, true
}

// Connect opens a connection to a peer. It does not wait: the connection is
// made in the background, and messages may be sent at once. An address list
// without an address of messenger v2 is refused with [KindLegacy].
func (m *Messenger) Connect(peerType denc.EntityType, peer denc.AddrVec, p Policy, d Dispatcher) (*Conn, error) {
	target, ok := peer.Msgr2()
	if !ok || target.IsBlank() || target.Host.Port() == 0 {
		e := &Error{Kind: KindLegacy, Type: peerType, Err: errNoAddress}
		if len(peer) > 0 {
			e.Peer = peer[0]
		}
		return nil, e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	c := newConn(m, peerType, target, p, d)
	m.wg.Add(2)
	go c.run()
	go c.dispatch()
	return c, nil
}

// Close closes every connection and waits until all their goroutines ended,
// and with them all calls to dispatchers. It must not be called from one.
func (m *Messenger) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.wg.Wait()
}

func randomNonce() uint32 {
	var b [4]byte
	for {
		rand.Read(b[:])
		if n := binary.LittleEndian.Uint32(b[:]); n != 0 {
			return n
		}
	}
}
