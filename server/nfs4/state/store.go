package state

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"capstan/server/nfs4/nfsv4"
)

// Store is the state of all clients. Its methods may be called from any
// goroutine.
type Store struct {
	// Constant.
	opt       Options
	epoch     time.Time // what lease times count from
	volumeCtx context.Context
	abort     context.CancelFunc // ends volumeCtx: Close has run out of time
	stop      context.CancelFunc // ends runExpiry

	// Locked inside.
	sessions sessionTable
	files    fileTable
	numbers  numberTable

	mu           sync.Mutex                 // guards the fields below
	clients      map[nfsv4.ClientID]*Client // confirmed and unconfirmed
	confirmed    map[string]*Client         // by co_ownerid
	unconfirmed  map[string]*Client         // by co_ownerid
	lastClientID uint32

	ids        atomic.Uint64 // stateids, sessions and lock-owner numbers
	cacheInUse atomic.Int64  // bytes the slots of all sessions may need for replies
	expiry     sync.WaitGroup

	jobsMu sync.Mutex // guards the fields below; innermost
	jobs   sync.WaitGroup
	closed bool
}

// New returns a Store and starts its expiry goroutine. The error is that of
// Options.Rand.
func New(o Options) (*Store, error) {
	o.setDefaults()
	if o.Instance == (Instance{}) {
		i, err := NewInstance(o.Rand)
		if err != nil {
			return nil, err
		}
		o.Instance = i
	}
	s := &Store{
		opt:         o,
		epoch:       o.Now(),
		clients:     make(map[nfsv4.ClientID]*Client),
		confirmed:   make(map[string]*Client),
		unconfirmed: make(map[string]*Client),
	}
	s.sessions.init()
	s.files.init()
	s.numbers.init()
	s.volumeCtx, s.abort = context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.expiry.Go(func() { s.runExpiry(ctx) })
	return s, nil
}

// Close discards all clients, gives back what they hold and ends the
// goroutines. No request may be running any more. It returns ctx's error if
// Volumes took longer than that; calls into them are then cancelled.
func (s *Store) Close(ctx context.Context) error {
	s.stop()
	s.expiry.Wait()

	s.mu.Lock()
	all := make([]*Client, 0, len(s.clients))
	for _, c := range s.clients {
		c.gate.kill()
		s.removeLocked(c)
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		s.tearDown(c)
	}

	s.jobsMu.Lock()
	s.closed = true
	s.jobsMu.Unlock()
	done := make(chan struct{})
	go func() {
		s.jobs.Wait()
		close(done)
	}()
	defer s.abort()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("state: files of clients still closing: %w", ctx.Err())
	}
}

// goJob runs f on a goroutine that Close waits for; once Close waits, at once.
func (s *Store) goJob(f func()) {
	s.jobsMu.Lock()
	if s.closed {
		s.jobsMu.Unlock()
		f()
		return
	}
	s.jobs.Add(1)
	s.jobsMu.Unlock()
	go func() {
		defer s.jobs.Done()
		f()
	}()
}

// Instance returns the identity of this run.
func (s *Store) Instance() Instance { return s.opt.Instance }

// Lease returns the length of a lease.
func (s *Store) Lease() time.Duration { return s.opt.Lease }

// now is the lease clock: monotonic time since the Store was made.
func (s *Store) now() time.Duration { return s.opt.Now().Sub(s.epoch) }

// random32 is 32 bits of Options.Rand; should that fail, of the runtime.
func (s *Store) random32() uint32 {
	var b [4]byte
	if _, err := io.ReadFull(s.opt.Rand, b[:]); err != nil {
		return rand.Uint32()
	}
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}
