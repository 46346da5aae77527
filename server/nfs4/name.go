package nfs4

import (
	"bytes"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// maxNameOnWire bounds a component name before it is looked at: far above
// what any filesystem stores, so that what is too long is told so.
const maxNameOnWire = 64 << 10

// decodeName reads a component4, aliasing the request.
func decodeName(d *xdr.Decoder) []byte { return d.Opaque("component4", maxNameOnWire) }

// checkName says whether name may be handed to a Volume of which names have
// at most max bytes. Names are bytes: what is not UTF-8 is as good as what is
// (fs_charset_cap says so).
func checkName(name []byte, max int) nfsv4.Status {
	switch {
	case len(name) == 0:
		return nfsv4.ErrInval
	case string(name) == "." || string(name) == "..":
		return nfsv4.ErrBadName
	case len(name) > max:
		return nfsv4.ErrNameTooLong
	case bytes.IndexByte(name, '/') >= 0 || bytes.IndexByte(name, 0) >= 0:
		return nfsv4.ErrBadChar
	}
	return nfsv4.OK
}

// maxNameOf is the longest name the Volume takes, 255 bytes if it does not say.
func maxNameOf(v export.Volume) int {
	if n := v.Features().MaxName; n > 0 {
		return n
	}
	return 255
}
