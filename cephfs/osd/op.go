package osd

import (
	"encoding/binary"
	"math"
	"time"

	"capstan/cephfs/denc"
)

// maxSubops bounds the operations of one request; their number is a 16-bit
// field of the message, and no OSD is asked for nearly so many.
const maxSubops = 1024

// maxPayload bounds the data of one request. OSDs refuse writes above
// osd_max_write_size, 90 MiB by default.
const maxPayload = 128 << 20

// maxAnswer bounds the data that the reads of one request may bring. It is below
// what a messenger takes by default, 128 MiB, by more than all the other results
// that have a bound can have together; a messenger with a lower
// [msgr.Options.MaxData] breaks connections on such answers, see strike.
const maxAnswer = 120 << 20

// unbounded stands for the size of an answer that does not depend on what was
// asked alone.
const unbounded = maxAnswer + 1

// SnapContext is what a write is ordered against: the newest snapshot of the
// file or pool, and those that exist, newest first. The zero value means no
// snapshots.
type SnapContext struct {
	Seq   uint64
	Snaps []uint64 // descending, none above Seq
}

// Trunc says what a file system knows of an object's truncation: a counter and
// the object's size at it. An OSD applies a newer one before the operation, and
// clips what an older one writes. The zero value is what objects that are no
// file data use.
type Trunc struct {
	Seq  uint32
	Size uint64 // bytes of this object, not of the file
}

// OnFull says what a write does when the cluster or the pool has no room.
type OnFull uint8

// The choices.
const (
	// FullWait holds the write until there is room.
	FullWait OnFull = iota
	// FullFail ends it with [ErrFull] or [ErrQuota], also one that was sent
	// before the map said so.
	FullFail
	// FullTry lets the OSD decide: what needs no space, such as removing, is
	// done; the rest fails with ENOSPC or EDQUOT.
	FullTry
	// FullForce is done in any case; the OSD may ask for rights.
	FullForce
)

// Replica says from which OSD an operation that only reads may be served. Such
// a read is not ordered against writes of this client that are still under way
// or come later.
type Replica uint8

// The choices.
const (
	// ReplicaPrimary asks the primary.
	ReplicaPrimary Replica = iota
	// ReplicaAny spreads reads over the replicas.
	ReplicaAny
	// ReplicaNear asks the one that [Options.Distance] finds closest.
	ReplicaNear
)

// Op is a list of operations on one object that are done in one go: all of
// them, in order, or none. The methods that append an operation return its
// index in the list, which is that of its result in [Reply.Results].
//
// An Op may be submitted once at a time: from the call to its completion nobody
// may change it or what it writes. Then it may be submitted again, or reset.
//
// A list that changes something brings no data back: an OSD answers it without
// results, so what its Stat, Xattr, omap and Call operations found is empty, and
// a list with reads of data in it is refused with EINVAL.
//
// The zero Op is an empty list with no snapshots.
type Op struct {
	// Snap orders the writes of the list against snapshots.
	Snap SnapContext
	// SnapID is the snapshot to read; 0 stands for [NoSnap].
	SnapID uint64
	// Mtime becomes the object's time if the list writes. The zero time stands
	// for that of the call.
	Mtime time.Time
	// Trunc is copied into each data operation when it is appended.
	Trunc Trunc
	// OnFull says what a list that writes does when the cluster or its pool is
	// full.
	OnFull OnFull
	// Replica says which OSD a list that only reads may be sent to.
	Replica Replica
	// Released, if set when the list is submitted, is called once, right before
	// the completion, when nothing of the client refers to the data of the list
	// any more. It must not block.
	Released func()

	subops  []subop
	flags   uint32
	payload int  // bytes of all in
	read    int  // bytes of extents asked for
	answer  int  // bytes of the data that these may bring
	open    bool // there are results of any size
	err     error
}

// subop is one operation of a list.
type subop struct {
	code  opcode
	flags uint32
	body  [28]byte // the union of ceph_osd_op
	in    [2][]byte
	vec   [][]byte // more of in; or, of a read, more of into
	into  []byte   // where the data of a read is copied
	copy  bool     // into is meant, even if empty
	read  int      // bytes of the extent asked for
}

