package osdmap

import (
	"slices"
	"sync"

	"capstan/cephfs/crush"
)

// Object says which object, and what places it.
type Object struct {
	Pool      int64
	Name      string
	Namespace string // objects of different namespaces may share a name
	Key       string // places the object in its name's stead; usually empty
	// Hash, if HasHash is set, is taken as the object's hash: so do tools address
	// an object whose name they do not have.
	Hash    uint32
	HasHash bool
}

// ObjectPG returns the raw placement group of an object, and whether its pool
// exists. It does not follow tiers: see [Map.TargetPool].
func (m *Map) ObjectPG(o Object) (PG, bool) {
	p := m.Pools[o.Pool]
	if p == nil {
		return PG{}, false
	}
	if o.HasHash {
		return PG{o.Pool, o.Hash}, true
	}
	return PG{o.Pool, p.HashName(o)}, true
}

// Fold turns a raw group into the group. That of a pool which does not exist
// stays as it is.
func (m *Map) Fold(raw PG) PG {
	if p := m.Pools[raw.Pool]; p != nil {
		raw.Seed = p.FoldSeed(raw.Seed)
	}
	return raw
}

// TargetPool returns the pool that operations on pool go to: that of its cache
// tier, if it has one for them (Objecter::_calc_target). An operation that reads
// and writes goes where writes go.
func (m *Map) TargetPool(pool int64, read, write bool) int64 {
	p := m.Pools[pool]
	switch {
	case p == nil:
	case write && p.WriteTier >= 0:
		return p.WriteTier
	case read && p.ReadTier >= 0:
		return p.ReadTier
	}
	return pool
}

// Placement is where a placement group is. Lists of replicated pools have no
// gaps; those of erasure-coded ones have crush.ItemNone where a shard has no OSD.
type Placement struct {
	PG            Shard   // of the primary
	Up            []int32 // the OSDs that should hold it
	UpPrimary     int32   // -1: none
	Acting        []int32 // the OSDs that serve it now
	ActingPrimary int32   // -1: none
}

