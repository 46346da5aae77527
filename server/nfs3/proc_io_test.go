package nfs3

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"capstan/export"
	"capstan/server/rpc"
)

func (b *bed) read(fh []byte, off uint64, count uint32) *reply3 {
	b.t.Helper()
	return b.ok(procRead, enc().fh(fh).u64(off).u32(count))
}

// TestReadBoundaries: length and eof at, across and behind the end.
func TestReadBoundaries(t *testing.T) {
	b := newBedWith(t, Options{MaxRead: 8192})
	ten := b.create(b.root, "ten", 0o644)
	b.write(ten, 0, "0123456789", export.FileSync)
	empty := b.create(b.root, "empty", 0o644)
	full := b.create(b.root, "full", 0o644)
	b.write(full, 0, strings.Repeat("x", 8192), export.FileSync)
	holed := b.create(b.root, "holed", 0o644)
	b.write(holed, 0, "abc", export.FileSync)
	b.ok(procSetAttr, enc().fh(holed).sattr(export.SetAttr{Set: export.SetSize, Size: 10}).bool(false))
	for _, c := range []struct {
		name  string
		fh    []byte
		off   uint64
		count uint32
		data  string
		eof   bool
	}{
		{"ten", ten, 0, 4096, "0123456789", true},
		{"ten", ten, 5, 5, "56789", true},
		{"ten", ten, 5, 6, "56789", true},
		{"ten", ten, 5, 4, "5678", false},
		{"ten", ten, 9, 1, "9", true},
		{"ten", ten, 10, 1, "", true},
		{"ten", ten, 10, 0, "", true},
		{"ten", ten, 0, 0, "", false},
		{"ten", ten, 1 << 63, 1, "", true},
		{"ten", ten, math.MaxUint64, math.MaxUint32, "", true},
		{"ten", ten, 1<<63 - 2, 100, "", true},
		{"empty", empty, 0, 4096, "", true},
		{"empty", empty, 0, 0, "", true},
		{"full", full, 0, 8192, strings.Repeat("x", 8192), true},
		{"full", full, 0, 8191, strings.Repeat("x", 8191), false},
		{"full", full, 0, math.MaxUint32, strings.Repeat("x", 8192), true},
		{"holed", holed, 0, 100, "abc\x00\x00\x00\x00\x00\x00\x00", true},
	} {
		r := b.read(c.fh, c.off, c.count)
		if string(r.data) != c.data || int(r.count) != len(c.data) || r.eof != c.eof {
			t.Errorf("%s (%d, %d): %d bytes, count %d, eof %v; want %d bytes, eof %v", c.name, c.off, c.count,
				len(r.data), r.count, r.eof, len(c.data), c.eof)
		}
		if r.post == nil {
			t.Errorf("%s (%d, %d): no attributes", c.name, c.off, c.count)
		}
	}
}

// TestReadAboveMaximum: what is announced is served, more is cut to it.
func TestReadAboveMaximum(t *testing.T) {
	b := newBedWith(t, Options{MaxRead: 4096})
	f := b.create(b.root, "f", 0o644)
	b.write(f, 0, strings.Repeat("y", 5000), export.Unstable)
	if r := b.read(f, 0, 4096); r.count != 4096 || r.eof {
		t.Errorf("%d bytes, eof %v", r.count, r.eof)
	}
	if r := b.read(f, 0, 1<<30); r.count != 4096 || r.eof {
		t.Errorf("%d bytes, eof %v", r.count, r.eof)
	}
}

func TestWriteAboveMaximum(t *testing.T) {
	b := newBedWith(t, Options{MaxWrite: 4096})
	f := b.create(b.root, "f", 0o644)
	if r := b.write(f, 0, strings.Repeat("y", 4096), export.Unstable); r.count != 4096 {
		t.Errorf("%d bytes of the maximum", r.count)
	}
	if r := b.write(f, 4096, strings.Repeat("z", 4097), export.FileSync); r.count != 4096 {
		t.Errorf("%d bytes of more than the maximum", r.count)
	}
	if a := b.ok(procGetAttr, enc().fh(f)).obj; a.size != 8192 {
		t.Errorf("size %d", a.size)
	}
}

