package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkObjectsAgainstLibrados runs osdbench on a cluster of three OSDs in memory. CAPSTAN_BENCH_INTO names the file
// its table goes to.
func BenchmarkObjectsAgainstLibrados(b *testing.B) {
	Require(b, NeedRoot, NeedCeph)
	if !slices.Contains(buildTags(), "librados") {
		b.Skip("built without the tag librados: nothing to compare with")
	}
	ctx := longContext(b, 40*time.Minute)
	c, err := StartCluster(ctx, TempDir(b), ClusterOptions{OSDs: 3})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	}()
	if _, err := c.Ceph(ctx, "osd", "pool", "create", "bench", "32"); err != nil {
		b.Fatal(err)
	}
	bin, err := buildGo(ctx, "osdbench", "capstan/integration/osdbench", []string{"CGO_ENABLED=1"}, "-tags", strings.Join(buildTags(), ","))
	if err != nil {
		b.Fatal(err)
	}
	argv := []string{bin, "-conf", c.ConfPath(), "-pool", "bench"}
	if into := os.Getenv("CAPSTAN_BENCH_INTO"); into != "" {
		abs, err := filepath.Abs(into)
		if err != nil {
			b.Fatal(err)
		}
		argv = append(argv, "-into", abs)
	}
	for b.Loop() {
		if _, err := runCommand(ctx, procSpec{argv: argv, stdout: os.Stdout, stderr: os.Stderr}); err != nil {
			b.Fatal(err)
		}
	}
}
