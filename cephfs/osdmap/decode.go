package osdmap

import (
	"fmt"
	"hash/crc32"

	"capstan/cephfs/crush"
	"capstan/cephfs/denc"
)

// The newest encodings that are known in full. Newer ones are read as far as
// these go.
const (
	mapWrapper = 8
	mapClient  = 10
	mapOSD     = 12

	// clientLeast is the oldest that is read, that of release 14.
	clientLeast = 8
)

// maxOSDs bounds the numbers of OSDs in an increment, which alone says how long
// the lists of OSDs become.
const maxOSDs = 1 << 20

// ErrChecksum is the kind of a fault found by a map's checksum.
var ErrChecksum = fmt.Errorf("%w: checksum differs", denc.ErrValue)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is Ceph's crc32c from -1 on, without the final inversion.
func checksum(parts ...[]byte) uint32 {
	c := uint32(0) // the inverse of -1
	for _, p := range parts {
		c = crc32.Update(c, castagnoli, p)
	}
	return ^c
}

// Decode reads a full map and verifies its checksum. The map keeps nothing of b.
// Faults are of type *[denc.Error]; that of a wrong checksum is [ErrChecksum].
func Decode(b []byte) (*Map, error) {
	d := denc.NewDecoder(b)
	m := decodeFull(d, b)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

func decodeFull(d *denc.Decoder, b []byte) *Map {
	s := d.LegacyStruct("osdmap", mapWrapper, 7, 7)
	if d.OK() && s.Version < mapWrapper {
		d.Fail("version", denc.ErrVersion)
	}
	m := &Map{}
	m.decodeClient(d)
	m.decodeOSD(d)
	verify(d, b)
	d.End(s)
	m.index()
	return m
}

// verify reads and checks the checksum of a full or incremental map that began
// at the start of b. It is over all of the wrapper but itself. What follows it
// in the wrapper of an increment, the checksum of the full map, is returned; 0
// if nothing does.
func verify(d *denc.Decoder, b []byte) uint32 {
	front := b[:d.Offset()]
	want := d.Uint32("crc")
	tail := d.Rest()
	if d.OK() && checksum(front, tail) != want {
		d.Fail("crc", ErrChecksum)
	}
	if len(tail) < 4 {
		return 0
	}
	return le32(tail)
}

func (m *Map) decodeClient(d *denc.Decoder) {
	s := d.Struct("client", mapClient)
	defer d.End(s)
	if d.OK() && s.Version < clientLeast {
		d.Fail("version", denc.ErrVersion)
		return
	}
	m.FSID = d.FSID("fsid")
	m.Epoch = d.Uint32("epoch")
	m.Created = d.Time("created")
	m.Modified = d.Time("modified")
	m.Pools = decodeMap(d, "pools", 8+6, (*denc.Decoder).Int64, decodePoolField)
	m.PoolNames = decodeMap(d, "pool_name", 8+4, (*denc.Decoder).Int64, (*denc.Decoder).String)
	m.PoolMax = int64(d.Int32("pool_max"))
	m.Flags = Flags(d.Uint32("flags"))
	m.MaxOSD = d.Int32("max_osd")
	m.States = decodeList(d, "osd_state", 4, decodeState)
	m.Weights = decodeList(d, "osd_weight", 4, (*denc.Decoder).Uint32)
	m.Addrs = decodeList(d, "client_addrs", 5, (*denc.Decoder).AddrVec)
	m.PGTemp = decodeMap(d, "pg_temp", pgSize+4, decodePG, decodeOSDs)
	m.PrimaryTemp = decodeMap(d, "primary_temp", pgSize+4, decodePG, (*denc.Decoder).Int32)
	m.Affinity = decodeList(d, "osd_primary_affinity", 4, (*denc.Decoder).Uint32)
	if d.OK() && (m.MaxOSD < 0 || int(m.MaxOSD) != len(m.States) || int(m.MaxOSD) != len(m.Weights) || int(m.MaxOSD) != len(m.Addrs) ||
		len(m.Affinity) != 0 && int(m.MaxOSD) != len(m.Affinity)) {
		d.Fail("max_osd", denc.ErrValue)
	}
	if len(m.Affinity) == 0 {
		m.Affinity = nil
	}
	m.Crush = decodeCrush(d, d.Bytes("crush"))
	m.ErasureProfiles = decodeProfiles(d, "erasure_code_profiles")
	m.PGUpmap = decodeMap(d, "pg_upmap", pgSize+4, decodePG, decodeOSDs)
	m.PGUpmapItems = decodeMap(d, "pg_upmap_items", pgSize+4, decodePG, decodeRemaps)
	m.CrushVersion = d.Int32("crush_version")
	m.NewRemovedSnaps = decodeMap(d, "new_removed_snaps", 8+4, (*denc.Decoder).Int64, decodeSnapRanges)
	m.NewPurgedSnaps = decodeMap(d, "new_purged_snaps", 8+4, (*denc.Decoder).Int64, decodeSnapRanges)
	if s.Version >= 9 {
		d.Skip("last_up_change", 8)
		d.Skip("last_in_change", 8)
	}
	if s.Version >= 10 {
		m.PGUpmapPrimary = decodeMap(d, "pg_upmap_primaries", pgSize+4, decodePG, (*denc.Decoder).Int32)
	}
}

func (m *Map) decodeOSD(d *denc.Decoder) {
	s := d.Struct("osd_only", mapOSD)
	defer d.End(s)
	if d.OK() && s.Version < 7 {
		d.Fail("version", denc.ErrVersion)
		return
	}
	skipList(d, "hb_back_addrs", 5, skipAddrVec)
	d.Skip("osd_info", d.Count("osd_info", osdInfoSize)*osdInfoSize)
	m.Blocklist = decodeMap(d, "blocklist", 4+8, (*denc.Decoder).Addr, (*denc.Decoder).Time)
	skipList(d, "cluster_addrs", 5, skipAddrVec)
	d.Skip("cluster_snapshot_epoch", 4)
	d.Bytes("cluster_snapshot")
	d.Skip("osd_uuid", d.Count("osd_uuid", 16)*16)
	skipList(d, "osd_xinfo", 6, func(d *denc.Decoder) { d.End(d.Struct("osd_xinfo", 4)) })
	skipList(d, "hb_front_addrs", 5, skipAddrVec)
	m.NearFullRatio = d.Float32("nearfull_ratio")
	m.FullRatio = d.Float32("full_ratio")
	m.BackfillFullRatio = d.Float32("backfillfull_ratio")
	m.RequireMinCompatClient = d.Uint8("require_min_compat_client")
	m.RequireOSDRelease = d.Uint8("require_osd_release")
	if m.RequireOSDRelease >= ReleaseNautilus {
		m.Flags |= FlagPGLogHardLimit
	}
	if m.RequireOSDRelease >= ReleaseLuminous {
		m.Flags = m.Flags&^flagsLegacy | FlagRecoveryDeletes
	}
	skipList(d, "removed_snaps_queue", 8+4, func(d *denc.Decoder) {
		d.Skip("pool", 8)
		d.Skip("snaps", d.Count("snaps", 16)*16)
	})
	if s.Version >= 8 {
		d.Skip("crush_node_flags", d.Count("crush_node_flags", 8)*8)
	}
	if s.Version >= 9 {
		d.Skip("device_class_flags", d.Count("device_class_flags", 8)*8)
	}
	if s.Version >= 10 {
		d.Skip("stretch_mode", 1+4+4+4+4)
	}
	if s.Version >= 11 {
		m.RangeBlocklist = decodeMap(d, "range_blocklist", 4+8, (*denc.Decoder).Addr, (*denc.Decoder).Time)
	}
}

// Sizes of encoded structs.
const (
	pgSize      = 1 + 8 + 4 + 4
	osdInfoSize = 1 + 6*4
)

// decodeMap reads a map whose entries take at least least bytes.
func decodeMap[K comparable, V any](d *denc.Decoder, field string, least int, key func(*denc.Decoder, string) K, value func(*denc.Decoder, string) V) map[K]V {
	n := d.Count(field, least)
	m := make(map[K]V, n)
	for range n {
		k := key(d, field)
		m[k] = value(d, field)
		if !d.OK() {
			return nil
		}
	}
	return m
}

// decodeList reads a list whose elements take at least least bytes.
func decodeList[V any](d *denc.Decoder, field string, least int, value func(*denc.Decoder, string) V) []V {
	v := make([]V, d.Count(field, least))
	for i := range v {
		v[i] = value(d, field)
	}
	return v
}

// skipList passes over a list whose elements take at least least bytes.
func skipList(d *denc.Decoder, field string, least int, skip func(*denc.Decoder)) {
	for range d.Count(field, least) {
		if skip(d); !d.OK() {
			return
		}
	}
}

func skipAddrVec(d *denc.Decoder) { d.AddrVec("addrs") }

func decodePoolField(d *denc.Decoder, _ string) *Pool { return decodePool(d) }

func decodeState(d *denc.Decoder, field string) State { return State(d.Uint32(field)) }

// decodePG reads a pg_t. Its version has never changed and its last field, the
// preferred OSD, is not used.
func decodePG(d *denc.Decoder, field string) PG {
	d.Skip(field, 1)
	pg := PG{d.Int64(field), d.Uint32(field)}
	d.Skip(field, 4)
	return pg
}

func decodeOSDs(d *denc.Decoder, field string) []int32 {
	return decodeList(d, field, 4, (*denc.Decoder).Int32)
}

func decodeRemaps(d *denc.Decoder, field string) []Remap {
	return decodeList(d, field, 8, func(d *denc.Decoder, field string) Remap {
		return Remap{d.Int32(field), d.Int32(field)}
	})
}

func decodeSnapRanges(d *denc.Decoder, field string) []SnapRange {
	return decodeList(d, field, 16, func(d *denc.Decoder, field string) SnapRange {
		return SnapRange{d.Uint64(field), d.Uint64(field)}
	})
}

func decodeStrings(d *denc.Decoder, field string) map[string]string {
	return decodeMap(d, field, 8, (*denc.Decoder).String, (*denc.Decoder).String)
}

func decodeProfiles(d *denc.Decoder, field string) map[string]map[string]string {
	return decodeMap(d, field, 8, (*denc.Decoder).String, decodeStrings)
}

// decodeCrush reads the CRUSH map in blob, which d has just read, and carries a
// fault in it over to d.
func decodeCrush(d *denc.Decoder, blob []byte) *crush.Map {
	if !d.OK() {
		return nil
	}
	m, err := crush.Decode(blob)
	if err != nil {
		d.Fail(fmt.Sprintf("crush(%v)", err), denc.ErrValue)
		return nil
	}
	return m
}
