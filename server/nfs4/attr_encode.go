package nfs4

import (
	"context"
	"math"
	"math/bits"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// attrView is what the attributes of one object are encoded from. It lives in
// the compound (or in a READDIR) and is filled in anew for each object.
type attrView struct {
	c        *compound
	names    context.Context // how long names of owners are waited for
	node     export.Node
	attr     export.Attr
	statfs   export.StatFS
	features export.Features
	failed   nfsv4.Status // rdattr_error
}

// load fetches what the attributes in want need of h's object.
func (v *attrView) load(c *compound, h *handle, want nfsv4.Bitmap) error {
	v.c, v.names, v.node, v.failed = c, c.ctx, h.node, nfsv4.OK
	source := sourcesOf(want)
	vol := h.node.Export.Volume
	if source&fromFeatures != 0 {
		v.features = vol.Features()
	}
	if source&fromStatFS != 0 {
		s, err := vol.StatFS(c.ctx, h.node.Object)
		if err != nil {
			return err
		}
		v.statfs = s
	}
	a, err := vol.GetAttr(c.ctx, h.rights.Cred, h.node.Object, export.AttrMask(source&maskOfSource))
	if err != nil {
		return err
	}
	v.attr = a
	return nil
}

// encode appends the fattr4 with those of want that this object has. Bits of
// want that are not readable attributes are left out.
func (v *attrView) encode(e *xdr.Encoder, want nfsv4.Bitmap) {
	want = want.And(attrsOfMinor[v.c.minor].readable)
	if v.attr.Btime == (export.Timespec{}) {
		want.Clear(nfsv4.AttrTimeCreate)
	}
	want.Encode(e)
	at := e.Reserve32()
	start := e.Len()
	for i, w := range want {
		for ; w != 0; w &= w - 1 {
			attributes[i*32+bits.TrailingZeros32(w)].get(v, e)
		}
	}
	e.Patch32(at, uint32(e.Len()-start))
}

func encodeTime(e *xdr.Encoder, t export.Timespec) {
	e.Int64(t.Sec)
	e.Uint32(t.Nsec)
}

func getTrue(_ *attrView, e *xdr.Encoder)  { e.Bool(true) }
func getFalse(_ *attrView, e *xdr.Encoder) { e.Bool(false) }
func getZero(_ *attrView, e *xdr.Encoder)  { e.Uint32(0) }

func getSupportedAttrs(v *attrView, e *xdr.Encoder) {
	attrsOfMinor[v.c.minor].supported.Encode(e)
}

func getSupAttrExclCreat(v *attrView, e *xdr.Encoder) {
	attrsOfMinor[v.c.minor].settable.Encode(e)
}

func getType(v *attrView, e *xdr.Encoder) { e.Uint32(uint32(v.attr.Type)) }

// getFHExpireType answers FH4_PERSISTENT.
func getFHExpireType(_ *attrView, e *xdr.Encoder) { e.Uint32(0) }

func getChange(v *attrView, e *xdr.Encoder) { e.Uint64(v.attr.Change) }
func getSize(v *attrView, e *xdr.Encoder)   { e.Uint64(v.attr.Size) }

func getLinkSupport(v *attrView, e *xdr.Encoder)    { e.Bool(v.features.HardLinks) }
func getSymlinkSupport(v *attrView, e *xdr.Encoder) { e.Bool(v.features.Symlinks) }
func getCanSetTime(v *attrView, e *xdr.Encoder)     { e.Bool(v.features.SetTime) }
func getCaseInsensitive(v *attrView, e *xdr.Encoder) {
	e.Bool(v.features.CaseFold)
}
func getXattrSupport(v *attrView, e *xdr.Encoder) { e.Bool(v.features.Xattrs) }

func getFSID(v *attrView, e *xdr.Encoder) {
	id := v.node.Export.FileSystem()
	e.Uint64(id[0])
	e.Uint64(id[1])
}

func getLeaseTime(v *attrView, e *xdr.Encoder)   { e.Uint32(v.c.srv.leaseSeconds) }
func getRdAttrError(v *attrView, e *xdr.Encoder) { e.Uint32(uint32(v.failed)) }

func getFileHandle(v *attrView, e *xdr.Encoder) {
	v.c.scratch = v.c.table.AppendHandle(v.c.scratch[:0], v.node)
	e.Opaque(v.c.scratch)
}

func getFileID(v *attrView, e *xdr.Encoder) { e.Uint64(v.attr.FileID) }

func getMountedOnFileID(v *attrView, e *xdr.Encoder) {
	e.Uint64(v.c.table.MountedOn(v.node, v.attr.FileID))
}

func getFilesAvail(v *attrView, e *xdr.Encoder) { e.Uint64(v.statfs.AvailFiles) }
func getFilesFree(v *attrView, e *xdr.Encoder)  { e.Uint64(v.statfs.FreeFiles) }
func getFilesTotal(v *attrView, e *xdr.Encoder) { e.Uint64(v.statfs.TotalFiles) }
func getSpaceAvail(v *attrView, e *xdr.Encoder) { e.Uint64(v.statfs.AvailBytes) }
func getSpaceFree(v *attrView, e *xdr.Encoder)  { e.Uint64(v.statfs.FreeBytes) }
func getSpaceTotal(v *attrView, e *xdr.Encoder) { e.Uint64(v.statfs.TotalBytes) }
func getSpaceUsed(v *attrView, e *xdr.Encoder)  { e.Uint64(v.attr.Used) }

func getMaxFileSize(v *attrView, e *xdr.Encoder) {
	if v.features.MaxFileSize == 0 {
		e.Uint64(math.MaxInt64)
		return
	}
	e.Uint64(v.features.MaxFileSize)
}

func getMaxLink(v *attrView, e *xdr.Encoder) { e.Uint32(v.features.MaxLink) }
func getMaxName(v *attrView, e *xdr.Encoder) { e.Uint32(uint32(v.features.MaxName)) }
func getMaxIO(v *attrView, e *xdr.Encoder)   { e.Uint64(uint64(v.c.srv.opts.MaxIO)) }

func getMode(v *attrView, e *xdr.Encoder)     { e.Uint32(v.attr.Mode & 0o7777) }
func getNumLinks(v *attrView, e *xdr.Encoder) { e.Uint32(v.attr.Nlink) }

func getOwner(v *attrView, e *xdr.Encoder) {
	v.c.scratch = v.c.table.Identity().AppendOwner(v.names, v.c.scratch[:0], v.attr.UID)
	e.Opaque(v.c.scratch)
}

func getOwnerGroup(v *attrView, e *xdr.Encoder) {
	v.c.scratch = v.c.table.Identity().AppendGroup(v.names, v.c.scratch[:0], v.attr.GID)
	e.Opaque(v.c.scratch)
}

func getRawDev(v *attrView, e *xdr.Encoder) {
	e.Uint32(v.attr.Rdev.Major)
	e.Uint32(v.attr.Rdev.Minor)
}

func getTimeAccess(v *attrView, e *xdr.Encoder)   { encodeTime(e, v.attr.Atime) }
func getTimeCreate(v *attrView, e *xdr.Encoder)   { encodeTime(e, v.attr.Btime) }
func getTimeMetadata(v *attrView, e *xdr.Encoder) { encodeTime(e, v.attr.Ctime) }
func getTimeModify(v *attrView, e *xdr.Encoder)   { encodeTime(e, v.attr.Mtime) }
func getTimeDelta(v *attrView, e *xdr.Encoder)    { encodeTime(e, v.features.TimeDelta) }

// getFSCharsetCap says that names are bytes, UTF-8 or not.
func getFSCharsetCap(_ *attrView, e *xdr.Encoder) { e.Uint32(nfsv4.CharsetNonUTF8) }

// getChangeAttrType promises no more than that change differs: with several
// gateways it need not grow by one, nor grow in the order of the calls.
func getChangeAttrType(_ *attrView, e *xdr.Encoder) { e.Uint32(nfsv4.ChangeUndefined) }
