package osdmap

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capstan/cephfs/crush"
	"capstan/internal/testutil"
)

// TestLiveCluster compares with a running cluster: every group of its map with
// osdmaptool, and objects of its pools with "ceph osd map". The cluster's
// ceph.conf is named by CAPSTAN_TEST_CEPH_CONF.
func TestLiveCluster(t *testing.T) {
	conf := os.Getenv("CAPSTAN_TEST_CEPH_CONF")
	if conf == "" {
		t.Skip("CAPSTAN_TEST_CEPH_CONF is not set")
	}
	ceph := func(stdin string, args ...string) []byte {
		cmd := exec.Command("timeout", append([]string{"60", "ceph", "-c", conf}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("ceph %s: %v", strings.Join(args, " "), err)
		}
		return out
	}
	getMap := func(epoch ...string) ([]byte, *Map) {
		file := filepath.Join(t.TempDir(), "map")
		ceph("", append([]string{"osd", "getmap", "-o", file}, epoch...)...)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		return b, m
	}
	b, m := getMap()
	comparePGs(t, m, runTool(t, b, ""))

	var batch strings.Builder
	var objects []Object
	for id, name := range m.PoolNames {
		for range 8 {
			o := Object{Pool: id, Name: fmt.Sprintf("%x.%08x", rand.Uint64(), rand.Uint32())}
			if rand.IntN(2) == 0 {
				o.Namespace = fmt.Sprintf("ns-%d", rand.IntN(100))
			}
			objects = append(objects, o)
			fmt.Fprintf(&batch, "osd map %s %s %s\n", name, o.Name, o.Namespace)
		}
	}
	dec := json.NewDecoder(strings.NewReader(string(ceph(batch.String(), "--format", "json"))))
	var p Placement
	for _, o := range objects {
		var want struct {
			Epoch         uint32  `json:"epoch"`
			RawPG         string  `json:"raw_pgid"`
			PG            string  `json:"pgid"`
			Up            []int32 `json:"up"`
			UpPrimary     int32   `json:"up_primary"`
			Acting        []int32 `json:"acting"`
			ActingPrimary int32   `json:"acting_primary"`
		}
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if want.Epoch != m.Epoch { // it changed meanwhile
			_, m = getMap(fmt.Sprint(want.Epoch))
		}
		raw, _ := m.ObjectPG(o)
		m.Place(raw, &p)
		if raw.String() != want.RawPG || p.PG.PG.String() != want.PG || !slices.Equal(p.Up, want.Up) || !slices.Equal(p.Acting, want.Acting) ||
			p.UpPrimary != want.UpPrimary || p.ActingPrimary != want.ActingPrimary {
			t.Errorf("%+v: %s %+v, want %+v", o, raw, p, want)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	m, err := Decode(testutil.ReadGzip(b, "testdata/r16-straw2-5.osdmap.gz"))
	if err != nil {
		b.Fatal(err)
	}
	var pool int64
	for id, p := range m.Pools {
		if p.Size >= m.Pools[max(pool, id)].Size {
			pool = id
		}
	}
	o := Object{Pool: pool, Name: "10000000000.00000000", Namespace: "ns"}
	var p Placement
	b.ReportAllocs()
	for b.Loop() {
		pg, _ := m.ObjectPG(o)
		m.Place(pg, &p)
	}
}

func BenchmarkApply(b *testing.B) {
	e := readEpochs(b, "testdata/epochs-16.tar.gz")
	m, err := Decode(e.full[e.last-1])
	if err != nil {
		b.Fatal(err)
	}
	inc, err := DecodeIncremental(e.inc[e.last])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Apply(inc); err != nil {
			b.Fatal(err)
		}
	}
}

func Example() {
	// A map as it comes from a monitor.
	m, err := Decode(exampleMap())
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, _ := m.PoolID("data")
	pg, _ := m.ObjectPG(Object{Pool: pool, Name: "10000000000.00000000"})

	var at Placement
	m.Place(pg, &at)
	fmt.Println(pg, "is", at.PG, "on", at.Acting)

	// OSD 1 goes down, and the next epoch says so.
	inc := NewIncremental(m.FSID, m.Epoch+1)
	inc.NewState = map[int32]State{1: StateUp}
	next, err := m.Apply(inc)
	if err != nil {
		fmt.Println(err)
		return
	}
	next.Place(pg, &at)
	fmt.Println("epoch", next.Epoch, "on", at.Acting)
	// Output:
	// 1.f0b56f30 is 1.0 on [1 2 0]
	// epoch 2 on [2 0]
}

func exampleMap() []byte {
	m := smallMap(Replicated, 1, 2, 0)
	m.PoolNames = map[int64]string{1: "data"}
	m.Pools[1].Hash = HashRJenkins
	m.Crush = &crush.Map{}
	return m.Encode(ReleaseTentacle)
}
