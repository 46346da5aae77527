package osdmap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"capstan/cephfs/crush"
	"capstan/cephfs/denc"
	"capstan/internal/testutil"

	"github.com/google/uuid"
)

// The recordings in testdata hold for each case of goldenCases an encoded map and
// where Ceph's osdmaptool places each of its groups. The maps are random, but
// always the same; their CRUSH maps are the recorded ones of package crush. To
// make the recordings again:
//
//	go test ./cephfs/osdmap -run TestGolden -update
//
// with the osdmaptool of the system, or of a tree with another release:
//
//	go test ./cephfs/osdmap -run TestGolden/r18 -update -tools "chroot TREE"
//
// A case whose name begins with r18 or r20 needs that release or a later one.
var (
	update = flag.Bool("update", false, "record testdata anew with Ceph's osdmaptool")
	tools  = flag.String("tools", "", "command that runs a shell where Ceph's tools are, such as \"chroot TREE\"")
)

// goldenCase is a random map.
type goldenCase struct {
	name    string
	crush   string // a recording of package crush
	release uint8
	seed    uint64
}

func goldenCases() (cases []goldenCase) {
	maps := []string{
		"straw2-1", "straw2-2", "straw2-3", "straw2-4", "straw2-5", "straw", "list", "tree", "uniform", "straw-argonaut",
		"mixed-0", "mixed-1", "mixed-2", "mixed-3", "tunables-argonaut", "tunables-bobtail", "tunables-firefly", "tunables-hammer",
		"tunables-local", "tunables-fallback", "class-hdd", "class-ssd", "class-mixed", "weight-set", "weight-set-positions",
		"weight-set-ids", "ids", "out", "odd-jewel", "odd-hammer", "odd-bobtail", "tunables-poor",
	}
	for i, m := range maps {
		if m == "odd-jewel" {
			m = "odd-firefly"
		}
		cases = append(cases, goldenCase{"r16-" + m, m, ReleasePacific, uint64(i)})
	}
	cases = append(cases, goldenCase{"r16-sizes", "straw2-2", ReleasePacific, 307})
	for i, m := range []string{"straw2-3", "mixed-1", "weight-set"} {
		cases = append(cases, goldenCase{"r18-" + m, m, ReleaseReef, uint64(100 + i)})
	}
	for i, m := range []string{"straw2-4", "mixed-0", "msr-0", "msr-1", "msr-2"} {
		cases = append(cases, goldenCase{"r20-" + m, m, ReleaseTentacle, uint64(200 + i)})
	}
	return cases
}

