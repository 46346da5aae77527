package nfs4

import (
	"strings"
	"testing"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

// Reads at and across the end of the file: as many bytes as there are, eof
// whenever the range reaches the end, and always an answer.
func TestReadAtEndOfFile(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "ten", 0o644)
		c.write(o, 0, "0123456789", nfsv4.FileSync)
		for _, x := range []struct {
			off   uint64
			count uint32
			want  string
			eof   bool
		}{
			{0, 4096, "0123456789", true}, {5, 5, "56789", true}, {5, 6, "56789", true}, {5, 4, "5678", false},
			{9, 1, "9", true}, {10, 1, "", true}, {10, 0, "", true}, {0, 0, "", false}, {11, 1, "", true},
			{1 << 63, 1, "", true}, {1<<63 - 1, 1, "", true}, {1<<64 - 1, 1<<32 - 1, "", true},
		} {
			for _, id := range []nfsv4.StateID{o.id, nfsv4.AnonymousStateID, nfsv4.BypassStateID} {
				if data, eof := c.read(o.fh, id, x.off, x.count); data != x.want || eof != x.eof {
					t.Errorf("READ (%d, %d): %q, eof %v", x.off, x.count, data, eof)
				}
			}
		}
		empty := c.create(dir, "empty", 0o644)
		if data, eof := c.read(empty.fh, empty.id, 0, 4096); data != "" || !eof {
			t.Errorf("empty file: %q, eof %v", data, eof)
		}
		full := c.create(dir, "full", 0o644)
		c.write(full, 0, strings.Repeat("x", 1<<20), nfsv4.FileSync)
		if data, eof := c.read(full.fh, full.id, 0, 1<<20); len(data) != 1<<20 || !eof {
			t.Errorf("file of rsize bytes: %d, eof %v", len(data), eof)
		}
		if data, eof := c.read(full.fh, full.id, 0, 1<<20-1); len(data) != 1<<20-1 || eof {
			t.Errorf("one byte less: %d, eof %v", len(data), eof)
		}
		// Larger than offered: cut.
		if data, eof := c.read(full.fh, full.id, 0, 1<<20+1); len(data) != 1<<20 || !eof {
			t.Errorf("one byte more than offered: %d, eof %v", len(data), eof)
		}
		c.expect(nfsv4.OK, empty.fh, nfsv4.OpSetAttr, empty.id, attrs(bitmap(nfsv4.AttrSize), uint64(5000)))
		if data, eof := c.read(empty.fh, empty.id, 4000, 4096); data != string(make([]byte, 1000)) || !eof {
			t.Errorf("hole at the end: %d bytes, eof %v", len(data), eof)
		}
	})
}

// One verifier for all unstable writes and the COMMIT; what is committed is
// never less than what was asked, and the change attribute moves at each write
// that writes something.
func TestWriteStabilityAndChange(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "file", 0o644)
		change := c.attr(o.fh, nfsv4.AttrChange)
		step := func(data string, stable uint32, moves bool) nfsv4.Verifier {
			t.Helper()
			committed, v := c.write(o, 0, data, stable)
			if committed < stable {
				t.Errorf("committed %d, asked %d", committed, stable)
			}
			now := c.attr(o.fh, nfsv4.AttrChange)
			if (now != change) != moves {
				t.Errorf("change %d after %d, writing %q", now, change, data)
			}
			change = now
			return v
		}
		first := step("a", nfsv4.Unstable, true)
		for _, v := range []nfsv4.Verifier{
			step("a", nfsv4.Unstable, true), step("", nfsv4.Unstable, false), step("b", nfsv4.FileSync, true),
			step("b", nfsv4.DataSync, true), step("c", nfsv4.Unstable, true),
		} {
			if v != first {
				t.Errorf("verifier %x after %x", v, first)
			}
		}
		r := c.doOn(c.on(o.fh).add(nfsv4.OpCommit, uint64(0), 0)).op(nfsv4.OpCommit, nfsv4.OK)
		if v := nfsv4.DecodeVerifier(&r.Decoder); v != first {
			t.Errorf("COMMIT's verifier %x, WRITE's %x", v, first)
		}
		c.expect(nfsv4.OK, o.fh, nfsv4.OpCommit, uint64(1<<64-1), 1<<32-1)
		c.expect(nfsv4.ErrIsDir, dir, nfsv4.OpCommit, uint64(0), 0)
	})
}

