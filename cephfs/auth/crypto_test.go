package auth

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"capstan/cephfs/denc"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The vectors of RFC 8009, appendix A, for aes256-cts-hmac-sha384-192, which
// Ceph's own tests use too (ceph/ceph src/test/crypto.cc).
func TestAES256KVectors(t *testing.T) {
	secret := unhex(t, "6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52")
	for _, v := range []struct{ confounder, plain, sealed string }{
		{"f764e9fa15c276478b2c7d0c4e5f58e4", "",
			"41f53fa5bfe7026d91faf9be959195a058707273a96a40f0a01960621ac612748b9bbfbe7eb4ce3c"},
		{"b80d3251c1f6471494256ffe712d0b9a", "000102030405",
			"4ed7b37c2bcac8f74f23c1cf07e62bc7b75fb3f637b9f559c7f664f69eab7b6092237526ea0d1f61cb20d69d10f2"},
		{"53bf8a0d105265d4e276428624ce5e63", "000102030405060708090a0b0c0d0e0f",
			"bc47ffec7998eb91e8115cf8d19dac4bbbe2e163e87dd37f49beca92027764f68cf51f14d798c2273f35df574d1f932e40c4ff255b36a266"},
		{"763e65367e864f02f55153c7e3b58af1", "000102030405060708090a0b0c0d0e0f1011121314",
			"40013e2df58e8751957d2878bcd2d6fe101ccfd556cb1eae79db3c3ee86429f2b2a602ac86fef6ecb647d6295fae077a1feb517508d2c16b4192e01f62"},
	} {
		got, err := encryptAES256K(secret, 2, unhex(t, v.confounder), unhex(t, v.plain))
		if err != nil || !bytes.Equal(got, unhex(t, v.sealed)) {
			t.Errorf("encrypt %q: %x, %v", v.plain, got, err)
		}
		back, err := decryptAES256K(secret, 2, unhex(t, v.sealed))
		if err != nil || !bytes.Equal(back, unhex(t, v.plain)) {
			t.Errorf("decrypt %q: %x, %v", v.plain, back, err)
		}
	}
	// RFC 8009 appendix A: keys derived for usage 2.
	if ke := derive(secret, 2, deriveEncryption, 32); hex.EncodeToString(ke) != "56ab22bee63d82d7bc5227f6773f8ea7a5eb1c825160c38312980c442e5c7e49" {
		t.Errorf("Ke %x", ke)
	}
	if ki := derive(secret, 2, deriveIntegrity, 24); hex.EncodeToString(ki) != "69b16514e3cd8e56b82010d5c73012b622c4d00ffc23ed1f" {
		t.Errorf("Ki %x", ki)
	}
}

// The vector of Ceph's own test of AES (ceph/ceph src/test/crypto.cc).
func TestAESVector(t *testing.T) {
	key := unhex(t, "000102030405060708090a0b0c0d0e0f")
	plain := unhex(t, "00112233445566778899aabbccddeeff")
	want := unhex(t, "b38f5bc9354cf8c61315666f37d7793a11907be9d83c3570587b979b03d2a501")
	got, err := encryptAES(key, plain)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%x, %v", got, err)
	}
	back, err := decryptAES(key, got)
	if err != nil || !bytes.Equal(back, plain) {
		t.Fatalf("%x, %v", back, err)
	}
}

