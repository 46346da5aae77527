package osdmap

import (
	"strings"
	"time"

	"capstan/cephfs/crush"
	"capstan/cephfs/denc"
)

// PoolType is how a pool keeps its data.
type PoolType uint8

// The pool types.
const (
	Replicated PoolType = 1
	Erasure    PoolType = 3
)

// PoolFlags are the flags of a pool (pg_pool_t::FLAG_*).
type PoolFlags uint64

// The flags of pools.
const (
	PoolHashPSPool       PoolFlags = 1 << 0 // the pool's id goes into the hash
	PoolFull             PoolFlags = 1 << 1
	PoolECOverwrites     PoolFlags = 1 << 2
	PoolIncompleteClones PoolFlags = 1 << 3
	PoolNoDelete         PoolFlags = 1 << 4
	PoolNoPGChange       PoolFlags = 1 << 5
	PoolNoSizeChange     PoolFlags = 1 << 6
	PoolFadviseDontneed  PoolFlags = 1 << 7
	PoolNoScrub          PoolFlags = 1 << 8
	PoolNoDeepScrub      PoolFlags = 1 << 9
	PoolFullQuota        PoolFlags = 1 << 10 // PoolFull because of its quota
	PoolNearFull         PoolFlags = 1 << 11
	PoolBackfillFull     PoolFlags = 1 << 12
	PoolSelfManagedSnaps PoolFlags = 1 << 13
	PoolPoolSnaps        PoolFlags = 1 << 14
	PoolCreating         PoolFlags = 1 << 15
	PoolEIO              PoolFlags = 1 << 16 // every operation fails with EIO
	PoolBulk             PoolFlags = 1 << 17
	PoolCrimson          PoolFlags = 1 << 18
	PoolECOptimizations  PoolFlags = 1 << 19 // release 20
)

var poolFlagNames = []string{
	"hashpspool", "full", "ec_overwrites", "incomplete_clones", "nodelete", "nopgchange", "nosizechange", "write_fadvise_dontneed",
	"noscrub", "nodeep-scrub", "full_quota", "nearfull", "backfillfull", "selfmanaged_snaps", "pool_snaps", "creating", "eio",
	"bulk", "crimson", "ec_optimizations",
}

