// Package loglimit keeps a log from being flooded: whatever clients do, or a
// disk that is broken does, fills no more of it than so many lines a minute.
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxMessages bounds the table. Messages are constants of the program; should
// they not be, those that find no place pass as one.
const maxMessages = 1024

// Handler is a [slog.Handler] that hands on at most so many records of the same
// message and level per period, and drops the rest. The first one of a later
// period carries their number as "unlogged". Debug records always pass: they are
// wanted for what they are.
type Handler struct {
	next  slog.Handler
	quota *quota // shared with the handlers made by WithAttrs and WithGroup
}

// New returns a Handler in front of next that lets burst records of a message
// through per period.
func New(next slog.Handler, burst int, period time.Duration) *Handler {
	return &Handler{next, &quota{burst: burst, period: period, seen: map[key]*window{}}}
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle implements [slog.Handler].
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug {
		dropped, ok := h.quota.take(key{r.Level, r.Message}, r.Time)
		if !ok {
			return nil
		}
		if dropped > 0 {
			r = r.Clone() // its attributes may be shared
			r.AddAttrs(slog.Int("unlogged", dropped))
		}
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.quota}
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.quota}
}

type key struct {
	level   slog.Level
	message string
}

// window counts the records of one key since from.
type window struct {
	from    time.Time
	passed  int
	dropped int
}

type quota struct {
	burst  int
	period time.Duration

	mu   sync.Mutex
	seen map[key]*window // guarded by mu
}

// take reports whether a record may pass, and how many of its kind were dropped
// in the periods before.
func (q *quota) take(k key, now time.Time) (dropped int, ok bool) {
	if now.IsZero() {
		now = time.Now() // slog allows records without a time
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.seen[k]
	if w == nil && len(q.seen) >= maxMessages {
		k = key{level: k.level}
		w = q.seen[k]
	}
	if w == nil {
		w = &window{from: now}
		q.seen[k] = w
	}
	// Records come a little out of order; far back the clock was set.
	if age := now.Sub(w.from); age >= q.period || age <= -q.period {
		dropped = w.dropped
		*w = window{from: now}
	}
	if w.passed >= q.burst {
		w.dropped++
		return 0, false
	}
	w.passed++
	return dropped, true
}
