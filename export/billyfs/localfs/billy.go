//go:build linux

package localfs

import (
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/util"
	"golang.org/x/sys/unix"

	"capstan/export/billyfs"
)

// The methods of billy that a Volume does not use: they follow links, inside
// the root, and make parent directories, as billy wants it.

var (
	_ billy.Filesystem   = (*FS)(nil)
	_ billy.Change       = (*FS)(nil)
	_ billy.File         = (*File)(nil)
	_ billyfs.Inoder     = (*FS)(nil)
	_ billyfs.Opener     = (*FS)(nil)
	_ billyfs.AttrSetter = (*FS)(nil)
	_ billyfs.Xattrer    = (*FS)(nil)
	_ billyfs.DirReader  = (*FS)(nil)
	_ billyfs.PathSyncer = (*FS)(nil)
	_ billyfs.StatFSer   = (*FS)(nil)
	_ billyfs.Renamer    = (*FS)(nil)
	_ billyfs.Remover    = (*FS)(nil)

	_ billyfs.FileStater     = (*File)(nil)
	_ billyfs.FileAttrSetter = (*File)(nil)
	_ billyfs.HoleSeeker     = (*File)(nil)
	_ billyfs.Allocator      = (*File)(nil)
	_ billyfs.Reopener       = (*File)(nil)
	_ billyfs.Syncer         = (*File)(nil)
	_ billyfs.DataSyncer     = (*File)(nil)
)

// Capabilities implements billy.Capable.
func (f *FS) Capabilities() billy.Capability { return billy.AllCapabilities }

// Root implements billy.Chroot.
func (f *FS) Root() string { return f.dir }

// Join implements billy.Basic.
func (f *FS) Join(elem ...string) string { return path.Join(elem...) }

// Chroot implements billy.Chroot.
func (f *FS) Chroot(p string) (billy.Filesystem, error) {
	return Open(path.Join(f.dir, clean(p)))
}

// Create implements billy.Basic.
func (f *FS) Create(p string) (billy.File, error) {
	return f.OpenFile(p, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open implements billy.Basic.
func (f *FS) Open(p string) (billy.File, error) { return f.OpenFile(p, os.O_RDONLY, 0) }

// OpenFile implements billy.Basic.
func (f *FS) OpenFile(p string, flag int, perm os.FileMode) (billy.File, error) {
	p = clean(p)
	if flag&os.O_CREATE != 0 {
		if err := f.MkdirAll(path.Dir(p), 0o755); err != nil {
			return nil, err
		}
	}
	fd, err := f.openAt(int(f.root.Fd()), p, flag|unix.O_NONBLOCK|unix.O_NOCTTY, uint32(perm.Perm()), resolveInRoot)
	if err != nil {
		return nil, pathError("open", p, err)
	}
	return f.newFile(fd, p)
}

// Stat implements billy.Basic.
func (f *FS) Stat(p string) (os.FileInfo, error) {
	p = clean(p)
	fd, err := f.openAt(int(f.root.Fd()), p, unix.O_PATH, 0, resolveInRoot)
	if err != nil {
		return nil, pathError("stat", p, err)
	}
	file := os.NewFile(uintptr(fd), p)
	defer file.Close()
	return file.Stat()
}

// Lstat implements billy.Symlink.
func (f *FS) Lstat(p string) (fi os.FileInfo, err error) {
	err = f.on("lstat", p, func(a at) error {
		fd, err := unix.Openat(a.fd, a.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		file := os.NewFile(uintptr(fd), a.base)
		defer file.Close()
		fi, err = file.Stat()
		return err
	})
	return fi, err
}

// ReadDir implements billy.Dir.
func (f *FS) ReadDir(p string) ([]os.FileInfo, error) {
	d, err := f.openDir(p)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	es, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var fis []os.FileInfo
	for _, e := range es {
		fi, err := f.Lstat(path.Join(clean(p), e.Name()))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		fis = append(fis, fi)
	}
	sortInfos(fis)
	return fis, nil
}

// MkdirAll implements billy.Dir.
func (f *FS) MkdirAll(p string, perm os.FileMode) error {
	p = clean(p)
	if p == "." {
		return nil
	}
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		err := f.Mkdir(p[:i], uint32(perm.Perm()))
		if err == nil {
			continue
		}
		fi, err2 := f.Stat(p[:i])
		if err2 != nil {
			return err
		}
		if !fi.IsDir() {
			return pathError("mkdir", p[:i], unix.ENOTDIR)
		}
	}
	return nil
}

// Rename implements billy.Basic.
func (f *FS) Rename(from, to string) error {
	if err := f.MkdirAll(path.Dir(clean(to)), 0o755); err != nil {
		return err
	}
	return f.RenameNode(from, to)
}

// Remove implements billy.Basic: it removes the entry itself, link or not.
func (f *FS) Remove(p string) error {
	err := f.Unlink(p)
	if err == nil {
		return nil
	}
	if err2 := f.Rmdir(p); err2 == nil || !strings.Contains(err2.Error(), unix.ENOTDIR.Error()) {
		return err2
	}
	return err
}

// TempFile implements billy.TempFile.
func (f *FS) TempFile(dir, prefix string) (billy.File, error) { return util.TempFile(f, dir, prefix) }

// onFollowed runs do on a path to what p leads to.
func (f *FS) onFollowed(op, p string, do func(p string) error) error {
	fd, err := f.openAt(int(f.root.Fd()), clean(p), unix.O_PATH, 0, resolveInRoot)
	if err != nil {
		return pathError(op, p, err)
	}
	defer unix.Close(fd)
	return pathError(op, p, do(fdPath(fd)))
}

// Chmod implements billy.Change.
func (f *FS) Chmod(p string, mode os.FileMode) error {
	return f.onFollowed("chmod", p, func(p string) error { return os.Chmod(p, mode) })
}

// Chown implements billy.Change.
func (f *FS) Chown(p string, uid, gid int) error {
	return f.onFollowed("chown", p, func(p string) error { return unix.Chown(p, uid, gid) })
}

// Chtimes implements billy.Change.
func (f *FS) Chtimes(p string, atime, mtime time.Time) error {
	return f.onFollowed("chtimes", p, func(p string) error { return os.Chtimes(p, atime, mtime) })
}

func sortInfos(fis []os.FileInfo) {
	slices.SortFunc(fis, func(a, b os.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
}
