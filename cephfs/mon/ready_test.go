package mon_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/msgr"
)

// TestReadySaysWhy: a wait that ends without a monitor says what the last
// attempt to reach one ended with, also one that was made after the wait began.
func TestReadySaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := auth.New(auth.Options{Name: user})
		if err != nil {
			t.Fatal(err)
		}
		m := msgr.New(msgr.Options{Auth: a, Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			time.Sleep(time.Second)
			return nil, syscall.ECONNREFUSED
		}})
		defer m.Close()
		addr := denc.Addr{Type: denc.AddrMsgr2, Host: netip.MustParseAddrPort("192.0.2.1:3300")}
		c, err := mon.New(mon.Options{Messenger: m, Auth: a, Monitors: []denc.AddrVec{{addr}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		over := errors.New("patience is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, over)
		defer cancel()
		var wg sync.WaitGroup
		for what, wait := range map[string]func() error{
			"Ready":      func() error { return c.Ready(ctx) },
			"Command":    func() error { _, err := c.Command(ctx, mon.Command{Args: mon.Args{"prefix": "status"}}); return err },
			"MgrCommand": func() error { _, err := c.MgrCommand(ctx, mon.Command{Args: mon.Args{"prefix": "status"}}); return err },
		} {
			wg.Go(func() {
				if err := wait(); !errors.Is(err, over) || !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		wg.Wait()
	})
}
