package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"capstan/cephfs/cluster"
	"capstan/cephfs/osd"
	"capstan/cephfs/osdmap"
)

// errInterrupted ends what a signal ended.
var errInterrupted = errors.New("interrupted")

// interruptible ends the context at the first SIGINT or SIGTERM. The second one
// ends the process.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-sig:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
		signal.Stop(sig)
	}()
	return ctx, func() { cancel(nil) }
}

// patience is how long an operation may take before the user is told why.
const patience = time.Second

// waiter does operations on an object and tells about those that wait.
type waiter struct {
	c     *cluster.Cluster
	args  []string // POOL OBJECT
	at    osd.Object
	write bool
	errs  io.Writer
	tick  time.Duration // patience, but in tests
}

// do does one operation. Whenever it has waited for another while, and the
// reason is a new one, the reason is printed; if a signal ends the wait, it goes
// into the error.
func (w *waiter) do(ctx context.Context, op func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- op(ctx) }()
	tick := time.NewTicker(w.tick)
	defer tick.Stop()
	told := ""
	for {
		select {
		case err := <-done:
			err = objectError(w.args, w.at, err)
			if told != "" && errors.Is(err, errInterrupted) {
				err = fmt.Errorf("%w while waiting: %s", err, told)
			}
			return err
		case <-tick.C:
			m, err := w.c.OSDMap(ctx)
			if err != nil {
				continue // ctx ended, and so will op
			}
			if why := waitReason(m, w.args[0], w.at, w.write); why != told {
				told = why
				fmt.Fprintf(w.errs, "capstan: %s: waiting: %s\n", objectName(w.args, w.at), why)
			}
		}
	}
}

// waitReason says what an operation waits for, as far as the map tells.
func waitReason(m *osdmap.Map, pool string, o osd.Object, write bool) string {
	p := m.Pool(o.Pool)
	switch {
	case p == nil:
		return fmt.Sprintf("pool %s is gone", pool)
	case write && p.Flags&osdmap.PoolFullQuota != 0:
		return fmt.Sprintf("the quota of pool %s is used up", pool)
	case write && p.Flags&osdmap.PoolFull != 0:
		return fmt.Sprintf("pool %s is full", pool)
	case write && m.Flags&osdmap.FlagFull != 0:
		return "the cluster is full"
	case write && m.Flags&osdmap.FlagPauseWrite != 0:
		return "writes are paused (osd unpause lets them go on)"
	case !write && m.Flags&osdmap.FlagPauseRead != 0:
		return "reads are paused (osd unpause lets them go on)"
	}
	raw, _ := m.ObjectPG(osdmap.Object{Pool: o.Pool, Namespace: o.Namespace, Name: o.Name})
	pg := m.Fold(raw)
	var at osdmap.Placement
	m.Place(pg, &at)
	if at.ActingPrimary < 0 {
		return fmt.Sprintf("placement group %s has no OSD that is up", pg)
	}
	return fmt.Sprintf("osd.%d has not answered for placement group %s", at.ActingPrimary, pg)
}
