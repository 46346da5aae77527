package nfs4

import (
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/xdr"
)

func clientOps() []operation {
	return []operation{
		op(nfsv4.OpExchangeID, 1, 2, modifies|standsAlone|idempotent, codec[exchangeIDArgs, exchangeIDRes]{
			decode: (*exchangeIDArgs).decode, limit: limitExchangeID, run: opExchangeID, encode: (*exchangeIDRes).encode}),
		op(nfsv4.OpDestroyClientID, 1, 2, modifies|standsAlone, codec[clientIDArgs, none]{
			decode: (*clientIDArgs).decode, run: opDestroyClientID}),
		op(nfsv4.OpReclaimComplete, 1, 2, modifies, codec[reclaimCompleteArgs, none]{
			decode: (*reclaimCompleteArgs).decode, run: opReclaimComplete}),
	}
}

// Bounds of what EXCHANGE_ID carries that nobody needs.
const (
	maxImplText = 1024
	maxOIDs     = 64
	maxOID      = 256
)

// exchangeIDArgs is EXCHANGE_ID4args (RFC 8881 section 18.35.1).
type exchangeIDArgs struct {
	verifier nfsv4.Verifier
	owner    []byte
	flags    uint32
	protect  uint32
	impl     []byte // nii_name
}

func (a *exchangeIDArgs) decode(d *xdr.Decoder) {
	a.verifier = nfsv4.DecodeVerifier(d)
	a.owner = d.Opaque("co_ownerid", nfsv4.OpaqueLimit)
	a.flags = d.Uint32("eia_flags")
	a.protect = d.Uint32("spa_how")
	switch a.protect {
	case nfsv4.ProtectNone:
	case nfsv4.ProtectMachCred:
		decodeProtectOps(d)
	case nfsv4.ProtectSSV:
		decodeProtectOps(d)
		for range 2 { // hash and encryption algorithms
			for range d.Count("sec_oid4", maxOIDs, 4) {
				d.Opaque("sec_oid4", maxOID)
			}
		}
		d.Uint32("ssp_window")
		d.Uint32("ssp_num_gss_handles")
	default:
		d.Fail("spa_how", xdr.ErrValue)
	}
	if d.Count("eia_client_impl_id", 1, 20) == 1 {
		d.Opaque("nii_domain", maxImplText)
		a.impl = d.Opaque("nii_name", maxImplText)
		decodeTime(d)
	}
}

// decodeProtectOps reads state_protect_ops4.
func decodeProtectOps(d *xdr.Decoder) {
	nfsv4.DecodeBitmap(d)
	nfsv4.DecodeBitmap(d)
}

// exchangeIDRes is EXCHANGE_ID4resok.
type exchangeIDRes struct {
	state.ExchangeIDResult
	opts *Options
}

func limitExchangeID(c *compound, _ *exchangeIDArgs) int {
	o := &c.srv.opts
	return 64 + len(o.ServerOwner) + len(o.ServerScope) + len(o.Implementation.Domain) + len(o.Implementation.Name) + 4*3
}

func opExchangeID(c *compound, a *exchangeIDArgs, r *exchangeIDRes) nfsv4.Status {
	args := state.ExchangeIDArgs{
		Verifier: a.verifier, Owner: a.owner, Flags: a.flags, Protect: a.protect,
		Principal: principalOf(c.call), Impl: string(a.impl), Minor: c.minor,
	}
	if c.call.Conn != nil {
		args.Addr = c.call.Conn.Remote()
	}
	res, st := c.srv.opts.State.ExchangeID(&args)
	r.ExchangeIDResult, r.opts = res, &c.srv.opts
	return st
}

func (r *exchangeIDRes) encode(_ nfsv4.Status, e *xdr.Encoder) {
	e.Uint64(uint64(r.ClientID))
	e.Uint32(r.Sequence)
	e.Uint32(r.Flags)
	e.Uint32(nfsv4.ProtectNone)
	e.Uint64(0) // so_minor_id
	e.String(r.opts.ServerOwner)
	e.String(r.opts.ServerScope)
	e.Uint32(1)
	impl := &r.opts.Implementation
	e.String(impl.Domain)
	e.String(impl.Name)
	if impl.Date.IsZero() {
		e.Int64(0)
		e.Uint32(0)
		return
	}
	e.Int64(impl.Date.Unix())
	e.Uint32(uint32(impl.Date.Nanosecond()))
}

type clientIDArgs struct{ id nfsv4.ClientID }

func (a *clientIDArgs) decode(d *xdr.Decoder) { a.id = nfsv4.ClientID(d.Uint64("clientid4")) }

func opDestroyClientID(c *compound, a *clientIDArgs, _ *none) nfsv4.Status {
	return c.srv.opts.State.DestroyClientID(a.id)
}

type reclaimCompleteArgs struct{ oneFS bool }

func (a *reclaimCompleteArgs) decode(d *xdr.Decoder) { a.oneFS = d.Bool("rca_one_fs") }

func opReclaimComplete(c *compound, a *reclaimCompleteArgs, _ *none) nfsv4.Status {
	if a.oneFS && !c.cur.set {
		return nfsv4.ErrNoFileHandle
	}
	return c.client().ReclaimComplete(a.oneFS)
}

// client is the client of the session the COMPOUND runs in.
func (c *compound) client() *state.Client { return c.slot.Client() }
