package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// capstanWorkloads returns the sizes for a version. In CI most are small; each of the sizes that the product is
// measured by runs through one version at least when CAPSTAN_FULL is 1.
func capstanWorkloads(version string) WorkloadParams {
	p := WorkloadParams{Commits: 150, CFiles: 12, Entries: 1500, BigMB: 48, Txns: 3, Xattr: version == "4.2"}
	if fullSizes() {
		p = WorkloadParams{Xattr: version == "4.2"}
	}
	return p
}

var referenceReports struct {
	mu   sync.Mutex
	text map[string]string // workload and parameters -> report; guarded by mu
}

// referenceReport runs a workload on the guest's own disk, once for each size.
func referenceReport(ctx context.Context, g *Guest, w Workload, p WorkloadParams) (string, error) {
	referenceReports.mu.Lock()
	defer referenceReports.mu.Unlock()
	if w.Name != "rsync" {
		p.Xattr = false // only rsync looks at it
	}
	key := fmt.Sprintf("%s %+v", w.Name, p)
	if r, ok := referenceReports.text[key]; ok {
		return r, nil
	}
	r, err := g.RunWorkload(ctx, w, "/disk", p)
	if err != nil {
		return "", err
	}
	if referenceReports.text == nil {
		referenceReports.text = map[string]string{}
	}
	referenceReports.text[key] = r
	return r, nil
}

// compareWithDisk runs a workload in a directory of a guest and fails the test where its report is not that of the
// guest's own disk.
func compareWithDisk(t *testing.T, ctx context.Context, g *Guest, w Workload, p WorkloadParams, dir string) {
	t.Helper()
	for _, prog := range w.Programs {
		Require(t, NeedProgram(prog))
	}
	want, err := referenceReport(ctx, g, w, p)
	if err != nil {
		t.Fatalf("on the guest's disk: %v", err)
	}
	start := time.Now()
	got, err := g.RunWorkload(ctx, w, dir, p)
	if err != nil {
		t.Errorf("through capstan: %v", err)
	}
	t.Logf("took %.1f s", time.Since(start).Seconds())
	for _, l := range strings.Split(got, "\n") {
		if v, ok := strings.CutPrefix(l, "version: "); ok {
			Peer(t, v)
		}
	}
	if d := DiffReports(want, got); d != "" {
		t.Errorf("differs (- disk, + through capstan):\n%s", d)
	}
}

// What people do to a file system gives through capstan, byte for byte, what it gives on a local disk.
func TestWorkloadsThroughCapstan(t *testing.T) {
	gw := capstan(t)
	g := lab.Guest(t, 0)
	for _, version := range versions {
		t.Run("v"+version, func(t *testing.T) {
			at := mustMount(t, g, gw.mount(version, sharedExports["libcephfs"]))
			for _, w := range Workloads() {
				t.Run(w.Name, func(t *testing.T) {
					Peer(t, "linux-"+g.Kernel, "nfs"+version)
					ctx := longContext(t, time.Duration(sized(5, 60))*time.Minute)
					compareWithDisk(t, ctx, g, w, capstanWorkloads(version), at)
				})
			}
		})
	}
}

// The sizes that people ask about, through one version each, in CI too.
func TestLargeWorkloadsThroughCapstan(t *testing.T) {
	if fullSizes() {
		t.Skip("TestWorkloadsThroughCapstan has these sizes with CAPSTAN_FULL=1")
	}
	if os.Getenv("CAPSTAN_SHORT") == "1" {
		t.Skip("CAPSTAN_SHORT=1")
	}
	gw := capstan(t)
	g := lab.Guest(t, 0)
	for _, c := range []struct{ workload, version string }{
		{"copy", "4.2"}, // 6 GiB, sparse
		{"many", "4.1"}, // 100,000 entries
		{"git", "4.2"},  // 3000 commits
	} {
		t.Run(c.workload, func(t *testing.T) {
			at := mustMount(t, g, gw.mount(c.version, sharedExports["libcephfs"]))
			ctx := longContext(t, 20*time.Minute)
			for _, w := range Workloads() {
				if w.Name == c.workload {
					compareWithDisk(t, ctx, g, w, WorkloadParams{Xattr: c.version == "4.2"}, at)
				}
			}
		})
	}
}
