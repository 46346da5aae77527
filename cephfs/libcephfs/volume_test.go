//go:build cgo && librados

package libcephfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"capstan/cephfs/libcephfs"
	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/exporttest"
)

// confEnv names the configuration of a cluster for the tests of this package.
const confEnv = "CAPSTAN_TEST_CEPH_CONF"

func conf(t testing.TB) string {
	t.Helper()
	c := os.Getenv(confEnv)
	if c == "" {
		t.Skip("no Ceph cluster: " + confEnv + " is not set")
	}
	return c
}

func mount(t testing.TB, opt libcephfs.Options) *libcephfs.FS {
	t.Helper()
	opt.Conf = conf(t)
	opt.Warn = func(msg string, err error) { t.Errorf("%s: %v", msg, err) }
	f, err := libcephfs.Mount(opt)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// known are the rows that this engine fails, with the limit in the package
// comment that explains each.
var known = map[string]string{
	"Attr/DirectoryLinksCountSubdirectories": "lazy-dirstat",
	"Change/ReadingChangesNothing":           "lazy-dirstat",
	"SetAttr/TimesBefore1970":                "times-1970",
	"StatFS/WritingTakesSpace":               "lagging-space",
	"Link/Symlink":                           "no-link-links",
	"Deallocate/FreesSpace":                  "used-is-size",
	"Xattr/SetAndGet":                        "empty-xattr",
}

var dirNumber atomic.Int64

func TestBehaviour(t *testing.T) {
	root := mount(t, libcephfs.Options{})
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	exporttest.Run(t, exporttest.Config{
		New: func(t testing.TB) export.Volume {
			dir := fmt.Sprintf("capstan-test-%d-%d", time.Now().UnixNano(), dirNumber.Add(1))
			if err := root.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			sub, err := root.Chroot(dir)
			if err != nil {
				t.Fatal(err)
			}
			v, err := billyfs.NewVolume(sub, billyfs.Options{Table: filepath.Join(t.TempDir(), "handles")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := v.Close(t.Context()); err != nil {
					t.Error(err)
				}
				_ = root.Rmdir(dir) // left if a row failed half-way
			})
			return v
		},
		Known: known,
	})
}
