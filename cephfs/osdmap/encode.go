package osdmap

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"capstan/cephfs/crush"
	"capstan/cephfs/denc"

	"github.com/google/uuid"
)

// Encode returns the binary form of m for peers of a release: that of release 16,
// or of 18 and later with the primaries of upmap, or of 20 with the fields of
// optimized erasure coding. It is for test peers and tools: what a Map does not
// hold is written as if it were empty, so the result of a decoded map is not what
// was decoded.
func (m *Map) Encode(release uint8) []byte {
	var e denc.Encoder
	wrapper := e.Struct(mapWrapper, 7)
	m.encodeClient(&e, release)
	m.encodeOSD(&e)
	sealed := e.Len()
	e.Uint32(0)
	e.End(wrapper)
	binary.LittleEndian.PutUint32(e.Data()[sealed:], checksum(e.Data()[:sealed]))
	return e.Data()
}

func (m *Map) encodeClient(e *denc.Encoder, release uint8) {
	version := uint8(9)
	if release >= ReleaseReef {
		version = 10
	}
	s := e.Struct(version, 1)
	e.FSID(m.FSID)
	e.Uint32(m.Epoch)
	e.Time(m.Created)
	e.Time(m.Modified)
	encodeMap(e, m.Pools, (*denc.Encoder).Int64, func(e *denc.Encoder, p *Pool) { p.encode(e, release) })
	encodeMap(e, m.PoolNames, (*denc.Encoder).Int64, (*denc.Encoder).String)
	e.Int32(int32(m.PoolMax))
	e.Uint32(uint32(m.Flags))
	e.Int32(m.MaxOSD)
	encodeList(e, m.States, encodeState)
	encodeList(e, m.Weights, (*denc.Encoder).Uint32)
	encodeList(e, m.Addrs, (*denc.Encoder).AddrVec)
	encodePGs(e, m.PGTemp, encodeOSDs)
	encodePGs(e, m.PrimaryTemp, (*denc.Encoder).Int32)
	encodeList(e, m.Affinity, (*denc.Encoder).Uint32)
	cm := m.Crush
	if cm == nil {
		cm = &crush.Map{}
	}
	e.Bytes(cm.Encode(release >= ReleaseSquid))
	encodeMap(e, m.ErasureProfiles, (*denc.Encoder).String, encodeStrings)
	encodePGs(e, m.PGUpmap, encodeOSDs)
	encodePGs(e, m.PGUpmapItems, encodeRemaps)
	e.Int32(m.CrushVersion)
	encodeMap(e, m.NewRemovedSnaps, (*denc.Encoder).Int64, encodeSnapRanges)
	encodeMap(e, m.NewPurgedSnaps, (*denc.Encoder).Int64, encodeSnapRanges)
	e.Uint64(0) // last up and in change
	e.Uint64(0)
	if version >= 10 {
		encodePGs(e, m.PGUpmapPrimary, (*denc.Encoder).Int32)
	}
	e.End(s)
}

func (m *Map) encodeOSD(e *denc.Encoder) {
	version := uint8(9)
	if len(m.RangeBlocklist) > 0 {
		version = 11
	}
	n := int(m.MaxOSD)
	emptyAddrs := func() {
		e.Count(n)
		for range n {
			e.AddrVec(nil)
		}
	}
	s := e.Struct(version, 1)
	emptyAddrs() // heartbeat, back
	e.Count(n)   // osd_info_t
	for range n {
		e.Uint8(1)
		e.Raw(make([]byte, osdInfoSize-1))
	}
	encodeAddrs(e, m.Blocklist, (*denc.Encoder).Time)
	emptyAddrs() // cluster
	e.Uint32(0)  // cluster snapshot epoch
	e.String("")
	e.Count(n)
	for range n {
		e.FSID(uuid.Nil)
	}
	e.Count(n)
	for range n { // osd_xinfo_t: down stamp, laggy probability and interval, features, old weight, scrub, dead epoch
		x := e.Struct(4, 1)
		e.Raw(make([]byte, 8+4+4+8+4+8+4))
		e.End(x)
	}
	emptyAddrs() // heartbeat, front
	e.Float32(m.NearFullRatio)
	e.Float32(m.FullRatio)
	e.Float32(m.BackfillFullRatio)
	e.Uint8(m.RequireMinCompatClient)
	e.Uint8(m.RequireOSDRelease)
	e.Count(0) // removed_snaps_queue
	e.Count(0) // crush_node_flags
	e.Count(0) // device_class_flags
	if version >= 11 {
		e.Raw(make([]byte, 1+4+4+4+4)) // stretch mode
		encodeAddrs(e, m.RangeBlocklist, (*denc.Encoder).Time)
	}
	e.End(s)
}

