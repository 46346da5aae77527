package nfs3

import (
	"strconv"

	"capstan/export"
)

// Status is the outcome of a procedure (nfsstat3, RFC 1813 section 2.6).
type Status uint32

// The statuses, as NFS3_OK and NFS3ERR_* in the RFC.
const (
	OK             Status = 0
	ErrPerm        Status = 1
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrNXIO        Status = 6
	ErrAccess      Status = 13 // NFS3ERR_ACCES
	ErrExist       Status = 17
	ErrXDev        Status = 18
	ErrNoDev       Status = 19
	ErrNotDir      Status = 20
	ErrIsDir       Status = 21
	ErrInval       Status = 22
	ErrFBig        Status = 27
	ErrNoSpc       Status = 28
	ErrROFS        Status = 30
	ErrMLink       Status = 31
	ErrNameTooLong Status = 63
	ErrNotEmpty    Status = 66
	ErrDQuot       Status = 69
	ErrStale       Status = 70
	ErrRemote      Status = 71
	ErrBadHandle   Status = 10001
	ErrNotSync     Status = 10002
	ErrBadCookie   Status = 10003
	ErrNotSupp     Status = 10004
	ErrTooSmall    Status = 10005
	ErrServerFault Status = 10006
	ErrBadType     Status = 10007
	ErrJukebox     Status = 10008
)

var statusNames = map[Status]string{
	OK: "NFS3_OK", ErrPerm: "NFS3ERR_PERM", ErrNoEnt: "NFS3ERR_NOENT", ErrIO: "NFS3ERR_IO",
	ErrNXIO: "NFS3ERR_NXIO", ErrAccess: "NFS3ERR_ACCES", ErrExist: "NFS3ERR_EXIST",
	ErrXDev: "NFS3ERR_XDEV", ErrNoDev: "NFS3ERR_NODEV", ErrNotDir: "NFS3ERR_NOTDIR",
	ErrIsDir: "NFS3ERR_ISDIR", ErrInval: "NFS3ERR_INVAL", ErrFBig: "NFS3ERR_FBIG",
	ErrNoSpc: "NFS3ERR_NOSPC", ErrROFS: "NFS3ERR_ROFS", ErrMLink: "NFS3ERR_MLINK",
	ErrNameTooLong: "NFS3ERR_NAMETOOLONG", ErrNotEmpty: "NFS3ERR_NOTEMPTY",
	ErrDQuot: "NFS3ERR_DQUOT", ErrStale: "NFS3ERR_STALE", ErrRemote: "NFS3ERR_REMOTE",
	ErrBadHandle: "NFS3ERR_BADHANDLE", ErrNotSync: "NFS3ERR_NOT_SYNC",
	ErrBadCookie: "NFS3ERR_BAD_COOKIE", ErrNotSupp: "NFS3ERR_NOTSUPP",
	ErrTooSmall: "NFS3ERR_TOOSMALL", ErrServerFault: "NFS3ERR_SERVERFAULT",
	ErrBadType: "NFS3ERR_BADTYPE", ErrJukebox: "NFS3ERR_JUKEBOX",
}

// String returns the RFC's name of s.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "nfsstat3(" + strconv.FormatUint(uint64(s), 10) + ")"
}

// statusTable is the one place where statuses of the Volume contract become
// those of NFSv3. What NFSv3 has no number for becomes the status an NFSv3
// client draws the right conclusion from.
var statusTable = [...]Status{
	export.OK:             OK,
	export.ErrPerm:        ErrPerm,
	export.ErrNoEnt:       ErrNoEnt,
	export.ErrIO:          ErrIO,
	export.ErrNXIO:        ErrNXIO,
	export.ErrAccess:      ErrAccess,
	export.ErrExist:       ErrExist,
	export.ErrXDev:        ErrXDev,
	export.ErrNotDir:      ErrNotDir,
	export.ErrIsDir:       ErrIsDir,
	export.ErrInval:       ErrInval,
	export.ErrFBig:        ErrFBig,
	export.ErrNoSpc:       ErrNoSpc,
	export.ErrROFS:        ErrROFS,
	export.ErrMLink:       ErrMLink,
	export.ErrNameTooLong: ErrNameTooLong,
	export.ErrNotEmpty:    ErrNotEmpty,
	export.ErrDQuot:       ErrDQuot,
	export.ErrStale:       ErrStale,
	export.ErrBadHandle:   ErrBadHandle,
	export.ErrBadCookie:   ErrBadCookie,
	export.ErrNotSupp:     ErrNotSupp,
	export.ErrDelay:       ErrJukebox, // the client waits and sends the call again
	export.ErrSymlink:     ErrInval,
	export.ErrBadType:     ErrBadType,
	export.ErrBadName:     ErrAccess,  // section 3.2: a name that cannot be stored
	export.ErrFileOpen:    ErrJukebox, // it can be removed once it is closed
	export.ErrNoXattr:     ErrNoEnt,   // NFSv3 asks for no xattrs
	export.ErrXattrTooBig: ErrInval,
	export.ErrLocked:      ErrJukebox, // a mandatory lock of somebody else
	export.ErrDeadlock:    ErrServerFault,
	export.ErrNotSync:     ErrNotSync,
	export.ErrFault:       ErrServerFault,
	export.ErrCanceled:    ErrJukebox, // nobody reads the reply, or the server is stopping
	export.ErrBadOwner:    ErrInval,   // NFSv3 has numbers only
}

// statusOf translates any error of a Volume or of the export table.
func statusOf(err error) Status {
	if s := export.StatusOf(err); int(s) < len(statusTable) {
		return statusTable[s]
	}
	return ErrServerFault
}
