package nfs4

import (
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/xdr"
)

func sessionOps() []operation {
	return []operation{
		op(nfsv4.OpSequence, 1, 2, standsAlone, codec[sequenceArgs, none]{
			decode: (*sequenceArgs).decode, run: opSequence}),
		op(nfsv4.OpCreateSession, 1, 2, modifies|standsAlone, codec[createSessionArgs, state.CreateSessionResult]{
			decode: (*createSessionArgs).decode, limit: limitCreateSession, run: opCreateSession, encode: encodeCreateSession}),
		op(nfsv4.OpDestroySession, 1, 2, modifies|standsAlone, codec[sessionArgs, none]{
			decode: (*sessionArgs).decode, run: opDestroySession}),
		op(nfsv4.OpBindConnToSession, 1, 2, modifies|standsAlone|aloneOnly|idempotent, codec[bindConnArgs, bindConnRes]{
			decode: (*bindConnArgs).decode, limit: limitBindConn, run: opBindConn, encode: (*bindConnRes).encode}),
		op(nfsv4.OpBackChannelCtl, 1, 2, modifies|idempotent, codec[backchannelArgs, none]{
			decode: (*backchannelArgs).decode, run: opBackchannelCtl}),
	}
}

// sequenceArgs is SEQUENCE4args (RFC 8881 section 18.46.1).
type sequenceArgs struct{ state.SequenceArgs }

func (a *sequenceArgs) decode(d *xdr.Decoder) {
	a.Session = nfsv4.DecodeSessionID(d)
	a.Sequence = d.Uint32("sa_sequenceid")
	a.Slot = d.Uint32("sa_slotid")
	a.HighestSlot = d.Uint32("sa_highest_slotid")
	a.CacheThis = d.Bool("sa_cachethis")
}

func opSequence(c *compound, a *sequenceArgs, _ *none) nfsv4.Status {
	a.Conn = c.srv.connOf(c.call)
	// A client that encodes a request anew to send it again has other slots in
	// use by then, so what SEQUENCE itself says does not tell requests apart.
	behind := *c.d
	a.Digest = state.Digest(behind.Rest(), c.count, uint32(c.call.Cred.Flavor), c.call.Cred.UID)
	if st := c.srv.opts.State.Sequence(&a.SequenceArgs, &c.slot); st != nfsv4.OK {
		return st
	}
	switch c.slot.Action {
	case state.SlotReplay:
		return nfsv4.OK
	case state.SlotUncached:
		c.verdict = nfsv4.ErrRetryUncachedRep
	case state.SlotExecute:
		c.inSession = true
		c.verdict = c.checkRequest()
	}
	c.limitReply()
	c.encodeSequence(&c.slot.Result)
	return nfsv4.OK
}

// checkRequest holds the request against what was negotiated for the session.
// The first operation that is not run tells, so that SEQUENCE and the slot
// agree that the request was taken.
func (c *compound) checkRequest() nfsv4.Status {
	fore := c.slot.Session().Fore()
	switch {
	case c.call.Size > int(fore.MaxRequest):
		return nfsv4.ErrReqTooBig
	case c.count > int(fore.MaxOperations):
		return nfsv4.ErrTooManyOps
	}
	return nfsv4.OK
}

// limitReply sets the size the reply may have by what was negotiated for the
// session, and by what has to be cached.
func (c *compound) limitReply() {
	fore := c.slot.Session().Fore()
	c.maxReply = min(c.maxReply, int(fore.MaxResponse)-replyHeader)
	if limit := c.slot.CacheLimit(); limit != 0 && limit < c.maxReply {
		c.maxReply, c.tooBig = limit, nfsv4.ErrRepTooBigToCache
	}
}

func (c *compound) encodeSequence(r *state.SequenceResult) {
	c.e.Fixed(r.Session[:])
	c.e.Uint32(r.Sequence)
	c.e.Uint32(r.Slot)
	c.e.Uint32(r.HighestSlot)
	c.e.Uint32(r.TargetHighestSlot)
	c.e.Uint32(r.StatusFlags)
}

// createSessionArgs is CREATE_SESSION4args (RFC 8881 section 18.36.1).
type createSessionArgs struct{ state.CreateSessionArgs }

func (a *createSessionArgs) decode(d *xdr.Decoder) {
	a.ClientID = nfsv4.ClientID(d.Uint64("csa_clientid"))
	a.Sequence = d.Uint32("csa_sequence")
	a.Flags = d.Uint32("csa_flags")
	a.Fore = decodeChannel(d)
	a.Back = decodeChannel(d)
	a.CBProgram = d.Uint32("csa_cb_program")
	a.CBSec = decodeCallbackSec(d)
}

func decodeChannel(d *xdr.Decoder) (a state.ChannelAttrs) {
	a.HeaderPad = d.Uint32("ca_headerpadsize")
	a.MaxRequest = d.Uint32("ca_maxrequestsize")
	a.MaxResponse = d.Uint32("ca_maxresponsesize")
	a.MaxResponseCached = d.Uint32("ca_maxresponsesize_cached")
	a.MaxOperations = d.Uint32("ca_maxoperations")
	a.MaxRequests = d.Uint32("ca_maxrequests")
	if d.Count("ca_rdma_ird", 1, 4) == 1 {
		d.Uint32("ca_rdma_ird")
	}
	return a
}

