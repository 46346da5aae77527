package billyfs

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-git/go-billy/v5"

	"capstan/export"
)

// handle is an open file of a [Filesystem].
type handle struct {
	fs     *Filesystem
	name   string
	f      export.File
	append bool // O_APPEND: write at the end, atomic among the writes of this handle

	mu    sync.Mutex // held while the position matters
	pos   uint64     // guarded by mu
	owner atomic.Uint64

	syncMu   sync.Mutex
	unsynced bool    // guarded by syncMu: something was written since the last Sync
	verifier [8]byte // guarded by syncMu: the Volume's before the first of that
}

var (
	_ billy.File  = (*handle)(nil)
	_ io.WriterAt = (*handle)(nil)
	_ Syncer      = (*handle)(nil)
)

// Name implements billy.File.
func (h *handle) Name() string { return h.name }

// Object returns which object is open.
func (h *handle) Object() export.Object { return h.f.Object() }

// ReadAt implements io.ReaderAt.
func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, asPathError("read", h.name, export.ErrInval)
	}
	n, _, err := h.f.ReadAt(h.fs.ctx, p, uint64(off))
	if err == nil && n < len(p) {
		return n, io.EOF
	}
	return n, asPathError("read", h.name, err)
}

// Read implements io.Reader.
func (h *handle) Read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.ReadAt(p, int64(h.pos))
	h.pos += uint64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// WriteAt implements io.WriterAt. The data are stable after Sync.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, asPathError("write", h.name, export.ErrInval)
	}
	verifier := h.fs.v.WriteVerifier()
	n, _, err := h.f.WriteAt(h.fs.ctx, h.fs.cred, p, uint64(off), export.Unstable)
	h.syncMu.Lock()
	if !h.unsynced {
		h.unsynced, h.verifier = true, verifier
	}
	h.syncMu.Unlock()
	return n, asPathError("write", h.name, err)
}

// Write implements io.Writer.
func (h *handle) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.append {
		a, err := h.f.GetAttr(h.fs.ctx, export.MaskFile)
		if err != nil {
			return 0, asPathError("write", h.name, err)
		}
		h.pos = a.Size
	}
	n, err := h.WriteAt(p, int64(h.pos))
	h.pos += uint64(n)
	return n, err
}

// Seek implements io.Seeker.
func (h *handle) Seek(offset int64, whence int) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += int64(h.pos)
	case io.SeekEnd:
		a, err := h.f.GetAttr(h.fs.ctx, export.MaskFile)
		if err != nil {
			return 0, asPathError("seek", h.name, err)
		}
		offset += int64(a.Size)
	default:
		return 0, asPathError("seek", h.name, export.ErrInval)
	}
	if offset < 0 {
		return 0, asPathError("seek", h.name, export.ErrInval)
	}
	h.pos = uint64(offset)
	return offset, nil
}

// Truncate implements billy.File.
func (h *handle) Truncate(size int64) error {
	if size < 0 {
		return asPathError("truncate", h.name, export.ErrInval)
	}
	_, err := h.fs.v.SetAttr(h.fs.ctx, h.fs.cred, h.f.Object(), h.f, &export.SetAttr{Set: export.SetSize, Size: uint64(size)})
	return asPathError("truncate", h.name, err)
}

// Sync makes what was written stable. It fails too if a Commit of another file
// was told that data were lost, since they may be ours.
func (h *handle) Sync() error {
	h.syncMu.Lock()
	unsynced, verifier := h.unsynced, h.verifier
	h.unsynced = false
	h.syncMu.Unlock()
	err := h.f.Commit(h.fs.ctx, 0, 0)
	if err == nil && unsynced && h.fs.v.WriteVerifier() != verifier {
		err = export.ErrIO
	}
	return asPathError("sync", h.name, err)
}

// Stat returns the file's attributes.
func (h *handle) Stat() (os.FileInfo, error) {
	a, err := h.f.GetAttr(h.fs.ctx, export.MaskAll)
	if err != nil {
		return nil, asPathError("stat", h.name, err)
	}
	return fileInfo{h.name, a}, nil
}

