// Package nfsv4 holds the numbers and small types of the NFSv4 protocol that
// the server, its state and the test client share: operations, statuses,
// attributes, stateids, session ids. It has no behaviour beyond their codecs.
package nfsv4

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"capstan/server/xdr"
)

// Program and Version are the RPC program of NFS and the version of NFSv4;
// ProcNull and ProcCompound are its procedures.
const (
	Program      = 100003
	Version      = 4
	ProcNull     = 0
	ProcCompound = 1
)

// Limits on the wire (RFC 8881 section 3.1).
const (
	FHSize       = 128
	VerifierSize = 8
	OpaqueLimit  = 1024
	SessionSize  = 16
)

// ClientID is clientid4.
type ClientID uint64

// Verifier is verifier4.
type Verifier [VerifierSize]byte

// SessionID is sessionid4.
type SessionID [SessionSize]byte

// String returns the id in hexadecimal.
func (s SessionID) String() string { return fmt.Sprintf("%x", s[:]) }

// MarshalText is String, for status reports.
func (s SessionID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *SessionID) UnmarshalText(b []byte) error {
	n, err := hex.Decode(s[:], b[:min(len(b), 2*len(s))])
	if err == nil && n != len(s) || len(b) > 2*len(s) {
		err = fmt.Errorf("a session id has %d bytes", len(s))
	}
	return err
}

// StateID is stateid4: a sequence number and the 12 bytes that name the state.
type StateID struct {
	Seq   uint32
	Other [12]byte
}

// The special stateids of RFC 8881 section 8.2.3.
var (
	AnonymousStateID = StateID{}
	BypassStateID    = StateID{Seq: 0xffffffff, Other: allOnes}
	CurrentStateID   = StateID{Seq: 1}
	InvalidStateID   = StateID{Seq: 0xffffffff}
)

var allOnes = [12]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}

// Special reports whether the Other field is one of those reserved for special
// stateids, all zeros or all ones.
func (s StateID) Special() bool {
	return s.Other == [12]byte{} || s.Other == allOnes
}

// String is for logs.
func (s StateID) String() string { return fmt.Sprintf("%d:%x", s.Seq, s.Other[:]) }

// DecodeStateID reads a stateid4.
func DecodeStateID(d *xdr.Decoder) (s StateID) {
	s.Seq = d.Uint32("stateid.seqid")
	copy(s.Other[:], d.Fixed("stateid.other", len(s.Other)))
	return s
}

// Encode appends the stateid4.
func (s StateID) Encode(e *xdr.Encoder) {
	e.Uint32(s.Seq)
	e.Fixed(s.Other[:])
}

// DecodeVerifier reads a verifier4.
func DecodeVerifier(d *xdr.Decoder) (v Verifier) {
	copy(v[:], d.Fixed("verifier", len(v)))
	return v
}

// DecodeSessionID reads a sessionid4.
func DecodeSessionID(d *xdr.Decoder) (s SessionID) {
	copy(s[:], d.Fixed("sessionid", len(s)))
	return s
}

// Bitmap is bitmap4 with room for the attributes we know; higher words are
// read and dropped, as attributes that are not supported.
type Bitmap [3]uint32

// Has reports whether bit n is set.
func (b Bitmap) Has(n uint32) bool { return n < 96 && b[n/32]&(1<<(n%32)) != 0 }

// Set sets bit n, which is below 96.
func (b *Bitmap) Set(n uint32) { b[n/32] |= 1 << (n % 32) }

// Clear clears bit n, which is below 96.
func (b *Bitmap) Clear(n uint32) { b[n/32] &^= 1 << (n % 32) }

// And returns the bits set in both.
func (b Bitmap) And(c Bitmap) Bitmap { return Bitmap{b[0] & c[0], b[1] & c[1], b[2] & c[2]} }

// AndNot returns the bits of b that are not in c.
func (b Bitmap) AndNot(c Bitmap) Bitmap { return Bitmap{b[0] &^ c[0], b[1] &^ c[1], b[2] &^ c[2]} }

// Or returns the bits set in either.
func (b Bitmap) Or(c Bitmap) Bitmap { return Bitmap{b[0] | c[0], b[1] | c[1], b[2] | c[2]} }

// Empty reports whether no bit is set.
func (b Bitmap) Empty() bool { return b == Bitmap{} }

// maxBitmapWords bounds what a peer may send; the RFCs use three.
const maxBitmapWords = 64

// DecodeBitmap reads a bitmap4. beyond is true if a bit above the known words
// is set.
func DecodeBitmap(d *xdr.Decoder) (b Bitmap, beyond bool) {
	n := d.Count("bitmap", maxBitmapWords, 4)
	for i := range n {
		w := d.Uint32("bitmap")
		if i < len(b) {
			b[i] = w
		} else if w != 0 {
			beyond = true
		}
	}
	return b, beyond
}

// Encode appends the bitmap4 without trailing zero words.
func (b Bitmap) Encode(e *xdr.Encoder) {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	e.Uint32(uint32(n))
	for _, w := range b[:n] {
		e.Uint32(w)
	}
}

// MakeStateID builds the Other field from two numbers: which instance of the
// server made it and a number unique within that instance.
func MakeStateID(instance uint32, n uint64) (s StateID) {
	s.Seq = 1
	binary.BigEndian.PutUint32(s.Other[:4], instance)
	binary.BigEndian.PutUint64(s.Other[4:], n)
	return s
}
