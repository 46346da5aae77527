package cephtest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// ClientIP is where peers see the clients of a network.
var ClientIP = netip.MustParseAddr("192.0.2.200")

// Network connects clients with peers in memory. Its methods may be called
// from any goroutine.
type Network struct {
	mu    sync.Mutex
	peers map[netip.AddrPort]*Peer
	port  uint16
	dials int
}

// NewNetwork returns a network without peers.
func NewNetwork() *Network {
	return &Network{peers: make(map[netip.AddrPort]*Peer), port: 40000}
}

// Dial connects to the peer that listens at addr, for msgr.Options. Without
// one it fails as TCP does.
func (n *Network) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.dials++
	p := n.peers[addr]
	n.port++
	from := netip.AddrPortFrom(ClientIP, n.port)
	n.mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("dial %v: %w", addr, syscall.ECONNREFUSED)
	}
	client, server := pipe(net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(addr))
	if !p.accept(server) {
		return nil, fmt.Errorf("dial %v: %w", addr, syscall.ECONNREFUSED)
	}
	return client, nil
}

// Dials is how often somebody tried to connect.
func (n *Network) Dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

func (n *Network) listen(p *Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := p.cfg.Addrs[0].Host
	if n.peers[at] != nil {
		panic(fmt.Sprintf("cephtest: two peers at %v", at))
	}
	n.peers[at] = p
}

func (n *Network) unlisten(p *Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := p.cfg.Addrs[0].Host; n.peers[at] == p {
		delete(n.peers, at)
	}
}
