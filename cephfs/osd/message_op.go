package osd

import (
	"encoding/binary"
	"time"

	"capstan/cephfs/denc"
)

// Version 8 of MOSDOp, which every OSD since release 12 reads (ceph/ceph
// src/messages/MOSDOp.h). The messenger speaks to none that is older than 14.
const (
	opVersion = 8
	opCompat  = 3
)

// Where the fields lie that differ between the attempts of one request. Those
// before the trace have fixed places so that an OSD can queue a message without
// decoding the rest; the attempt is counted from the end.
const (
	opOffPG    = 0
	opOffHash  = opOffPG + spgLen
	opOffEpoch = opOffHash + 4
	opOffFlags = opOffEpoch + 4

	opEndAttempt = 12 // from the end: attempt, features
)

// opHeader is what a request says beside its operations.
type opHeader struct {
	object Object
	pg     PG
	hash   uint32 // of the object, all 32 bits
	epoch  uint32 // of the map that the request was placed with
	flags  uint32
	try    int32 // 0 for the first attempt
	mtime  time.Time
	snapID uint64
	snap   SnapContext
}

// encodeOp writes the front of MOSDOp. The data of the operations is not part
// of it.
func encodeOp(h *opHeader, ops []subop) []byte {
	size := 192 + len(h.object.Key) + len(h.object.Namespace) + len(h.object.Name) +
		len(ops)*subopLen + len(h.snap.Snaps)*8
	e := denc.NewEncoder(make([]byte, 0, size))
	encodePG(e, h.pg)
	e.Uint32(h.hash)
	e.Uint32(h.epoch)
	e.Uint32(h.flags)
	// The request's id: empty, so that the OSD makes it of the connection's
	// name and the message's tid.
	s := e.Struct(2, 2)
	e.Name(denc.Name{})
	e.Uint64(0)
	e.Int32(0)
	e.End(s)
	for range 3 {
		e.Uint64(0) // trace
	}

	e.Uint32(0) // incarnation of the client
	e.Time(h.mtime)
	encodeLocator(e, h.object, -1)
	e.String(h.object.Name)
	e.Uint16(uint16(len(ops)))
	for i := range ops {
		op := &ops[i]
		e.Uint16(uint16(op.code))
		e.Uint32(op.flags)
		e.Raw(op.body[:])
		e.Uint32(uint32(op.inLen()))
	}
	e.Uint64(h.snapID)
	e.Uint64(h.snap.Seq)
	e.Count(len(h.snap.Snaps))
	for _, id := range h.snap.Snaps {
		e.Uint64(id)
	}
	e.Int32(h.try)
	e.Uint64(0) // features: those of the connection
	return e.Data()
}

// patchOp sets in a front what may differ between attempts.
func patchOp(front []byte, h *opHeader) {
	e := denc.NewEncoder(front[opOffPG:opOffPG])
	encodePG(e, h.pg)
	binary.LittleEndian.PutUint32(front[opOffHash:], h.hash)
	binary.LittleEndian.PutUint32(front[opOffEpoch:], h.epoch)
	binary.LittleEndian.PutUint32(front[opOffFlags:], h.flags)
	binary.LittleEndian.PutUint32(front[len(front)-opEndAttempt:], uint32(h.try))
}