func TestWriteRefused(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "file", 0o644)
		c.expect(nfsv4.ErrBadXDR, o.fh, nfsv4.OpWrite, o.id, uint64(0), 3, "x")
		c.expect(nfsv4.ErrFBig, o.fh, nfsv4.OpWrite, o.id, uint64(1<<63-1), nfsv4.Unstable, "x")
		c.expect(nfsv4.ErrFBig, o.fh, nfsv4.OpWrite, o.id, uint64(1<<64-1), nfsv4.Unstable, "x")
		c.expect(nfsv4.ErrIsDir, dir, nfsv4.OpWrite, nfsv4.AnonymousStateID, uint64(0), nfsv4.Unstable, "x")
		c.expect(nfsv4.ErrIsDir, dir, nfsv4.OpRead, nfsv4.AnonymousStateID, uint64(0), 1)
		read := c.open(dir, openBy("reader", 1, 0), []any{nfsv4.OpenNoCreate}, byName("file"))
		c.expect(nfsv4.ErrOpenMode, o.fh, nfsv4.OpWrite, read.id, uint64(0), nfsv4.Unstable, "x")
		bad := o.id
		bad.Other[5] ^= 1
		c.expect(nfsv4.ErrBadStateID, o.fh, nfsv4.OpWrite, bad, uint64(0), nfsv4.Unstable, "x")
		c.expect(nfsv4.ErrBadStateID, o.fh, nfsv4.OpRead, nfsv4.InvalidStateID, uint64(0), 1)
		c.expect(nfsv4.ErrNoFileHandle, dir, nfsv4.OpRestoreFH)

		ro := c.fh("ro", "file")
		c.expect(nfsv4.ErrROFS, ro, nfsv4.OpWrite, nfsv4.AnonymousStateID, uint64(0), nfsv4.Unstable, "x")
		if data, eof := c.read(ro, nfsv4.AnonymousStateID, 0, 10); data != "" || !eof {
			t.Errorf("read-only export: %q, %v", data, eof)
		}
	})
}

// Without an open the mode counts, but for the owner.
func TestReadWithoutOpenNeedsPermission(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		c.cred = alice
		o := c.create(dir, "mine", 0o000)
		c.write(o, 0, "secret", nfsv4.FileSync)
		if data, _ := c.read(o.fh, nfsv4.AnonymousStateID, 0, 10); data != "secret" {
			t.Errorf("owner reads %q", data)
		}
		c.cred = bob
		c.expect(nfsv4.ErrAccess, o.fh, nfsv4.OpRead, nfsv4.AnonymousStateID, uint64(0), 1)
		c.expect(nfsv4.ErrAccess, o.fh, nfsv4.OpWrite, nfsv4.AnonymousStateID, uint64(0), nfsv4.Unstable, "x")
	})
}

// WRITE of a session smaller than the largest WRITE is refused whole, not cut
// in the middle of the record.
func TestWriteLargerThanOfferedIsCut(t *testing.T) {
	c := newSite(t, func(o *Options, _ *stateOptions) { o.MaxIO = 4096 }).newClient(1, "client")
	o := c.create(c.fh("data"), "file", 0o644)
	r := c.doOn(c.on(o.fh).add(nfsv4.OpWrite, o.id, uint64(0), nfsv4.FileSync, strings.Repeat("x", 5000))).op(nfsv4.OpWrite, nfsv4.OK)
	if n := r.Uint32("count"); n != 4096 {
		t.Errorf("%d bytes written", n)
	}
	if size := c.attr(o.fh, nfsv4.AttrSize); size != 4096 {
		t.Errorf("size %d", size)
	}
}

// reopened is a Volume opened anew: the same objects, another verifier.
type reopened struct{ export.Volume }

func (reopened) WriteVerifier() [8]byte { return [8]byte{1} }

// Between the exchange of the exports and the end of the state on the old ones,
// what is written goes through the old Volume, and a COMMIT by the new one must
// not look as if it had made that safe.
func TestWriteVerifierIsOfTheVolumeWrittenTo(t *testing.T) {
	s := newSite(t)
	c := s.newClient(1, "client")
	dir := c.fh("data")
	old := c.create(dir, "f", 0o644)
	_, before := c.write(old, 0, "a", nfsv4.Unstable)
	vol := reopened{s.vol}
	table, err := export.NewTable(t.Context(), []*export.Export{
		{ID: 1, Path: "/data", Volume: vol, Rules: []export.Rule{export.AllowAll}, Squash: export.SquashNone},
	}, export.After(s.table))
	if err != nil {
		t.Fatal(err)
	}
	s.srv.opts.Exports.Swap(table)
	if _, v := c.write(old, 0, "b", nfsv4.Unstable); v != before {
		t.Errorf("through the old Volume: %x, want %x", v, before)
	}
	if _, v := c.write(c.create(dir, "g", 0o644), 0, "c", nfsv4.Unstable); v != vol.WriteVerifier() {
		t.Errorf("through the new Volume: %x", v)
	}
	r := c.doOn(c.on(old.fh).add(nfsv4.OpCommit, uint64(0), 0)).op(nfsv4.OpCommit, nfsv4.OK)
	if v := nfsv4.DecodeVerifier(&r.Decoder); v != vol.WriteVerifier() {
		t.Errorf("COMMIT: %x", v)
	}
	old.id = nfsv4.AnonymousStateID
	if _, v := c.write(old, 0, "d", nfsv4.Unstable); v != vol.WriteVerifier() {
		t.Errorf("without a stateid: %x", v)
	}
}
