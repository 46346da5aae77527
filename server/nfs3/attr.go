package nfs3

import (
	"math"

	"capstan/export"
	"capstan/server/xdr"
)

// sizeOfAttr is the size of fattr3 in bytes, sizeOfPostAttr that of a
// post_op_attr that has one.
const (
	sizeOfAttr     = 84
	sizeOfPostAttr = 4 + sizeOfAttr
)

// encodeAttr appends a as fattr3 (RFC 1813 section 2.5.5) of an object on the
// filesystem fsid. The mode carries no type bits.
func encodeAttr(e *xdr.Encoder, a *export.Attr, fsid uint64) {
	e.Uint32(uint32(a.Type))
	e.Uint32(a.Mode & 0o7777)
	e.Uint32(a.Nlink)
	e.Uint32(a.UID)
	e.Uint32(a.GID)
	e.Uint64(a.Size)
	e.Uint64(a.Used)
	e.Uint32(a.Rdev.Major)
	e.Uint32(a.Rdev.Minor)
	e.Uint64(fsid)
	e.Uint64(a.FileID)
	encodeTime(e, a.Atime)
	encodeTime(e, a.Mtime)
	encodeTime(e, a.Ctime)
}

// encodeTime appends t as nfstime3, whose seconds are unsigned and of 32 bits:
// a time before 1970 or after 2106 becomes the nearest that can be said,
// instead of wrapping round to the other end.
func encodeTime(e *xdr.Encoder, t export.Timespec) {
	switch {
	case t.Sec < 0:
		t = export.Timespec{}
	case t.Sec > math.MaxUint32:
		t = export.Timespec{Sec: math.MaxUint32, Nsec: 999_999_999}
	}
	e.Uint32(uint32(t.Sec))
	e.Uint32(t.Nsec)
}

func decodeTime(d *xdr.Decoder, field string) export.Timespec {
	return export.Timespec{Sec: int64(d.Uint32(field)), Nsec: d.Uint32(field)}
}

// time_how (RFC 1813 section 2.5.8).
const (
	dontChange  = 0
	setToServer = 1
	setToClient = 2
)

// decodeSetAttr reads sattr3. Nanoseconds beyond a second are not a decoding
// fault: [checkSetAttr] refuses them with a status.
func decodeSetAttr(d *xdr.Decoder, s *export.SetAttr) {
	*s = export.SetAttr{}
	if d.Bool("set_mode") {
		s.Set |= export.SetMode
		s.Mode = d.Uint32("mode") & 0o7777
	}
	if d.Bool("set_uid") {
		s.Set |= export.SetUID
		s.UID = d.Uint32("uid")
	}
	if d.Bool("set_gid") {
		s.Set |= export.SetGID
		s.GID = d.Uint32("gid")
	}
	if d.Bool("set_size") {
		s.Set |= export.SetSize
		s.Size = d.Uint64("size")
	}
	s.Set |= decodeTimeHow(d, "atime", &s.Atime, export.SetAtime, export.SetAtimeNow)
	s.Set |= decodeTimeHow(d, "mtime", &s.Mtime, export.SetMtime, export.SetMtimeNow)
}

func decodeTimeHow(d *xdr.Decoder, field string, t *export.Timespec, client, server export.SetMask) export.SetMask {
	switch d.Uint32(field) {
	case dontChange:
		return 0
	case setToServer:
		return server
	case setToClient:
		*t = decodeTime(d, field)
		return client
	}
	d.Fail(field, xdr.ErrValue)
	return 0
}

// checkSetAttr refuses what no Volume should be asked: times that are none and
// sizes a signed 64-bit offset cannot reach.
func checkSetAttr(s *export.SetAttr) Status {
	const second = 1_000_000_000
	if s.Atime.Nsec >= second || s.Mtime.Nsec >= second {
		return ErrInval
	}
	if s.Set&export.SetSize != 0 && s.Size > math.MaxInt64 {
		return ErrFBig
	}
	return OK
}