// subopLen is the encoded length of one: code, flags, body, payload length.
const subopLen = 2 + 4 + 28 + 4

func (s *subop) inLen() int {
	n := len(s.in[0]) + len(s.in[1])
	if !s.copy {
		n += total(s.vec)
	}
	return n
}

// total is the number of bytes of buffers, which may be the same storage many
// times; it does not overflow.
func total(bufs [][]byte) int {
	n := 0
	for _, b := range bufs {
		n += min(len(b), math.MaxInt-n)
	}
	return n
}

// statLen is the length of the result of a stat.
const statLen = 16

// answer bounds the bytes that a read brings. Of a sparse one every other byte
// may be an extent, with 16 bytes that say where; the lists have a length each.
//
// Precondition: s.read is at most maxAnswer.
func (s *subop) answer() int {
	switch {
	case s.code == opSparseRead:
		return s.read + (s.read/2+1)*16 + 8
	case s.code == opStat:
		return statLen
	}
	return s.read
}

// open reports whether the result may have any size.
func (s *subop) open() bool {
	switch s.code {
	case opCall, opGetXattr, opGetXattrs, opOmapGetKeys, opOmapGetVals, opOmapGetValsByKeys, opOmapGetHeader:
		return true
	}
	return false
}

// Len is the number of operations in the list.
func (o *Op) Len() int { return len(o.subops) }

// Reset empties the list, and everything else of o but its storage.
func (o *Op) Reset() {
	clear(o.subops)
	*o = Op{subops: o.subops[:0]}
}

// isWrite reports whether the list changes something.
func (o *Op) isWrite() bool { return o.flags&flagWrite != 0 }

func (o *Op) add(s subop) int {
	n := s.inLen()
	// Each against what is left: sums may overflow.
	if len(o.subops) == maxSubops || n < 0 || n > maxPayload-o.payload ||
		s.read > maxAnswer || s.answer() > maxAnswer-o.answer {
		o.err = ErrTooLarge
		return len(o.subops)
	}
	switch {
	case s.code == opCall: // a class's methods say themselves what they do
		o.flags |= flagRead
	case s.code&modeWrite != 0:
		o.flags |= flagWrite
	default:
		o.flags |= flagRead
	}
	o.payload += n
	o.read += s.read
	o.answer += s.answer()
	o.open = o.open || s.open()
	o.subops = append(o.subops, s)
	return len(o.subops) - 1
}

func (o *Op) extent(code opcode, off, n uint64) subop {
	s := subop{code: code}
	binary.LittleEndian.PutUint64(s.body[0:], off)
	binary.LittleEndian.PutUint64(s.body[8:], n)
	binary.LittleEndian.PutUint64(s.body[16:], o.Trunc.Size)
	binary.LittleEndian.PutUint32(s.body[24:], o.Trunc.Seq)
	return s
}

// readExtent is an operation that reads an extent. To an OSD a length of 0
// means all that there is, so a read of nothing becomes a stat whose data is
// dropped.
func (o *Op) readExtent(code opcode, off uint64, n int) subop {
	if n <= 0 {
		return subop{code: opStat, copy: true}
	}
	s := o.extent(code, off, uint64(n))
	s.read = n
	return s
}

// All reads of a list together are bounded by 120 MiB, a sparse one counting
// ninefold, for its list of extents; above that the list fails with
// [ErrTooLarge].

// Read reads up to n bytes at off. Its result's Data aliases the reply, until
// [Reply.Release]; it is short where the object ends. Holes are zeros.
func (o *Op) Read(off uint64, n int) int {
	return o.add(o.readExtent(opRead, off, n))
}

// ReadInto reads up to len(b) bytes at off into b, where they are received
// directly if they are many, and copied once if not. Its result's N says how
// many, and its Data is empty. What b holds behind them, or after an error, is
// not defined. b belongs to the client until the completion, and not longer,
// also if the context ends.
func (o *Op) ReadInto(off uint64, b []byte) int {
	s := o.readExtent(opRead, off, len(b))
	s.into, s.copy = b, true
	return o.add(s)
}

