package osdmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"capstan/cephfs/denc"
)

// Errors of Apply: the increment is for another map. Get a full map then.
var (
	ErrEpoch   = errors.New("osdmap: increment does not follow the map")
	ErrCluster = errors.New("osdmap: increment is of another cluster")
	ErrBounds  = errors.New("osdmap: increment names an OSD or pool that is not there")
)

// Apply returns the map of the epoch after m. m stays as it is; the two share
// what does not change. The increment must not be changed afterwards
// (OSDMap::apply_incremental).
func (m *Map) Apply(inc *Incremental) (*Map, error) {
	if inc.Epoch != m.Epoch+1 {
		return nil, fmt.Errorf("%w: epoch %d after %d", ErrEpoch, inc.Epoch, m.Epoch)
	}
	if inc.FSID != m.FSID && inc.Epoch != 1 {
		return nil, fmt.Errorf("%w: %s, not %s", ErrCluster, inc.FSID, m.FSID)
	}
	if inc.Full != nil {
		if inc.Full.Epoch != inc.Epoch {
			return nil, fmt.Errorf("%w: full map of epoch %d in increment %d", ErrEpoch, inc.Full.Epoch, inc.Epoch)
		}
		return inc.Full, nil
	}
	n := *m
	n.FSID, n.Epoch, n.Modified = inc.FSID, inc.Epoch, inc.Modified
	if inc.NewFlags >= 0 {
		n.Flags = Flags(inc.NewFlags)
	}
	if inc.NewMaxOSD >= 0 {
		n.resize(int(inc.NewMaxOSD))
	}
	if inc.NewPoolMax != -1 {
		n.PoolMax = inc.NewPoolMax
	}
	n.applyPools(inc)
	if err := n.applyOSDs(m, inc); err != nil {
		return nil, err
	}
	n.applyPlacement(inc)

	n.Blocklist = merge(m.Blocklist, inc.NewBlocklist, inc.OldBlocklist, func(k denc.Addr, v time.Time, into map[denc.Addr]time.Time) {
		if _, ok := into[k]; !ok { // an entry keeps its first expiry
			into[k] = v
		}
	})
	n.RangeBlocklist = merge(m.RangeBlocklist, inc.NewRangeBlocklist, inc.OldRangeBlocklist, func(k denc.Addr, v time.Time, into map[denc.Addr]time.Time) {
		if _, ok := into[k]; !ok {
			into[k] = v
		}
	})
	if inc.NewNearFullRatio >= 0 {
		n.NearFullRatio = inc.NewNearFullRatio
	}
	if inc.NewFullRatio >= 0 {
		n.FullRatio = inc.NewFullRatio
	}
	if inc.NewBackfillFullRatio >= 0 {
		n.BackfillFullRatio = inc.NewBackfillFullRatio
	}
	if r := inc.NewRequireMinCompatClient; r != 0 && r != releaseUnset {
		n.RequireMinCompatClient = r
	}
	if r := inc.NewRequireOSDRelease; r != 0 && r != releaseUnset {
		n.RequireOSDRelease = r
		if r >= ReleaseLuminous {
			n.Flags = n.Flags&^flagsLegacy | FlagRecoveryDeletes
		}
		if r >= ReleaseNautilus {
			n.Flags |= FlagPGLogHardLimit
		}
	}
	if inc.NewCrush != nil {
		n.Crush = inc.NewCrush
		if n.RequireOSDRelease >= ReleaseLuminous {
			n.CrushVersion++
		}
	}
	return &n, nil
}

// resize makes n a map of so many OSDs; new ones do not exist yet.
func (n *Map) resize(osds int) {
	n.MaxOSD = int32(osds)
	n.States = resized(n.States, osds, 0)
	n.Weights = resized(n.Weights, osds, WeightOut)
	n.Addrs = resized(n.Addrs, osds, nil)
	if n.Affinity != nil {
		n.Affinity = resized(n.Affinity, osds, DefaultAffinity)
	}
}

func resized[V any](v []V, n int, fill V) []V {
	out := make([]V, n)
	for i := copy(out, v); i < n; i++ {
		out[i] = fill
	}
	return out
}

func (n *Map) applyPools(inc *Incremental) {
	n.NewRemovedSnaps, n.NewPurgedSnaps = inc.NewRemovedSnaps, inc.NewPurgedSnaps
	if len(inc.NewPools) > 0 || len(inc.OldPools) > 0 {
		n.Pools = clone(n.Pools)
		for id, p := range inc.NewPools {
			changed := *p
			changed.LastChange = n.Epoch
			n.Pools[id] = &changed
		}
		for _, id := range inc.OldPools {
			delete(n.Pools, id)
		}
	}
	if len(inc.NewPoolNames) > 0 || len(inc.OldPools) > 0 {
		n.PoolNames = merge(n.PoolNames, inc.NewPoolNames, inc.OldPools, nil)
		n.index()
	}
}

