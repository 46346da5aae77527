package nfs4

import (
	"bytes"
	"encoding/binary"
	"testing"

	"capstan/internal/testutil"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// FuzzCompound runs the operations of any request in a session: whatever they
// are, the result is one that can be read to its end, within its size, with
// statuses that its operations may answer.
func FuzzCompound(f *testing.F) {
	s := newSite(f)
	s.quiet = true
	c := s.newClient(2, "client")
	dir := c.fh("data")
	o := c.create(dir, "file", 0o644)
	for _, r := range fuzzSeeds(dir, o) {
		f.Add(r.n, bytes.Clone(r.e.Bytes()[12:]))
	}
	for _, r := range capturedSeeds(f, []byte(dir), []byte(o.fh)) {
		f.Add(r.n, r.ops)
	}
	f.Fuzz(func(t *testing.T, n uint32, ops []byte) {
		s.tb = t
		if len(ops) > 64<<10 {
			return
		}
		c.seq++
		req := newRequest(2).add(nfsv4.OpSequence, c.session, c.seq, 0, 0, n%2 == 0)
		req.e.Patch32(req.at, n%64+1)
		args := append(bytes.Clone(req.e.Bytes()), ops...)
		call := &rpc.Call{Procedure: nfsv4.ProcCompound, Cred: alice, Size: len(args)}
		call.Args.Reset(args)
		var e xdr.Encoder
		if st := s.srv.Serve(t.Context(), call, &e); st != rpc.Success {
			t.Fatalf("accept status %v", st)
		}
		checkResult(t, e.Bytes())
		if nfsv4.Status(binary.BigEndian.Uint32(e.Bytes()[16:])) == nfsv4.ErrBadSession {
			*c = *s.newClient(2, "client") // the operations can end their session
		}
		e.Reset()
	})
}

// capturedSeed is what stood behind SEQUENCE in a request.
type capturedSeed struct {
	n   uint32 // operations
	ops []byte
}

// capturedSeeds returns the operations of what the Linux client said, with
// handles of ours in the place of those of the server it spoke to.
func capturedSeeds(tb testing.TB, handles ...[]byte) (seeds []capturedSeed) {
	tb.Helper()
	captures, err := testutil.ReadCaptures("../nfstest/testdata/linux-v4*.txt")
	if err != nil {
		tb.Fatal(err)
	}
	const sequence = 4 + 16 + 4*4 // opcode and arguments
	for _, c := range captures {
		for _, r := range c {
			_, _, proc, args, ok := r.Call()
			if !ok || proc != nfsv4.ProcCompound {
				continue
			}
			d := xdr.NewDecoder(args)
			d.Opaque("tag", 1024)
			d.Uint32("minorversion")
			n := d.Uint32("argarray")
			ops := bytes.Clone(d.Rest())
			if !d.OK() || len(ops) > 4096 {
				continue
			}
			if len(ops) >= sequence && nfsv4.Op(binary.BigEndian.Uint32(ops)) == nfsv4.OpSequence {
				n, ops = n-1, ops[sequence:]
			}
			for i, h := range handles {
				seeds = append(seeds, capturedSeed{n, withHandle(ops, h)})
				if i == 0 && !bytes.Contains(ops, putFH(len(h))) {
					break
				}
			}
		}
	}
	return seeds
}

// putFH is how a PUTFH of a handle of n bytes begins.
func putFH(n int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(nfsv4.OpPutFH)), uint32(n))
}

// withHandle returns ops with h in every PUTFH of a handle of that length.
func withHandle(ops, h []byte) []byte {
	out, mark := bytes.Clone(ops), putFH(len(h))
	for at := 0; ; {
		i := bytes.Index(out[at:], mark)
		if i < 0 || at+i+len(mark)+len(h) > len(out) {
			return out
		}
		at += i + len(mark)
		at += copy(out[at:], h)
	}
}

// checkResult reads a result as far as its statuses tell how long it is.
func checkResult(t *testing.T, b []byte) {
	t.Helper()
	if len(b) > 2<<20 || len(b)%4 != 0 {
		t.Fatalf("a result of %d bytes", len(b))
	}
	d := xdr.NewDecoder(b)
	status := nfsv4.Status(d.Uint32("status"))
	d.Opaque("tag", 1024)
	n := d.Uint32("resarray")
	if !d.OK() || n == 0 || n > 65 {
		t.Fatalf("%d results: %v", n, d.Err())
	}
	if n == 1 {
		return
	}
	// The last operation of a failed COMPOUND has no body, but for three.
	if status != nfsv4.OK && len(b) >= 8 {
		op, st := nfsv4.Op(binary.BigEndian.Uint32(b[len(b)-8:])), nfsv4.Status(binary.BigEndian.Uint32(b[len(b)-4:]))
		if st == status {
			o := theOps.find(uint32(op), 2)
			if o != &illegal && !o.allowed.has(st) {
				t.Fatalf("%v answers %v", op, st)
			}
		}
	}
}