// randomMap makes the map of a case.
func randomMap(t testing.TB, c goldenCase) *Map {
	r := rand.New(rand.NewPCG(c.seed, 2))
	cm, err := crush.Decode(testutil.ReadGzip(t, filepath.Join("..", "crush", "testdata", c.crush+".crush.gz")))
	if err != nil {
		t.Fatal(err)
	}
	if c.name == "r16-sizes" {
		for i, rule := range cm.Rules { // not a rule for every pool
			rule.MinSize, rule.MaxSize = uint8(i), uint8(2+i)
		}
	}
	if a := cm.ChooseArgs[0]; a != nil { // for all pools, or for the first
		cm.ChooseArgs = map[int64]*crush.ChooseArgs{int64(c.seed%2)*2 - 1: a}
	}
	n := cm.MaxDevices + int32(r.IntN(3))
	m := &Map{
		FSID: uuid.MustParse("11111111-2222-3333-4444-555555555555"), Epoch: 100 + uint32(c.seed),
		Created: time.Unix(1_700_000_000, 0).UTC(), Modified: time.Unix(1_700_000_100, 5).UTC(),
		Flags: FlagSortBitwise | FlagPurgedSnapDirs, MaxOSD: n, Crush: cm, CrushVersion: 7, RequireOSDRelease: c.release,
		RequireMinCompatClient: ReleaseLuminous, FullRatio: 0.95, NearFullRatio: 0.85, BackfillFullRatio: 0.9,
		Pools: map[int64]*Pool{}, PoolNames: map[int64]string{}, PGTemp: map[PG][]int32{}, PrimaryTemp: map[PG]int32{},
		PGUpmap: map[PG][]int32{}, PGUpmapItems: map[PG][]Remap{}, PGUpmapPrimary: map[PG]int32{},
		ErasureProfiles: map[string]map[string]string{"default": {"k": "2", "m": "2"}},
		Blocklist:       map[denc.Addr]time.Time{{Type: denc.AddrAny, Nonce: 5, Host: netip.MustParseAddrPort("192.0.2.1:0")}: time.Unix(1_800_000_000, 0).UTC()},
	}
	for i := range n {
		state, weight := StateExists|StateUp, WeightIn
		switch r.IntN(16) {
		case 0:
			state = 0
		case 1, 2:
			state = StateExists
		case 3:
			weight = WeightOut
		case 4:
			weight = uint32(r.IntN(0x10000))
		}
		m.States, m.Weights = append(m.States, state), append(m.Weights, weight)
		m.Addrs = append(m.Addrs, denc.AddrVec{{Type: denc.AddrMsgr2, Nonce: uint32(i), Host: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 6800)}})
	}
	if r.IntN(2) == 0 {
		for range n {
			a := DefaultAffinity
			if r.IntN(3) == 0 {
				a = uint32(r.IntN(0x10001))
			}
			m.Affinity = append(m.Affinity, a)
		}
	}
	osd := func() int32 { return int32(r.IntN(int(n))) }
	osds := func(k uint8) (v []int32) {
		for range k {
			v = append(v, osd())
		}
		return v
	}
	for i := range int64(2 + r.IntN(3)) {
		id := 1 + i*int64(1+r.IntN(9))
		rule := r.IntN(len(cm.Rules))
		p := &Pool{
			Type: Replicated, Size: uint8(2 + r.IntN(4)), MinSize: 1, CrushRule: uint8(rule), Hash: HashRJenkins,
			PGNum: uint32(40 + r.IntN(80)), TierOf: -1, ReadTier: -1, WriteTier: -1,
			Applications: map[string]map[string]string{"rbd": {"key": "value"}}, CreateTime: time.Unix(1_700_000_050, 0).UTC(),
		}
		if t := cm.Rules[rule].Type; t == crush.RuleErasure || t == crush.RuleMSRIndep {
			p.Type, p.ErasureProfile, p.StripeWidth, p.Flags = Erasure, "default", 8192, PoolECOverwrites
			if c.release >= ReleaseTentacle && r.IntN(3) > 0 {
				p.Flags |= PoolECOptimizations
				for shard := 1; shard < int(p.Size)-1; shard++ {
					p.NonPrimaryShards.Add(shard)
				}
			}
		}
		p.PGPNum = p.PGNum
		if r.IntN(3) == 0 {
			p.PGPNum -= uint32(r.IntN(20))
		}
		p.PGNumTarget, p.PGPNumTarget, p.PGNumPending = p.PGNum, p.PGPNum, p.PGNum
		if r.IntN(4) > 0 {
			p.Flags |= PoolHashPSPool
		}
		m.Pools[id], m.PoolNames[id], m.PoolMax = p, fmt.Sprintf("pool%d", id), max(m.PoolMax, id)
		pg := func() PG { return PG{id, uint32(r.IntN(int(p.PGNum)))} }
		for range 6 {
			m.PGTemp[pg()] = osds(p.Size)
			m.PrimaryTemp[pg()] = osd()
			m.PGUpmap[pg()] = osds(p.Size)
		}
		if p.Flags&PoolECOptimizations == 0 { // there Ceph itself aborts
			m.PGTemp[pg()] = nil
		}
		for range 40 {
			var v []Remap
			for range 1 + r.IntN(6) {
				v = append(v, Remap{osd(), osd()})
			}
			m.PGUpmapItems[pg()] = v
		}
		if c.release >= ReleaseReef {
			for range 30 {
				m.PGUpmapPrimary[pg()] = osd()
			}
		}
	}
	m.index()
	return m
}

