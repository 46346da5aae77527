package export

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"capstan/internal/siphash"
)

// KeySize is the length of a handle key in bytes.
const KeySize = 16

// Key makes and checks the MAC of handles. ID is part of every handle made
// with it, so that keys can be told apart.
type Key struct {
	ID     uint8
	Secret [KeySize]byte
}

// ParseKey reads a key as written in the configuration and in the key file:
// its id from 0 to 255, a colon, and 32 hexadecimal digits.
func ParseKey(s string) (Key, error) {
	var k Key
	id, secret, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(id, 10, 8)
	if !ok || err != nil {
		// The text is a secret: do not repeat it.
		return k, errors.New("handle key: want ID:HEX with an id from 0 to 255")
	}
	b, err := hex.DecodeString(secret)
	if err != nil || len(b) != KeySize {
		return k, fmt.Errorf("handle key %d: want %d hexadecimal digits behind the colon", n, 2*KeySize)
	}
	k.ID = uint8(n)
	copy(k.Secret[:], b)
	if k.Secret == ([KeySize]byte{}) {
		return k, fmt.Errorf("handle key %d is all zeros", n)
	}
	return k, nil
}

// Text returns k as [ParseKey] reads it: a secret.
func (k Key) Text() string { return fmt.Sprintf("%d:%x", k.ID, k.Secret[:]) }

// String keeps the secret out of logs.
func (k Key) String() string { return fmt.Sprintf("key %d", k.ID) }

// NewKey returns a random key.
func NewKey(id uint8) Key {
	k := Key{ID: id}
	rand.Read(k.Secret[:]) // never fails (crypto/rand)
	return k
}

// macKey is a key ready for use.
type macKey struct{ siphash.Key }

func (k *macKey) mac(p []byte) (mac [16]byte) {
	lo, hi := k.Sum128(p)
	binary.LittleEndian.PutUint64(mac[:], lo)
	binary.LittleEndian.PutUint64(mac[8:], hi)
	return mac
}

// KeyRing holds the key that new handles are made with and older ones that are
// still accepted. Gateways that serve the same file system share its keys. It
// never changes.
//
// To replace a key without a stale handle, first add the new one to the
// accepted keys of every gateway, then make it the current one everywhere, and
// drop the old one when no client has been mounted since.
type KeyRing struct {
	current uint8
	keys    [256]*macKey
}

// NewKeyRing returns a ring of current and the older keys still accepted. No
// id may be there twice.
func NewKeyRing(current Key, older ...Key) (*KeyRing, error) {
	r := &KeyRing{current: current.ID}
	for _, k := range append([]Key{current}, older...) {
		if r.keys[k.ID] != nil {
			return nil, fmt.Errorf("handle key %d is there twice", k.ID)
		}
		if k.Secret == ([KeySize]byte{}) {
			return nil, fmt.Errorf("handle key %d is all zeros", k.ID)
		}
		r.keys[k.ID] = &macKey{siphash.Key{
			K0: binary.LittleEndian.Uint64(k.Secret[:8]),
			K1: binary.LittleEndian.Uint64(k.Secret[8:]),
		}}
	}
	return r, nil
}

// RandomKeyRing returns a ring of one new key. Handles made with it die with
// the process unless the ring is kept; see [LoadKeyRing].
func RandomKeyRing() *KeyRing {
	r, err := NewKeyRing(NewKey(1))
	if err != nil {
		panic(err) // 128 random bits were all zero
	}
	return r
}
