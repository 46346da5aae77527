package memory

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"capstan/export"
)

// The limits of every Volume of this package.
const (
	maxName     = 255
	maxLink     = 65000
	maxFileSize = 1<<63 - 1
	maxTarget   = 4095      // bytes of a symbolic link
	maxXattr    = 64 << 10  // bytes of the value of one extended attribute
	maxXattrs   = 256 << 10 // bytes of names and values of one object
	rootIno     = 1
)

// The default limits of [Options].
const (
	DefaultMaxBytes = 2 << 30
	DefaultMaxFiles = 1 << 20
)

// Options sets up a Volume. The zero Options are good.
type Options struct {
	// Now is the clock behind times and the change attribute; nil means
	// time.Now.
	Now func() time.Time
	// Rand makes inode numbers differ from those of any other Volume; nil means
	// crypto/rand.
	Rand io.Reader
	// MaxBytes bounds the memory taken by data, names and extended attributes,
	// in bytes; 0 means DefaultMaxBytes. Beyond it calls fail with ErrNoSpc.
	MaxBytes uint64
	// MaxFiles bounds the number of objects; 0 means DefaultMaxFiles.
	MaxFiles uint64
	// RootMode, RootUID and RootGID are of the root directory; mode 0 means
	// 0755.
	RootMode, RootUID, RootGID uint32
}

// Volume is a filesystem in memory. It implements [export.Volume].
type Volume struct {
	// Constant.
	now      func() time.Time
	root     *node
	verifier *export.VerifierSource

	table table
	pool  chunkPool
	space budget // bytes
	files budget // objects

	lastIno atomic.Uint64

	moves sync.Mutex // see the package comment
}

var _ export.Volume = (*Volume)(nil)

// New returns an empty Volume.
func New(opt Options) (*Volume, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Rand == nil {
		opt.Rand = rand.Reader
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = DefaultMaxBytes
	}
	if opt.MaxFiles == 0 {
		opt.MaxFiles = DefaultMaxFiles
	}
	if opt.RootMode == 0 {
		opt.RootMode = 0o755
	}
	var seed [8]byte
	if _, err := io.ReadFull(opt.Rand, seed[:]); err != nil {
		return nil, fmt.Errorf("memory: random identity: %w", err)
	}
	v := &Volume{now: opt.Now, verifier: export.NewVerifierSource()}
	v.space.limit = int64(min(opt.MaxBytes, 1<<62))
	v.files.limit = int64(min(opt.MaxFiles, 1<<62))
	v.table.init()
	// 22 random bits above 40 that count: positive as a signed number, and
	// never the root's.
	v.lastIno.Store((binary.BigEndian.Uint64(seed[:])>>42 | 1) << 40)

	now := v.now()
	a := export.Attr{Type: export.TypeDirectory, Mode: opt.RootMode & 0o7777, UID: opt.RootUID, GID: opt.RootGID}
	v.root = newNode(rootIno, a, now)
	v.root.dir.parent.Store(v.root)
	v.files.force(1)
	v.table.put(v.root)
	return v, nil
}

// Features implements [export.Volume].
func (v *Volume) Features() export.Features {
	return export.Features{
		HardLinks: true, Symlinks: true, Special: true, Xattrs: true,
		Seek: true, Allocate: true, Deallocate: true, SetTime: true,
		MaxName: maxName, MaxLink: maxLink, MaxFileSize: maxFileSize,
		TimeDelta: export.Timespec{Nsec: 1},
	}
}

// Root implements [export.Volume].
func (v *Volume) Root(context.Context) (export.Object, error) { return v.root.object(), nil }

// StatFS implements [export.Volume].
func (v *Volume) StatFS(_ context.Context, o export.Object) (export.StatFS, error) {
	if _, st := v.get(o); st != export.OK {
		return export.StatFS{}, fail("statfs", "", st)
	}
	var s export.StatFS
	s.TotalBytes, s.FreeBytes = v.space.state()
	s.TotalFiles, s.FreeFiles = v.files.state()
	s.AvailBytes, s.AvailFiles = s.FreeBytes, s.FreeFiles
	return s, nil
}

// WriteVerifier implements [export.Volume]: memory is lost at a restart and
// never before, so it is constant.
func (v *Volume) WriteVerifier() [8]byte { return v.verifier.Verifier() }

// Close implements [export.Volume]. The data are gone with the Volume.
func (v *Volume) Close(context.Context) error { return nil }

// get finds the node of o.
func (v *Volume) get(o export.Object) (*node, export.Status) {
	if o.Snap != export.SnapHead {
		return nil, export.ErrStale
	}
	if o.Ino == rootIno {
		return v.root, export.OK
	}
	if n := v.table.get(o.Ino); n != nil {
		return n, export.OK
	}
	return nil, export.ErrStale
}

// getDir finds the node of o and checks that it is a directory.
func (v *Volume) getDir(o export.Object) (*node, export.Status) {
	n, st := v.get(o)
	if st == export.OK && n.dir == nil {
		return nil, export.ErrNotDir
	}
	return n, st
}

// fail makes the error of operation op on name on.
func fail(op, on string, st export.Status) error {
	return &export.Error{Op: op, On: on, Status: st}
}

// budget counts what is taken of something limited.
type budget struct {
	limit int64 // constant
	taken atomic.Int64
}

// take takes n if that much is left. It never holds more than it is granted,
// so that a call that asks for too much fails no other.
func (b *budget) take(n int64) bool {
	for {
		taken := b.taken.Load()
		if n > 0 && n > b.limit-taken {
			return false
		}
		if b.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

// force takes n even beyond the limit; give gives it back.
func (b *budget) force(n int64) { b.taken.Add(n) }
func (b *budget) give(n int64)  { b.taken.Add(-n) }

func (b *budget) state() (total, free uint64) {
	limit := b.limit
	return uint64(limit), uint64(max(0, limit-b.taken.Load()))
}
