package nfs3

import (
	"bytes"
	"fmt"
	"testing"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// benchmark repeats one call without the RPC layer.
func benchmark(b *testing.B, bed *bed, proc uint32, args args3, bytes int64) {
	b.Helper()
	p := bed.server.NFS()
	rc := &rpc.Call{Program: Program, Version: 3, Procedure: proc, Cred: user(1000, 1000, 10, 20, 30)}
	var e xdr.Encoder
	b.SetBytes(bytes)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		rc.Args.Reset(args)
		if stat := p.Serve(bed.ctx, rc, &e); stat != rpc.Success {
			b.Fatal(stat)
		}
		e.Reset()
	}
}

func BenchmarkGetAttr(b *testing.B) {
	bed := newBed(b)
	benchmark(b, bed, procGetAttr, enc().fh(bed.create(bed.root, "f", 0o644)), 0)
}

func BenchmarkLookup(b *testing.B) {
	bed := newBed(b)
	bed.create(bed.root, "f", 0o644)
	benchmark(b, bed, procLookup, enc().fh(bed.root).str("f"), 0)
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dK", size>>10), func(b *testing.B) {
			bed := newBed(b)
			f := bed.create(bed.root, "f", 0o644)
			bed.write(f, 0, string(bytes.Repeat([]byte("x"), size)), export.Unstable)
			benchmark(b, bed, procRead, enc().fh(f).u64(0).u32(uint32(size)), int64(size))
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dK", size>>10), func(b *testing.B) {
			bed := newBed(b)
			f := bed.create(bed.root, "f", 0o666)
			data := string(bytes.Repeat([]byte("x"), size))
			benchmark(b, bed, procWrite, enc().fh(f).u64(0).u32(uint32(size)).u32(0).str(data), int64(size))
		})
	}
}

func BenchmarkReadDirPlus(b *testing.B) {
	bed := newBed(b)
	d := bed.mkdir(bed.root, "d", 0o755)
	for i := range 1000 {
		bed.create(d, fmt.Sprintf("file-%04d", i), 0o644)
	}
	benchmark(b, bed, procReadDirPlus, enc().fh(d).u64(0).u64(0).u32(32<<10).u32(128<<10), 0)
}

// TestAllocations holds the hot calls to what they may allocate in this layer
// and the memory volume together.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates, and drops pooled objects at random")
	}
	bed := newBed(t)
	f := bed.create(bed.root, "f", 0o644)
	bed.write(f, 0, "data", export.Unstable)
	p := bed.server.NFS()
	for _, c := range []struct {
		proc uint32
		args args3
		max  float64
	}{
		{procGetAttr, enc().fh(f), 2},
		{procAccess, enc().fh(f).u32(0x3f), 2},
		{procRead, enc().fh(f).u64(0).u32(4096), 4},
	} {
		rc := &rpc.Call{Procedure: c.proc, Cred: user(1000, 1000, 10, 20, 30)}
		var e xdr.Encoder
		got := testing.AllocsPerRun(200, func() {
			rc.Args.Reset(c.args)
			p.Serve(bed.ctx, rc, &e)
			e.Reset()
		})
		if got > c.max {
			t.Errorf("%s: %v allocations, at most %v", procedures[c.proc].name, got, c.max)
		}
	}
}
