package auth

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"capstan/cephfs/denc"
)

// KeyType is the cipher a key is for (ceph/ceph src/include/ceph_fs.h,
// CEPH_CRYPTO_*).
type KeyType uint16

// The key types.
const (
	KeyNone    KeyType = 0 // the empty key
	KeyAES     KeyType = 1 // AES-128 in CBC mode, 16 bytes; releases before 20 know no other
	KeyAES256K KeyType = 2 // AES-256 with SHA-384 as in RFC 8009, 32 bytes; the default of release 20
)

// String returns Ceph's name of t.
func (t KeyType) String() string {
	switch t {
	case KeyNone:
		return "none"
	case KeyAES:
		return "aes"
	case KeyAES256K:
		return "aes256k"
	}
	return "type" + strconv.FormatUint(uint64(t), 10)
}

// secretLen is the length of a new secret of type t, and the least of one that
// is accepted.
func (t KeyType) secretLen() int {
	switch t {
	case KeyAES:
		return 16
	case KeyAES256K:
		return 32
	}
	return 0
}

// maxSecret bounds the secret of a decoded key.
const maxSecret = 64

// ErrKeyFormat says that something is not a key.
var ErrKeyFormat = errors.New("not a cephx key")

// Key is a secret with its cipher (CryptoKey). The zero Key is empty. Nothing
// prints the secret of one, or of what holds one, however deep inside.
type Key struct {
	Type    KeyType
	Created time.Time // by the clock of whoever made it; of no importance here

	secret hidden[[]byte] // the bytes are never changed after the key was made
}

// NewKey makes a random key.
func NewKey(t KeyType) (Key, error) {
	n := t.secretLen()
	if n == 0 {
		return Key{}, fmt.Errorf("%w: cannot make one of %v", ErrKeyFormat, t)
	}
	secret := make([]byte, n)
	_, err := rand.Read(secret)
	return Key{Type: t, Created: time.Now(), secret: hide(secret)}, err
}

// ParseKey reads the base64 form that keyrings hold and `ceph auth get-key`
// prints. The error never holds the text.
func ParseKey(s string) (Key, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	if err != nil {
		return Key{}, fmt.Errorf("%w: not base64", ErrKeyFormat)
	}
	d := denc.NewDecoder(b)
	k := DecodeKey(d, "key")
	// Ceph ignores what follows the secret.
	if err := d.Err(); err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrKeyFormat, err)
	}
	if k.IsZero() {
		return Key{}, fmt.Errorf("%w: it is empty", ErrKeyFormat)
	}
	return k, nil
}

// Base64 is the form that [ParseKey] reads: the secret itself.
func (k Key) Base64() string {
	var e denc.Encoder
	k.Encode(&e)
	return base64.StdEncoding.EncodeToString(e.Data())
}

// String returns the type of k and never its secret.
func (k Key) String() string { return "key(" + k.Type.String() + ")" }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// LogValue is String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// bytes is the secret; it is not to be changed.
func (k Key) bytes() []byte { return k.secret.show() }

// IsZero reports whether k has no secret.
func (k Key) IsZero() bool { return len(k.bytes()) == 0 }

// Equal reports whether k and o have the same type and secret. It takes the
// same time whatever they are.
func (k Key) Equal(o Key) bool { return k.Type == o.Type && equal(k.bytes(), o.bytes()) }

// Encode appends k with its secret (CryptoKey::encode).
func (k Key) Encode(e *denc.Encoder) {
	e.Uint16(uint16(k.Type))
	e.Time(k.Created)
	e.Uint16(uint16(len(k.bytes())))
	e.Raw(k.bytes())
}

// DecodeKey reads a key (CryptoKey::decode). A key of an unknown type, or with
// a secret too short for its type, is a fault.
func DecodeKey(d *denc.Decoder, field string) Key {
	k := Key{Type: KeyType(d.Uint16(field)), Created: d.Time(field)}
	n := int(d.Uint16(field))
	if n > maxSecret {
		d.Fail(field, denc.ErrTooLong)
	}
	k.secret = hide(bytes.Clone(d.Raw(field, n)))
	if !d.OK() {
		return Key{}
	}
	if n != 0 && (k.Type.secretLen() == 0 || n < k.Type.secretLen()) {
		d.Fail(field+"("+k.Type.String()+", "+strconv.Itoa(n)+" bytes)", denc.ErrValue)
		return Key{}
	}
	return k
}
