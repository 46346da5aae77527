package billyfs

import (
	"encoding/binary"
	"slices"

	"capstan/export"
)

// nameRef is one name of an object: an entry in the directory with inode
// number parent.
type nameRef struct {
	parent uint64
	name   string
}

// maxNames is how many names of one object the table keeps. Of a file with
// more hard links the names used longest ago are forgotten; they are found
// again when they are looked up.
const maxNames = 32

// node is what the table knows of one inode. Guarded by table.mu.
type node struct {
	ino   uint64
	gen   uint32
	names []nameRef // newest first; none for an inode only seen open

	// The change attribute is stamp + bump; see table.observe.
	stamp      uint64
	bump       uint64
	seen       uint64 // sequence number of the newest observation
	lastChange uint64 // sequence number of our newest change
	changing   int    // our changes under way that are not numbered yet
	unsure     bool   // the newest value is of an observation that a change may have come into

	verified bool // verifier was set by an exclusive create
	verifier [8]byte

	own *ownAttr // attributes the table keeps for a filesystem that has none

	// path is valid while pathEpoch is the table's; of directories only.
	path      string
	pathEpoch uint64
}

// ownAttr holds the attributes of an object that its filesystem does not keep.
type ownAttr struct {
	mode, uid, gid      uint32
	atime, mtime, ctime export.Timespec
	btime               export.Timespec
}

// The record of a node: u8 version, u8 flags, u32 gen, u64 stamp, u64 bump,
// [8]verifier if flagged, ownAttr if flagged, u8 names, and for each u64
// parent, u16 length, name. Big endian.
const (
	nodeVersion  = 1
	flagVerified = 1
	flagOwn      = 2
)

func (n *node) encode() []byte {
	b := make([]byte, 0, 64+32*len(n.names))
	var flags byte
	if n.verified {
		flags |= flagVerified
	}
	if n.own != nil {
		flags |= flagOwn
	}
	b = append(b, nodeVersion, flags)
	b = binary.BigEndian.AppendUint32(b, n.gen)
	b = binary.BigEndian.AppendUint64(b, n.stamp)
	b = binary.BigEndian.AppendUint64(b, n.bump)
	if n.verified {
		b = append(b, n.verifier[:]...)
	}
	if o := n.own; o != nil {
		b = binary.BigEndian.AppendUint32(b, o.mode)
		b = binary.BigEndian.AppendUint32(b, o.uid)
		b = binary.BigEndian.AppendUint32(b, o.gid)
		for _, t := range []export.Timespec{o.atime, o.mtime, o.ctime, o.btime} {
			b = binary.BigEndian.AppendUint64(b, uint64(t.Sec))
			b = binary.BigEndian.AppendUint32(b, t.Nsec)
		}
	}
	b = append(b, byte(len(n.names)))
	for _, r := range n.names {
		b = binary.BigEndian.AppendUint64(b, r.parent)
		b = binary.BigEndian.AppendUint16(b, uint16(len(r.name)))
		b = append(b, r.name...)
	}
	return b
}

// reader takes a record apart; bad sticks.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) u8() byte    { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) time() export.Timespec {
	return export.Timespec{Sec: int64(r.u64()), Nsec: r.u32()}
}

// decodeNode returns nil for a record that is not whole or not ours; the
// object is then unknown and is met again by name.
func decodeNode(ino uint64, b []byte) *node {
	r := &reader{b: b}
	if r.u8() != nodeVersion {
		return nil
	}
	flags := r.u8()
	n := &node{ino: ino, gen: r.u32(), stamp: r.u64(), bump: r.u64()}
	if flags&flagVerified != 0 {
		n.verified = true
		copy(n.verifier[:], r.take(8))
	}
	if flags&flagOwn != 0 {
		n.own = &ownAttr{mode: r.u32(), uid: r.u32(), gid: r.u32()}
		n.own.atime, n.own.mtime, n.own.ctime, n.own.btime = r.time(), r.time(), r.time(), r.time()
	}
	for range r.u8() {
		parent := r.u64()
		name := string(r.take(int(r.u16())))
		n.names = append(n.names, nameRef{parent, name})
	}
	if r.bad || len(r.b) != 0 {
		return nil
	}
	return n
}

// add makes ref the newest name and reports whether that changed the set.
func (n *node) add(ref nameRef) bool {
	if slices.Contains(n.names, ref) {
		return false
	}
	n.names = slices.Insert(n.names, 0, ref)
	if len(n.names) > maxNames {
		n.names = n.names[:maxNames]
	}
	return true
}

func (n *node) drop(ref nameRef) bool {
	i := slices.Index(n.names, ref)
	if i < 0 {
		return false
	}
	n.names = slices.Delete(n.names, i, i+1)
	return true
}
