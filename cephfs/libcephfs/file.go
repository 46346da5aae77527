//go:build cgo && librados

package libcephfs

import (
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/ceph/go-ceph/cephfs"

	"capstan/export"
	"capstan/export/billyfs"
)

// File is an open file: a billy.File with the extensions libcephfs has.
type File struct {
	fs   *FS
	name string

	// mu is held shared by every call that uses f, so that its number is not
	// closed, and given to another file, meanwhile.
	mu     sync.RWMutex
	f      *cephfs.File
	closed bool // guarded by mu

	posMu sync.Mutex
	pos   int64 // of Read, Write and Seek; guarded by posMu
}

// OpenNode implements [billyfs.Opener].
func (f *FS) OpenNode(p string, flag int, perm uint32) (billyfs.File, error) {
	return f.open(p, flag|syscall.O_NOFOLLOW, perm)
}

func (f *FS) open(p string, flag int, perm uint32) (*File, error) {
	file := &File{fs: f, name: p}
	err := f.call("open", p, func(p string) (err error) {
		file.f, err = f.mount.Open(p, flag, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

// use runs do while f is sure to be open.
func (f *File) use(op string, do func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return pathError(op, f.name, os.ErrClosed)
	}
	f.fs.enter()
	defer f.fs.leave()
	return f.fs.seen(pathError(op, f.name, do()))
}

// maxIO bounds one call, whose result the library returns in an int.
const maxIO = 1 << 26

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	eof := false
	err = f.use("read", func() error {
		for n < len(p) {
			m, err := f.f.ReadAt(p[n:min(len(p), n+maxIO)], off+int64(n))
			n += max(m, 0)
			if err == io.EOF || err == nil && m == 0 {
				eof = true
				return nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && eof {
		err = io.EOF
	}
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	err = f.use("write", func() error {
		for n < len(p) {
			m, err := f.f.WriteAt(p[n:min(len(p), n+maxIO)], off+int64(n))
			if err != nil {
				return err
			}
			if m == 0 {
				return syscall.EIO
			}
			n += m
		}
		return nil
	})
	return n, err
}

// Truncate implements billy.File. The library leaves the time of last change
// alone, which ftruncate(2) moves even if the size stays.
func (f *File) Truncate(size int64) error {
	return f.use("ftruncate", func() error {
		if err := f.f.Truncate(size); err != nil {
			return err
		}
		return setTimes(f.f, billyfs.Time{}, billyfs.Time{Set: true, Now: true})
	})
}

// Close implements billy.File. It waits for calls on the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, os.ErrClosed)
	}
	f.closed = true
	f.fs.enter()
	defer f.fs.leave()
	return pathError("close", f.name, f.f.Close())
}

// Sync implements [billyfs.Syncer].
func (f *File) Sync() error {
	return f.use("fsync", func() error { return f.f.Fsync(cephfs.SyncAll) })
}

// SyncAttrs implements [billyfs.AttrSyncer]. With SyncMetadata it is an fsync.
// That waits for a flush of attributes only if the flush has not begun, and
// opening a file begins it, so changes must come through a file opened before.
//
// Without SyncMetadata it only takes care that the MDS has the attributes, as it
// has the names: an open of the file makes the library send them, and an unlock
// of nothing is a request that the MDS answers after it has taken them, on the
// same connection, without writing its journal.
func (f *File) SyncAttrs() error {
	if f.fs.opt.SyncMetadata {
		return f.Sync()
	}
	abs, err := f.fs.path("fsync", f.name)
	if err != nil {
		return err
	}
	flushed := false
	err = f.use("flush", func() error {
		g, err := f.fs.mount.Open(abs, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return nil // renamed or removed: a sync needs no name
		}
		defer g.Close()
		a, err := f.f.Fstatx(cephfs.StatxIno, 0)
		if err != nil {
			return err
		}
		b, err := g.Fstatx(cephfs.StatxIno, 0)
		if err != nil {
			return err
		}
		if a.Inode != b.Inode {
			return nil
		}
		flushed = true
		return g.Flock(cephfs.LockUN|cephfs.LockNB, barrierOwner)
	})
	if err != nil || flushed {
		return err
	}
	return f.Sync()
}

// barrierOwner is the flock owner of SyncAttrs, which never holds a lock.
const barrierOwner = 1 << 62

// Datasync implements [billyfs.DataSyncer].
func (f *File) Datasync() error {
	return f.use("fdatasync", func() error { return f.f.Fsync(cephfs.SyncDataOnly) })
}

// StatInode implements [billyfs.FileStater].
func (f *File) StatInode(mask export.AttrMask) (info billyfs.Info, err error) {
	err = f.use("fstat", func() error {
		st, err := f.f.Fstatx(statxMask(mask), 0)
		if err == nil {
			info = infoOf(st)
		}
		return err
	})
	return info, err
}

// Chmod implements [billyfs.FileAttrSetter].
func (f *File) Chmod(mode uint32) error {
	return f.use("fchmod", func() error { return f.f.Fchmod(mode) })
}

// Chown implements [billyfs.FileAttrSetter].
func (f *File) Chown(uid, gid int) error {
	return f.use("fchown", func() error { return f.f.Fchown(uint32(uid), uint32(gid)) })
}

// Chtimes implements [billyfs.FileAttrSetter].
func (f *File) Chtimes(atime, mtime billyfs.Time) error {
	return f.use("futimens", func() error { return setTimes(f.f, atime, mtime) })
}

// Allocate implements [billyfs.Allocator]; see no-allocate.
func (f *File) Allocate(int64, int64) error {
	return pathError("fallocate", f.name, syscall.EOPNOTSUPP)
}

// Deallocate implements [billyfs.Allocator].
func (f *File) Deallocate(off, n int64) error {
	return f.use("fallocate", func() error {
		return f.f.Fallocate(cephfs.FallocFlPunchHole|cephfs.FallocFlKeepSize, off, n)
	})
}

// Name implements billy.File.
func (f *File) Name() string { return f.name }

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	f.posMu.Lock()
	defer f.posMu.Unlock()
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	f.posMu.Lock()
	defer f.posMu.Unlock()
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// Seek implements io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.posMu.Lock()
	defer f.posMu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		info, err := f.StatInode(export.MaskFile)
		if err != nil {
			return 0, err
		}
		offset += int64(info.Size)
	default:
		return 0, pathError("seek", f.name, syscall.EINVAL)
	}
	if offset < 0 {
		return 0, pathError("seek", f.name, syscall.EINVAL)
	}
	f.pos = offset
	return offset, nil
}

// Lock implements billy.File with flock(2), for the whole mount.
func (f *File) Lock() error {
	return f.use("flock", func() error { return f.f.Flock(cephfs.LockEX, uint64(f.f.Fd())) })
}

// Unlock implements billy.File.
func (f *File) Unlock() error {
	return f.use("flock", func() error { return f.f.Flock(cephfs.LockUN, uint64(f.f.Fd())) })
}
