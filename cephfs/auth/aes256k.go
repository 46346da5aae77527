package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"encoding/binary"
)

// The cipher of KeyAES256K is aes256-cts-hmac-sha384-192 of RFC 8009: a random
// block and the text in CBC mode with ciphertext stealing, then an HMAC over
// vector and ciphertext. The vector is zero.
const (
	confounderLen = aes.BlockSize
	macLen        = 24
)

// The constants of RFC 8009 section 5 that tell derived keys apart.
const (
	deriveEncryption = 0xaa
	deriveIntegrity  = 0x55
)

// derive is KDF-HMAC-SHA2 of RFC 8009 section 3 for a usage; n is in bytes.
func derive(secret []byte, u Usage, kind byte, n int) []byte {
	m := hmac.New(sha512.New384, secret)
	var b [14]byte
	binary.BigEndian.PutUint32(b[:], 1)
	binary.BigEndian.PutUint32(b[4:], uint32(u))
	b[8] = kind
	binary.BigEndian.PutUint32(b[10:], uint32(n*8))
	m.Write(b[:])
	return m.Sum(nil)[:n]
}

// encryptAES256K seals plain. A nil confounder is a random one.
func encryptAES256K(secret []byte, u Usage, confounder, plain []byte) ([]byte, error) {
	block, err := aes.NewCipher(derive(secret, u, deriveEncryption, 32))
	if err != nil {
		return nil, err
	}
	b := make([]byte, confounderLen+len(plain), confounderLen+len(plain)+macLen)
	if confounder == nil {
		if _, err := rand.Read(b[:confounderLen]); err != nil {
			return nil, err
		}
	} else {
		copy(b, confounder)
	}
	copy(b[confounderLen:], plain)
	stealEncrypt(block, b)
	return append(b, mac(secret, u, b)...), nil
}

func decryptAES256K(secret []byte, u Usage, sealed []byte) ([]byte, error) {
	if len(sealed) < confounderLen+macLen {
		return nil, ErrSealed
	}
	text, sum := sealed[:len(sealed)-macLen], sealed[len(sealed)-macLen:]
	if !hmac.Equal(sum, mac(secret, u, text)) {
		return nil, ErrSealed
	}
	block, err := aes.NewCipher(derive(secret, u, deriveEncryption, 32))
	if err != nil {
		return nil, err
	}
	b := append([]byte(nil), text...)
	stealDecrypt(block, b)
	return b[confounderLen:], nil
}

// mac is the truncated HMAC over the zero vector and the ciphertext.
func mac(secret []byte, u Usage, text []byte) []byte {
	m := hmac.New(sha512.New384, derive(secret, u, deriveIntegrity, macLen))
	var iv [aes.BlockSize]byte
	m.Write(iv[:])
	m.Write(text)
	return m.Sum(nil)[:macLen]
}

// stealEncrypt encrypts b, of at least one block, in place: CBC with a zero
// vector whose last two blocks change places and whose last is cut to b's
// length (CBC-CS3).
func stealEncrypt(block cipher.Block, b []byte) {
	const bs = aes.BlockSize
	var iv [bs]byte
	mode := cipher.NewCBCEncrypter(block, iv[:])
	if len(b) == bs {
		mode.CryptBlocks(b, b)
		return
	}
	last := (len(b) - 1) / bs * bs // where the last, perhaps partial, block starts
	mode.CryptBlocks(b[:last], b[:last])
	var tail [bs]byte
	copy(tail[:], b[last:])
	mode.CryptBlocks(tail[:], tail[:])
	copy(b[last:], b[last-bs:last])
	copy(b[last-bs:], tail[:])
}

// stealDecrypt undoes stealEncrypt.
func stealDecrypt(block cipher.Block, b []byte) {
	const bs = aes.BlockSize
	var iv [bs]byte
	if len(b) == bs {
		cipher.NewCBCDecrypter(block, iv[:]).CryptBlocks(b, b)
		return
	}
	last := (len(b) - 1) / bs * bs
	n := len(b) - last
	// The block before the last is the encryption of the last text block,
	// padded with zeros and mixed with the cut block: undoing it gives that
	// text and the part that was cut.
	var mixed, cut, text [bs]byte
	block.Decrypt(mixed[:], b[last-bs:last])
	copy(cut[:], b[last:])
	copy(cut[n:], mixed[n:])
	for i := range n {
		text[i] = mixed[i] ^ cut[i]
	}
	copy(b[last-bs:], cut[:])
	copy(b[last:], text[:n])
	cipher.NewCBCDecrypter(block, iv[:]).CryptBlocks(b[:last], b[:last])
}
