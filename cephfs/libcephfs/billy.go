//go:build cgo && librados

package libcephfs

import (
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ceph/go-ceph/cephfs"
	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/util"

	"capstan/export"
	"capstan/export/billyfs"
)

// The methods of billy that a Volume does not use.

var (
	_ billy.Filesystem       = (*FS)(nil)
	_ billy.Change           = (*FS)(nil)
	_ billy.File             = (*File)(nil)
	_ billyfs.Inoder         = (*FS)(nil)
	_ billyfs.Opener         = (*FS)(nil)
	_ billyfs.Linker         = (*FS)(nil)
	_ billyfs.Mknoder        = (*FS)(nil)
	_ billyfs.Mkdirer        = (*FS)(nil)
	_ billyfs.Remover        = (*FS)(nil)
	_ billyfs.Renamer        = (*FS)(nil)
	_ billyfs.AttrSetter     = (*FS)(nil)
	_ billyfs.AttrOpener     = (*FS)(nil)
	_ billyfs.Truncater      = (*FS)(nil)
	_ billyfs.Xattrer        = (*FS)(nil)
	_ billyfs.DirReader      = (*FS)(nil)
	_ billyfs.PathSyncer     = (*FS)(nil)
	_ billyfs.StatFSer       = (*FS)(nil)
	_ billyfs.Describer      = (*FS)(nil)
	_ billyfs.FileStater     = (*File)(nil)
	_ billyfs.FileAttrSetter = (*File)(nil)
	_ billyfs.Allocator      = (*File)(nil)
	_ billyfs.AttrSyncer     = (*File)(nil)
	_ billyfs.DataSyncer     = (*File)(nil)
)

// Capabilities implements billy.Capable.
func (f *FS) Capabilities() billy.Capability { return billy.AllCapabilities }

// Root implements billy.Chroot.
func (f *FS) Root() string { return path.Join(f.opt.Root, f.sub) }

// Join implements billy.Basic.
func (f *FS) Join(elem ...string) string { return path.Join(elem...) }

// Chroot implements billy.Chroot: a view of the same mount, which the FS it
// was made from closes.
func (f *FS) Chroot(p string) (billy.Filesystem, error) {
	sub := *f
	sub.sub = path.Join("/", f.sub, p)[1:]
	sub.owner = false
	return &sub, nil
}

// Create implements billy.Basic.
func (f *FS) Create(p string) (billy.File, error) {
	return f.OpenFile(p, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open implements billy.Basic.
func (f *FS) Open(p string) (billy.File, error) { return f.OpenFile(p, os.O_RDONLY, 0) }

// OpenFile implements billy.Basic.
func (f *FS) OpenFile(p string, flag int, perm os.FileMode) (billy.File, error) {
	if flag&os.O_CREATE != 0 {
		if err := f.MkdirAll(path.Dir(path.Clean(p)), 0o755); err != nil {
			return nil, err
		}
	}
	file, err := f.open(p, flag, uint32(perm.Perm()))
	if err != nil {
		return nil, err
	}
	if flag&os.O_APPEND != 0 {
		if _, err := file.Seek(0, 2); err != nil {
			file.Close()
			return nil, err
		}
	}
	return file, nil
}

// MkdirAll implements billy.Dir.
func (f *FS) MkdirAll(p string, perm os.FileMode) error {
	abs, err := f.path("mkdir", p)
	if err != nil || abs == "/" {
		return err
	}
	f.enter()
	defer f.leave()
	err = errnoOf(f.mount.MakeDirs(abs, uint32(perm.Perm())))
	if err == syscall.EEXIST {
		err = nil
	}
	return pathError("mkdir", p, err)
}

// Rename implements billy.Basic.
func (f *FS) Rename(from, to string) error {
	if err := f.MkdirAll(path.Dir(path.Clean(to)), 0o755); err != nil {
		return err
	}
	return f.RenameNode(from, to)
}

// Remove implements billy.Basic.
func (f *FS) Remove(p string) error {
	info, err := f.LstatInode(p, 0)
	if err != nil {
		return err
	}
	if info.Type == export.TypeDirectory {
		return f.Rmdir(p)
	}
	return f.Unlink(p)
}

// TempFile implements billy.TempFile.
func (f *FS) TempFile(dir, prefix string) (billy.File, error) { return util.TempFile(f, dir, prefix) }

// Stat implements billy.Basic.
func (f *FS) Stat(p string) (os.FileInfo, error) { return f.info("stat", p, 0) }

// Lstat implements billy.Symlink.
func (f *FS) Lstat(p string) (os.FileInfo, error) {
	return f.info("lstat", p, cephfs.AtSymlinkNofollow)
}

func (f *FS) info(op, p string, flags cephfs.AtFlags) (fi os.FileInfo, err error) {
	err = f.call(op, p, func(abs string) error {
		st, err := f.mount.Statx(abs, cephfs.StatxBasicStats, flags)
		if err == nil {
			fi = fileInfo{path.Base(p), infoOf(st)}
		}
		return err
	})
	return fi, err
}

// ReadDir implements billy.Dir.
func (f *FS) ReadDir(p string) ([]os.FileInfo, error) {
	var fis []os.FileInfo
	err := f.call("readdir", p, func(p string) error {
		d, err := f.mount.OpenDir(p)
		if err != nil {
			return err
		}
		defer d.Close()
		for {
			e, err := d.ReadDirPlus(cephfs.StatxBasicStats, cephfs.AtSymlinkNofollow)
			if err != nil {
				return err
			}
			if e == nil {
				return nil
			}
			if n := e.Name(); n != "." && n != ".." {
				fis = append(fis, fileInfo{n, infoOf(e.Statx())})
			}
		}
	})
	slices.SortFunc(fis, func(a, b os.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return fis, err
}

// Chmod implements billy.Change.
func (f *FS) Chmod(p string, mode os.FileMode) error { return f.Lchmod(p, billyfs.UnixMode(mode)) }

// Chown implements billy.Change.
func (f *FS) Chown(p string, uid, gid int) error {
	return f.call("chown", p, func(p string) error { return f.mount.Chown(p, uint32(uid), uint32(gid)) })
}

// Chtimes implements billy.Change.
func (f *FS) Chtimes(p string, atime, mtime time.Time) error {
	return f.Lutimes(p, billyfs.Time{Set: true, At: export.TimespecOf(atime)}, billyfs.Time{Set: true, At: export.TimespecOf(mtime)})
}

// fileInfo is an os.FileInfo whose Sys is the [billyfs.Info].
type fileInfo struct {
	name string
	info billyfs.Info
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return int64(i.info.Size) }
func (i fileInfo) ModTime() time.Time { return i.info.Mtime.Time() }
func (i fileInfo) IsDir() bool        { return i.info.Type == export.TypeDirectory }
func (i fileInfo) Sys() any           { return &i.info }
func (i fileInfo) Mode() os.FileMode  { return billyfs.FileMode(&i.info.Attr) }
