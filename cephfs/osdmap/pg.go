package osdmap

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// PG names a placement group: a pool and a seed. As long as it is raw, the seed
// is the hash of an object; the group itself has a seed below the pool's PGNum.
type PG struct {
	Pool int64
	Seed uint32
}

// String returns pg as Ceph prints it: the pool, a dot, the seed in hexadecimal.
func (pg PG) String() string {
	return strconv.FormatInt(pg.Pool, 10) + "." + strconv.FormatUint(uint64(pg.Seed), 16)
}

// ParsePG reads the form that [PG.String] gives.
func ParsePG(s string) (PG, error) {
	pool, seed, ok := strings.Cut(s, ".")
	if !ok {
		return PG{}, fmt.Errorf("placement group %q: want POOL.SEED", s)
	}
	p, err := strconv.ParseInt(pool, 10, 64)
	if err != nil || p < 0 {
		return PG{}, fmt.Errorf("placement group %q: %q is no pool id", s, pool)
	}
	n, err := strconv.ParseUint(seed, 16, 32)
	if err != nil {
		return PG{}, fmt.Errorf("placement group %q: %q is no hexadecimal seed", s, seed)
	}
	return PG{Pool: p, Seed: uint32(n)}, nil
}

// NoShard is the shard of a replicated placement group.
const NoShard int8 = -1

// Shard names one shard of an erasure-coded placement group, or the whole of a
// replicated one (spg_t).
type Shard struct {
	PG
	Shard int8 // NoShard, or the position in the acting set
}

// String returns s as Ceph prints it: 3.1fs2, or 3.1f without a shard.
func (s Shard) String() string {
	if s.Shard == NoShard {
		return s.PG.String()
	}
	return s.PG.String() + "s" + strconv.Itoa(int(s.Shard))
}

// stableMod folds x to [0,n) so that a growing n moves as few x as possible;
// mask is the least 2^k-1 that is not below n-1 (ceph_stable_mod).
func stableMod(x, n, mask uint32) uint32 {
	if x&mask < n {
		return x & mask
	}
	return x & (mask >> 1)
}

// maskOf returns the mask that stableMod wants for n.
func maskOf(n uint32) uint32 { return uint32(1<<bits.Len32(n-1) - 1) }

// IsSplit reports whether the group pg, or objects of it, moved to new groups
// when the pool grew from before to after groups (pg_t::is_split).
func (pg PG) IsSplit(before, after uint32) bool {
	if pg.Seed >= before || after <= before {
		return false
	}
	// A child has the seed of its parent below one added bit; the first child
	// not below before is the least candidate.
	width := bits.Len32(before)
	for n := 0; ; n++ {
		next := uint64(n)<<(width-1) | uint64(pg.Seed)
		if next < uint64(before) || next == uint64(pg.Seed) {
			continue
		}
		if next >= uint64(after) {
			return false
		}
		if stableMod(uint32(next), before, maskOf(before)) == pg.Seed {
			return true
		}
	}
}

// IsMergeSource reports whether pg went into another group when the pool shrank
// (pg_t::is_merge_source).
func (pg PG) IsMergeSource(before, after uint32) bool {
	return pg.Seed < before && pg.Seed >= after
}

// IsMergeTarget reports whether others went into pg when the pool shrank
// (pg_t::is_merge_target).
func (pg PG) IsMergeTarget(before, after uint32) bool {
	return pg.Seed < after && before > after && pg.IsSplit(after, before)
}
