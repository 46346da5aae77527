package crush

// Robert Jenkins' mixing hash of 32-bit words, CRUSH_HASH_RJENKINS1 (ceph/ceph
// src/crush/hash.c). Its round is cut in three so that the compiler inlines it.

const (
	hashSeed = 1315423911
	hashX    = 231232
	hashY    = 1232
)

func mix1(a, b, c uint32) (uint32, uint32, uint32) {
	a = (a - b - c) ^ c>>13
	b = (b - c - a) ^ a<<8
	c = (c - a - b) ^ b>>13
	return a, b, c
}

func mix2(a, b, c uint32) (uint32, uint32, uint32) {
	a = (a - b - c) ^ c>>12
	b = (b - c - a) ^ a<<16
	c = (c - a - b) ^ b>>5
	return a, b, c
}

func mix3(a, b, c uint32) (uint32, uint32, uint32) {
	a = (a - b - c) ^ c>>3
	b = (b - c - a) ^ a<<10
	c = (c - a - b) ^ b>>15
	return a, b, c
}

// Hash2 hashes two words.
func Hash2(a, b uint32) uint32 {
	h := hashSeed ^ a ^ b
	x, y := uint32(hashX), uint32(hashY)
	a, b, h = mix1(a, b, h)
	a, b, h = mix2(a, b, h)
	a, b, h = mix3(a, b, h)
	x, a, h = mix1(x, a, h)
	x, a, h = mix2(x, a, h)
	_, _, h = mix3(x, a, h)
	b, y, h = mix1(b, y, h)
	b, y, h = mix2(b, y, h)
	_, _, h = mix3(b, y, h)
	return h
}

// Hash3 hashes three words.
func Hash3(a, b, c uint32) uint32 {
	h := hashSeed ^ a ^ b ^ c
	x, y := uint32(hashX), uint32(hashY)
	a, b, h = mix1(a, b, h)
	a, b, h = mix2(a, b, h)
	a, b, h = mix3(a, b, h)
	c, x, h = mix1(c, x, h)
	c, x, h = mix2(c, x, h)
	c, x, h = mix3(c, x, h)
	y, a, h = mix1(y, a, h)
	y, a, h = mix2(y, a, h)
	y, _, h = mix3(y, a, h)
	b, x, h = mix1(b, x, h)
	b, x, h = mix2(b, x, h)
	_, _, h = mix3(b, x, h)
	y, c, h = mix1(y, c, h)
	y, c, h = mix2(y, c, h)
	_, _, h = mix3(y, c, h)
	return h
}

// Hash4 hashes four words.
func Hash4(a, b, c, d uint32) uint32 {
	h := hashSeed ^ a ^ b ^ c ^ d
	x, y := uint32(hashX), uint32(hashY)
	a, b, h = mix1(a, b, h)
	a, b, h = mix2(a, b, h)
	a, b, h = mix3(a, b, h)
	c, d, h = mix1(c, d, h)
	c, d, h = mix2(c, d, h)
	c, d, h = mix3(c, d, h)
	a, x, h = mix1(a, x, h)
	a, x, h = mix2(a, x, h)
	_, x, h = mix3(a, x, h)
	y, b, h = mix1(y, b, h)
	y, b, h = mix2(y, b, h)
	y, _, h = mix3(y, b, h)
	c, x, h = mix1(c, x, h)
	c, x, h = mix2(c, x, h)
	_, _, h = mix3(c, x, h)
	y, d, h = mix1(y, d, h)
	y, d, h = mix2(y, d, h)
	_, _, h = mix3(y, d, h)
	return h
}

// hash3Pair is Hash3(a, b0, c) and Hash3(a, b1, c). One hash is a chain in which
// each operation waits for the one before; a processor does two at once in little
// more than the time of one.
func hash3Pair(a, b0, b1, c uint32) (h0, h1 uint32) {
	h0, h1 = hashSeed^a^b0^c, hashSeed^a^b1^c
	a0, a1, c0, c1 := a, a, c, c
	x0, x1, y0, y1 := uint32(hashX), uint32(hashX), uint32(hashY), uint32(hashY)
	a0, b0, h0 = mix1(a0, b0, h0)
	a1, b1, h1 = mix1(a1, b1, h1)
	a0, b0, h0 = mix2(a0, b0, h0)
	a1, b1, h1 = mix2(a1, b1, h1)
	a0, b0, h0 = mix3(a0, b0, h0)
	a1, b1, h1 = mix3(a1, b1, h1)
	c0, x0, h0 = mix1(c0, x0, h0)
	c1, x1, h1 = mix1(c1, x1, h1)
	c0, x0, h0 = mix2(c0, x0, h0)
	c1, x1, h1 = mix2(c1, x1, h1)
	c0, x0, h0 = mix3(c0, x0, h0)
	c1, x1, h1 = mix3(c1, x1, h1)
	y0, a0, h0 = mix1(y0, a0, h0)
	y1, a1, h1 = mix1(y1, a1, h1)
	y0, a0, h0 = mix2(y0, a0, h0)
	y1, a1, h1 = mix2(y1, a1, h1)
	y0, _, h0 = mix3(y0, a0, h0)
	y1, _, h1 = mix3(y1, a1, h1)
	b0, x0, h0 = mix1(b0, x0, h0)
	b1, x1, h1 = mix1(b1, x1, h1)
	b0, x0, h0 = mix2(b0, x0, h0)
	b1, x1, h1 = mix2(b1, x1, h1)
	_, _, h0 = mix3(b0, x0, h0)
	_, _, h1 = mix3(b1, x1, h1)
	y0, c0, h0 = mix1(y0, c0, h0)
	y1, c1, h1 = mix1(y1, c1, h1)
	y0, c0, h0 = mix2(y0, c0, h0)
	y1, c1, h1 = mix2(y1, c1, h1)
	_, _, h0 = mix3(y0, c0, h0)
	_, _, h1 = mix3(y1, c1, h1)
	return h0, h1
}