// scratch is the memory of one placement.
type scratch struct {
	work crush.Work
	raw  []int32
	temp []int32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Place finds out where a group is, raw or folded, and overwrites p, whose lists
// it uses again. It returns false, and a placement without OSDs, if there is no
// such pool (OSDMap::pg_to_up_acting_osds).
func (m *Map) Place(pg PG, p *Placement) bool {
	*p = Placement{PG: Shard{pg, NoShard}, Up: p.Up[:0], Acting: p.Acting[:0], UpPrimary: -1, ActingPrimary: -1}
	pool := m.Pools[pg.Pool]
	if pool == nil {
		return false
	}
	folded := PG{pg.Pool, pool.FoldSeed(pg.Seed)}
	p.PG.PG = folded

	s := scratches.Get().(*scratch)
	seed := pool.placementSeed(pg)
	s.raw = append(s.raw[:0], m.crushOSDs(pool, pg.Pool, seed, s)...)
	s.raw = m.dropNonexistent(pool, s.raw)
	s.raw = m.applyUpmap(folded, s.raw)
	p.Up = m.upOf(pool, s.raw, p.Up)
	p.UpPrimary = firstOSD(p.Up)
	p.UpPrimary = m.applyAffinity(pool, seed, p.Up, p.UpPrimary)

	var hasTemp bool
	p.Acting, p.ActingPrimary, hasTemp = m.tempOf(pool, folded, p.Acting, s)
	if len(p.Acting) == 0 {
		p.Acting = append(p.Acting, p.Up...)
		if p.ActingPrimary == -1 {
			p.ActingPrimary = p.UpPrimary
		}
	}
	if pool.IsErasure() && p.ActingPrimary >= 0 {
		p.PG.Shard = primaryShard(pool, p.Acting, p.ActingPrimary, hasTemp)
	}
	scratches.Put(s)
	return true
}

// crushOSDs asks CRUSH. The result lies in s.work.
func (m *Map) crushOSDs(pool *Pool, id int64, seed uint32, s *scratch) []int32 {
	if m.Crush == nil {
		return nil
	}
	rule := int(pool.CrushRule)
	if m.RequireOSDRelease < ReleaseQuincy {
		// Then the pool names a ruleset, and the rule says for which sizes it is.
		rule = m.Crush.FindRule(rule, crush.RuleType(pool.Type), int(pool.Size))
	}
	return m.Crush.Do(&s.work, rule, seed, int(pool.Size), m.Weights, m.Crush.ChooseArgsFor(id))
}

// dropNonexistent removes from raw, or blanks in it, what is no OSD.
func (m *Map) dropNonexistent(pool *Pool, raw []int32) []int32 {
	if pool.canShift() {
		return slices.DeleteFunc(raw, func(osd int32) bool { return !m.Exists(osd) })
	}
	for i, osd := range raw {
		if !m.Exists(osd) {
			raw[i] = crush.ItemNone
		}
	}
	return raw
}

// applyUpmap makes the exceptions from CRUSH's choice that the balancer asked
// for (OSDMap::_apply_upmap).
func (m *Map) applyUpmap(pg PG, raw []int32) []int32 {
	if osds, ok := m.PGUpmap[pg]; ok {
		if slices.ContainsFunc(osds, m.markedOut) {
			return raw // and nothing else either
		}
		raw = append(raw[:0], osds...)
	}
	for _, r := range m.PGUpmapItems[pg] {
		at := -1
		for i, osd := range raw {
			if osd == r.To {
				at = -1
				break
			}
			if osd == r.From && at < 0 && !m.markedOut(r.To) {
				at = i
			}
		}
		if at >= 0 {
			raw[at] = r.To
		}
	}
	if primary, ok := m.PGUpmapPrimary[pg]; ok && primary >= 0 && primary < m.MaxOSD && m.weight(primary) != WeightOut {
		if i := slices.Index(raw, primary); i > 0 {
			raw[0], raw[i] = raw[i], raw[0]
		}
	}
	return raw
}

// upOf puts into up those of raw that are up.
func (m *Map) upOf(pool *Pool, raw, up []int32) []int32 {
	for _, osd := range raw {
		if m.IsUp(osd) {
			up = append(up, osd)
		} else if !pool.canShift() {
			up = append(up, crush.ItemNone)
		}
	}
	return up
}

// firstOSD returns the first OSD in a list with gaps, or -1.
func firstOSD(osds []int32) int32 {
	for _, osd := range osds {
		if osd != crush.ItemNone {
			return osd
		}
	}
	return -1
}

// applyAffinity lets each OSD of a group decline to be primary as often as its
// affinity is below the default (OSDMap::_apply_primary_affinity). It returns
// the primary, which it moves to the front where order does not matter.
func (m *Map) applyAffinity(pool *Pool, seed uint32, osds []int32, primary int32) int32 {
	if len(m.Affinity) == 0 || !slices.ContainsFunc(osds, func(osd int32) bool {
		return osd != crush.ItemNone && m.affinity(osd) != DefaultAffinity
	}) {
		return primary
	}
	at := -1
	for i, osd := range osds {
		if osd == crush.ItemNone {
			continue
		}
		if a := m.affinity(osd); a < DefaultAffinity && crush.Hash2(seed, uint32(osd))>>16 >= a {
			if at < 0 {
				at = i // if all decline
			}
			continue
		}
		at = i
		break
	}
	if at < 0 {
		return primary
	}
	primary = osds[at]
	if pool.canShift() {
		copy(osds[1:at+1], osds[:at])
		osds[0] = primary
	}
	return primary
}

func (m *Map) affinity(osd int32) uint32 {
	if int(osd) >= len(m.Affinity) {
		return DefaultAffinity
	}
	return m.Affinity[osd]
}

// tempOf returns the acting set and primary that stand in while the OSDs that
// should hold a group do not have its data; acting is empty and primary -1 where
// none do (OSDMap::_get_temp_osds).
func (m *Map) tempOf(pool *Pool, pg PG, acting []int32, s *scratch) (_ []int32, primary int32, has bool) {
	osds, has := m.PGTemp[pg]
	temp := s.temp[:0]
	for _, osd := range osds {
		if m.IsUp(osd) {
			temp = append(temp, osd)
		} else if !pool.canShift() {
			temp = append(temp, crush.ItemNone)
		}
	}
	s.temp = temp
	primary, ok := m.PrimaryTemp[pg]
	if !ok {
		primary = firstOSD(temp)
	}
	if has && pool.primaryFirst() && len(temp) == int(pool.Size) {
		for shard := range temp {
			acting = append(acting, temp[primaryFirstIndex(pool, shard)])
		}
		return acting, primary, has
	}
	return append(acting, temp...), primary, has
}

// primaryFirstIndex returns where a PGTemp entry of an optimized erasure-coded
// pool keeps a shard: first all that can be primary, then the others
// (OSDMap::pgtemp_primaryfirst).
func primaryFirstIndex(pool *Pool, shard int) int {
	late := pool.NonPrimaryShards.Has(shard)
	at := 0
	for i := range int(pool.Size) {
		if other := pool.NonPrimaryShards.Has(i); other == late && i < shard || !other && late {
			at++
		}
	}
	return at
}

// primaryShard returns the position of the primary in acting. An OSD may hold
// several shards: the first counts, in the order of PGTemp if there is an entry
// (Objecter::_calc_target).
func primaryShard(pool *Pool, acting []int32, primary int32, temp bool) int8 {
	best, bestAt := NoShard, len(acting)
	for shard, osd := range acting {
		if osd != primary {
			continue
		}
		at := shard
		if temp && pool.primaryFirst() && len(acting) == int(pool.Size) {
			at = primaryFirstIndex(pool, shard)
		}
		if at < bestAt {
			best, bestAt = int8(shard), at
		}
	}
	return best
}
