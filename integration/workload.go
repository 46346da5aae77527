package integration

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed workloads/*.sh
var workloadScripts embed.FS

// Workload is what people do to a file system, as a shell script whose report is the same on every file system that
// behaves: run it on two and compare (Lab.Reference, CheckWorkload).
type Workload struct {
	Name     string
	Programs []string // it needs, besides a shell and coreutils
	script   string
}

// workloadPrograms names the programs of each workload.
var workloadPrograms = map[string][]string{
	"copy":   {"cmp"},
	"edges":  nil,
	"edit":   {"vim"},
	"git":    {"git"},
	"make":   {"make", "gcc"},
	"many":   {"find"},
	"posix":  nil,
	"rsync":  {"rsync", "setfattr", "diff"},
	"sqlite": {"sqlite3"},
	"tar":    {"tar"},
}

// Workloads returns all workloads, by name.
func Workloads() []Workload {
	var l []Workload
	for name, programs := range workloadPrograms {
		b, err := workloadScripts.ReadFile("workloads/" + name + ".sh")
		if err != nil {
			panic(err) // the map and the embedded directory do not match
		}
		l = append(l, Workload{Name: name, Programs: programs, script: string(b)})
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Name < l[j].Name })
	return l
}

// WorkloadParams set the size of workloads. The zero value is what the product is measured by.
type WorkloadParams struct {
	Commits int  // of the git repository; 0 means 3000
	CFiles  int  // of the C project; 0 means 60
	Entries int  // of "many"; 0 means 100,000
	BigMB   int  // size of the sparse file of "copy" in MiB; 0 means 6144
	Txns    int  // transactions of each of four processes of "sqlite"; 0 means 25
	Xattr   bool // extended attributes too (ext4, CephFS, NFS 4.2)
}

func (p *WorkloadParams) setDefaults() {
	for _, d := range []struct {
		v    *int
		init int
	}{{&p.Commits, 3000}, {&p.CFiles, 60}, {&p.Entries, 100_000}, {&p.BigMB, 6144}, {&p.Txns, 25}} {
		if *d.v == 0 {
			*d.v = d.init
		}
	}
}

// SmallWorkloads are sizes for a quick look at every workload.
var SmallWorkloads = WorkloadParams{Commits: 150, CFiles: 12, Entries: 600, BigMB: 24, Txns: 3}

var workloadSources struct {
	mu   sync.Mutex
	dirs map[string]string // parameters of a source -> directory; guarded by mu
}

// source makes one input of workloads, once per process for each size.
func source(ctx context.Context, name string, size int, gen func(ctx context.Context, tool, dir string) error) (string, error) {
	workloadSources.mu.Lock()
	defer workloadSources.mu.Unlock()
	key := fmt.Sprintf("%s-%d", name, size)
	if d := workloadSources.dirs[key]; d != "" {
		if _, err := os.Stat(d); err == nil {
			return d, nil
		}
	}
	tool, err := buildTool(ctx, "labtool", "capstan/integration/internal/labtool")
	if err != nil {
		return "", err
	}
	parent, err := Scratch("src")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	if err := gen(ctx, tool, dir); err != nil {
		return "", fmt.Errorf("make input %s: %w", name, err)
	}
	if workloadSources.dirs == nil {
		workloadSources.dirs = map[string]string{}
	}
	workloadSources.dirs[key] = dir
	return dir, nil
}

func genWith(command string, size ...int) func(ctx context.Context, tool, dir string) error {
	return func(ctx context.Context, tool, dir string) error {
		argv := []string{tool, command, dir}
		for _, s := range size {
			argv = append(argv, strconv.Itoa(s))
		}
		_, err := runCommand(ctx, procSpec{argv: argv})
		return err
	}
}

// genRepo makes a bare repository from labtool's stream.
func genRepo(commits int) func(ctx context.Context, tool, dir string) error {
	return func(ctx context.Context, tool, dir string) error {
		_, err := runCommand(ctx, procSpec{argv: []string{"sh", "-ec",
			`git init -q --bare --initial-branch=main "$1" && "$2" gen-git "$3" | git -C "$1" -c core.compression=1 fast-import --quiet`,
			"sh", dir, tool, strconv.Itoa(commits)}, env: []string{"GIT_CONFIG_NOSYSTEM=1", "HOME=" + filepath.Dir(dir)}})
		return err
	}
}

// sources returns the inputs of a workload.
func (w Workload) sources(ctx context.Context, p WorkloadParams) (map[string]string, error) {
	var name string
	size := 0
	var gen func(ctx context.Context, tool, dir string) error
	switch w.Name {
	case "git":
		name, size, gen = "repo.git", p.Commits, genRepo(p.Commits)
	case "make":
		name, size, gen = "cproj", p.CFiles, genWith("gen-c", p.CFiles)
	case "rsync", "tar":
		name, gen = "tree", genWith("gen-tree")
	case "copy":
		name, size, gen = "sparse", p.BigMB, genWith("gen-sparse", p.BigMB)
	default:
		return nil, nil
	}
	dir, err := source(ctx, name, size, gen)
	return map[string]string{name: dir}, err
}

// RunWorkload runs a workload in a new directory below dir, a directory in the guest, and returns its report. The
// guest reads the inputs from the host.
func (g *Guest) RunWorkload(ctx context.Context, w Workload, dir string, p WorkloadParams) (string, error) {
	p.setDefaults()
	tool, err := buildTool(ctx, "labtool", "capstan/integration/internal/labtool")
	if err != nil {
		return "", err
	}
	src, err := w.sources(ctx, p)
	if err != nil {
		return "", err
	}
	lib, err := workloadScripts.ReadFile("workloads/lib.sh")
	if err != nil {
		return "", err
	}
	host := filepath.Join(g.Share, "workload")
	if err := os.MkdirAll(host, 0o755); err != nil {
		return "", err
	}
	// A fresh name each time: a guest may cache what it has read of the host's files.
	files, err := os.MkdirTemp(host, w.Name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(files)
	if err := os.Chmod(files, 0o755); err != nil {
		return "", err
	}
	if err := copyFile(tool, filepath.Join(files, "labtool"), 0o755); err != nil {
		return "", err
	}
	for name, from := range src {
		// cp keeps holes, links, modes and times.
		if _, err := runCommand(ctx, procSpec{argv: []string{"cp", "-a", "--sparse=always", from, filepath.Join(files, name)}}); err != nil {
			return "", err
		}
	}
	in := "/lab/workload/" + filepath.Base(files)
	xattr := "0"
	if p.Xattr {
		xattr = "1"
	}
	script := `set -e
TMP=$(mktemp -d /tmp/workload.XXXXXX)
export TMP
work="$1/$2.$$"
mkdir "$work"
cd "$work"
set +e
` + string(lib) + w.script + `
cd /
rmdir "$work"
rm -rf "$TMP"
`
	r, err := g.RunCommand(ctx, GuestCommand{
		Argv: []string{"sh", "-c", script, "sh", dir, w.Name},
		Env: []string{
			"SRC=" + in, "TOOL=" + in + "/labtool", "XATTR=" + xattr,
			"COUNT=" + strconv.Itoa(p.Entries), "BIGMB=" + strconv.Itoa(p.BigMB), "TXNS=" + strconv.Itoa(p.Txns),
		},
	})
	if err != nil {
		return r.Stdout, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	if r.Stderr != "" {
		return r.Stdout, fmt.Errorf("workload %s printed errors: %s", w.Name, lastLines(r.Stderr, 20))
	}
	return r.Stdout, nil
}

func copyFile(from, to string, mode os.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, mode)
}

// DiffReports compares two reports line by line and returns the lines that differ, with the last step before each,
// or "".
func DiffReports(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	// Longest common subsequence of what lies between the common ends, which is short unless all is lost.
	lo := 0
	for lo < len(a) && lo < len(b) && a[lo] == b[lo] {
		lo++
	}
	ha, hb := len(a), len(b)
	for ha > lo && hb > lo && a[ha-1] == b[hb-1] {
		ha, hb = ha-1, hb-1
	}
	if lo == ha && lo == hb {
		return ""
	}
	const most = 2000
	if ha-lo > most || hb-lo > most {
		return fmt.Sprintf("%d lines, where %d were expected, differ from line %d on; first: %q, expected %q", hb-lo, ha-lo, lo+1, b[min(lo, len(b)-1)], a[min(lo, len(a)-1)])
	}
	x, y := a[lo:ha], b[lo:hb]
	l := make([][]int, len(x)+1)
	for i := range l {
		l[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				l[i][j] = l[i+1][j+1] + 1
			} else {
				l[i][j] = max(l[i+1][j], l[i][j+1])
			}
		}
	}
	var out strings.Builder
	step, said := "", ""
	for i := lo - 1; i >= 0; i-- {
		if !strings.HasPrefix(a[i], "  ") {
			step = a[i]
			break
		}
	}
	note := func(sign, line string) {
		if step != said {
			fmt.Fprintf(&out, "@ %s\n", step)
			said = step
		}
		fmt.Fprintf(&out, "%s %s\n", sign, line)
	}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			if !strings.HasPrefix(x[i], "  ") {
				step = x[i]
			}
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && l[i+1][j] >= l[i][j+1]:
			note("-", x[i])
			i++
		default:
			note("+", y[j])
			j++
		}
	}
	return out.String()
}

// Reference runs a workload on the local file system of a guest of the lab (GuestOptions.DiskMB must be set), once
// for each choice of parameters, and returns its report, which every other file system must give too.
func (l *Lab) Reference(ctx context.Context, tb testing.TB, w Workload, p WorkloadParams) string {
	tb.Helper()
	requirePrograms(tb, w)
	g := l.Guest(tb, 0)
	if l.opts.Guest.DiskMB == 0 {
		tb.Fatal("the lab's guests have no local file system to refer to: set GuestOptions.DiskMB")
	}
	p.setDefaults()
	if w.Name != "rsync" {
		p.Xattr = false // only rsync looks at it
	}
	key := fmt.Sprintf("%s %+v", w.Name, p)
	l.mu.Lock()
	report, ok := l.references[key]
	l.mu.Unlock()
	if ok {
		return report
	}
	start := time.Now()
	report, err := g.RunWorkload(ctx, w, "/disk", p)
	if err != nil {
		tb.Fatalf("reference: %v", err)
	}
	tb.Logf("%s took %.1f s on the local file system", w.Name, time.Since(start).Seconds())
	l.mu.Lock()
	l.references[key] = report
	l.mu.Unlock()
	return report
}

// CheckWorkload runs a workload in a directory of a guest and fails the test where its report differs from the one
// that is wanted, a Reference. It logs the programs' versions.
func CheckWorkload(ctx context.Context, tb testing.TB, w Workload, p WorkloadParams, want string, g *Guest, dir string) {
	tb.Helper()
	requirePrograms(tb, w)
	start := time.Now()
	got, err := g.RunWorkload(ctx, w, dir, p)
	if err != nil {
		tb.Errorf("%v", err)
	}
	tb.Logf("%s took %.1f s", w.Name, time.Since(start).Seconds())
	for line := range strings.Lines(got) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "version: "); ok {
			Peer(tb, v)
		}
	}
	if d := DiffReports(want, got); d != "" {
		tb.Errorf("%s differs (- reference, + here):\n%s", w.Name, d)
	}
}

func requirePrograms(tb testing.TB, w Workload) {
	tb.Helper()
	for _, prog := range w.Programs {
		Require(tb, NeedProgram(prog))
	}
}
