package osd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestLiveFull fills a cluster until its OSDs say that they are full, and makes
// room again. Nothing that was acknowledged may be lost, and nobody who waits
// be forgotten. It needs a cluster of its own, with small OSDs:
// CAPSTAN_TEST_CEPH_KILL=1 says that this may be done to the one that
// CAPSTAN_TEST_CEPH_CONF names.
func TestLiveFull(t *testing.T) {
	if os.Getenv("CAPSTAN_TEST_CEPH_KILL") == "" {
		t.Skip("CAPSTAN_TEST_CEPH_KILL is not set: the cluster is not to be filled")
	}
	k := live(t, 0, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	pool, name := k.pool(false)
	object := func(name string) Object { return Object{Pool: pool, Name: name} }
	do := func(ctx context.Context, name string, full OnFull, f func(*Op)) error {
		op := &Op{OnFull: full}
		f(op)
		reply, err := k.c.Do(ctx, object(name), op)
		reply.Release()
		return err
	}
	content := func(name string) []byte {
		var seed [32]byte
		copy(seed[:], name)
		b := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8(seed).Read(b) // never fails
		return b
	}

	// Some give up when there is no room, others wait.
	var mu sync.Mutex
	var stored, waited []string // acknowledged; guarded by mu
	var failing, waiting sync.WaitGroup
	room := make(chan struct{}) // closed when there is room again
	write := func(wg *sync.WaitGroup, user string, full OnFull, list *[]string, over <-chan struct{}) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				name := fmt.Sprint(user, ".", i)
				err := do(ctx, name, full, func(op *Op) { op.WriteFull(content(name)) })
				if full == FullFail && errors.Is(err, ErrFull) && errors.Is(err, syscall.ENOSPC) {
					return
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				*list = append(*list, name)
				mu.Unlock()
			}
		})
	}
	const users = 4
	for u := range users {
		write(&failing, fmt.Sprint("fails", u), FullFail, &stored, nil)
		write(&waiting, fmt.Sprint("waits", u), FullWait, &waited, room)
	}
	failing.Wait()
	if t.Failed() {
		close(room)
		return
	}

	// Real OSDs are full, and no quota is at work.
	var dump struct {
		OSDs []struct {
			State []string `json:"state"`
		} `json:"osds"`
		Pools []struct {
			Name  string `json:"pool_name"`
			Flags string `json:"flags_names"`
		} `json:"pools"`
	}
	if err := json.Unmarshal([]byte(k.ceph("osd", "dump", "-f", "json")), &dump); err != nil {
		t.Fatal(err)
	}
	full := 0
	for _, o := range dump.OSDs {
		if slices.Contains(o.State, "full") {
			full++
		}
	}
	if full == 0 {
		t.Errorf("no OSD is full: %+v", dump)
	}
	t.Logf("%d OSDs full, pools %v, %d objects stored", full, dump.Pools, len(stored))

	// All who wait do, also those whose writes were at an OSD when it became
	// full: it drops them.
	for k.c.Outstanding() != users {
		select {
		case <-ctx.Done():
			t.Fatalf("%d operations are under way, want the %d that wait", k.c.Outstanding(), users)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := do(ctx, "more", FullFail, func(op *Op) { op.WriteFull([]byte("x")) }); !errors.Is(err, ErrFull) || errors.Is(err, ErrQuota) {
		t.Errorf("a write that chose ENOSPC: %v", err)
	}
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if err := do(short, "more", FullWait, func(op *Op) { op.WriteFull([]byte("x")) }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write that chose to wait: %v", err)
	}
	if err := do(ctx, "tries", FullTry, func(op *Op) { op.WriteFull(content("tries")) }); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write that the OSD decides on: %v", err)
	}
	if err := do(ctx, "forced", FullForce, func(op *Op) { op.WriteFull([]byte("forced")) }); err != nil {
		t.Errorf("a forced write: %v", err)
	}
	verify := func(names []string) {
		t.Helper()
		b := make([]byte, 1<<20+1)
		for _, name := range names {
			if n, err := k.c.Read(ctx, object(name), 0, b); err != nil || !bytes.Equal(b[:n], content(name)) {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
		}
	}
	// Removing makes room, with leave to do so in a full pool. Of a fast cluster
	// much is left to remove: it took far more than the ratio before it noticed.
	mu.Lock()
	keep := len(stored) - min(8, len(stored)/2)
	gone, kept := slices.Concat(stored[:keep], waited), stored[keep:]
	waited = nil
	mu.Unlock()
	verify(gone)
	began := time.Now()
	for _, name := range gone {
		if err := do(ctx, name, FullTry, func(op *Op) { op.Remove() }); err != nil {
			t.Fatalf("removing %s: %v", name, err)
		}
	}
	for after := 0; after < users; {
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d who waited went on", after, users)
		case <-time.After(20 * time.Millisecond):
		}
		mu.Lock()
		after = len(waited)
		mu.Unlock()
	}
	close(room)
	waiting.Wait()
	t.Logf("%d objects removed, and those who waited went on after %.1f s", len(gone), time.Since(began).Seconds())
	if err := do(ctx, "more", FullFail, func(op *Op) { op.WriteFull([]byte("x")) }); err != nil {
		t.Errorf("a write when there is room: %v", err)
	}
	verify(kept)
	verify(waited)
	for _, name := range gone {
		if _, _, err := k.c.Stat(ctx, object(name)); !IsNotExist(err) {
			t.Errorf("%s was removed: %v", name, err)
		}
	}
	if got := k.rados(nil, "-p", name, "get", waited[len(waited)-1], "-"); got != string(content(waited[len(waited)-1])) {
		t.Errorf("rados reads %d bytes of %s", len(got), waited[len(waited)-1])
	}
	if n := k.c.Outstanding(); n != 0 {
		t.Errorf("%d operations are left", n)
	}
}
