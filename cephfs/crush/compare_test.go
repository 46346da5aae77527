package crush

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// libcrush is where Ceph's packages have the C functions.
const libcrush = "/usr/lib/x86_64-linux-gnu/ceph/libceph-common.so.2"

// tree is the map that testdata/libcrush.c builds with the same arguments.
func tree(racks, hosts, disks int) (m *Map, weights []uint32) {
	m = &Map{Tunables: Tunables{ChooseTotalTries: 50, ChooseLeafDescendOnce: 1, ChooseLeafVaryR: 1, ChooseLeafStable: 1}}
	bucket := func(kind uint16, items []int32, weight int) int32 {
		id := int32(-1 - len(m.Buckets))
		m.Buckets = append(m.Buckets, &Bucket{ID: id, Type: kind, Alg: Straw2, Items: items, ItemWeights: slices.Repeat([]uint32{uint32(weight)}, len(items))})
		return id
	}
	var rackIDs []int32
	for range racks {
		var hostIDs []int32
		for range hosts {
			var devices []int32
			for range disks {
				devices = append(devices, m.MaxDevices)
				m.MaxDevices++
			}
			hostIDs = append(hostIDs, bucket(1, devices, 0x10000))
		}
		rackIDs = append(rackIDs, bucket(2, hostIDs, disks<<16))
	}
	root := bucket(3, rackIDs, hosts*disks<<16)
	m.Rules = []*Rule{{Type: RuleReplicated, Steps: []Step{{OpTake, root, 0}, {OpChooseLeafFirstN, 0, 1}, {OpEmit, 0, 0}}}}
	weights = allIn(int(m.MaxDevices))
	for i := 0; i < len(weights); i += 9 {
		weights[i] = 0x8000
	}
	return m, weights
}

// BenchmarkAgainstC maps the same inputs with this package and with Ceph's C
// library, in turns, and compares results and CPU time.
func BenchmarkAgainstC(b *testing.B) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		b.Skip("no C compiler here")
	}
	if _, err := os.Stat(libcrush); err != nil {
		b.Skip("no libceph-common here")
	}
	bin := filepath.Join(b.TempDir(), "libcrush")
	cmd := exec.Command(cc, "-O2", "-o", bin, "testdata/libcrush.c", libcrush, "-Wl,-rpath,"+filepath.Dir(libcrush), "-Wl,--allow-shlib-undefined")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	cpu := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	for _, shape := range [][4]int{{5, 10, 20, 3}, {2, 4, 6, 3}, {20, 20, 10, 6}} {
		b.Run(fmt.Sprintf("racks-%d-hosts-%d-disks-%d-size-%d", shape[0], shape[1], shape[2], shape[3]), func(b *testing.B) {
			m, weights := tree(shape[0], shape[1], shape[2])
			const count = 20_000
			var w Work
			var ours, theirs, ratios []float64
			for x := uint32(0); b.Loop(); x++ {
				m.Do(&w, 0, x, shape[3], weights, nil)
			}
			for round := range 5 {
				from := round * count
				var nsC float64
				var sumC, sum uint32
				out, err := exec.Command(bin, fmt.Sprint(shape[0]), fmt.Sprint(shape[1]), fmt.Sprint(shape[2]), fmt.Sprint(shape[3]), fmt.Sprint(from), fmt.Sprint(count)).Output()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := fmt.Sscan(string(out), &nsC, &sumC); err != nil {
					b.Fatal(err)
				}
				start := cpu()
				for x := range uint32(count) {
					for _, device := range m.Do(&w, 0, uint32(from)+x, shape[3], weights, nil) {
						sum = sum*31 + uint32(device)
					}
				}
				ns := float64(cpu()-start) / count
				if sum != sumC {
					b.Fatalf("other devices: checksum %d, C has %d", sum, sumC)
				}
				ours, theirs, ratios = append(ours, ns), append(theirs, nsC), append(ratios, ns/nsC)
			}
			for _, v := range [][]float64{ours, theirs, ratios} {
				slices.Sort(v)
			}
			b.ReportMetric(ours[2], "go-ns/mapping")
			b.ReportMetric(theirs[2], "c-ns/mapping")
			b.ReportMetric(ratios[2], "go/c")
		})
	}
}
