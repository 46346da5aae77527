package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These tests ask the kernel they run on what it would do, under the file
// system ids of each caller, as its own NFS server does it.

// asCaller runs f as c on a thread that ends afterwards.
func asCaller(t *testing.T, c *Cred, f func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the ids die with the thread
		groups := append([]uint32{c.GID}, c.Groups...)
		// Raw calls, since those of the library change all threads. Without
		// fsuid 0 the thread loses the capabilities that override permissions.
		if _, _, e := syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); e != 0 {
			done <- fmt.Errorf("setgroups: %w", e)
			return
		}
		if err := errors.Join(unix.Setfsgid(int(c.GID)), unix.Setfsuid(int(c.UID))); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// needRoot skips the test where the ids of others cannot be taken.
func needRoot(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: takes the ids of other users to compare with the kernel's rules")
	}
	mask := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(mask) })
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// kernelObject makes an object of uid and gid with mode at path.
func kernelObject(t *testing.T, path string, typ FileType, uid, gid, mode uint32) *Attr {
	t.Helper()
	var err error
	if typ == TypeDirectory {
		err = unix.Mkdir(path, 0o700)
	} else {
		err = unix.Mknod(path, unix.S_IFREG|0o600, 0)
	}
	if err := errors.Join(err, unix.Chown(path, int(uid), int(gid)), unix.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return &Attr{Type: typ, Mode: mode, UID: uid, GID: gid}
}

func modeOf(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Mode & 0o7777
}

func TestSetAttrAsTheKernel(t *testing.T) {
	dir := needRoot(t)
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	then := []unix.Timespec{{Sec: 1}, {Sec: 2}}
	change := func(s SetAttr) func(string) error {
		return func(path string) error {
			switch s.Set {
			case SetMode:
				return unix.Chmod(path, s.Mode)
			case SetUID:
				return unix.Chown(path, int(s.UID), -1)
			case SetGID:
				return unix.Chown(path, -1, int(s.GID))
			case SetSize:
				return unix.Truncate(path, int64(s.Size))
			case SetAtime | SetMtime:
				return unix.UtimesNanoAt(unix.AT_FDCWD, path, then, 0)
			}
			return unix.UtimesNanoAt(unix.AT_FDCWD, path, now, 0)
		}
	}
	changes := []SetAttr{
		{Set: SetMode, Mode: 0o644}, {Set: SetMode, Mode: 0o7777}, {Set: SetMode, Mode: 0o6745},
		{Set: SetUID, UID: objUID}, {Set: SetUID, UID: 1},
		{Set: SetGID, GID: objGID}, {Set: SetGID, GID: 1}, {Set: SetGID, GID: 7}, {Set: SetGID, GID: 0},
		{Set: SetSize, Size: 10}, {Set: SetAtimeNow | SetMtimeNow}, {Set: SetAtime | SetMtime},
	}
	n := 0
	for _, c := range callers {
		if c.cred.IsSystem() {
			continue
		}
		for _, typ := range []FileType{TypeRegular, TypeDirectory} {
			for _, mode := range []uint32{0, 0o600, 0o060, 0o006, 0o7777, 0o6766, 0o2767, 0o4676} {
				for _, s := range changes {
					if typ == TypeDirectory && s.Set == SetSize {
						continue
					}
					n++
					path := filepath.Join(dir, fmt.Sprint(n))
					a := kernelObject(t, path, typ, objUID, objGID, mode)
					err := asCaller(t, c.cred, func() error { return change(s)(path) })
					want, wantMode := OK, mode
					if err != nil {
						want = StatusOf(err)
					}
					got := StatusOf(CheckSetAttr(c.cred, a, &s, false))
					if got == OK {
						wantMode = ModeAfterSet(c.cred, a, &s)
					}
					if got != want {
						t.Errorf("%s, type %d, mode %04o, %+v: %v, the kernel says %v", c.name, typ, mode, s, got, want)
					} else if is := modeOf(t, path); is != wantMode {
						t.Errorf("%s, type %d, mode %04o, %+v: mode %04o, the kernel's is %04o", c.name, typ, mode, s, wantMode, is)
					}
				}
			}
		}
	}
}

func TestWriteAsTheKernel(t *testing.T) {
	dir := needRoot(t)
	for i, c := range callers {
		if c.cred.IsSystem() {
			continue
		}
		for mode := uint32(0); mode < 0o10000; mode += 0o10 {
			path := filepath.Join(dir, fmt.Sprint(i, mode))
			a := kernelObject(t, path, TypeRegular, objUID, objGID, mode)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := asCaller(t, c.cred, func() error { _, err := f.WriteAt([]byte("x"), 0); return err }); err != nil {
				t.Fatal(err)
			}
			f.Close()
			if got, is := ModeAfterWrite(c.cred, a), modeOf(t, path); got != is {
				t.Errorf("%s: %04o becomes %04o, the kernel's %04o", c.name, mode, got, is)
			}
			os.Remove(path)
		}
	}
}

func TestEntriesAsTheKernel(t *testing.T) {
	top := needRoot(t)
	n := 0
	for _, c := range callers {
		if c.cred.IsSystem() {
			continue
		}
		for _, dirMode := range []uint32{0o777, 0o1777, 0o755, 0o722, 0o3777, 0o2777, 0o1733, 0o070} {
			for _, dirUID := range []uint32{objUID, 9} {
				for _, uid := range []uint32{objUID, 1} {
					for _, typ := range []FileType{TypeRegular, TypeDirectory} {
						n++
						path := filepath.Join(top, fmt.Sprint(n))
						dir := kernelObject(t, path, TypeDirectory, dirUID, objGID, dirMode)
						other := kernelObject(t, path+"o", TypeDirectory, 9, 9, 0o777)
						kernelObject(t, path+"/keep", TypeRegular, uid, 9, 0o644)
						a := kernelObject(t, path+"/x", typ, uid, 9, 0o755)
						check := func(what string, got error, do func() error) bool {
							t.Helper()
							err := asCaller(t, c.cred, do)
							if StatusOf(got) != StatusOf(err) {
								t.Errorf("%s, %s, directory %04o of %d, type %d of %d: %v, the kernel says %v",
									what, c.name, dirMode, dirUID, typ, uid, got, err)
							}
							return err == nil
						}
						check("rename in place", CheckRename(c.cred, dir, a, dir, nil, true), func() error {
							return unix.Rename(path+"/x", path+"/y")
						})
						os.Rename(path+"/y", path+"/x")
						check("rename elsewhere", CheckRename(c.cred, dir, a, other, nil, false), func() error {
							return unix.Rename(path+"/x", path+"o/x")
						})
						os.Rename(path+"o/x", path+"/x")
						b := kernelObject(t, path+"o/b", typ, 1, 9, 0o755)
						check("rename over", CheckRename(c.cred, other, b, dir, a, false), func() error {
							return unix.Rename(path+"o/b", path+"/x")
						})
						os.Remove(path + "o/b")
						os.RemoveAll(path + "/x")
						a = kernelObject(t, path+"/x", typ, uid, 9, 0o755)
						check("remove", CheckRemove(c.cred, dir, a), func() error {
							if typ == TypeDirectory {
								return unix.Rmdir(path + "/x")
							}
							return unix.Unlink(path + "/x")
						})
						for _, mode := range []uint32{0o755, 0o2755, 0o2745, 0o6777} {
							name := fmt.Sprintf("%s/new%o", path, mode)
							if !check("add", CheckAdd(c.cred, dir), func() error {
								if typ == TypeDirectory {
									return unix.Mkdir(name, mode)
								}
								return unix.Mknod(name, unix.S_IFREG|mode, 0)
							}) {
								continue
							}
							var st unix.Stat_t
							if err := unix.Lstat(name, &st); err != nil {
								t.Fatal(err)
							}
							// mkdir(2) takes no set-id bits, unlike NFS.
							asked := mode
							if typ == TypeDirectory {
								asked &= 0o1777
							}
							gid, mode := Inherit(c.cred, dir, typ, asked)
							if st.Gid != gid || st.Mode&0o7777 != mode {
								t.Errorf("%s in %04o: gid %d mode %04o, the kernel's %d %04o", c.name, dirMode, gid, mode, st.Gid, st.Mode&0o7777)
							}
						}
					}
				}
			}
		}
	}
}
