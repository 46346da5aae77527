//go:build cgo && librados

package libcephfs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/ceph/go-ceph/cephfs"

	"capstan/export/billyfs"
)

// Available tells whether this build has the engine.
const Available = true

// ErrUnavailable is what Mount fails with in a build without the engine.
var ErrUnavailable = errors.New("no libcephfs engine")

// FS is a mounted CephFS. Its methods may be called from several goroutines.
type FS struct {
	mount *cephfs.MountInfo
	opt   Options
	sub   string        // path below the mounted root, for Chroot; "" or "a/b"
	calls chan struct{} // one token for each call in the library
	owner bool          // Close unmounts
}

// MountError says at which step mounting failed, and what is probably missing.
// It wraps the errno.
type MountError struct {
	Step string // "configure", "connect", "mount"
	Hint string
	Err  error
}

func (e *MountError) Error() string {
	return fmt.Sprintf("cephfs: %s: %s: %v", e.Step, e.Hint, e.Err)
}

// Unwrap returns the errno.
func (e *MountError) Unwrap() error { return e.Err }

// Mount connects to a cluster and mounts a filesystem. The caller closes it.
func Mount(opt Options) (*FS, error) {
	opt.Client = strings.TrimPrefix(cmp.Or(opt.Client, "admin"), "client.")
	opt.Root = cmp.Or(opt.Root, "/")
	if opt.Timeout <= 0 {
		opt.Timeout = 30 * time.Second
	}
	if opt.MaxCalls <= 0 {
		opt.MaxCalls = 64
	}
	if opt.MaxFileSize == 0 {
		opt.MaxFileSize = 1 << 40
	}
	if opt.Warn == nil {
		opt.Warn = func(string, error) {}
	}
	m, err := configure(&opt)
	if err != nil {
		return nil, err
	}
	f := &FS{mount: m, opt: opt, calls: make(chan struct{}, opt.MaxCalls), owner: true}
	if err := f.connect(); err != nil {
		_ = m.Release() // the first error is the one to tell
		return nil, err
	}
	if opt.Instance != "" {
		if err := f.evictOlder(); err != nil {
			opt.Warn("sessions that a killed process left at the MDS could not be evicted; files it had open may be out of reach for a minute", err)
		}
	}
	return f, nil
}

// configure makes a mount handle with all settings.
func configure(opt *Options) (*cephfs.MountInfo, error) {
	for _, file := range []string{opt.Conf, opt.Keyring, opt.KeyFile} {
		if file == "" {
			continue
		}
		// The library says no more than that something failed.
		f, err := os.Open(file)
		if err != nil {
			return nil, &MountError{"configure", "a file of the configuration cannot be read", err}
		}
		f.Close()
	}
	m, err := cephfs.CreateMountWithId(opt.Client)
	if err != nil {
		return nil, &MountError{"configure", "the library refuses to start", errnoOf(err)}
	}
	fail := func(hint string, err error) (*cephfs.MountInfo, error) {
		_ = m.Release()
		return nil, &MountError{"configure", hint, errnoOf(err)}
	}
	if opt.Conf != "" {
		err = m.ReadConfigFile(opt.Conf)
	} else {
		err = m.ReadDefaultConfigFile()
	}
	if err != nil {
		return fail("the configuration file "+cmp.Or(opt.Conf, "(default)")+" cannot be read or parsed", err)
	}
	settings := []struct{ key, value string }{
		// With its in-memory log the library is many times slower on cached calls.
		{"debug_client", "0/0"},
		{"debug_objectcacher", "0/0"},
		{"client_mount_timeout", fmt.Sprint(int(math.Ceil(opt.Timeout.Seconds())))},
		// The Volume checks permission, against attributes it has locked.
		{"client_permissions", "false"},
	}
	add := func(key, value string) {
		if value != "" {
			settings = append(settings, struct{ key, value string }{key, value})
		}
	}
	add("keyring", opt.Keyring)
	add("keyfile", opt.KeyFile)
	if opt.Instance != "" {
		add("client_metadata", instanceKey+"="+opt.Instance)
	}
	for k, v := range opt.Settings {
		add(k, v)
	}
	for _, s := range settings {
		if err := m.SetConfigOption(s.key, s.value); err != nil {
			return fail(fmt.Sprintf("the library does not take %s = %q", s.key, s.value), err)
		}
	}
	return m, nil
}

