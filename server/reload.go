package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"capstan/export"
)

// opensAtOnce is how many engines are opened at the same time.
const opensAtOnce = 16

// retryFirst and retryMost are how long a failed engine waits for its next try:
// twice as long each time.
const (
	retryFirst = 2 * time.Second
	retryMost  = time.Minute
)

// engineError says which export's engine could not be opened.
type engineError struct {
	id   uint32
	path string
	err  error
}

func (e *engineError) Error() string { return "export " + e.path + ": " + e.err.Error() }

func (e *engineError) Unwrap() error { return e.err }

// noteServed records, for Status, what is in force. The caller holds s.reload.
func (s *Server) noteServed(errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served, s.broken = s.mounts, map[uint32]error{}
	for _, err := range errs {
		if e, ok := errors.AsType[*engineError](err); ok {
			s.broken[e.id] = e.err
		}
	}
}

// logBroken says why an engine cannot be opened, once for each reason.
func (s *Server) logBroken(m Mount, err error) {
	s.mu.Lock()
	before := s.broken[m.Export.ID]
	s.mu.Unlock()
	if before == nil || before.Error() != err.Error() {
		s.log.Error("export cannot be served; trying again in the background", "export", m.Export.Path, "engine", m.Engine.Name, "err", err)
	}
}

// openLocked opens the engines of s.mounts that are not open yet and returns
// the exports, with a stand-in behind those whose engine could not be opened.
// The caller holds s.reload.
func (s *Server) openLocked(ctx context.Context) (exports []*export.Export, errs []error) {
	type opened struct {
		v   export.Volume
		err error
	}
	results := make([]opened, len(s.mounts))
	anew := make([]*volume, len(s.mounts)) // of those that are not open yet
	var g errgroup.Group
	g.SetLimit(opensAtOnce)
	for i, m := range s.mounts {
		if v := s.volumes[m.Export.ID]; v != nil && v.key == m.Engine.Key {
			results[i].v = v.v
			continue
		}
		g.Go(func() error {
			v := &volume{id: m.Export.ID, key: m.Engine.Key}
			v.v, results[i].err = m.Engine.Open(ctx, func(err error) { s.lose(v, err) })
			results[i].v, anew[i] = v.v, v
			return nil
		})
	}
	_ = g.Wait()
	for i, m := range s.mounts {
		r := results[i]
		if r.err != nil {
			s.logBroken(m, r.err)
			errs = append(errs, &engineError{m.Export.ID, m.Export.Path, r.err})
			r.v = pendingVolume{}
		} else if anew[i] != nil {
			s.volumes[m.Export.ID] = anew[i]
		}
		exports = append(exports, m.Export.WithVolume(r.v))
	}
	if len(errs) > 0 {
		select {
		case s.retry <- struct{}{}:
		default:
		}
	}
	return exports, errs
}

// Reload exchanges the exports. Those whose engine is the same as before keep
// their Volume, and clients notice nothing; handles of those that are gone turn
// stale. If mounts are faulty as a whole (two exports with one id, say) nothing
// changes and the error names all faults. Clients of exports whose engine cannot
// be opened wait, while it is tried again in the background.
func (s *Server) Reload(ctx context.Context, mounts []Mount) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	before, volumes := s.mounts, s.volumes
	s.mounts = mounts
	// Volumes that this reload does not need stay out of the new set.
	s.volumes = map[uint32]*volume{}
	for _, m := range mounts {
		if v := volumes[m.Export.ID]; v != nil && v.key == m.Engine.Key {
			s.volumes[m.Export.ID] = v
		}
	}
	exports, broken := s.openLocked(ctx)
	table, err := export.NewTable(ctx, exports, export.After(s.exports.Current()))
	if err != nil {
		err = errors.Join(err, s.closeUnused(ctx, s.volumes, volumes))
		s.mounts, s.volumes = before, volumes
		return err
	}
	old := s.exports.Swap(table)
	s.noteServed(broken)
	s.log.Info("exports reloaded", "before", len(old.Exports()), "after", len(table.Exports()))
	return s.retire(ctx, old, volumes)
}

