package export

import (
	"context"
	"math"
)

// Stability is how safe written data are, with the numbers of stable_how4
// (RFC 8881 section 18.32).
type Stability uint32

// The stabilities, each safer than the one before.
const (
	Unstable Stability = 0
	DataSync Stability = 1
	FileSync Stability = 2
)

// SeekWhat is what [File.Seek] looks for, with the numbers of data_content4
// (RFC 7862 section 11.1).
type SeekWhat uint32

// What to seek.
const (
	SeekData SeekWhat = 0
	SeekHole SeekWhat = 1
)

// File is an open regular file. It stays usable when its last name is removed.
// Its methods check no permission but the mode it was opened with
// (ErrAccess). Several goroutines may use it at once.
type File interface {
	// Object returns which object is open.
	Object() Object

	// GetAttr is as in [Volume].
	GetAttr(ctx context.Context, mask AttrMask) (Attr, error)

	// ReadAt reads up to len(p) bytes at off. eof is true when off+len(p) is at
	// or beyond the end of the file; n is short only then. Holes read as zeros.
	ReadAt(ctx context.Context, p []byte, off uint64) (n int, eof bool, err error)

	// WriteAt writes p at off, all of it unless an error is returned with
	// n < len(p), and makes it at least as safe as stable says. It returns how
	// safe it is. c is who writes, for [ModeAfterWrite]. p is not kept. It fails
	// if data that had to be stable may be lost, whoever was told so first.
	WriteAt(ctx context.Context, c *Cred, p []byte, off uint64, stable Stability) (n int, committed Stability, err error)

	// Commit makes what was written in [off, off+count) stable, count 0 meaning
	// to the end. If it fails the write verifier of the Volume changes, since
	// data written through any open file may be lost, and it has changed before
	// another Commit of the object succeeds: the verifier read after a Commit is
	// the one to answer.
	Commit(ctx context.Context, off, count uint64) error

	// Seek finds the first data or hole at or behind off. ErrNXIO if off is at
	// or beyond the end. The end of the file counts as a hole; eof is true when
	// pos is the end: no data, or no hole but that one, was found. A reported
	// hole never holds a byte that is not 0.
	Seek(ctx context.Context, off uint64, what SeekWhat) (pos uint64, eof bool, err error)

	// Allocate reserves storage and extends the file to off+n if it is shorter.
	// ErrInval if n is 0, ErrFBig beyond the largest file.
	Allocate(ctx context.Context, off, n uint64) error

	// Deallocate makes [off, off+n) a hole within the size of the file. ErrInval
	// if n is 0.
	Deallocate(ctx context.Context, off, n uint64) error

	// Lock takes a byte-range lock for l.Owner, replacing what that owner holds
	// in the range, without waiting: when another owner's lock is in the way it
	// returns that lock and ErrLocked. A read lock needs OpenRead, a write lock
	// OpenWrite (ErrAccess).
	Lock(ctx context.Context, l Lock) (*Lock, error)

	// TestLock returns a lock that would keep l from being granted, or nil.
	TestLock(ctx context.Context, l Lock) (*Lock, error)

	// Unlock removes what l.Owner holds in l's range.
	Unlock(ctx context.Context, l Lock) error

	// Close releases the file. It does not sync: unstable data stay for the
	// Commit of another open, or of the Volume itself. Locks are of the object
	// and their owner, not of the File: unlock them first. After it other calls
	// fail with ErrStale, and another Close does nothing.
	Close() error
}

// Lock is a byte-range lock of an owner, on [Start, End], both included.
type Lock struct {
	Owner uint64 // the server's number for the lock owner; 0 is nobody of ours
	Write bool   // else shared
	Start uint64
	End   uint64 // LockEnd for "to the end of the file, however far it grows"
}

// LockEnd is the largest End.
const LockEnd = math.MaxUint64

// Overlaps reports whether l and m share a byte.
func (l Lock) Overlaps(m Lock) bool { return l.Start <= m.End && m.Start <= l.End }

// Conflicts reports whether l and m cannot be held together.
func (l Lock) Conflicts(m Lock) bool {
	return l.Owner != m.Owner && (l.Write || m.Write) && l.Overlaps(m)
}
