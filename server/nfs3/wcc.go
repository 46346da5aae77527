package nfs3

import (
	"capstan/export"
	"capstan/server/xdr"
)

// wcc collects weak cache consistency data of one object: its state before
// the call, sent only if nothing else can have happened between the two, and
// its attributes after it (wcc_data, RFC 1813 section 2.6). Without a state
// before, a client drops what it has cached of the object, which is right
// when the change was not atomic.
type wcc struct {
	pre     export.PreAttr
	post    export.Attr
	hasPre  bool
	hasPost bool
}

// change records what a call did.
func (w *wcc) change(ch *export.Change) {
	w.pre, w.hasPre = ch.Pre, ch.Atomic
	w.setPost(&ch.Post)
}

// setPost records attributes that were taken after the call; those of a
// Volume that could not tell have no type.
func (w *wcc) setPost(a *export.Attr) {
	w.post, w.hasPost = *a, a.Type != 0
}

func encodePreAttr(e *xdr.Encoder, w *wcc) {
	e.Bool(w.hasPre)
	if w.hasPre {
		e.Uint64(w.pre.Size)
		encodeTime(e, w.pre.Mtime)
		encodeTime(e, w.pre.Ctime)
	}
}

// encodePostAttr appends the post_op_attr of target i, asking the Volume for
// it if no step of the call has done so: the reply of a failed call carries
// attributes too. A caller that the export does not admit sees none.
func (c *call) encodePostAttr(i int) {
	t := &c.target[i]
	if !t.tried {
		// The call failed before it came to its second handle.
		err := c.err
		c.enter(i)
		c.err = err
	}
	if !t.wcc.hasPost && t.entered {
		if a, err := t.volume().GetAttr(c.ctx, t.rights.Cred, t.node.Object, export.MaskAll); err == nil {
			t.wcc.setPost(&a)
		}
	}
	c.reply.Bool(t.wcc.hasPost)
	if t.wcc.hasPost {
		encodeAttr(c.reply, &t.wcc.post, t.fsid())
	}
}

// encodeWcc appends the wcc_data of target i.
func (c *call) encodeWcc(i int) {
	encodePreAttr(c.reply, &c.target[i].wcc)
	c.encodePostAttr(i)
}

// encodeObjectAttr appends a post_op_attr of an object that is no target.
func encodeObjectAttr(e *xdr.Encoder, a *export.Attr, fsid uint64) {
	e.Bool(a.Type != 0)
	if a.Type != 0 {
		encodeAttr(e, a, fsid)
	}
}
