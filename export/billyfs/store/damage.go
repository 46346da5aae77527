package store

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// ErrDamaged says that the file does not hold what it should: a disk that
// cannot be read, a copy that is not whole. The file has to be moved away while
// nobody uses it.
var ErrDamaged = errors.New("the file is damaged; stop the server and move it away, with its logs, to begin anew")

// guard runs do, which uses the mapped file, and turns its panics into
// ErrDamaged: bbolt's for a page that makes no sense, the kernel's (SIGBUS) for
// one that is not there. Without it one damaged table would end the process,
// and all other exports with it. After the first such error the file is not used
// any more, since bbolt may have kept a lock.
func (s *Store) guard(do func() error) (err error) {
	if p := s.damaged.Load(); p != nil {
		return *p
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: %s: %w: %v", s.path, ErrDamaged, p)
			if s.damaged.CompareAndSwap(nil, &err) {
				s.opt.Logger.Error("handle table cannot be used; what it held is looked for anew", "err", err)
			}
		}
	}()
	return do()
}

// openFile opens the bbolt file. A file that is shorter than what its header
// counts is damaged, though that might show only later.
func (s *Store) openFile() error {
	o := &bbolt.Options{Timeout: 2 * time.Second, FreelistType: bbolt.FreelistMapType}
	o.OpenFile = func(name string, flag int, perm os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag, perm)
		s.file = f
		return f, err
	}
	err := s.guard(func() (err error) {
		s.db, err = bbolt.Open(s.path, 0o600, o)
		return err
	})
	switch {
	case errors.Is(err, ErrDamaged):
		return errors.Join(err, s.abandon())
	case errors.Is(err, bbolterrors.ErrTimeout):
		return fmt.Errorf("store: open %s: it is in use by another process", s.path)
	case err != nil:
		return fmt.Errorf("store: open %s: %w", s.path, err)
	}
	var counted int64
	err = s.guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			counted = tx.Size()
			return nil
		})
	})
	fi, err2 := s.file.Stat()
	if err = errors.Join(err, err2); err == nil && fi.Size() < counted {
		err = fmt.Errorf("store: %s: %w: it has %d bytes of %d", s.path, ErrDamaged, fi.Size(), counted)
	}
	if err != nil {
		return errors.Join(err, s.closeFile())
	}
	return nil
}

// update is a guarded write transaction.
func (s *Store) update(do func(*bbolt.Tx) error) error {
	return s.guard(func() error { return s.db.Update(do) })
}

// closeFile closes the bbolt file.
func (s *Store) closeFile() error {
	if s.damaged.Load() != nil {
		return s.abandon()
	}
	return s.db.Close()
}

// abandon closes the file without bbolt, which may have kept its locks. The
// mapping stays until the process ends.
func (s *Store) abandon() error { return errors.Join(unlock(s.file), s.file.Close()) }