// Encode returns the binary form of inc; see [Map.Encode]. fullCRC is written
// from inc.
func (inc *Incremental) Encode(release uint8) []byte {
	var e denc.Encoder
	wrapper := e.Struct(incWrapper, 7)
	inc.encodeClient(&e, release)
	inc.encodeOSD(&e)
	sealed := e.Len()
	e.Uint32(0)
	e.Uint32(inc.FullCRC)
	e.End(wrapper)
	b := e.Data()
	binary.LittleEndian.PutUint32(b[sealed:], checksum(b[:sealed], b[sealed+4:]))
	return b
}

func (inc *Incremental) encodeClient(e *denc.Encoder, release uint8) {
	version := uint8(8)
	if release >= ReleaseReef {
		version = 9
	}
	s := e.Struct(version, 1)
	e.FSID(inc.FSID)
	e.Uint32(inc.Epoch)
	e.Time(inc.Modified)
	e.Int64(inc.NewPoolMax)
	e.Int32(inc.NewFlags)
	var full, newCrush []byte
	if inc.Full != nil {
		full = inc.Full.Encode(release)
	}
	if inc.NewCrush != nil {
		newCrush = inc.NewCrush.Encode(release >= ReleaseSquid)
	}
	e.Bytes(full)
	e.Bytes(newCrush)
	e.Int32(inc.NewMaxOSD)
	encodeMap(e, inc.NewPools, (*denc.Encoder).Int64, func(e *denc.Encoder, p *Pool) { p.encode(e, release) })
	encodeMap(e, inc.NewPoolNames, (*denc.Encoder).Int64, (*denc.Encoder).String)
	encodeList(e, inc.OldPools, (*denc.Encoder).Int64)
	encodeMap(e, inc.NewUp, (*denc.Encoder).Int32, (*denc.Encoder).AddrVec)
	encodeMap(e, inc.NewState, (*denc.Encoder).Int32, encodeState)
	encodeMap(e, inc.NewWeight, (*denc.Encoder).Int32, (*denc.Encoder).Uint32)
	encodePGs(e, inc.NewPGTemp, encodeOSDs)
	encodePGs(e, inc.NewPrimaryTemp, (*denc.Encoder).Int32)
	encodeMap(e, inc.NewAffinity, (*denc.Encoder).Int32, (*denc.Encoder).Uint32)
	encodeMap(e, inc.NewErasureProfiles, (*denc.Encoder).String, encodeStrings)
	encodeList(e, inc.OldErasureProfiles, (*denc.Encoder).String)
	encodePGs(e, inc.NewPGUpmap, encodeOSDs)
	encodeList(e, inc.OldPGUpmap, encodePG)
	encodePGs(e, inc.NewPGUpmapItems, encodeRemaps)
	encodeList(e, inc.OldPGUpmapItems, encodePG)
	encodeMap(e, inc.NewRemovedSnaps, (*denc.Encoder).Int64, encodeSnapRanges)
	encodeMap(e, inc.NewPurgedSnaps, (*denc.Encoder).Int64, encodeSnapRanges)
	e.Uint64(0) // last up and in change
	e.Uint64(0)
	if version >= 9 {
		encodePGs(e, inc.NewPGUpmapPrimary, (*denc.Encoder).Int32)
		encodeList(e, inc.OldPGUpmapPrimary, encodePG)
	}
	e.End(s)
}

