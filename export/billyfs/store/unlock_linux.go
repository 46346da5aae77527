package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// unlock gives back bbolt's lock on f. To close f is not enough, since the
// mapping holds it too.
func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }
