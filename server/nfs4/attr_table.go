package nfs4

import (
	"math/bits"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// attrKind is how the value of an attribute looks on the wire.
type attrKind uint8

const (
	kindUint32  attrKind = iota // also enums
	kindUint64                  //
	kindBool                    //
	kindOpaque                  // also strings
	kindBitmap                  // bitmap4, and lists of enums
	kindTime                    // nfstime4
	kindSetTime                 // settime4
	kindTwo32                   // specdata4, mode_masked4, mode_umask4
	kindTwo64                   // fsid4
)

// attrSource is where the value of an attribute comes from, beside the
// groups of [export.AttrMask] in the low bits.
type attrSource uint32

const (
	fromStatFS   attrSource = 1 << (16 + iota) // the space of the Volume
	fromFeatures                               // the constant facts of the Volume
	maskOfSource attrSource = 1<<16 - 1
)

const (
	fromAuth   = attrSource(export.MaskAuth)
	fromLink   = attrSource(export.MaskLink)
	fromFile   = attrSource(export.MaskFile)
	fromChange = attrSource(export.MaskChange)
	fromType   = attrSource(0) // Type and FileID always come
)

// attribute is a row of the attribute table.
type attribute struct {
	kind   attrKind
	minor  uint32 // first minor version that has it
	source attrSource
	get    func(*attrView, *xdr.Encoder)             // nil: cannot be read
	set    func(*attrChange, *xdr.Decoder)           // nil: cannot be set
	equal  func(*attrView, *xdr.Decoder) (same bool) // nil: compare the encodings
}

// attributes is the table of the attributes this server knows, indexed by
// number; rows of kind 0 without get and set are attributes it does not
// support (RFC 8881 chapter 5, RFC 7862 section 12.2, RFC 8275, RFC 8276).
var attributes = [96]attribute{
	nfsv4.AttrSupportedAttrs:   {kind: kindBitmap, get: getSupportedAttrs},
	nfsv4.AttrType:             {kind: kindUint32, get: getType},
	nfsv4.AttrFHExpireType:     {kind: kindUint32, get: getFHExpireType},
	nfsv4.AttrChange:           {kind: kindUint64, source: fromChange, get: getChange},
	nfsv4.AttrSize:             {kind: kindUint64, source: fromFile, get: getSize, set: setSize},
	nfsv4.AttrLinkSupport:      {kind: kindBool, source: fromFeatures, get: getLinkSupport},
	nfsv4.AttrSymlinkSupport:   {kind: kindBool, source: fromFeatures, get: getSymlinkSupport},
	nfsv4.AttrNamedAttr:        {kind: kindBool, get: getFalse},
	nfsv4.AttrFSID:             {kind: kindTwo64, get: getFSID},
	nfsv4.AttrUniqueHandles:    {kind: kindBool, get: getTrue},
	nfsv4.AttrLeaseTime:        {kind: kindUint32, get: getLeaseTime},
	nfsv4.AttrRdAttrError:      {kind: kindUint32, get: getRdAttrError},
	nfsv4.AttrACLSupport:       {kind: kindUint32, get: getZero},
	nfsv4.AttrCanSetTime:       {kind: kindBool, source: fromFeatures, get: getCanSetTime},
	nfsv4.AttrCaseInsensitive:  {kind: kindBool, source: fromFeatures, get: getCaseInsensitive},
	nfsv4.AttrCasePreserving:   {kind: kindBool, get: getTrue},
	nfsv4.AttrChownRestricted:  {kind: kindBool, get: getTrue},
	nfsv4.AttrFileHandle:       {kind: kindOpaque, get: getFileHandle},
	nfsv4.AttrFileID:           {kind: kindUint64, get: getFileID},
	nfsv4.AttrFilesAvail:       {kind: kindUint64, source: fromStatFS, get: getFilesAvail},
	nfsv4.AttrFilesFree:        {kind: kindUint64, source: fromStatFS, get: getFilesFree},
	nfsv4.AttrFilesTotal:       {kind: kindUint64, source: fromStatFS, get: getFilesTotal},
	nfsv4.AttrHomogeneous:      {kind: kindBool, get: getTrue},
	nfsv4.AttrMaxFileSize:      {kind: kindUint64, source: fromFeatures, get: getMaxFileSize},
	nfsv4.AttrMaxLink:          {kind: kindUint32, source: fromFeatures, get: getMaxLink},
	nfsv4.AttrMaxName:          {kind: kindUint32, source: fromFeatures, get: getMaxName},
	nfsv4.AttrMaxRead:          {kind: kindUint64, get: getMaxIO},
	nfsv4.AttrMaxWrite:         {kind: kindUint64, get: getMaxIO},
	nfsv4.AttrMode:             {kind: kindUint32, source: fromAuth, get: getMode, set: setMode},
	nfsv4.AttrNoTrunc:          {kind: kindBool, get: getTrue},
	nfsv4.AttrNumLinks:         {kind: kindUint32, source: fromLink, get: getNumLinks},
	nfsv4.AttrOwner:            {kind: kindOpaque, source: fromAuth, get: getOwner, set: setOwner, equal: equalOwner},
	nfsv4.AttrOwnerGroup:       {kind: kindOpaque, source: fromAuth, get: getOwnerGroup, set: setOwnerGroup, equal: equalOwnerGroup},
	nfsv4.AttrRawDev:           {kind: kindTwo32, source: fromAuth, get: getRawDev},
	nfsv4.AttrSpaceAvail:       {kind: kindUint64, source: fromStatFS, get: getSpaceAvail},
	nfsv4.AttrSpaceFree:        {kind: kindUint64, source: fromStatFS, get: getSpaceFree},
	nfsv4.AttrSpaceTotal:       {kind: kindUint64, source: fromStatFS, get: getSpaceTotal},
	nfsv4.AttrSpaceUsed:        {kind: kindUint64, source: fromFile, get: getSpaceUsed},
	nfsv4.AttrTimeAccess:       {kind: kindTime, source: fromFile, get: getTimeAccess},
	nfsv4.AttrTimeAccessSet:    {kind: kindSetTime, set: setTimeAccess},
	nfsv4.AttrTimeCreate:       {kind: kindTime, source: fromAuth, get: getTimeCreate},
	nfsv4.AttrTimeDelta:        {kind: kindTime, source: fromFeatures, get: getTimeDelta},
	nfsv4.AttrTimeMetadata:     {kind: kindTime, source: fromChange, get: getTimeMetadata},
	nfsv4.AttrTimeModify:       {kind: kindTime, source: fromFile, get: getTimeModify},
	nfsv4.AttrTimeModifySet:    {kind: kindSetTime, set: setTimeModify},
	nfsv4.AttrMountedOnFileID:  {kind: kindUint64, get: getMountedOnFileID},
	nfsv4.AttrModeSetMasked:    {kind: kindTwo32, minor: 1, set: setModeMasked},
	nfsv4.AttrSupAttrExclCreat: {kind: kindBitmap, minor: 1, get: getSupAttrExclCreat},
	nfsv4.AttrFSCharsetCap:     {kind: kindUint32, minor: 1, get: getFSCharsetCap},
	nfsv4.AttrChangeAttrType:   {kind: kindUint32, minor: 2, get: getChangeAttrType},
	nfsv4.AttrModeUmask:        {kind: kindTwo32, minor: 2, set: setModeUmask},
	nfsv4.AttrXattrSupport:     {kind: kindBool, minor: 2, source: fromFeatures, get: getXattrSupport},
}

// attrSets are the attributes of one minor version.
type attrSets struct {
	supported nfsv4.Bitmap
	readable  nfsv4.Bitmap
	settable  nfsv4.Bitmap
}

// attrsOfMinor is computed from the table by init, and constant then: the
// table's functions look at it.
var attrsOfMinor [maxMinor + 1]attrSets

func init() {
	sets := &attrsOfMinor
	for n, a := range attributes {
		for minor := range sets {
			if uint32(minor) < a.minor {
				continue
			}
			if a.get != nil {
				sets[minor].readable.Set(uint32(n))
			}
			if a.set != nil {
				sets[minor].settable.Set(uint32(n))
			}
			sets[minor].supported = sets[minor].readable.Or(sets[minor].settable)
		}
	}
}

// sourcesOf returns what has to be fetched to answer the attributes in b.
func sourcesOf(b nfsv4.Bitmap) (s attrSource) {
	for i, w := range b {
		for ; w != 0; w &= w - 1 {
			s |= attributes[i*32+bits.TrailingZeros32(w)].source
		}
	}
	return s
}

// skip reads past a value of kind k.
func (k attrKind) skip(d *xdr.Decoder) {
	switch k {
	case kindUint32:
		d.Uint32("attribute")
	case kindBool:
		d.Bool("attribute")
	case kindUint64, kindTwo32:
		d.Uint64("attribute")
	case kindTwo64:
		d.Uint64("attribute")
		d.Uint64("attribute")
	case kindOpaque:
		d.Opaque("attribute", d.Remaining())
	case kindBitmap:
		for range d.Count("attribute", d.Remaining(), 4) {
			d.Uint32("attribute")
		}
	case kindTime:
		decodeTime(d)
	case kindSetTime:
		decodeSetTime(d)
	}
}
