package osd

import (
	"capstan/cephfs/denc"
)

// decodeOp reads what encodeOp wrote.
func decodeOp(front []byte) (opHeader, []subop, []int, error) {
	d := denc.NewDecoder(front)
	var h opHeader
	h.pg = decodePG(d, "pgid")
	h.hash = d.Uint32("hash")
	h.epoch = d.Uint32("epoch")
	h.flags = d.Uint32("flags")
	s := d.Struct("reqid", 2)
	d.Name("name")
	d.Uint64("tid")
	d.Int32("inc")
	d.End(s)
	d.Skip("trace", 24)
	d.Uint32("client_inc")
	h.mtime = d.Time("mtime")
	h.object, _ = decodeLocator(d, "locator")
	h.object.Name = d.String("oid")
	n := int(d.Uint16("ops"))
	if n*subopLen > d.Remaining() {
		d.Fail("ops", denc.ErrTooLong)
		n = 0
	}
	ops, lens := make([]subop, n), make([]int, n)
	for i := range ops {
		ops[i].code = opcode(d.Uint16("op"))
		ops[i].flags = d.Uint32("op flags")
		copy(ops[i].body[:], d.Raw("op body", len(ops[i].body)))
		lens[i] = int(d.Uint32("op length"))
	}
	h.snapID = d.Uint64("snapid")
	h.snap.Seq = d.Uint64("snap_seq")
	h.snap.Snaps = make([]uint64, d.Count("snaps", 8))
	for i := range h.snap.Snaps {
		h.snap.Snaps[i] = d.Uint64("snap")
	}
	h.try = d.Int32("attempt")
	d.Uint64("features")
	return h, ops, lens, d.Finish()
}
