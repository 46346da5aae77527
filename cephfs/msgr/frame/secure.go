package frame

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
)

// SecretSize is how many bytes of a connection secret are used: a key and two
// nonces.
const SecretSize = 16 + 2*12

// sealer is the cipher of one direction. Each use takes the next nonce: 4
// fixed bytes and a counter of 8, which begins anywhere.
type sealer struct {
	aead  cipher.AEAD
	nonce [12]byte
	first uint64
	used  bool
}

// Secure switches r and w, the two directions of one stream, to AES-128-GCM
// under a connection secret, for all that was not yet read or added. server
// says which side this is.
func Secure(r *Reader, w *Writer, secret []byte, server bool) error {
	if len(secret) < SecretSize {
		return fmt.Errorf("connection secret of %d bytes, needed are %d", len(secret), SecretSize)
	}
	block, err := aes.NewCipher(secret[:16])
	if err != nil {
		return err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	rx, tx := secret[16:28], secret[28:40]
	if server {
		rx, tx = tx, rx
	}
	r.sec, w.sec = newSealer(aead, rx), newSealer(aead, tx)
	return nil
}

func newSealer(aead cipher.AEAD, nonce []byte) *sealer {
	s := &sealer{aead: aead, first: binary.LittleEndian.Uint64(nonce[4:])}
	copy(s.nonce[:], nonce)
	return s
}

func (s *sealer) advance() {
	binary.LittleEndian.PutUint64(s.nonce[4:], binary.LittleEndian.Uint64(s.nonce[4:])+1)
	s.used = true
}

// seal encrypts b in place and writes the tag behind it: cap(b) has room.
func (s *sealer) seal(b []byte) error {
	if s.used && binary.LittleEndian.Uint64(s.nonce[4:]) == s.first {
		return ErrNonces
	}
	s.aead.Seal(b[:0], s.nonce[:], b, nil)
	s.advance()
	return nil
}

// open decrypts b, which ends with the tag, in place.
func (s *sealer) open(b []byte) ([]byte, error) {
	p, err := s.aead.Open(b[:0], s.nonce[:], b, nil)
	if err != nil {
		return nil, ErrCrypto
	}
	s.advance()
	return p, nil
}