// Close implements billy.File: it drops the lock.
func (h *handle) Close() error {
	if h.owner.Load() != 0 {
		_ = h.Unlock() // closing releases it all the same
	}
	return asPathError("close", h.name, h.f.Close())
}

// lockOwners numbers the owners of locks taken through a Filesystem, far from
// the numbers of the NFS server.
var lockOwners atomic.Uint64

// Lock implements billy.File: a lock on the whole file, exclusive if it is open
// for writing. It waits.
func (h *handle) Lock() error {
	h.owner.CompareAndSwap(0, 1<<63|lockOwners.Add(1))
	l := export.Lock{Owner: h.owner.Load(), Write: true, End: export.LockEnd}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		_, err := h.f.Lock(h.fs.ctx, l)
		switch export.StatusOf(err) {
		case export.ErrAccess:
			if !l.Write {
				return asPathError("lock", h.name, err)
			}
			l.Write = false // open for reading only: shared
			continue
		case export.ErrLocked:
		default:
			return asPathError("lock", h.name, err)
		}
		select {
		case <-h.fs.ctx.Done():
			return asPathError("lock", h.name, h.fs.ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Unlock implements billy.File.
func (h *handle) Unlock() error {
	l := export.Lock{Owner: h.owner.Load(), Write: true, End: export.LockEnd}
	return asPathError("unlock", h.name, h.f.Unlock(h.fs.ctx, l))
}

// fileInfo is an os.FileInfo of a Volume's object.
type fileInfo struct {
	name string
	attr export.Attr
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return int64(i.attr.Size) }
func (i fileInfo) Mode() os.FileMode  { return FileMode(&i.attr) }
func (i fileInfo) ModTime() time.Time { return i.attr.Mtime.Time() }
func (i fileInfo) IsDir() bool        { return i.attr.Type == export.TypeDirectory }

// Sys returns a *syscall.Stat_t on Linux, as package os does, which is what
// tar, go-git and go-nfs look for.
func (i fileInfo) Sys() any { return sysOf(&i.attr) }

// errnoOf says statuses in errno, for callers that know nothing else: the
// inverse of package export's table where that has one errno for a status.
var errnoOf = map[export.Status]syscall.Errno{
	export.ErrPerm: syscall.EPERM, export.ErrNoEnt: syscall.ENOENT, export.ErrIO: syscall.EIO,
	export.ErrNXIO: syscall.ENXIO, export.ErrAccess: syscall.EACCES, export.ErrExist: syscall.EEXIST,
	export.ErrXDev: syscall.EXDEV, export.ErrNotDir: syscall.ENOTDIR, export.ErrIsDir: syscall.EISDIR,
	export.ErrInval: syscall.EINVAL, export.ErrFBig: syscall.EFBIG, export.ErrNoSpc: syscall.ENOSPC,
	export.ErrROFS: syscall.EROFS, export.ErrMLink: syscall.EMLINK, export.ErrNameTooLong: syscall.ENAMETOOLONG,
	export.ErrNotEmpty: syscall.ENOTEMPTY, export.ErrDQuot: syscall.EDQUOT, export.ErrStale: syscall.ESTALE,
	export.ErrNotSupp: syscall.EOPNOTSUPP, export.ErrDelay: syscall.EAGAIN, export.ErrSymlink: syscall.ELOOP,
	export.ErrBadName: syscall.EILSEQ, export.ErrFileOpen: syscall.ETXTBSY, export.ErrLocked: syscall.EAGAIN,
	export.ErrDeadlock: syscall.EDEADLK, export.ErrCanceled: syscall.ECANCELED,
}

// asPathError makes err what package os would return; nil for nil.
func asPathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	if n, ok := errnoOf[export.StatusOf(err)]; ok {
		err = n
	}
	return &os.PathError{Op: op, Path: p, Err: err}
}
