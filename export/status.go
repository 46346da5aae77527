package export

import (
	"errors"
	"fmt"
	"syscall"
)

// Status is the outcome of a call on a Volume: a small closed set that maps
// one to one to the status codes of NFSv4 (RFC 8881 section 15.1) and, where
// the older protocol has it, of NFSv3 (RFC 1813 section 2.6).
type Status uint8

// The statuses, named as in the RFCs.
const (
	OK             Status = iota
	ErrPerm               // not owner
	ErrNoEnt              // no such name
	ErrIO                 // a hard fault below; only when nothing else fits
	ErrNXIO               // no such device; no more data or hole (SEEK)
	ErrAccess             // permission denied
	ErrExist              // the name exists
	ErrXDev               // across filesystems
	ErrNotDir             // not a directory
	ErrIsDir              // a directory
	ErrInval              // an argument not allowed
	ErrFBig               // beyond the largest file size
	ErrNoSpc              // no space left
	ErrROFS               // read-only filesystem
	ErrMLink              // too many hard links
	ErrNameTooLong        // a name above the limit
	ErrNotEmpty           // directory not empty
	ErrDQuot              // quota exhausted
	ErrStale              // the object is gone
	ErrBadHandle          // not a handle of ours
	ErrBadCookie          // not a directory cookie of ours
	ErrNotSupp            // the Volume does not offer this
	ErrDelay              // try again later (JUKEBOX in NFSv3)
	ErrSymlink            // a symbolic link where none is allowed
	ErrBadType            // object type not allowed
	ErrBadName            // a name that cannot be stored
	ErrFileOpen           // the object is open and cannot be removed or replaced
	ErrNoXattr            // no such extended attribute
	ErrXattrTooBig        // extended attribute above the limit
	ErrLocked             // a byte-range lock of another owner is in the way
	ErrDeadlock           // a blocking lock would never be granted
	ErrNotSync            // the guard of SETATTR does not match
	ErrFault              // a fault of the server itself
	ErrCanceled           // the caller went away before the call was done
	ErrBadOwner           // an owner or group string that stands for nobody here
)

// statusNames is indexed by Status.
var statusNames = [...]string{
	OK: "ok", ErrPerm: "operation not permitted", ErrNoEnt: "no such file or directory",
	ErrIO: "input/output error", ErrNXIO: "no such device or address", ErrAccess: "permission denied",
	ErrExist: "file exists", ErrXDev: "cross-device link", ErrNotDir: "not a directory",
	ErrIsDir: "is a directory", ErrInval: "invalid argument", ErrFBig: "file too large",
	ErrNoSpc: "no space left", ErrROFS: "read-only file system", ErrMLink: "too many links",
	ErrNameTooLong: "file name too long", ErrNotEmpty: "directory not empty",
	ErrDQuot: "quota exceeded", ErrStale: "stale file handle", ErrBadHandle: "bad file handle",
	ErrBadCookie: "bad directory cookie", ErrNotSupp: "operation not supported",
	ErrDelay: "try again later", ErrSymlink: "is a symbolic link", ErrBadType: "bad object type",
	ErrBadName: "bad name", ErrFileOpen: "file is open", ErrNoXattr: "no such extended attribute",
	ErrXattrTooBig: "extended attribute too big", ErrLocked: "range is locked",
	ErrDeadlock: "deadlock", ErrNotSync: "guard does not match", ErrFault: "server fault",
	ErrCanceled: "canceled", ErrBadOwner: "unknown owner",
}

// Error makes a Status usable as an error on its own; OK is never returned as
// one.
func (s Status) Error() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Error is a failed call: which operation, on what, with which status, and the
// cause below it if there is one.
type Error struct {
	Op     string // the operation, in lower case: "lookup"
	On     string // object or name, for the log; may be empty
	Status Status
	Err    error // cause, nil if the status says all
}

func (e *Error) Error() string {
	s := e.Op
	if e.On != "" {
		s += " " + e.On
	}
	s += ": " + e.Status.Error()
	if e.Err != nil && e.Err != error(e.Status) {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrNoEnt) work on an *Error.
func (e *Error) Is(target error) bool {
	s, ok := target.(Status)
	return ok && s == e.Status
}

// Wrap returns err as an *[Error] of operation op on what on names, with the
// status that [StatusOf] finds; nil for nil.
func Wrap(op, on string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, On: on, Status: StatusOf(err), Err: err}
}

// StatusOf finds the status of any error: of an [*Error], a [Status], a
// [syscall.Errno], the errors of package io/fs and of package context; [ErrIO]
// for anything else and [OK] for nil.
func StatusOf(err error) Status {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	if s, ok := errors.AsType[Status](err); ok {
		return s
	}
	if n, ok := errors.AsType[syscall.Errno](err); ok {
		return statusOfErrno(n)
	}
	return statusOfStd(err)
}
