package auth

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"capstan/cephfs/denc"
)

// The monitors' ports (ceph/ceph src/mon/MonMap.h, CEPH_MON_PORT_*).
const (
	monPort2      = 3300
	monPortLegacy = 6789
)

// MonHost is one monitor as "mon host" names it: addresses, or a host name
// that gives them.
type MonHost struct {
	Addrs denc.AddrVec
	Host  string // if not empty, to be resolved, with Port
	Port  uint16 // 0: the standard ports
	Type  denc.AddrType
}

// maxMonHosts bounds a list.
const maxMonHosts = 256

// ParseMonHosts reads a value of "mon host": monitors separated by commas,
// semicolons or blanks. One is an IP address or a host name, with or without
// v1: or v2: before and a port behind, or several such in brackets:
// [v2:192.0.2.1:3300,v1:192.0.2.1:6789]. IPv6 addresses with a port stand in
// brackets of their own. Without a version a port of 6789 means messenger v1,
// any other v2, and no port means v2 on 3300 and v1 on 6789.
func ParseMonHosts(s string) ([]MonHost, error) {
	var hosts []MonHost
	for s = strings.TrimLeft(s, " \t\n,;"); s != ""; s = strings.TrimLeft(s, " \t\n,;") {
		if len(hosts) == maxMonHosts {
			return nil, fmt.Errorf("mon host: more than %d monitors", maxMonHosts)
		}
		if s[0] == '[' && !startsIPv6(s) {
			inner, rest, err := cutBrackets(s)
			if err != nil {
				return nil, err
			}
			var h MonHost
			for _, part := range splitList(inner) {
				one, err := parseMonHost(part)
				if err != nil {
					return nil, err
				}
				if one.Host != "" {
					return nil, fmt.Errorf("mon host: %q: a name cannot stand in brackets", part)
				}
				h.Addrs = append(h.Addrs, one.Addrs...)
			}
			if len(h.Addrs) == 0 {
				return nil, fmt.Errorf("mon host: empty brackets")
			}
			hosts, s = append(hosts, h), rest
			continue
		}
		end := strings.IndexAny(s, " \t\n,;")
		if end < 0 {
			end = len(s)
		}
		h, err := parseMonHost(s[:end])
		if err != nil {
			return nil, err
		}
		hosts, s = append(hosts, h), s[end:]
	}
	return hosts, nil
}

// startsIPv6 reports whether s begins with one IPv6 address in brackets, not
// with a list in brackets.
func startsIPv6(s string) bool {
	inner, _, ok := strings.Cut(s[1:], "]")
	if !ok {
		return false
	}
	a, err := netip.ParseAddr(inner)
	return err == nil && a.Is6()
}

// cutBrackets takes a list in brackets, which may hold addresses in brackets.
func cutBrackets(s string) (inner, rest string, err error) {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return s[1:i], s[i+1:], nil
			}
		}
	}
	return "", "", fmt.Errorf("mon host: %q: a bracket is not closed", s)
}

func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' || r == ' ' || r == '\t' || r == '\n' })
}

// parseMonHost reads one address or name.
func parseMonHost(s string) (MonHost, error) {
	typ := denc.AddrNone
	rest := s
	switch {
	case strings.HasPrefix(s, "v1:"):
		typ, rest = denc.AddrLegacy, s[3:]
	case strings.HasPrefix(s, "v2:"):
		typ, rest = denc.AddrMsgr2, s[3:]
	case strings.HasPrefix(s, "any:"):
		rest = s[4:]
	}
	if a, err := denc.ParseAddr(rest); err == nil && a.Type == denc.AddrNone {
		return MonHost{Addrs: monAddrs(typ, a.Host.Addr(), a.Host.Port(), a.Nonce)}, nil
	}
	rest, _, _ = strings.Cut(rest, "/")
	h := MonHost{Host: rest, Type: typ}
	if host, port, ok := strings.Cut(rest, ":"); ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return MonHost{}, fmt.Errorf("mon host: %q: %q is not a port", s, port)
		}
		h.Host, h.Port = host, uint16(n)
	}
	if !validHostName(h.Host) {
		return MonHost{}, fmt.Errorf("mon host: %q is neither an address nor a host name", s)
	}
	return h, nil
}

func validHostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return true
}

// monAddrs completes what an address leaves open.
func monAddrs(t denc.AddrType, ip netip.Addr, port uint16, nonce uint32) denc.AddrVec {
	make := func(t denc.AddrType, port uint16) denc.Addr {
		return denc.Addr{Type: t, Nonce: nonce, Host: netip.AddrPortFrom(ip, port)}
	}
	switch {
	case t == denc.AddrNone && port == 0:
		return denc.AddrVec{make(denc.AddrMsgr2, monPort2), make(denc.AddrLegacy, monPortLegacy)}
	case t == denc.AddrNone && port == monPortLegacy, t == denc.AddrLegacy && port != 0:
		return denc.AddrVec{make(denc.AddrLegacy, port)}
	case t == denc.AddrLegacy:
		return denc.AddrVec{make(t, monPortLegacy)}
	case port == 0:
		return denc.AddrVec{make(denc.AddrMsgr2, monPort2)}
	}
	return denc.AddrVec{make(denc.AddrMsgr2, port)}
}

// Resolver finds the addresses of host names; [net.DefaultResolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// ResolveMonHosts gives one address vector for each address of each monitor. A
// nil resolver is the default one. A name that cannot be resolved is an error
// only if nothing else is left.
func ResolveMonHosts(ctx context.Context, r Resolver, hosts []MonHost) ([]denc.AddrVec, error) {
	if r == nil {
		r = net.DefaultResolver
	}
	var vecs []denc.AddrVec
	var first error
	for _, h := range hosts {
		if h.Host == "" {
			vecs = append(vecs, h.Addrs)
			continue
		}
		ips, err := r.LookupNetIP(ctx, "ip", h.Host)
		if err != nil && first == nil {
			first = fmt.Errorf("mon host %s: %w", h.Host, err)
		}
		for _, ip := range ips {
			vecs = append(vecs, monAddrs(h.Type, ip.Unmap().WithZone(""), h.Port, 0))
		}
	}
	if len(vecs) == 0 && first == nil {
		first = fmt.Errorf("mon host: no monitors")
	}
	if len(vecs) > 0 {
		first = nil
	}
	return vecs, first
}
