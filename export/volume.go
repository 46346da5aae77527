package export

import "context"

// SnapHead is the snapshot id of the live filesystem (CEPH_NOSNAP).
const SnapHead = ^uint64(1)

// Object names one object of a Volume. Ino and Snap identify it; Parent and
// NameHash help a Volume find an object in a snapshot, and are zero in the
// live filesystem, so that all handles of an inode are equal.
type Object struct {
	Ino      uint64
	Snap     uint64 // SnapHead for the live filesystem
	Parent   uint64
	NameHash uint32
}

// Live returns the Object of inode ino in the live filesystem.
func Live(ino uint64) Object { return Object{Ino: ino, Snap: SnapHead} }

// Features says what a Volume offers and within which limits.
type Features struct {
	HardLinks   bool
	Symlinks    bool
	Special     bool // block and character devices, sockets, FIFOs
	Xattrs      bool // user extended attributes (RFC 8276)
	Seek        bool // SEEK knows about holes
	Allocate    bool // ALLOCATE
	Deallocate  bool // DEALLOCATE punches holes
	SetTime     bool // times can be set
	ReadOnly    bool // the whole Volume
	CaseFold    bool // names are compared without case
	MaxName     int  // bytes in a name
	MaxLink     uint32
	MaxFileSize uint64 // bytes
	// TimeDelta is the granularity of times.
	TimeDelta Timespec
}

// StatFS is the space of a Volume as seen from one object, so that quotas on
// a directory above it count.
type StatFS struct {
	TotalBytes, FreeBytes, AvailBytes uint64 // Avail is what a user without privilege can take
	TotalFiles, FreeFiles, AvailFiles uint64
}

// OpenMode says what an open file is going to be used for.
type OpenMode uint32

// The open modes; at least one of OpenRead and OpenWrite is given.
const (
	OpenRead OpenMode = 1 << iota
	OpenWrite
	// OpenOwner lets the owner of the file open it whatever its mode says: the
	// usual server rule for stateless calls, where the check of the client's
	// open is not known (RFC 1813 section 4.4).
	OpenOwner
	// OpenExec grants reading to one who may execute but not read (RFC 8881
	// section 18.22.4 on READ).
	OpenExec
)

// CreateMode says what to do if the name exists (createmode4, createmode3).
type CreateMode uint8

// The create modes.
const (
	// CreateUnchecked takes an existing regular file; of the attributes only
	// size 0 is applied to it.
	CreateUnchecked CreateMode = iota
	// CreateGuarded fails with ErrExist.
	CreateGuarded
	// CreateExclusive fails with ErrExist unless the existing file was created
	// with the same verifier, also before a restart.
	CreateExclusive
)

// Create holds the arguments of [Volume.Create].
type Create struct {
	Mode     CreateMode
	Attr     SetAttr
	Verifier [8]byte  // of CreateExclusive
	Open     OpenMode // open the file too, unless 0; a file this call made opens whatever its mode
}

// Created is the result of a call that adds an entry to a directory.
type Created struct {
	Object Object
	Attr   Attr
	Dir    Change
	New    bool // false if CreateUnchecked or CreateExclusive met an existing file
	File   File // set if Create.Open asked for it; the caller closes it
}

// NewNode holds the arguments of [Volume.Mknod].
type NewNode struct {
	Type FileType // TypeBlock, TypeChar, TypeSocket or TypeFIFO
	Rdev Device
	Attr SetAttr
}

// RemoveKind says what [Volume.Remove] may remove.
type RemoveKind uint8

// The kinds. RemoveFile fails with ErrIsDir on a directory, RemoveDir with
// ErrNotDir on anything else.
const (
	RemoveAny RemoveKind = iota
	RemoveFile
	RemoveDir
)

// Dirent is an entry of a directory.
type Dirent struct {
	Name   string
	Cookie uint64 // where a listing goes on behind this entry: 3 to 2^63-1
	Object Object
	Attr   Attr // filled in as asked; Type and FileID always
	// Err says why Attr holds no more than Type and FileID (rdattr_error, RFC
	// 8881 section 5.8.1.12). Only [Table.ReadDir] sets it.
	Err error
}

// XattrMode says what to do if the attribute exists (setxattr_option4).
type XattrMode uint8

// The xattr modes.
const (
	XattrEither  XattrMode = iota
	XattrCreate            // ErrExist if it exists
	XattrReplace           // ErrNoXattr if it does not
)

