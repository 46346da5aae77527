package integration

import (
	"os"
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
					p := capstanWorkloads(version)
					CheckWorkload(ctx, t, w, p, lab.Reference(ctx, t, w, p), g, at)
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
					p := WorkloadParams{Xattr: c.version == "4.2"}
					CheckWorkload(ctx, t, w, p, lab.Reference(ctx, t, w, p), g, at)
				}
			}
		})
	}
}
