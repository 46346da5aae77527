package nfs3

import (
	"math"

	"capstan/export"
	"capstan/server/xdr"
)

// mayDo checks that target i is a regular file the caller may read or write:
// by one of the rights in want, or as its owner. A client checks at open and
// expects the descriptor to go on working, so the owner passes whatever the
// mode says now, and one who may execute may read (RFC 1813 section 4.4).
func (c *call) mayDo(i int, want export.Access) Status {
	t := &c.target[i]
	got, a, err := t.volume().Access(c.ctx, t.rights.Cred, t.node.Object, want)
	switch {
	case err != nil:
		return c.fail(err)
	case a.Type != export.TypeRegular:
		return ErrInval // section 3.3.6: not ISDIR, which was a habit of NFSv2
	case got == 0 && a.UID != t.rights.Cred.UID:
		return ErrAccess
	}
	if c.denied(t.node, want&export.AccessModify != 0) {
		return ErrAccess
	}
	return OK
}

// denied reports whether a share reservation of another version keeps everybody
// else from reading, or writing, n.
func (c *call) denied(n export.Node, write bool) bool {
	s := c.server.options.Shares
	return s != nil && s.Denied(c.ctx, n.Export.ID, n.Object, write)
}

// lostName is told of an object on target i that a name was taken from: what
// only the server keeps open must not keep its space.
func (c *call) lostName(i int, o export.Object) {
	t := &c.target[i]
	c.server.files.Forget(t.volume(), o)
	if s := c.server.options.Shares; s != nil {
		s.Removed(c.ctx, t.node.Export.ID, o)
	}
}

// withFile calls do with an open file of target i. A cached file that has gone
// stale under the server (its Volume was reconnected) is opened afresh once.
func (c *call) withFile(i int, mode export.OpenMode, do func(export.File) error) error {
	t := &c.target[i]
	for again := true; ; again = false {
		f, release, err := c.server.files.Get(c.ctx, t.volume(), t.node.Object, mode)
		if err == nil {
			err = do(f)
			release()
		}
		if err == nil || !again || export.StatusOf(err) != export.ErrStale {
			return err
		}
		c.server.files.Forget(t.volume(), t.node.Object)
	}
}

// setFilePost records the attributes of target i through its open file.
func (c *call) setFilePost(i int, f export.File) {
	if a, err := f.GetAttr(c.ctx, export.MaskAll); err == nil {
		c.target[i].wcc.setPost(&a)
	}
}

func decodeRead(c *call, d *xdr.Decoder) {
	c.decodeHandle(d, 0)
	c.args.offset = d.Uint64("offset")
	c.args.count = d.Uint32("count")
}

// READ (section 3.3.6). More than rtmax is cut to rtmax.
func (c *call) read() Status {
	if st := c.enter(0); st != OK {
		return st
	}
	if st := c.mayDo(0, export.AccessRead|export.AccessExecute); st != OK {
		return st
	}
	f := c.target[0].volume().Features()
	end := maxFileSize(&f)
	if c.args.offset >= end {
		c.res.eof = true
		return OK
	}
	n := min(uint64(c.args.count), uint64(c.server.options.MaxRead), end-c.args.offset)
	buf, err := c.payload(int(n))
	if err != nil {
		return c.fail(err)
	}
	err = c.withFile(0, export.OpenRead, func(f export.File) error {
		n, eof, err := f.ReadAt(c.ctx, buf.Bytes(), c.args.offset)
		if err != nil {
			return err
		}
		c.res.count, c.res.eof = uint32(n), eof
		c.setFilePost(0, f)
		return nil
	})
	if err != nil {
		buf.Release()
		return c.fail(err)
	}
	c.res.buf = buf
	return OK
}

func (c *call) encodeRead() {
	c.encodePostAttr(0)
	c.reply.Uint32(c.res.count)
	c.reply.Bool(c.res.eof)
	if c.res.buf == nil {
		c.reply.Opaque(nil)
		return
	}
	c.reply.OpaqueRef(c.res.buf.Bytes()[:c.res.count], c.res.buf.Releaser())
	c.res.buf = nil
}

