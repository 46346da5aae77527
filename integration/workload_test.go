package integration

import (
	"context"
	"os"
	"testing"
	"time"
)

// The workloads report the same on a local file system and on CephFS: they can tell a fault from a difference that
// POSIX allows. CAPSTAN_WORKLOADS chooses them: "some" (the default), "all", or "full" for all in full size.
func TestWorkloadsOnCeph(t *testing.T) {
	choice := os.Getenv("CAPSTAN_WORKLOADS")
	p := SmallWorkloads
	if choice == "full" {
		p = WorkloadParams{}
	}
	p.Xattr = true
	c := lab.Cluster(t)
	g := lab.Guest(t, 0)
	limit := 5 * time.Minute
	if choice == "full" {
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	at := MountCeph(t, g, CephMount{Cluster: c})
	for _, w := range Workloads() {
		some := choice == "" && (w.Name == "edges" || w.Name == "posix" || w.Name == "tar")
		if !some && choice != "all" && choice != "full" && choice != w.Name {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			CheckWorkload(ctx, t, w, p, lab.Reference(ctx, t, w, p), g, at)
		})
	}
}

func TestDiffReports(t *testing.T) {
	for _, c := range []struct{ want, got, diff string }{
		{"a\nb\n", "a\nb\n", ""},
		{"s: exit 0\n  x\n  y\nt: exit 0\n", "s: exit 0\n  x\n  z\nt: exit 0\n", "@ s: exit 0\n-   y\n+   z\n"},
		{"s: exit 0\n  x\nt: exit 0\n", "s: exit 0\nt: exit 1\n", "@ s: exit 0\n-   x\n- t: exit 0\n+ t: exit 1\n"},
		{"", "a\n", "+ a\n"},
	} {
		if d := DiffReports(c.want, c.got); d != c.diff {
			t.Errorf("DiffReports(%q, %q) = %q, want %q", c.want, c.got, d, c.diff)
		}
	}
}
