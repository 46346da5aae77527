package nfs3

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// slow is a volume whose Lookup of "slow" waits.
type slow struct {
	*faulty
	entered chan struct{}
	leave   chan struct{}
}

func (v *slow) Lookup(ctx context.Context, c *export.Cred, dir export.Object, name string, m export.AttrMask) (export.Object, export.Attr, error) {
	if name == "slow" {
		v.entered <- struct{}{}
		<-v.leave
	}
	return v.faulty.Lookup(ctx, c, dir, name, m)
}

// TestCallsOvertake: calls of one connection run at the same time, of one user
// and of several, and a slow one holds up no other.
func TestCallsOvertake(t *testing.T) {
	b := newBed(t)
	v := &slow{faulty: b.vol, entered: make(chan struct{}), leave: make(chan struct{})}
	table, err := export.NewTable(b.ctx, []*export.Export{
		{ID: idExport, Path: "/export", Volume: v, Squash: export.SquashNone, Rules: []export.Rule{export.AllowAll}},
	}, export.After(b.table))
	if err != nil {
		t.Fatal(err)
	}
	b.server.exports.Swap(table)
	c := dial(t, listen(t, b), superuser)
	const stuck = 16
	var wg sync.WaitGroup
	for i := range uint32(stuck) {
		wg.Go(func() {
			cred := user(i%3, 0)
			r := c.NewRequestAs(&cred, Program, 3, procLookup)
			r.Args.Append(enc().fh(b.root).str("slow"))
			r.Send()
			reply, err := r.Wait(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			if st := Status(reply.Results.Uint32("status")); st != ErrNoEnt {
				t.Error(st)
			}
			reply.Release()
		})
		<-v.entered
	}
	if out := callTCP(t, c, Program, procGetAttr, enc().fh(b.root)); len(out) != 4+sizeOfAttr {
		t.Errorf("GETATTR beside %d calls that wait: %x", stuck, out)
	}
	close(v.leave)
	wg.Wait()
}

// TestVersionMismatch: another version of the program is not answered as this
// one.
func TestVersionMismatch(t *testing.T) {
	b := newBed(t)
	c := dial(t, listen(t, b), superuser)
	for _, v := range []uint32{2, 4} {
		for _, program := range []uint32{Program, MountProgram} {
			_, err := c.Call(t.Context(), program, v, 1, func(e *xdr.Encoder) { e.Append(enc().fh(b.root)) })
			re, ok := err.(*rpc.ReplyError)
			if !ok || re.Stat != rpc.ProgMismatch || re.Low != 3 || re.High != 3 {
				t.Errorf("program %d version %d: %v", program, v, err)
			}
		}
	}
}

// TestFilesStayOpen: stateless calls share one open file.
func TestFilesStayOpen(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	before := b.vol.opens.Load()
	for i := range 50 {
		b.write(f, uint64(i), "x", export.Unstable)
		b.read(f, 0, 100)
		b.ok(procCommit, enc().fh(f).u64(0).u32(0))
	}
	if n := b.vol.opens.Load() - before; n != 2 {
		t.Errorf("opened %d times, want once to read and once to write", n)
	}
}

// TestUnstableStaysUnstable: what the Volume answers to an unstable WRITE is
// passed on, and nobody commits for the client.
func TestUnstableStaysUnstable(t *testing.T) {
	b := newBed(t)
	b.vol.weak = true
	f := b.create(b.root, "f", 0o644)
	if r := b.write(f, 0, "x", export.Unstable); r.stable != 0 || b.vol.syncs.Load() != 0 {
		t.Errorf("committed %d, %d syncs", r.stable, b.vol.syncs.Load())
	}
	if b.ok(procCommit, enc().fh(f).u64(0).u32(0)); b.vol.syncs.Load() != 1 {
		t.Errorf("%d syncs by COMMIT", b.vol.syncs.Load())
	}
}

// TestMix: many callers do everything to one small tree at once; every reply
// can be read. The race detector looks on.
func TestMix(t *testing.T) {
	b := newBed(t)
	dir := b.mkdir(b.root, "d", 0o777)
	file := b.create(dir, "f", 0o666)
	linkDir = dir
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := range 40 {
				name := fmt.Sprint("n", (worker*7+i)%5)
				for proc := uint32(1); proc < uint32(len(procedures)); proc++ {
					s := subjects[proc]
					fh := file
					if s.onDir {
						fh = dir
					}
					stat, out := b.serve(b.server.NFS(), user(uint32(worker), 0), proc, s.args(fh, name))
					if stat != rpc.Success {
						t.Errorf("%s: %v", procedures[proc].name, stat)
						return
					}
					if _, err := parseReply(proc, out); err != nil {
						t.Errorf("%s: %v", procedures[proc].name, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestReload: calls go on while the exports are swapped, and none of them
// fails on an export that stays.
func TestReload(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	exports := b.table.Exports()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				stat, out := b.serve(b.server.NFS(), superuser, procGetAttr, enc().fh(f))
				if r, err := parseReply(procGetAttr, out); stat != rpc.Success || err != nil || r.status != OK {
					t.Errorf("%v, %v, %+v", stat, err, r)
					return
				}
			}
		})
	}
	old := b.table
	for i := range 100 {
		next, err := export.NewTable(b.ctx, exports[:2+i%3], export.After(old))
		if err != nil {
			t.Fatal(err)
		}
		retired := b.server.exports.Swap(next)
		if err := retired.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		old = next
	}
	close(stop)
	wg.Wait()
}
