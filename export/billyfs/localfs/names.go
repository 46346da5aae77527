//go:build linux

package localfs

import (
	"errors"

	"golang.org/x/sys/unix"

	"capstan/export"
	"capstan/export/billyfs"
)

// onTwo runs do on the last elements of two paths.
func (f *FS) onTwo(op, from, to string, do func(a, b at) error) error {
	return f.on(op, from, func(a at) error {
		b, err := f.parent(op, to)
		if err != nil {
			return errors.Unwrap(err)
		}
		defer b.close()
		return do(a, b)
	})
}

// Link implements [billyfs.Linker].
func (f *FS) Link(oldPath, newPath string) error {
	return f.onTwo("link", oldPath, newPath, func(a, b at) error {
		return unix.Linkat(a.fd, a.base, b.fd, b.base, 0)
	})
}

// RenameNode implements [billyfs.Renamer].
func (f *FS) RenameNode(from, to string) error {
	return f.onTwo("rename", from, to, func(a, b at) error {
		return unix.Renameat(a.fd, a.base, b.fd, b.base)
	})
}

// Mkdir implements [billyfs.Mkdirer].
func (f *FS) Mkdir(p string, perm uint32) error {
	return f.on("mkdir", p, func(a at) error { return unix.Mkdirat(a.fd, a.base, perm) })
}

// Mknod implements [billyfs.Mknoder].
func (f *FS) Mknod(p string, typ export.FileType, perm uint32, dev export.Device) error {
	var format uint32
	switch typ {
	case export.TypeBlock:
		format = unix.S_IFBLK
	case export.TypeChar:
		format = unix.S_IFCHR
	case export.TypeFIFO:
		format = unix.S_IFIFO
	case export.TypeSocket:
		format = unix.S_IFSOCK
	default:
		return pathError("mknod", p, unix.EINVAL)
	}
	return f.on("mknod", p, func(a at) error {
		return unix.Mknodat(a.fd, a.base, format|perm, int(unix.Mkdev(dev.Major, dev.Minor)))
	})
}

// Unlink implements [billyfs.Remover].
func (f *FS) Unlink(p string) error {
	return f.on("unlink", p, func(a at) error { return unix.Unlinkat(a.fd, a.base, 0) })
}

// Rmdir implements [billyfs.Remover].
func (f *FS) Rmdir(p string) error {
	return f.on("rmdir", p, func(a at) error { return unix.Unlinkat(a.fd, a.base, unix.AT_REMOVEDIR) })
}

// Symlink implements billy.Symlink, without making directories.
func (f *FS) Symlink(target, link string) error {
	return f.on("symlink", link, func(a at) error { return unix.Symlinkat(target, a.fd, a.base) })
}

// Readlink implements billy.Symlink.
func (f *FS) Readlink(link string) (target string, err error) {
	err = f.on("readlink", link, func(a at) error {
		for size := 256; ; size *= 2 {
			buf := make([]byte, size)
			n, err := unix.Readlinkat(a.fd, a.base, buf)
			if err != nil {
				return err
			}
			if n < size {
				target = string(buf[:n])
				return nil
			}
		}
	})
	return target, err
}

// Lchmod implements [billyfs.AttrSetter].
func (f *FS) Lchmod(p string, mode uint32) error {
	return f.on("chmod", p, func(a at) error {
		// fchmodat2 needs Linux 6.6; the link in /proc works on all.
		fd, err := unix.Openat(a.fd, a.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return unix.EOPNOTSUPP
		}
		return unix.Chmod(fdPath(fd), mode)
	})
}

// Lchown implements [billyfs.AttrSetter] and billy.Change.
func (f *FS) Lchown(p string, uid, gid int) error {
	return f.on("lchown", p, func(a at) error {
		return unix.Fchownat(a.fd, a.base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Lutimes implements [billyfs.AttrSetter].
func (f *FS) Lutimes(p string, atime, mtime billyfs.Time) error {
	ts := times(atime, mtime)
	return f.on("utimes", p, func(a at) error {
		return unix.UtimesNanoAt(a.fd, a.base, ts[:], unix.AT_SYMLINK_NOFOLLOW)
	})
}

func times(atime, mtime billyfs.Time) (ts [2]unix.Timespec) {
	for i, t := range []billyfs.Time{atime, mtime} {
		switch {
		case t.Now:
			ts[i].Nsec = unix.UTIME_NOW
		case t.Set:
			ts[i] = unix.Timespec{Sec: t.At.Sec, Nsec: int64(t.At.Nsec)}
		default:
			ts[i].Nsec = unix.UTIME_OMIT
		}
	}
	return ts
}

// SyncEntries implements [billyfs.PathSyncer].
func (f *FS) SyncEntries(p string) error { return f.SyncAttrs(p) }

// SyncAttrs implements [billyfs.PathSyncer]. What cannot be opened (a link, a
// special file) is made stable with the directory it is in.
func (f *FS) SyncAttrs(p string) error {
	return f.on("fsync", p, func(a at) error {
		var st unix.Stat_t
		if err := unix.Fstatat(a.fd, a.base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		base := a.base
		if t := st.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFDIR {
			base = "."
		}
		fd, err := unix.Openat(a.fd, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fsync(fd)
	})
}

// Lgetxattr implements [billyfs.Xattrer].
func (f *FS) Lgetxattr(p, name string) (value []byte, err error) {
	err = f.on("getxattr", p, func(a at) error {
		value, err = grow(func(buf []byte) (int, error) { return unix.Lgetxattr(f.magic(a.fd, a.base), name, buf) })
		return err
	})
	return value, err
}

// Llistxattr implements [billyfs.Xattrer].
func (f *FS) Llistxattr(p string) (names []string, err error) {
	err = f.on("listxattr", p, func(a at) error {
		buf, err := grow(func(buf []byte) (int, error) { return unix.Llistxattr(f.magic(a.fd, a.base), buf) })
		start := 0
		for i, c := range buf {
			if c == 0 {
				names = append(names, string(buf[start:i]))
				start = i + 1
			}
		}
		return err
	})
	return names, err
}

// grow calls get with buffers that grow until what it reads fits.
func grow(get func([]byte) (int, error)) ([]byte, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := get(buf)
		if err == unix.ERANGE && size < 1<<20 {
			continue
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}

// Lsetxattr implements [billyfs.Xattrer].
func (f *FS) Lsetxattr(p, name string, value []byte, mode export.XattrMode) error {
	flags := 0
	switch mode {
	case export.XattrCreate:
		flags = unix.XATTR_CREATE
	case export.XattrReplace:
		flags = unix.XATTR_REPLACE
	}
	err := f.on("setxattr", p, func(a at) error {
		return unix.Lsetxattr(f.magic(a.fd, a.base), name, value, flags)
	})
	if errors.Is(err, unix.ENOSPC) && len(value) > 2048 {
		// ext4 says so when a value does not fit its one block.
		return pathError("setxattr", p, unix.E2BIG)
	}
	return err
}

// Lremovexattr implements [billyfs.Xattrer].
func (f *FS) Lremovexattr(p, name string) error {
	return f.on("removexattr", p, func(a at) error { return unix.Lremovexattr(f.magic(a.fd, a.base), name) })
}