// Volume is a filesystem at inode level; see the package comment for what
// every implementation promises. Where a method is said to check permission,
// it checks the mode bits of the objects it names against the credential.
//
// Names are 1 to Features.MaxName bytes, never "." or "..", and hold no '/'
// and no NUL; the server has checked that.
type Volume interface {
	// Features returns constant facts about the Volume.
	Features() Features

	// Root returns the root directory.
	Root(ctx context.Context) (Object, error)

	// GetAttr returns at least the attributes in mask. It needs no permission.
	// ErrStale says that the object is gone.
	GetAttr(ctx context.Context, c *Cred, o Object, mask AttrMask) (Attr, error)

	// SetAttr applies s to o, all of it or nothing, by the rules of
	// [CheckSetAttr] and [ModeAfterSet]. via is an open file of o the caller may write through
	// whatever the mode says, or nil.
	SetAttr(ctx context.Context, c *Cred, o Object, via File, s *SetAttr) (Change, error)

	// Access returns which rights of want c has on o.
	Access(ctx context.Context, c *Cred, o Object, want Access) (Access, Attr, error)

	// Lookup finds name in dir, for which c needs search permission.
	Lookup(ctx context.Context, c *Cred, dir Object, name string, mask AttrMask) (Object, Attr, error)

	// Parent returns the directory above dir, for which c needs search
	// permission on dir; the root's parent is the root.
	Parent(ctx context.Context, c *Cred, dir Object, mask AttrMask) (Object, Attr, error)

	// Readlink returns the target of a symbolic link; ErrInval on others.
	Readlink(ctx context.Context, c *Cred, o Object) (string, error)

	// ReadDir calls emit for the entries of dir behind cookie (0: from the
	// start) until emit returns false, and then reports eof false. An entry
	// that emit refused is met again with the cookie of the one before it.
	// "." and ".." are not entries. Cookies stay good when other entries are
	// added or removed, and after a restart. c needs read permission. Attr of
	// the entries is filled in as mask asks; emit must not call the Volume, nor
	// keep the Dirent. ErrBadCookie for 1, 2 and what is above 2^63-1.
	ReadDir(ctx context.Context, c *Cred, dir Object, cookie uint64, mask AttrMask, emit func(*Dirent) bool) (eof bool, err error)

	// Create makes a regular file, or takes an existing one as args say. The
	// new file belongs to c, with group and mode as [Inherit] says; c needs
	// what [CheckAdd] asks. Attr is applied by the superuser's rules where c
	// could set it on its own file. The same goes for Mkdir, Symlink and Mknod.
	// Without a mode in Attr the object is its owner's alone: 0600, a directory
	// 0700. An existing object that is not a regular file gets the statuses of
	// Open from CreateUnchecked, ErrExist from the others; so do the other
	// calls for any existing name. The retry of a CreateExclusive opens for the
	// owner whatever the mode has become.
	Create(ctx context.Context, c *Cred, dir Object, name string, args *Create) (Created, error)
	Mkdir(ctx context.Context, c *Cred, dir Object, name string, s *SetAttr) (Created, error)
	Symlink(ctx context.Context, c *Cred, dir Object, name, target string, s *SetAttr) (Created, error)
	Mknod(ctx context.Context, c *Cred, dir Object, name string, args *NewNode) (Created, error)

	// Link adds a name for o, which is not a directory (ErrIsDir) and has a
	// name still (ErrNoEnt).
	Link(ctx context.Context, c *Cred, o, dir Object, name string) (Created, error)

	// Remove removes an entry; the sticky bit counts (ErrPerm). gone is the
	// object the name stood for.
	Remove(ctx context.Context, c *Cred, dir Object, name string, kind RemoveKind) (gone Object, ch Change, err error)

	// Rename moves an entry and replaces what stands at its new name as
	// rename(2) does: ErrInval into the source's own subtree, ErrIsDir and
	// ErrNotDir for a file over a directory and the reverse, nothing at all if
	// both names stand for one object.
	Rename(ctx context.Context, c *Cred, from Object, oldName string, to Object, newName string) (Renamed, error)

	// Open opens a regular file; ErrIsDir, ErrSymlink and ErrInval on others.
	Open(ctx context.Context, c *Cred, o Object, mode OpenMode) (File, error)

	// StatFS returns the space as seen from o.
	StatFS(ctx context.Context, o Object) (StatFS, error)

	// The extended attributes of RFC 8276: names without the "user." prefix,
	// by the rules of [CheckXattr]. ErrNotSupp if Features.Xattrs is false.
	GetXattr(ctx context.Context, c *Cred, o Object, name string) ([]byte, error)
	SetXattr(ctx context.Context, c *Cred, o Object, name string, value []byte, mode XattrMode) (Change, error)
	// ListXattr returns all names, sorted.
	ListXattr(ctx context.Context, c *Cred, o Object) ([]string, error)
	RemoveXattr(ctx context.Context, c *Cred, o Object, name string) (Change, error)

	// WriteVerifier differs from what it was before whenever unstable data may
	// have been lost since: at every start, and after a failed write-back.
	WriteVerifier() [8]byte

	// Close syncs everything and releases the Volume. No call may be running.
	Close(ctx context.Context) error
}

// Renamed is the result of [Volume.Rename]. From and To are equal when both
// directories are the same.
type Renamed struct {
	From, To Change
	Replaced *Object // the object that lost the new name, nil if none
}
