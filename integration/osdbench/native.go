package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"capstan/cephfs/cluster"
	"capstan/cephfs/osd"
)

// native does a task with package osd: a goroutine for each operation under way.
func native(t task) (result, error) {
	ctx := context.Background()
	c, err := cluster.Connect(ctx, cluster.Options{Conf: t.Conf})
	if err != nil {
		return result{}, err
	}
	defer c.Close()
	pool, err := c.Pool(ctx, t.Pool)
	if err != nil {
		return result{}, err
	}
	var next atomic.Int64
	op := func(buf []byte) error {
		o := osd.Object{Pool: pool, Name: fmt.Sprintf("bench.%d.%d", t.Size, next.Add(1)%objects)}
		if t.Write {
			return c.OSD.Write(ctx, o, 0, buf)
		}
		n, err := c.OSD.Read(ctx, o, 0, buf)
		if err == nil && n != len(buf) {
			err = fmt.Errorf("%s: read %d bytes of %d", o.Name, n, len(buf))
		}
		return err
	}
	buf := make([]byte, t.Size)
	for range objects { // connections are made, placements known
		if err := op(buf); err != nil {
			return result{}, err
		}
	}
	bufs, lat := make([][]byte, t.Depth), make([][]time.Duration, t.Depth)
	for i := range bufs { // no page is new in the window
		bufs[i] = bytes.Repeat([]byte{byte('a' + i%26)}, t.Size)
		lat[i] = make([]time.Duration, 0, 1<<16)
	}
	errs := make(chan error, t.Depth)
	var wg sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, began := cpu(), time.Now()
	end := began.Add(t.Window)
	for i := range t.Depth {
		wg.Go(func() {
			for at := time.Now(); at.Before(end); {
				if err := op(bufs[i]); err != nil {
					errs <- err
					return
				}
				now := time.Now()
				lat[i] = append(lat[i], now.Sub(at))
				at = now
			}
		})
	}
	wg.Wait()
	r := result{Seconds: time.Since(began).Seconds(), CPU: cpu() - used}
	runtime.ReadMemStats(&after)
	select {
	case err := <-errs:
		return r, err
	default:
	}
	all := slices.Concat(lat...)
	slices.Sort(all)
	r.Ops, r.P50, r.P99 = len(all), percentile(all, 0.5), percentile(all, 0.99)
	r.Allocs = float64(after.Mallocs-before.Mallocs) / float64(max(len(all), 1))
	return r, nil
}
