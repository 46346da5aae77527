package export

import (
	"context"
	"fmt"
	"sync/atomic"
)

// FSID is the file system id that clients see, major and minor (RFC 8881
// section 5.8.1.9). Zero stands for the default, which is made from the
// export's ID and so is the same on every gateway and after every restart.
type FSID [2]uint64

// fsidMajor is the major number of default FSIDs, "capstan".
const fsidMajor = 0x006361707374616e

// V3 folds the id into the 64 bits NFSv3 has for it (RFC 1813 section 2.5.5).
// With major 0 that is minor. [NewTable] sees to it that neither form is zero
// or there twice.
func (f FSID) V3() uint64 { return f[0]*0x9e3779b97f4a7c15 + f[1] }

// String returns the id as major:minor, both decimal.
func (f FSID) String() string { return fmt.Sprintf("%d:%d", f[0], f[1]) }

// Export is one Volume served under one path to some peers. Its exported
// fields are constant from the moment it is given to [NewTable]; a reload
// makes a new Export for what has changed, with the old one's Volume if that
// has not.
type Export struct {
	// ID is the stable number of the export from the configuration, never 0.
	// It is part of every handle.
	ID uint32

	// Path is where the export stands in the pseudo tree: absolute and clean,
	// "/a/b", or "/" for an export that takes the place of the whole tree.
	Path string

	FSID FSID // zero: made from ID; see [Export.FileSystem]

	// FSCID is the number of the file system behind Volume, within what serves
	// it (CephFS: the fscid). It is part of every handle, so that handles turn
	// stale when an export is pointed at another file system.
	FSCID uint32

	Volume Volume

	ReadOnly bool

	// Rules say which peers may do what; the first that matches counts, and
	// without a match the peer sees nothing of the export.
	Rules []Rule

	Squash Squash // SquashDefault is SquashRoot

	// AnonUID and AnonGID are who squashed callers become. 0 stands for
	// [Nobody]: squashing to the superuser is not offered.
	AnonUID, AnonGID uint32

	Versions VersionSet // zero: all

	// ManageGIDs takes a caller's supplementary groups from the server's own
	// user database; callers unknown to it keep those they sent.
	ManageGIDs bool

	// root is what Volume.Root answered, nil until it did.
	root atomic.Pointer[Object]
}

// Nobody is the default uid and gid of squashed callers.
const Nobody = 65534

// WithVolume returns an Export that is as e says, with v behind it.
func (e *Export) WithVolume(v Volume) *Export {
	return &Export{
		ID: e.ID, Path: e.Path, FSID: e.FSID, FSCID: e.FSCID, Volume: v, ReadOnly: e.ReadOnly, Rules: e.Rules,
		Squash: e.Squash, AnonUID: e.AnonUID, AnonGID: e.AnonGID, Versions: e.Versions, ManageGIDs: e.ManageGIDs,
	}
}

// Root returns the root directory of e, asking the Volume until it has
// answered once. [Table.Enter] has seen to it that later calls ask no more.
func (e *Export) Root(ctx context.Context) (Object, error) {
	if o := e.root.Load(); o != nil {
		return *o, nil
	}
	o, err := e.Volume.Root(ctx)
	if err != nil {
		return Object{}, Wrap("root", e.Path, err)
	}
	e.root.Store(&o)
	return o, nil
}

// IsRoot reports whether o is the root directory of e.
func (e *Export) IsRoot(o Object) bool {
	root := e.root.Load()
	return root != nil && *root == o
}

// FileSystem returns the id under which clients see the file system of e.
func (e *Export) FileSystem() FSID {
	if e.FSID == (FSID{}) {
		return FSID{fsidMajor, uint64(e.ID)}
	}
	return e.FSID
}

// anon returns who squashed callers of e become.
func (e *Export) anon() (uid, gid uint32) {
	uid, gid = e.AnonUID, e.AnonGID
	if uid == 0 {
		uid = Nobody
	}
	if gid == 0 {
		gid = Nobody
	}
	return uid, gid
}