func decodeWrite(c *call, d *xdr.Decoder) {
	c.decodeHandle(d, 0)
	c.args.offset = d.Uint64("offset")
	c.args.count = d.Uint32("count")
	c.args.stable = export.Stability(d.Uint32("stable"))
	if c.args.stable > export.FileSync {
		d.Fail("stable", xdr.ErrValue)
	}
	// The record bounds the data, and nothing is allocated for them.
	c.args.data = d.Opaque("data", d.Remaining())
}

// WRITE (section 3.3.7). More than wtmax is a short write of wtmax bytes. The
// verifier is taken before the data are written: if it changes meanwhile, the
// client finds that out at COMMIT and sends them again.
func (c *call) write() Status {
	if st := c.enterToModify(0); st != OK {
		return st
	}
	if st := c.mayDo(0, export.AccessModify); st != OK {
		return st
	}
	if uint64(c.args.count) > uint64(len(c.args.data)) {
		return ErrInval
	}
	t := &c.target[0]
	data := c.args.data[:min(c.args.count, c.server.options.MaxWrite)]
	c.res.verifier, c.res.committed = t.volume().WriteVerifier(), c.args.stable
	if len(data) == 0 {
		return OK
	}
	f := t.volume().Features()
	if end := maxFileSize(&f); c.args.offset > end || uint64(len(data)) > end-c.args.offset {
		return ErrFBig
	}
	err := c.withFile(0, export.OpenWrite, func(f export.File) error {
		n, committed, err := f.WriteAt(c.ctx, t.rights.Cred, data, c.args.offset, c.args.stable)
		if err == nil && committed < c.args.stable {
			committed, err = c.args.stable, f.Commit(c.ctx, c.args.offset, uint64(n))
		}
		if err != nil {
			return err
		}
		c.res.count, c.res.committed = uint32(n), committed
		c.setFilePost(0, f)
		return nil
	})
	if err != nil {
		return c.fail(err)
	}
	return OK
}

func (c *call) encodeWrite() {
	c.encodeWcc(0)
	c.reply.Uint32(c.res.count)
	c.reply.Uint32(uint32(c.res.committed))
	c.reply.Fixed(c.res.verifier[:])
}

func decodeCommit(c *call, d *xdr.Decoder) {
	c.decodeHandle(d, 0)
	c.args.offset = d.Uint64("offset")
	c.args.count = d.Uint32("count")
}

// COMMIT (section 3.3.21) asks for no permission on the file and works on an
// export that is read-only: it changes nothing, and data that were accepted
// before a change of mode or of configuration must not be lost by it. The
// verifier is taken after the data are safe, so that a failure during the
// COMMIT makes the client send them again.
func (c *call) commit() Status {
	if st := c.enter(0); st != OK {
		return st
	}
	t := &c.target[0]
	a, err := t.volume().GetAttr(c.ctx, t.rights.Cred, t.node.Object, export.MaskAuth)
	if err != nil {
		return c.fail(err)
	}
	if a.Type != export.TypeRegular {
		return ErrInval
	}
	off, count := c.args.offset, uint64(c.args.count)
	if off > math.MaxInt64-count {
		off, count = 0, 0 // the whole file holds whatever was meant
	}
	err = c.withFile(0, export.OpenWrite, func(f export.File) error {
		if err := f.Commit(c.ctx, off, count); err != nil {
			return err
		}
		c.setFilePost(0, f)
		return nil
	})
	if err != nil {
		return c.fail(err)
	}
	c.res.verifier = t.volume().WriteVerifier()
	return OK
}

func (c *call) encodeCommit() {
	c.encodeWcc(0)
	c.reply.Fixed(c.res.verifier[:])
}

// maxFileSize is the largest size of a file on a Volume in bytes.
func maxFileSize(f *export.Features) uint64 {
	if f.MaxFileSize > 0 && f.MaxFileSize < math.MaxInt64 {
		return f.MaxFileSize
	}
	return math.MaxInt64
}
