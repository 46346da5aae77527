package export

import "net/netip"

// Flavors of RPC credentials that mean something to exports (RFC 5531
// section 8.2).
const (
	FlavorNone uint32 = 0
	FlavorSys  uint32 = 1
)

// Peer is who makes a call, as received. The exports look at it during a call
// and do not keep it, nor Groups.
type Peer struct {
	Addr    netip.Addr
	Flavor  uint32 // anything but FlavorSys is an anonymous caller
	Machine string // what AUTH_SYS calls the machine; means nothing
	UID     uint32
	GID     uint32
	Groups  []uint32
}

// addr returns the address that rules are matched with: IPv4 is IPv4 on
// whatever socket it came, and a link-local address has no zone.
func (p *Peer) addr() netip.Addr { return p.Addr.Unmap().WithZone("") }

// Rights is what a peer may do on an export.
type Rights struct {
	Cred     *Cred // shared, never changed
	ReadOnly bool  // nothing may be changed: answer ErrROFS
}

// Node is an object of an export. The directories of the pseudo tree are
// objects of the pseudo export, whose ID is 0 and which has a Volume of its
// own.
type Node struct {
	Export *Export
	Object Object
}

// IsPseudo reports whether n belongs to the pseudo tree.
func (n Node) IsPseudo() bool { return n.Export.ID == 0 }
