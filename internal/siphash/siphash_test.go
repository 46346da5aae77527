package siphash

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// TestSum128 has the test values that the authors of SipHash publish: of
// the bytes 0, 1, 2, ... in each length, under the key 0, 1, ..., 15.
func TestSum128(t *testing.T) {
	want := []string{
		"a3817f04ba25a8e66df67214c7550293",
		"da87c1d86b99af44347659119b22fc45",
		"8177228da4a45dc7fca38bdef60affe4",
		"9c70b60c5267a94e5f33b6b02985ed51",
		"f88164c12d9c8faf7d0f6e7c7bcd5579",
		"1368875980776f8854527a07690e9627",
		"14eeca338b208613485ea0308fd7a15e",
		"a1f1ebbed8dbc153c0b84aa61ff08239",
		"3b62a9ba6258f5610f83e264f31497b4",
		"264499060ad9baabc47f8b02bb6d71ed",
		"00110dc378146956c95447d3f3d0fbba",
		"0151c568386b6677a2b4dc6f81e5dc18",
		"d626b266905ef35882634df68532c125",
		"9869e247e9c08b10d029934fc4b952f7",
		"31fcefac66d7de9c7ec7485fe4494902",
		"5493e99933b0a8117e08ec0f97cfc3d9",
		"6ee2a4ca67b054bbfd3315bf85230577",
		"473d06e8738db89854c066c47ae47740",
		"a426e5e423bf4885294da481feaef723",
		"78017731cf65fab074d5208952512eb1",
		"9e25fc833f2290733e9344a5e83839eb",
		"568e495abe525a218a2214cd3e071d12",
		"4a29b54552d16b9a469c10528eff0aae",
		"c9d184ddd5a9f5e0cf8ce29a9abf691c",
		"2db479ae78bd50d8882a8a178a6132ad",
		"8ece5f042d5e447b5051b9eacb8d8f6f",
		"9c0b53b4b3c307e87eaee08678141f66",
		"abf248af69a6eae4bfd3eb2f129eeb94",
		"0664da1668574b88b935f3027358aef4",
		"aa4b9dc4bf337de90cd4fd3c467c6ab7",
		"ea5c7f471faf6bde2b1ad7d4686d2287",
		"2939b0183223fafc1723de4f52c43d35",
		"7c3956ca5eeafc3e363e9d556546eb68",
		"77c6077146f01c32b6b69d5f4ea9ffcf",
		"37a6986cb8847edf0925f0f1309b54de",
		"a705f0e69da9a8f907241a2e923c8cc8",
		"3dc47d1f29c448461e9e76ed904f6711",
		"0d62bf01e6fc0e1a0d3c4751c5d3692b",
		"8c03468bca7c669ee4fd5e084bbee7b5",
		"528a5bb93baf2c9c4473cce5d0d22bd9",
		"df6a301e95c95dad97ae0cc8c6913bd8",
	}
	key := Key{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	var in []byte
	for n, w := range want {
		var mac [16]byte
		lo, hi := key.Sum128(in)
		binary.LittleEndian.PutUint64(mac[:], lo)
		binary.LittleEndian.PutUint64(mac[8:], hi)
		if got := hex.EncodeToString(mac[:]); got != w {
			t.Errorf("length %d: %s, want %s", n, got, w)
		}
		in = append(in, byte(n))
	}
}

// TestSum64 has the authors' values for the first lengths, and that of the
// example in their paper (appendix A), of length 15.
func TestSum64(t *testing.T) {
	key := Key{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	want := map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 7: 0xab0200f58b01d137, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5}
	var in []byte
	for n := range 16 {
		if w, ok := want[n]; ok {
			if got := key.Sum64(in); got != w {
				t.Errorf("length %d: %#x, want %#x", n, got, w)
			}
		}
		in = append(in, byte(n))
	}
}