// String returns the names of the flags that are set, with commas.
func (f PoolFlags) String() string {
	var names []string
	for i, name := range poolFlagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// PoolSnap is a snapshot of a pool.
type PoolSnap struct {
	ID    uint64
	Stamp time.Time
	Name  string
}

// ShardSet is a set of shards from 0 to 127.
type ShardSet [2]uint64

// Has reports whether shard i is in s.
func (s ShardSet) Has(i int) bool { return i >= 0 && i < 128 && s[i/64]>>(i%64)&1 != 0 }

// Add puts shard i, from 0 to 127, into s.
func (s *ShardSet) Add(i int) { s[i/64] |= 1 << (i % 64) }

// Pool is a pool (pg_pool_t): what a client can use of it.
type Pool struct {
	Type      PoolType
	Size      uint8 // OSDs in each placement group
	MinSize   uint8 // of them that must be up
	CrushRule uint8
	Hash      uint8 // HashRJenkins or HashLinux

	PGNum        uint32 // placement groups; never 0
	PGPNum       uint32 // of them that are placed by themselves; never 0
	PGNumTarget  uint32
	PGPNumTarget uint32
	PGNumPending uint32 // PGNum, or what it is about to become by merging

	Flags         PoolFlags
	LastChange    uint32 // epoch
	CreateTime    time.Time
	AutoscaleMode uint8

	SnapSeq      uint64
	SnapEpoch    uint32
	Snaps        []PoolSnap // ascending; of the pool itself, not of its clients
	RemovedSnaps []SnapRange

	QuotaMaxBytes, QuotaMaxObjects uint64 // 0: none

	Tiers               []uint64
	TierOf              int64 // -1: not a tier
	CacheMode           uint8
	ReadTier, WriteTier int64 // the pools to use instead; -1: none

	ErasureProfile     string
	StripeWidth        uint32 // bytes of a stripe of an erasure-coded pool
	NonPrimaryShards   ShardSet
	FastRead           bool
	ExpectedNumObjects uint64

	// ForceOpResend is the epoch at which clients had to send everything again;
	// the other two are for clients before release 14 and 12.
	ForceOpResend             uint32
	ForceOpResendPreNautilus  uint32
	ForceOpResendPreLuminous  uint32
	Properties                map[string]string
	Applications              map[string]map[string]string
	PeeringCrushBucketCount   uint32 // stretch pools
	PeeringCrushBucketTarget  uint32
	PeeringCrushBucketBarrier uint32
	PeeringCrushMandatory     int32
}

// IsErasure reports whether p is erasure-coded.
func (p *Pool) IsErasure() bool { return p.Type == Erasure }

// canShift reports whether an OSD may stand at any position of a group.
func (p *Pool) canShift() bool { return p.Type != Erasure }

// primaryFirst reports whether the pool's PGTemp entries have the shards that
// can be primary first.
func (p *Pool) primaryFirst() bool { return p.Flags&PoolECOptimizations != 0 }

// HashName returns the hash that places an object: of its key if it has one,
// else of its name, together with its namespace (pg_pool_t::hash_key).
func (p *Pool) HashName(o Object) uint32 {
	key := o.Key
	if key == "" {
		key = o.Name
	}
	var buf [128]byte
	s := buf[:0]
	if o.Namespace != "" {
		s = append(append(s, o.Namespace...), 0x1f)
	}
	return hashString(p.Hash, append(s, key...))
}

// FoldSeed turns a raw seed, a hash, into the seed of its group.
func (p *Pool) FoldSeed(raw uint32) uint32 { return stableMod(raw, p.PGNum, maskOf(p.PGNum)) }

// placementSeed returns what CRUSH maps for a raw group of the pool
// (pg_pool_t::raw_pg_to_pps).
func (p *Pool) placementSeed(pg PG) uint32 {
	s := stableMod(pg.Seed, p.PGPNum, maskOf(p.PGPNum))
	if p.Flags&PoolHashPSPool != 0 {
		return crush.Hash2(s, uint32(pg.Pool))
	}
	return s + uint32(pg.Pool)
}

// poolKnown is the newest encoding of a pool that is known in full, and poolLeast
// the oldest that is read.
const (
	poolKnown = 32
	poolLeast = 21
)

// decodePool reads a pg_pool_t.
func decodePool(d *denc.Decoder) *Pool {
	s := d.LegacyStruct("pool", poolKnown, 5, 5)
	defer d.End(s)
	if d.OK() && s.Version < poolLeast {
		d.Fail("version", denc.ErrVersion)
		return nil
	}
	p := &Pool{
		Type:      PoolType(d.Uint8("type")),
		Size:      d.Uint8("size"),
		CrushRule: d.Uint8("crush_rule"),
		Hash:      d.Uint8("object_hash"),
		PGNum:     d.Uint32("pg_num"),
		PGPNum:    d.Uint32("pgp_num"),
	}
	d.Skip("lpg_num", 8)
	p.LastChange = d.Uint32("last_change")
	p.SnapSeq = d.Uint64("snap_seq")
	p.SnapEpoch = d.Uint32("snap_epoch")
	p.Snaps = make([]PoolSnap, 0, d.Count("snaps", 8+6))
	for range cap(p.Snaps) {
		d.Skip("snaps.key", 8)
		s := d.LegacyStruct("snap", 2, 2, 2)
		p.Snaps = append(p.Snaps, PoolSnap{d.Uint64("snapid"), d.Time("stamp"), d.String("name")})
		d.End(s)
	}
	p.RemovedSnaps = decodeSnapRanges(d, "removed_snaps")
	d.Skip("auid", 8)
	p.Flags = PoolFlags(d.Uint64("flags"))
	d.Skip("crash_replay_interval", 4)
	p.MinSize = d.Uint8("min_size")
	p.QuotaMaxBytes = d.Uint64("quota_max_bytes")
	p.QuotaMaxObjects = d.Uint64("quota_max_objects")
	p.Tiers = make([]uint64, d.Count("tiers", 8))
	for i := range p.Tiers {
		p.Tiers[i] = d.Uint64("tiers")
	}
	p.TierOf = d.Int64("tier_of")
	p.CacheMode = d.Uint8("cache_mode")
	p.ReadTier = d.Int64("read_tier")
	p.WriteTier = d.Int64("write_tier")
	p.Properties = decodeStrings(d, "properties")
	d.End(d.Struct("hit_set_params", 1))
	d.Skip("hit_set_period", 8)
	p.StripeWidth = d.Uint32("stripe_width")
	d.Skip("target_max_bytes", 8+8+4*4) // target bytes and objects, dirty and full ratio, flush and evict age
	p.ErasureProfile = d.String("erasure_code_profile")
	p.ForceOpResendPreLuminous = d.Uint32("last_force_op_resend_preluminous")
	d.Skip("min_read_recency_for_promote", 4)
	p.ExpectedNumObjects = d.Uint64("expected_num_objects")
	d.Skip("cache_target_dirty_high_ratio_micro", 4)
	d.Skip("min_write_recency_for_promote", 4)
	d.Skip("use_gmt_hitset", 1)
	p.decodeLater(d, s.Version)

	if d.OK() && (p.PGNum == 0 || p.PGPNum == 0 || p.Type != Replicated && p.Type != Erasure) {
		d.Fail("type", denc.ErrValue)
	}
	return p
}

// decodeLater reads what came with encoding 22 and later.
func (p *Pool) decodeLater(d *denc.Decoder, version uint8) {
	p.ForceOpResendPreNautilus = p.ForceOpResendPreLuminous
	if version >= 22 {
		p.FastRead = d.Bool("fast_read")
	}
	if version >= 23 {
		d.Skip("hit_set_grade_decay_rate", 8)
	}
	if version >= 24 {
		d.End(d.Struct("opts", 2))
	}
	if version >= 25 {
		p.ForceOpResendPreNautilus = d.Uint32("last_force_op_resend_prenautilus")
	}
	if version >= 26 {
		p.Applications = decodeProfiles(d, "application_metadata")
	}
	if version >= 27 {
		p.CreateTime = d.Time("create_time")
	}
	p.PGNumTarget, p.PGPNumTarget, p.PGNumPending = p.PGNum, p.PGPNum, p.PGNum
	p.ForceOpResend = p.ForceOpResendPreNautilus
	if version >= 28 {
		p.PGNumTarget = d.Uint32("pg_num_target")
		p.PGPNumTarget = d.Uint32("pgp_num_target")
		p.PGNumPending = d.Uint32("pg_num_pending")
		d.Skip("pg_num_dec_last_epoch", 8)
		p.ForceOpResend = d.Uint32("last_force_op_resend")
		p.AutoscaleMode = d.Uint8("pg_autoscale_mode")
	}
	if version >= 29 {
		d.End(d.Struct("last_pg_merge_meta", 1))
	}
	// Release 18.2.1 wrote the stretch fields plainly, later ones as an option.
	if version == 30 || version >= 31 && d.Bool("peering_crush_data") {
		p.PeeringCrushBucketCount = d.Uint32("peering_crush_bucket_count")
		p.PeeringCrushBucketTarget = d.Uint32("peering_crush_bucket_target")
		p.PeeringCrushBucketBarrier = d.Uint32("peering_crush_bucket_barrier")
		p.PeeringCrushMandatory = d.Int32("peering_crush_mandatory_member")
	}
	if version >= 32 {
		for i := range p.NonPrimaryShards {
			p.NonPrimaryShards[i] = decodeVarint(d, "nonprimary_shards")
		}
	}
}

// decodeVarint reads seven bits a byte, the lowest first (denc_varint).
func decodeVarint(d *denc.Decoder, field string) (v uint64) {
	for shift := 0; shift < 70; shift += 7 {
		b := d.Uint8(field)
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	d.Fail(field, denc.ErrValue)
	return 0
}
