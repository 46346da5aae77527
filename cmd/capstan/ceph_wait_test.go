package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"capstan/cephfs/osd"
	"capstan/cephfs/osdmap"
)

func TestWaitReason(t *testing.T) {
	o := osd.Object{Pool: 1, Name: "x"}
	for _, c := range []struct {
		name        string
		flags       osdmap.Flags
		pool        osdmap.PoolFlags
		write, read string // parts of what is said
	}{
		{"well, but for the OSDs", 0, 0, "no OSD that is up", "no OSD that is up"},
		{"full pool", 0, osdmap.PoolFull, "pool data is full", "no OSD"},
		{"quota", 0, osdmap.PoolFull | osdmap.PoolFullQuota, "quota of pool data", "no OSD"},
		{"full cluster", osdmap.FlagFull, 0, "cluster is full", "no OSD"},
		{"writes paused", osdmap.FlagPauseWrite, 0, "writes are paused", "no OSD"},
		{"reads paused", osdmap.FlagPauseRead, 0, "no OSD", "reads are paused"},
	} {
		m := &osdmap.Map{Flags: c.flags, Pools: map[int64]*osdmap.Pool{1: {Flags: c.pool, PGNum: 1, PGPNum: 1, Size: 1}}}
		if got := waitReason(m, "data", o, true); !strings.Contains(got, c.write) {
			t.Errorf("%s, write: %q, want %q", c.name, got, c.write)
		}
		if got := waitReason(m, "data", o, false); !strings.Contains(got, c.read) {
			t.Errorf("%s, read: %q, want %q", c.name, got, c.read)
		}
	}
	if got := waitReason(&osdmap.Map{}, "data", o, true); got != "pool data is gone" {
		t.Errorf("no pool: %q", got)
	}
}

func TestObjectErrorNamesThePool(t *testing.T) {
	for _, c := range []struct {
		ns   string
		err  error
		want string
	}{
		{"", &osd.Error{Op: "stat", Err: syscall.ENOENT}, "stat data/x: no such file or directory"},
		{"n", &osd.Error{Op: "read", Err: osd.ErrPoolEIO}, "read data/n/x: pool is set to fail all requests"},
		{"", &osd.Error{Op: "read", Err: syscall.EPERM}, "read data/x: operation not permitted (do the user's osd caps allow it?)"},
	} {
		err := objectError([]string{"data", "x"}, osd.Object{Pool: 7, Namespace: c.ns, Name: "x"}, fmt.Errorf("%w", c.err))
		if err.Error() != c.want || !errors.Is(err, errors.Unwrap(c.err)) {
			t.Errorf("%q, want %q", err, c.want)
		}
	}
}

// The first signal ends the context and is its cause.
func TestInterruptible(t *testing.T) {
	ctx, stop := interruptible(context.Background())
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if context.Cause(ctx) != errInterrupted {
		t.Error(context.Cause(ctx))
	}
	var errs bytes.Buffer
	w := &waiter{args: []string{"data", "x"}, errs: &errs, tick: time.Hour}
	if err := w.do(ctx, func(ctx context.Context) error { return context.Cause(ctx) }); err != errInterrupted || errs.Len() != 0 {
		t.Errorf("%v, %q", err, errs.String())
	}
}
