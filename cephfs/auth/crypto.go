package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"capstan/cephfs/denc"
)

// Usage is what a sealed text is for (ceph/ceph src/auth/cephx/CephxProtocol.h,
// CEPHX_KEY_USAGE_*). Keys of [KeyAES256K] derive other keys from it, those of
// [KeyAES] ignore it.
type Usage uint32

// The usages of a client.
const (
	UsageConnectionSecret   Usage = 0x03 // secret of a monitor's connection, by the session key
	UsageTicketSessionKey   Usage = 0x04 // the client's half of a ticket
	UsageTicketBlob         Usage = 0x05 // the service's half, by the session key of the old ticket
	UsageAuthorize          Usage = 0x10 // an authorizer
	UsageAuthorizeChallenge Usage = 0x11 // a service's challenge
	UsageAuthorizeReply     Usage = 0x12 // a service's last word
	UsageTicketInfo         Usage = 0x30 // a ticket as the service sees it
)

// ErrSealed says that a sealed text was not made by who should have made it:
// another key, another usage, or damage on the way.
var ErrSealed = errors.New("cannot be opened with this key")

// What stands before every sealed text (CephxProtocol.h, AUTH_ENC_MAGIC).
const (
	envelopeVersion = 1
	envelopeMagic   = 0xff009cad8826aa55
	envelopeLen     = 1 + 8
)

// aesIV is the constant first vector of KeyAES (ceph_fs.h, CEPH_AES_IV).
const aesIV = "cephsageyudagreg"

// Seal encrypts text with its header (encode_encrypt_enc_bl).
func (k Key) Seal(u Usage, text []byte) ([]byte, error) {
	plain := make([]byte, envelopeLen, envelopeLen+len(text)+aes.BlockSize)
	plain[0] = envelopeVersion
	binary.LittleEndian.PutUint64(plain[1:], envelopeMagic)
	plain = append(plain, text...)
	switch {
	case k.Type == KeyAES && len(k.bytes()) >= 16:
		return encryptAES(k.bytes()[:16], plain)
	case k.Type == KeyAES256K && len(k.bytes()) >= 32:
		return encryptAES256K(k.bytes(), u, nil, plain)
	}
	return nil, fmt.Errorf("%w: cannot seal with a %v of %d bytes", ErrKeyFormat, k, len(k.bytes()))
}

// Open undoes [Key.Seal] (decode_decrypt_enc_bl). The error is [ErrSealed] or
// [ErrKeyFormat].
func (k Key) Open(u Usage, sealed []byte) ([]byte, error) {
	var plain []byte
	var err error
	switch {
	case k.Type == KeyAES && len(k.bytes()) >= 16:
		plain, err = decryptAES(k.bytes()[:16], sealed)
	case k.Type == KeyAES256K && len(k.bytes()) >= 32:
		plain, err = decryptAES256K(k.bytes(), u, sealed)
	default:
		err = fmt.Errorf("%w: cannot open with a %v of %d bytes", ErrKeyFormat, k, len(k.bytes()))
	}
	if err != nil {
		return nil, err
	}
	if len(plain) < envelopeLen || plain[0] != envelopeVersion || binary.LittleEndian.Uint64(plain[1:]) != envelopeMagic {
		return nil, ErrSealed
	}
	return plain[envelopeLen:], nil
}

// seal appends text sealed and with its length (encode_encrypt).
func seal(e *denc.Encoder, k Key, u Usage, text []byte) error {
	b, err := k.Seal(u, text)
	if err != nil {
		return err
	}
	e.Bytes(b)
	return nil
}

// open reads a sealed text with its length (decode_decrypt).
func open(d *denc.Decoder, field string, k Key, u Usage) ([]byte, error) {
	b := d.Bytes(field)
	if err := d.Err(); err != nil {
		return nil, err
	}
	text, err := k.Open(u, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return text, nil
}

// Response proves to who knows k that the holder of k saw both challenges
// (cephx_calc_client_server_challenge): for [KeyAES] the sealed challenges,
// for [KeyAES256K], whose sealing is random, their HMAC-SHA256, folded to 64
// bits.
func (k Key) Response(server, client uint64) (uint64, error) {
	var e denc.Encoder
	e.Uint64(server)
	e.Uint64(client)
	var b []byte
	switch k.Type {
	case KeyAES256K:
		m := hmac.New(sha256.New, k.bytes())
		m.Write(e.Data())
		b = m.Sum(nil)
	default:
		var s denc.Encoder
		if err := seal(&s, k, 0, e.Data()); err != nil {
			return 0, err
		}
		b = s.Data()
	}
	var r uint64
	for ; len(b) >= 8; b = b[8:] {
		r ^= binary.LittleEndian.Uint64(b)
	}
	return r, nil
}

// encryptAES pads as PKCS #7 says and encrypts.
func encryptAES(key, plain []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	pad := aes.BlockSize - len(plain)%aes.BlockSize
	b := make([]byte, len(plain)+pad)
	copy(b, plain)
	for i := len(plain); i < len(b); i++ {
		b[i] = byte(pad)
	}
	cipher.NewCBCEncrypter(block, []byte(aesIV)).CryptBlocks(b, b)
	return b, nil
}

func decryptAES(key, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || len(sealed)%aes.BlockSize != 0 {
		return nil, ErrSealed
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	b := make([]byte, len(sealed))
	cipher.NewCBCDecrypter(block, []byte(aesIV)).CryptBlocks(b, sealed)
	pad := int(b[len(b)-1])
	if pad == 0 || pad > aes.BlockSize {
		return nil, ErrSealed
	}
	for _, c := range b[len(b)-pad:] {
		if int(c) != pad {
			return nil, ErrSealed
		}
	}
	return b[:len(b)-pad], nil
}

func equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
