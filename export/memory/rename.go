package memory

import (
	"context"

	"capstan/export"
)

// Rename implements [export.Volume], in the order of checks of rename(2) on
// Linux.
func (v *Volume) Rename(_ context.Context, c *export.Cred, from export.Object, oldName string, to export.Object, newName string) (export.Renamed, error) {
	m := move{v: v, c: c, oldName: oldName, newName: newName}
	st := m.run(from, to)
	if st != export.OK {
		return export.Renamed{}, fail("rename", oldName, st)
	}
	if m.dead {
		v.drop(m.victim)
	}
	return m.res, nil
}

// move is one rename on its way.
type move struct {
	v                *Volume
	c                *export.Cred
	oldName, newName string

	from, to *node
	source   *node
	victim   *node // what stands at the new name, or nil
	res      export.Renamed
	dead     bool // victim is to be dropped
}

func (m *move) run(from, to export.Object) (st export.Status) {
	if m.from, st = m.v.getDir(from); st != export.OK {
		return st
	}
	if m.to, st = m.v.getDir(to); st != export.OK {
		return st
	}
	if len(m.oldName) > maxName || len(m.newName) > maxName {
		return export.ErrNameTooLong
	}
	if m.from == m.to {
		m.from.dir.names.Lock()
		defer m.from.dir.names.Unlock()
	} else {
		m.v.moves.Lock()
		defer m.v.moves.Unlock()
		first, second := m.from, m.to
		if isAbove(m.to, m.from) {
			first, second = m.to, m.from
		}
		first.dir.names.Lock()
		defer first.dir.names.Unlock()
		second.dir.names.Lock()
		defer second.dir.names.Unlock()
	}
	if st := m.findLocked(); st != export.OK {
		return st
	}
	if m.source == m.victim {
		m.res = export.Renamed{From: m.from.unchanged(), To: m.to.unchanged()}
		return export.OK
	}
	if st := m.checkLocked(); st != export.OK {
		return st
	}
	return m.applyLocked()
}

// isAbove reports whether directory a is an ancestor of b, or b itself. The
// caller holds Volume.moves.
func isAbove(a, b *node) bool {
	for n := b; ; n = n.dir.parent.Load() {
		if n == a {
			return true
		}
		if n == n.dir.parent.Load() {
			return false
		}
	}
}

// findLocked finds source and victim.
func (m *move) findLocked() export.Status {
	if st := m.from.searchLocked(m.c); st != export.OK {
		return st
	}
	if st := m.to.searchLocked(m.c); st != export.OK {
		return st
	}
	e := m.from.dir.entries[m.oldName]
	if e == nil {
		return export.ErrNoEnt
	}
	m.source = e.node
	if e := m.to.dir.entries[m.newName]; e != nil {
		m.victim = e.node
	}
	if m.from == m.to {
		return export.OK
	}
	switch {
	case m.source.dir != nil && isAbove(m.source, m.to):
		return export.ErrInval // into its own subtree
	case m.victim != nil && m.victim.dir != nil && isAbove(m.victim, m.from):
		return export.ErrNotEmpty // it holds the source
	}
	return export.OK
}

// checkLocked checks permissions and types.
func (m *move) checkLocked() export.Status {
	from, source, to := m.from.snapshot(), m.source.snapshot(), m.to.snapshot()
	var victim *export.Attr
	if m.victim != nil {
		a := m.victim.snapshot()
		victim = &a
	}
	err := export.CheckRename(m.c, &from, &source, &to, victim, m.from == m.to)
	switch {
	case err != nil:
		return export.StatusOf(err)
	case m.victim == nil:
		return export.OK
	case m.source.dir != nil && m.victim.dir == nil:
		return export.ErrNotDir
	case m.source.dir == nil && m.victim.dir != nil:
		return export.ErrIsDir
	}
	return export.OK
}

// applyLocked does it. Room for a longer name is taken even where none is
// left: a rename on a full Volume should not fail.
func (m *move) applyLocked() export.Status {
	v, now := m.v, m.v.now()
	if m.victim != nil && m.victim.dir != nil {
		if st := m.victim.dir.retire(); st != export.OK {
			return st
		}
	}
	m.from.dir.removeLocked(m.from.dir.entries[m.oldName])
	v.space.give(nameCost(m.oldName))

	isDir := 0
	if m.source.dir != nil {
		isDir = 1
		m.source.dir.parent.Store(m.to)
	}
	added, links := 1, isDir
	if m.victim == nil {
		m.to.dir.addLocked(m.newName, m.source)
		v.space.force(nameCost(m.newName))
	} else {
		// The name was there all along: its entry keeps its cookie.
		m.to.dir.entries[m.newName].node = m.source
		added, links = 0, 0
		if m.victim.dir != nil {
			m.dead = m.victim.unlink(2, now)
		} else {
			m.dead = m.victim.unlink(1, now)
		}
		gone := m.victim.object()
		m.res.Replaced = &gone
	}

	m.source.mu.Lock()
	m.source.touchLocked(now)
	m.source.mu.Unlock()
	if m.from == m.to {
		m.res.From = m.from.changeDir(added-1, links-isDir, now)
		m.res.To = m.res.From
	} else {
		m.res.From = m.from.changeDir(-1, -isDir, now)
		m.res.To = m.to.changeDir(added, links, now)
	}
	return export.OK
}