func TestSealOpen(t *testing.T) {
	for _, kind := range []KeyType{KeyAES, KeyAES256K} {
		k, err := NewKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		other, _ := NewKey(kind)
		for _, n := range []int{0, 1, 6, 7, 8, 15, 16, 22, 23, 24, 33} {
			text := bytes.Repeat([]byte{byte(n)}, n)
			sealed, err := k.Seal(UsageAuthorize, text)
			if err != nil {
				t.Fatal(err)
			}
			back, err := k.Open(UsageAuthorize, sealed)
			if err != nil || !bytes.Equal(back, text) {
				t.Fatalf("%v %d: %x, %v", kind, n, back, err)
			}
			if _, err := other.Open(UsageAuthorize, sealed); !errors.Is(err, ErrSealed) {
				t.Fatalf("%v: another key: %v", kind, err)
			}
			if _, err := k.Open(UsageAuthorizeReply, sealed); (err == nil) != (kind == KeyAES) {
				t.Fatalf("%v: another usage: %v", kind, err)
			}
			// Damage: always seen by aes256k, seen in the header by aes.
			for i := range sealed {
				damaged := bytes.Clone(sealed)
				damaged[i] ^= 1
				if _, err := k.Open(UsageAuthorize, damaged); err == nil && (kind == KeyAES256K || i < envelopeLen) {
					t.Fatalf("%v %d: damage at %d passed", kind, n, i)
				}
				if _, err := k.Open(UsageAuthorize, sealed[:i]); err == nil && kind == KeyAES256K {
					t.Fatalf("%v %d: cut at %d passed", kind, n, i)
				}
			}
		}
	}
	if _, err := (Key{}).Seal(0, nil); !errors.Is(err, ErrKeyFormat) {
		t.Errorf("empty key: %v", err)
	}
	if _, err := (Key{}).Open(0, nil); !errors.Is(err, ErrKeyFormat) {
		t.Errorf("empty key: %v", err)
	}
}

func TestKeyText(t *testing.T) {
	// Made by `ceph-authtool --gen-print-key` of 16.2.15.
	const text = "AQB5lQxqyQPjMBAAUk2mhB0d4Z6H4CkpZ3kuWg=="
	k, err := ParseKey(" " + text + "\n")
	if err != nil || k.Type != KeyAES || len(k.bytes()) != 16 || k.Base64() != text {
		t.Fatalf("%v, %v, %s", k, err, k.Base64())
	}
	big, _ := NewKey(KeyAES256K)
	again, err := ParseKey(big.Base64())
	if err != nil || !again.Equal(big) || again.Created.Unix() != big.Created.Unix() {
		t.Fatalf("%v, %v", again, err)
	}
	if big.Base64()[:2] != "Ag" {
		t.Errorf("%s does not begin as Ceph's do", big.Base64()[:2])
	}
	var short, unknown, long denc.Encoder
	Key{KeyAES, time.Now(), hide(make([]byte, 15))}.Encode(&short)
	Key{9, time.Now(), hide(make([]byte, 16))}.Encode(&unknown)
	Key{KeyAES, time.Now(), hide(make([]byte, 65))}.Encode(&long)
	for name, b := range map[string][]byte{"short": short.Data(), "unknown": unknown.Data(), "long": long.Data(), "empty": nil} {
		d := denc.NewDecoder(b)
		if k := DecodeKey(d, "key"); d.Err() == nil || !k.IsZero() {
			t.Errorf("%s: %v, %v", name, k, d.Err())
		}
	}
	for _, s := range []string{"", "AAAA", "!", "AQB5lQxqyQPjMBAAUk2mhB0d4Z6H4CkpZ3ku"} {
		if _, err := ParseKey(s); !errors.Is(err, ErrKeyFormat) {
			t.Errorf("ParseKey(%q): %v", s, err)
		}
	}
	if s := k.String() + k.GoString(); bytes.Contains([]byte(s), k.bytes()) || s != "key(aes)key(aes)" {
		t.Errorf("printed as %q", s)
	}
}

func TestStealRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	secret := make([]byte, 32)
	for range 300 {
		plain := make([]byte, r.IntN(200))
		for i := range plain {
			plain[i] = byte(r.Uint32())
		}
		b, err := encryptAES256K(secret, 7, nil, plain)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decryptAES256K(secret, 7, b)
		if err != nil || !bytes.Equal(back, plain) {
			t.Fatalf("%d bytes: %v", len(plain), err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	a := Key{KeyAES, time.Time{}, hide(make([]byte, 16))}
	b := Key{KeyAES256K, time.Time{}, hide(make([]byte, 32))}
	for _, k := range []Key{a, b} {
		s, _ := k.Seal(UsageAuthorize, []byte("text"))
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, k := range []Key{a, b} {
			text, err := k.Open(UsageAuthorize, in)
			if err == nil && len(text) >= len(in) {
				t.Fatalf("%d bytes out of %d", len(text), len(in))
			}
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add("AQB5lQxqyQPjMBAAUk2mhB0d4Z6H4CkpZ3kuWg==")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseKey(s)
		if err == nil {
			if _, err := ParseKey(k.Base64()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