func encodeChannel(e *xdr.Encoder, a *state.ChannelAttrs) {
	e.Uint32(a.HeaderPad)
	e.Uint32(a.MaxRequest)
	e.Uint32(a.MaxResponse)
	e.Uint32(a.MaxResponseCached)
	e.Uint32(a.MaxOperations)
	e.Uint32(a.MaxRequests)
	e.Uint32(0) // ca_rdma_ird
}

// Bounds of callback_sec_parms4.
const (
	maxCallbackSec = 16
	maxMachineName = 255
	maxAuthGroups  = 16
	maxGSSHandle   = 1024
	authGSS        = 6
)

// decodeCallbackSec reads callback_sec_parms4<> (RFC 8881 section 18.33.1).
// Flavors that callbacks are never made with are read past.
func decodeCallbackSec(d *xdr.Decoder) (list []state.CallbackSec) {
	n := d.Count("csa_sec_parms", maxCallbackSec, 4)
	for range n {
		s := state.CallbackSec{Flavor: d.Uint32("cb_secflavor")}
		switch s.Flavor {
		case nfsv4.AuthNone:
		case nfsv4.AuthSys:
			d.Uint32("stamp")
			s.Machine = d.String("machinename", maxMachineName)
			s.UID = d.Uint32("uid")
			s.GID = d.Uint32("gid")
			for range d.Count("gids", maxAuthGroups, 4) {
				s.Groups = append(s.Groups, d.Uint32("gids"))
			}
		case authGSS:
			d.Uint32("gcbp_service")
			d.Opaque("gcbp_handle_from_server", maxGSSHandle)
			d.Opaque("gcbp_handle_from_client", maxGSSHandle)
		default:
			d.Fail("cb_secflavor", xdr.ErrValue)
		}
		if !d.OK() {
			return nil
		}
		list = append(list, s)
	}
	return list
}

func limitCreateSession(*compound, *createSessionArgs) int { return 16 + 8 + 2*28 }

func opCreateSession(c *compound, a *createSessionArgs, r *state.CreateSessionResult) (st nfsv4.Status) {
	a.Principal = principalOf(c.call)
	a.Conn = c.srv.connOf(c.call)
	*r, st = c.srv.opts.State.CreateSession(c.ctx, &a.CreateSessionArgs)
	return st
}

func encodeCreateSession(r *state.CreateSessionResult, _ nfsv4.Status, e *xdr.Encoder) {
	e.Fixed(r.Session[:])
	e.Uint32(r.Sequence)
	e.Uint32(r.Flags)
	encodeChannel(e, &r.Fore)
	encodeChannel(e, &r.Back)
}

type sessionArgs struct{ id nfsv4.SessionID }

func (a *sessionArgs) decode(d *xdr.Decoder) { a.id = nfsv4.DecodeSessionID(d) }

func opDestroySession(c *compound, a *sessionArgs, _ *none) nfsv4.Status {
	var running *state.SlotUse
	if c.inSession {
		running = &c.slot
		// The session a COMPOUND runs in may go only with its last operation
		// (RFC 8881 section 18.37.3).
		if c.slot.Session().ID() == a.id && c.index != c.count-1 {
			return nfsv4.ErrNotOnlyOp
		}
	}
	return c.srv.opts.State.DestroySession(a.id, c.srv.connOf(c.call), running)
}

// bindConnArgs is BIND_CONN_TO_SESSION4args (RFC 8881 section 18.34.1).
type bindConnArgs struct {
	id  nfsv4.SessionID
	dir uint32
}

func (a *bindConnArgs) decode(d *xdr.Decoder) {
	a.id = nfsv4.DecodeSessionID(d)
	a.dir = d.Uint32("bctsa_dir")
	switch a.dir {
	case nfsv4.BindFore, nfsv4.BindBack, nfsv4.BindForeOrBoth, nfsv4.BindBackOrBoth:
	default:
		d.Fail("bctsa_dir", xdr.ErrValue)
	}
	d.Bool("bctsa_use_conn_in_rdma_mode") // RDMA is not served: the answer is no
}

type bindConnRes struct {
	id  nfsv4.SessionID
	dir uint32
}

func limitBindConn(*compound, *bindConnArgs) int { return 16 + 8 }

func opBindConn(c *compound, a *bindConnArgs, r *bindConnRes) (st nfsv4.Status) {
	r.id = a.id
	r.dir, st = c.srv.opts.State.BindConn(a.id, c.srv.connOf(c.call), a.dir)
	return st
}

func (r *bindConnRes) encode(_ nfsv4.Status, e *xdr.Encoder) {
	e.Fixed(r.id[:])
	e.Uint32(r.dir)
	e.Bool(false)
}

// backchannelArgs is BACKCHANNEL_CTL4args (RFC 8881 section 18.33.1).
type backchannelArgs struct {
	program uint32
	sec     []state.CallbackSec
}

func (a *backchannelArgs) decode(d *xdr.Decoder) {
	a.program = d.Uint32("bca_cb_program")
	a.sec = decodeCallbackSec(d)
}

func opBackchannelCtl(c *compound, a *backchannelArgs, _ *none) nfsv4.Status {
	return c.slot.Session().BackchannelCtl(a.program, a.sec)
}
