package billyfs

import (
	"io"
	"os"

	"capstan/export"
)

// What follows are the interfaces that a [billy.Filesystem], or a file it
// opened, may have beyond billy's own. A Volume finds out once which of them
// are there. Paths are as for billy: slash-separated, relative to the root,
// "." for the root itself. No call of these follows a symbolic link in the
// last element of a path, and none makes parent directories. Errors should
// carry a [syscall.Errno]; [export.StatusOf] finds it.

// Info is what a filesystem with inodes knows of an object.
type Info struct {
	// Attr is filled in as asked; FileID is the inode number. Change is not used.
	export.Attr
	// Stamp grows with every change of anyone, by far more than the number of
	// changes; 0 stands for Ctime in nanoseconds. The Volume makes the change
	// attribute of it.
	Stamp uint64
	// Generation tells successive objects with one inode number apart, 0 if the
	// filesystem never uses a number again.
	Generation uint32
}

// Inoder is a filesystem whose objects have inode numbers. Without it, and
// without a *syscall.Stat_t in FileInfo.Sys, the Volume numbers objects by
// itself and keeps the numbers in its table.
type Inoder interface {
	// LstatInode returns at least the attributes in mask, Type, FileID and the
	// generation.
	LstatInode(path string, mask export.AttrMask) (Info, error)
}

// Opener opens regular files exactly: without it OpenFile of billy is used,
// which in osfs follows links and makes directories.
type Opener interface {
	// OpenNode is OpenFile with O_NOFOLLOW; perm holds permission bits only.
	// Flags are O_RDONLY, O_WRONLY, O_RDWR, O_CREATE and O_EXCL.
	OpenNode(path string, flag int, perm uint32) (File, error)
}

// File is the part of billy.File that a Volume needs.
type File interface {
	io.ReaderAt
	io.Closer
	Truncate(size int64) error
}

// Linker makes hard links. Without it Features.HardLinks is false.
type Linker interface {
	Link(oldPath, newPath string) error
}

// Mkdirer makes one directory and fails if the name exists. Without it
// MkdirAll is used under the Volume's own lock.
type Mkdirer interface {
	Mkdir(path string, perm uint32) error
}

// Mknoder makes special files. Without it Features.Special is false.
type Mknoder interface {
	Mknod(path string, typ export.FileType, perm uint32, dev export.Device) error
}

// Remover removes exactly one kind of entry, so that a race with others
// cannot remove the wrong one. Without it billy's Remove is used.
type Remover interface {
	Unlink(path string) error
	Rmdir(path string) error
}

// Renamer renames as rename(2) does, which billy leaves open. Without it the
// Volume checks rename(2)'s rules itself and clears the way.
type Renamer interface {
	RenameNode(from, to string) error
}

// AttrSetter changes attributes by path; Truncate needs a regular file.
// Without it billy.Change is used where it is there.
type AttrSetter interface {
	Lchmod(path string, mode uint32) error // mode 0 to 07777
	Lchown(path string, uid, gid int) error
	// Lutimes sets the times given; Now in a Time takes the filesystem's clock.
	Lutimes(path string, atime, mtime Time) error
}

// AttrOpener opens anything but a symbolic link, to change attributes through
// the open file and then sync that: for a filesystem where the sync of a file
// opened after a change would not wait for it. The File should be a
// [FileAttrSetter] and a [Syncer]; write says that it is going to be truncated.
type AttrOpener interface {
	OpenAttrs(path string, write bool) (File, error)
}

// Truncater sets the size of a regular file by path. Without it the file is
// opened for that.
type Truncater interface {
	Truncate(path string, size int64) error
}

// Time is one time to be set: nothing, now, or a value.
type Time struct {
	Set bool
	Now bool
	At  export.Timespec
}

// Xattrer has extended attributes; names are whole, with "user.".
type Xattrer interface {
	Lgetxattr(path, name string) ([]byte, error)
	Lsetxattr(path, name string, value []byte, mode export.XattrMode) error
	Llistxattr(path string) ([]string, error)
	Lremovexattr(path, name string) error
}

// StatFSer knows its space. Without it StatFS answers zeros.
type StatFSer interface {
	StatFS(path string) (export.StatFS, error)
}

// DirReader lists names without an lstat of each.
type DirReader interface {
	// ReadNames calls fn for every entry but "." and ".."; typ and ino are 0
	// where the listing does not tell them or they need a look-up to be right.
	ReadNames(path string, fn func(name string, typ export.FileType, ino uint64)) error
}