// ReadIntoVec is [Op.ReadInto] of one run of bytes into buffer after buffer.
func (o *Op) ReadIntoVec(off uint64, bufs ...[]byte) int {
	s := o.readExtent(opRead, off, total(bufs))
	s.vec, s.copy = bufs, true
	return o.add(s)
}

// SparseRead reads the parts of n bytes at off that are not holes:
// [Reply.Extents].
func (o *Op) SparseRead(off uint64, n int) int { return o.add(o.readExtent(opSparseRead, off, n)) }

// Stat asks for size and time: [Reply.Stat].
func (o *Op) Stat() int { return o.add(subop{code: opStat}) }

// CompareExtent fails the list with a [CompareError] if the object's bytes at
// off are not those of b; what lies beyond its end compares as zeros.
func (o *Op) CompareExtent(off uint64, b []byte) int {
	s := o.extent(opCmpExt, off, uint64(len(b)))
	s.in[0] = b
	return o.add(s)
}

// AssertVersion fails the list if the object's version is not v: with ERANGE
// if the object's is newer, EOVERFLOW if it is older, EINVAL if v is 0.
func (o *Op) AssertVersion(v uint64) int {
	s := subop{code: opAssertVer}
	binary.LittleEndian.PutUint64(s.body[8:], v)
	return o.add(s)
}

// Write writes b at off, which grows the object if need be.
func (o *Op) Write(off uint64, b []byte) int {
	s := o.extent(opWrite, off, uint64(len(b)))
	s.in[0] = b
	return o.add(s)
}

// WriteVec writes the buffers, one behind the other, at off.
func (o *Op) WriteVec(off uint64, bufs ...[]byte) int {
	s := o.extent(opWrite, off, uint64(total(bufs)))
	s.vec = bufs
	return o.add(s)
}

// WriteFull replaces the object's data with b.
func (o *Op) WriteFull(b []byte) int {
	s := o.extent(opWriteFull, 0, uint64(len(b)))
	s.in[0] = b
	return o.add(s)
}

// Append writes b behind the end.
func (o *Op) Append(b []byte) int {
	s := o.extent(opAppend, 0, uint64(len(b)))
	s.in[0] = b
	return o.add(s)
}

// Zero makes n bytes at off zero. It does not grow the object, and does not
// make one.
func (o *Op) Zero(off, n uint64) int { return o.add(o.extent(opZero, off, n)) }

// Truncate sets the object's size, making the object if there is none. With a
// Trunc.Seq the truncation is that of the file system: Trunc.Size is then taken
// to be size, as it must be, and an object that knows of a newer one stays as
// it is.
func (o *Op) Truncate(size uint64) int {
	s := o.extent(opTruncate, size, 0)
	if o.Trunc.Seq != 0 {
		// The two differing brings an OSD down (PrimaryLogPG::do_osd_ops).
		binary.LittleEndian.PutUint64(s.body[16:], size)
	}
	return o.add(s)
}

// Remove removes the object.
func (o *Op) Remove() int { return o.add(subop{code: opDelete}) }

// Create makes the object if it does not exist. With exclusive it fails with
// EEXIST if it does.
func (o *Op) Create(exclusive bool) int {
	s := subop{code: opCreate}
	if exclusive {
		s.flags = opFlagExcl
	}
	return o.add(s)
}

// Rollback makes the object what it was in a snapshot.
func (o *Op) Rollback(snap uint64) int {
	s := subop{code: opRollback}
	binary.LittleEndian.PutUint64(s.body[0:], snap)
	return o.add(s)
}

// AllocHint tells the OSD how large the object and its writes will be.
func (o *Op) AllocHint(objectSize, writeSize uint64, flags uint32) int {
	s := subop{code: opSetAllocHint}
	binary.LittleEndian.PutUint64(s.body[0:], objectSize)
	binary.LittleEndian.PutUint64(s.body[8:], writeSize)
	binary.LittleEndian.PutUint32(s.body[16:], flags)
	return o.add(s)
}

func xattr(code opcode, name string, value []byte) subop {
	s := subop{code: code}
	binary.LittleEndian.PutUint32(s.body[0:], uint32(len(name)))
	binary.LittleEndian.PutUint32(s.body[4:], uint32(len(value)))
	s.in[0], s.in[1] = []byte(name), value
	return s
}

