package denc

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// AddrType says which protocol an address speaks (ceph/ceph
// src/msg/msg_types.h, entity_addr_t::type_t).
type AddrType uint32

// The address types.
const (
	AddrNone   AddrType = 0
	AddrLegacy AddrType = 1 // messenger v1
	AddrMsgr2  AddrType = 2 // messenger v2
	AddrAny    AddrType = 3 // either; used in blocklists
	AddrCIDR   AddrType = 4 // a network; Nonce is the prefix length; blocklists only
)

// String returns the prefix that Ceph prints: v1, v2, any, cidr, none.
func (t AddrType) String() string {
	switch t {
	case AddrNone:
		return "none"
	case AddrLegacy:
		return "v1"
	case AddrMsgr2:
		return "v2"
	case AddrAny:
		return "any"
	case AddrCIDR:
		return "cidr"
	}
	return "type" + strconv.FormatUint(uint64(t), 10)
}

// Address families on the wire: Linux' numbers, whatever the host is.
const (
	familyInet  = 2
	familyInet6 = 10

	sockaddrIn  = 16 // family, port, address, 8 bytes of zero
	sockaddrIn6 = 28 // family, port, flow, address, scope

	sockaddrStorage = 128 // of the form before release 10
)

// Addr is an entity address (entity_addr_t): where one instance of a daemon or
// client speaks. The zero Addr is the blank address. Addrs compare with ==.
type Addr struct {
	Type  AddrType
	Nonce uint32         // tells instances at one address apart; the prefix length of AddrCIDR
	Host  netip.AddrPort // the zero AddrPort if the address has no family; never with a zone
}

// IsBlank reports whether a names no host.
func (a Addr) IsBlank() bool { return !a.Host.Addr().IsValid() || a.Host.Addr().IsUnspecified() }

// String returns a as Ceph prints it: v2:192.0.2.1:6800/4711. The blank
// address of AddrNone is "-".
func (a Addr) String() string {
	if a.Type == AddrNone && !a.Host.IsValid() {
		return "-"
	}
	host := "(no address)"
	if a.Host.Addr().IsValid() {
		host = a.Host.String()
	}
	s := host + "/" + strconv.FormatUint(uint64(a.Nonce), 10)
	if a.Type == AddrAny || a.Type == AddrNone {
		return s
	}
	return a.Type.String() + ":" + s
}

// ParseAddr reads the form that [Addr.String] gives. Type prefix, port and
// nonce may be missing: then they are AddrNone, 0 and 0.
func ParseAddr(s string) (Addr, error) {
	var a Addr
	rest := s
	for _, t := range []AddrType{AddrLegacy, AddrMsgr2, AddrAny, AddrCIDR} {
		if after, ok := strings.CutPrefix(s, t.String()+":"); ok {
			a.Type, rest = t, after
			break
		}
	}
	host, nonce, hasNonce := strings.Cut(rest, "/")
	if hasNonce {
		n, err := strconv.ParseUint(nonce, 10, 32)
		if err != nil {
			return Addr{}, fmt.Errorf("address %q: nonce %q is not a 32-bit number", s, nonce)
		}
		a.Nonce = uint32(n)
	}
	if ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		a.Host = netip.AddrPortFrom(ip.Unmap(), 0)
	} else if hp, err := netip.ParseAddrPort(host); err == nil {
		a.Host = netip.AddrPortFrom(hp.Addr().Unmap(), hp.Port())
	} else {
		return Addr{}, fmt.Errorf("address %q: %q is not an IP address with or without a port", s, host)
	}
	if a.Host.Addr().Zone() != "" {
		return Addr{}, fmt.Errorf("address %q: zones are not supported", s)
	}
	return a, nil
}

// leastAddr is the shortest encoding of an address in a vector.
const leastAddr = 1 + 6 + 12

