//go:build cgo && librados

package libcephfs

import (
	"errors"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/ceph/go-ceph/cephfs"
	"golang.org/x/sys/unix"

	"capstan/export"
	"capstan/export/billyfs"
)

// snapDir is the name under which libcephfs shows snapshots.
const snapDir = ".snap"

// path makes p absolute in the mount. ENOENT for one that leads into a
// snapshot, EINVAL for one with a NUL.
func (f *FS) path(op, p string) (string, error) {
	abs := path.Clean("/" + f.sub + "/" + p)
	if strings.IndexByte(abs, 0) >= 0 {
		return "", &os.PathError{Op: op, Path: p, Err: syscall.EINVAL}
	}
	for _, name := range strings.Split(abs, "/") {
		if name == snapDir {
			return "", &os.PathError{Op: op, Path: p, Err: syscall.ENOENT}
		}
		if len(name) > 255 {
			return "", &os.PathError{Op: op, Path: p, Err: syscall.ENAMETOOLONG}
		}
	}
	return abs, nil
}

// call runs do on p in the library.
func (f *FS) call(op, p string, do func(p string) error) error {
	abs, err := f.path(op, p)
	if err != nil {
		return err
	}
	f.enter()
	defer f.leave()
	return f.seen(pathError(op, p, do(abs)))
}

func (f *FS) call2(op, from, to string, do func(from, to string) error) error {
	abs, err := f.path(op, to)
	if err != nil {
		return err
	}
	return f.call(op, from, func(p string) error { return do(p, abs) })
}

// seen passes on the error of a call, and tells if it says that the cluster has
// shut us out.
func (f *FS) seen(err error) error {
	if err != nil && f.opt.Lost != nil && errors.Is(err, syscall.ESHUTDOWN) {
		f.opt.Lost(err)
	}
	return err
}

func pathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: p, Err: errnoOf(err)}
}

// Bits of statx that go-ceph has no name for (cephfs/ceph_ll_client.h).
const (
	statxGid   = cephfs.StatxMask(0x8)
	statxCtime = cephfs.StatxMask(0x80)
)

// statxMask asks for no more than mask needs: each bit may cost a cap.
func statxMask(mask export.AttrMask) cephfs.StatxMask {
	m := cephfs.StatxIno
	if mask&export.MaskAuth != 0 {
		m |= cephfs.StatxMode | cephfs.StatxUid | statxGid | cephfs.StatxRdev | cephfs.StatxBtime
	}
	if mask&export.MaskLink != 0 {
		m |= cephfs.StatxNlink
	}
	if mask&export.MaskFile != 0 {
		m |= cephfs.StatxSize | cephfs.StatxBlocks | cephfs.StatxAtime | cephfs.StatxMtime
	}
	if mask&export.MaskChange != 0 {
		m |= cephfs.StatxVersion | statxCtime
	}
	return m
}

// LstatInode implements [billyfs.Inoder]. CephFS never uses an inode number
// again, so there is no generation.
func (f *FS) LstatInode(p string, mask export.AttrMask) (info billyfs.Info, err error) {
	err = f.call("lstat", p, func(p string) error {
		st, err := f.mount.Statx(p, statxMask(mask), cephfs.AtSymlinkNofollow)
		if err == nil {
			info = infoOf(st)
		}
		return err
	})
	return info, err
}

func infoOf(st *cephfs.CephStatx) billyfs.Info {
	a := export.Attr{
		Type:   typeOf(st.Mode),
		Mode:   uint32(st.Mode) & 0o7777,
		Nlink:  st.Nlink,
		UID:    st.Uid,
		GID:    st.Gid,
		Size:   st.Size,
		Used:   st.Blocks * 512,
		Rdev:   export.Device{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)},
		FileID: uint64(st.Inode),
		Atime:  timespec(st.Atime),
		Mtime:  timespec(st.Mtime),
		Ctime:  timespec(st.Ctime),
		Btime:  timespec(st.Btime),
	}
	// The MDS keeps the largest of its writers' counters, so two writers may both
	// go from 5 to 6; their ctime tells them apart. Both only grow, and so does
	// the sum. The library itself may show a directory as it was before a rename
	// of ours for a while; the Volume sees to that.
	stamp := st.Version + uint64(a.Ctime.Sec)*1e9 + uint64(a.Ctime.Nsec)
	return billyfs.Info{Attr: a, Stamp: stamp}
}

