package export

import "time"

// FileType is the type of an object, with the numbers of nfs_ftype4 and
// ftype3 (RFC 8881 section 3.2, RFC 1813 section 2.5.5).
type FileType uint32

// The object types.
const (
	TypeRegular   FileType = 1
	TypeDirectory FileType = 2
	TypeBlock     FileType = 3
	TypeChar      FileType = 4
	TypeSymlink   FileType = 5
	TypeSocket    FileType = 6
	TypeFIFO      FileType = 7
)

// Timespec is a point in time: seconds since 1970 (negative before it) and
// 0 to 999,999,999 nanoseconds after that second.
type Timespec struct {
	Sec  int64
	Nsec uint32
}

// TimespecOf converts t.
func TimespecOf(t time.Time) Timespec {
	return Timespec{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

// Time converts t to local time.
func (t Timespec) Time() time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// Device is the number of a special file.
type Device struct{ Major, Minor uint32 }

// Attr holds the attributes of an object.
type Attr struct {
	Type   FileType
	Mode   uint32 // permission, set-id and sticky bits: 0 to 07777
	Nlink  uint32
	UID    uint32
	GID    uint32
	Size   uint64 // bytes
	Used   uint64 // bytes of storage taken
	Rdev   Device // of block and character devices
	FileID uint64 // unique in the Volume, never 0, the same on every gateway
	Atime  Timespec
	Mtime  Timespec
	Ctime  Timespec
	Btime  Timespec // time of creation; zero if the Volume does not know it
	Change uint64   // differs after every change of data or attributes
}

// AttrMask says which attributes a caller is going to use, so that a Volume
// with leases fetches no more than that. A Volume may fill in others too, and
// always fills in Type and FileID.
type AttrMask uint32

// The groups of attributes, by what guards them together in CephFS.
const (
	MaskAuth   AttrMask = 1 << iota // Mode, UID, GID, Btime
	MaskLink                        // Nlink
	MaskFile                        // Size, Used, Atime, Mtime
	MaskChange                      // Change and Ctime; implies every group in CephFS
	MaskAll    = MaskAuth | MaskLink | MaskFile | MaskChange
)

// SetMask says which members of a [SetAttr] are to be applied.
type SetMask uint32

// The members of a SetAttr. SetAtimeNow and SetMtimeNow set the server's time
// and take precedence over SetAtime and SetMtime.
const (
	SetMode SetMask = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	SetAtimeNow
	SetMtimeNow
	SetGuard // Guard must equal the present ctime, else ErrNotSync (RFC 1813 section 3.3.2)
)

// SetAttr is a change of attributes.
type SetAttr struct {
	Set   SetMask
	Mode  uint32
	UID   uint32
	GID   uint32
	Size  uint64
	Atime Timespec
	Mtime Timespec
	Guard Timespec
}

// PreAttr is what NFSv3 calls wcc_attr and NFSv4's change_info4 is taken
// from: the state of an object just before a call changed it.
type PreAttr struct {
	Size   uint64
	Mtime  Timespec
	Ctime  Timespec
	Change uint64
}

// PreAttr returns the part of a that weak cache consistency is made of.
func (a *Attr) PreAttr() PreAttr {
	return PreAttr{Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime, Change: a.Change}
}

// Change is what a call did to one object: its state before and after, and
// whether nothing else can have happened between the two.
type Change struct {
	Pre    PreAttr
	Post   Attr
	Atomic bool
}
