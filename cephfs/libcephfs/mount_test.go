//go:build cgo && librados

package libcephfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"capstan/cephfs/libcephfs"
)

// TestMountNamesWhatIsMissing: each way to fail has its errno and says what to
// look at.
func TestMountNamesWhatIsMissing(t *testing.T) {
	c := conf(t)
	dir := t.TempDir()
	wrong := filepath.Join(dir, "wrong")
	// A key of the right form that no cluster has.
	const key = "[client.admin]\n\tkey = AQAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA==\n"
	if err := os.WriteFile(wrong, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(dir, "nowhere.conf")
	if err := os.WriteFile(nowhere, []byte("[global]\nmon host = 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name string
		opt  libcephfs.Options
		is   []error
		says string
	}{
		{"no conf", libcephfs.Options{Conf: "/no/such/conf"}, []error{os.ErrNotExist}, "cannot be read"},
		{"no keyring", libcephfs.Options{Conf: c, Keyring: "/no/such/keyring"}, []error{os.ErrNotExist}, "cannot be read"},
		{"wrong key", libcephfs.Options{Conf: c, Keyring: wrong}, []error{syscall.EACCES, syscall.EPERM}, "wrong key"},
		{"no such client", libcephfs.Options{Conf: c, Client: "nobody"}, []error{syscall.ENOENT, syscall.EACCES}, "client.nobody"},
		{"no such filesystem", libcephfs.Options{Conf: c, Filesystem: "nope"}, []error{syscall.ENOENT, syscall.EINVAL}, "nope"},
		{"no such root", libcephfs.Options{Conf: c, Root: "/not/there"}, []error{syscall.ENOENT}, "/not/there"},
		{"bad setting", libcephfs.Options{Conf: c, Settings: map[string]string{"no_such_option": "1"}}, []error{syscall.ENOENT}, "no_such_option"},
		{"no route", libcephfs.Options{Conf: nowhere, Keyring: wrong, Timeout: 2 * time.Second}, []error{syscall.ETIMEDOUT}, "192.0.2.1"},
	} {
		t.Run(x.name, func(t *testing.T) {
			f, err := libcephfs.Mount(x.opt)
			if err == nil {
				f.Close()
				t.Fatal("mounted")
			}
			is := false
			for _, e := range x.is {
				is = is || errors.Is(err, e)
			}
			if !is || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
