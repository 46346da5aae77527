package osd

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// fault is an error of this package that stands for an errno too:
// errors.Is(err, ErrFull) and errors.Is(err, syscall.ENOSPC) both hold.
type fault struct {
	text  string
	errno syscall.Errno
}

func (f *fault) Error() string        { return f.text }
func (f *fault) Is(target error) bool { return target == f.errno }

// What the client itself finds.
var (
	// ErrBlocklisted: the cluster refuses this client instance. It is final:
	// every operation under way and every later one ends with it.
	ErrBlocklisted error = &fault{"client is blocklisted", syscall.ESHUTDOWN}
	// ErrNoPool: the pool does not exist, or not any more.
	ErrNoPool error = &fault{"no such pool", syscall.ENOENT}
	// ErrFull: the cluster or the pool is full.
	ErrFull error = &fault{"out of space", syscall.ENOSPC}
	// ErrQuota: the pool's quota is used up.
	ErrQuota error = &fault{"pool quota exceeded", syscall.EDQUOT}
	// ErrPoolEIO: the pool was told to fail everything (flag eio).
	ErrPoolEIO error = &fault{"pool is set to fail all requests", syscall.EIO}
	// ErrReply: an OSD's reply could not be understood.
	ErrReply error = &fault{"bad reply", syscall.EIO}
	// ErrTooLarge: an operation has more operations or data than one message
	// may carry.
	ErrTooLarge error = &fault{"operation too large", syscall.EMSGSIZE}
	// ErrClosed: the client was closed.
	ErrClosed error = &fault{"client closed", syscall.ECANCELED}
)

// Error is how an operation failed.
type Error struct {
	Op     string // the operations, such as "cmpext+write"
	Object Object
	// Err is a syscall.Errno of the OSD's answer, a [CompareError], one of the
	// errors of this package, or the context's.
	Err error
}

// Error says what failed, on what, and why.
func (e *Error) Error() string {
	return fmt.Sprintf("osd: %s %v: %v", e.Op, e.Object, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// CompareError is how a [Op.CompareExtent] failed: the first byte that differs.
type CompareError struct {
	Offset uint64 // from the start of the compared data
}

// Error names the byte.
func (e *CompareError) Error() string { return fmt.Sprintf("data differs at byte %d", e.Offset) }

// Is makes it match ECANCELED, which failed comparisons of xattrs give.
func (e *CompareError) Is(target error) bool { return target == syscall.ECANCELED }

// resultError translates the result of a reply: nil if it is no error.
func resultError(result int32) error {
	switch {
	case result >= 0:
		return nil
	case result <= -maxErrno:
		return &CompareError{Offset: uint64(-int64(result) - maxErrno)}
	case result == -int32(syscall.ESHUTDOWN): // EBLOCKLISTED
		return ErrBlocklisted
	}
	return syscall.Errno(-result)
}

// IsNotExist reports whether err says that there is no such object, and not
// that there is no such pool.
func IsNotExist(err error) bool {
	return errors.Is(err, syscall.ENOENT) && !errors.Is(err, ErrNoPool)
}

// opNamesOf joins the names of operations for an error.
func opNamesOf(ops []subop) string {
	var b strings.Builder
	for i := range ops {
		if i == 8 {
			b.WriteString("+...")
			break
		}
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(ops[i].code.String())
	}
	return b.String()
}
