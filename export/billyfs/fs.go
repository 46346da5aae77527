package billyfs

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/util"

	"capstan/export"
)

// Filesystem is a Volume, seen with one credential, as a billy.Filesystem, with
// billy.Change. Paths are walked here, link by link: "..", absolute links and
// Chroot never lead out of the root. As billy wants it, Create, OpenFile with
// O_CREATE, Rename, Symlink and MkdirAll make missing parents. Errors are
// *os.PathError around a [syscall.Errno], so that os.IsNotExist and its like
// work. It may be used from several goroutines.
type Filesystem struct {
	ctx  context.Context
	v    export.Volume
	cred *export.Cred
	dir  string // of Chroot, from the root of the Volume; clean, "" or "a/b"
}

var (
	_ billy.Filesystem = (*Filesystem)(nil)
	_ billy.Change     = (*Filesystem)(nil)
	_ billy.Capable    = (*Filesystem)(nil)
)

// NewFilesystem shows v as cred sees it. All calls are made with ctx.
func NewFilesystem(ctx context.Context, v export.Volume, cred *export.Cred) *Filesystem {
	return &Filesystem{ctx: ctx, v: v, cred: cred}
}

// maxLinks bounds the symbolic links in one path, as Linux does.
const maxLinks = 40

// place is where a path leads: an entry of dir, there or not.
type place struct {
	dir  export.Object
	name string // "" for a root
	obj  export.Object
	attr export.Attr
}

// splitClean returns the elements of a path; ".." is left to the walk.
func splitClean(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" || s == "." })
}

// walk follows p. The last element is followed if follow is set; if it is not
// there the error is ErrNoEnt and place has its directory and name.
func (f *Filesystem) walk(p string, follow bool) (place, error) {
	top, err := f.v.Root(f.ctx)
	if err != nil {
		return place{}, err
	}
	base, err := f.walkFrom(top, f.dir, true)
	if err != nil {
		return place{}, err
	}
	if f.dir != "" && base.attr.Type != export.TypeDirectory {
		return place{}, export.ErrNotDir
	}
	return f.walkFrom(base.obj, p, follow)
}

// walkFrom is walk below root, which is what "/" and ".." at the top mean.
func (f *Filesystem) walkFrom(root export.Object, p string, follow bool) (place, error) {
	attr, err := f.v.GetAttr(f.ctx, f.cred, root, export.MaskAll)
	if err != nil {
		return place{}, err
	}
	at := []place{{dir: root, obj: root, attr: attr}} // the way down
	rest := splitClean(p)
	links := 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		here := at[len(at)-1]
		if here.attr.Type != export.TypeDirectory {
			return place{}, export.ErrNotDir
		}
		if name == ".." {
			if len(at) > 1 {
				at = at[:len(at)-1]
			}
			continue
		}
		next := place{dir: here.obj, name: name}
		next.obj, next.attr, err = f.v.Lookup(f.ctx, f.cred, here.obj, name, export.MaskAll)
		if err != nil {
			if len(rest) == 0 && export.StatusOf(err) == export.ErrNoEnt {
				return next, err
			}
			return place{}, err
		}
		if next.attr.Type == export.TypeSymlink && (follow || len(rest) > 0) {
			if links++; links > maxLinks {
				return place{}, export.ErrSymlink
			}
			target, err := f.v.Readlink(f.ctx, f.cred, next.obj)
			if err != nil {
				return place{}, err
			}
			if strings.HasPrefix(target, "/") {
				at = at[:1]
			}
			rest = append(splitClean(target), rest...)
			continue
		}
		at = append(at, next)
	}
	return at[len(at)-1], nil
}

// parent makes the directory of p and returns the place of p, links not
// followed. At a root there is nothing to make or remove.
func (f *Filesystem) parent(p string) (place, error) {
	w, err := f.walk(p, false)
	if export.StatusOf(err) == export.ErrNoEnt && w.name == "" {
		if err := f.mkdirAll(path.Dir(path.Clean("/"+p)), 0o755); err != nil {
			return w, err
		}
		w, err = f.walk(p, false)
	}
	return w, err
}

// Capabilities implements billy.Capable.
func (f *Filesystem) Capabilities() billy.Capability {
	c := billy.AllCapabilities
	if f.v.Features().ReadOnly {
		c &^= billy.WriteCapability | billy.ReadAndWriteCapability | billy.TruncateCapability
	}
	return c
}

// Root implements billy.Chroot.
func (f *Filesystem) Root() string { return "/" + f.dir }

// Join implements billy.Basic.
func (f *Filesystem) Join(elem ...string) string { return path.Join(elem...) }

