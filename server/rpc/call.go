package rpc

import (
	"context"
	"sync"
	"time"

	"capstan/server/xdr"
)

// Call is one call being served. It belongs to the goroutine that serves it, and
// must not be kept after Serve has returned.
type Call struct {
	XID       uint32
	Program   uint32
	Version   uint32
	Procedure uint32
	Cred      Credential  // Groups is storage of the Call
	Args      xdr.Decoder // the arguments, aliasing the record
	Conn      *Conn
	Size      int // bytes of the record

	record *Buffer
	reply  xdr.Encoder
	header xdr.Mark // end of the header of an accepted reply
	groups [maxGroups]uint32
	deny   AuthStat
	paid   int64 // reply bytes charged by Payload so far
	forced int64 // reply bytes charged when the reply was queued
	info   CallInfo
	start  time.Time // when the record was complete; set only for an Observer
}

var callPool = sync.Pool{New: func() any { return new(Call) }}

// maxKept is the largest encoder that is kept with a pooled Call.
const maxKept = 64 << 10

// Deny makes the reply MSG_DENIED with AUTH_ERROR and stat, whatever Serve
// returns. AuthOK takes it back.
func (c *Call) Deny(stat AuthStat) { c.deny = stat }

// Record returns the buffer that Args aliases. A program that wants the bytes
// to stay unchanged after Serve has returned retains it, and releases it later;
// until then it counts in [Options.MaxInFlightBytes].
func (c *Call) Record() *Buffer { return c.record }

// Payload returns a buffer of n bytes for data of the reply, to be spliced in
// with [xdr.Encoder.OpaqueRef] and [Buffer.Releaser]. Its size is charged to
// [Options.MaxReplyBytes] until it is released; where that budget is used up
// Payload waits for replies to leave. Only the first call of Payload waits, so
// that no call keeps a part of the budget while it waits for another. A buffer
// that is not spliced in is to be released. The error is why the connection
// ended.
func (c *Call) Payload(n int) (*Buffer, error) {
	if err := c.Conn.chargeReply(int64(n), c.paid == 0); err != nil {
		return nil, err
	}
	c.paid += int64(n)
	b := GetBuffer(n)
	b.owner, b.charge = c.Conn, int64(n)
	return b, nil
}

// shape is what the header of a record turned out to be.
type shape uint8

const (
	shapeCall     shape = iota // a call to run
	shapeDenied                // a call with a credential or verifier that is not accepted (deny)
	shapeMismatch              // a call of another RPC version
	shapeGarbage               // a call whose header ends early
	shapeReply                 // a reply (to a call of ours)
	shapeBroken                // no RPC message
)

// decode reads the header of the record and leaves Args at the arguments.
func (c *Call) decode(rec []byte, intern func([]byte) string) shape {
	var d xdr.Decoder
	d.Reset(rec)
	c.Size = len(rec)
	c.XID = d.Uint32("xid")
	mtype := d.Uint32("mtype")
	if !d.OK() || mtype > msgReply {
		return shapeBroken
	}
	if mtype == msgReply {
		return shapeReply
	}
	version := d.Uint32("rpcvers")
	if !d.OK() {
		return shapeBroken
	}
	if version != Version {
		return shapeMismatch
	}
	c.Program = d.Uint32("prog")
	c.Version = d.Uint32("vers")
	c.Procedure = d.Uint32("proc")
	if !d.OK() {
		return shapeGarbage
	}
	c.Cred.Flavor = Flavor(d.Uint32("cred.flavor"))
	body := d.Opaque("cred.body", maxAuthBody)
	if !d.OK() {
		c.deny = AuthBadCred
		return shapeDenied
	}
	verf := d.Uint32("verf.flavor")
	verfBody := d.Opaque("verf.body", maxAuthBody)
	switch {
	case c.Cred.Flavor != FlavorNone && c.Cred.Flavor != FlavorSys:
		c.deny = AuthRejectedCred
	case !d.OK() || verf != uint32(FlavorNone) || len(verfBody) != 0:
		// Both flavors go with an empty verifier of AUTH_NONE.
		c.deny = AuthBadVerf
	case c.Cred.Flavor == FlavorSys:
		c.deny = c.Cred.decodeSys(body, &c.groups, intern)
	case len(body) != 0:
		c.deny = AuthBadCred
	}
	if c.deny != AuthOK {
		return shapeDenied
	}
	c.Args.Reset(rec[d.Offset():])
	return shapeCall
}

