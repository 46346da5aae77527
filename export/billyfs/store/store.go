package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// FormatVersion is the version of what the bbolt file holds.
const FormatVersion = 1

var (
	bucketName = []byte("capstan")
	keyFormat  = []byte("format")
)

// Options of a Store; the zero value is good.
type Options struct {
	// Interval is how often gathered writes move to the bbolt file and so to
	// the disk; 0 means 5 s.
	Interval time.Duration
	// Pending is how many gathered keys start such a move early; 0 means
	// 32,768. At eight times as many Apply waits for it, and refuses more if
	// it has failed.
	Pending int
	// Logger gets one line for each failure; nil means slog.Default.
	Logger *slog.Logger
}

// Store is the key-value store; see the package comment. Its methods may be
// called from several goroutines.
type Store struct {
	path string
	db   *bbolt.DB // nil for a store without a file
	file *os.File  // of db

	damaged atomic.Pointer[error] // why the file is not used any more, see guard
	opt     Options
	kick    chan struct{} // size 1
	stop    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	drained *sync.Cond // signals that moving is nil again, or that the Store is closed
	// Guarded by mu. A nil value stands for a deleted key; gathered goes
	// before moving, and moving before the bbolt file.
	gathered map[string][]byte
	moving   map[string][]byte
	log      *log
	oldLogs  []string // carry what is in moving, or in gathered after a failed move
	seq      uint64   // of log
	failed   error    // of the last Flush; nil after a good one
	closed   bool
}

// Open opens or makes the store at path. An empty path makes one that lives in
// memory only and is gone with the process.
func Open(path string, opt Options) (*Store, error) {
	if opt.Interval <= 0 {
		opt.Interval = 5 * time.Second
	}
	if opt.Pending <= 0 {
		opt.Pending = 32768
	}
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	s := &Store{path: path, opt: opt, gathered: map[string][]byte{}}
	s.drained = sync.NewCond(&s.mu)
	if path == "" {
		return s, nil
	}
	if err := s.openFile(); err != nil {
		return nil, err
	}
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, s.closeFile())
	}
	s.kick, s.stop, s.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go s.runFlush()
	return s, nil
}

// recover checks the format, replays the logs of the process before, and
// starts a log of our own. The old logs go once their content has moved.
func (s *Store) recover() error {
	err := s.update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucketName)
		if err != nil {
			return err
		}
		v := b.Get(keyFormat)
		if v == nil {
			return b.Put(keyFormat, binary.BigEndian.AppendUint32(nil, FormatVersion))
		}
		if len(v) != 4 || binary.BigEndian.Uint32(v) > FormatVersion {
			return fmt.Errorf("store: %s has a newer format than this program knows (%d)", s.path, FormatVersion)
		}
		return nil
	})
	if err != nil {
		return err
	}
	seqs, err := listLogs(s.path)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		name := walName(s.path, seq)
		err := replayLog(name, func(key, val []byte) {
			s.gathered[string(key)] = slices.Clone(val)
		})
		if err != nil {
			return err
		}
		s.oldLogs = append(s.oldLogs, name)
		s.seq = seq
	}
	s.seq++
	s.log, err = createLog(s.path, s.seq)
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get returns the value of key, which the caller may keep but not change. What
// cannot be read counts as absent.
func (s *Store) Get(key []byte) ([]byte, bool) {
	s.mu.Lock()
	v, ok := s.gathered[string(key)]
	if !ok {
		v, ok = s.moving[string(key)]
	}
	s.mu.Unlock()
	if ok || s.db == nil {
		return v, v != nil
	}
	err := s.guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			v = slices.Clone(tx.Bucket(bucketName).Get(key))
			return nil
		})
	})
	return v, err == nil && v != nil
}

// Apply applies b, which may not be used again. It returns when b is in the
// log: safe from the death of the process, and with sync from that of the
// machine. After an error b counts for this process, but may be lost with it;
// after [ErrFull] it does not count at all.
func (s *Store) Apply(b *Batch, sync bool) error {
	if b.Empty() {
		return nil
	}
	var err error
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.db != nil && len(s.gathered) >= 8*s.opt.Pending && s.moving != nil && !s.closed {
		s.drained.Wait()
	}
	if s.db != nil && s.failed != nil && len(s.gathered) >= 8*s.opt.Pending && s.growsLocked(b) {
		return fmt.Errorf("%w: %w", ErrFull, s.failed)
	}
	if s.log != nil {
		err = s.log.append(b.seal())
	}
	for _, o := range b.ops {
		if o.val == nil && s.db == nil {
			delete(s.gathered, o.key)
			continue
		}
		s.gathered[o.key] = o.val
	}
	if s.db != nil && len(s.gathered) >= s.opt.Pending {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
	if sync && err == nil && s.log != nil {
		// Under mu, so that the log is not moved away meanwhile.
		err = s.log.f.Sync()
	}
	return err
}

// ErrFull says that too much has gathered that cannot be moved to the file.
var ErrFull = errors.New("store: too many unwritten keys")

// growsLocked reports whether b has a key that has not gathered. Called with mu
// held.
func (s *Store) growsLocked(b *Batch) bool {
	for _, o := range b.ops {
		if _, ok := s.gathered[o.key]; !ok {
			return true
		}
	}
	return false
}

// runFlush moves what has gathered until Close. Owner: Store; Close waits for
// it.
func (s *Store) runFlush() {
	defer close(s.done)
	tick := time.NewTicker(s.opt.Interval)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-s.kick:
		case <-s.stop:
			return
		}
		if err := s.Flush(); err != nil && !failing {
			failing = true
			s.opt.Logger.Error("handle table cannot be written; handles given from now on are lost with the machine",
				"path", s.path, "err", err)
		} else if err == nil {
			failing = false
		}
	}
}

// Flush moves what has gathered to the bbolt file and to the disk.
func (s *Store) Flush() error {
	if s.db == nil {
		return nil
	}
	s.mu.Lock()
	for s.moving != nil {
		s.drained.Wait()
	}
	if len(s.gathered) == 0 {
		s.mu.Unlock()
		return nil
	}
	// A new log first: what follows is not in the move.
	next, err := createLog(s.path, s.seq+1)
	if err != nil {
		s.failed = err
		s.mu.Unlock()
		return err
	}
	s.seq++
	old := append(s.oldLogs, s.log.path)
	err = s.log.f.Close()
	s.log, s.oldLogs = next, old
	s.moving, s.gathered = s.gathered, map[string][]byte{}
	s.mu.Unlock()

	if err == nil {
		err = s.move()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.drained.Broadcast()
	s.failed = err
	if err != nil {
		// The old logs still carry it all.
		maps.Copy(s.moving, s.gathered)
		s.gathered, s.moving = s.moving, nil
		return err
	}
	s.moving, s.oldLogs = nil, nil
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// move writes s.moving, which nobody changes meanwhile.
func (s *Store) move() error {
	keys := slices.Sorted(maps.Keys(s.moving)) // pages are filled in order
	return s.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketName)
		for _, k := range keys {
			v := s.moving[k]
			var err error
			if v == nil {
				err = b.Delete([]byte(k))
			} else {
				err = b.Put([]byte(k), v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Close moves everything to the disk and closes the files. No other call may
// be running.
func (s *Store) Close() error {
	if s.db == nil {
		return nil
	}
	close(s.stop)
	<-s.done
	err := s.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.drained.Broadcast()
	if len(s.gathered) == 0 {
		err = errors.Join(err, s.log.remove())
	} else {
		err = errors.Join(err, s.log.f.Close())
	}
	return errors.Join(err, s.closeFile())
}
