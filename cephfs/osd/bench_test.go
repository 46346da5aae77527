package osd

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// benchClient is a client of a scripted OSD that answers at once.
func benchClient(b *testing.B) *Client {
	net := cephtest.NewNetwork()
	addrs := denc.AddrVec{{Type: denc.AddrMsgr2, Host: netip.MustParseAddrPort("192.0.2.1:6800")}}
	o := net.NewOSD(0, addrs, cephtest.NewObjects(), nil)
	data := make([]byte, 4<<20)
	o.Script(func(rq *cephtest.OSDRequest) {
		r := rq.Refuse(0)
		if rq.Ops[0].Code == cephtest.OpRead {
			r.Outs[0] = data[:rq.Ops[0].Length()]
		}
		r.Send()
	})
	src := &fakeSource{current: &fakeMap{
		epoch: 1,
		pools: map[int64]fakePool{1: {Pool{PGs: 8, ReadTier: -1, WriteTier: -1}, func(uint32) []int32 { return []int32{0} }}},
		addrs: map[int32]denc.AddrVec{0: addrs},
	}}
	m := msgr.New(msgr.Options{Auth: &cephtest.StaticAuth{}, Dial: net.Dial})
	c := New(Options{Messenger: m, Maps: src})
	b.Cleanup(func() { c.Close(); m.Close(); o.Close() })
	return c
}

// BenchmarkDo counts the scripted OSD's work too: its allocations, which are
// some 20, are not the client's.
func BenchmarkDo(b *testing.B) {
	for _, size := range []int{4 << 10, 4 << 20} {
		for _, write := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%d/write=%v", size, write), func(b *testing.B) {
				c := benchClient(b)
				buf := make([]byte, size)
				o := Object{Pool: 1, Name: "object"}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if write {
						err = c.Write(b.Context(), o, 0, buf)
					} else {
						_, err = c.Read(b.Context(), o, 0, buf)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkLive is a real cluster's, that of CAPSTAN_TEST_CEPH_CONF: objects of
// 4 KiB and 4 MiB, with 1, 16 and 64 operations under way.
func BenchmarkLive(b *testing.B) {
	k := live(b, 0, nil)
	pool, _ := k.pool(false)
	const objects = 64
	for _, size := range []int{4 << 10, 4 << 20} {
		buf := make([]byte, size)
		for i := range objects {
			if err := k.c.WriteFull(b.Context(), Object{Pool: pool, Name: fmt.Sprint(size, ".", i)}, buf); err != nil {
				b.Fatal(err)
			}
		}
		for _, write := range []bool{false, true} {
			for _, depth := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("size=%d/write=%v/depth=%d", size, write, depth), func(b *testing.B) {
					b.SetBytes(int64(size))
					b.ReportAllocs()
					var wg sync.WaitGroup
					var next atomic.Int64
					for range depth {
						wg.Go(func() {
							buf := make([]byte, size)
							for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
								o := Object{Pool: pool, Name: fmt.Sprint(size, ".", i%objects)}
								var err error
								if write {
									err = k.c.WriteFull(b.Context(), o, buf)
								} else {
									_, err = k.c.Read(b.Context(), o, 0, buf)
								}
								if err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
				})
			}
		}
	}
}

// BenchmarkClientAlone is a request's way through the client without a network:
// admitted, placed, encoded, chained, matched with its reply and completed.
func BenchmarkClientAlone(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			c := benchClient(b)
			if err := c.Write(b.Context(), Object{Pool: 1, Name: "warm"}, 0, nil); err != nil {
				b.Fatal(err)
			}
			c.SetBarrier(1 << 30) // nothing is sent
			b.ReportAllocs()
			var wg sync.WaitGroup
			for g := range n {
				wg.Go(func() {
					o := Object{Pool: 1, Name: fmt.Sprint("object", g)}
					done := func(*Reply, error) {}
					buf := make([]byte, 4096)
					for range b.N / n {
						var op Op
						op.ReadInto(0, buf)
						r, err := c.submit(b.Context(), o, &op, done, false)
						if err != nil {
							b.Error(err)
							return
						}
						c.cancel(r, nil)
					}
				})
			}
			wg.Wait()
		})
	}
}
