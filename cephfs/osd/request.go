package osd

import (
	"context"
	"slices"
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
	c     *Client
	base  Object // as the caller named it
	op    *Op
	bytes uint64 // for the throttles
	mtime time.Time
	data  [][]byte // of the operations, in order
	done  func(*Reply, error)
	// The op is the caller's again from the completion on.
	released func()
	tid      uint64 // in the table; see Client.tidBase. Set before anybody finds the request
	openTid  uint64 // in Client.open
	shard    *shard
	unhook   func() bool // stops watching the context; may be nil. Set before the first send

	// Guarded by shard.mu.
	chain      *chain // nil once it left
	next, prev *request
	object     Object // what it is for: base, or where it was redirected to
	redirects  int
	target     Object      // of the last try: object, or that of a cache pool over it
	hash       uint32      // of target; only if target is set
	session    *session    // where it was sent, or waits to be; may be nil
	noReplica  bool        // a replica could not do it
	refusals   int         // EAGAIN of primaries in a row
	rest       *time.Timer // set while the request waits after one
	flags      uint32      // those that outlive an attempt
	front      []byte      // as sent last; nil before, and after a redirect
	tries      int32
	sent       bool  // and, as far as is known, the OSD has it
	link       *link // of the last try; nil if it is sent nowhere
	pg         PG    // of the last try, and the rest with it
	pgs        uint32
	resend     uint32
	force      uint32
	replica    bool      // the last try went to a replica
	budget     *throttle // of an OSD, that holds its bytes
	parked     bool      // its bytes are in Client.parked, and neither in budget nor in room
	poolSeen   bool      // its pool existed once
	poolAsked  uint64    // the check of the newest epoch that it waits for; 0 if none
	strikes    int       // connections that its answer may have broken
	poolAbsent uint32    // the epoch at which a pool not seen does not exist

	placed placement // see place.go

	tried []*try // messages that may refer to data, oldest first; see reclaim

	first try     // storage of the first message
	room  [1]*try // for tried

	// holds counts what must be over before the completion: one for the result,
	// one for each message with data in the messenger's hands, and one for an
	// answer that is being placed.
	holds atomic.Int32
	reply *Reply // the result; set by who took the request
	err   error
}

// try is a message of a request.
type try struct {
	msgr.Message
	r    *request
	link *link
	gone atomic.Bool // Sent was called, or the message was taken back
}

func (t *try) written() {
	t.gone.Store(true)
	t.r.unhold()
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

// messageLocked makes the next try.
func (r *request) messageLocked(ms *mapState) *try {
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
	t := &r.first
	if r.tries > 0 {
		t = new(try)
	}
	t.r, t.link = r, r.link
	t.Message = msgr.Message{
		Type: msgOp, Priority: opPriority, Version: opVersion, Compat: opCompat,
		Tid: r.c.tidBase + r.tid, Front: r.front, Data: r.data,
	}
	if len(r.data) > 0 {
		r.holds.Add(1)
		t.Sent = t.written
	}
	return t
}

// sendLocked sends the next try by r.link, and reports false if that is dead.
func (r *request) sendLocked(ms *mapState) bool {
	t := r.messageLocked(ms)
	r.tries++
	if r.link.conn.Send(&t.Message) != nil {
		if t.Sent != nil {
			r.holds.Add(-1) // never the last: the result's is still there
		}
		return false
	}
	r.tried = slices.DeleteFunc(r.tried, (*try).over)
	r.tried = append(r.tried, t)
	return true
}

// over says that nothing is to be reclaimed of a try that a later one follows:
// it refers to nothing of the caller's.
func (t *try) over() bool { return t.Sent == nil || t.gone.Load() }

// reclaim has the messenger let go of the messages of a request that is taken
// from the table and left its chain, and so is sent no more: those that are not
// begun are withdrawn. A connection that is in the middle of one is broken: a
// message can not be cut short, a peer that reads slowly or not at all may hold
// it for long, and everything else on that connection is sent again. Only
// answered, if not nil, is let be: an answer came by it, so that it wrote the
// message and is about to say so. A connection that receives an answer into the
// request's buffers is broken too: that is not the answer that completes it.
func (r *request) reclaim(answered *link) {
	var held int
	var busy []*link
	r.shard.mu.Lock()
	if l := r.placed.link; l != nil {
		busy = append(busy, l)
	}
	for _, t := range r.tried {
		switch {
		case t.link == answered || t.gone.Load():
		case t.link.conn.Withdraw(&t.Message):
			t.gone.Store(true)
			if t.Sent != nil {
				held++
			}
		case !t.over():
			busy = append(busy, t.link)
		}
	}
	r.shard.mu.Unlock()
	for _, l := range busy {
		l.abort()
	}
	for range held {
		r.unhold()
	}
}

// unhold ends one hold. The last one is the completion.
func (r *request) unhold() {
	if r.holds.Add(-1) > 0 {
		return
	}
	if r.unhook != nil {
		r.unhook()
	}
	// Now, when no other answer is written there any more.
	if r.err == nil && r.op.into(r.reply) {
		r.reply.drop()
	}
	if r.released != nil {
		r.released()
	}
	r.done(r.reply, r.err)
	r.c.open.Take(r.openTid)
}

// giveRoom gives back what a request holds of the throttles.
func (r *request) giveRoom() {
	if r.parked {
		r.c.parked.give(r.bytes)
		return
	}
	r.budget.give(r.bytes)
	r.c.room.give(r.bytes)
}

// parkLocked has a request that a map holds keep no room from those that can be
// done, among them what would end the hold, such as removals in a full pool.
func (r *request) parkLocked() {
	if !r.parked {
		r.giveRoom()
		r.parked = true
		r.c.parked.force(r.bytes)
	}
}

// roomLocked moves what a request holds to the throttle of the OSD that it goes
// to.
func (r *request) roomLocked(to *throttle) {
	switch {
	case r.parked:
		r.giveRoom()
		r.parked = false
		r.c.room.force(r.bytes)
	case r.budget == to:
		return
	default:
		r.budget.give(r.bytes)
	}
	to.force(r.bytes)
	r.budget = to
}

// complete ends a request that the caller took from the table and from its
// chain. It is told when no message holds the caller's data or is received into
// the caller's buffers any more, which reclaim sees to; answered is the connection
// by which the reply came, if one did.
func (r *request) complete(reply *Reply, err error, answered *link) {
	r.giveRoom()
	r.reply, r.err = reply, err
	r.reclaim(answered)
	r.stopRest()
	r.unhold()
}

// into copies what is read into buffers, unless it was placed there, and reports
// whether nothing of the reply's storage is needed any more.
func (o *Op) into(reply *Reply) (all bool) {
	all = true
	for i := range reply.Results {
		res := &reply.Results[i]
		if i < len(o.subops) && o.subops[i].copy {
			if reply.placed && o.subops[i].placeable() {
				continue
			}
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

// clip cuts what reads brought to what they asked for.
func (o *Op) clip(reply *Reply) {
	for i := range min(len(reply.Results), len(o.subops)) {
		res := &reply.Results[i]
		if n := o.subops[i].read; o.subops[i].code == opRead && len(res.Data) > n {
			res.N, res.Data = n, res.Data[:n:n]
		}
	}
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
