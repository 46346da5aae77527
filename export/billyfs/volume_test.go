package billyfs_test

import (
	"context"
	"os"
	"testing"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"go.uber.org/goleak"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/exporttest"
	"capstan/export/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// behaviour runs the suite on what fs makes.
func behaviour(t *testing.T, fs func(t testing.TB) billy.Filesystem, known map[string]string, only ...string) {
	exporttest.Run(t, exporttest.Config{
		New: func(t testing.TB) export.Volume {
			v, err := billyfs.NewVolume(fs(t), billyfs.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := v.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
			return v
		},
		Known:        known,
		Only:         only,
		Unprivileged: os.Geteuid() != 0,
	})
}

// TestBehaviourOfMemfs: a filesystem with nothing but billy. Families that
// rename are left out: memfs moves every path that begins with the name, "ab"
// with "a", and panics on what it then misses (memfs/storage.go, Rename).
func TestBehaviourOfMemfs(t *testing.T) {
	behaviour(t, func(testing.TB) billy.Filesystem { return &locked{fs: memfs.New()} }, map[string]string{
		"Attr/DirectoryLinksCountSubdirectories": "billy does not tell links; a directory has 2",
		"Write/LargeOffsets":                     "a filesystem without inodes is held to 1 GiB a file",
	},
		"Access/", "Attr/", "Create/", "Errors/", "Lock/", "Lookup/", "Mkdir/", "Mknod/", "Open/", "Read/", "ReadDir/", "Readlink/",
		"Remove/", "SetAttr/", "Symlink/", "Write/", "Xattr/")
}

// TestBehaviourOfRoundTrip: a Volume seen as a filesystem seen as a Volume
// again, which tries both adapters at once.
func TestBehaviourOfRoundTrip(t *testing.T) {
	behaviour(t, func(t testing.TB) billy.Filesystem {
		m, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		return billyfs.NewFilesystem(context.Background(), m, export.System())
	}, nil)
}
