package osdmap

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"capstan/cephfs/crush"
	"capstan/cephfs/denc"
)

// The hashes are those that "ceph osd map" printed.
func TestHashName(t *testing.T) {
	for _, tc := range []struct {
		o    Object
		want uint32
	}{
		{Object{Name: "foo"}, 0x7fc1f406},
		{Object{Name: "foo", Namespace: "ns"}, 0xac17f0b6},
		{Object{Name: "10000000000.00000000", Namespace: "x.y"}, 0xc9fd4f71},
		{Object{Name: "bar", Namespace: "a-rather-long-namespace"}, 0x4a49797},
		{Object{Name: "other", Key: "foo"}, 0x7fc1f406},
		{Object{Name: "other", Key: "foo", Namespace: "ns"}, 0xac17f0b6},
	} {
		p := &Pool{Hash: HashRJenkins}
		if got := p.HashName(tc.o); got != tc.want {
			t.Errorf("%+v: %08x, want %08x", tc.o, got, tc.want)
		}
	}
}

// The hashes are those of osdmaptool --test-map-object in pools of so many groups
// that it shows their lower 30 bits.
func TestHashFunctions(t *testing.T) {
	for _, tc := range []struct {
		name           string
		linux, jenkins uint32
	}{
		{"a", 0x42f2, 0x29eec818},
		{"foo", 0x24db2a, 0x3fc1f406},
		{"rbd_header.1", 0x122d8df4, 0x2298becf},
		{"10000000000.00000000", 0x1d536d1d, 0x30b56f30},
		{"a-name-longer-than-twelve", 0x12f9e31d, 0x13c9fdef},
	} {
		for kind, want := range map[uint8]uint32{HashLinux: tc.linux, HashRJenkins: tc.jenkins} {
			p := &Pool{Hash: kind}
			if got := p.HashName(Object{Name: tc.name}) & (1<<30 - 1); got != want {
				t.Errorf("hash %d of %q: %x, want %x", kind, tc.name, got, want)
			}
		}
	}
	if got := hashString(0, nil); got != ^uint32(0) {
		t.Errorf("unknown hash: %x", got)
	}
}

func TestFold(t *testing.T) {
	for n := uint32(1); n < 70; n++ {
		p := &Pool{PGNum: n}
		for raw := range uint32(300) {
			got := p.FoldSeed(raw)
			if got >= n || raw < n && got != raw {
				t.Fatalf("%d of %d groups: %d", raw, n, got)
			}
		}
	}
	if p := (&Pool{PGNum: 1<<32 - 1}); p.FoldSeed(1<<32-1) != 1<<31-1 {
		t.Error("the largest pool")
	}
}

// TestIsSplit compares with what it means: objects that fold to a group before
// fold to another one afterwards.
func TestIsSplit(t *testing.T) {
	for before := uint32(1); before <= 20; before++ {
		for after := uint32(1); after <= 70; after++ {
			moved := map[uint32]bool{}
			a, b := &Pool{PGNum: before}, &Pool{PGNum: after}
			for raw := range uint32(256) {
				if from := a.FoldSeed(raw); b.FoldSeed(raw) != from {
					moved[from] = true
				}
			}
			for seed := range before + 3 {
				want := after > before && moved[seed]
				if got := (PG{1, seed}).IsSplit(before, after); got != want {
					t.Errorf("group %d of %d, now %d: split %v, want %v", seed, before, after, got, want)
				}
			}
		}
	}
}

func TestMerge(t *testing.T) {
	for _, tc := range []struct {
		seed, before, after uint32
		source, target      bool
	}{
		{3, 4, 2, true, false},
		{1, 4, 2, false, true},
		{0, 3, 2, false, true},
		{1, 3, 2, false, false},
		{1, 2, 4, false, false},
		{5, 4, 2, false, false},
	} {
		pg := PG{1, tc.seed}
		if s, g := pg.IsMergeSource(tc.before, tc.after), pg.IsMergeTarget(tc.before, tc.after); s != tc.source || g != tc.target {
			t.Errorf("%+v: source %v, target %v", tc, s, g)
		}
	}
}