// retire gives back what only the old table needed: state of exports that are
// gone or stand on another Volume now, and those Volumes.
func (s *Server) retire(ctx context.Context, old *export.Table, volumes map[uint32]*volume) error {
	kept := func(id uint32) bool {
		now := s.volumes[id]
		return now != nil && (volumes[id] == nil || volumes[id].v == now.v)
	}
	if err := old.WaitIdle(ctx); err != nil {
		return fmt.Errorf("calls on the exports as they were: %w", err)
	}
	s.state.KeepExports(ctx, kept)
	for id, v := range volumes {
		if !kept(id) {
			s.files.ForgetVolume(v.v)
		}
	}
	return s.closeUnused(ctx, volumes, s.volumes)
}

// closeUnused closes the Volumes of one set that are not in the other.
func (s *Server) closeUnused(ctx context.Context, set, keep map[uint32]*volume) error {
	var errs []error
	for id, v := range set {
		if k := keep[id]; k != nil && k.v == v.v {
			continue
		}
		if err := v.v.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("export %d: close: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// lose is told that a Volume will not work again: the cluster has shut its
// client out, say. It only leaves word, since the teller may hold locks of the
// Volume. Word of one that is out of service already, late or said twice, does
// its successor no harm.
func (s *Server) lose(v *volume, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = map[*volume]error{}
	}
	if _, told := s.lost[v]; told {
		return
	}
	s.lost[v] = err
	select {
	case s.retry <- struct{}{}:
	default:
	}
}

// dropLost takes lost Volumes out of service, so that they are opened anew.
// Their state goes with them: what was not committed may be gone, and the new
// Volume's write verifier says so.
func (s *Server) dropLost() {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.mu.Lock()
	told := s.lost
	s.lost = nil
	s.mu.Unlock()
	volumes := maps.Clone(s.volumes)
	lost := map[uint32]error{} // by export id
	for v, err := range told {
		if s.volumes[v.id] != v {
			continue
		}
		s.log.Error("the file system behind an export is lost; opening it anew", "export", v.id, "err", err)
		delete(s.volumes, v.id)
		lost[v.id] = err
	}
	if len(lost) == 0 {
		return
	}
	var exports []*export.Export
	var errs []error
	for _, m := range s.mounts {
		v := export.Volume(pendingVolume{})
		if open := s.volumes[m.Export.ID]; open != nil {
			v = open.v
		} else if err, ok := lost[m.Export.ID]; ok {
			errs = append(errs, &engineError{m.Export.ID, m.Export.Path, err})
		}
		exports = append(exports, m.Export.WithVolume(v))
	}
	table, err := export.NewTable(s.ctx, exports, export.After(s.exports.Current()))
	if err != nil {
		s.log.Error("exports", "err", err)
		return
	}
	old := s.exports.Swap(table)
	s.noteServed(errs)
	if err := s.retire(s.ctx, old, volumes); err != nil {
		s.log.Warn("a lost file system could not be closed in order", "err", err)
	}
}

// runRetry opens engines that could not be opened before, until s stops.
func (s *Server) runRetry() {
	wait := retryFirst
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.retry:
		}
		s.dropLost()
		t := time.NewTimer(wait)
		select {
		case <-s.ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if s.retryOnce() {
			wait = retryFirst
		} else {
			wait = min(2*wait, retryMost)
		}
	}
}

// retryOnce tries all missing engines; it reports whether none is missing now.
func (s *Server) retryOnce() bool {
	s.reload.Lock()
	defer s.reload.Unlock()
	before := len(s.volumes)
	exports, errs := s.openLocked(s.ctx)
	if len(s.volumes) == before {
		return len(errs) == 0
	}
	table, err := export.NewTable(s.ctx, exports, export.After(s.exports.Current()))
	if err != nil {
		s.log.Error("exports", "err", err)
		return false
	}
	s.exports.Swap(table)
	s.noteServed(errs)
	s.log.Info("exports opened late are served now", "exports", len(table.Exports()))
	return len(errs) == 0
}
