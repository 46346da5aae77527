package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"capstan/export/exporttest"
)

// suiteProgram builds the behaviour suite as a program for guests, once.
var suiteProgram = sync.OnceValues(func() (string, error) {
	dir, err := Scratch("suite")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kernelsuite")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	_, err = runCommand(ctx, procSpec{
		argv: []string{"go", "test", "-c", "-o", path, "capstan/integration/internal/kernelsuite"}, env: []string{"CGO_ENABLED=0"},
	})
	return path, err
})

// suiteKnown are the rows that cannot hold through a kernel client, with the reason; by version and by engine, "" for
// all.
var suiteKnown = map[string]map[string]string{
	"": {
		"Link/New":                   sillyRename,
		"Remove/OpenFileStaysUsable": sillyRename,
		"Rename/ReplacesOpenFile":    sillyRename,
		"Rename/SaveOver":            sillyRename,
		"Allocate/Extends":           keepSize,
		"Allocate/KeepsData":         keepSize,
	},
	"3": merge(without42, map[string]string{
		"SetAttr/TimesBefore1970": "times of version 3 begin in 1970",
	}),
	"4.1": without42,
	"libcephfs": {
		"Seek/Shapes":             "no-seek, a limit of the engine",
		"Seek/Data":               "no-seek, a limit of the engine",
		"Seek/TrailingHole":       "no-seek, a limit of the engine",
		"SetAttr/TimesBefore1970": "times-1970, a limit of the engine",
		"Deallocate/FreesSpace":   "used-is-size, a limit of the engine",
		"Link/Symlink":            "no-link-links, a limit of the engine",
		"Write/LargeOffsets":      "used-is-size, a limit of the engine",
		"Write/LastByte":          "the file system's max_file_size, which the suite's directory does not know",
		"Xattr/SetAndGet":         "empty-xattr, a limit of the engine",
	},
}

// keepSize: the suite's directory reserves space before it moves the size; see TestHolesAndData for ALLOCATE.
const keepSize = "an NFS client cannot reserve space and leave the size alone"

// sillyRename: an NFS client renames an open file that is removed to .nfsXXXX, and removes it at the last close.
const sillyRename = "the client renames open files that are removed"

// without42 are the rows that need operations of version 4.2.
var without42 = map[string]string{
	"Deallocate/Zeros":         "no DEALLOCATE before version 4.2",
	"Deallocate/FreesSpace":    "no DEALLOCATE before version 4.2",
	"Deallocate/WithinTheSize": "no DEALLOCATE before version 4.2",
	"Seek/Shapes":              "no SEEK before version 4.2: the client takes everything for data",
	"Seek/Data":                "no SEEK before version 4.2: the client takes everything for data",
	"Seek/TrailingHole":        "no SEEK before version 4.2: the client takes everything for data",
}

