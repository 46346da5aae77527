package integration

import (
	"testing"
	"time"
)

// capstanWorkloads returns the sizes for a version: small ones, or with CAPSTAN_FULL=1 those that the product is
// measured by (6 GiB, 100,000 entries, 3000 commits).
func capstanWorkloads(version string) WorkloadParams {
	p := WorkloadParams{Xattr: version == "4.2"}
	if !fullSizes() {
		p.Commits, p.CFiles, p.Entries, p.BigMB, p.Txns = 100, 8, 600, 32, 3
	}
	return p
}

// notInCI are workloads that run with CAPSTAN_FULL=1 only, for time; they run on 4.2 always.
var notInCI = map[string]bool{"3 make": true, "3 many": true, "4.1 make": true, "4.1 many": true}

// libcephfsFails are workloads that libcephfs gets wrong by itself: its limits, by the names they have in
// docs/engines.md. They run on the kernel's client of CephFS.
var libcephfsFails = map[string]string{"edges": "hidden-links, future-times"}

// What people do to a file system gives through capstan, byte for byte, what it gives on a local disk.
func TestWorkloadsThroughCapstan(t *testing.T) {
	gw := capstan(t)
	g := lab.Guest(t, 0)
	for _, version := range versions {
		t.Run("v"+version, func(t *testing.T) {
			at := mustMount(t, g, gw.mount(version, sharedExports["libcephfs"]))
			for _, w := range Workloads() {
				if why := libcephfsFails[w.Name]; why != "" {
					t.Logf("%s fails on libcephfs: %s", w.Name, why)
					continue
				}
				if notInCI[version+" "+w.Name] && !fullSizes() {
					t.Logf("%s is left to CAPSTAN_FULL=1", w.Name)
					continue
				}
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
