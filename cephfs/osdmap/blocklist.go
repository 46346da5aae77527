package osdmap

import (
	"net/netip"

	"capstan/cephfs/denc"
)

// Blocklisted reports whether the OSDs refuse the instance with this address: an
// entry names it, its host, or a network it is in (OSDMap::is_blocklisted).
func (m *Map) Blocklisted(a denc.Addr) bool {
	if len(m.Blocklist) == 0 && len(m.RangeBlocklist) == 0 {
		return false
	}
	a.Type = denc.AddrAny
	if m.RequireOSDRelease < ReleaseNautilus {
		a.Type = denc.AddrLegacy
	}
	if _, ok := m.Blocklist[a]; ok {
		return true
	}
	ip := a.Host.Addr()
	if !ip.IsValid() {
		return false
	}
	host := denc.Addr{Type: a.Type, Host: netip.AddrPortFrom(ip, 0)}
	if _, ok := m.Blocklist[host]; ok {
		return true
	}
	for r := range m.RangeBlocklist {
		if p, err := r.Host.Addr().Prefix(int(min(r.Nonce, 128))); err == nil && p.Contains(ip) {
			return true
		}
	}
	return false
}

// BlocklistedAny reports whether one of the addresses of an instance is
// blocklisted.
func (m *Map) BlocklistedAny(v denc.AddrVec) bool {
	for _, a := range v {
		if m.Blocklisted(a) {
			return true
		}
	}
	return false
}
