package osd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/osdmap"
)

// MonMaps follows the osdmap that the monitors publish, and is a [MapSource].
// Several clients may share one.
type MonMaps struct {
	mon     *mon.Client // constant
	log     *slog.Logger
	current atomic.Pointer[osdmap.Map] // stored under mu
	failed  atomic.Pointer[error]      // of the last map, if it could not be read

	subMu sync.Mutex // guards sub, which the first handler may need before it is there
	sub   *mon.Subscription

	mu    sync.Mutex // held while watchers are called
	watch []*watcher // guarded by mu
	asked uint32     // guarded by mu; newest epoch when the whole map was asked for, after one that could not be read
}

type watcher struct{ f func(Map) }

// NewMonMaps begins to follow. [MonMaps.Close] ends it. logger may be nil.
func NewMonMaps(c *mon.Client, logger *slog.Logger) *MonMaps {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &MonMaps{mon: c, log: logger}
	s.subMu.Lock()
	s.sub = c.Subscribe(mon.WhatOSDMap, 0, s.handle)
	s.subMu.Unlock()
	return s
}

// Close ends the subscription. What watches is told nothing more.
func (s *MonMaps) Close() {
	s.sub.Close()
	s.mu.Lock()
	s.watch = nil
	s.mu.Unlock()
}

// Current is the newest map; nil before the first.
func (s *MonMaps) Current() *osdmap.Map { return s.current.Load() }

// Err is why the last map that came was of no use; nil if it was.
func (s *MonMaps) Err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// WatchMaps implements [MapSource].
func (s *MonMaps) WatchMaps(f func(Map)) (stop func()) {
	w := &watcher{f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = append(s.watch, w)
	if m := s.current.Load(); m != nil {
		f(FromOSDMap(m))
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watch = slices.DeleteFunc(s.watch, func(o *watcher) bool { return o == w })
	}
}

// WantMap implements [MapSource]. The monitors send every map by themselves as
// soon as there is one.
func (s *MonMaps) WantMap(uint32) {}

// LatestMap implements [MapSource].
func (s *MonMaps) LatestMap(ctx context.Context) (uint32, error) {
	newest, _, err := s.mon.Version(ctx, mon.WhatOSDMap)
	return uint32(newest), err
}

// handle takes a message of maps, and tells the watchers each of them.
func (s *MonMaps) handle(u *mon.Update) (have uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.current.Load()
	msg, err := decodeMapMessage(u.Front)
	for err == nil {
		var next *osdmap.Map
		if next, err = msg.after(cur); next == nil {
			break
		}
		cur = next
		s.current.Store(cur)
		s.failed.Store(nil)
		m := FromOSDMap(cur)
		for _, w := range s.watch {
			w.f(m)
		}
	}
	if err != nil {
		s.failed.Store(&err)
		s.log.Error("osd: map not understood", "error", err)
		// Once for each newest epoch, for the whole map may be unreadable too.
		if msg != nil && msg.last > s.asked {
			s.asked = msg.last
			s.subMu.Lock()
			defer s.subMu.Unlock()
			s.sub.Again(0)
		}
	}
	if cur == nil {
		return 0
	}
	return uint64(cur.Epoch)
}

// mapMessage is MOSDMap (ceph/ceph src/messages/MOSDMap.h).
type mapMessage struct {
	increments, fulls map[uint32][]byte
	last              uint32 // the newest epoch in it
}

func decodeMapMessage(front []byte) (*mapMessage, error) {
	d := denc.NewDecoder(front)
	d.FSID("fsid")
	m := &mapMessage{increments: map[uint32][]byte{}, fulls: map[uint32][]byte{}}
	for _, to := range []map[uint32][]byte{m.increments, m.fulls} {
		for range d.Count("maps", 8) {
			e := d.Uint32("epoch")
			to[e] = d.Bytes("map")
			m.last = max(m.last, e)
		}
	}
	return m, d.Err()
}

// errEpoch: a map is not of the epoch that the message says.
var errEpoch = errors.New("map of another epoch than its label")

// after returns the map that follows cur, or nil if the message has no later
// one. Where the monitors do not have what is between any more, it is the oldest
// whole map that they sent. Its epoch is higher than that of cur in any case.
func (m *mapMessage) after(cur *osdmap.Map) (*osdmap.Map, error) {
	epoch := uint32(0)
	if cur != nil {
		epoch = cur.Epoch
		if b := m.increments[epoch+1]; b != nil && epoch+1 > epoch {
			inc, err := osdmap.DecodeIncremental(b)
			if err != nil {
				return nil, fmt.Errorf("increment %d: %w", epoch+1, err)
			}
			next, err := cur.Apply(inc)
			if err == nil && next.Epoch != epoch+1 {
				err = errEpoch
			}
			if err != nil {
				return nil, fmt.Errorf("increment %d: %w", epoch+1, err)
			}
			return next, nil
		}
	}
	label := uint32(0)
	for e := range m.fulls {
		// At first the newest is as good as any.
		if e > epoch && (label == 0 || cur != nil && e < label || cur == nil && e > label) {
			label = e
		}
	}
	if label == 0 {
		return nil, nil
	}
	next, err := osdmap.Decode(m.fulls[label])
	if err == nil && next.Epoch != label {
		err = errEpoch
	}
	if err != nil {
		return nil, fmt.Errorf("map %d: %w", label, err)
	}
	return next, nil
}
