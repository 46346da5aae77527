package nfs4

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

func handleOps() []operation {
	return []operation{
		op(nfsv4.OpPutFH, 0, 2, 0, codec[putFHArgs, none]{
			decode: (*putFHArgs).decode, run: opPutFH}),
		op(nfsv4.OpPutRootFH, 0, 2, 0, codec[none, none]{run: opPutRootFH}),
		// The public filehandle is the root (RFC 8881 section 4.1.2).
		op(nfsv4.OpPutPubFH, 0, 2, 0, codec[none, none]{run: opPutRootFH}),
		op(nfsv4.OpGetFH, 0, 2, needsFH, codec[none, none]{run: opGetFH}),
		op(nfsv4.OpSaveFH, 0, 2, needsFH, codec[none, none]{run: opSaveFH}),
		op(nfsv4.OpRestoreFH, 0, 2, 0, codec[none, none]{run: opRestoreFH}),
	}
}

type putFHArgs struct{ fh []byte }

func (a *putFHArgs) decode(d *xdr.Decoder) { a.fh = d.Opaque("nfs_fh4", nfsv4.FHSize) }

func opPutFH(c *compound, a *putFHArgs, _ *none) nfsv4.Status {
	node, err := c.table.Resolve(a.fh)
	if err != nil {
		return c.statusOf(err)
	}
	return c.setCurrent(node)
}

func opPutRootFH(c *compound, _ *none, _ *none) nfsv4.Status {
	node, err := c.table.Root(c.ctx)
	if err != nil {
		return c.statusOf(err)
	}
	return c.setCurrent(node)
}

func opGetFH(c *compound, _ *none, _ *none) nfsv4.Status {
	c.appendHandle(c.cur.node)
	return nfsv4.OK
}

// appendHandle appends the nfs_fh4 of n.
func (c *compound) appendHandle(n export.Node) {
	c.scratch = c.table.AppendHandle(c.scratch[:0], n)
	c.e.Opaque(c.scratch)
}

func opSaveFH(c *compound, _ *none, _ *none) nfsv4.Status {
	c.saved = c.cur
	return nfsv4.OK
}

func opRestoreFH(c *compound, _ *none, _ *none) nfsv4.Status {
	if !c.saved.set {
		if c.minor == 0 {
			return nfsv4.ErrRestoreFH
		}
		return nfsv4.ErrNoFileHandle
	}
	c.cur = c.saved
	return nfsv4.OK
}
