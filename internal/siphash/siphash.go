// Package siphash is SipHash-2-4 (Aumasson and Bernstein, 2012, and their
// reference code): a keyed hash that is quick on short inputs and that nobody
// without the key can make collide or forge.
package siphash

import (
	"encoding/binary"
	"math/bits"
)

// Key is the secret, as two little-endian halves.
type Key struct{ K0, K1 uint64 }

// Sum64 is the 64-bit hash of p.
func (k Key) Sum64(p []byte) uint64 {
	s := k.absorb(p, 0)
	s.v2 ^= 0xff
	s.rounds(4)
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

// Sum128 is the 128-bit hash of p, its low and its high half.
func (k Key) Sum128(p []byte) (lo, hi uint64) {
	s := k.absorb(p, 0xee)
	s.v2 ^= 0xee
	s.rounds(4)
	lo = s.v0 ^ s.v1 ^ s.v2 ^ s.v3
	s.v1 ^= 0xdd
	s.rounds(4)
	return lo, s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

type state struct{ v0, v1, v2, v3 uint64 }

// absorb takes in the key, p and its length; wide tells the two sizes apart.
func (k Key) absorb(p []byte, wide uint64) state {
	s := state{
		k.K0 ^ 0x736f6d6570736575,
		k.K1 ^ 0x646f72616e646f6d ^ wide,
		k.K0 ^ 0x6c7967656e657261,
		k.K1 ^ 0x7465646279746573,
	}
	last := uint64(len(p)) << 56
	for len(p) >= 8 {
		s.word(binary.LittleEndian.Uint64(p))
		p = p[8:]
	}
	for i, b := range p {
		last |= uint64(b) << (8 * i)
	}
	s.word(last)
	return s
}

func (s *state) word(m uint64) {
	s.v3 ^= m
	s.rounds(2)
	s.v0 ^= m
}

func (s *state) rounds(n int) {
	v0, v1, v2, v3 := s.v0, s.v1, s.v2, s.v3
	for range n {
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
	*s = state{v0, v1, v2, v3}
}