func TestPGNames(t *testing.T) {
	for _, s := range []string{"1.0", "23.1f", "4.ffffffff"} {
		if pg, err := ParsePG(s); err != nil || pg.String() != s {
			t.Errorf("ParsePG(%q) = %v, %v", s, pg, err)
		}
	}
	for _, s := range []string{"", "1", "1.", "-1.0", "a.0", "1.100000000", "1.0s1"} {
		if pg, err := ParsePG(s); err == nil {
			t.Errorf("ParsePG(%q) = %v", s, pg)
		}
	}
	if s := (Shard{PG{3, 0x1f}, 2}).String(); s != "3.1fs2" {
		t.Error(s)
	}
	if s := (Shard{PG{3, 0x1f}, NoShard}).String(); s != "3.1f" {
		t.Error(s)
	}
}

// smallMap has four OSDs that hold one group of pool 1, in the order that
// PGUpmap gives.
func smallMap(kind PoolType, osds ...int32) *Map {
	m := &Map{
		Epoch: 1, MaxOSD: 4, RequireOSDRelease: ReleaseTentacle, Crush: &crush.Map{},
		Pools:   map[int64]*Pool{1: {Type: kind, Size: uint8(len(osds)), PGNum: 1, PGPNum: 1, ReadTier: -1, WriteTier: -1, TierOf: -1}},
		PGUpmap: map[PG][]int32{{1, 0}: osds},
	}
	for range 4 {
		m.States, m.Weights, m.Addrs = append(m.States, StateExists|StateUp), append(m.Weights, WeightIn), append(m.Addrs, nil)
	}
	return m
}

func place(m *Map) (p Placement) {
	m.Place(PG{1, 12345}, &p)
	return p
}

func TestPlaceGaps(t *testing.T) {
	for _, kind := range []PoolType{Replicated, Erasure} {
		m := smallMap(kind, 2, 0, 3)
		m.States[2] = StateExists
		want := []int32{0, 3}
		if kind == Erasure {
			want = []int32{crush.ItemNone, 0, 3}
		}
		p := place(m)
		if !slices.Equal(p.Up, want) || !slices.Equal(p.Acting, want) || p.UpPrimary != 0 || p.ActingPrimary != 0 {
			t.Errorf("type %d: %+v", kind, p)
		}
		if shard := p.PG.Shard; kind == Replicated && shard != NoShard || kind == Erasure && shard != 1 {
			t.Errorf("type %d: shard %d", kind, shard)
		}
		if p.PG.PG != (PG{1, 0}) {
			t.Errorf("group %s", p.PG)
		}
	}
}

// An OSD in several positions of an optimized erasure-coded group: the primary's
// shard is the first that may be primary.
func TestPrimaryShard(t *testing.T) {
	m := smallMap(Erasure, 0, 1, 2, 3)
	pool := m.Pools[1]
	pool.Flags = PoolECOptimizations
	pool.NonPrimaryShards.Add(1)
	pool.NonPrimaryShards.Add(2)
	m.PGTemp = map[PG][]int32{{1, 0}: {3, 1, 2, 3}} // of shards 0, 3, 1, 2
	m.PrimaryTemp = map[PG]int32{}
	p := place(m)
	if want := []int32{3, 2, 3, 1}; !slices.Equal(p.Acting, want) || p.ActingPrimary != 3 || p.PG.Shard != 0 {
		t.Errorf("%+v, want acting %v", p, want)
	}
	m.PGTemp[PG{1, 0}] = []int32{1, 3, 3, 2}
	m.PrimaryTemp[PG{1, 0}] = 3
	p = place(m)
	if want := []int32{1, 3, 2, 3}; !slices.Equal(p.Acting, want) || p.PG.Shard != 3 {
		t.Errorf("%+v, want acting %v and shard 3", p, want)
	}
	// Without an entry the plain order counts.
	m.PGTemp, m.PGUpmap[PG{1, 0}] = nil, []int32{0, 3, 2, 3}
	if p = place(m); p.PG.Shard != 1 {
		t.Errorf("%+v, want shard 1", p)
	}
}

