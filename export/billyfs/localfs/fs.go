//go:build linux

package localfs

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"capstan/export"
	"capstan/export/billyfs"
)

// FS is a directory of the machine.
type FS struct {
	dir   string
	root  *os.File // O_PATH
	dev   [2]uint32
	facts billyfs.Facts
}

// Open opens directory dir, following links to it.
func Open(dir string) (*FS, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	f := &FS{dir: dir, root: os.NewFile(uintptr(fd), dir)}
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return nil, f.failed("statx", dir, err)
	}
	f.dev = [2]uint32{st.Dev_major, st.Dev_minor}
	if probe, err := f.openAt(fd, ".", unix.O_PATH, 0, resolveBeneath); err != nil {
		return nil, f.failed("openat2", dir, err)
	} else {
		unix.Close(probe)
	}
	var sf unix.Statfs_t
	if err := unix.Fstatfs(fd, &sf); err == nil && sf.Namelen > 0 {
		f.facts.MaxName = int(min(sf.Namelen, 255))
	}
	f.facts.MaxFileSize = maxFileSize(fd)
	_, err = unix.Lgetxattr(f.magic(fd, "."), "user.capstan", nil)
	f.facts.NoXattrs = err == unix.EOPNOTSUPP
	return f, nil
}

// maxFileSize finds the largest size by setting it on a file without a name;
// 0 if the directory cannot have one.
func maxFileSize(dir int) uint64 {
	fd, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if unix.Ftruncate(fd, math.MaxInt64) == nil {
		return math.MaxInt64
	}
	good, bad := int64(0), int64(math.MaxInt64)
	for bad-good > 1 {
		mid := good + (bad-good)/2
		if unix.Ftruncate(fd, mid) == nil {
			good = mid
		} else {
			bad = mid
		}
	}
	return uint64(good)
}

func (f *FS) failed(op, p string, err error) error {
	f.root.Close()
	return &os.PathError{Op: op, Path: p, Err: err}
}

// Close closes the directory. No other call may be running.
func (f *FS) Close() error { return f.root.Close() }

// Describe implements [billyfs.Describer].
func (f *FS) Describe() billyfs.Facts { return f.facts }

const (
	resolveBeneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS
	resolveInRoot  = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
)

// openAt is openat2(2), tried again when a rename elsewhere disturbed it.
func (f *FS) openAt(dirfd int, p string, flags int, perm uint32, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(perm)
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dirfd, p, &how)
		if (err == unix.EAGAIN || err == unix.EINTR) && try < 128 {
			continue
		}
		return fd, err
	}
}

// clean makes p relative to the root, "." for the root itself.
func clean(p string) string {
	p = path.Clean("/" + p)[1:]
	if p == "" {
		return "."
	}
	return p
}

// at is an open directory and a name in it.
type at struct {
	fd    int
	base  string
	owned bool
}

func (a at) close() {
	if a.owned {
		unix.Close(a.fd)
	}
}

// parent opens the directory that p lies in. The caller closes the result.
func (f *FS) parent(op, p string) (at, error) {
	p = clean(p)
	i := strings.LastIndexByte(p, '/')
	root := int(f.root.Fd())
	if i < 0 {
		return at{fd: root, base: p}, nil
	}
	fd, err := f.openAt(root, p[:i], unix.O_PATH|unix.O_DIRECTORY, 0, resolveBeneath)
	if err != nil {
		return at{}, pathError(op, p, err)
	}
	return at{fd: fd, base: p[i+1:], owned: true}, nil
}

func pathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: p, Err: err}
}

// magic is a path to base in directory fd for the calls that have no *at form.
func (f *FS) magic(fd int, base string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, base)
}

// on runs do on the directory and the last element of p.
func (f *FS) on(op, p string, do func(a at) error) error {
	a, err := f.parent(op, p)
	if err != nil {
		return err
	}
	defer a.close()
	for {
		err = do(a)
		if err != unix.EINTR {
			return pathError(op, p, err)
		}
	}
}

const statxMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// LstatInode implements [billyfs.Inoder].
func (f *FS) LstatInode(p string, _ export.AttrMask) (info billyfs.Info, err error) {
	err = f.on("lstat", p, func(a at) error {
		// One descriptor, so that attributes and generation are of one object.
		fd, err := unix.Openat(a.fd, a.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		info, err = f.infoOf(fd)
		return err
	})
	return info, err
}

// infoOf describes an open object; EXDEV for one of another filesystem.
func (f *FS) infoOf(fd int) (billyfs.Info, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, statxMask, &st); err != nil {
		return billyfs.Info{}, err
	}
	if [2]uint32{st.Dev_major, st.Dev_minor} != f.dev {
		return billyfs.Info{}, unix.EXDEV
	}
	info := billyfs.Info{Attr: export.Attr{
		Type:   typeOf(uint32(st.Mode)),
		Mode:   uint32(st.Mode) & 0o7777,
		Nlink:  st.Nlink,
		UID:    st.Uid,
		GID:    st.Gid,
		Size:   st.Size,
		Used:   st.Blocks * 512,
		Rdev:   export.Device{Major: st.Rdev_major, Minor: st.Rdev_minor},
		FileID: st.Ino,
		Atime:  timespec(st.Atime),
		Mtime:  timespec(st.Mtime),
		Ctime:  timespec(st.Ctime),
	}}
	if st.Mask&unix.STATX_BTIME != 0 {
		info.Btime = timespec(st.Btime)
	}
	info.Generation = generation(fd, &info)
	return info, nil
}

// generation hashes the kernel's file handle, or else the time of birth.
func generation(fd int, info *billyfs.Info) uint32 {
	h := fnv.New32a()
	if fh, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH); err == nil {
		h.Write(fh.Bytes())
	} else {
		fmt.Fprint(h, info.FileID, info.Btime.Sec, info.Btime.Nsec)
	}
	return max(h.Sum32(), 1)
}

func timespec(t unix.StatxTimestamp) export.Timespec {
	return export.Timespec{Sec: t.Sec, Nsec: t.Nsec}
}

func typeOf(mode uint32) export.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return export.TypeDirectory
	case unix.S_IFLNK:
		return export.TypeSymlink
	case unix.S_IFBLK:
		return export.TypeBlock
	case unix.S_IFCHR:
		return export.TypeChar
	case unix.S_IFIFO:
		return export.TypeFIFO
	case unix.S_IFSOCK:
		return export.TypeSocket
	}
	return export.TypeRegular
}

// ReadNames implements [billyfs.DirReader]. Types and numbers are left to a
// look-up: the listing of some filesystems has other numbers than lstat, and
// none has generations.
func (f *FS) ReadNames(p string, fn func(name string, typ export.FileType, ino uint64)) error {
	d, err := f.openDir(p)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(4096)
		for _, n := range names {
			fn(n, 0, 0)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (f *FS) openDir(p string) (*os.File, error) {
	p = clean(p)
	fd, err := f.openAt(int(f.root.Fd()), p, unix.O_RDONLY|unix.O_DIRECTORY, 0, resolveBeneath)
	if err != nil {
		return nil, pathError("open", p, err)
	}
	return os.NewFile(uintptr(fd), p), nil
}

// StatFS implements [billyfs.StatFSer].
func (f *FS) StatFS(string) (export.StatFS, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.root.Fd()), &s); err != nil {
		return export.StatFS{}, pathError("statfs", f.dir, err)
	}
	size := uint64(s.Bsize)
	return export.StatFS{
		TotalBytes: s.Blocks * size, FreeBytes: s.Bfree * size, AvailBytes: s.Bavail * size,
		TotalFiles: s.Files, FreeFiles: s.Ffree, AvailFiles: s.Ffree,
	}, nil
}
