package osd

import "strconv"

// The message types of this package (ceph/ceph src/include/msgr.h).
const (
	msgMap     = 41 // CEPH_MSG_OSD_MAP
	msgOp      = 42 // CEPH_MSG_OSD_OP
	msgOpReply = 43 // CEPH_MSG_OSD_OPREPLY
	msgBackoff = 61 // CEPH_MSG_OSD_BACKOFF
)

// opPriority is that of every message to an OSD (osd_client_op_priority). They
// must be equal: the acknowledgement of a back-off may not pass an operation.
const opPriority = 63

// opcode is CEPH_OSD_OP_* (ceph/ceph src/include/rados.h).
type opcode uint16

const (
	modeRead  = 0x1000 // CEPH_OSD_OP_MODE_RD
	modeWrite = 0x2000 // CEPH_OSD_OP_MODE_WR
	typeData  = 0x0200
	typeAttr  = 0x0300
	typeExec  = 0x0400

	opRead       opcode = modeRead | typeData | 1
	opStat       opcode = modeRead | typeData | 2
	opSparseRead opcode = modeRead | typeData | 5
	opAssertVer  opcode = modeRead | typeData | 8
	opCmpExt     opcode = modeRead | typeData | 32

	opOmapGetKeys       opcode = modeRead | typeData | 17
	opOmapGetVals       opcode = modeRead | typeData | 18
	opOmapGetHeader     opcode = modeRead | typeData | 19
	opOmapGetValsByKeys opcode = modeRead | typeData | 20

	opWrite        opcode = modeWrite | typeData | 1
	opWriteFull    opcode = modeWrite | typeData | 2
	opTruncate     opcode = modeWrite | typeData | 3
	opZero         opcode = modeWrite | typeData | 4
	opDelete       opcode = modeWrite | typeData | 5
	opAppend       opcode = modeWrite | typeData | 6
	opCreate       opcode = modeWrite | typeData | 13
	opRollback     opcode = modeWrite | typeData | 14
	opSetAllocHint opcode = modeWrite | typeData | 35

	opOmapSetVals   opcode = modeWrite | typeData | 21
	opOmapSetHeader opcode = modeWrite | typeData | 22
	opOmapClear     opcode = modeWrite | typeData | 23
	opOmapRmKeys    opcode = modeWrite | typeData | 24

	opGetXattr  opcode = modeRead | typeAttr | 1
	opGetXattrs opcode = modeRead | typeAttr | 2
	opCmpXattr  opcode = modeRead | typeAttr | 3
	opSetXattr  opcode = modeWrite | typeAttr | 1
	opRmXattr   opcode = modeWrite | typeAttr | 4

	opCall opcode = modeRead | typeExec | 1
)

var opNames = map[opcode]string{
	opRead: "read", opStat: "stat", opSparseRead: "sparse-read", opAssertVer: "assert-version",
	opCmpExt: "cmpext", opOmapGetKeys: "omap-get-keys", opOmapGetVals: "omap-get-vals",
	opOmapGetHeader: "omap-get-header", opOmapGetValsByKeys: "omap-get-vals-by-keys",
	opWrite: "write", opWriteFull: "writefull", opTruncate: "truncate", opZero: "zero",
	opDelete: "delete", opAppend: "append", opCreate: "create", opRollback: "rollback",
	opSetAllocHint: "set-alloc-hint", opOmapSetVals: "omap-set-vals",
	opOmapSetHeader: "omap-set-header", opOmapClear: "omap-clear", opOmapRmKeys: "omap-rm-keys",
	opGetXattr: "getxattr", opGetXattrs: "getxattrs", opCmpXattr: "cmpxattr",
	opSetXattr: "setxattr", opRmXattr: "rmxattr", opCall: "call",
}

// String returns Ceph's name of o.
func (o opcode) String() string {
	if s, ok := opNames[o]; ok {
		return s
	}
	return "op0x" + strconv.FormatUint(uint64(o), 16)
}

// Flags of a request (CEPH_OSD_FLAG_*).
const (
	flagOndisk       = 0x0004 // nothing but very old OSDs looks at it
	flagRetry        = 0x0008
	flagRead         = 0x0010
	flagWrite        = 0x0020
	flagBalanceReads = 0x0100
	flagLocalReads   = 0x2000
	flagIgnoreCache  = 0x8000
	flagNoOverlay    = 0x20000 // IGNORE_OVERLAY
	flagRedirected   = 0x200000
	flagKnownRedir   = 0x400000
	flagFullTry      = 0x800000
	flagFullForce    = 0x1000000
	flagPoolEIO      = 0x8000000 // SUPPORTSPOOLEIO
)

// Flags of one operation (CEPH_OSD_OP_FLAG_*).
const opFlagExcl = 0x1

// NoSnap is the snapshot id of an object as it is now (CEPH_NOSNAP).
const NoSnap = ^uint64(1)

// noShard is the shard of a placement group of a replicated pool.
const noShard = -1

// maxErrno splits results: -maxErrno and those below are no errno but tell how
// far into a comparison the first difference is (MAX_ERRNO).
const maxErrno = 4095
