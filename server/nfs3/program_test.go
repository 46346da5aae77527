package nfs3

import (
	"testing"

	"capstan/server/rpc"
	"capstan/server/xdr"
)

func TestNull(t *testing.T) {
	b := newBed(t)
	for _, p := range []rpc.Program{b.server.NFS(), b.server.Mount()} {
		stat, out := b.serve(p, rpc.Credential{}, 0, nil)
		if stat != rpc.Success || len(out) != 0 {
			t.Errorf("program %d: %v, %d bytes", p.Number(), stat, len(out))
		}
		if low, high := p.Versions(); low != 3 || high != 3 {
			t.Errorf("program %d: versions %d to %d", p.Number(), low, high)
		}
	}
}

func TestProcUnavail(t *testing.T) {
	b := newBed(t)
	for _, c := range []struct {
		p    rpc.Program
		proc uint32
	}{{b.server.NFS(), 22}, {b.server.NFS(), ^uint32(0)}, {b.server.Mount(), 6}} {
		if stat, _ := b.serve(c.p, superuser, c.proc, nil); stat != rpc.ProcUnavail {
			t.Errorf("program %d procedure %d: %v", c.p.Number(), c.proc, stat)
		}
	}
}

// TestGarbageArgs: arguments cut off anywhere, and arguments with something
// behind them, are garbage in every procedure, and nothing is done.
func TestGarbageArgs(t *testing.T) {
	b := newBed(t)
	for proc := uint32(1); proc < uint32(len(procedures)); proc++ {
		s := subjects[proc]
		args := s.args(newBed(t).target(proc), s.name)
		for n := 0; n <= len(args); n++ {
			in := args[:n:n]
			if n == len(args) {
				in = in.u32(0)
			}
			if stat, _ := b.serve(b.server.NFS(), superuser, proc, in); stat != rpc.GarbageArgs {
				t.Errorf("%s: %d of %d bytes: %v", procedures[proc].name, n, len(args), stat)
			}
		}
	}
	for name, c := range map[string]struct {
		proc uint32
		args args3
	}{
		"handle of 65 bytes": {procGetAttr, enc().fh(make([]byte, 65))},
		"handle of 4 GiB":    {procGetAttr, enc().u32(1<<32 - 1)},
		"bool":               {procSetAttr, enc().fh(b.root).u32(2)},
		"time_how":           {procSetAttr, enc().fh(b.root).u32(0).u32(0).u32(0).u32(0).u32(3)},
		"stable_how":         {procWrite, enc().fh(b.root).u64(0).u32(1).u32(3).str("x")},
		"createmode":         {procCreate, enc().fh(b.root).str("x").u32(3)},
		"name of 65537":      {procLookup, enc().fh(b.root).str(string(make([]byte, 65537)))},
	} {
		if stat, _ := b.serve(b.server.NFS(), superuser, c.proc, c.args); stat != rpc.GarbageArgs {
			t.Errorf("%s: %v", name, stat)
		}
	}
	for proc, args := range map[uint32]args3{
		mountMnt: enc().str(string(make([]byte, 1025))), mountUmnt: nil, mountDump: enc().u32(0), mountExport: enc().u32(0),
	} {
		if stat, _ := b.serve(b.server.Mount(), superuser, proc, args); stat != rpc.GarbageArgs {
			t.Errorf("MOUNT %d: %v", proc, stat)
		}
	}
}

// TestReplyKeepsHeader: what stands in the reply before the call stays, also
// when the call fails after it has encoded.
func TestReplyKeepsHeader(t *testing.T) {
	b := newBed(t)
	b.vol.fail["ReadDir"] = errTest
	rc := &rpc.Call{Procedure: procReadDir, Cred: superuser}
	rc.Args.Reset(enc().fh(b.root).u64(0).u64(0).u32(4096))
	var e xdr.Encoder
	e.String("header")
	b.server.NFS().Serve(b.ctx, rc, &e)
	d := xdr.NewDecoder(e.Bytes())
	if s := d.String("header", 10); s != "header" || Status(d.Uint32("status")) != ErrIO {
		t.Errorf("%x", e.Bytes())
	}
}

type testError struct{}

func (testError) Error() string { return "test" }

var errTest = testError{}

// TestReadPayloadReleased: data of READ leave as their own vector, and their
// buffer is given back once.
func TestReadPayloadReleased(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	b.write(f, 0, "data", 2)
	rc := &rpc.Call{Procedure: procRead, Cred: superuser}
	rc.Args.Reset(enc().fh(f).u64(0).u32(100))
	var e xdr.Encoder
	b.server.NFS().Serve(b.ctx, rc, &e)
	if n := len(e.Vectors(nil)); n != 2 {
		t.Errorf("%d vectors: the payload was not spliced", n)
	}
	e.Reset() // a second Release of a buffer panics
}
