package crush

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"capstan/internal/testutil"
)

// The recordings in testdata hold for each case of goldenCases the binary map and
// what Ceph's crushtool mapped with it. To make them again, with the crushtool of
// the system (any of release 16 to 18) or of a tree with another release:
//
//	go test ./cephfs/crush -run TestGolden -update
//	go test ./cephfs/crush -run TestGolden/msr -update -tools "chroot TREE"
//
// A case whose name begins with msr needs release 19 or later.
var (
	update = flag.Bool("update", false, "record testdata anew with Ceph's crushtool")
	tools  = flag.String("tools", "", "command that runs a shell where Ceph's tools are, such as \"chroot TREE\"")
)

// inputs is the number of mappings per recorded test: x from 0 on.
const inputs = 400

func TestGolden(t *testing.T) {
	for _, c := range goldenCases() {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join("testdata", c.name)
			if *update {
				record(t, c, path)
			}
			compareGolden(t, testutil.ReadGzip(t, path+".crush.gz"), testutil.ReadGzip(t, path+".mappings.gz"))
		})
	}
}

// TestLiveCrushtool makes the maps anew and compares with the crushtool that is
// installed, on inputs that are not recorded.
func TestLiveCrushtool(t *testing.T) {
	if _, err := exec.LookPath("crushtool"); err != nil {
		t.Skip("no crushtool here")
	}
	if testing.Short() {
		t.Skip("short run")
	}
	for i, c := range goldenCases() {
		if strings.HasPrefix(c.name, "msr") || i%24 != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.tests = c.tests[:min(len(c.tests), 3)]
			m, out := runTool(t, c, 100_000, 100_099)
			compareGolden(t, m, out)
		})
	}
}

// record writes the two files of a case.
func record(t *testing.T, c goldenCase, path string) {
	n := inputs
	if c.few {
		n /= 4
	}
	m, out := runTool(t, c, 0, n-1)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	testutil.WriteGzip(t, path+".crush.gz", m)
	testutil.WriteGzip(t, path+".mappings.gz", out)
}

// toolRetry runs crushtool again when it hangs: that of release 16 now and then
// does, at its end.
const toolRetry = `crushtool() { for i in 1 2 3; do timeout 20 "$(type -P crushtool)" "$@"; r=$?; [ $r = 124 ] || return $r; done; return 124; }
`

var mappingLine = regexp.MustCompile(`^CRUSH rule \d+ x (\d+) \[(.*)\]$`)

// runTool builds the map of a case with crushtool and maps inputs by every test
// of the case. Of its output it keeps the test's arguments, the first input, and
// one line of items for each input.
func runTool(t *testing.T, c goldenCase, from, to int) (m, out []byte) {
	var script strings.Builder
	script.WriteString(toolRetry)
	fmt.Fprintf(&script, "set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; cd $d; cat >text; (%s) >/dev/null 2>log || { cat log >&2; exit 1; }\n", c.build)
	fmt.Fprintln(&script, "gzip -n9 <map | base64; echo ----")
	for _, test := range c.tests {
		fmt.Fprintf(&script, "echo '# %s'; crushtool -i map --test --show-mappings --min-x %d --max-x %d %s 2>/dev/null >out; cat out\n", test, from, to, test)
	}
	args := append(strings.Fields(*tools), "bash", "-c", script.String())
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(c.text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 124 && !*update {
		t.Skip("crushtool hangs on this machine")
	}
	if err != nil {
		t.Fatalf("%v\n%.1000s\n%.3000s", err, stderr.Bytes(), c.text)
	}
	head, rest, _ := strings.Cut(string(raw), "----\n")
	m = testutil.Gunzip(t, decodeBase64(t, head))

	var w bytes.Buffer
	lines := 0
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "# ") {
			fmt.Fprintf(&w, "%s --min-x %d\n", line, from)
			continue
		}
		if f := mappingLine.FindStringSubmatch(line); f != nil {
			lines++
			fmt.Fprintln(&w, strings.ReplaceAll(f[2], "2147483647", "-"))
		}
	}
	if want := (to - from + 1) * len(c.tests); lines != want {
		t.Fatalf("crushtool printed %d mappings, want %d\n%s", lines, want, rest)
	}
	return m, w.Bytes()
}

// crushTest is a test line of a recording.
type crushTest struct {
	rule, size int
	x          uint32
	weights    []uint32
}

// parseTest reads the arguments of crushtool. Devices that the map places
// nowhere have the weight 0, others 1 unless --weight says otherwise
// (CrushTester::test).
func parseTest(t *testing.T, m *Map, line string) crushTest {
	c := crushTest{weights: make([]uint32, m.MaxDevices)}
	for _, b := range m.Buckets {
		if b == nil {
			continue
		}
		for _, item := range b.Items {
			if item >= 0 {
				c.weights[item] = 0x10000
			}
		}
	}
	f := strings.Fields(strings.TrimPrefix(line, "# "))
	number := func(i int) int {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return n
	}
	for i := 0; i < len(f); i += 2 {
		switch f[i] {
		case "--rule":
			c.rule = number(i + 1)
		case "--num-rep":
			c.size = number(i + 1)
		case "--min-x":
			c.x = uint32(number(i + 1))
		case "--weight":
			w, err := strconv.ParseFloat(f[i+2], 32)
			if err != nil {
				t.Fatal(err)
			}
			if dev := number(i + 1); dev < len(c.weights) {
				c.weights[dev] = uint32(float32(w) * 0x10000)
			}
			i++
		default:
			t.Fatalf("%q: unknown argument %q", line, f[i])
		}
	}
	return c
}

// compareGolden maps what a recording maps.
func compareGolden(t *testing.T, blob, recorded []byte) {
	m, err := Decode(blob)
	if err != nil {
		t.Fatal(err)
	}
	msr := slices.ContainsFunc(m.Rules, func(r *Rule) bool { return r != nil && r.Type.IsMSR() })
	if again := m.Encode(msr); !bytes.Equal(again, blob) && !bytes.Equal(m.Encode(true), blob) {
		t.Errorf("encodes to %d bytes, not to the %d it was decoded from", len(again), len(blob))
	}
	var w Work
	var test crushTest
	var name string
	bad := 0
	for line := range strings.Lines(string(recorded)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			name, test = line, parseTest(t, m, line)
			continue
		}
		if test.x%every != 0 {
			test.x++
			continue
		}
		got := format(m.Do(&w, test.rule, test.x, test.size, test.weights, m.ChooseArgsFor(0)))
		if got != line {
			if bad++; bad <= 5 {
				t.Errorf("%s: x %d: got [%s], want [%s]", name, test.x, got, line)
			}
		}
		test.x++
	}
	if bad > 5 {
		t.Errorf("%d mappings differ", bad)
	}
}

func format(items []int32) string {
	var s []byte
	for i, item := range items {
		if i > 0 {
			s = append(s, ',')
		}
		if item == ItemNone {
			s = append(s, '-')
		} else {
			s = strconv.AppendInt(s, int64(item), 10)
		}
	}
	return string(s)
}
