package nfs4

import (
	"context"
	"sync"
	"unicode/utf8"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// Sizes on the wire, in bytes.
const (
	// replyHeader is an accepted RPC reply without a verifier, which the size
	// limits of a session include (RFC 8881 section 18.36.3).
	replyHeader = 24
	// opHeader is operation number and status, which any result begins with.
	opHeader = 8
	// maxTag bounds a tag, since it is sent back.
	maxTag = 1024
	// maxScratch is how much scratch space a pooled compound keeps.
	maxScratch = 64 << 10
)

// compound is one COMPOUND being run. It belongs to the goroutine that serves
// the call and is pooled.
type compound struct {
	srv   *Server
	ctx   context.Context
	call  *rpc.Call
	d     *xdr.Decoder
	e     *xdr.Encoder
	hold  export.Hold
	table *export.Table // the exports this call began with
	peer  export.Peer
	minor uint32

	base   xdr.Mark // where the COMPOUND's result begins
	origin int      // e.Len() there
	index  int      // of the running operation
	count  int      // how many operations were sent

	maxReply int          // largest result, from base on
	tooBig   nfsv4.Status // what a larger one is answered with

	cur, saved handle
	slot       state.SlotUse
	inSession  bool // slot holds the use of a slot
	// verdict is what every operation behind SEQUENCE is answered with, if it is
	// not OK: the slot has taken the request, but it is not run.
	verdict nfsv4.Status

	view    attrView
	change  attrChange
	verify  xdr.Encoder
	scratch []byte
}

var compoundPool = sync.Pool{New: func() any { return new(compound) }}

// serveCompound runs the COMPOUND of call (RFC 8881 section 16.2).
func (s *Server) serveCompound(ctx context.Context, call *rpc.Call, e *xdr.Encoder) rpc.AcceptStat {
	c := compoundPool.Get().(*compound)
	c.srv, c.ctx, c.call, c.d, c.e = s, ctx, call, &call.Args, e
	stat := c.serve()
	c.recycle()
	return stat
}

// recycle empties c, but for its storage, and puts it back.
func (c *compound) recycle() {
	c.verify.Reset()
	verify, scratch := c.verify, c.scratch
	if cap(scratch) > maxScratch {
		scratch = nil
	}
	*c = compound{verify: verify, scratch: scratch}
	compoundPool.Put(c)
}

// serve decodes the head of the COMPOUND, runs its operations and completes
// its result.
func (c *compound) serve() rpc.AcceptStat {
	c.base, c.origin = c.e.Mark(), c.e.Len()
	tag := c.d.Opaque("tag", c.d.Remaining())
	c.minor = c.d.Uint32("minorversion")
	n := c.d.Uint32("argarray")
	if !c.d.OK() {
		return rpc.GarbageArgs
	}
	c.count = int(min(n, 1<<30))

	statusAt := c.e.Reserve32()
	if len(tag) > maxTag {
		c.e.Opaque(nil)
	} else {
		c.e.Opaque(tag)
	}
	countAt := c.e.Reserve32()

	st := c.checkHead(tag)
	if st == nfsv4.OK {
		c.begin()
		defer c.end()
		var ran int
		st, ran = c.runAll()
		if c.replayed() {
			return rpc.Success
		}
		c.e.Patch32(countAt, uint32(ran))
	}
	c.e.Patch32(statusAt, uint32(st))
	c.keepReply()
	return rpc.Success
}

// checkHead finds what keeps a COMPOUND from running at all; its result then
// holds no operation.
func (c *compound) checkHead(tag []byte) nfsv4.Status {
	switch {
	case !c.srv.serves(c.minor):
		return nfsv4.ErrMinorVersMismatch
	case len(tag) > maxTag:
		return nfsv4.ErrReqTooBig
	case !utf8.Valid(tag):
		return nfsv4.ErrInval
	}
	return nfsv4.OK
}

// begin sets up what the operations need.
func (c *compound) begin() {
	c.hold = c.srv.opts.Exports.Hold()
	c.table = c.hold.Table
	c.maxReply, c.tooBig = c.srv.maxReply, nfsv4.ErrRepTooBig
	c.peer = peerOf(c.call)
}

// end gives back what begin and SEQUENCE took. It runs when an operation
// panics too: the slot must not stay taken, nor the exports held.
func (c *compound) end() {
	if c.inSession {
		c.slot.Finish(nil)
	}
	c.hold.Release()
}

// keepReply ends the use of the slot with the complete reply, for a retry.
func (c *compound) keepReply() {
	if !c.inSession {
		return
	}
	c.inSession = false
	if c.slot.CacheLimit() == 0 {
		c.slot.Finish(nil)
		return
	}
	c.scratch = c.e.AppendSince(c.scratch[:0], c.base)
	c.slot.Finish(c.scratch)
}

// replayed answers a retry with the reply that was kept, if it is one.
func (c *compound) replayed() bool {
	if c.slot.Replay == nil {
		return false
	}
	c.e.TruncateTo(c.base)
	c.e.Append(c.slot.Replay)
	return true
}

// runAll runs the operations up to the first that fails, and returns its
// status and how many there are in the result.
func (c *compound) runAll() (st nfsv4.Status, ran int) {
	for c.index = 0; c.index < c.count; c.index++ {
		n := c.d.Uint32("nfs_opnum4")
		o := theOps.find(n, c.minor)
		if !c.d.OK() {
			o = &illegal
		}
		c.e.Uint32(uint32(o.op))
		at := c.e.Reserve32()
		if st = c.refuse(o); st == nfsv4.OK {
			st = o.exec(o, c)
		} else if o.refuse != nil {
			o.refuse(st, c.e)
		}
		c.e.Patch32(at, uint32(st))
		if st != nfsv4.OK || c.slot.Replay != nil {
			return st, c.index + 1
		}
	}
	return nfsv4.OK, c.index
}

// refuse says why an operation is not to be run, or OK.
func (c *compound) refuse(o *operation) nfsv4.Status {
	switch {
	case !c.d.OK():
		return nfsv4.ErrBadXDR
	case o == &illegal:
		return nfsv4.ErrOpIllegal
	case o.exec == nil:
		return nfsv4.ErrNotSupp
	}
	if st := c.position(o); st != nfsv4.OK {
		return st
	}
	return c.verdict
}

// position checks that o may stand where it does (RFC 8881 section 2.10.1,
// 18.46.3 and the descriptions of the operations that need no session).
func (c *compound) position(o *operation) nfsv4.Status {
	switch {
	case c.minor == 0:
		return nfsv4.OK
	case o.op == nfsv4.OpSequence:
		if c.index != 0 {
			return nfsv4.ErrSequencePos
		}
	case c.index == 0 && o.flags&standsAlone == 0:
		return nfsv4.ErrOpNotInSession
	case c.index == 0 && c.count > 1, c.index > 0 && o.flags&aloneOnly != 0:
		return nfsv4.ErrNotOnlyOp
	}
	return nfsv4.OK
}

// admit checks what the flags of o ask for, when its arguments are decoded.
func (c *compound) admit(o *operation) nfsv4.Status {
	if o.flags&needsFH != 0 && !c.cur.set {
		return nfsv4.ErrNoFileHandle
	}
	if o.flags&needsSaved != 0 && !c.saved.set {
		return nfsv4.ErrNoFileHandle
	}
	if o.flags&writesFS != 0 && c.cur.rights.ReadOnly {
		return nfsv4.ErrROFS
	}
	return nfsv4.OK
}

// fits reports whether n more bytes still fit into the reply, and behind them
// the header of a next operation that fails for lack of room.
func (c *compound) fits(n int) bool { return n <= c.room() }

// room is how many bytes the running operation may still append; less than 0
// if there are too many already.
func (c *compound) room() int {
	room := c.maxReply - (c.e.Len() - c.origin)
	if c.index < c.count-1 {
		room -= opHeader
	}
	return room
}