func (inc *Incremental) encodeOSD(e *denc.Encoder) {
	version := uint8(9)
	if len(inc.NewRangeBlocklist) > 0 || len(inc.OldRangeBlocklist) > 0 {
		version = 11
	}
	emptyAddrs := func() {
		encodeMap(e, inc.NewUp, (*denc.Encoder).Int32, func(e *denc.Encoder, _ denc.AddrVec) { e.AddrVec(nil) })
	}
	s := e.Struct(version, 1)
	emptyAddrs() // heartbeat, back
	e.Count(0)   // new_up_thru
	e.Count(0)   // new_last_clean_interval
	e.Count(0)   // new_lost
	encodeAddrs(e, inc.NewBlocklist, (*denc.Encoder).Time)
	encodeList(e, inc.OldBlocklist, (*denc.Encoder).Addr)
	emptyAddrs() // cluster
	e.String("") // cluster snapshot
	e.Count(0)   // new_uuid
	e.Count(0)   // new_xinfo
	emptyAddrs() // heartbeat, front
	e.Uint64(0)  // encode_features
	e.Float32(inc.NewNearFullRatio)
	e.Float32(inc.NewFullRatio)
	e.Float32(inc.NewBackfillFullRatio)
	e.Uint8(inc.NewRequireMinCompatClient)
	e.Uint8(inc.NewRequireOSDRelease)
	e.Count(0) // new_crush_node_flags
	e.Count(0) // new_device_class_flags
	if version >= 11 {
		e.Raw(make([]byte, 1+4+4+4+4+1)) // stretch mode
		encodeAddrs(e, inc.NewRangeBlocklist, (*denc.Encoder).Time)
		encodeList(e, inc.OldRangeBlocklist, (*denc.Encoder).Addr)
	}
	e.End(s)
}

// encode appends a pg_pool_t.
func (p *Pool) encode(e *denc.Encoder, release uint8) {
	version := uint8(29)
	if release >= ReleaseTentacle {
		version = poolKnown
	}
	s := e.Struct(version, 5)
	e.Uint8(uint8(p.Type))
	e.Uint8(p.Size)
	e.Uint8(p.CrushRule)
	e.Uint8(p.Hash)
	e.Uint32(p.PGNum)
	e.Uint32(p.PGPNum)
	e.Uint64(0) // lpg_num, lpgp_num
	e.Uint32(p.LastChange)
	e.Uint64(p.SnapSeq)
	e.Uint32(p.SnapEpoch)
	e.Count(len(p.Snaps))
	for _, snap := range p.Snaps {
		e.Uint64(snap.ID)
		s := e.Struct(2, 2)
		e.Uint64(snap.ID)
		e.Time(snap.Stamp)
		e.String(snap.Name)
		e.End(s)
	}
	encodeSnapRanges(e, p.RemovedSnaps)
	e.Uint64(0) // auid
	e.Uint64(uint64(p.Flags))
	e.Uint32(0) // crash_replay_interval
	e.Uint8(p.MinSize)
	e.Uint64(p.QuotaMaxBytes)
	e.Uint64(p.QuotaMaxObjects)
	encodeList(e, p.Tiers, (*denc.Encoder).Uint64)
	e.Int64(p.TierOf)
	e.Uint8(p.CacheMode)
	e.Int64(p.ReadTier)
	e.Int64(p.WriteTier)
	encodeStrings(e, p.Properties)
	hits := e.Struct(1, 1)
	e.Uint8(0) // no hit set
	e.End(hits)
	e.Uint64(0) // hit_set_period, hit_set_count
	e.Uint32(p.StripeWidth)
	e.Raw(make([]byte, 8+8+4*4)) // cache targets
	e.String(p.ErasureProfile)
	e.Uint32(p.ForceOpResendPreLuminous)
	e.Uint32(0) // min_read_recency_for_promote
	e.Uint64(p.ExpectedNumObjects)
	e.Uint32(0) // cache_target_dirty_high_ratio_micro
	e.Uint32(0) // min_write_recency_for_promote
	e.Bool(false)
	e.Bool(p.FastRead)
	e.Uint64(0) // hit_set_grade_decay_rate, hit_set_search_last_n
	opts := e.Struct(1, 1)
	e.Count(0)
	e.End(opts)
	e.Uint32(p.ForceOpResendPreNautilus)
	encodeMap(e, p.Applications, (*denc.Encoder).String, encodeStrings)
	e.Time(p.CreateTime)
	e.Uint32(p.PGNumTarget)
	e.Uint32(p.PGPNumTarget)
	e.Uint32(p.PGNumPending)
	e.Uint64(0)
	e.Uint32(p.ForceOpResend)
	e.Uint8(p.AutoscaleMode)
	merge := e.Struct(1, 1) // pg_merge_meta_t: group, three epochs, two versions
	encodePG(e, PG{})
	e.Raw(make([]byte, 3*4+2*12))
	e.End(merge)
	if version >= 31 {
		stretch := p.PeeringCrushBucketCount > 0
		e.Bool(stretch)
		if stretch {
			e.Uint32(p.PeeringCrushBucketCount)
			e.Uint32(p.PeeringCrushBucketTarget)
			e.Uint32(p.PeeringCrushBucketBarrier)
			e.Int32(p.PeeringCrushMandatory)
		}
	}
	if version >= 32 {
		for _, word := range p.NonPrimaryShards {
			e.Raw(binary.AppendUvarint(nil, word))
		}
	}
	e.End(s)
}

