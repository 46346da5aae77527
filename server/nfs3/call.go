package nfs3

import (
	"context"
	"log/slog"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// maxHandle is NFS3_FHSIZE, the longest handle in bytes.
const maxHandle = 64

// call is one NFSv3 call from its arguments to its reply. It belongs to the
// goroutine that serves the call, and goes back to the server's pool with it.
type call struct {
	server *Server
	ctx    context.Context
	hold   export.Hold
	table  *export.Table // of hold: the exports as they were when the call began
	peer   export.Peer
	rpc    *rpc.Call
	reply  *xdr.Encoder
	err    error // what made the call fail, for the log

	// target holds the objects the arguments name by handle: [0] the only one,
	// the source of RENAME, the file of LINK; [1] the target directory of
	// RENAME and of LINK.
	target [2]target
	args   args
	res    results
}

// args holds the arguments beside the handles. Byte slices alias the record.
type args struct {
	name, toName []byte
	attr         export.SetAttr // with the guard of SETATTR
	access       uint32
	offset       uint64
	count        uint32
	stable       export.Stability
	data         []byte
	createMode   export.CreateMode
	createVerf   [8]byte
	path         []byte // target of SYMLINK
	nodeType     uint32 // ftype3 of MKNOD
	rdev         export.Device
	cookie       uint64
	cookieVerf   uint64
	dirCount     uint32
	maxCount     uint32
}

// results holds what goes into the reply beside the attributes of targets.
type results struct {
	object    export.Node // found or made
	attr      export.Attr // its attributes
	access    export.Access
	link      string
	buf       *rpc.Buffer // data of READ, nil if there are none
	count     uint32
	eof       bool
	committed export.Stability
	verifier  [8]byte
	space     export.StatFS
}

// target is an object named by a handle in the arguments.
type target struct {
	fh      []byte // nfs_fh3, aliases the record
	node    export.Node
	rights  export.Rights
	tried   bool // enter was called
	entered bool // node and rights are set: the caller is admitted
	wcc     wcc
}

func (t *target) volume() export.Volume { return t.node.Export.Volume }

func (t *target) fsid() uint64 { return fsidOf(t.node.Export) }

// fsidOf returns the fsid of NFSv3 for objects of e.
func fsidOf(e *export.Export) uint64 { return e.FileSystem().V3() }

// decodeHandle reads the nfs_fh3 of target i.
func (c *call) decodeHandle(d *xdr.Decoder, i int) {
	c.target[i].fh = d.Opaque("handle", maxHandle)
}

// decodeObject reads arguments that are one handle.
func decodeObject(c *call, d *xdr.Decoder) { c.decodeHandle(d, 0) }

// enter finds target i and the rights the caller has on its export.
func (c *call) enter(i int) Status {
	t := &c.target[i]
	t.tried = true
	n, err := c.table.Resolve(t.fh)
	if err != nil {
		return c.fail(err)
	}
	r, err := c.table.Enter(c.ctx, &c.peer, n.Export, version)
	if err != nil {
		return c.fail(err)
	}
	t.node, t.rights, t.entered = n, r, true
	return OK
}

// enterToModify is enter for calls that change target i.
func (c *call) enterToModify(i int) Status {
	if st := c.enter(i); st != OK {
		return st
	}
	if c.target[i].rights.ReadOnly {
		return ErrROFS
	}
	return OK
}

// payload returns a buffer for data of the reply, charged to the connection.
func (c *call) payload(n int) (*rpc.Buffer, error) {
	if c.rpc.Conn == nil {
		return rpc.GetBuffer(n), nil
	}
	b, err := c.rpc.Payload(n)
	if err != nil {
		return nil, export.ErrCanceled // the connection is gone, for whatever reason
	}
	return b, nil
}

// fail translates err and keeps it for the log.
func (c *call) fail(err error) Status {
	c.err = err
	return statusOf(err)
}

// found records the object of the results.
func (c *call) found(n export.Node, a *export.Attr) {
	c.res.object, c.res.attr = n, *a
}

// encodeHandle appends n as nfs_fh3.
func (c *call) encodeHandle(n export.Node) {
	var space [maxHandle]byte
	c.reply.Opaque(c.table.AppendHandle(space[:0], n))
}

// encodeFoundAttr appends the post_op_attr of the results' object.
func (c *call) encodeFoundAttr() {
	encodeObjectAttr(c.reply, &c.res.attr, fsidOf(c.res.object.Export))
}

// logFault says which call met a fault that an operator should know of.
// Faults of clients are theirs to report.
func (c *call) logFault(name string, st Status) {
	if (st == ErrIO || st == ErrServerFault) && c.err != nil {
		c.server.log.LogAttrs(c.ctx, slog.LevelWarn, "nfs3: call failed", slog.String("procedure", name),
			slog.String("status", st.String()), slog.String("client", c.peer.Addr.String()), slog.Any("error", c.err))
	}
}