func TestPlaceNowhere(t *testing.T) {
	m := smallMap(Replicated, 0)
	var p Placement
	if m.Place(PG{9, 0}, &p) || p.ActingPrimary != -1 || len(p.Acting) != 0 {
		t.Errorf("a group of no pool: %+v", p)
	}
	m.States[0] = 0
	if p = place(m); p.ActingPrimary != -1 || p.UpPrimary != -1 || len(p.Acting) != 0 {
		t.Errorf("an OSD that is not there: %+v", p)
	}
	// Numbers that no OSD has are passed over, not looked up.
	m.PGUpmap[PG{1, 0}] = []int32{-5, 1 << 30}
	m.PGTemp = map[PG][]int32{{1, 0}: {-1, 77}}
	if p = place(m); p.ActingPrimary != -1 || len(p.Acting) != 0 {
		t.Errorf("impossible OSDs: %+v", p)
	}
}

func TestTargetPool(t *testing.T) {
	m := smallMap(Replicated, 0)
	m.Pools[1].ReadTier, m.Pools[1].WriteTier = 5, 6
	for _, tc := range []struct {
		read, write bool
		want        int64
	}{{true, false, 5}, {false, true, 6}, {true, true, 6}, {false, false, 1}} {
		if got := m.TargetPool(1, tc.read, tc.write); got != tc.want {
			t.Errorf("%+v: pool %d", tc, got)
		}
	}
	if got := m.TargetPool(7, true, true); got != 7 {
		t.Errorf("no pool: %d", got)
	}
}

func TestObjectPG(t *testing.T) {
	m := smallMap(Replicated, 0)
	m.Pools[1].Hash = HashRJenkins
	if pg, ok := m.ObjectPG(Object{Pool: 1, Name: "foo"}); !ok || pg != (PG{1, 0x7fc1f406}) || m.Fold(pg) != (PG{1, 0}) {
		t.Error(pg, ok)
	}
	if pg, ok := m.ObjectPG(Object{Pool: 1, Hash: 9, HasHash: true}); !ok || pg != (PG{1, 9}) {
		t.Error(pg, ok)
	}
	if _, ok := m.ObjectPG(Object{Pool: 2}); ok {
		t.Error("a pool that is not there")
	}
}

func addr(s string) denc.Addr {
	a, err := denc.ParseAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}

func TestBlocklisted(t *testing.T) {
	when := time.Unix(1, 0)
	m := &Map{RequireOSDRelease: ReleasePacific}
	if m.Blocklisted(addr("v2:192.0.2.1:0/5")) {
		t.Error("an empty list")
	}
	m.Blocklist = map[denc.Addr]time.Time{
		{Type: denc.AddrAny, Nonce: 5, Host: netip.MustParseAddrPort("192.0.2.1:0")}: when,
		{Type: denc.AddrAny, Host: netip.MustParseAddrPort("192.0.2.9:0")}:           when,
	}
	m.RangeBlocklist = map[denc.Addr]time.Time{
		{Type: denc.AddrCIDR, Nonce: 24, Host: netip.MustParseAddrPort("198.51.100.7:0")}:  when,
		{Type: denc.AddrCIDR, Nonce: 48, Host: netip.MustParseAddrPort("[2001:db8::1]:0")}: when,
	}
	for s, want := range map[string]bool{
		"v2:192.0.2.1:0/5":         true,
		"v1:192.0.2.1:0/5":         true,
		"v2:192.0.2.1:0/6":         false,
		"v2:192.0.2.1:1/5":         false,
		"v2:192.0.2.9:4711/8":      true,
		"v2:198.51.100.200:1/2":    true,
		"v2:198.51.101.200:1/2":    false,
		"v2:[2001:db8:0:5::9]:1/2": true,
		"v2:[2001:db8:1::9]:1/2":   false,
	} {
		if got := m.Blocklisted(addr(s)); got != want {
			t.Errorf("%s: %v", s, got)
		}
		if got := m.BlocklistedAny(denc.AddrVec{{}, addr(s)}); got != want {
			t.Errorf("vector with %s: %v", s, got)
		}
	}
}

func TestFlagNames(t *testing.T) {
	if s := (FlagPauseRead | FlagPauseWrite | FlagNoAutoscale).String(); s != "pauserd,pausewr,noautoscale" {
		t.Error(s)
	}
	if s := (PoolHashPSPool | PoolECOptimizations).String(); s != "hashpspool,ec_optimizations" {
		t.Error(s)
	}
	if len(flagNames) != 24 || len(poolFlagNames) != 20 || strings.Contains(strings.Join(flagNames, ""), " ") {
		t.Error("names of flags")
	}
}
