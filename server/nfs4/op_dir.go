package nfs4

import (
	"context"
	"slices"
	"time"

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
	c.view.c, c.view.names, c.view.features, l.source = c, &l.probe, c.cur.vol().Features(), source
	l.features, l.statfs = c.view.features, c.view.statfs

	c.e.Expect(l.end - c.e.Len())
	l.cookie = a.cookie
	eof, err := l.read()
	for err == nil && l.failed == nfsv4.OK && len(l.unnamed) > 0 {
		l.askNames()
		eof, err = l.read()
	}
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
	end    int    // c.e.Len() that the entries must stay below
	names  int    // bytes of names and cookies that are still wanted (dircount)
	count  int    // entries so far
	cookie uint64 // of the last of them
	failed nfsv4.Status

	probe   nameProbe
	unnamed []owners // of entries whose names have to be waited for
	asked   []owners // those of the round before: what is known of them is sent
	ahead   int      // entries looked at behind the first of unnamed

	// What the listed directory's own Volume said, while entries lead to others.
	features export.Features
	statfs   export.StatFS
	crossed  bool // the view holds what another Volume said
}

// Bounds of what is asked of the user database together. It is little beside
// what runs at a time there, so that no look-up spends its time limit waiting
// for another.
const (
	maxUnnamed = 8
	maxAhead   = 32 // entries looked at for more of them
)

// owners are the user and the group of an entry.
type owners struct{ uid, gid uint32 }

// nameProbe is a context for look-ups of names that ends at once, and notices
// when one had to be waited for. The look-up itself goes on.
type nameProbe struct{ waited bool }

// ended is a channel that is closed.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (*nameProbe) Deadline() (t time.Time, ok bool) { return t, false }
func (*nameProbe) Err() error                       { return context.Canceled }
func (*nameProbe) Value(any) any                    { return nil }
func (p *nameProbe) Done() <-chan struct{} {
	p.waited = true
	return ended
}

// read lists the directory from where the page ends. The Volume holds locks
// meanwhile, so the user database is not waited for: an entry whose owner has
// a name that is not known yet ends the listing, and is met again by the next
// read, behind askNames.
func (l *listing) read() (eof bool, err error) {
	c := l.c
	return c.table.ReadDir(c.ctx, &c.peer, c.version(), c.cur.rights, c.cur.node, l.cookie,
		export.AttrMask(l.source&maskOfSource), l.emit)
}

// askNames waits for the names that read could not.
func (l *listing) askNames() {
	c, id := l.c, l.c.table.Identity()
	for _, o := range l.unnamed {
		if l.want.Has(nfsv4.AttrOwner) {
			c.scratch = id.AppendOwner(c.ctx, c.scratch[:0], o.uid)
		}
		if l.want.Has(nfsv4.AttrOwnerGroup) {
			c.scratch = id.AppendGroup(c.ctx, c.scratch[:0], o.gid)
		}
	}
	l.asked, l.unnamed, l.ahead = l.unnamed, l.asked[:0], 0
}

// lookAhead begins the look-ups for an entry behind the first one that has to
// wait, so that they run together. It reports whether there is to be another.
func (l *listing) lookAhead(o owners) bool {
	c, id := l.c, l.c.table.Identity()
	l.probe.waited = false
	if l.want.Has(nfsv4.AttrOwner) {
		c.scratch = id.AppendOwner(&l.probe, c.scratch[:0], o.uid)
	}
	if l.want.Has(nfsv4.AttrOwnerGroup) {
		c.scratch = id.AppendGroup(&l.probe, c.scratch[:0], o.gid)
	}
	if l.probe.waited && !slices.Contains(l.unnamed, o) {
		l.unnamed = append(l.unnamed, o)
	}
	l.ahead++
	return len(l.unnamed) < maxUnnamed && l.ahead < maxAhead
}

// emit appends an entry, if it still fits. The next page begins behind the
// last entry that was appended.
func (l *listing) emit(ent *export.Dirent, node export.Node) bool {
	// dircount is a hint about names and cookies; it never keeps out the first
	// entry. 0 is no hint.
	size := 8 + 4 + (len(ent.Name)+3)&^3
	owner := owners{ent.Attr.UID, ent.Attr.GID}
	switch {
	case len(l.unnamed) > 0:
		return l.lookAhead(owner)
	case l.names > 0 && size > l.names && l.count > 0:
		return false
	}
	e := l.c.e
	start := e.Mark()
	e.Bool(true)
	e.Uint64(ent.Cookie)
	e.String(ent.Name)
	l.probe.waited = false
	l.encodeAttrs(ent, node)
	if l.failed == nfsv4.OK && l.probe.waited && !slices.Contains(l.asked, owner) {
		e.TruncateTo(start)
		l.unnamed = append(l.unnamed, owner)
		return true
	}
	if l.failed != nfsv4.OK || e.Len() > l.end {
		e.TruncateTo(start)
		return false
	}
	if l.names > 0 {
		l.names = max(l.names-size, 1)
	}
	l.count, l.cookie = l.count+1, ent.Cookie
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
