package osdmap

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"capstan/cephfs/crush"
	"capstan/internal/testutil"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// epochs are the maps of a cluster's whole life, as its monitor stored them
// (testdata/record-epochs.sh).
type epochs struct {
	full, inc map[uint32][]byte
	last      uint32
}

func readEpochs(t testing.TB, path string) epochs {
	e := epochs{full: map[uint32][]byte{}, inc: map[uint32][]byte{}}
	r := tar.NewReader(bytes.NewReader(testutil.ReadGzip(t, path)))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return e
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, number, ok := strings.Cut(filepath.Base(h.Name), ".")
		n, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			continue // the directory
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if kind == "full" {
			e.full[uint32(n)] = b
		} else {
			e.inc[uint32(n)] = b
		}
		e.last = max(e.last, uint32(n))
	}
}

// sameMap compares maps; those of nil and empty are the same, and CRUSH maps are
// if they encode alike.
var sameMap = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreUnexported(Map{}),
	cmp.Comparer(func(a, b *crush.Map) bool { return a == b || bytes.Equal(a.Encode(true), b.Encode(true)) }),
}

// TestEpochs follows clusters of each release by increments, and compares every
// map that comes out with the full map that the monitor made of the same epoch.
func TestEpochs(t *testing.T) {
	files, err := filepath.Glob("testdata/epochs-*.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".tar.gz"), func(t *testing.T) {
			e := readEpochs(t, path)
			m, err := Decode(e.full[1])
			if err != nil {
				t.Fatal(err)
			}
			encoded := m.Encode(ReleaseTentacle)
			seen := map[string]bool{}
			for n := uint32(2); n <= e.last; n++ {
				inc, err := DecodeIncremental(e.inc[n])
				if err != nil {
					t.Fatalf("increment %d: %v", n, err)
				}
				want, err := Decode(e.full[n])
				if err != nil {
					t.Fatalf("full map %d: %v", n, err)
				}
				note(seen, inc)
				next, err := m.Apply(inc)
				if err != nil {
					t.Fatalf("increment %d: %v", n, err)
				}
				if !bytes.Equal(encoded, m.Encode(ReleaseTentacle)) {
					t.Fatalf("increment %d changed the map before it", n)
				}
				if encoded = next.Encode(ReleaseTentacle); !bytes.Equal(encoded, want.Encode(ReleaseTentacle)) {
					t.Fatalf("epoch %d:\n%s", n, cmp.Diff(want, next, sameMap))
				}
				if !maps.Equal(want.poolIDs, next.poolIDs) {
					t.Fatalf("epoch %d: names of pools: %v, want %v", n, next.poolIDs, want.poolIDs)
				}
				if full := le32(e.full[n][len(e.full[n])-4:]); inc.FullCRC != full {
					t.Errorf("epoch %d: the increment says %08x for the full map, which has %08x", n, inc.FullCRC, full)
				}
				m = next
			}
			for _, what := range strings.Fields("crush new-pool old-pool up state weight affinity pg-temp no-pg-temp primary-temp upmap no-upmap upmap-items no-upmap-items flags max-osd full-ratio blocklist no-blocklist profile no-profile") {
				if !seen[what] {
					t.Errorf("no increment has %s", what)
				}
			}
			if m.RequireOSDRelease >= ReleaseReef && (!seen["range-blocklist"] || !seen["no-range-blocklist"] || !seen["removed-snaps"]) {
				t.Error("no increment has a range of the blocklist, or removed snapshots")
			}
			if m.RequireOSDRelease == ReleaseReef && (!seen["upmap-primary"] || !seen["no-upmap-primary"]) {
				t.Error("no increment has a primary of upmap")
			}
		})
	}
}

// note marks what an increment changes.
func note(seen map[string]bool, inc *Incremental) {
	for what, is := range map[string]bool{
		"crush": inc.NewCrush != nil, "new-pool": len(inc.NewPools) > 0, "old-pool": len(inc.OldPools) > 0, "up": len(inc.NewUp) > 0,
		"state": len(inc.NewState) > 0, "weight": len(inc.NewWeight) > 0, "affinity": len(inc.NewAffinity) > 0,
		"primary-temp": len(inc.NewPrimaryTemp) > 0, "upmap": len(inc.NewPGUpmap) > 0, "no-upmap": len(inc.OldPGUpmap) > 0,
		"upmap-items": len(inc.NewPGUpmapItems) > 0, "no-upmap-items": len(inc.OldPGUpmapItems) > 0,
		"upmap-primary": len(inc.NewPGUpmapPrimary) > 0, "no-upmap-primary": len(inc.OldPGUpmapPrimary) > 0,
		"flags": inc.NewFlags >= 0, "max-osd": inc.NewMaxOSD >= 0, "full-ratio": inc.NewFullRatio >= 0,
		"blocklist": len(inc.NewBlocklist) > 0, "no-blocklist": len(inc.OldBlocklist) > 0,
		"range-blocklist": len(inc.NewRangeBlocklist) > 0, "no-range-blocklist": len(inc.OldRangeBlocklist) > 0,
		"removed-snaps": len(inc.NewRemovedSnaps) > 0, "profile": len(inc.NewErasureProfiles) > 0, "no-profile": len(inc.OldErasureProfiles) > 0,
	} {
		seen[what] = seen[what] || is
	}
	for _, osds := range inc.NewPGTemp {
		seen["pg-temp"] = seen["pg-temp"] || len(osds) > 0
		seen["no-pg-temp"] = seen["no-pg-temp"] || len(osds) == 0
	}
}
