package nfs4

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

func dirOps() []operation {
	return []operation{
		op(nfsv4.OpReadDir, 0, 2, needsFH, codec[readDirArgs, none]{
			decode: (*readDirArgs).decode, run: opReadDir}),
	}
}

// readDirArgs is READDIR4args (RFC 8881 section 18.23.1).
type readDirArgs struct {
	cookie   uint64
	verifier nfsv4.Verifier
	dirCount uint32
	maxCount uint32
	want     nfsv4.Bitmap
}

func (a *readDirArgs) decode(d *xdr.Decoder) {
	a.cookie = d.Uint64("cookie")
	a.verifier = nfsv4.DecodeVerifier(d)
	a.dirCount = d.Uint32("dircount")
	a.maxCount = d.Uint32("maxcount")
	a.want, _ = nfsv4.DecodeBitmap(d)
}

const (
	// sizeofDirEnd is what ends a list of entries: no entry follows, and eof.
	sizeofDirEnd = 8
	// sizeofDirHead is the cookie verifier.
	sizeofDirHead = nfsv4.VerifierSize
	// maxCookie is the largest cookie that clients can hold as a signed number.
	maxCookie = 1<<63 - 1
)

// opReadDir lists a directory. Cookies of a Volume are good for ever, so the
// verifier is always zero.
func opReadDir(c *compound, a *readDirArgs, _ *none) nfsv4.Status {
	if st := checkReadable(c.minor, a.want); st != nfsv4.OK {
		return st
	}
	switch {
	case a.cookie == 1 || a.cookie == 2 || a.cookie > maxCookie:
		return nfsv4.ErrBadCookie // reserved (RFC 8881 section 18.23.3), or none of ours
	case a.verifier != nfsv4.Verifier{}:
		if a.cookie == 0 {
			return nfsv4.ErrBadCookie
		}
		return nfsv4.ErrNotSame
	}
	l := listing{c: c, want: a.want, end: c.e.Len() + min(int(a.maxCount), c.room()) - sizeofDirEnd, names: int(a.dirCount)}
	if l.end < c.e.Len()+sizeofDirHead {
		return c.tooSmall(a)
	}
	c.e.Uint64(0)
	source := sourcesOf(a.want)
	if source&fromStatFS != 0 {
		s, err := c.cur.vol().StatFS(c.ctx, c.cur.node.Object)
		if err != nil {
			return c.statusOf(err)
		}
		c.view.statfs = s
	}
	c.view.c, c.view.features, l.source = c, c.cur.vol().Features(), source
	l.features, l.statfs = c.view.features, c.view.statfs

	c.e.Expect(l.end - c.e.Len())
	eof, err := c.table.ReadDir(c.ctx, &c.peer, c.version(), c.cur.rights, c.cur.node, a.cookie,
		export.AttrMask(source&maskOfSource), l.emit)
	switch {
	case l.failed != nfsv4.OK:
		return l.failed
	case err != nil:
		return c.dirStatus(err)
	case !eof && l.count == 0:
		return c.tooSmall(a)
	}
	c.e.Bool(false)
	c.e.Bool(eof)
	return nfsv4.OK
}

// tooSmall says that not one entry fits: what the client allowed for is too
// small, or what the session left is.
func (c *compound) tooSmall(a *readDirArgs) nfsv4.Status {
	if int(a.maxCount) > c.room() {
		return c.tooBig
	}
	return nfsv4.ErrTooSmall
}

// listing is a READDIR reply being filled.
type listing struct {
	c      *compound
	want   nfsv4.Bitmap
	source attrSource
	end    int // c.e.Len() that the entries must stay below
	names  int // bytes of names and cookies that are still wanted (dircount)
	count  int // entries so far
	failed nfsv4.Status

	// What the listed directory's own Volume said, while entries lead to others.
	features export.Features
	statfs   export.StatFS
	crossed  bool // the view holds what another Volume said
}

// emit appends an entry, if it still fits. The next page begins behind the
// last entry for which emit returned true.
func (l *listing) emit(ent *export.Dirent, node export.Node) bool {
	// dircount is a hint about names and cookies; it never keeps out the first
	// entry. 0 is no hint.
	size := 8 + 4 + (len(ent.Name)+3)&^3
	if l.names > 0 {
		if size > l.names && l.count > 0 {
			return false
		}
		l.names = max(l.names-size, 1)
	}
	e := l.c.e
	start := e.Mark()
	e.Bool(true)
	e.Uint64(ent.Cookie)
	e.String(ent.Name)
	l.encodeAttrs(ent, node)
	if l.failed != nfsv4.OK || e.Len() > l.end {
		e.TruncateTo(start)
		return false
	}
	l.count++
	return true
}

func (l *listing) encodeAttrs(ent *export.Dirent, node export.Node) {
	v := &l.c.view
	v.node, v.attr, v.failed = node, ent.Attr, nfsv4.OK
	err := ent.Err
	switch {
	case node.Export != l.c.cur.node.Export:
		l.crossed = true
		if err == nil {
			err = l.enter(node)
		}
	case l.crossed:
		v.features, v.statfs, l.crossed = l.features, l.statfs, false
	}
	if err == nil {
		v.encode(l.c.e, l.want)
		return
	}
	// Without the attributes themselves the entry says what it lacks them for,
	// if the client wants to know; else the listing fails (RFC 8881 section
	// 18.23.3).
	v.failed = l.c.statusOf(err)
	if !l.want.Has(nfsv4.AttrRdAttrError) {
		l.failed = v.failed
		return
	}
	v.encode(l.c.e, l.want.And(nfsv4.BitmapOf(nfsv4.AttrRdAttrError, nfsv4.AttrMountedOnFileID)))
}

// enter fetches what the attributes of the root of another export need beyond
// the entry's own.
func (l *listing) enter(node export.Node) error {
	v := &l.c.view
	v.features = node.Export.Volume.Features()
	if l.source&fromStatFS == 0 {
		return nil
	}
	s, err := node.Export.Volume.StatFS(l.c.ctx, node.Object)
	v.statfs = s
	return err
}
