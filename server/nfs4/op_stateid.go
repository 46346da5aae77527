package nfs4

import (
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

func stateOps() []operation {
	return []operation{
		op(nfsv4.OpTestStateID, 1, 2, 0, codec[testStateIDArgs, testStateIDRes]{
			decode: (*testStateIDArgs).decode, run: opTestStateID, encode: (*testStateIDRes).encode}),
		op(nfsv4.OpFreeStateID, 1, 2, modifies, codec[stateIDArgs, none]{
			decode: (*stateIDArgs).decode, run: opFreeStateID}),
	}
}

// maxTestStateIDs bounds the list of TEST_STATEID below what any request holds.
const maxTestStateIDs = 1 << 17

type testStateIDArgs struct{ ids []nfsv4.StateID }

func (a *testStateIDArgs) decode(d *xdr.Decoder) {
	n := d.Count("ts_stateids", maxTestStateIDs, 16)
	a.ids = make([]nfsv4.StateID, n)
	for i := range a.ids {
		a.ids[i] = nfsv4.DecodeStateID(d)
	}
}

type testStateIDRes struct{ statuses []nfsv4.Status }

func opTestStateID(c *compound, a *testStateIDArgs, r *testStateIDRes) nfsv4.Status {
	r.statuses = make([]nfsv4.Status, len(a.ids))
	c.client().TestStateIDs(a.ids, r.statuses)
	return nfsv4.OK
}

func (r *testStateIDRes) encode(_ nfsv4.Status, e *xdr.Encoder) {
	e.Uint32(uint32(len(r.statuses)))
	for _, s := range r.statuses {
		e.Uint32(uint32(s))
	}
}

type stateIDArgs struct{ id nfsv4.StateID }

func (a *stateIDArgs) decode(d *xdr.Decoder) { a.id = nfsv4.DecodeStateID(d) }

func opFreeStateID(c *compound, a *stateIDArgs, _ *none) nfsv4.Status {
	id, st := c.resolveStateID(a.id, false)
	if st != nfsv4.OK {
		return st
	}
	return c.client().FreeStateID(c.ctx, id)
}