func fuzzSeeds(dir string, o opened) []*request {
	at := func() *request { return newRequest(2).add(nfsv4.OpPutFH, dir) }
	file := func() *request { return newRequest(2).add(nfsv4.OpPutFH, o.fh) }
	mode := attrs(bitmap(nfsv4.AttrMode), 0o644)
	return []*request{
		newRequest(2).add(nfsv4.OpPutRootFH).add(nfsv4.OpLookup, "data").add(nfsv4.OpGetFH).add(nfsv4.OpLookupP).
			add(nfsv4.OpGetAttr, attrsOfMinor[2].readable),
		at().add(nfsv4.OpReadDir, uint64(0), nfsv4.Verifier{}, 512, 4096, bitmap(nfsv4.AttrType, nfsv4.AttrFileID, nfsv4.AttrFileHandle)),
		at().add(nfsv4.OpOpen, join(openBy("fuzz", 3, 0), unchecked(bitmap(nfsv4.AttrMode), 0o644), byName("new"))...).
			add(nfsv4.OpWrite, nfsv4.CurrentStateID, uint64(10), nfsv4.Unstable, "payload").add(nfsv4.OpCommit, uint64(0), 0).
			add(nfsv4.OpRead, nfsv4.CurrentStateID, uint64(0), 100).add(nfsv4.OpClose, 0, nfsv4.CurrentStateID),
		at().add(nfsv4.OpOpen, join(openBy("fuzz", 1, 0), exclusive1(nfsv4.Verifier{1}, bitmap(nfsv4.AttrMode), 0o600), byName("excl"))...).
			add(nfsv4.OpOpenDowngrade, nfsv4.CurrentStateID, 0, 1, 0),
		file().add(nfsv4.OpOpen, join(openBy("fuzz", 3, 0), noCreate(), []any{nfsv4.ClaimFH})...).
			add(nfsv4.OpLock, lockNew(nfsv4.LockWrite, 0, 100, nfsv4.CurrentStateID, "l")...).
			add(nfsv4.OpLockU, nfsv4.LockWrite, 0, nfsv4.CurrentStateID, uint64(0), uint64(50)),
		file().add(nfsv4.OpLockT, nfsv4.LockRead, uint64(0), toEnd, uint64(0), "l").add(nfsv4.OpAccess, 0x1ff),
		at().add(nfsv4.OpCreate, 2, "d", mode).add(nfsv4.OpCreate, 5, "target", "l", mode).add(nfsv4.OpReadLink),
		at().add(nfsv4.OpCreate, 4, 1, 3, "c", mode).add(nfsv4.OpGetAttr, bitmap(nfsv4.AttrRawDev)),
		at().add(nfsv4.OpSaveFH).add(nfsv4.OpRename, "new", "old").add(nfsv4.OpRemove, "old").add(nfsv4.OpRestoreFH),
		file().add(nfsv4.OpSaveFH).add(nfsv4.OpPutFH, dir).add(nfsv4.OpLink, "hard").add(nfsv4.OpSecInfo, "hard"),
		file().add(nfsv4.OpSetAttr, o.id, attrs(bitmap(nfsv4.AttrSize, nfsv4.AttrOwner, nfsv4.AttrTimeModifySet), uint64(5), "1000", 1, int64(1), 2)),
		file().add(nfsv4.OpVerify, mode).add(nfsv4.OpNVerify, mode),
		file().add(nfsv4.OpSeek, nfsv4.AnonymousStateID, uint64(0), 1).add(nfsv4.OpAllocate, nfsv4.AnonymousStateID, uint64(0), uint64(10)).
			add(nfsv4.OpDeallocate, nfsv4.AnonymousStateID, uint64(0), uint64(10)).add(nfsv4.OpIOAdvise, nfsv4.AnonymousStateID, uint64(0), uint64(1), bitmap(1)),
		file().add(nfsv4.OpSetXattr, 0, "x", "value").add(nfsv4.OpGetXattr, "x").add(nfsv4.OpListXattrs, uint64(0), 100).add(nfsv4.OpRemoveXattr, "x"),
		newRequest(2).add(nfsv4.OpTestStateID, 1, o.id).add(nfsv4.OpFreeStateID, o.id).add(nfsv4.OpReclaimComplete, false),
		newRequest(2).add(nfsv4.OpExchangeID, exchangeID("other", 1)...).add(nfsv4.OpBackChannelCtl, 1, 1, 0),
		at().add(nfsv4.OpSecInfoNoName, 0),
	}
}
