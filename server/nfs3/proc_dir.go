package nfs3

import (
	"math"

	"capstan/export"
	"capstan/server/xdr"
)

// The cookies of the entries that no Volume lists. Cookies of a Volume begin
// at 3, so what a client sends back says at once where to go on. They are good
// for ever, and that is why the cookie verifier is always 0 (RFC 1813 section
// 3.3.16 provides for that).
const (
	cookieSelf   = 1
	cookieParent = 2
)

// Sizes in bytes of parts of READDIR3resok and READDIRPLUS3resok.
const (
	sizeOfDirHead = sizeOfPostAttr + 8 // attributes, cookieverf
	sizeOfDirTail = 4 + 4              // end of the list, eof
	sizeOfEntry   = 4 + 8 + 4 + 8      // follows, fileid, length of the name, cookie; without the name
)

func decodeReadDir(c *call, d *xdr.Decoder) {
	c.decodeHandle(d, 0)
	c.args.cookie = d.Uint64("cookie")
	c.args.cookieVerf = d.Uint64("cookieverf")
	c.args.maxCount = d.Uint32("count")
}

// READDIR (section 3.3.16).
func (c *call) readDir() Status {
	c.args.dirCount = c.args.maxCount
	return c.list(false)
}

func decodeReadDirPlus(c *call, d *xdr.Decoder) {
	c.decodeHandle(d, 0)
	c.args.cookie = d.Uint64("cookie")
	c.args.cookieVerf = d.Uint64("cookieverf")
	c.args.dirCount = d.Uint32("dircount")
	c.args.maxCount = d.Uint32("maxcount")
}

// READDIRPLUS (section 3.3.17). A client that gives no dircount means that
// maxcount alone counts.
func (c *call) readDirPlus() Status {
	if c.args.dirCount == 0 {
		c.args.dirCount = c.args.maxCount
	}
	return c.list(true)
}

// list encodes the resok of READDIR or READDIRPLUS. The attributes of the
// directory are those before the listing: entries that change meanwhile then
// make the client list again, where attributes taken afterwards would hide
// the change from it.
func (c *call) list(plus bool) Status {
	if st := c.enter(0); st != OK {
		return st
	}
	t := &c.target[0]
	a, err := t.volume().GetAttr(c.ctx, t.rights.Cred, t.node.Object, export.MaskAll)
	if err != nil {
		return c.fail(err)
	}
	t.wcc.setPost(&a)
	switch {
	case a.Type != export.TypeDirectory:
		return ErrNotDir
	case c.args.cookie > math.MaxInt64, c.args.cookie != 0 && c.args.cookieVerf != 0:
		return ErrBadCookie
	case c.args.maxCount < sizeOfDirHead+sizeOfDirTail:
		return ErrTooSmall
	}
	c.encodePostAttr(0)
	c.reply.Uint64(0) // cookieverf
	w := dirWriter{
		c: c, plus: plus, dir: t.node.Export,
		space: int(min(c.args.maxCount, c.server.options.MaxDir)) - sizeOfDirHead - sizeOfDirTail,
		names: int(min(c.args.dirCount, math.MaxInt32)),
	}
	c.reply.Expect(w.space)
	eof, err := w.run(t, &a)
	switch {
	case err != nil && w.listed == 0:
		return c.fail(err)
	case w.full && w.count == 0:
		return ErrTooSmall
	}
	// What was listed before a fault is worth sending: the next call goes on
	// behind it and meets the fault itself.
	c.reply.Bool(false)
	c.reply.Bool(eof && err == nil)
	return OK
}

// dirWriter encodes entries as long as they fit.
type dirWriter struct {
	c     *call
	plus  bool
	dir   *export.Export // of the directory listed
	space int            // bytes left of maxcount
	names int            // bytes left of dircount

	count  int  // entries encoded
	listed int  // those of the Volume
	full   bool // an entry did not fit
}

// run encodes the entries behind the cookie of the call.
func (w *dirWriter) run(t *target, self *export.Attr) (eof bool, err error) {
	c := w.c
	from := c.args.cookie
	if from < cookieParent {
		// "." and ".." ask for the permission that listing asks for.
		got, _, err := t.volume().Access(c.ctx, t.rights.Cred, t.node.Object, export.AccessRead)
		if err != nil {
			return false, err
		}
		if got == 0 {
			return false, export.ErrAccess
		}
		if from < cookieSelf && !w.add(".", cookieSelf, self.FileID, t.node, self) {
			return false, nil
		}
		up, a, err := c.parent(t)
		if err != nil {
			return false, err
		}
		if !w.add("..", cookieParent, a.FileID, up, &a) {
			return false, nil
		}
	}
	if from <= cookieParent {
		from = 0
	}
	var mask export.AttrMask
	if w.plus {
		mask = export.MaskAll
	}
	return c.table.ReadDir(c.ctx, &c.peer, version, t.rights, t.node, from, mask, w.emit)
}

// parent returns what ".." of target t stands for. Listing shows its file id
// to callers who may not search, so it is asked for with the server's own
// rights.
func (c *call) parent(t *target) (export.Node, export.Attr, error) {
	r := export.Rights{Cred: export.System()}
	return c.table.Parent(c.ctx, &c.peer, version, r, t.node, export.MaskAll)
}

// emit takes an entry of the Volume.
func (w *dirWriter) emit(d *export.Dirent, n export.Node) bool {
	id, a := d.Attr.FileID, &d.Attr
	if n.Export != w.dir || d.Err != nil {
		// The root of another export stands here: the entry belongs to this
		// filesystem, what is behind it does not. LOOKUP shows it.
		id, a = w.c.table.MountedOn(n, id), nil
	}
	if !w.add(d.Name, d.Cookie, id, n, a) {
		return false
	}
	w.listed++
	return true
}

// add encodes an entry if it fits; a is nil if its attributes and handle are
// not to be shown. The first entry is encoded whatever dircount says.
func (w *dirWriter) add(name string, cookie, id uint64, n export.Node, a *export.Attr) bool {
	var space [maxHandle]byte
	var fh []byte
	names := sizeOfEntry + (len(name)+3)&^3
	size := names
	if w.plus {
		size += 4 + 4
		if a != nil {
			fh = w.c.table.AppendHandle(space[:0], n)
			size += sizeOfAttr + 4 + (len(fh)+3)&^3
		}
	}
	if size > w.space || names > w.names && w.count > 0 {
		w.full = true
		return false
	}
	w.space, w.names, w.count = w.space-size, w.names-names, w.count+1
	e := w.c.reply
	e.Bool(true)
	e.Uint64(id)
	e.String(name)
	e.Uint64(cookie)
	if !w.plus {
		return true
	}
	e.Bool(a != nil)
	if a != nil {
		encodeAttr(e, a, fsidOf(n.Export))
	}
	e.Bool(a != nil)
	if a != nil {
		e.Opaque(fh)
	}
	return true
}
