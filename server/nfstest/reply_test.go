package nfstest

import (
	"bytes"
	"testing"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// FuzzParseReply: no result of a COMPOUND panics, or takes more memory than it
// has bytes.
func FuzzParseReply(f *testing.F) {
	var e xdr.Encoder
	put(&e, int(nfsv4.OK), "tag", 2, uint32(nfsv4.OpPutRootFH), 0, uint32(nfsv4.OpReadDir), 0,
		nfsv4.Verifier{}, true, uint64(3), "name", Size(1), false, true)
	f.Add(bytes.Clone(e.Bytes()))
	e.Reset()
	put(&e, uint32(nfsv4.ErrDenied), "", 1, uint32(nfsv4.OpLock), uint32(nfsv4.ErrDenied), uint64(0), uint64(1), 2, uint64(7), "owner")
	f.Add(bytes.Clone(e.Bytes()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ParseReply(raw)
		if err != nil {
			return
		}
		for _, res := range r.Results {
			_ = res.String()
		}
	})
}

func FuzzReadCapture(f *testing.F) {
	f.Add([]byte("# text\n> 4\n00010203\n< 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ReadCapture(bytes.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if _, err := c.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		again, err := ReadCapture(&b)
		if err != nil || len(again) != len(c) {
			t.Fatalf("%d messages written and %d read: %v", len(c), len(again), err)
		}
	})
}