// begin starts the reply as an accepted one that succeeded.
func (c *Call) begin() {
	e := &c.reply
	e.Uint32(0) // record mark, patched by finish
	e.Uint32(c.XID)
	e.Uint32(msgReply)
	e.Uint32(replyAccepted)
	e.Uint32(uint32(FlavorNone)) // verf
	e.Uint32(0)
	e.Uint32(uint32(Success))
	c.header = e.Mark()
}

// Offsets into the reply.
const (
	atReplyStat  = 12
	atAcceptStat = 24
)

// finish completes the reply for the outcome of the call.
func (c *Call) finish(stat AcceptStat, low, high uint32) {
	e := &c.reply
	if c.deny != AuthOK {
		e.Truncate(atReplyStat)
		e.Uint32(replyDenied)
		e.Uint32(rejectAuth)
		e.Uint32(uint32(c.deny))
		c.info.Denied, c.info.Auth = true, c.deny
	} else {
		if stat > SystemErr || e.Len()-4 > maxFragment {
			stat = SystemErr
		}
		if stat != Success {
			e.TruncateTo(c.header)
			e.Patch32(atAcceptStat, uint32(stat))
			if stat == ProgMismatch {
				e.Uint32(low)
				e.Uint32(high)
			}
		}
		c.info.Stat = stat
	}
	c.seal()
}

// mismatch makes the reply RPC_MISMATCH.
func (c *Call) mismatch() {
	e := &c.reply
	e.Truncate(atReplyStat)
	e.Uint32(replyDenied)
	e.Uint32(rejectMismatch)
	e.Uint32(Version)
	e.Uint32(Version)
	c.info.Denied = true
	c.seal()
}

// seal fills in the record mark.
func (c *Call) seal() {
	c.info.Out = c.reply.Len()
	c.reply.Patch32(0, lastFragment|uint32(c.reply.Len()-4))
}

// serve runs the call and completes its reply.
func (c *Call) serve(ctx context.Context, kind shape) {
	c.begin()
	s := c.Conn.srv
	switch kind {
	case shapeMismatch:
		c.mismatch()
	case shapeDenied:
		c.finish(Success, 0, 0)
	case shapeGarbage:
		c.finish(GarbageArgs, 0, 0)
	default:
		p, stat, low, high := s.registry().find(c.Program, c.Version)
		if p == nil {
			c.finish(stat, low, high)
			break
		}
		c.run(ctx, p)
	}
}

// run calls the program. Whatever happens in there, a panic included, the reply
// is complete afterwards.
func (c *Call) run(ctx context.Context, p Program) {
	s := c.Conn.srv
	stat := SystemErr
	returned := false
	defer func() {
		if !returned {
			s.logPanic(c, recover())
			stat, c.deny = SystemErr, AuthOK
		}
		var low, high uint32
		if stat == ProgMismatch {
			low, high = s.registry().bounds(c.Program)
		}
		c.finish(stat, low, high)
	}()
	stat = p.Serve(ctx, c, &c.reply)
	returned = true
}

// encoder and sent make a Call an outgoing message.
func (c *Call) encoder() *xdr.Encoder { return &c.reply }

func (c *Call) sent(err error) { c.Conn.callDone(c, err) }

// recycle empties c and puts it back.
func (c *Call) recycle() {
	c.reply.Reset()
	c.reply.Shrink(maxKept)
	reply := c.reply
	*c = Call{reply: reply}
	callPool.Put(c)
}
