package osdmap

import (
	"time"

	"capstan/cephfs/crush"
	"capstan/cephfs/denc"

	"github.com/google/uuid"
)

// The newest encodings of increments that are known in full.
const (
	incWrapper = 8
	incClient  = 9
	incOSD     = 12

	incClientLeast = 7 // of release 14
)

// Incremental is the difference between the map of one epoch and that before it
// (OSDMap::Incremental).
type Incremental struct {
	FSID     uuid.UUID
	Epoch    uint32 // of the map that it makes
	Modified time.Time

	Full *Map // if not nil, the whole next map; the rest does not count

	NewPoolMax int64 // -1: unchanged
	NewFlags   int32 // -1: unchanged
	NewMaxOSD  int32 // -1: unchanged
	NewCrush   *crush.Map

	NewPools     map[int64]*Pool
	NewPoolNames map[int64]string
	OldPools     []int64

	NewUp       map[int32]denc.AddrVec // OSDs that came up, and their addresses for clients
	NewState    map[int32]State        // bits that change; 0 stands for StateUp
	NewWeight   map[int32]uint32
	NewAffinity map[int32]uint32

	NewPGTemp         map[PG][]int32 // an empty list removes
	NewPrimaryTemp    map[PG]int32   // -1 removes
	NewPGUpmap        map[PG][]int32
	OldPGUpmap        []PG
	NewPGUpmapItems   map[PG][]Remap
	OldPGUpmapItems   []PG
	NewPGUpmapPrimary map[PG]int32
	OldPGUpmapPrimary []PG

	NewErasureProfiles map[string]map[string]string
	OldErasureProfiles []string

	NewRemovedSnaps map[int64][]SnapRange
	NewPurgedSnaps  map[int64][]SnapRange

	NewBlocklist      map[denc.Addr]time.Time
	OldBlocklist      []denc.Addr
	NewRangeBlocklist map[denc.Addr]time.Time
	OldRangeBlocklist []denc.Addr

	NewNearFullRatio, NewFullRatio, NewBackfillFullRatio float32 // negative: unchanged

	NewRequireMinCompatClient uint8 // 0 and releaseUnset: unchanged
	NewRequireOSDRelease      uint8

	// FullCRC is the checksum of the map that comes out, as the monitor encodes
	// it. A client has no use for it: it does not encode maps.
	FullCRC uint32
}

// releaseUnset stands for no release (ceph_release_t::unknown of an increment).
const releaseUnset = 0xff

// NewIncremental returns the increment to an epoch that changes nothing.
func NewIncremental(fsid uuid.UUID, epoch uint32) *Incremental {
	return &Incremental{
		FSID: fsid, Epoch: epoch,
		NewPoolMax: -1, NewFlags: -1, NewMaxOSD: -1,
		NewNearFullRatio: -1, NewFullRatio: -1, NewBackfillFullRatio: -1,
		NewRequireMinCompatClient: releaseUnset, NewRequireOSDRelease: releaseUnset,
	}
}

// DecodeIncremental reads an increment and verifies its checksum. The increment
// keeps nothing of b. Faults are of type *[denc.Error].
func DecodeIncremental(b []byte) (*Incremental, error) {
	d := denc.NewDecoder(b)
	s := d.LegacyStruct("osdmap_inc", incWrapper, 7, 7)
	if d.OK() && s.Version < incWrapper {
		d.Fail("version", denc.ErrVersion)
	}
	inc := NewIncremental(uuid.Nil, 0)
	inc.decodeClient(d)
	inc.decodeOSD(d)
	inc.FullCRC = verify(d, b)
	d.End(s)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return inc, nil
}