func TestGolden(t *testing.T) {
	for _, c := range goldenCases() {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join("testdata", c.name)
			if *update {
				m := randomMap(t, c).Encode(c.release)
				out := runTool(t, m, "")
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				testutil.WriteGzip(t, path+".osdmap.gz", m)
				testutil.WriteGzip(t, path+".pgs.gz", out)
			}
			m, err := Decode(testutil.ReadGzip(t, path+".osdmap.gz"))
			if err != nil {
				t.Fatal(err)
			}
			comparePGs(t, m, testutil.ReadGzip(t, path+".pgs.gz"))
		})
	}
}

// TestLiveOSDMapTool compares with the osdmaptool that is installed, on maps that
// are not recorded.
func TestLiveOSDMapTool(t *testing.T) {
	if _, err := exec.LookPath("osdmaptool"); err != nil {
		t.Skip("no osdmaptool here")
	}
	if testing.Short() {
		t.Skip("short run")
	}
	for i, c := range goldenCases() {
		if c.release != ReleasePacific || i%16 != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.seed += 1000
			b := randomMap(t, c).Encode(c.release)
			m, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			comparePGs(t, m, runTool(t, b, ""))
		})
	}
}

// toolRetry runs osdmaptool again when it hangs at its end.
const toolRetry = `osdmaptool() { for i in 1 2 3; do timeout 20 "$(type -P osdmaptool)" "$@"; r=$?; [ $r = 124 ] || return $r; done; return 124; }
`

// runTool has osdmaptool place every group of a map and keeps of its output one
// line for each.
func runTool(t *testing.T, m []byte, args string) []byte {
	script := toolRetry + "set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; cd $d; base64 -d | gzip -d >map; osdmaptool map " + args + " --test-map-pgs-dump-all >out 2>err || { cat err >&2; exit 1; }; cat out"
	argv := append(strings.Fields(*tools), "bash", "-c", script)
	cmd := exec.Command(argv[0], argv[1:]...)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(m)
	_ = w.Close()
	cmd.Stdin = strings.NewReader(base64.StdEncoding.EncodeToString(z.Bytes()))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 124 && !*update {
		t.Skip("osdmaptool hangs on this machine")
	}
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, stderr.Bytes())
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(raw)) {
		if f := pgLine.FindStringSubmatch(line); f != nil {
			fmt.Fprintln(&out, strings.ReplaceAll(strings.Join(f[1:], " "), strconv.Itoa(int(crush.ItemNone)), "-"))
		}
	}
	if out.Len() == 0 {
		t.Fatalf("osdmaptool printed no group:\n%.1000s", raw)
	}
	return out.Bytes()
}

// pgLine picks from osdmaptool's line the group, up, its primary, acting, and its
// primary.
var pgLine = regexp.MustCompile(`^(\S+) raw \(.*\) up \((\[.*\]), p(-?\d+)\) acting \((\[.*\]), p(-?\d+)\)`)

// comparePGs places every group of m and compares with the lines of runTool.
func comparePGs(t *testing.T, m *Map, recorded []byte) {
	want := map[string]string{}
	for line := range strings.Lines(string(recorded)) {
		pg, _, _ := strings.Cut(line, " ")
		want[pg] = strings.TrimSuffix(line, "\n")
	}
	bad, n := 0, 0
	var p Placement
	for id, pool := range m.Pools {
		for seed := range pool.PGNum {
			pg := PG{id, seed}
			m.Place(pg, &p)
			got := fmt.Sprintf("%s %s %d %s %d", pg, format(p.Up), p.UpPrimary, format(p.Acting), p.ActingPrimary)
			n++
			if w := want[pg.String()]; got != w {
				if bad++; bad < 6 {
					t.Errorf("got  %s\nwant %s", got, w)
				}
			}
			if pool.IsErasure() && p.ActingPrimary >= 0 && p.PG.Shard >= 0 && p.Acting[p.PG.Shard] != p.ActingPrimary {
				t.Errorf("%s: shard %d is not of the primary", got, p.PG.Shard)
			}
		}
	}
	if n != len(want) || bad > 5 {
		t.Errorf("%d groups, %d recorded, %d differ", n, len(want), bad)
	}
}

func format(osds []int32) string {
	s := make([]string, len(osds))
	for i, osd := range osds {
		s[i] = strconv.Itoa(int(osd))
		if osd == crush.ItemNone {
			s[i] = "-"
		}
	}
	return "[" + strings.Join(s, ",") + "]"
}
