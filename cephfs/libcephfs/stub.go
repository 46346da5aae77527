//go:build !cgo || !librados

package libcephfs

import (
	"errors"

	"github.com/go-git/go-billy/v5"
)

// Available tells whether this build has the engine.
const Available = false

// ErrUnavailable is what Mount fails with in this build.
var ErrUnavailable = errors.New("this build of capstan has no libcephfs engine: build it with CGO_ENABLED=1 and " +
	"-tags librados,pacific (the second tag names the Ceph release of the headers), with librados-dev and libcephfs-dev installed")

// FS is a mounted CephFS; in this build there is none.
type FS struct{ billy.Filesystem }

// Mount fails with [ErrUnavailable].
func Mount(Options) (*FS, error) { return nil, ErrUnavailable }

// Close unmounts.
func (*FS) Close() error { return nil }
