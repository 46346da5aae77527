package osd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"capstan/cephfs/mon"
	"capstan/cephfs/msgr"
)

// TestLiveRoughNetwork has users work behind a proxy, a process of its own, that
// cuts every connection to monitors and OSDs in the middle of a message and
// passes bytes on late and in pieces: CAPSTAN_TEST_PROXY is its address. Some
// share a few objects, some have large ones, one asks the monitors.
func TestLiveRoughNetwork(t *testing.T) {
	if os.Getenv("CAPSTAN_TEST_PROXY") == "" {
		t.Skip("CAPSTAN_TEST_PROXY names no proxy")
	}
	ops := int(envNumber(t, "CAPSTAN_TEST_OPS", 500))
	seed := envNumber(t, "CAPSTAN_TEST_SEED", rand.Uint64()>>16)
	t.Logf("CAPSTAN_TEST_SEED=%d CAPSTAN_TEST_OPS=%d", seed, ops)
	for _, mode := range []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure} {
		for _, erasure := range []bool{false, true} {
			t.Run(fmt.Sprintf("secure=%v,erasure=%v", mode == msgr.ModeSecure, erasure), func(t *testing.T) {
				k := live(t, mode, nil)
				pool, _ := k.pool(erasure)
				roughNetwork(t, k, pool, ops, seed)
			})
		}
	}
}

func roughNetwork(t *testing.T, k *cluster, pool int64, ops int, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var users sync.WaitGroup
	h := newHistory()
	const sharing = 16
	for u := range sharing {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(u)))
			known := map[string]*string{}
			for i := range ops / sharing {
				o := Object{Pool: pool, Name: fmt.Sprint("object", rng.IntN(ops/100+1))}
				if known[o.Name] == nil {
					known[o.Name] = new(string)
				}
				// Some do not wait long, and never know what became of it.
				opCtx, cancel := ctx, context.CancelFunc(func() {})
				if rng.IntN(20) == 0 {
					opCtx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
				}
				err := h.register(opCtx, k.c, o, rng, fmt.Sprintf("u%02d.%06d", u, i), known[o.Name])
				cancel()
				if err != nil && !(errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil) {
					t.Errorf("user %d: %v", u, err)
					return
				}
			}
		})
	}
	for u := range 4 {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 100+uint64(u)))
			o := Object{Pool: pool, Name: fmt.Sprint("large", u)}
			data, got := make([]byte, 64<<10), make([]byte, 64<<10+1)
			for i := range ops / 50 {
				for j := range data {
					data[j] = byte(rng.Uint32())
				}
				size := 1 + rng.IntN(len(data))
				if err := k.c.WriteFull(ctx, o, data[:size]); err != nil {
					t.Errorf("%s, write %d: %v", o.Name, i, err)
					return
				}
				if n, err := k.c.Read(ctx, o, 0, got); err != nil || !bytes.Equal(got[:n], data[:size]) {
					t.Errorf("%s, write %d of %d bytes: %d are read, %v", o.Name, i, size, n, err)
					return
				}
			}
		})
	}
	over := make(chan struct{})
	var asking sync.WaitGroup
	asked := 0
	asking.Go(func() {
		for {
			if _, err := k.mon.Command(ctx, mon.Command{Args: mon.Args{"prefix": "osd dump"}}); err != nil {
				t.Errorf("osd dump: %v", err)
				return
			}
			asked++
			select {
			case <-over:
				return
			default:
			}
		}
	})
	users.Wait()
	close(over)
	asking.Wait()
	t.Logf("%+v, %d commands", k.c.Stats(), asked)
	h.check(t)
	if n := k.c.Outstanding(); n != 0 {
		t.Errorf("%d operations are left", n)
	}
}
