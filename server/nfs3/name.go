package nfs3

import (
	"bytes"

	"capstan/export"
	"capstan/server/xdr"
)

// The longest names and link targets. Longer ones are refused by status as
// long as they stay below wireNameMax, and are garbage beyond it.
const (
	nameMax     = 255
	pathMax     = 4095 // PATH_MAX without its final NUL
	wireNameMax = 64 << 10
)

// decodeDirOp reads diropargs3 into target i, and returns the name.
func (c *call) decodeDirOp(d *xdr.Decoder, i int) []byte {
	c.decodeHandle(d, i)
	return d.Opaque("name", wireNameMax)
}

// dots says what a procedure answers to "." and to "..".
type dots struct{ self, parent Status }

// The answers, by what a name is to be used for (RFC 1813 sections 3.3.13 and
// 3.3.14; section 3.2 leaves the others to the server).
var (
	dotsToMake   = dots{ErrExist, ErrExist}
	dotsToRemove = dots{ErrAccess, ErrAccess}
	dotsToRmdir  = dots{ErrInval, ErrExist}
	dotsToRename = dots{ErrInval, ErrInval}
)

// checkName refuses names that no Volume is to be asked for, by section 3.2 of
// RFC 1813: the empty name and characters that cannot be stored are ACCES.
func checkName(name []byte, f *export.Features, d dots) Status {
	switch string(name) {
	case ".":
		return d.self
	case "..":
		return d.parent
	}
	return checkPlainName(name, f)
}

func checkPlainName(name []byte, f *export.Features) Status {
	if len(name) == 0 {
		return ErrAccess
	}
	if len(name) > maxName(f) {
		return ErrNameTooLong
	}
	if bytes.IndexByte(name, '/') >= 0 || bytes.IndexByte(name, 0) >= 0 {
		return ErrAccess
	}
	return OK
}

// maxName is the longest name of a Volume in bytes.
func maxName(f *export.Features) int {
	if f.MaxName > 0 && f.MaxName < nameMax {
		return f.MaxName
	}
	return nameMax
}

// enterToName enters target i to change its entry name.
func (c *call) enterToName(i int, name []byte, d dots) Status {
	if st := c.enterToModify(i); st != OK {
		return st
	}
	f := c.target[i].volume().Features()
	return checkName(name, &f, d)
}
