package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// median of f over the windows of a row.
func (r *row) median(f func(window) float64) float64 {
	var v []float64
	for _, w := range r.seen {
		v = append(v, f(w))
	}
	return median(v)
}

// ratio is the median of the ratios of f in the windows of a row and of its
// plain counterpart, which were measured one after the other.
func (r *row) ratio(f func(window) float64) float64 {
	var v []float64
	for i := range min(len(r.seen), len(r.plain.seen)) {
		v = append(v, f(r.seen[i])/f(r.plain.seen[i]))
	}
	return median(v)
}

// median returns the middle of v, 0 if it is empty.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func rate(w window) float64      { return w.ops / w.wall.Seconds() }
func perCPU(w window) float64    { return w.ops / w.cpu.Seconds() }
func cpuPerOp(w window) float64  { return w.cpu.Seconds() * 1e6 / w.ops }
func allocsPer(w window) float64 { return w.allocs / w.ops }

// gcShare is what part of capstan's CPU time went into garbage collection, over
// all windows, as its runtime accounts for it at the end of each collection.
func (r *row) gcShare() string {
	var gc, worked float64
	for _, w := range r.seen {
		gc, worked = gc+w.gc, worked+w.worked
	}
	if worked == 0 {
		return "no collection"
	}
	return fmt.Sprintf("%.1f %%", 100*gc/worked)
}

// report writes the result as Markdown.
func report(s settings, tables map[string][]*row, load *load) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. %d windows of %v for each row; %s.\n", machine(), s.rounds, s.window, load)
	if rows := tables["file"]; rows != nil {
		fmt.Fprint(&b, "\n### READ and WRITE of 1 MiB\n\n",
			"| what | connections x calls | MiB/s | plain copy, MiB/s | ratio | per CPU second, MiB | plain copy | ratio | allocations |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
		for _, r := range rows {
			if r.plain != nil {
				fmt.Fprintf(&b, "| %s | %d x %d | %.0f | %.0f | %.2f | %.0f | %.0f | %.2f | %.1f |\n", r.what, r.conns, r.depth,
					r.median(rate), r.plain.median(rate), r.ratio(rate), r.median(perCPU), r.plain.median(perCPU), r.ratio(perCPU), r.median(allocsPer))
			}
		}
	}
	if rows := tables["stat"]; rows != nil {
		fmt.Fprint(&b, "\n### GETATTR storm\n\n",
			"| what | connections x calls | per second | per CPU second | plain request and reply, per CPU second | ratio | allocations | GC share of CPU |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
		for _, r := range rows {
			if r.plain != nil {
				fmt.Fprintf(&b, "| %s | %d x %d | %.0f | %.0f | %.0f | %.2f | %.2f | %s |\n", r.what, r.conns, r.depth,
					r.median(rate), r.median(perCPU), r.plain.median(perCPU), r.ratio(perCPU), r.median(allocsPer), r.gcShare())
			}
		}
	}
	if rows := tables["names"]; rows != nil {
		fmt.Fprint(&b, "\n### Names\n\n",
			"| what | connections x calls | per second | per CPU second | CPU us each | allocations | GC share of CPU |\n| --- | --- | --- | --- | --- | --- | --- |\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "| %s | %d x %d | %.0f | %.0f | %.0f | %.1f | %s |\n", r.what, r.conns, r.depth,
				r.median(rate), r.median(perCPU), r.median(cpuPerOp), r.median(allocsPer), r.gcShare())
		}
	}
	return b.String()
}

// machine describes where this ran, without names.
func machine() string {
	var u unix.Utsname
	kernel := "unknown"
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	cpu := ""
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = " (" + strings.TrimSpace(value) + ")"
				break
			}
		}
	}
	return fmt.Sprintf("%d cores%s, Linux %s, %s", runtime.NumCPU(), cpu, kernel, runtime.Version())
}

// load keeps the range of the load average over a run.
type load struct{ low, high float64 }

func newLoad() *load {
	l := &load{low: -1}
	l.look()
	return l
}

func (l *load) look() {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return
	}
	v, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		return
	}
	if l.low < 0 || v < l.low {
		l.low = v
	}
	l.high = max(l.high, v)
}

func (l *load) String() string {
	return fmt.Sprintf("load average %.1f to %.1f, this run included", l.low, l.high)
}

// Markers in a document, between which the result is written.
const (
	beginMark = "<!-- bench: begin -->"
	endMark   = "<!-- bench: end -->"
)

// writeBetweenMarkers replaces what stands between the markers of a file.
func writeBetweenMarkers(file, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), beginMark)
	_, tail, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s: no %s ... %s", file, beginMark, endMark)
	}
	return os.WriteFile(file, []byte(head+beginMark+"\n"+text+endMark+tail), 0o644)
}
