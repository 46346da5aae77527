package osdmap

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"capstan/cephfs/crush"
	"capstan/cephfs/denc"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestEncodeRoundTrip(t *testing.T) {
	for i, c := range goldenCases() {
		if i%6 != 0 && c.release < ReleaseTentacle {
			continue
		}
		m := randomMap(t, c)
		for _, p := range m.Pools {
			p.Snaps = []PoolSnap{{ID: 3, Stamp: time.Unix(9, 8).UTC(), Name: "s"}}
			p.RemovedSnaps = []SnapRange{{1, 2}}
			p.Tiers, p.QuotaMaxBytes, p.FastRead = []uint64{4}, 5, true
			p.Properties = map[string]string{"a": "b"}
			if c.release >= ReleaseTentacle {
				p.PeeringCrushBucketCount, p.PeeringCrushMandatory = 2, -3
			}
		}
		m.RangeBlocklist = map[denc.Addr]time.Time{{Type: denc.AddrCIDR, Nonce: 24, Host: addr("198.51.100.0").Host}: time.Unix(7, 0).UTC()}
		m.NewRemovedSnaps = map[int64][]SnapRange{1: {{5, 6}}}
		m.Flags |= FlagRecoveryDeletes | FlagPGLogHardLimit
		got, err := Decode(m.Encode(c.release))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(m, got, sameMap); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestIncrementalRoundTrip(t *testing.T) {
	m := randomMap(t, goldenCases()[0])
	inc := NewIncremental(m.FSID, m.Epoch+1)
	inc.NewPools, inc.OldPools = m.Pools, []int64{77}
	inc.NewPGTemp, inc.NewPGUpmapItems, inc.OldPGUpmap = m.PGTemp, m.PGUpmapItems, []PG{{1, 2}}
	inc.NewPGUpmapPrimary, inc.OldPGUpmapPrimary = map[PG]int32{{1, 1}: 3}, []PG{{1, 3}}
	inc.NewCrush, inc.NewFlags, inc.FullCRC = m.Crush, 5, 0x1234
	inc.NewUp = map[int32]denc.AddrVec{2: {addr("v2:192.0.2.5:1/2")}}
	inc.NewRangeBlocklist = map[denc.Addr]time.Time{{Type: denc.AddrCIDR, Nonce: 24, Host: addr("198.51.100.0").Host}: time.Unix(7, 0).UTC()}
	inc.Full = m
	got, err := DecodeIncremental(inc.Encode(ReleaseReef))
	if err != nil {
		t.Fatal(err)
	}
	m.Flags |= FlagRecoveryDeletes | FlagPGLogHardLimit
	if diff := cmp.Diff(inc, got, sameMap); diff != "" {
		t.Error(diff)
	}
}

// TestDecodeRefuses damages every byte and cuts at every length: nothing that
// the checksum covers goes unnoticed.
func TestDecodeRefuses(t *testing.T) {
	m := smallMap(Replicated, 0, 1)
	m.Crush = &crush.Map{}
	full := m.Encode(ReleasePacific)
	inc := NewIncremental(uuid.Nil, 2).Encode(ReleasePacific)
	for name, tc := range map[string]struct {
		b      []byte
		decode func([]byte) error
	}{
		"full":        {full, func(b []byte) error { _, err := Decode(b); return err }},
		"incremental": {inc, func(b []byte) error { _, err := DecodeIncremental(b); return err }},
	} {
		if err := tc.decode(tc.b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range tc.b {
			bad := append([]byte{}, tc.b...)
			bad[i] ^= 0x10
			err := tc.decode(bad)
			var e *denc.Error
			if !errors.As(err, &e) {
				t.Errorf("%s: byte %d damaged: %v", name, i, err)
			}
			if err := tc.decode(tc.b[:i]); !errors.As(err, &e) {
				t.Errorf("%s: cut at %d: %v", name, i, err)
			}
		}
		bad := append([]byte{}, tc.b...)
		bad[12] ^= 1 // of the fsid
		if err := tc.decode(bad); !errors.Is(err, ErrChecksum) {
			t.Errorf("%s: %v, want a wrong checksum", name, err)
		}
	}
}

func TestDecodeOldIsRefused(t *testing.T) {
	b := smallMap(Replicated, 0).Encode(ReleasePacific)
	b[6] = 7 // the client section as of release 13
	if _, err := Decode(b); !errors.Is(err, denc.ErrVersion) || !strings.Contains(err.Error(), "osdmap.client.version") {
		t.Error(err)
	}
}

func TestApplyRefuses(t *testing.T) {
	m := smallMap(Replicated, 0)
	for _, tc := range []struct {
		inc  func(*Incremental)
		want error
	}{
		{func(i *Incremental) { i.Epoch = 3 }, ErrEpoch},
		{func(i *Incremental) { i.Epoch = 1 }, ErrEpoch},
		{func(i *Incremental) { i.FSID[0] = 1 }, ErrCluster},
		{func(i *Incremental) { i.NewWeight = map[int32]uint32{4: 0} }, ErrBounds},
		{func(i *Incremental) { i.NewState = map[int32]State{-1: 0} }, ErrBounds},
		{func(i *Incremental) { i.NewUp = map[int32]denc.AddrVec{9: nil} }, ErrBounds},
		{func(i *Incremental) { i.NewAffinity = map[int32]uint32{4: 0} }, ErrBounds},
		{func(i *Incremental) { i.Full = &Map{Epoch: 9} }, ErrEpoch},
	} {
		inc := NewIncremental(m.FSID, 2)
		tc.inc(inc)
		if n, err := m.Apply(inc); !errors.Is(err, tc.want) || n != nil {
			t.Errorf("%v, want %v", err, tc.want)
		}
	}
	inc := NewIncremental(m.FSID, 2)
	inc.Full = &Map{Epoch: 2}
	if n, err := m.Apply(inc); err != nil || n != inc.Full {
		t.Errorf("a full map: %v", err)
	}
}

// addSeeds adds the recorded maps to the corpus.
func addSeeds(f *testing.F, full bool) {
	files, _ := filepath.Glob("testdata/epochs-*.tar.gz")
	for _, path := range files {
		e := readEpochs(f, path)
		for n := uint32(1); n <= e.last; n += 5 {
			if full && n%20 == 1 {
				f.Add(e.full[n])
			} else if !full {
				f.Add(e.inc[n])
			}
		}
	}
}

// reseal gives a damaged map a right checksum, so that what is behind it is
// reached. tail is the number of bytes behind the checksum.
func reseal(b []byte, tail int) []byte {
	at := len(b) - tail - 4
	if at < 6 {
		return b
	}
	b = append([]byte{}, b...)
	c := checksum(b[:at], b[at+4:])
	b[at], b[at+1], b[at+2], b[at+3] = byte(c), byte(c>>8), byte(c>>16), byte(c>>24)
	return b
}

func FuzzFull(f *testing.F) {
	addSeeds(f, true)
	f.Add(smallMap(Erasure, 1, 2).Encode(ReleaseTentacle))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(reseal(b, 0))
		if err != nil {
			var e *denc.Error
			if !errors.As(err, &e) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		var p Placement
		for id := range m.Pools {
			m.Place(PG{id, 77}, &p)
		}
		m.Blocklisted(addr("v2:192.0.2.1:0/5"))
		if _, err := Decode(m.Encode(ReleaseTentacle)); err != nil {
			t.Fatalf("does not decode what it encoded: %v", err)
		}
	})
}

func FuzzIncremental(f *testing.F) {
	addSeeds(f, false)
	base := smallMap(Replicated, 0, 1)
	f.Fuzz(func(t *testing.T, b []byte) {
		inc, err := DecodeIncremental(reseal(b, 4))
		if err != nil {
			var e *denc.Error
			if !errors.As(err, &e) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		inc.FSID, inc.Epoch = base.FSID, base.Epoch+1
		m, err := base.Apply(inc)
		if err != nil {
			return
		}
		var p Placement
		for id := range m.Pools {
			m.Place(PG{id, 77}, &p)
		}
	})
}

// What the recorded clusters did not do.
func TestApplyPlacement(t *testing.T) {
	m := smallMap(Replicated, 0, 1, 2)
	inc := NewIncremental(m.FSID, 2)
	pg := PG{1, 0}
	inc.NewPGUpmapPrimary = map[PG]int32{pg: 2}
	inc.NewPGUpmapItems = map[PG][]Remap{pg: {{1, 3}}}
	n, err := m.Apply(inc)
	if err != nil {
		t.Fatal(err)
	}
	if p := place(n); !slices.Equal(p.Up, []int32{2, 3, 0}) || p.UpPrimary != 2 {
		t.Errorf("%+v", p)
	}
	inc = NewIncremental(m.FSID, 3)
	inc.OldPGUpmapPrimary, inc.OldPGUpmapItems, inc.OldPGUpmap = []PG{pg}, []PG{pg}, []PG{pg}
	inc.NewPGTemp = map[PG][]int32{pg: {3, 1}}
	inc.NewPrimaryTemp = map[PG]int32{pg: 1}
	inc.NewAffinity = map[int32]uint32{0: 0}
	if n, err = n.Apply(inc); err != nil {
		t.Fatal(err)
	}
	if p := place(n); len(p.Up) != 0 || !slices.Equal(p.Acting, []int32{3, 1}) || p.ActingPrimary != 1 {
		t.Errorf("%+v", p)
	}
	if want := []uint32{0, DefaultAffinity, DefaultAffinity, DefaultAffinity}; !slices.Equal(n.Affinity, want) {
		t.Errorf("affinity %x", n.Affinity)
	}
	inc = NewIncremental(m.FSID, 4)
	inc.NewPGTemp, inc.NewPrimaryTemp = map[PG][]int32{pg: {}}, map[PG]int32{pg: -1}
	inc.NewState = map[int32]State{0: StateExists, 1: 0, 2: StateNoIn}
	inc.NewMaxOSD = 6
	if n, err = n.Apply(inc); err != nil {
		t.Fatal(err)
	}
	if len(n.PGTemp) != 0 || len(n.PrimaryTemp) != 0 || n.Exists(0) || n.IsUp(1) || !n.Exists(1) || n.States[2]&StateNoIn == 0 || n.Exists(5) {
		t.Errorf("%+v", n)
	}
	if n.Affinity[0] != DefaultAffinity || len(n.Affinity) != 6 || n.IsIn(5) || !n.IsIn(1) {
		t.Errorf("affinity %x, weights %x", n.Affinity, n.Weights)
	}
	if len(m.PGTemp) != 0 || m.Affinity != nil || m.Epoch != 1 || len(m.PGUpmap) != 1 || !m.IsUp(1) {
		t.Errorf("the first map changed: %+v", m)
	}
}
