package export

import (
	"fmt"
	"net/netip"
	"strings"
)

// Client is which peers a [Rule] is for: an address, a network, host names by
// pattern, or all. The zero value is for none.
type Client struct {
	kind   clientKind
	prefix netip.Prefix // clientNet
	host   string       // clientHost: pattern in lower case
}

type clientKind uint8

const (
	clientNone clientKind = iota
	clientAny
	clientNet
	clientHost
)

// AnyClient is for every peer; written "*".
var AnyClient = Client{kind: clientAny}

// ParseClient reads a client as written in the configuration: "*", an IPv4 or
// IPv6 address, either with "/bits", or a host name in which * stands for any
// characters (dots too) and ? for one.
func ParseClient(s string) (Client, error) {
	if s == "*" {
		return AnyClient, nil
	}
	if prefix, ok, err := parseNet(s); err != nil {
		return Client{}, err
	} else if ok {
		return Client{kind: clientNet, prefix: prefix}, nil
	}
	host := strings.TrimSuffix(strings.ToLower(s), ".")
	if host == "*" || len(host) > 253 || strings.Contains("."+host+".", "..") {
		return Client{}, fmt.Errorf("client %q: want an address, a network, a host name or *", s)
	}
	for _, r := range host {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.', r == '*', r == '?':
		case r == '@':
			return Client{}, fmt.Errorf("client %q: netgroups are not supported", s)
		default:
			return Client{}, fmt.Errorf("client %q: %q cannot be in a host name", s, r)
		}
	}
	if strings.Trim(host, "0123456789.") == "" {
		return Client{}, fmt.Errorf("client %q: not an IP address", s)
	}
	if strings.Trim(host, "0123456789.*?-") == "" && strings.ContainsAny(host, "0123456789") {
		return Client{}, fmt.Errorf("client %q: no pattern of host names; write a network such as 192.168.1.0/24", s)
	}
	return Client{kind: clientHost, host: host}, nil
}

// parseNet reads addresses and networks; ok is false if s has the form of
// neither. IPv4 mapped into IPv6 becomes IPv4, as peers' addresses do.
func parseNet(s string) (p netip.Prefix, ok bool, err error) {
	addr, bits, cidr := strings.Cut(s, "/")
	a, aerr := netip.ParseAddr(addr)
	if aerr != nil {
		if cidr || strings.Contains(s, ":") {
			return p, false, fmt.Errorf("client %q: %w", s, aerr)
		}
		return p, false, nil
	}
	if a.Zone() != "" {
		return p, false, fmt.Errorf("client %q: an address with a zone cannot be matched", s)
	}
	if !cidr {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true, nil
	}
	p, err = netip.ParsePrefix(s)
	if err != nil {
		return p, false, fmt.Errorf("client %q: the part behind / must be a number of bits, not %q", s, bits)
	}
	if a.Is4In6() {
		if p.Bits() < 96 {
			return p, false, fmt.Errorf("client %q: a mapped IPv4 network has at least 96 bits", s)
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), true, nil
}

// String returns c as [ParseClient] reads it.
func (c Client) String() string {
	switch c.kind {
	case clientAny:
		return "*"
	case clientNet:
		if c.prefix.IsSingleIP() {
			return c.prefix.Addr().String()
		}
		return c.prefix.String()
	case clientHost:
		return c.host
	}
	return "(nobody)"
}

// ByName reports whether c is decided by the peer's host name.
func (c Client) ByName() bool { return c.kind == clientHost }

// matchHost reports whether name, in lower case and without a dot at its end,
// fits pattern.
func matchHost(pattern, name string) bool {
	// Greedy with one point to come back to: linear in practice and at worst
	// len(pattern)*len(name).
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