// Addr appends a in the form of release 10 and later.
func (e *Encoder) Addr(a Addr) {
	e.Uint8(1)
	s := e.Struct(1, 1)
	e.Uint32(uint32(a.Type))
	e.Uint32(a.Nonce)
	ip := a.Host.Addr()
	switch {
	case ip.Is4():
		e.Uint32(sockaddrIn)
		e.Uint16(familyInet)
		e.buf = binary.BigEndian.AppendUint16(e.buf, a.Host.Port())
		b := ip.As4()
		e.Raw(b[:])
		e.Uint64(0)
	case ip.Is6():
		e.Uint32(sockaddrIn6)
		e.Uint16(familyInet6)
		e.buf = binary.BigEndian.AppendUint16(e.buf, a.Host.Port())
		e.Uint32(0)
		b := ip.As16()
		e.Raw(b[:])
		e.Uint32(0)
	default:
		// Ceph gives an address without a family the size of its union, all zero.
		e.Uint32(sockaddrIn6)
		for range sockaddrIn6 / 4 {
			e.Uint32(0)
		}
	}
	e.End(s)
}

// Addr reads an address, in the present form or in that before release 10.
func (d *Decoder) Addr(field string) Addr {
	switch d.Uint8(field) {
	case 0:
		return d.legacyAddr(field)
	case 1:
		return d.addrBody(field)
	}
	d.Fail(field, ErrValue)
	return Addr{}
}

// addrBody reads what follows the marker 1.
func (d *Decoder) addrBody(field string) Addr {
	s := d.Struct(field, 1)
	a := Addr{Type: AddrType(d.Uint32("type")), Nonce: d.Uint32("nonce")}
	if n := d.Count("sockaddr", 1); n > 0 {
		a.Host = d.sockaddr(n, binary.LittleEndian)
	}
	d.End(s)
	return a
}

// legacyAddr reads what follows the marker 0: the rest of the marker, the
// nonce, and a sockaddr_storage whose family is big-endian.
func (d *Decoder) legacyAddr(field string) Addr {
	d.Skip(field, 3)
	a := Addr{Type: AddrLegacy, Nonce: d.Uint32(field)}
	a.Host = d.sockaddr(sockaddrStorage, binary.BigEndian)
	return a
}

// sockaddr reads a socket address of n bytes; family is the byte order of its
// family, the rest is in network order.
func (d *Decoder) sockaddr(n int, family binary.ByteOrder) netip.AddrPort {
	b := d.take("sockaddr", n)
	if b == nil {
		return netip.AddrPort{}
	}
	if n < 2 {
		d.Fail("sockaddr", ErrShort)
		return netip.AddrPort{}
	}
	switch f := family.Uint16(b); {
	case f == familyInet && n >= sockaddrIn:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case f == familyInet6 && n >= sockaddrIn6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:]))
	case f == 0:
		return netip.AddrPort{}
	}
	d.Fail("sockaddr", ErrValue)
	return netip.AddrPort{}
}

// AddrVec is the list of addresses of one instance (entity_addrvec_t).
type AddrVec []Addr

// Msgr2 returns the first address that speaks messenger v2.
func (v AddrVec) Msgr2() (Addr, bool) { return v.first(AddrMsgr2) }

// Legacy returns the first address that speaks messenger v1.
func (v AddrVec) Legacy() (Addr, bool) { return v.first(AddrLegacy) }

func (v AddrVec) first(t AddrType) (Addr, bool) {
	for _, a := range v {
		if a.Type == t {
			return a, true
		}
	}
	return Addr{}, false
}

// Equal reports whether v and o hold the same addresses in the same order.
func (v AddrVec) Equal(o AddrVec) bool {
	if len(v) != len(o) {
		return false
	}
	for i := range v {
		if v[i] != o[i] {
			return false
		}
	}
	return true
}

// String returns v as Ceph prints it: one address as it is, several in
// brackets.
func (v AddrVec) String() string {
	if len(v) == 1 {
		return v[0].String()
	}
	parts := make([]string, len(v))
	for i, a := range v {
		parts[i] = a.String()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// AddrVec appends v in the form of release 14 and later.
func (e *Encoder) AddrVec(v AddrVec) {
	e.Uint8(2)
	e.Count(len(v))
	for _, a := range v {
		e.Addr(a)
	}
}

// AddrVec reads a vector, or one address in its place.
func (d *Decoder) AddrVec(field string) AddrVec {
	switch d.Uint8(field) {
	case 0:
		return AddrVec{d.legacyAddr(field)}
	case 1:
		return AddrVec{d.addrBody(field)}
	case 2:
		v := make(AddrVec, d.Count(field, leastAddr))
		for i := range v {
			v[i] = d.Addr(field)
		}
		return v
	}
	d.Fail(field, ErrValue)
	return nil
}