// Chroot implements billy.Chroot. The directory need not be there yet.
func (f *Filesystem) Chroot(p string) (billy.Filesystem, error) {
	sub := *f
	sub.dir = path.Join("/", f.dir, path.Clean("/"+p))[1:]
	return &sub, nil
}

// Create implements billy.Basic.
func (f *Filesystem) Create(p string) (billy.File, error) {
	return f.OpenFile(p, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open implements billy.Basic.
func (f *Filesystem) Open(p string) (billy.File, error) { return f.OpenFile(p, os.O_RDONLY, 0) }

// OpenFile implements billy.Basic. There is no umask.
func (f *Filesystem) OpenFile(p string, flag int, perm os.FileMode) (billy.File, error) {
	file, err := f.openFile(p, flag, perm)
	if err != nil {
		return nil, asPathError("open", p, err)
	}
	return file, nil
}

func (f *Filesystem) openFile(p string, flag int, perm os.FileMode) (*handle, error) {
	var mode export.OpenMode
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
		mode = export.OpenRead
	case os.O_WRONLY:
		mode = export.OpenWrite
	case os.O_RDWR:
		mode = export.OpenRead | export.OpenWrite
	default:
		return nil, export.ErrInval
	}
	h := &handle{fs: f, name: p, append: flag&os.O_APPEND != 0}
	w, err := f.walk(p, flag&os.O_EXCL == 0)
	if export.StatusOf(err) == export.ErrNoEnt && flag&os.O_CREATE != 0 {
		if w.name == "" {
			if err := f.mkdirAll(path.Dir(path.Clean("/"+p)), 0o755); err != nil {
				return nil, err
			}
			if w, err = f.walk(p, flag&os.O_EXCL == 0); err != nil && w.name == "" {
				return nil, err
			}
		}
		args := &export.Create{Open: mode, Attr: export.SetAttr{Set: export.SetMode, Mode: UnixMode(perm)}}
		if flag&os.O_EXCL != 0 {
			args.Mode = export.CreateGuarded
		}
		if flag&os.O_TRUNC != 0 {
			args.Attr.Set |= export.SetSize
		}
		made, err := f.v.Create(f.ctx, f.cred, w.dir, w.name, args)
		if err != nil {
			return nil, err
		}
		h.f = made.File
		return h, nil
	}
	switch {
	case err != nil:
		return nil, err
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, export.ErrExist
	}
	if h.f, err = f.v.Open(f.ctx, f.cred, w.obj, mode); err != nil {
		return nil, err
	}
	if flag&os.O_TRUNC != 0 && mode&export.OpenWrite != 0 {
		_, err := f.v.SetAttr(f.ctx, f.cred, w.obj, h.f, &export.SetAttr{Set: export.SetSize})
		if err != nil {
			return nil, errors.Join(err, h.f.Close())
		}
	}
	return h, nil
}

// Stat implements billy.Basic.
func (f *Filesystem) Stat(p string) (os.FileInfo, error) { return f.stat("stat", p, true) }

// Lstat implements billy.Symlink.
func (f *Filesystem) Lstat(p string) (os.FileInfo, error) { return f.stat("lstat", p, false) }

func (f *Filesystem) stat(op, p string, follow bool) (os.FileInfo, error) {
	w, err := f.walk(p, follow)
	if err != nil {
		return nil, asPathError(op, p, err)
	}
	return fileInfo{path.Base(path.Clean("/" + p)), w.attr}, nil
}

// Rename implements billy.Basic.
func (f *Filesystem) Rename(from, to string) error {
	w, err := f.walk(from, false)
	if err != nil {
		return asPathError("rename", from, err)
	}
	t, err := f.parent(to)
	if err != nil && export.StatusOf(err) != export.ErrNoEnt {
		return asPathError("rename", to, err)
	}
	if w.name == "" || t.name == "" {
		return asPathError("rename", from, export.ErrInval)
	}
	_, err = f.v.Rename(f.ctx, f.cred, w.dir, w.name, t.dir, t.name)
	return asPathError("rename", from, err)
}

// Remove implements billy.Basic.
func (f *Filesystem) Remove(p string) error {
	w, err := f.walk(p, false)
	if err == nil && w.name == "" {
		err = export.ErrInval
	}
	if err == nil {
		_, _, err = f.v.Remove(f.ctx, f.cred, w.dir, w.name, export.RemoveAny)
	}
	return asPathError("remove", p, err)
}

// TempFile implements billy.TempFile.
func (f *Filesystem) TempFile(dir, prefix string) (billy.File, error) {
	return util.TempFile(f, dir, prefix)
}

// ReadDir implements billy.Dir.
func (f *Filesystem) ReadDir(p string) ([]os.FileInfo, error) {
	w, err := f.walk(p, true)
	var fis []os.FileInfo
	var cookie uint64
	for eof := false; err == nil && !eof; {
		eof, err = f.v.ReadDir(f.ctx, f.cred, w.obj, cookie, export.MaskAll, func(d *export.Dirent) bool {
			fis = append(fis, fileInfo{d.Name, d.Attr})
			cookie = d.Cookie
			return true
		})
	}
	if err != nil {
		return nil, asPathError("readdir", p, err)
	}
	slices.SortFunc(fis, func(a, b os.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return fis, nil
}

// MkdirAll implements billy.Dir.
func (f *Filesystem) MkdirAll(p string, perm os.FileMode) error {
	return asPathError("mkdir", p, f.mkdirAll(p, UnixMode(perm)))
}

func (f *Filesystem) mkdirAll(p string, mode uint32) error {
	all := splitClean(path.Clean("/" + f.dir + "/" + path.Clean("/"+p)))
	whole := *f
	whole.dir = ""
	for i := range all {
		sub := strings.Join(all[:i+1], "/")
		w, err := whole.walk(sub, true)
		if err == nil {
			if w.attr.Type != export.TypeDirectory {
				return export.ErrNotDir
			}
			continue
		}
		if export.StatusOf(err) != export.ErrNoEnt || w.name == "" {
			return err
		}
		_, err = f.v.Mkdir(f.ctx, f.cred, w.dir, w.name, &export.SetAttr{Set: export.SetMode, Mode: mode})
		if err != nil && export.StatusOf(err) != export.ErrExist {
			return err
		}
	}
	return nil
}

// Symlink implements billy.Symlink.
func (f *Filesystem) Symlink(target, link string) error {
	w, err := f.parent(link)
	switch {
	case err == nil:
		err = export.ErrExist
	case export.StatusOf(err) == export.ErrNoEnt && w.name != "":
		_, err = f.v.Symlink(f.ctx, f.cred, w.dir, w.name, target, &export.SetAttr{})
	}
	return asPathError("symlink", link, err)
}

// Readlink implements billy.Symlink.
func (f *Filesystem) Readlink(p string) (string, error) {
	w, err := f.walk(p, false)
	if err != nil {
		return "", asPathError("readlink", p, err)
	}
	target, err := f.v.Readlink(f.ctx, f.cred, w.obj)
	return target, asPathError("readlink", p, err)
}

// Link adds a hard link; it implements [Linker].
func (f *Filesystem) Link(oldPath, newPath string) error {
	w, err := f.walk(oldPath, false)
	if err != nil {
		return asPathError("link", oldPath, err)
	}
	t, err := f.walk(newPath, false)
	switch {
	case err == nil:
		err = export.ErrExist
	case export.StatusOf(err) == export.ErrNoEnt && t.name != "":
		_, err = f.v.Link(f.ctx, f.cred, w.obj, t.dir, t.name)
	}
	return asPathError("link", newPath, err)
}

func (f *Filesystem) setAttr(op, p string, follow bool, s *export.SetAttr) error {
	w, err := f.walk(p, follow)
	if err == nil {
		_, err = f.v.SetAttr(f.ctx, f.cred, w.obj, nil, s)
	}
	return asPathError(op, p, err)
}

// Chmod implements billy.Change.
func (f *Filesystem) Chmod(p string, mode os.FileMode) error {
	return f.setAttr("chmod", p, true, &export.SetAttr{Set: export.SetMode, Mode: UnixMode(mode)})
}

// Chown implements billy.Change; -1 leaves an id as it is.
func (f *Filesystem) Chown(p string, uid, gid int) error {
	return f.setAttr("chown", p, true, owner(uid, gid))
}

// Lchown implements billy.Change; -1 leaves an id as it is.
func (f *Filesystem) Lchown(p string, uid, gid int) error {
	return f.setAttr("lchown", p, false, owner(uid, gid))
}

func owner(uid, gid int) *export.SetAttr {
	s := &export.SetAttr{UID: uint32(uid), GID: uint32(gid)}
	if uid >= 0 {
		s.Set |= export.SetUID
	}
	if gid >= 0 {
		s.Set |= export.SetGID
	}
	return s
}

// Chtimes implements billy.Change.
func (f *Filesystem) Chtimes(p string, atime, mtime time.Time) error {
	return f.setAttr("chtimes", p, true, &export.SetAttr{
		Set:   export.SetAtime | export.SetMtime,
		Atime: export.TimespecOf(atime), Mtime: export.TimespecOf(mtime),
	})
}

// StatFS implements [StatFSer].
func (f *Filesystem) StatFS(p string) (export.StatFS, error) {
	w, err := f.walk(p, true)
	if err != nil {
		return export.StatFS{}, asPathError("statfs", p, err)
	}
	s, err := f.v.StatFS(f.ctx, w.obj)
	return s, asPathError("statfs", p, err)
}