func timespec(t cephfs.Timespec) export.Timespec {
	return export.Timespec{Sec: t.Sec, Nsec: uint32(t.Nsec)}
}

func typeOf(mode uint16) export.FileType {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return export.TypeDirectory
	case syscall.S_IFLNK:
		return export.TypeSymlink
	case syscall.S_IFBLK:
		return export.TypeBlock
	case syscall.S_IFCHR:
		return export.TypeChar
	case syscall.S_IFIFO:
		return export.TypeFIFO
	case syscall.S_IFSOCK:
		return export.TypeSocket
	}
	return export.TypeRegular
}

// Link implements [billyfs.Linker].
func (f *FS) Link(oldPath, newPath string) error {
	return f.call2("link", oldPath, newPath, func(from, to string) error {
		st, err := f.mount.Statx(from, cephfs.StatxIno, cephfs.AtSymlinkNofollow)
		if err != nil {
			return err
		}
		if typeOf(st.Mode) == export.TypeSymlink {
			return syscall.EOPNOTSUPP // no-link-links: it would link the target
		}
		return f.mount.Link(from, to)
	})
}

// RenameNode implements [billyfs.Renamer].
func (f *FS) RenameNode(from, to string) error {
	return f.call2("rename", from, to, f.mount.Rename)
}

// Mkdir implements [billyfs.Mkdirer].
func (f *FS) Mkdir(p string, perm uint32) error {
	return f.call("mkdir", p, func(p string) error { return f.mount.MakeDir(p, perm) })
}

// Mknod implements [billyfs.Mknoder].
func (f *FS) Mknod(p string, typ export.FileType, perm uint32, dev export.Device) error {
	var format uint32
	switch typ {
	case export.TypeBlock:
		format = syscall.S_IFBLK
	case export.TypeChar:
		format = syscall.S_IFCHR
	case export.TypeFIFO:
		format = syscall.S_IFIFO
	case export.TypeSocket:
		format = syscall.S_IFSOCK
	default:
		return pathError("mknod", p, syscall.EINVAL)
	}
	if dev.Major >= 1<<12 || dev.Minor >= 1<<20 {
		return pathError("mknod", p, syscall.EINVAL) // CephFS keeps 32 bits, as Linux does
	}
	return f.call("mknod", p, func(p string) error { return f.mknod(p, format|perm&0o7777, dev) })
}

// Unlink implements [billyfs.Remover].
func (f *FS) Unlink(p string) error { return f.call("unlink", p, f.mount.Unlink) }

// Rmdir implements [billyfs.Remover].
func (f *FS) Rmdir(p string) error { return f.call("rmdir", p, f.mount.RemoveDir) }

// Symlink implements billy.Symlink, without making directories.
func (f *FS) Symlink(target, link string) error {
	return f.call("symlink", link, func(p string) error { return f.mount.Symlink(target, p) })
}

// Readlink implements billy.Symlink.
func (f *FS) Readlink(link string) (target string, err error) {
	err = f.call("readlink", link, func(p string) error {
		target, err = f.mount.Readlink(p)
		return err
	})
	return target, err
}

// ReadNames implements [billyfs.DirReader].
func (f *FS) ReadNames(p string, fn func(name string, typ export.FileType, ino uint64)) error {
	return f.call("readdir", p, func(p string) error {
		d, err := f.mount.OpenDir(p)
		if err != nil {
			return err
		}
		defer d.Close()
		for {
			e, err := d.ReadDir()
			if err != nil {
				return err
			}
			if e == nil {
				return nil
			}
			if n := e.Name(); n != "." && n != ".." {
				fn(n, typeOf(uint16(e.DType())<<12), uint64(e.Inode())) // DT_x is S_IFx >> 12
			}
		}
	})
}

// StatFS implements [billyfs.StatFSer].
func (f *FS) StatFS(p string) (out export.StatFS, err error) {
	err = f.call("statfs", p, func(p string) error {
		s, err := f.mount.StatFS(p)
		if err != nil {
			return err
		}
		size := uint64(s.Frsize)
		if size == 0 {
			size = uint64(s.Bsize)
		}
		// CephFS sets no limit to inodes and says so with all ones.
		const plenty = 1 << 32
		out = export.StatFS{
			TotalBytes: s.Blocks * size, FreeBytes: s.Bfree * size, AvailBytes: s.Bavail * size,
			TotalFiles: s.Files + plenty, FreeFiles: plenty, AvailFiles: plenty,
		}
		return nil
	})
	return out, err
}
