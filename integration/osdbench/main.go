package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// task is one window of one side.
type task struct {
	Conf, Pool string
	Write      bool
	Size       int
	Depth      int // operations under way
	Window     time.Duration
}

// result is what a side says of its window.
type result struct {
	Ops      int
	Seconds  float64
	P50, P99 float64 // microseconds
	Allocs   float64 // heap objects for each operation; -1: not known
	// CPU seconds of the process in the window, user and system.
	CPU float64
}

// objects is how many objects the operations of a task go round.
const objects = 64

// sides do a task in this process.
var sides = map[string]func(task) (result, error){"native": native}

func main() {
	side := flag.String("side", "", "run one window of this side and print its result (used by the command itself)")
	conf := flag.String("conf", "/etc/ceph/ceph.conf", "ceph.conf `file`")
	pool := flag.String("pool", "", "`pool` to work in")
	rounds := flag.Int("rounds", 5, "windows of each side and row")
	window := flag.Duration("window", 2*time.Second, "length of a window")
	into := flag.String("into", "", "put the tables into this `file`, between its marks")
	spec := flag.String("task", "", "as -side")
	flag.Parse()
	err := func() error {
		if *side != "" {
			var t task
			if err := json.Unmarshal([]byte(*spec), &t); err != nil {
				return err
			}
			r, err := sides[*side](t)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(r)
		}
		if sides["librados"] == nil {
			return fmt.Errorf("this binary was built without the tag librados: nothing to compare with")
		}
		table, err := compare(*conf, *pool, *rounds, *window)
		if err != nil {
			return err
		}
		if *into == "" {
			fmt.Print(table)
			return nil
		}
		return insert(*into, table)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "osdbench:", err)
		os.Exit(1)
	}
}

// compare measures all rows and returns the table.
func compare(conf, pool string, rounds int, window time.Duration) (string, error) {
	var b strings.Builder
	began := load()
	b.WriteString("| what | under way | native, ops/s | librados, ops/s | ratio | native p99, us | librados p99, us | native CPU us/op | librados CPU us/op | ratio | native allocations |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, size := range []int{4 << 10, 4 << 20} {
		for _, write := range []bool{true, false} { // reads find what was written
			for _, depth := range []int{1, 16, 64} {
				t := task{Conf: conf, Pool: pool, Write: write, Size: size, Depth: depth, Window: window}
				row, err := compareRow(t, rounds)
				if err != nil {
					return "", err
				}
				b.WriteString(row)
				fmt.Fprint(os.Stderr, row)
			}
		}
	}
	return fmt.Sprintf("%d windows of %v for each row and side, median; load average %s before, %s after.\n\n%s", rounds, window, began, load(), b.String()), nil
}

func compareRow(t task, rounds int) (string, error) {
	got := map[string][]result{}
	for i := range rounds {
		order := []string{"native", "librados"}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, side := range order {
			r, err := child(side, t)
			if err != nil {
				return "", fmt.Errorf("%s: %w", side, err)
			}
			got[side] = append(got[side], r)
		}
	}
	rate := func(r result) float64 { return float64(r.Ops) / r.Seconds }
	cpu := func(r result) float64 { return r.CPU * 1e6 / float64(r.Ops) }
	p99 := func(r result) float64 { return r.P99 }
	med := func(side string, f func(result) float64) float64 {
		var l []float64
		for _, r := range got[side] {
			l = append(l, f(r))
		}
		return median(l)
	}
	ratio := func(f func(result) float64) float64 {
		var l []float64
		for i := range rounds {
			l = append(l, f(got["native"][i])/f(got["librados"][i]))
		}
		return median(l)
	}
	what := "read"
	if t.Write {
		what = "write"
	}
	return fmt.Sprintf("| %s %s | %d | %.0f | %.0f | %.2f | %.0f | %.0f | %.1f | %.1f | %.2f | %.1f |\n", what, human(t.Size), t.Depth,
		med("native", rate), med("librados", rate), ratio(rate), med("native", p99), med("librados", p99),
		med("native", cpu), med("librados", cpu), ratio(cpu), med("native", func(r result) float64 { return r.Allocs })), nil
}

func human(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func median(l []float64) float64 {
	slices.Sort(l)
	return l[len(l)/2]
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// child runs one window of a side in a process of its own.
func child(side string, t task) (r result, err error) {
	spec, err := json.Marshal(t)
	if err != nil {
		return r, err
	}
	cmd := exec.Command(os.Args[0], "-side", side, "-task", string(spec))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// cpu is the CPU time of this process.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// percentile of sorted latencies, in microseconds.
func percentile(l []time.Duration, p float64) float64 {
	if len(l) == 0 {
		return 0
	}
	return float64(l[min(int(float64(len(l))*p), len(l)-1)].Nanoseconds()) / 1000
}

// insert puts a table between the marks of a file.
func insert(file, table string) error {
	const begin, end = "<!-- osdbench: begin -->", "<!-- osdbench: end -->"
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no marks %s and %s", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+table+end+after), 0o644)
}