// connect mounts, as root.
func (f *FS) connect() error {
	m, opt := f.mount, &f.opt
	if err := m.Init(); err != nil {
		return f.explain("connect", err)
	}
	perm := cephfs.NewUserPerm(0, 0, []int{0})
	defer perm.Destroy()
	if err := m.SetMountPerms(perm); err != nil {
		return &MountError{"connect", "the identity cannot be set", errnoOf(err)}
	}
	if opt.Filesystem != "" {
		if err := m.SelectFilesystem(opt.Filesystem); err != nil {
			return f.explain("connect", err)
		}
	}
	if err := m.MountWithRoot(opt.Root); err != nil {
		return f.explain("mount", err)
	}
	return nil
}

// explain turns the errno of a failed mount into what is probably missing.
func (f *FS) explain(step string, err error) error {
	mons, _ := f.mount.GetConfigOption("mon_host")
	who := "client." + f.opt.Client
	fs := cmp.Or(f.opt.Filesystem, "the default filesystem")
	hint := "failed for a reason of its own"
	errno := errnoOf(err)
	switch {
	case errors.Is(errno, syscall.ETIMEDOUT):
		hint = fmt.Sprintf("no answer within %v: no route to the monitors (%s), or no active MDS for %s", f.opt.Timeout, strings.TrimSpace(mons), fs)
	case errors.Is(errno, syscall.ENOENT) && step == "mount":
		hint = fmt.Sprintf("no such filesystem (%s), no such directory in it (%s), or no key for %s in the keyring", fs, f.opt.Root, who)
	case errors.Is(errno, syscall.ENOENT):
		hint = fmt.Sprintf("no monitors in the configuration, or no key for %s in the keyring", who)
	case errors.Is(errno, syscall.EACCES), errors.Is(errno, syscall.EPERM):
		hint = fmt.Sprintf("%s was refused: wrong key, or its capabilities do not allow %s of %s (mon 'allow r', mds 'allow rw', osd 'allow rw tag cephfs data=...')", who, f.opt.Root, fs)
	case errors.Is(errno, syscall.EINVAL):
		hint = fmt.Sprintf("refused as invalid: no such filesystem (%s)?", fs)
	case errors.Is(errno, syscall.EOPNOTSUPP):
		hint = "client and cluster have no common protocol or authentication"
	case errors.Is(errno, syscall.EHOSTDOWN):
		hint = "the filesystem has no active MDS"
	case errors.Is(errno, syscall.ESHUTDOWN):
		hint = "this client was put on the blocklist"
	}
	return &MountError{step, hint, errno}
}

// Close unmounts. No other call may be running.
func (f *FS) Close() error {
	if !f.owner {
		return nil
	}
	return errors.Join(errnoOf(f.mount.Unmount()), errnoOf(f.mount.Release()))
}

// Describe implements [billyfs.Describer].
func (f *FS) Describe() billyfs.Facts {
	return billyfs.Facts{MaxName: 255, MaxFileSize: f.opt.MaxFileSize, Shared: true, NoHoles: true, NoAllocate: true}
}

// errnoOf makes a [syscall.Errno] of an error of go-ceph, which has the number
// but not the type.
func errnoOf(err error) error {
	if err == nil {
		return nil
	}
	if c, ok := err.(interface{ ErrorCode() int }); ok {
		n := c.ErrorCode()
		if n < 0 {
			n = -n
		}
		if n > 0 && n < 4096 {
			return syscall.Errno(n)
		}
	}
	return err
}

// enter waits for a place in the library; the caller calls leave.
func (f *FS) enter() { f.calls <- struct{}{} }

func (f *FS) leave() { <-f.calls }
