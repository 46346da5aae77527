//go:build linux

package localfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"capstan/export"
	"capstan/export/billyfs"
)

// File is an open regular file: a billy.File with every extension.
type File struct {
	*os.File
	fs *FS
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// OpenNode implements [billyfs.Opener].
func (f *FS) OpenNode(p string, flag int, perm uint32) (billyfs.File, error) {
	a, err := f.parent("open", p)
	if err != nil {
		return nil, err
	}
	defer a.close()
	// O_NONBLOCK: a FIFO put there by others must not hold us up.
	fd, err := f.openAt(a.fd, a.base, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, perm, resolveBeneath)
	if err != nil {
		return nil, pathError("open", p, err)
	}
	return f.newFile(fd, p)
}

// newFile takes over fd, which must be a regular file.
func (f *FS) newFile(fd int, p string) (*File, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	switch t := st.Mode & unix.S_IFMT; {
	case err != nil:
	case t == unix.S_IFDIR:
		err = unix.EISDIR
	case t != unix.S_IFREG:
		err = unix.EINVAL
	default:
		err = unix.SetNonblock(fd, false) // keeps package os from polling it
	}
	if err != nil {
		unix.Close(fd)
		return nil, pathError("open", p, err)
	}
	return &File{os.NewFile(uintptr(fd), p), f}, nil
}

// with runs do on the descriptor, which stays open meanwhile.
func (f *File) with(op string, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = conn.Control(func(fd uintptr) {
		for {
			inner = do(int(fd))
			if inner != unix.EINTR {
				return
			}
		}
	})
	if err == nil {
		err = inner
	}
	return pathError(op, f.Name(), err)
}

// StatInode implements [billyfs.FileStater].
func (f *File) StatInode(export.AttrMask) (info billyfs.Info, err error) {
	err = f.with("fstat", func(fd int) error {
		info, err = f.fs.infoOf(fd)
		return err
	})
	return info, err
}

// Reopen implements [billyfs.Reopener].
func (f *File) Reopen(flag int) (file billyfs.File, err error) {
	err = f.with("open", func(fd int) error {
		n, err := unix.Open(fdPath(fd), flag|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		file, err = f.fs.newFile(n, f.Name())
		return err
	})
	return file, err
}

// Datasync implements [billyfs.DataSyncer].
func (f *File) Datasync() error { return f.with("fdatasync", unix.Fdatasync) }

// Chmod implements [billyfs.FileAttrSetter].
func (f *File) Chmod(mode uint32) error {
	return f.with("fchmod", func(fd int) error { return unix.Fchmod(fd, mode) })
}

// Chtimes implements [billyfs.FileAttrSetter].
func (f *File) Chtimes(atime, mtime billyfs.Time) error {
	ts := times(atime, mtime)
	return f.with("utimes", func(fd int) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, fdPath(fd), ts[:], 0)
	})
}

// SeekHole implements [billyfs.HoleSeeker].
func (f *File) SeekHole(off int64, what export.SeekWhat) (pos int64, err error) {
	whence := unix.SEEK_DATA
	if what == export.SeekHole {
		whence = unix.SEEK_HOLE
	}
	err = f.with("lseek", func(fd int) error {
		pos, err = unix.Seek(fd, off, whence)
		return err
	})
	return pos, err
}

// Allocate implements [billyfs.Allocator]. The size moves only once there is
// room for it all: fallocate(2) may fail half-way.
func (f *File) Allocate(off, n int64) error {
	return f.with("fallocate", func(fd int) error {
		if err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n); err != nil {
			return err
		}
		return unix.Fallocate(fd, 0, off, n)
	})
}

// Deallocate implements [billyfs.Allocator].
func (f *File) Deallocate(off, n int64) error {
	return f.with("fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}

// Lock implements billy.File with flock(2).
func (f *File) Lock() error {
	return f.with("flock", func(fd int) error { return unix.Flock(fd, unix.LOCK_EX) })
}

// Unlock implements billy.File.
func (f *File) Unlock() error {
	return f.with("flock", func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
}