func merge(a, b map[string]string) map[string]string {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// suiteSlow are rows that make thousands of calls, each of which the kernel's client makes several of. Through a
// kernel they run with the full sizes only.
var suiteSlow = []string{"ReadDir/Large", "ReadDir/EveryCookie", "Parallel/RenameBothWays", "Parallel/RemoveDirectoryAndCreateInside", "Parallel/ListWhileOthersCreateAndRemove"}

// suiteNever are rows whose outcome through a kernel's client is a matter of time, by engine, "" for all. While data
// wait in the client it shows their size, with the change attribute of a server that has not seen them; how long an
// open file that was removed keeps a name is the client's choice; attributes of directories and space of CephFS lag
// behind (lazy-dirstat, lagging-space).
var suiteNever = map[string][]string{
	"": {"Parallel/ChangeNeverRepeats", "Parallel/OpenWhileUnlinked"},
	"libcephfs": {
		"Attr/DirectoryLinksCountSubdirectories", "Change/ReadingChangesNothing", "StatFS/WritingTakesSpace",
		"Rename/InPlace", "Rename/Across",
	},
}

// suiteRows returns the rows to run.
func suiteRows(engine string) []string {
	return slices.DeleteFunc(exporttest.Names(), func(name string) bool {
		return slices.Contains(suiteNever[""], name) || slices.Contains(suiteNever[engine], name) ||
			!fullSizes() && slices.Contains(suiteSlow, name)
	})
}

var suiteRow = regexp.MustCompile(`^\s+--- (PASS|FAIL|SKIP): TestKernel/(\S+) \(([\d.]+)s\)$`)

// The behaviour suite that every Volume runs, through the kernel's client and capstan, on each version.
func TestSuiteThroughKernel(t *testing.T) {
	for _, engine := range []string{"memory", "libcephfs"} {
		for _, version := range versions {
			if engine == "libcephfs" && version != "4.2" && !fullSizes() {
				continue // what the engine does is in the suite that runs on it directly
			}
			t.Run(engine+"/v"+version, func(t *testing.T) {
				gw := capstan(t)
				g := lab.Guest(t, 0)
				ctx := longContext(t, time.Duration(sized(15, 60))*time.Minute)
				at := mustMount(t, g, gw.mount(version, sharedExports[engine]))
				runKernelSuite(t, ctx, g, at, []string{"", version, engine}, suiteRows(engine))
			})
		}
	}
}

// runKernelSuite runs the suite in a directory of a guest and reports each row as a subtest.
func runKernelSuite(t *testing.T, ctx context.Context, g *Guest, at string, kinds, rows []string) {
	t.Helper()
	program, err := suiteProgram()
	if err != nil {
		t.Fatal(err)
	}
	if err := copyFile(program, filepath.Join(g.Share, "kernelsuite"), 0o755); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, k := range kinds {
		maps.Copy(known, suiteKnown[k])
	}
	list, err := json.Marshal(known)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	// For a look while it runs, or at where it hung.
	progress, err := os.Create(filepath.Join(g.Share, "kernelsuite.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer progress.Close()
	_, runErr := g.RunCommand(ctx, GuestCommand{
		Argv: []string{"/lab/kernelsuite", "-test.v", "-test.run", "^TestKernel$", "-test.timeout", "60m"},
		Env:  []string{"KERNEL_SUITE_DIR=" + at, "KERNEL_SUITE_KNOWN=" + string(list), "KERNEL_SUITE_ONLY=" + strings.Join(rows, ",")},
		Dir:  "/tmp", Stdout: io.MultiWriter(&out, progress),
	})
	// What a row said stands between its RUN line and the next.
	said := map[string][]string{}
	row := ""
	type result struct{ row, outcome string }
	var results []result
	for line := range strings.Lines(out.String()) {
		line = strings.TrimRight(line, "\n")
		if m := suiteRow.FindStringSubmatch(line); m != nil {
			results = append(results, result{m[2], m[1]})
			continue
		}
		if name, ok := strings.CutPrefix(line, "=== RUN   TestKernel/"); ok {
			row = name
			continue
		}
		said[row] = append(said[row], line)
	}
	if len(results) < 50 {
		t.Fatalf("only %d rows ended, the last one begun is %s: %v\n%s", len(results), row, runErr, lastLines(out.String(), 30))
	}
	failed := 0
	for _, r := range results {
		if r.outcome == "PASS" && known[r.row] == "" {
			continue
		}
		t.Run(r.row, func(t *testing.T) {
			switch {
			case r.outcome == "FAIL":
				failed++
				t.Errorf("%s", strings.Join(said[r.row], "\n"))
			case r.outcome == "SKIP":
				t.Skip(strings.Join(said[r.row], "\n"))
			default:
				t.Log("fails as known: " + known[r.row])
			}
		})
	}
	if runErr != nil && failed == 0 {
		t.Errorf("%v", runErr)
	}
	Peer(t, fmt.Sprintf("%d rows", len(results)))
	t.Logf("%d rows, %d known to fail", len(results), len(known))
}

// The behaviour suite on a real CephFS through libcephfs, without NFS between.
func TestSuiteOnLibCephFS(t *testing.T) {
	requireLibCephFS(t)
	c := lab.Cluster(t)
	n := lab.Net(t)
	ctx := longContext(t, 10*time.Minute)
	if err := c.WaitManager(ctx); err != nil { // it knows the space
		t.Fatal(err)
	}
	dir := TempDir(t)
	bin := filepath.Join(dir, "libcephfs.test")
	if _, err := runCommand(ctx, procSpec{
		argv: []string{"go", "test", "-c", "-tags", strings.Join(buildTags(), ","), "-o", bin, "capstan/cephfs/libcephfs"}, env: []string{"CGO_ENABLED=1"},
	}); err != nil {
		t.Fatal(err)
	}
	r, err := runCommand(ctx, procSpec{
		argv: []string{bin, "-test.v", "-test.timeout", "10m"}, net: n, dir: dir, env: []string{"CAPSTAN_TEST_CEPH_CONF=" + c.ConfPath()},
	})
	passed := strings.Count(r.Stdout, "--- PASS: ")
	if err != nil {
		for _, line := range r.Lines() {
			if strings.Contains(line, "--- FAIL") || strings.Contains(line, "_test.go:") || strings.Contains(line, "rows_") || strings.Contains(line, "panic") {
				t.Error(line)
			}
		}
		t.Errorf("%v", err)
	}
	if passed < 50 {
		t.Errorf("only %d tests ran", passed)
	}
	t.Logf("%d tests passed", passed)
}
