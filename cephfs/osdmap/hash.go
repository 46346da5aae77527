package osdmap

// The hashes of object names (ceph/ceph src/common/ceph_hash.cc).
const (
	HashLinux    uint8 = 1 // of the Linux dentry cache
	HashRJenkins uint8 = 2 // Robert Jenkins' evahash; every pool of today
)

// hashString hashes s with one of the functions.
func hashString(kind uint8, s []byte) uint32 {
	switch kind {
	case HashLinux:
		return hashLinux(s)
	case HashRJenkins:
		return hashRJenkins(s)
	}
	return ^uint32(0)
}

func hashLinux(s []byte) uint32 {
	h := uint32(0)
	for _, c := range s {
		h = (h + uint32(c)<<4 + uint32(c)>>4) * 11
	}
	return h
}

func hashRJenkins(s []byte) uint32 {
	const golden = 0x9e3779b9
	a, b, c := uint32(golden), uint32(golden), uint32(0)
	size := uint32(len(s))
	for ; len(s) >= 12; s = s[12:] {
		a += le32(s)
		b += le32(s[4:])
		c += le32(s[8:])
		a, b, c = mix(a, b, c)
	}
	// The low byte of c is the length's; what is left fills the rest.
	c += size
	var tail [12]byte
	copy(tail[:], s)
	a += le32(tail[:])
	b += le32(tail[4:])
	c += le32(tail[8:]) << 8
	_, _, c = mix(a, b, c)
	return c
}

func le32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func mix(a, b, c uint32) (uint32, uint32, uint32) {
	a = (a - b - c) ^ c>>13
	b = (b - c - a) ^ a<<8
	c = (c - a - b) ^ b>>13
	a = (a - b - c) ^ c>>12
	b = (b - c - a) ^ a<<16
	c = (c - a - b) ^ b>>5
	a = (a - b - c) ^ c>>3
	b = (b - c - a) ^ a<<10
	c = (c - a - b) ^ b>>15
	return a, b, c
}
