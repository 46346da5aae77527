package export

import (
	"crypto/subtle"
	"encoding/binary"
)

// HandleSize is the length of every handle in bytes: a multiple of four and
// within the 64 of NFSv3 (RFC 1813 section 2.3.3).
const HandleSize = 56

// handleVersion is the layout below. The layout never changes under a version;
// testdata holds its bytes.
const handleVersion = 1

// A handle, all numbers big-endian:
//
//	 0  version    1
//	 1  key        1   which key of the ring made the MAC
//	 2  export     4
//	 6  fscid      4
//	10  inode      8
//	18  snapshot   8
//	26  parent     8
//	34  name hash  4
//	38  MAC       16   of bytes 0 to 37
//	54  zero       2
//
// The MAC keeps a client from naming an inode it was never shown, and since it
// covers the export, from using on one export what it was shown on another.
// SipHash-2-4-128 is a keyed pseudo-random function made for inputs this short
// and takes some tens of nanoseconds without memory of its own. A MAC out of
// AES or SHA-2 would go through an interface that makes the input escape to
// the heap, on the path of every operation.
const (
	handleExport   = 2
	handleFSCID    = 6
	handleIno      = 10
	handleSnap     = 18
	handleParent   = 26
	handleNameHash = 34
	handleMAC      = 38
	handlePad      = 54
)

// AppendHandle appends the handle of n to dst and returns the longer slice. It
// is the same bytes for the same node as long as the current key is the same.
func (t *Table) AppendHandle(dst []byte, n Node) []byte {
	start := len(dst)
	dst = append(dst, handleVersion, t.keys.current)
	dst = binary.BigEndian.AppendUint32(dst, n.Export.ID)
	dst = binary.BigEndian.AppendUint32(dst, n.Export.FSCID)
	dst = binary.BigEndian.AppendUint64(dst, n.Object.Ino)
	dst = binary.BigEndian.AppendUint64(dst, n.Object.Snap)
	dst = binary.BigEndian.AppendUint64(dst, n.Object.Parent)
	dst = binary.BigEndian.AppendUint32(dst, n.Object.NameHash)
	mac := t.keys.keys[t.keys.current].mac(dst[start : start+handleMAC])
	dst = append(dst, mac[:]...)
	return append(dst, 0, 0)
}

// Resolve returns the node that a handle stands for, whether or not the object
// still exists. [ErrBadHandle] means that it is none of ours, [ErrStale] that
// its export, the file system behind the export or its key is no longer there.
func (t *Table) Resolve(fh []byte) (Node, error) {
	if len(fh) != HandleSize || fh[0] != handleVersion || fh[handlePad] != 0 || fh[handlePad+1] != 0 {
		return Node{}, ErrBadHandle
	}
	key := t.keys.keys[fh[1]]
	if key == nil {
		return Node{}, ErrStale
	}
	mac := key.mac(fh[:handleMAC])
	if subtle.ConstantTimeCompare(mac[:], fh[handleMAC:handlePad]) != 1 {
		return Node{}, ErrBadHandle
	}
	e := t.byID(binary.BigEndian.Uint32(fh[handleExport:]))
	if e == nil || e.FSCID != binary.BigEndian.Uint32(fh[handleFSCID:]) {
		return Node{}, ErrStale
	}
	return Node{Export: e, Object: Object{
		Ino:      binary.BigEndian.Uint64(fh[handleIno:]),
		Snap:     binary.BigEndian.Uint64(fh[handleSnap:]),
		Parent:   binary.BigEndian.Uint64(fh[handleParent:]),
		NameHash: binary.BigEndian.Uint32(fh[handleNameHash:]),
	}}, nil
}
