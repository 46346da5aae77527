package export

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// OpenFilesOptions are the options of [NewOpenFiles]; zero values stand for the
// defaults named.
type OpenFilesOptions struct {
	Size   int           // files kept open while nobody uses them: 1024
	Idle   time.Duration // how long such a file is kept: 10 s
	Logger *slog.Logger  // told of files whose Close fails; none
}

// OpenFiles keeps files open between the calls of stateless clients: NFSv3's
// READ, WRITE and COMMIT, and NFSv4's with a special stateid. The files are
// opened by [System]; the caller checks permission itself.
//
// At most Size files are kept, besides those in use by a call. One that makes
// room, has been idle, or was forgotten is closed when its last user has
// released it. One timer runs while there are files; no goroutine waits.
//
// Lock order: OpenFiles.mu is taken alone and never held during a call into a
// Volume or File.
type OpenFiles struct {
	idle   time.Duration
	logger *slog.Logger

	mu      sync.Mutex // guards what follows, and the fields of every openFile said so
	lru     *simplelru.LRU[openKey, *openFile]
	dropped []*openFile // left the lru with no user, to be closed after unlock
	timer   *time.Timer // runs sweep; nil when there are no files
	sweeps  sync.WaitGroup
	closed  bool
}

// openKey holds a Volume, which is a pointer in every implementation.
type openKey struct {
	volume Volume
	object Object
	mode   OpenMode
}

// openFile is a file, or one being opened.
type openFile struct {
	key     openKey
	release func()        // made once, so that Get costs no memory
	ready   chan struct{} // closed when file and err are set
	file    File
	err     error

	users int       // guarded by OpenFiles.mu
	out   bool      // guarded by OpenFiles.mu: left the lru; the last user closes
	used  time.Time // guarded by OpenFiles.mu: when it was last taken or released
}

// NewOpenFiles returns an empty cache.
func NewOpenFiles(o OpenFilesOptions) *OpenFiles {
	f := &OpenFiles{idle: cmp.Or(o.Idle, 10*time.Second), logger: o.Logger}
	lru, err := simplelru.NewLRU(cmp.Or(o.Size, 1024), f.evictedLocked)
	if err != nil {
		panic(err) // the size is positive
	}
	f.lru = lru
	return f
}

// Get returns o of v, open in mode m, and what to call, once, when it is no
// longer used. Several callers may get the same File. The errors are those of
// [Volume.Open], and [ErrDelay] once Close was called.
func (f *OpenFiles) Get(ctx context.Context, v Volume, o Object, m OpenMode) (File, func(), error) {
	key := openKey{v, o, m}
	for {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return nil, nil, ErrDelay
		}
		of, ok := f.lru.Get(key)
		if !ok {
			of = &openFile{key: key, ready: make(chan struct{})}
			of.release = func() { f.put(of) }
			f.lru.Add(key, of)
		}
		of.users++
		of.used = time.Now()
		f.armLocked()
		f.unlock()

		if !ok {
			f.open(ctx, of)
		} else {
			select {
			case <-of.ready:
			case <-ctx.Done():
				f.put(of)
				return nil, nil, StatusOf(ctx.Err())
			}
		}
		if of.err == nil {
			return of.file, of.release, nil
		}
		f.put(of)
		// The one that opened went away; its leaving is no answer for us.
		if ok && ctx.Err() == nil && StatusOf(of.err) == ErrCanceled {
			continue
		}
		return nil, nil, of.err
	}
}

// open opens of, which its caller holds, for everybody who waits for it.
func (f *OpenFiles) open(ctx context.Context, of *openFile) {
	of.file, of.err = of.key.volume.Open(ctx, System(), of.key.object, of.key.mode)
	if of.err != nil {
		f.mu.Lock()
		f.removeLocked(of)
		f.unlock()
	}
	close(of.ready)
}

// put ends one use of of.
func (f *OpenFiles) put(of *openFile) {
	f.mu.Lock()
	of.users--
	of.used = time.Now()
	if of.users == 0 {
		if of.out {
			f.dropped = append(f.dropped, of)
		} else {
			f.lru.Get(of.key) // the lru is in the order of used
		}
	}
	f.unlock()
}

// unlock unlocks mu and closes what was dropped under it.
func (f *OpenFiles) unlock() {
	dropped := f.dropped
	f.dropped = nil
	f.mu.Unlock()
	for _, of := range dropped {
		if of.file == nil {
			continue
		}
		if err := of.file.Close(); err != nil && f.logger != nil {
			f.logger.Warn("closing a file failed", "inode", of.key.object.Ino, "error", err)
		}
	}
}

// evictedLocked is called by the lru, under mu, for every entry that leaves it.
func (f *OpenFiles) evictedLocked(_ openKey, of *openFile) {
	of.out = true
	if of.users == 0 {
		f.dropped = append(f.dropped, of)
	}
}

// removeLocked takes of out of the lru, if it is there and not another of the
// same key.
func (f *OpenFiles) removeLocked(of *openFile) {
	if !of.out {
		f.lru.Remove(of.key)
	}
}

// armLocked starts the timer if files are there and it is not running.
func (f *OpenFiles) armLocked() {
	if f.timer == nil && f.lru.Len() > 0 && !f.closed {
		f.sweeps.Add(1)
		f.timer = time.AfterFunc(f.idle, f.sweep)
	}
}

// sweep drops the files that have been idle, and sets the timer to the time
// when the next one will have been.
func (f *OpenFiles) sweep() {
	defer f.sweeps.Done()
	f.mu.Lock()
	defer f.unlock()
	f.timer = nil
	if f.closed {
		return
	}
	now := time.Now()
	for {
		key, of, ok := f.lru.GetOldest()
		if !ok {
			return
		}
		if left := f.idle - now.Sub(of.used); left > 0 {
			f.sweeps.Add(1)
			f.timer = time.AfterFunc(left, f.sweep)
			return
		}
		if of.users > 0 {
			of.used = now // a long call: look again later
			f.lru.Get(key)
			continue
		}
		f.lru.Remove(key)
	}
}

// Forget closes the files of o that nobody uses, and the others when they are
// released, so that an object whose last name was removed can go.
func (f *OpenFiles) Forget(v Volume, o Object) {
	f.mu.Lock()
	defer f.unlock()
	for m := OpenMode(1); m <= OpenRead|OpenWrite|OpenOwner|OpenExec; m++ {
		f.lru.Remove(openKey{v, o, m})
	}
}

// ForgetVolume does for all files of v what Forget does for one. It is called
// when nothing opens files of v any more; those in use are in use by calls.
func (f *OpenFiles) ForgetVolume(v Volume) {
	f.mu.Lock()
	defer f.unlock()
	for _, key := range f.lru.Keys() {
		if key.volume == v {
			f.lru.Remove(key)
		}
	}
}

// Len returns how many files are kept.
func (f *OpenFiles) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lru.Len()
}

// Close closes the files that nobody uses and lets the others be closed by
// their release. Get fails from now on. No timer and no sweep is left.
func (f *OpenFiles) Close() {
	f.mu.Lock()
	f.closed = true
	if f.timer != nil && f.timer.Stop() {
		f.sweeps.Done()
	}
	f.timer = nil
	f.lru.Purge()
	f.unlock()
	f.sweeps.Wait()
}