func (inc *Incremental) decodeClient(d *denc.Decoder) {
	s := d.Struct("client", incClient)
	defer d.End(s)
	if d.OK() && s.Version < incClientLeast {
		d.Fail("version", denc.ErrVersion)
		return
	}
	inc.FSID = d.FSID("fsid")
	inc.Epoch = d.Uint32("epoch")
	inc.Modified = d.Time("modified")
	inc.NewPoolMax = d.Int64("new_pool_max")
	inc.NewFlags = d.Int32("new_flags")
	if full := d.Bytes("fullmap"); len(full) > 0 {
		m, err := Decode(full)
		if err != nil {
			d.Fail("fullmap("+err.Error()+")", denc.ErrValue)
		}
		inc.Full = m
	}
	if blob := d.Bytes("crush"); len(blob) > 0 {
		inc.NewCrush = decodeCrush(d, blob)
	}
	inc.NewMaxOSD = d.Int32("new_max_osd")
	if d.OK() && inc.NewMaxOSD > maxOSDs {
		d.Fail("new_max_osd", denc.ErrTooLong)
	}
	inc.NewPools = decodeMap(d, "new_pools", 8+6, (*denc.Decoder).Int64, decodePoolField)
	inc.NewPoolNames = decodeMap(d, "new_pool_names", 8+4, (*denc.Decoder).Int64, (*denc.Decoder).String)
	inc.OldPools = decodeList(d, "old_pools", 8, (*denc.Decoder).Int64)
	inc.NewUp = decodeMap(d, "new_up_client", 4+5, (*denc.Decoder).Int32, (*denc.Decoder).AddrVec)
	inc.NewState = decodeMap(d, "new_state", 4+4, (*denc.Decoder).Int32, decodeState)
	inc.NewWeight = decodeMap(d, "new_weight", 4+4, (*denc.Decoder).Int32, (*denc.Decoder).Uint32)
	inc.NewPGTemp = decodeMap(d, "new_pg_temp", pgSize+4, decodePG, decodeOSDs)
	inc.NewPrimaryTemp = decodeMap(d, "new_primary_temp", pgSize+4, decodePG, (*denc.Decoder).Int32)
	inc.NewAffinity = decodeMap(d, "new_primary_affinity", 4+4, (*denc.Decoder).Int32, (*denc.Decoder).Uint32)
	inc.NewErasureProfiles = decodeProfiles(d, "new_erasure_code_profiles")
	inc.OldErasureProfiles = decodeList(d, "old_erasure_code_profiles", 4, (*denc.Decoder).String)
	inc.NewPGUpmap = decodeMap(d, "new_pg_upmap", pgSize+4, decodePG, decodeOSDs)
	inc.OldPGUpmap = decodeList(d, "old_pg_upmap", pgSize, decodePG)
	inc.NewPGUpmapItems = decodeMap(d, "new_pg_upmap_items", pgSize+4, decodePG, decodeRemaps)
	inc.OldPGUpmapItems = decodeList(d, "old_pg_upmap_items", pgSize, decodePG)
	inc.NewRemovedSnaps = decodeMap(d, "new_removed_snaps", 8+4, (*denc.Decoder).Int64, decodeSnapRanges)
	inc.NewPurgedSnaps = decodeMap(d, "new_purged_snaps", 8+4, (*denc.Decoder).Int64, decodeSnapRanges)
	if s.Version >= 8 {
		d.Skip("new_last_up_change", 8)
		d.Skip("new_last_in_change", 8)
	}
	if s.Version >= 9 {
		inc.NewPGUpmapPrimary = decodeMap(d, "new_pg_upmap_primary", pgSize+4, decodePG, (*denc.Decoder).Int32)
		inc.OldPGUpmapPrimary = decodeList(d, "old_pg_upmap_primary", pgSize, decodePG)
	}
}

func (inc *Incremental) decodeOSD(d *denc.Decoder) {
	s := d.Struct("osd_only", incOSD)
	defer d.End(s)
	if d.OK() && s.Version < 7 {
		d.Fail("version", denc.ErrVersion)
		return
	}
	skipNumberedAddrs(d, "new_hb_back_up")
	d.Skip("new_up_thru", d.Count("new_up_thru", 8)*8)
	d.Skip("new_last_clean_interval", d.Count("new_last_clean_interval", 12)*12)
	d.Skip("new_lost", d.Count("new_lost", 8)*8)
	inc.NewBlocklist = decodeMap(d, "new_blocklist", 4+8, (*denc.Decoder).Addr, (*denc.Decoder).Time)
	inc.OldBlocklist = decodeList(d, "old_blocklist", 4, (*denc.Decoder).Addr)
	skipNumberedAddrs(d, "new_up_cluster")
	d.Bytes("cluster_snapshot")
	d.Skip("new_uuid", d.Count("new_uuid", 4+16)*(4+16))
	skipList(d, "new_xinfo", 4+6, func(d *denc.Decoder) {
		d.Skip("new_xinfo", 4)
		d.End(d.Struct("new_xinfo", 4))
	})
	skipNumberedAddrs(d, "new_hb_front_up")
	d.Skip("encode_features", 8)
	inc.NewNearFullRatio = d.Float32("new_nearfull_ratio")
	inc.NewFullRatio = d.Float32("new_full_ratio")
	inc.NewBackfillFullRatio = d.Float32("new_backfillfull_ratio")
	inc.NewRequireMinCompatClient = d.Uint8("new_require_min_compat_client")
	inc.NewRequireOSDRelease = d.Uint8("new_require_osd_release")
	if s.Version >= 8 {
		d.Skip("new_crush_node_flags", d.Count("new_crush_node_flags", 8)*8)
	}
	if s.Version >= 9 {
		d.Skip("new_device_class_flags", d.Count("new_device_class_flags", 8)*8)
	}
	if s.Version >= 10 {
		d.Skip("stretch_mode", 1+4+4+4+4+1)
	}
	if s.Version >= 11 {
		inc.NewRangeBlocklist = decodeMap(d, "new_range_blocklist", 4+8, (*denc.Decoder).Addr, (*denc.Decoder).Time)
		inc.OldRangeBlocklist = decodeList(d, "old_range_blocklist", 4, (*denc.Decoder).Addr)
	}
}

// skipNumberedAddrs passes over a map of OSDs to address vectors.
func skipNumberedAddrs(d *denc.Decoder, field string) {
	skipList(d, field, 4+5, func(d *denc.Decoder) {
		d.Skip(field, 4)
		d.AddrVec(field)
	})
}
