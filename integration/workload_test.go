package integration

import (
	"context"
	"os"
	"testing"
	"time"
)

// workloadParams are the small sizes, or the whole ones if CAPSTAN_WORKLOADS=full.
func workloadParams() WorkloadParams {
	if os.Getenv("CAPSTAN_WORKLOADS") == "full" {
		return WorkloadParams{}
	}
	return SmallWorkloads
}

// The workloads report the same on a local file system and on CephFS: they can tell a fault from a difference that
// POSIX allows.
func TestWorkloadsLocalAndCeph(t *testing.T) {
	c := lab.Cluster(t)
	g := lab.Guest(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	at := MountCeph(t, g, CephMount{Cluster: c})
	for _, w := range Workloads() {
		t.Run(w.Name, func(t *testing.T) {
			p := workloadParams()
			p.Xattr = true
			CompareWorkload(t, ctx, w, p, g, "/disk", g, at)
		})
	}
}

func TestDiffReports(t *testing.T) {
	for _, c := range []struct{ want, got, diff string }{
		{"a\nb\n", "a\nb\n", ""},
		{"s: exit 0\n  x\n  y\nt: exit 0\n", "s: exit 0\n  x\n  z\nt: exit 0\n", "@ s: exit 0\n-   y\n+   z\n"},
		{"s: exit 0\n  x\nt: exit 0\n", "s: exit 0\nt: exit 1\n", "@ s: exit 0\n-   x\n- t: exit 0\n+ t: exit 1\n"},
		{"", "a\n", "@ \n+ a\n"},
	} {
		if d := DiffReports(c.want, c.got); d != c.diff {
			t.Errorf("DiffReports(%q, %q) = %q, want %q", c.want, c.got, d, c.diff)
		}
	}
}
