package nfs4

import (
	"bytes"
	"encoding/binary"
	"testing"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// looper returns a function that runs one request, with the next sequence
// number each time, as a server does it: everything but the record and its
// header.
func looper(c *client, req *request) func() {
	args := bytes.Clone(req.e.Bytes())
	const seqAt = 12 + 4 + 16 // head, operation, session id
	call := &rpc.Call{Version: 4, Procedure: nfsv4.ProcCompound, Cred: root, Size: len(args) + 64}
	ctx := c.tb.Context()
	var e xdr.Encoder
	var vectors [8][]byte
	c.seq--
	return func() {
		c.seq++
		binary.BigEndian.PutUint32(args[seqAt:], c.seq)
		call.Args.Reset(args)
		if st := c.srv.Serve(ctx, call, &e); st != rpc.Success {
			c.tb.Fatalf("accept status %v", st)
		}
		head := e.Vectors(vectors[:0])[0] // payloads are not copied together
		if st := nfsv4.Status(binary.BigEndian.Uint32(head)); st != nfsv4.OK {
			c.tb.Fatal(st)
		}
		e.Reset()
	}
}

func loop(b *testing.B, c *client, req *request) {
	once := looper(c, req)
	for b.Loop() {
		once()
	}
}

func BenchmarkGetAttr(b *testing.B) {
	c := newSite(b).newClient(2, "client")
	o := c.create(c.fh("data"), "file", 0o644)
	// What the Linux client asks for.
	want := nfsv4.BitmapOf(nfsv4.AttrType, nfsv4.AttrChange, nfsv4.AttrSize, nfsv4.AttrFSID, nfsv4.AttrFileID,
		nfsv4.AttrMode, nfsv4.AttrNumLinks, nfsv4.AttrOwner, nfsv4.AttrOwnerGroup, nfsv4.AttrRawDev, nfsv4.AttrSpaceUsed,
		nfsv4.AttrTimeAccess, nfsv4.AttrTimeMetadata, nfsv4.AttrTimeModify, nfsv4.AttrMountedOnFileID)
	b.ReportAllocs()
	loop(b, c, c.on(o.fh).add(nfsv4.OpGetAttr, want))
}

func BenchmarkLookup(b *testing.B) {
	c := newSite(b).newClient(2, "client")
	dir := c.fh("data")
	c.create(dir, "file", 0o644)
	b.ReportAllocs()
	loop(b, c, c.on(dir).add(nfsv4.OpLookup, "file").add(nfsv4.OpGetFH).add(nfsv4.OpGetAttr, nfsv4.BitmapOf(nfsv4.AttrType, nfsv4.AttrChange)))
}

func BenchmarkRead1MiB(b *testing.B) {
	c := newSite(b).newClient(2, "client")
	o := c.create(c.fh("data"), "file", 0o644)
	c.quiet = true
	c.write(o, 0, string(make([]byte, 1<<20)), nfsv4.FileSync)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	loop(b, c, c.on(o.fh).add(nfsv4.OpRead, o.id, uint64(0), 1<<20))
}

func BenchmarkWrite1MiB(b *testing.B) {
	c := newSite(b).newClient(2, "client")
	o := c.create(c.fh("data"), "file", 0o644)
	c.quiet = true
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	loop(b, c, c.on(o.fh).add(nfsv4.OpWrite, o.id, uint64(0), nfsv4.Unstable, string(make([]byte, 1<<20))))
}

func BenchmarkReadDir1000(b *testing.B) {
	c := newSite(b).newClient(2, "client")
	dir := c.fh("data")
	for i := range 1000 {
		c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 2, "directory"+string(rune('a'+i%26))+string(rune('a'+i/26)), attrs(bitmap()))
	}
	b.ReportAllocs()
	loop(b, c, c.on(dir).add(nfsv4.OpReadDir, uint64(0), nfsv4.Verifier{}, 1<<20, 1<<20, nfsv4.BitmapOf(nfsv4.AttrType, nfsv4.AttrFileID, nfsv4.AttrChange, nfsv4.AttrOwner)))
}