// applyOSDs applies what happened to OSDs, in Ceph's order. n still shares its
// lists with m.
func (n *Map) applyOSDs(m *Map, inc *Incremental) error {
	for _, osds := range [][]int32{keys(inc.NewWeight), keys(inc.NewAffinity), keys(inc.NewState), keys(inc.NewUp)} {
		for _, osd := range osds {
			if osd < 0 || osd >= n.MaxOSD {
				return fmt.Errorf("%w: osd.%d of %d", ErrBounds, osd, n.MaxOSD)
			}
		}
	}
	if inc.NewMaxOSD < 0 { // else resize made copies
		if len(inc.NewWeight) > 0 {
			n.Weights = slices.Clone(m.Weights)
		}
		if len(inc.NewWeight) > 0 || len(inc.NewState) > 0 || len(inc.NewUp) > 0 {
			n.States = slices.Clone(m.States)
		}
		if len(inc.NewState) > 0 || len(inc.NewUp) > 0 {
			n.Addrs = slices.Clone(m.Addrs)
		}
		if len(inc.NewState) > 0 || len(inc.NewAffinity) > 0 {
			n.Affinity = slices.Clone(m.Affinity)
		}
	}
	for osd, w := range inc.NewWeight {
		n.Weights[osd] = w
		if w != WeightOut {
			n.States[osd] = n.States[osd]&^(StateAutoOut|StateNew) | StateExists
		}
	}
	for osd, a := range inc.NewAffinity {
		n.setAffinity(osd, a)
	}
	for osd, s := range inc.NewState {
		if s == 0 {
			s = StateUp
		}
		if n.States[osd]&StateExists != 0 && s&StateExists != 0 { // destroyed
			n.States[osd] = 0
			n.Addrs[osd] = nil
			n.setAffinity(osd, DefaultAffinity)
			continue
		}
		n.States[osd] ^= s
	}
	for osd, addrs := range inc.NewUp {
		n.States[osd] = n.States[osd]&^StateStop | StateExists | StateUp
		n.Addrs[osd] = addrs
	}
	return nil
}

func (n *Map) setAffinity(osd int32, a uint32) {
	if n.Affinity == nil {
		n.Affinity = resized[uint32](nil, int(n.MaxOSD), DefaultAffinity)
	}
	n.Affinity[osd] = a
}

// applyPlacement applies the exceptions from CRUSH.
func (n *Map) applyPlacement(inc *Incremental) {
	n.PGTemp = merge(n.PGTemp, inc.NewPGTemp, nil, func(pg PG, osds []int32, into map[PG][]int32) {
		if len(osds) == 0 {
			delete(into, pg)
		} else {
			into[pg] = osds
		}
	})
	n.PrimaryTemp = merge(n.PrimaryTemp, inc.NewPrimaryTemp, nil, func(pg PG, osd int32, into map[PG]int32) {
		if osd == -1 {
			delete(into, pg)
		} else {
			into[pg] = osd
		}
	})
	n.PGUpmap = merge(n.PGUpmap, inc.NewPGUpmap, inc.OldPGUpmap, nil)
	n.PGUpmapItems = merge(n.PGUpmapItems, inc.NewPGUpmapItems, inc.OldPGUpmapItems, nil)
	n.PGUpmapPrimary = merge(n.PGUpmapPrimary, inc.NewPGUpmapPrimary, inc.OldPGUpmapPrimary, nil)

	if len(inc.NewErasureProfiles) > 0 || len(inc.OldErasureProfiles) > 0 {
		n.ErasureProfiles = clone(n.ErasureProfiles)
		for _, name := range inc.OldErasureProfiles {
			delete(n.ErasureProfiles, name)
		}
		maps.Copy(n.ErasureProfiles, inc.NewErasureProfiles)
	}
}

// merge returns m with the entries of add, then without those of remove; m
// itself if nothing changes. put, if given, does the adding.
func merge[K comparable, V any](m, add map[K]V, remove []K, put func(K, V, map[K]V)) map[K]V {
	if len(add) == 0 && len(remove) == 0 {
		return m
	}
	m = clone(m)
	for k, v := range add {
		if put != nil {
			put(k, v, m)
		} else {
			m[k] = v
		}
	}
	for _, k := range remove {
		delete(m, k)
	}
	return m
}

// clone copies a map; that of nil can be written to.
func clone[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

func keys[V any](m map[int32]V) []int32 {
	out := make([]int32, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
