//go:build cgo && librados

package libcephfs

import (
	"errors"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/ceph/go-ceph/cephfs"

	"capstan/export"
	"capstan/export/billyfs"
)

// Lchmod implements [billyfs.AttrSetter].
func (f *FS) Lchmod(p string, mode uint32) error {
	return f.call("lchmod", p, func(p string) error { return f.lchmod(p, mode) })
}

// Lchown implements [billyfs.AttrSetter] and billy.Change.
func (f *FS) Lchown(p string, uid, gid int) error {
	return f.call("lchown", p, func(p string) error { return f.mount.Lchown(p, uint32(uid), uint32(gid)) })
}

// Truncate implements [billyfs.Truncater].
func (f *FS) Truncate(p string, size int64) error {
	file, err := f.open(p, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}

// Lutimes implements [billyfs.AttrSetter].
func (f *FS) Lutimes(p string, atime, mtime billyfs.Time) error {
	return f.call("lutimes", p, func(p string) error { return f.lutimes(p, atime, mtime) })
}

// setTimes sets both times, since libcephfs knows no "leave it": one not asked
// for is set to what it is.
func setTimes(file *cephfs.File, atime, mtime billyfs.Time) error {
	now := export.TimespecOf(time.Now())
	st, err := file.Fstatx(cephfs.StatxAtime|cephfs.StatxMtime, 0)
	if err != nil {
		return err
	}
	pick := func(t billyfs.Time, old cephfs.Timespec) cephfs.Timespec {
		switch {
		case t.Now:
			return cephfs.Timespec{Sec: now.Sec, Nsec: int64(now.Nsec)}
		case t.Set:
			return clampTime(t.At)
		}
		return old
	}
	return file.Futimens([]cephfs.Timespec{pick(atime, st.Atime), pick(mtime, st.Mtime)})
}

// clampTime moves t into what CephFS can keep, 1970 to 2106, as the kernel's
// client does.
func clampTime(t export.Timespec) cephfs.Timespec {
	switch {
	case t.Sec < 0:
		return cephfs.Timespec{}
	case t.Sec > math.MaxUint32:
		return cephfs.Timespec{Sec: math.MaxUint32}
	}
	return cephfs.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}
}

// SyncEntries implements [billyfs.PathSyncer].
func (f *FS) SyncEntries(p string) error {
	if !f.opt.SyncMetadata {
		return nil // lazy-metadata
	}
	return f.SyncAttrs(p)
}

// OpenAttrs implements [billyfs.AttrOpener]. A client that holds the caps for it
// changes attributes in its own memory, and a kill of the process would take
// them back, so they go to the MDS before the reply; see [File.SyncAttrs].
func (f *FS) OpenAttrs(p string, write bool) (billyfs.File, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	return f.open(p, flag|syscall.O_NOFOLLOW, 0)
}

// SyncAttrs implements [billyfs.PathSyncer], for what the MDS itself changed.
func (f *FS) SyncAttrs(p string) error {
	return f.call("fsync", p, func(p string) error {
		st, err := f.mount.Statx(p, cephfs.StatxIno, cephfs.AtSymlinkNofollow)
		if err != nil {
			return err
		}
		if t := typeOf(st.Mode); t != export.TypeRegular && t != export.TypeDirectory {
			return nil // flushed with its directory
		}
		file, err := f.mount.Open(p, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		return errors.Join(errnoOf(file.Sync()), errnoOf(file.Close()))
	})
}

// maxXattrs is mds_max_xattr_pairs_size, the bytes that all attributes of an
// inode may have, as it is by default.
const maxXattrs = 64 << 10

// Lgetxattr implements [billyfs.Xattrer].
func (f *FS) Lgetxattr(p, name string) (value []byte, err error) {
	err = f.call("getxattr", p, func(p string) error {
		value, err = f.mount.LgetXattr(p, name)
		return err
	})
	return value, err
}

// Lsetxattr implements [billyfs.Xattrer].
func (f *FS) Lsetxattr(p, name string, value []byte, mode export.XattrMode) error {
	if len(value) == 0 {
		return pathError("setxattr", p, syscall.EINVAL) // empty-xattr
	}
	var flags cephfs.XattrFlags
	switch mode {
	case export.XattrCreate:
		flags = cephfs.XattrCreate
	case export.XattrReplace:
		flags = cephfs.XattrReplace
	}
	err := f.call("setxattr", p, func(p string) error { return f.mount.LsetXattr(p, name, value, flags) })
	if errors.Is(err, syscall.ENOSPC) && len(name)+len(value) >= maxXattrs {
		// The MDS says so of one too big and of too many alike.
		return pathError("setxattr", p, syscall.E2BIG)
	}
	return err
}

// Llistxattr implements [billyfs.Xattrer].
func (f *FS) Llistxattr(p string) (names []string, err error) {
	err = f.call("listxattr", p, func(p string) error {
		names, err = f.mount.LlistXattr(p)
		return err
	})
	return names, err
}

// Lremovexattr implements [billyfs.Xattrer].
func (f *FS) Lremovexattr(p, name string) error {
	return f.call("removexattr", p, func(p string) error { return f.mount.LremoveXattr(p, name) })
}