func encodeMap[K cmp.Ordered, V any](e *denc.Encoder, m map[K]V, key func(*denc.Encoder, K), value func(*denc.Encoder, V)) {
	e.Count(len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key(e, k)
		value(e, m[k])
	}
}

func encodePGs[V any](e *denc.Encoder, m map[PG]V, value func(*denc.Encoder, V)) {
	e.Count(len(m))
	for _, pg := range slices.SortedFunc(maps.Keys(m), func(a, b PG) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Seed, b.Seed))
	}) {
		encodePG(e, pg)
		value(e, m[pg])
	}
}

func encodeAddrs[V any](e *denc.Encoder, m map[denc.Addr]V, value func(*denc.Encoder, V)) {
	e.Count(len(m))
	for _, a := range slices.SortedFunc(maps.Keys(m), func(a, b denc.Addr) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), a.Host.Compare(b.Host), cmp.Compare(a.Nonce, b.Nonce))
	}) {
		e.Addr(a)
		value(e, m[a])
	}
}

func encodeList[V any](e *denc.Encoder, v []V, value func(*denc.Encoder, V)) {
	e.Count(len(v))
	for _, x := range v {
		value(e, x)
	}
}

func encodePG(e *denc.Encoder, pg PG) {
	e.Uint8(1)
	e.Int64(pg.Pool)
	e.Uint32(pg.Seed)
	e.Int32(-1)
}

func encodeState(e *denc.Encoder, s State) { e.Uint32(uint32(s)) }

func encodeOSDs(e *denc.Encoder, v []int32) { encodeList(e, v, (*denc.Encoder).Int32) }

func encodeRemaps(e *denc.Encoder, v []Remap) {
	encodeList(e, v, func(e *denc.Encoder, r Remap) { e.Int32(r.From); e.Int32(r.To) })
}

func encodeSnapRanges(e *denc.Encoder, v []SnapRange) {
	encodeList(e, v, func(e *denc.Encoder, r SnapRange) { e.Uint64(r.Start); e.Uint64(r.Len) })
}

func encodeStrings(e *denc.Encoder, m map[string]string) {
	encodeMap(e, m, (*denc.Encoder).String, (*denc.Encoder).String)
}
