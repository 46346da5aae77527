package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/osd"
	"capstan/cephfs/osdmap"
)

// maps follows the osdmap and passes each epoch on: the [osd.MapSource] of a
// cluster.
type maps struct {
	mon *mon.Client  // constant
	log *slog.Logger // constant

	deliver  sync.Mutex            // held while watchers are called; taken before mu and mon.Client's lock
	sub      *mon.Subscription     // guarded by deliver
	asked    uint64                // guarded by deliver; the epoch whose message had a whole map asked for
	watchers map[int]func(osd.Map) // guarded by deliver
	watcher  int                   // guarded by deliver; the last one's number

	mu  sync.Mutex
	cur *osdmap.Map   // guarded by mu; written with deliver held too
	got chan struct{} // closed when cur is set for the first time
}

func watchMaps(m *mon.Client, log *slog.Logger) *maps {
	s := &maps{mon: m, log: log, watchers: map[int]func(osd.Map){}, got: make(chan struct{})}
	s.deliver.Lock()
	defer s.deliver.Unlock()
	s.sub = m.Subscribe(mon.WhatOSDMap, 0, s.update)
	return s
}

func (s *maps) close() {
	s.deliver.Lock()
	defer s.deliver.Unlock()
	s.sub.Close()
}

func (s *maps) newest() *osdmap.Map {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur
}

// first waits for a map.
func (s *maps) first(ctx context.Context) (*osdmap.Map, error) {
	select {
	case <-s.got:
		return s.newest(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("cluster: no osdmap yet: %w", context.Cause(ctx))
	}
}

// WatchMaps implements [osd.MapSource].
func (s *maps) WatchMaps(f func(osd.Map)) (stop func()) {
	s.deliver.Lock()
	defer s.deliver.Unlock()
	s.watcher++
	n := s.watcher
	s.watchers[n] = f
	if m := s.newest(); m != nil {
		f(osd.FromOSDMap(m))
	}
	return func() {
		s.deliver.Lock()
		defer s.deliver.Unlock()
		delete(s.watchers, n)
	}
}

// WantMap implements [osd.MapSource]. The subscription brings every epoch as
// soon as the monitor has it, so there is nothing to ask for.
func (s *maps) WantMap(uint32) {}

// LatestMap implements [osd.MapSource].
func (s *maps) LatestMap(ctx context.Context) (uint32, error) {
	newest, _, err := s.mon.Version(ctx, mon.WhatOSDMap)
	return uint32(newest), err
}

// update takes a message of maps.
func (s *maps) update(u *mon.Update) (have uint64) {
	s.deliver.Lock()
	defer s.deliver.Unlock()
	msg, err := decodeMaps(u.Front)
	if err == nil {
		err = msg.apply(s.newest(), s.take)
	}
	if err != nil {
		// A whole map mends whatever made an increment useless. One that cannot be
		// read itself is not asked for again.
		s.log.Error("an osdmap that cannot be used", "epoch", u.Epoch, "have", s.epoch(), "err", err)
		if s.asked < u.Epoch {
			s.asked = u.Epoch
			s.sub.Again(0)
		}
		return u.Epoch
	}
	return s.epoch()
}

func (s *maps) epoch() uint64 {
	if m := s.newest(); m != nil {
		return uint64(m.Epoch)
	}
	return 0
}

// take makes m the newest map; s.deliver is held.
func (s *maps) take(m *osdmap.Map) {
	s.mu.Lock()
	if s.cur == nil {
		close(s.got)
	}
	s.cur = m
	s.mu.Unlock()
	for _, f := range s.watchers {
		f(osd.FromOSDMap(m))
	}
}

// mapMessage is an MOSDMap: whole maps and increments, by epoch, still encoded.
type mapMessage struct {
	full, inc      map[uint32][]byte
	oldest, newest uint32 // that the sender has
}

// maxMaps bounds the maps of one message; monitors send 40 (osd_map_message_max).
const maxMaps = 10_000

var errTooManyMaps = errors.New("too many maps in one message")

// decodeMaps decodes the front of an MOSDMap (ceph/ceph src/messages/MOSDMap.h).
func decodeMaps(front []byte) (*mapMessage, error) {
	d := denc.NewDecoder(front)
	d.FSID("fsid")
	var m mapMessage
	read := func(field string) map[uint32][]byte {
		n := d.Count(field, 8)
		if n > maxMaps {
			d.Fail(field, errTooManyMaps)
			return nil
		}
		l := make(map[uint32][]byte, n)
		for range n {
			e := d.Uint32(field)
			l[e] = d.Bytes(field)
		}
		return l
	}
	m.inc = read("incremental_maps")
	m.full = read("maps")
	if d.Remaining() > 0 {
		m.oldest, m.newest = d.Uint32("oldest_map"), d.Uint32("newest_map")
	}
	if err := d.Err(); err != nil { // later versions append
		return nil, err
	}
	return &m, nil
}

// apply goes from cur, nil if there is none, to the newest map that m leads to,
// through take.
func (m *mapMessage) apply(cur *osdmap.Map, take func(*osdmap.Map)) error {
	for {
		next, err := m.next(cur)
		if err != nil || next == nil {
			return err
		}
		take(next)
		cur = next
	}
}

// next returns the map after cur, or nil if there is none. Without the map that
// would follow it goes on with the oldest whole one: the epochs between are
// gone at the monitors too.
func (m *mapMessage) next(cur *osdmap.Map) (*osdmap.Map, error) {
	if cur != nil {
		e := cur.Epoch + 1
		if b, ok := m.inc[e]; ok {
			inc, err := osdmap.DecodeIncremental(b)
			if err == nil {
				var next *osdmap.Map
				if next, err = cur.Apply(inc); err == nil {
					return next, nil
				}
			}
			if m.full[e] == nil {
				return nil, fmt.Errorf("osdmap %d: %w", e, err)
			}
		}
	}
	// Of whole maps the first after cur; the newest at the start, when nothing
	// is known that could change.
	var best uint32
	for e := range m.full {
		switch {
		case cur == nil:
			best = max(best, e)
		case e > cur.Epoch && (best == 0 || e < best):
			best = e
		}
	}
	if best == 0 {
		return nil, nil
	}
	full, err := osdmap.Decode(m.full[best])
	if err != nil {
		return nil, fmt.Errorf("osdmap %d: %w", best, err)
	}
	return full, nil
}
