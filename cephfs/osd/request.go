package osd

import (
	"context"
	"sync/atomic"
	"time"

	"capstan/cephfs/msgr"
)

// request is an operation from its submission to its completion.
//
// It belongs to the shard of its object. The reply, the end of its context and
// the end of the client race for it: who takes it from the client's table
// completes it.
type request struct {
	// Constant.
	c      *Client
	base   Object // as the caller named it
	op     *Op
	bytes  uint64 // for the throttles
	mtime  time.Time
	data   [][]byte // of the operations, in order
	done   func(*Reply, error)
	tid    uint64 // in the table; see Client.tidBase. Set before anybody finds the request
	shard  *shard
	unhook func() bool // stops watching the context; may be nil. Set before the first send

	// Guarded by shard.mu.
	chain      *chain // nil once it left
	next, prev *request
	object     Object // what it is for: base, or where it was redirected to
	redirects  int
	target     Object   // of the last try: object, or that of a cache pool over it
	hash       uint32   // of target; only if target is set
	session    *session // where it was sent, or waits to be; may be nil
	noReplica  bool     // a replica could not do it
	flags      uint32   // those that outlive an attempt
	front      []byte   // as sent last; nil before, and after a redirect
	tries      int32
	sent       bool  // and, as far as is known, the OSD has it
	link       *link // of the last try; nil if it is sent nowhere
	pg         PG    // of the last try, and the rest with it
	pgs        uint32
	resend     uint32
	force      uint32
	replica    bool      // the last try went to a replica
	budget     *throttle // of an OSD, that holds its bytes
	poolSeen   bool      // its pool existed once
	poolAsked  uint64    // the check of the newest epoch that it waits for; 0 if none
	poolAbsent uint32    // the epoch at which a pool not seen does not exist

	// holds counts what must be over before the caller may have its data back:
	// one for the result, and one for each message in the messenger's hands.
	holds     atomic.Int32
	completed atomic.Bool // done was called
	reply     *Reply      // the result, kept until holds is 0; set by who took the request
	err       error
}

// header makes the fields of the next try.
func (r *request) header(ms *mapState) opHeader {
	h := opHeader{
		object: r.target, pg: r.pg, hash: r.hash, epoch: ms.Epoch(),
		flags: r.flags | r.op.flags | flagOndisk | flagKnownRedir | flagPoolEIO,
		try:   r.tries,
		mtime: r.mtime, snapID: r.op.SnapID, snap: r.op.Snap,
	}
	if h.snapID == 0 {
		h.snapID = NoSnap
	}
	if r.tries > 0 {
		h.flags |= flagRetry
	}
	if r.op.isWrite() {
		switch r.op.OnFull {
		case FullTry:
			h.flags |= flagFullTry
		case FullForce:
			h.flags |= flagFullForce
		}
	}
	if r.replica {
		if r.op.Replica == ReplicaNear {
			h.flags |= flagLocalReads
		} else {
			h.flags |= flagBalanceReads
		}
	}
	return h
}

// message makes the message of the next try.
func (r *request) messageLocked(ms *mapState) *msgr.Message {
	h := r.header(ms)
	switch {
	case r.front == nil:
		r.front = encodeOp(&h, r.op.subops)
	case r.tries > 0:
		// The last one may still lie in the queue of a connection.
		r.front = append(make([]byte, 0, len(r.front)), r.front...)
		fallthrough
	default:
		patchOp(r.front, &h)
	}
	m := &msgr.Message{
		Type: msgOp, Priority: opPriority, Version: opVersion, Compat: opCompat,
		Tid: r.c.tidBase + r.tid, Front: r.front, Data: r.data,
	}
	if len(r.data) > 0 {
		r.holds.Add(1)
		m.Sent = r.unhold
	}
	return m
}

// unhold ends one hold. At the last one the caller may have its data back.
func (r *request) unhold() {
	if r.holds.Add(-1) > 0 {
		return
	}
	if r.completed.CompareAndSwap(false, true) {
		r.done(r.reply, r.err)
	}
	if r.op.Released != nil {
		r.op.Released()
	}
}

// complete ends a request that the caller took from the table and from its
// chain. What succeeded is told when no message holds the caller's data any
// more, which the messenger will see to soon: the OSD has it, and connections
// given up drop theirs. What failed or was cancelled is told at once; the data
// follows with Released.
func (r *request) complete(reply *Reply, err error) {
	if r.unhook != nil {
		r.unhook()
	}
	if r.budget != nil {
		r.budget.give(r.bytes)
	}
	r.c.room.give(r.bytes)
	if err == nil && r.op.into(reply) {
		reply.drop()
	}
	r.reply, r.err = reply, err
	if err != nil && r.completed.CompareAndSwap(false, true) {
		r.done(reply, err)
	}
	r.unhold()
}

// into copies what is read into buffers, and reports whether nothing of the
// reply's storage is needed any more.
func (o *Op) into(reply *Reply) (all bool) {
	all = true
	for i := range reply.Results {
		res := &reply.Results[i]
		if i < len(o.subops) && o.subops[i].copy {
			data := res.Data
			n := copy(o.subops[i].into, data)
			for _, b := range o.subops[i].vec {
				n += copy(b, data[n:])
			}
			res.N, res.Data = n, nil
		}
		all = all && len(res.Data) == 0
	}
	return all
}

// fail makes the error of a request.
func (r *request) fail(err error) error {
	return &Error{Op: opNamesOf(r.op.subops), Object: r.base, Err: err}
}

// watch has the request end with its context.
func (r *request) watch(ctx context.Context) {
	if ctx.Done() == nil {
		return
	}
	r.unhook = context.AfterFunc(ctx, func() { r.c.cancel(r, context.Cause(ctx)) })
}
