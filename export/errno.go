package export

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// errnoStatus is the one place where the kernel's (and libcephfs') errno
// values become statuses.
var errnoStatus = map[syscall.Errno]Status{
	syscall.EPERM:        ErrPerm,
	syscall.ENOENT:       ErrNoEnt,
	syscall.EIO:          ErrIO,
	syscall.ENXIO:        ErrNXIO,
	syscall.ENODEV:       ErrNXIO,
	syscall.EACCES:       ErrAccess,
	syscall.EEXIST:       ErrExist,
	syscall.EXDEV:        ErrXDev,
	syscall.ENOTDIR:      ErrNotDir,
	syscall.EISDIR:       ErrIsDir,
	syscall.EINVAL:       ErrInval,
	syscall.EFBIG:        ErrFBig,
	syscall.ENOSPC:       ErrNoSpc,
	syscall.EROFS:        ErrROFS,
	syscall.EMLINK:       ErrMLink,
	syscall.ENAMETOOLONG: ErrNameTooLong,
	syscall.ENOTEMPTY:    ErrNotEmpty,
	syscall.EDQUOT:       ErrDQuot,
	syscall.ESTALE:       ErrStale,
	syscall.EOPNOTSUPP:   ErrNotSupp,
	syscall.ENOSYS:       ErrNotSupp,
	syscall.ENOTTY:       ErrNotSupp,
	syscall.EAGAIN:       ErrDelay,
	syscall.EBUSY:        ErrDelay,
	syscall.ETIMEDOUT:    ErrDelay,
	syscall.ENOMEM:       ErrDelay,
	syscall.EMFILE:       ErrDelay,
	syscall.ENFILE:       ErrDelay,
	syscall.ENOBUFS:      ErrDelay,
	syscall.ENOLCK:       ErrDelay,
	syscall.ELOOP:        ErrSymlink,
	syscall.EILSEQ:       ErrBadName,
	syscall.ETXTBSY:      ErrAccess, // a running program: it may run on for ever, so not ErrDelay
	syscall.ENODATA:      ErrNoXattr,
	syscall.E2BIG:        ErrXattrTooBig,
	syscall.ERANGE:       ErrXattrTooBig,
	syscall.EDEADLK:      ErrDeadlock,
	syscall.EINTR:        ErrCanceled,
	syscall.ECANCELED:    ErrCanceled,
	syscall.ESHUTDOWN:    ErrDelay, // libcephfs after an eviction, until it is mounted anew
	syscall.ENOTCONN:     ErrIO,
}

func statusOfErrno(n syscall.Errno) Status {
	if s, ok := errnoStatus[n]; ok {
		return s
	}
	return ErrIO
}

// statusOfStd covers errors that carry no errno: those of io/fs, os and
// context.
func statusOfStd(err error) Status {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNoEnt
	case errors.Is(err, fs.ErrExist):
		return ErrExist
	case errors.Is(err, fs.ErrPermission):
		return ErrAccess
	case errors.Is(err, fs.ErrInvalid):
		return ErrInval
	case errors.Is(err, os.ErrClosed):
		return ErrStale
	case errors.Is(err, errors.ErrUnsupported):
		return ErrNotSupp
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ErrDelay
	}
	return ErrIO
}