// TestWriteCount: count may say less than there are data, never more.
func TestWriteCount(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	if r := b.ok(procWrite, enc().fh(f).u64(0).u32(2).u32(0).str("abcd")); r.count != 2 {
		t.Errorf("count %d", r.count)
	}
	b.want(ErrInval, superuser, procWrite, enc().fh(f).u64(0).u32(5).u32(0).str("abcd"))
	if r := b.read(f, 0, 10); string(r.data) != "ab" {
		t.Errorf("%q", r.data)
	}
}

// TestWriteStability: never less than asked for, and the Volume that gives
// less is made to commit.
func TestWriteStability(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	for _, weak := range []bool{false, true} {
		b.vol.weak = weak
		for s := export.Unstable; s <= export.FileSync; s++ {
			before := b.vol.syncs.Load()
			r := b.write(f, 0, "x", s)
			if r.stable < uint32(s) {
				t.Errorf("committed %d, asked for %d", r.stable, s)
			}
			if synced := b.vol.syncs.Load() != before; synced != (weak && s != export.Unstable) {
				t.Errorf("weak %v, asked for %d: committed explicitly: %v", weak, s, synced)
			}
		}
	}
	b.vol.fail["Commit"] = export.ErrNoSpc
	b.want(ErrNoSpc, superuser, procWrite, enc().fh(f).u64(0).u32(1).u32(uint32(export.DataSync)).str("x"))
}

func TestWriteNothing(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	b.write(f, 0, "x", export.FileSync)
	before, err := b.vol.GetAttr(b.ctx, export.System(), b.object(f), export.MaskAll)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []export.Stability{export.Unstable, export.FileSync} {
		if r := b.write(f, math.MaxUint64, "", s); r.count != 0 || r.stable != uint32(s) {
			t.Errorf("count %d, committed %d", r.count, r.stable)
		}
	}
	b.want(ErrAccess, nobody, procWrite, enc().fh(f).u64(0).u32(0).u32(0).str(""))
	if after, _ := b.vol.GetAttr(b.ctx, export.System(), b.object(f), export.MaskAll); after != before {
		t.Error("writing nothing changed the file")
	}
}

// TestVerifier: WRITE and COMMIT agree until something was lost, and then they
// differ.
func TestVerifier(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	first := b.write(f, 0, "x", export.Unstable).verf
	for i := range 16 {
		if v := b.write(f, uint64(i), "x", export.Unstable).verf; v != first {
			t.Fatalf("WRITE %d: verifier %x, was %x", i, v, first)
		}
	}
	commit := enc().fh(f).u64(0).u32(0)
	if v := b.ok(procCommit, commit).verf; v != first {
		t.Errorf("COMMIT: verifier %x, was %x", v, first)
	}
	b.vol.fail["Commit"] = export.ErrDQuot
	b.want(ErrDQuot, superuser, procCommit, commit)
	delete(b.vol.fail, "Commit")
	if v := b.ok(procCommit, commit).verf; v == first {
		t.Error("COMMIT after a failed one: the verifier of before")
	}
	if first == ([8]byte{}) {
		t.Error("verifier is 0")
	}
}

func TestCommitRanges(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o600)
	b.write(f, 0, "x", export.Unstable)
	for _, off := range []uint64{0, 1, 1 << 62, math.MaxInt64, math.MaxUint64} {
		for _, count := range []uint32{0, 1, math.MaxUint32} {
			b.ok(procCommit, enc().fh(f).u64(off).u32(count))
		}
	}
	// Whoever wrote may have lost the permission since.
	b.want(OK, nobody, procCommit, enc().fh(f).u64(0).u32(0))
	b.want(OK, superuser, procCommit, enc().fh(b.via(idRO, f)).u64(0).u32(0))
	b.want(ErrInval, superuser, procCommit, enc().fh(b.root).u64(0).u32(0))
}