// PathSyncer makes stable what happened to the object at path: its attributes,
// or the entries of a directory. Without it calls on names and attributes are
// as stable as the filesystem makes them by itself.
type PathSyncer interface {
	SyncAttrs(path string) error
	SyncEntries(path string) error
}

// Describer tells constant facts about the filesystem.
type Describer interface {
	Describe() Facts
}

// Facts are what a filesystem says of itself; the zero value promises little.
type Facts struct {
	MaxName     int    // bytes; 0: 255
	MaxLink     uint32 // 0: 1 or 65000, as links are there or not
	MaxFileSize uint64 // bytes; 0: 2^63-1
	TimeDelta   export.Timespec
	CaseFold    bool
	// Shared says that others change the filesystem too, so that the state
	// before and after a call cannot be told for sure.
	Shared bool
	// NoHoles, NoAllocate, NoPunch and NoSpecial take back what an interface
	// offers.
	NoHoles, NoAllocate, NoPunch, NoSpecial, NoXattrs bool
}

// The interfaces that a file may have beyond [File]; those of package io count
// too: io.WriterAt, and without it io.Writer with io.Seeker.

// Syncer makes written data stable; without it a file counts as stable as its
// filesystem makes a returned write.
type Syncer interface {
	Sync() error
}

// AttrSyncer makes attributes changed through the file, and the file's being
// there, as stable as calls on names are, where that is less than Sync costs.
type AttrSyncer interface {
	SyncAttrs() error
}

// DataSyncer leaves out attributes that are not needed to read the data.
type DataSyncer interface {
	Datasync() error
}

// FileStater tells the attributes of an open file, also after its last name
// is gone. Without it they are those seen last.
type FileStater interface {
	StatInode(mask export.AttrMask) (Info, error)
}

// FileAttrSetter changes attributes of an open file, also after its last name
// is gone.
type FileAttrSetter interface {
	Chmod(mode uint32) error
	Chown(uid, gid int) error
	Chtimes(atime, mtime Time) error
}

// HoleSeeker finds data and holes with the rules of lseek(2): ENXIO at or
// beyond the end, and for data in the trailing hole.
type HoleSeeker interface {
	SeekHole(off int64, what export.SeekWhat) (int64, error)
}

// Allocator reserves and gives back storage.
type Allocator interface {
	Allocate(off, n int64) error   // extends the file if need be
	Deallocate(off, n int64) error // within the size of the file
}

// GoMode converts the mode bits of NFS to those of package os.
func GoMode(mode uint32) os.FileMode {
	m := os.FileMode(mode & 0o777)
	if mode&0o4000 != 0 {
		m |= os.ModeSetuid
	}
	if mode&0o2000 != 0 {
		m |= os.ModeSetgid
	}
	if mode&0o1000 != 0 {
		m |= os.ModeSticky
	}
	return m
}

// UnixMode is the other way round; the type is left out.
func UnixMode(m os.FileMode) uint32 {
	mode := uint32(m.Perm())
	if m&os.ModeSetuid != 0 {
		mode |= 0o4000
	}
	if m&os.ModeSetgid != 0 {
		mode |= 0o2000
	}
	if m&os.ModeSticky != 0 {
		mode |= 0o1000
	}
	return mode
}

func typeOf(m os.FileMode) export.FileType {
	switch {
	case m.IsRegular():
		return export.TypeRegular
	case m.IsDir():
		return export.TypeDirectory
	case m&os.ModeSymlink != 0:
		return export.TypeSymlink
	case m&os.ModeCharDevice != 0:
		return export.TypeChar
	case m&os.ModeDevice != 0:
		return export.TypeBlock
	case m&os.ModeNamedPipe != 0:
		return export.TypeFIFO
	case m&os.ModeSocket != 0:
		return export.TypeSocket
	}
	return export.TypeRegular
}

// FileMode returns type and mode bits as package os has them.
func FileMode(a *export.Attr) os.FileMode {
	m := GoMode(a.Mode)
	switch a.Type {
	case export.TypeDirectory:
		m |= os.ModeDir
	case export.TypeSymlink:
		m |= os.ModeSymlink
	case export.TypeBlock:
		m |= os.ModeDevice
	case export.TypeChar:
		m |= os.ModeDevice | os.ModeCharDevice
	case export.TypeFIFO:
		m |= os.ModeNamedPipe
	case export.TypeSocket:
		m |= os.ModeSocket
	}
	return m
}