// GetXattr reads an extended attribute; ENODATA if there is none.
func (o *Op) GetXattr(name string) int { return o.add(xattr(opGetXattr, name, nil)) }

// GetXattrs reads all of them: [Reply.Xattrs].
func (o *Op) GetXattrs() int { return o.add(subop{code: opGetXattrs}) }

// SetXattr sets one, making the object if there is none.
func (o *Op) SetXattr(name string, value []byte) int {
	return o.add(xattr(opSetXattr, name, value))
}

// RemoveXattr removes one.
func (o *Op) RemoveXattr(name string) int { return o.add(xattr(opRmXattr, name, nil)) }

// CompareXattr fails the list with ECANCELED if an attribute is not value.
func (o *Op) CompareXattr(name string, value []byte) int {
	s := xattr(opCmpXattr, name, value)
	s.body[8] = 1 // CEPH_OSD_CMPXATTR_OP_EQ
	s.body[9] = 1 // CEPH_OSD_CMPXATTR_MODE_STRING
	return o.add(s)
}

func (o *Op) omap(code opcode, e *denc.Encoder) int {
	s := subop{code: code}
	s.in[0] = e.Data()
	binary.LittleEndian.PutUint64(s.body[8:], uint64(e.Len()))
	return o.add(s)
}

// OmapKeys lists up to limit keys after one: [Reply.OmapKeys].
func (o *Op) OmapKeys(after string, limit int) int {
	var e denc.Encoder
	e.String(after)
	e.Uint64(uint64(max(limit, 0)))
	return o.omap(opOmapGetKeys, &e)
}

// OmapVals lists up to limit keys after one that begin with prefix, with their
// values: [Reply.Omap].
func (o *Op) OmapVals(after, prefix string, limit int) int {
	var e denc.Encoder
	e.String(after)
	e.Uint64(uint64(max(limit, 0)))
	e.String(prefix)
	return o.omap(opOmapGetVals, &e)
}

// OmapGet reads the values of those of the keys that exist: [Reply.Omap].
func (o *Op) OmapGet(keys ...string) int {
	var e denc.Encoder
	e.Count(len(keys))
	for _, k := range keys {
		e.String(k)
	}
	return o.omap(opOmapGetValsByKeys, &e)
}

// OmapHeader reads the header, which is the result's Data.
func (o *Op) OmapHeader() int { return o.add(subop{code: opOmapGetHeader}) }

// OmapSet sets keys. The values are copied.
func (o *Op) OmapSet(vals map[string][]byte) int {
	var e denc.Encoder
	e.Count(len(vals))
	for k, v := range vals {
		e.String(k)
		e.Bytes(v)
	}
	return o.omap(opOmapSetVals, &e)
}

// OmapSetHeader sets the header.
func (o *Op) OmapSetHeader(b []byte) int {
	s := subop{code: opOmapSetHeader}
	binary.LittleEndian.PutUint64(s.body[8:], uint64(len(b)))
	s.in[0] = b
	return o.add(s)
}

// OmapRemove removes keys.
func (o *Op) OmapRemove(keys ...string) int {
	var e denc.Encoder
	e.Count(len(keys))
	for _, k := range keys {
		e.String(k)
	}
	return o.omap(opOmapRmKeys, &e)
}

// OmapClear removes all keys and the header.
func (o *Op) OmapClear() int { return o.add(subop{code: opOmapClear}) }

// Call runs a method of an object class. write says that it changes something,
// and then its output is not brought back.
func (o *Op) Call(class, method string, in []byte, write bool) int {
	s := subop{code: opCall}
	if len(class) > 255 || len(method) > 255 {
		o.err = ErrTooLarge
		return len(o.subops)
	}
	s.body[0], s.body[1] = uint8(len(class)), uint8(len(method))
	binary.LittleEndian.PutUint32(s.body[3:], uint32(len(in)))
	s.in[0], s.in[1] = []byte(class+method), in
	if write {
		o.flags |= flagWrite
	}
	return o.add(s)
}