// TestOwnerOverride: the owner reads and writes whatever the mode says, one
// who may execute reads, others follow the mode.
func TestOwnerOverride(t *testing.T) {
	b := newBed(t)
	for _, mode := range []uint32{0o444, 0o000, 0o200, 0o711} {
		f := b.create(b.root, fmt.Sprintf("%o", mode), mode)
		b.chown(f, 1000, 1000)
		b.want(OK, nobody, procWrite, enc().fh(f).u64(0).u32(4).u32(2).str("data"))
		if r := b.want(OK, nobody, procRead, enc().fh(f).u64(0).u32(9)); string(r.data) != "data" {
			t.Errorf("mode %o: %q", mode, r.data)
		}
		other := user(1001, 1001)
		b.want(ErrAccess, other, procWrite, enc().fh(f).u64(0).u32(4).u32(2).str("evil"))
		reads := ErrAccess
		if mode&0o5 != 0 {
			reads = OK
		}
		b.want(reads, other, procRead, enc().fh(f).u64(0).u32(9))
	}
}

// TestStaleOpenFile: a cached open file whose Volume was reconnected is opened
// again, once.
func TestStaleOpenFile(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	b.write(f, 0, "x", export.Unstable)
	opened := b.vol.opens.Load()
	b.vol.fail["WriteAt"] = export.ErrStale
	b.want(ErrStale, superuser, procWrite, enc().fh(f).u64(0).u32(1).u32(0).str("y"))
	if n := b.vol.opens.Load() - opened; n != 1 {
		t.Errorf("opened again %d times", n)
	}
}

// TestRemovedFileIsStale: no cached open file keeps a removed one alive.
func TestRemovedFileIsStale(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	g := b.create(b.root, "g", 0o644)
	b.write(f, 0, "f", export.Unstable)
	b.write(g, 0, "g", export.Unstable)
	b.ok(procRename, enc().fh(b.root).str("g").fh(b.root).str("f"))
	b.want(ErrStale, superuser, procRead, enc().fh(f).u64(0).u32(1))
	b.read(g, 0, 1)
	b.ok(procRemove, enc().fh(b.root).str("f"))
	b.want(ErrStale, superuser, procRead, enc().fh(g).u64(0).u32(1))
	b.want(ErrStale, superuser, procCommit, enc().fh(g).u64(0).u32(0))
}

// TestReadersWhileGrowing: a reply always comes, with whole bytes up to a size
// the file had.
func TestReadersWhileGrowing(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	const (
		readers = 64
		chunk   = 1000
		chunks  = 200
	)
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			var off uint64
			for off < chunk*chunks {
				stat, out := b.serve(b.server.NFS(), superuser, procRead, enc().fh(f).u64(off).u32(4096))
				r, err := parseReply(procRead, out)
				switch {
				case stat != rpc.Success || err != nil || r.status != OK:
					t.Errorf("at %d: %v, %v", off, stat, err)
					return
				case r.count < 4096 && !r.eof:
					t.Errorf("at %d: %d bytes without eof", off, r.count)
					return
				}
				for i, c := range r.data {
					if want := byte((off + uint64(i)) / chunk); c != want {
						t.Errorf("at %d: byte %d, want %d", off+uint64(i), c, want)
						return
					}
				}
				off += uint64(r.count)
			}
		})
	}
	for i := range chunks {
		data := string(bytes.Repeat([]byte{byte(i)}, chunk))
		stat, _ := b.serve(b.server.NFS(), superuser, procWrite, enc().fh(f).u64(uint64(i*chunk)).u32(chunk).u32(0).str(data))
		if stat != rpc.Success {
			t.Fatal(stat)
		}
	}
	wg.Wait()
}
