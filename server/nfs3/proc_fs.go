package nfs3

import "capstan/export"

// FSSTAT (RFC 1813 section 3.3.18): the space as seen from the object, so that
// a quota above it counts.
func (c *call) fsStat() Status {
	if st := c.enter(0); st != OK {
		return st
	}
	t := &c.target[0]
	s, err := t.volume().StatFS(c.ctx, t.node.Object)
	if err != nil {
		return c.fail(err)
	}
	c.res.space = s
	return OK
}

func (c *call) encodeFSStat() {
	s := &c.res.space
	c.encodePostAttr(0)
	c.reply.Uint64(s.TotalBytes)
	c.reply.Uint64(s.FreeBytes)
	c.reply.Uint64(s.AvailBytes)
	c.reply.Uint64(s.TotalFiles)
	c.reply.Uint64(s.FreeFiles)
	c.reply.Uint64(s.AvailFiles)
	c.reply.Uint32(0) // invarsec: may change at any time
}

// properties of FSINFO (section 3.3.19).
const (
	fsfLink        = 0x01
	fsfSymlink     = 0x02
	fsfHomogeneous = 0x08
	fsfCanSetTime  = 0x10
)

// sizeMultiple is rtmult and wtmult: what a client should make its transfers a
// multiple of.
const sizeMultiple = 4096

// existing enters target 0 and makes sure that the object is still there, for
// calls that ask for nothing that the Volume would look it up for.
func (c *call) existing() Status {
	if st := c.enter(0); st != OK {
		return st
	}
	t := &c.target[0]
	a, err := t.volume().GetAttr(c.ctx, t.rights.Cred, t.node.Object, export.MaskAll)
	if err != nil {
		return c.fail(err)
	}
	t.wcc.setPost(&a)
	return OK
}

// FSINFO (section 3.3.19).
func (c *call) fsInfo() Status { return c.existing() }

func (c *call) encodeFSInfo() {
	f := c.target[0].volume().Features()
	o := &c.server.options
	c.encodePostAttr(0)
	c.reply.Uint32(o.MaxRead) // rtmax, rtpref, rtmult
	c.reply.Uint32(o.MaxRead)
	c.reply.Uint32(sizeMultiple)
	c.reply.Uint32(o.MaxWrite) // wtmax, wtpref, wtmult
	c.reply.Uint32(o.MaxWrite)
	c.reply.Uint32(sizeMultiple)
	c.reply.Uint32(o.MaxDir) // dtpref
	c.reply.Uint64(maxFileSize(&f))
	delta := f.TimeDelta
	if delta == (export.Timespec{}) {
		delta.Nsec = 1
	}
	encodeTime(c.reply, delta)
	properties := uint32(fsfHomogeneous)
	if f.HardLinks {
		properties |= fsfLink
	}
	if f.Symlinks {
		properties |= fsfSymlink
	}
	if f.SetTime {
		properties |= fsfCanSetTime
	}
	c.reply.Uint32(properties)
}

// PATHCONF (section 3.3.20).
func (c *call) pathConf() Status { return c.existing() }

func (c *call) encodePathConf() {
	f := c.target[0].volume().Features()
	c.encodePostAttr(0)
	c.reply.Uint32(max(f.MaxLink, 1))
	c.reply.Uint32(uint32(maxName(&f)))
	c.reply.Bool(true) // no_trunc
	c.reply.Bool(true) // chown_restricted
	c.reply.Bool(f.CaseFold)
	c.reply.Bool(true) // case_preserving
}
