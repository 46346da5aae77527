package nfs4

import (
	"math"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

func ioOps() []operation {
	return []operation{
		op(nfsv4.OpRead, 0, 2, needsFH, codec[readArgs, none]{
			decode: (*readArgs).decode, run: opRead}),
		op(nfsv4.OpWrite, 0, 2, needsFH|modifies|writesFS|idempotent, codec[writeArgs, writeRes]{
			decode: (*writeArgs).decode, limit: limitWrite, run: opWrite, encode: (*writeRes).encode}),
		op(nfsv4.OpCommit, 0, 2, needsFH|modifies|idempotent, codec[commitArgs, none]{
			decode: (*commitArgs).decode, limit: limitCommit, run: opCommit}),
	}
}

// openData is a file in use by an operation on its bytes.
type openData struct {
	export.File
	vol     export.Volume // that opened it
	use     state.FileUse
	release func() // of a file that was not open by the stateid
}

func (o *openData) done() {
	if o.release != nil {
		o.release()
	}
	o.use.Release()
}

// open finds the file that a stateid stands for. With a special stateid there
// is none, and the caller's permission is asked at every call; the owner of a
// file has it, since what the mode was when the client opened is not known
// (RFC 8881 section 8.2.3, RFC 1813 section 4.4).
func (c *compound) open(id nfsv4.StateID, want state.Access) (o openData, st nfsv4.Status) {
	if id, st = c.resolveStateID(id, false); st != nfsv4.OK {
		return o, st
	}
	if o.use, st = c.client().Use(c.ctx, id, c.cur.key(), want); st != nfsv4.OK {
		return o, st
	}
	if o.File, o.vol = o.use.File, o.use.Volume; o.File != nil {
		return o, nfsv4.OK
	}
	o.vol = c.cur.vol()
	o.File, o.release, st = c.openStateless(want)
	if st != nfsv4.OK {
		o.use.Release()
	}
	return o, st
}

func (c *compound) openStateless(want state.Access) (export.File, func(), nfsv4.Status) {
	h := &c.cur
	rights, mode := export.AccessRead|export.AccessExecute, export.OpenRead
	if want == state.AccessWrite {
		rights, mode = export.AccessModify, export.OpenWrite
	}
	got, attr, err := h.vol().Access(c.ctx, h.rights.Cred, h.node.Object, rights)
	if err != nil {
		return nil, nil, c.statusOf(err)
	}
	if st := c.fileOnly(attr.Type); st != nfsv4.OK {
		return nil, nil, st
	}
	if got == 0 && attr.UID != h.rights.Cred.UID {
		return nil, nil, nfsv4.ErrAccess
	}
	f, release, err := c.srv.opts.OpenFiles.Get(c.ctx, h.vol(), h.node.Object, mode)
	return f, release, c.statusOf(err)
}

// maxOffset is the end of the largest file there can be: offsets are signed in
// every filesystem below.
const maxOffset = math.MaxInt64

// readArgs is READ4args (RFC 8881 section 18.22.1).
type readArgs struct {
	id     nfsv4.StateID
	offset uint64
	count  uint32
}

func (a *readArgs) decode(d *xdr.Decoder) {
	a.id = nfsv4.DecodeStateID(d)
	a.offset = d.Uint64("offset")
	a.count = d.Uint32("count")
}

// sizeofRead is READ4resok without the data and with the most padding.
const sizeofRead = 4 + 4 + 3

// opRead reads into a buffer that leaves with the reply. A count above what the
// server or the session has room for is cut: the client asks for the rest.
func opRead(c *compound, a *readArgs, _ *none) nfsv4.Status {
	if c.room() < sizeofRead {
		return c.tooBig
	}
	n := min(int(a.count), c.srv.opts.MaxIO, c.room()-sizeofRead)
	n = int(min(uint64(n), maxOffset-min(a.offset, maxOffset)))
	// Getting the buffer can wait for other replies to leave; nothing is held
	// meanwhile but the slot.
	buf, err := c.payload(n)
	if err != nil {
		return nfsv4.ErrDelay // the connection is gone
	}
	got, eof, st := c.readInto(buf.Bytes(), a)
	if st != nfsv4.OK {
		buf.Release()
		return st
	}
	c.e.Bool(eof)
	if got == 0 {
		buf.Release()
		c.e.Opaque(nil)
		return nfsv4.OK
	}
	c.e.OpaqueRef(buf.Bytes()[:got], buf.Releaser())
	return nfsv4.OK
}

func (c *compound) readInto(p []byte, a *readArgs) (n int, eof bool, st nfsv4.Status) {
	f, st := c.open(a.id, state.AccessRead)
	if st != nfsv4.OK {
		return 0, false, st
	}
	defer f.done()
	if a.offset >= maxOffset {
		return 0, true, nfsv4.OK
	}
	n, eof, err := f.ReadAt(c.ctx, p, a.offset)
	return n, eof, c.statusOf(err)
}

// payload returns a buffer for data of the reply.
func (c *compound) payload(n int) (*rpc.Buffer, error) {
	if c.call.Conn == nil {
		return rpc.GetBuffer(n), nil
	}
	return c.call.Payload(n)
}

// writeArgs is WRITE4args (RFC 8881 section 18.32.1).
type writeArgs struct {
	id     nfsv4.StateID
	offset uint64
	stable export.Stability
	data   []byte // aliases the request
}

func (a *writeArgs) decode(d *xdr.Decoder) {
	a.id = nfsv4.DecodeStateID(d)
	a.offset = d.Uint64("offset")
	a.stable = export.Stability(d.Uint32("stable"))
	if a.stable > export.FileSync {
		d.Fail("stable", xdr.ErrValue)
	}
	a.data = d.Opaque("data", d.Remaining())
}

// writeRes is WRITE4resok.
type writeRes struct {
	count     uint32
	committed export.Stability
	verifier  nfsv4.Verifier
}

func limitWrite(*compound, *writeArgs) int { return 16 }

func opWrite(c *compound, a *writeArgs, r *writeRes) nfsv4.Status {
	if a.offset > maxOffset || uint64(len(a.data)) > maxOffset-a.offset {
		return nfsv4.ErrFBig
	}
	f, st := c.open(a.id, state.AccessWrite)
	if st != nfsv4.OK {
		return st
	}
	defer f.done()
	// Taken before the write: if unstable data are lost from now on, this one
	// is no longer what COMMIT answers. Nor is that of another Volume, through
	// which the file was opened before a reload: COMMIT does not reach its data.
	r.verifier = f.vol.WriteVerifier()
	r.committed = a.stable
	data := a.data[:min(len(a.data), c.srv.opts.MaxIO)]
	if len(data) == 0 {
		return nfsv4.OK // nothing to write, and nothing that changes
	}
	n, committed, err := f.WriteAt(c.ctx, c.cur.rights.Cred, data, a.offset, a.stable)
	// What was written before a failure counts, unless it had to be stable; the
	// client meets the failure when it writes the rest.
	if err != nil && (n == 0 || a.stable != export.Unstable) {
		return c.statusOf(err)
	}
	r.count, r.committed = uint32(n), max(committed, a.stable)
	return nfsv4.OK
}

func (r *writeRes) encode(_ nfsv4.Status, e *xdr.Encoder) {
	e.Uint32(r.count)
	e.Uint32(uint32(r.committed))
	e.Fixed(r.verifier[:])
}

// commitArgs is COMMIT4args (RFC 8881 section 18.3.1).
type commitArgs struct {
	offset uint64
	count  uint32
}

func (a *commitArgs) decode(d *xdr.Decoder) {
	a.offset = d.Uint64("offset")
	a.count = d.Uint32("count")
}

func limitCommit(*compound, *commitArgs) int { return nfsv4.VerifierSize }

func opCommit(c *compound, a *commitArgs, _ *none) nfsv4.Status {
	h := &c.cur
	// Whoever may name the file may have its data made safe.
	f, release, err := c.srv.opts.OpenFiles.Get(c.ctx, h.vol(), h.node.Object, export.OpenWrite)
	if err != nil {
		return c.noFile(err)
	}
	defer release()
	if err := f.Commit(c.ctx, a.offset, uint64(a.count)); err != nil {
		return c.statusOf(err)
	}
	// Taken behind the commit: data that were lost meanwhile must not look safe.
	v := h.vol().WriteVerifier()
	c.e.Fixed(v[:])
	return nfsv4.OK
}
