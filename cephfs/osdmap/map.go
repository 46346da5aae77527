package osdmap

import (
	"strings"
	"time"

	"capstan/cephfs/crush"
	"capstan/cephfs/denc"

	"github.com/google/uuid"
)

// Flags are flags of the whole cluster (CEPH_OSDMAP_* of ceph/ceph
// src/include/rados.h).
type Flags uint32

// The flags.
const (
	FlagNearFull        Flags = 1 << 0 // set by no release since 13
	FlagFull            Flags = 1 << 1 // set by no release since 13
	FlagPauseRead       Flags = 1 << 2
	FlagPauseWrite      Flags = 1 << 3
	FlagPauseRecovery   Flags = 1 << 4
	FlagNoUp            Flags = 1 << 5
	FlagNoDown          Flags = 1 << 6
	FlagNoOut           Flags = 1 << 7
	FlagNoIn            Flags = 1 << 8
	FlagNoBackfill      Flags = 1 << 9
	FlagNoRecover       Flags = 1 << 10
	FlagNoScrub         Flags = 1 << 11
	FlagNoDeepScrub     Flags = 1 << 12
	FlagNoTierAgent     Flags = 1 << 13
	FlagNoRebalance     Flags = 1 << 14
	FlagSortBitwise     Flags = 1 << 15
	FlagRequireJewel    Flags = 1 << 16
	FlagRequireKraken   Flags = 1 << 17
	FlagRequireLuminous Flags = 1 << 18
	FlagRecoveryDeletes Flags = 1 << 19
	FlagPurgedSnapDirs  Flags = 1 << 20
	FlagNoSnapTrim      Flags = 1 << 21
	FlagPGLogHardLimit  Flags = 1 << 22
	FlagNoAutoscale     Flags = 1 << 23
)

// flagsLegacy are what require_osd_release replaced.
const flagsLegacy = FlagRequireJewel | FlagRequireKraken | FlagRequireLuminous

var flagNames = []string{
	"nearfull", "full", "pauserd", "pausewr", "pauserec", "noup", "nodown", "noout", "noin", "nobackfill", "norecover", "noscrub",
	"nodeep-scrub", "notieragent", "norebalance", "sortbitwise", "require_jewel_osds", "require_kraken_osds",
	"require_luminous_osds", "recovery_deletes", "purged_snapdirs", "nosnaptrim", "pglog_hardlimit", "noautoscale",
}

// String returns the names of the flags that are set, with commas.
func (f Flags) String() string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// State is the state of an OSD (CEPH_OSD_*).
type State uint32

// The bits of a state.
const (
	StateExists       State = 1 << 0
	StateUp           State = 1 << 1
	StateAutoOut      State = 1 << 2
	StateNew          State = 1 << 3
	StateFull         State = 1 << 4
	StateNearFull     State = 1 << 5
	StateBackfillFull State = 1 << 6
	StateDestroyed    State = 1 << 7
	StateNoUp         State = 1 << 8
	StateNoDown       State = 1 << 9
	StateNoIn         State = 1 << 10
	StateNoOut        State = 1 << 11
	StateStop         State = 1 << 12
)

// Weights and affinities are fixed point.
const (
	WeightIn        uint32 = 0x10000 // an OSD that takes its full share
	WeightOut       uint32 = 0
	DefaultAffinity uint32 = 0x10000 // to be primary as often as it comes first
)

// Releases by their number (ceph_release_t).
const (
	ReleaseLuminous uint8 = 12
	ReleaseNautilus uint8 = 14
	ReleasePacific  uint8 = 16
	ReleaseQuincy   uint8 = 17
	ReleaseReef     uint8 = 18
	ReleaseSquid    uint8 = 19
	ReleaseTentacle uint8 = 20
)

// Remap says that one OSD takes the place of another in a placement group.
type Remap struct{ From, To int32 }

// SnapRange is a range of snapshot ids.
type SnapRange struct{ Start, Len uint64 }

// Map is the osdmap of one epoch. Read [Map.Pool], [Map.Place] and the like
// first: the fields are there for those who show or make maps. Nothing in a Map
// may be changed while others may see it.
type Map struct {
	FSID              uuid.UUID
	Epoch             uint32
	Created, Modified time.Time

	Pools     map[int64]*Pool
	PoolNames map[int64]string
	PoolMax   int64 // the highest id that was ever given

	Flags   Flags
	MaxOSD  int32 // above every OSD
	States  []State
	Weights []uint32       // 16.16 fixed point: in, out, or between
	Addrs   []denc.AddrVec // for clients
	// Affinity is each OSD's chance to be a primary; nil: all have the default.
	Affinity []uint32

	PGTemp          map[PG][]int32 // acting sets instead of what CRUSH says; as encoded
	PrimaryTemp     map[PG]int32
	PGUpmap         map[PG][]int32
	PGUpmapItems    map[PG][]Remap
	PGUpmapPrimary  map[PG]int32
	ErasureProfiles map[string]map[string]string

	Crush        *crush.Map
	CrushVersion int32

	NewRemovedSnaps map[int64][]SnapRange // by pool: removed with this epoch
	NewPurgedSnaps  map[int64][]SnapRange

	Blocklist      map[denc.Addr]time.Time // until when
	RangeBlocklist map[denc.Addr]time.Time // networks: AddrCIDR, Nonce is the length of the prefix

	NearFullRatio, FullRatio, BackfillFullRatio float32

	RequireMinCompatClient uint8 // releases
	RequireOSDRelease      uint8

	poolIDs map[string]int64 // by name
}

// Pool returns the pool of this id, or nil.
func (m *Map) Pool(id int64) *Pool { return m.Pools[id] }

// PoolID returns the id of the pool of this name.
func (m *Map) PoolID(name string) (int64, bool) {
	id, ok := m.poolIDs[name]
	return id, ok
}

// Exists reports whether there is an OSD of this number.
func (m *Map) Exists(osd int32) bool { return m.state(osd)&StateExists != 0 }

// IsUp reports whether an OSD exists and runs.
func (m *Map) IsUp(osd int32) bool {
	return m.state(osd)&(StateExists|StateUp) == StateExists|StateUp
}

func (m *Map) state(osd int32) State {
	if osd < 0 || osd >= m.MaxOSD || int(osd) >= len(m.States) {
		return 0
	}
	return m.States[osd]
}

// IsIn reports whether an OSD exists and takes data.
func (m *Map) IsIn(osd int32) bool { return m.Exists(osd) && m.weight(osd) != WeightOut }

func (m *Map) weight(osd int32) uint32 {
	if osd < 0 || int(osd) >= len(m.Weights) {
		return WeightOut
	}
	return m.Weights[osd]
}

// OSDAddrs returns where clients reach an OSD, if it is up.
func (m *Map) OSDAddrs(osd int32) (denc.AddrVec, bool) {
	if !m.IsUp(osd) || int(osd) >= len(m.Addrs) {
		return nil, false
	}
	return m.Addrs[osd], true
}

// markedOut reports whether an entry asks for an OSD that was marked out. An
// entry with an impossible number asks for none.
func (m *Map) markedOut(osd int32) bool {
	return osd >= 0 && osd < m.MaxOSD && m.weight(osd) == WeightOut
}

// index fills what is derived from the encoded fields.
func (m *Map) index() {
	m.poolIDs = make(map[string]int64, len(m.PoolNames))
	for id, name := range m.PoolNames {
		m.poolIDs[name] = id
	}
}
