package export

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// lookups is a bounded cache in front of a source outside of capstan that may
// be slow, wrong for a while or away: name servers, user databases.
//
// Of one key there is one question at a time, on a goroutine of its own with a
// time limit; who asks waits for it or for the end of its own context, and no
// lock is held. When a known answer is due to be asked for again, the old one
// is given meanwhile, and for up to maxStale also while the source fails. That
// there is no answer is given on for once more the time it counted, so that who
// keeps asking waits only the first time.
type lookups[K comparable, V any] struct {
	// Constant.
	ask      func(context.Context, K) (V, error) // ErrNoEnt: there is none
	limit    time.Duration                       // of one question
	ttl      time.Duration                       // of an answer
	ttlNone  time.Duration                       // of ErrNoEnt
	retry    time.Duration                       // after any other error
	maxStale time.Duration
	ctx      context.Context // ends at close
	cancel   context.CancelFunc

	wg sync.WaitGroup // questions being asked

	mu      sync.Mutex // guards what follows
	cache   *simplelru.LRU[K, *answer[V]]
	running map[K]*question[V]
	closed  bool
}

// answer is immutable.
type answer[V any] struct {
	value V
	err   error     // nil, ErrNoEnt or ErrDelay
	at    time.Time // when value was good, or when there was none
	until time.Time // when to ask again
}

type question[V any] struct {
	done   chan struct{} // closed when answer is set
	answer *answer[V]
}

func newLookups[K comparable, V any](size int, ask func(context.Context, K) (V, error)) *lookups[K, V] {
	cache, err := simplelru.NewLRU[K, *answer[V]](size, nil)
	if err != nil {
		panic(err) // size is never below 1
	}
	l := &lookups[K, V]{ask: ask, cache: cache, running: make(map[K]*question[V])}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// get returns what is known of k, and until when that need not be asked again.
// The error is ErrNoEnt, ErrDelay when the source gives no answer, or
// ErrCanceled when ctx ended first.
func (l *lookups[K, V]) get(ctx context.Context, k K) (V, time.Time, error) {
	now := time.Now()
	l.mu.Lock()
	old, _ := l.cache.Get(k)
	if old != nil && now.Before(old.until) {
		l.mu.Unlock()
		return old.value, old.until, old.err
	}
	q := l.running[k]
	if q == nil && !l.closed {
		q = &question[V]{done: make(chan struct{})}
		l.running[k] = q
		l.wg.Add(1)
		go l.runQuestion(k, q, old)
	}
	l.mu.Unlock()

	if old != nil && now.Before(l.end(old)) {
		return old.value, now.Add(l.retry), old.err
	}
	var none V
	if q == nil {
		return none, now, ErrDelay
	}
	select {
	case <-q.done:
		return q.answer.value, q.answer.until, q.answer.err
	case <-ctx.Done():
		return none, now, StatusOf(ctx.Err())
	}
}

// end returns when a is too old to stand in for a new answer.
func (l *lookups[K, V]) end(a *answer[V]) time.Time {
	if a.err == nil {
		return a.at.Add(l.ttl + l.maxStale)
	}
	return a.until.Add(a.until.Sub(a.at))
}

// runQuestion asks the source about k and keeps the answer. old is the answer
// known before, or nil.
func (l *lookups[K, V]) runQuestion(k K, q *question[V], old *answer[V]) {
	defer l.wg.Done()
	ctx, cancel := context.WithTimeout(l.ctx, l.limit)
	defer cancel()
	value, err := l.ask(ctx, k)
	now := time.Now()
	a := &answer[V]{value: value, at: now}
	switch {
	case err == nil:
		a.until = now.Add(l.ttl)
	case errors.Is(err, ErrNoEnt):
		a.err, a.until = ErrNoEnt, now.Add(l.ttlNone)
	default:
		a.err, a.until = ErrDelay, now.Add(l.retry)
		if old != nil && old.err == nil && now.Before(l.end(old)) {
			a.value, a.err, a.at = old.value, nil, old.at
		}
	}
	l.mu.Lock()
	l.cache.Add(k, a)
	delete(l.running, k)
	q.answer = a
	close(q.done)
	l.mu.Unlock()
}

// close ends the questions being asked and waits for them. Afterwards what is
// known is still given.
func (l *lookups[K, V]) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
}
