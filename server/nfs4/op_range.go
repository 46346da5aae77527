package nfs4

import (
	"context"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/xdr"
)

// rangeOps are the operations of RFC 7862 on ranges of a file.
func rangeOps() []operation {
	return []operation{
		op(nfsv4.OpSeek, 2, 2, needsFH, codec[seekArgs, seekRes]{
			decode: (*seekArgs).decode, run: opSeek, encode: (*seekRes).encode}),
		op(nfsv4.OpAllocate, 2, 2, needsFH|modifies|writesFS|idempotent, codec[rangeArgs, none]{
			decode: (*rangeArgs).decode, run: opAllocate}),
		op(nfsv4.OpDeallocate, 2, 2, needsFH|modifies|writesFS|idempotent, codec[rangeArgs, none]{
			decode: (*rangeArgs).decode, run: opDeallocate}),
		op(nfsv4.OpIOAdvise, 2, 2, needsFH, codec[ioAdviseArgs, none]{
			decode: (*ioAdviseArgs).decode, run: opIOAdvise}),
	}
}

// seekArgs is SEEK4args (RFC 7862 section 15.11.1).
type seekArgs struct {
	id     nfsv4.StateID
	offset uint64
	what   uint32
}

func (a *seekArgs) decode(d *xdr.Decoder) {
	a.id = nfsv4.DecodeStateID(d)
	a.offset = d.Uint64("sa_offset")
	a.what = d.Uint32("sa_what")
}

type seekRes struct {
	eof    bool
	offset uint64
}

func opSeek(c *compound, a *seekArgs, r *seekRes) nfsv4.Status {
	if a.what > uint32(export.SeekHole) {
		return nfsv4.ErrUnionNotSupp
	}
	if !c.cur.vol().Features().Seek {
		return nfsv4.ErrNotSupp
	}
	f, st := c.open(a.id, state.AccessRead)
	if st != nfsv4.OK {
		return st
	}
	defer f.done()
	if a.offset > maxOffset {
		return nfsv4.ErrNXIO
	}
	pos, eof, err := f.Seek(c.ctx, a.offset, export.SeekWhat(a.what))
	r.offset, r.eof = pos, eof
	return c.statusOf(err)
}

func (r *seekRes) encode(_ nfsv4.Status, e *xdr.Encoder) {
	e.Bool(r.eof)
	e.Uint64(r.offset)
}

// rangeArgs is ALLOCATE4args and DEALLOCATE4args (RFC 7862 sections 15.1.1 and
// 15.4.1).
type rangeArgs struct {
	id             nfsv4.StateID
	offset, length uint64
}

func (a *rangeArgs) decode(d *xdr.Decoder) {
	a.id = nfsv4.DecodeStateID(d)
	a.offset = d.Uint64("offset")
	a.length = d.Uint64("length")
}

func (a *rangeArgs) check() nfsv4.Status {
	switch {
	case a.length == 0:
		return nfsv4.ErrInval
	case a.offset > maxOffset || a.length > maxOffset-a.offset:
		return nfsv4.ErrFBig
	}
	return nfsv4.OK
}

func opAllocate(c *compound, a *rangeArgs, _ *none) nfsv4.Status {
	return c.changeRange(a, c.cur.vol().Features().Allocate, export.File.Allocate)
}

func opDeallocate(c *compound, a *rangeArgs, _ *none) nfsv4.Status {
	return c.changeRange(a, c.cur.vol().Features().Deallocate, export.File.Deallocate)
}

// changeRange does to the range what change does, if the Volume offers it.
func (c *compound) changeRange(a *rangeArgs, offered bool, change func(f export.File, ctx context.Context, off, n uint64) error) nfsv4.Status {
	if !offered {
		return nfsv4.ErrNotSupp
	}
	if st := a.check(); st != nfsv4.OK {
		return st
	}
	f, st := c.open(a.id, state.AccessWrite)
	if st != nfsv4.OK {
		return st
	}
	defer f.done()
	if st := c.dropSetID(f); st != nfsv4.OK {
		return st
	}
	return c.statusOf(change(f, c.ctx, a.offset, a.length))
}

// dropSetID takes the set-id bits off a file that the caller is about to change
// otherwise than by WRITE, for which the Volume does it.
func (c *compound) dropSetID(f export.File) nfsv4.Status {
	cred := c.cur.rights.Cred
	if cred.Privileged() {
		return nfsv4.OK
	}
	a, err := f.GetAttr(c.ctx, export.MaskAuth)
	if err != nil {
		return c.statusOf(err)
	}
	mode := export.ModeAfterWrite(cred, &a)
	if mode == a.Mode {
		return nfsv4.OK
	}
	_, err = c.cur.vol().SetAttr(c.ctx, export.System(), c.cur.node.Object, nil, &export.SetAttr{Set: export.SetMode, Mode: mode})
	return c.statusOf(err)
}

// ioAdviseArgs is IO_ADVISE4args (RFC 7862 section 15.5.1).
type ioAdviseArgs struct{ rangeArgs }

func (a *ioAdviseArgs) decode(d *xdr.Decoder) {
	a.rangeArgs.decode(d)
	nfsv4.DecodeBitmap(d)
}

// opIOAdvise follows no hint, and says so by an empty bitmap.
func opIOAdvise(c *compound, a *ioAdviseArgs, _ *none) nfsv4.Status {
	// Any open will do, and no share reservation keeps hints away.
	f, st := c.open(a.id, 0)
	if st != nfsv4.OK {
		return st
	}
	f.done()
	nfsv4.Bitmap{}.Encode(c.e)
	return nfsv4.OK
}
