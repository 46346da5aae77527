//go:build cgo && librados

package libcephfs

/*
#cgo LDFLAGS: -lcephfs
#cgo CPPFLAGS: -D_FILE_OFFSET_BITS=64 -D_GNU_SOURCE
#include <stdlib.h>
#include <fcntl.h>
#include <cephfs/libcephfs.h>

static int set_mode(void *m, const char *path, unsigned mode) {
	struct ceph_statx stx = { .stx_mode = mode };
	return ceph_setattrx(m, path, &stx, CEPH_SETATTR_MODE, AT_SYMLINK_NOFOLLOW);
}

static int set_times(void *m, const char *path, int mask, struct timespec atime, struct timespec mtime) {
	struct ceph_statx stx = { .stx_atime = atime, .stx_mtime = mtime };
	return ceph_setattrx(m, path, &stx, mask, AT_SYMLINK_NOFOLLOW);
}

static int make_node(void *m, const char *path, unsigned mode, unsigned long long dev) {
	return ceph_mknod(m, path, mode, dev);
}
*/
import "C"

import (
	"syscall"
	"unsafe"

	"github.com/ceph/go-ceph/cephfs"
	"golang.org/x/sys/unix"

	"capstan/export"
	"capstan/export/billyfs"
)

// The calls of libcephfs that go-ceph lacks and that this package cannot do
// without: changing a link and not what it leads to, the times of what cannot
// be opened, and large device numbers.

// raw returns the library's handle of the mount, which go-ceph keeps to itself:
// it is the only field of its MountInfo. The blank assignment below does not
// compile once that has another size.
func (f *FS) raw() unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(f.mount)) }

var _ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cephfs.MountInfo{})]byte{}

func withPath(p string, do func(p *C.char) C.int) error {
	c := C.CString(p)
	defer C.free(unsafe.Pointer(c))
	if rc := do(c); rc < 0 {
		return syscall.Errno(-rc)
	}
	return nil
}

// lchmod changes the mode of p itself.
func (f *FS) lchmod(p string, mode uint32) error {
	return withPath(p, func(p *C.char) C.int { return C.set_mode(f.raw(), p, C.uint(mode)) })
}

// lutimes sets the times of p itself, those that are to be set.
func (f *FS) lutimes(p string, atime, mtime billyfs.Time) error {
	var mask C.int
	now := unix.Timespec{}
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	pick := func(t billyfs.Time, bit C.int) (ts C.struct_timespec) {
		at := cephfs.Timespec(now)
		switch {
		case t.Now:
		case t.Set:
			at = clampTime(t.At)
		default:
			return ts
		}
		mask |= bit
		ts.tv_sec, ts.tv_nsec = C.__time_t(at.Sec), C.__syscall_slong_t(at.Nsec)
		return ts
	}
	a, m := pick(atime, C.CEPH_SETATTR_ATIME), pick(mtime, C.CEPH_SETATTR_MTIME)
	return withPath(p, func(p *C.char) C.int { return C.set_times(f.raw(), p, mask, a, m) })
}

// mknod makes a special file; format and perm together are its mode.
func (f *FS) mknod(p string, mode uint32, dev export.Device) error {
	return withPath(p, func(p *C.char) C.int {
		return C.make_node(f.raw(), p, C.uint(mode), C.ulonglong(unix.Mkdev(dev.Major, dev.Minor)))
	})
}
