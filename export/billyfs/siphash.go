package billyfs

import (
	"encoding/binary"
	"math/bits"
)

// sipKey is the secret that directory cookies are hashed with. It is kept in
// the handle table, so that cookies are the same after a restart, and secret,
// so that nobody can choose names that collide.
type sipKey struct{ k0, k1 uint64 }

// hash is SipHash-2-4 (Aumasson and Bernstein, 2012) of s.
func (k sipKey) hash(s string) uint64 {
	v0, v1 := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d
	v2, v3 := k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
	round := func() {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	last := uint64(len(s)) << 56
	for len(s) >= 8 {
		m := binary.LittleEndian.Uint64([]byte(s[:8]))
		v3 ^= m
		round()
		round()
		v0 ^= m
		s = s[8:]
	}
	for i := range len(s) {
		last |= uint64(s[i]) << (8 * i)
	}
	v3 ^= last
	round()
	round()
	v0 ^= last
	v2 ^= 0xff
	for range 4 {
		round()
	}
	return v0 ^ v1 ^ v2 ^ v3
}
