package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// window is what one measurement saw.
type window struct {
	ops        float64 // operations answered
	wall, cpu  time.Duration
	allocs     float64 // by capstan
	gc, worked float64 // CPU seconds by the accounts of capstan's runtime
}

// measure runs a row for a while.
func (r *row) measure(ctx context.Context, d time.Duration) (w window, err error) {
	var before, after map[string]float64
	if r.proc.metrics != "" {
		if before, err = r.proc.scrape(ctx); err != nil {
			return w, err
		}
	}
	began := time.Now()
	cpu, err := r.proc.cpu()
	if err != nil {
		return w, err
	}
	calls, err := r.run(began.Add(d))
	if err != nil {
		return w, fmt.Errorf("%s, %d x %d: %w", r.what, r.conns, r.depth, err)
	}
	w.wall = time.Since(began)
	if w.cpu, err = r.proc.cpu(); err != nil {
		return w, err
	}
	w.cpu -= cpu
	w.ops = float64(calls) / float64(r.calls)
	if before != nil {
		if after, err = r.proc.scrape(ctx); err != nil {
			return w, err
		}
		grown := func(name string) float64 { return after[name] - before[name] }
		w.allocs = max(0, grown(mallocs)-r.proc.scrapeCost)
		w.gc = grown(gcCPU)
		w.worked = grown(totalCPU) - grown(idleCPU)
	}
	return w, nil
}

// run runs all lanes until then and returns how many calls were answered.
func (r *row) run(until time.Time) (calls int, err error) {
	var (
		wg   sync.WaitGroup
		n    = make([]int, len(r.lanes))
		errs = make([]error, len(r.lanes))
	)
	for i, l := range r.lanes {
		wg.Go(func() { n[i], errs[i] = l.run(until) })
	}
	wg.Wait()
	for _, k := range n {
		calls += k
	}
	return calls, errors.Join(errs...)
}

// measureSet warms the rows up and measures them in rounds, every other one in
// the opposite order, so that what changes meanwhile favours no side.
func measureSet(ctx context.Context, s settings, set *set) error {
	for _, r := range set.rows {
		if _, err := r.measure(ctx, s.window/4); err != nil {
			return err
		}
	}
	order := slices.Clone(set.rows)
	for range s.rounds {
		for _, r := range order {
			w, err := r.measure(ctx, s.window)
			if err != nil {
				return err
			}
			r.seen = append(r.seen, w)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		slices.Reverse(order)
	}
	return nil
}

// group is the sets that are measured on the same two processes.
type group struct {
	name  string
	plain bool // has a plain side
	sets  []setup
}

// setup makes a set.
type setup struct {
	name string
	make func(context.Context, sides) (*set, error)
}

// groups lists what is measured.
func groups(s settings) []group {
	file := group{name: "file", plain: true}
	for _, shape := range [][2]int{{1, 1}, {1, 8}, {4, 4}} {
		for _, what := range []string{"read", "write"} {
			file.sets = append(file.sets, setup{
				name: fmt.Sprintf("file/%s/%dx%d", what, shape[0], shape[1]),
				make: func(ctx context.Context, on sides) (*set, error) {
					return fileSet(ctx, on, shape[0], shape[1], what == "write")
				}})
		}
	}
	stat := group{name: "stat", plain: true}
	for _, conns := range []int{1, 4, 16} {
		for _, depth := range []int{1, 16} {
			stat.sets = append(stat.sets, setup{
				name: fmt.Sprintf("stat/%dx%d", conns, depth),
				make: func(ctx context.Context, on sides) (*set, error) { return statSet(ctx, on, conns, depth) }})
		}
	}
	names := group{name: "names", sets: []setup{{
		name: "names/4x4",
		make: func(ctx context.Context, on sides) (*set, error) { return nameSet(ctx, on, 4, 4, s.files) }}}}
	all := []group{file, stat, names}
	for i := range all {
		all[i].sets = slices.DeleteFunc(all[i].sets, func(u setup) bool { return !strings.Contains(u.name, s.only) })
	}
	return all
}

// measureAll measures all groups and returns the text of the result.
func measureAll(ctx context.Context, s settings) (string, error) {
	load := newLoad()
	tables := map[string][]*row{}
	for _, g := range groups(s) {
		if len(g.sets) == 0 {
			continue
		}
		rows, err := measureGroup(ctx, s, g, load)
		if err != nil {
			return "", err
		}
		tables[g.name] = rows
	}
	return report(s, tables, load), nil
}

func measureGroup(ctx context.Context, s settings, g group, load *load) (rows []*row, err error) {
	var on sides
	if on.capstan, err = startCapstan(ctx, s, g.name); err != nil {
		return nil, err
	}
	defer on.capstan.stop()
	if g.plain {
		if on.plain, err = startPlain(ctx); err != nil {
			return nil, err
		}
		defer on.plain.stop()
	}
	for _, u := range g.sets {
		set, err := u.make(ctx, on)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(s.log, "bench: %s, %d rows, %d rounds\n", u.name, len(set.rows), s.rounds)
		err = measureSet(ctx, s, set)
		load.look()
		if err = errors.Join(err, set.close()); err != nil {
			return nil, err
		}
		rows = append(rows, set.rows...)
	}
	return rows, nil
}
