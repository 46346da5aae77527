//go:build linux

package localfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/billyfs/localfs"
	"capstan/export/exporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a Volume on a directory, and what it takes to open it again.
type served struct {
	dir, table string
	fs         *localfs.FS
	v          export.Volume // the present one
}

func (s *served) open(t testing.TB) export.Volume {
	t.Helper()
	var err error
	if s.fs, err = localfs.Open(s.dir); err != nil {
		t.Fatal(err)
	}
	// Async: the rows are about behaviour, and a sync each makes them slow.
	s.v, err = billyfs.NewVolume(s.fs, billyfs.Options{Table: s.table, Async: true})
	if err != nil {
		t.Fatal(err)
	}
	return s.v
}

func (s *served) close(t testing.TB) {
	t.Helper()
	if err := s.v.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.fs.Close(); err != nil {
		t.Error(err)
	}
}

func newServed(t testing.TB) *served {
	t.Helper()
	dir := t.TempDir()
	s := &served{dir: filepath.Join(dir, "root"), table: filepath.Join(dir, "handles")}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.open(t)
	t.Cleanup(func() { s.close(t) })
	return s
}

func TestBehaviour(t *testing.T) {
	all := map[export.Volume]*served{}
	exporttest.Run(t, exporttest.Config{
		New: func(t testing.TB) export.Volume {
			s := newServed(t)
			all[s.v] = s
			return s.v
		},
		Reopen: func(t testing.TB, v export.Volume) export.Volume {
			s := all[v]
			s.close(t)
			s.open(t)
			all[s.v] = s
			return s.v
		},
		Unprivileged: os.Geteuid() != 0,
	})
}
