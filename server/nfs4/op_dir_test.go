package nfs4

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
)

type listed struct {
	name   string
	cookie uint64
	mask   nfsv4.Bitmap
	fileid uint64
}

// page is the result of one READDIR that asked for fileid.
func (r *reply) page() (entries []listed, eof bool) {
	r.skip(8)
	for r.Bool("more") {
		e := listed{cookie: r.Uint64("cookie"), name: r.String("name", 255)}
		mask, d := r.fattr()
		e.mask = mask
		if mask.Has(nfsv4.AttrFileID) {
			e.fileid = d.Uint64("fileid")
		}
		entries = append(entries, e)
	}
	eof = r.Bool("eof")
	r.end()
	return entries, eof
}

// list lists a directory page by page.
func (c *client) list(fh string, dirCount, maxCount uint32) (all []listed) {
	c.tb.Helper()
	var cookie uint64
	for {
		r := c.doOn(c.on(fh).add(nfsv4.OpReadDir, cookie, nfsv4.Verifier{}, dirCount, maxCount, bitmap(nfsv4.AttrFileID)))
		before := r.Remaining()
		entries, eof := r.op(nfsv4.OpReadDir, nfsv4.OK).page()
		if size := before - 8; size > int(maxCount) {
			c.tb.Fatalf("a page of %d bytes, %d allowed", size, maxCount)
		}
		all = append(all, entries...)
		if eof {
			return all
		}
		if len(entries) == 0 {
			c.tb.Fatal("a page without entries that is not the last")
		}
		cookie = entries[len(entries)-1].cookie
	}
}

// However small the pages are, every name comes once, also those that share an
// inode; the next page begins behind the last entry sent.
func TestReadDirPages(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		var o opened
		for i := range 6 {
			o = c.create(dir, fmt.Sprint("f", i), 0o644)
		}
		for i := range 10 {
			r := c.doOn(c.on(o.fh).add(nfsv4.OpSaveFH).add(nfsv4.OpPutFH, dir).add(nfsv4.OpLink, fmt.Sprint("link", i)))
			r.op(nfsv4.OpSaveFH, nfsv4.OK).op(nfsv4.OpPutFH, nfsv4.OK).op(nfsv4.OpLink, nfsv4.OK)
		}
		for maxCount := uint32(60); maxCount < 1000; maxCount += 28 {
			for _, dirCount := range []uint32{0, 1, 50, 512} {
				seen := map[string]bool{}
				for _, e := range c.list(dir, dirCount, maxCount) {
					if seen[e.name] || e.cookie < 3 || e.cookie > maxCookie {
						t.Fatalf("%q again, or with cookie %d", e.name, e.cookie)
					}
					seen[e.name] = true
				}
				if len(seen) != 16 {
					t.Fatalf("%d names in pages of %d bytes", len(seen), maxCount)
				}
			}
		}
	})
}

func TestReadDirArguments(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "file", 0o644)
		read := func(want nfsv4.Status, fh string, cookie uint64, v nfsv4.Verifier, maxCount uint32, mask nfsv4.Bitmap) {
			t.Helper()
			c.expect(want, fh, nfsv4.OpReadDir, cookie, v, 0, maxCount, mask)
		}
		id, none := bitmap(nfsv4.AttrFileID), nfsv4.Verifier{}
		read(nfsv4.ErrBadCookie, dir, 1, none, 1000, id)
		read(nfsv4.ErrBadCookie, dir, 2, none, 1000, id)
		read(nfsv4.ErrBadCookie, dir, 1<<63, none, 1000, id)
		read(nfsv4.ErrBadCookie, dir, 0, nfsv4.Verifier{1}, 1000, id)
		read(nfsv4.ErrNotSame, dir, 100, nfsv4.Verifier{1}, 1000, id)
		read(nfsv4.ErrTooSmall, dir, 0, none, 0, id)
		read(nfsv4.ErrTooSmall, dir, 0, none, 40, id)
		read(nfsv4.ErrInval, dir, 0, none, 1000, bitmap(nfsv4.AttrTimeModifySet))
		read(nfsv4.ErrNotDir, o.fh, 0, none, 1000, id)
		// At the end, and without attributes.
		r := c.doOn(c.on(dir).add(nfsv4.OpReadDir, uint64(0), none, 0, 1000, nfsv4.Bitmap{})).op(nfsv4.OpReadDir, nfsv4.OK)
		entries, eof := r.page()
		if len(entries) != 1 || !eof {
			t.Fatalf("%v, eof %v", entries, eof)
		}
		r = c.doOn(c.on(dir).add(nfsv4.OpReadDir, entries[0].cookie, none, 0, 16, id)).op(nfsv4.OpReadDir, nfsv4.OK)
		if entries, eof = r.page(); len(entries) != 0 || !eof {
			t.Fatalf("behind the last entry: %v, eof %v", entries, eof)
		}
		c.cred = alice
		c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 2, "private", attrs(bitmap(nfsv4.AttrMode), 0o700))
		private := c.fh("data", "private")
		c.cred = bob
		read(nfsv4.ErrAccess, private, 0, none, 1000, id)
	})
}

// The pseudo root lists the exports the caller may enter, with the attributes
// of their roots and the file ids of what they cover.
func TestReadDirOfPseudoRoot(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		names := map[string]listed{}
		for _, e := range c.list(c.fh(), 0, 4096) {
			names[e.name] = e
		}
		if len(names) != 3 || names["data"].fileid != c.attr(dir, nfsv4.AttrFileID) || names["a"].name == "" || names["ro"].name == "" {
			t.Errorf("entries %v", names)
		}
		want := bitmap(nfsv4.AttrFSID, nfsv4.AttrRdAttrError, nfsv4.AttrMountedOnFileID, nfsv4.AttrSpaceTotal, nfsv4.AttrXattrSupport)
		r := c.doOn(c.on(c.fh()).add(nfsv4.OpReadDir, uint64(0), nfsv4.Verifier{}, 0, 4096, want)).op(nfsv4.OpReadDir, nfsv4.OK).skip(8)
		fsids := map[uint64]bool{}
		for r.Bool("more") {
			r.Uint64("cookie")
			r.String("name", 255)
			_, d := r.fattr()
			d.Uint64("fsid.major")
			fsids[d.Uint64("fsid.minor")] = true
			if e := d.Uint32("rdattr_error"); e != 0 {
				t.Errorf("rdattr_error %d", e)
			}
		}
		if len(fsids) != 3 {
			t.Errorf("fsids %v", fsids)
		}
	})
}

// An entry whose attributes cannot be had says so, or fails the listing if it
// may not.
func TestReadDirWithoutAttributes(t *testing.T) {
	s := newSite(t)
	c := &compound{srv: s.srv, ctx: t.Context(), table: s.table, minor: 1, e: newEncoder()}
	c.cur = handle{set: true, node: nodeOf(s.table.Export(1), export.Object{})}
	c.view.c = c
	l := listing{c: c, want: bitmap(nfsv4.AttrSize, nfsv4.AttrRdAttrError), end: 1000}
	ent := &export.Dirent{Name: "x", Cookie: 3, Err: export.ErrDelay}
	if !l.emit(ent, c.cur.node) || l.failed != nfsv4.OK {
		t.Fatalf("status %v", l.failed)
	}
	r := &reply{tb: t}
	r.Reset(append(c.e.Bytes(), 0, 0, 0, 0, 0, 0, 0, 0))
	r.Bool("more")
	r.Uint64("cookie")
	r.String("name", 10)
	mask, d := r.fattr()
	if st := nfsv4.Status(d.Uint32("rdattr_error")); mask != bitmap(nfsv4.AttrRdAttrError) || st != nfsv4.ErrDelay {
		t.Errorf("attributes %v, status %v", mask, st)
	}
	l.want = bitmap(nfsv4.AttrSize)
	if l.emit(ent, c.cur.node) || l.failed != nfsv4.ErrDelay {
		t.Errorf("without rdattr_error: %v", l.failed)
	}
}

// busyVolume has one lock, which ReadDir holds.
type busyVolume struct {
	export.Volume
	lock chan struct{}
}

func (v *busyVolume) ReadDir(ctx context.Context, c *export.Cred, dir export.Object, cookie uint64, mask export.AttrMask, emit func(*export.Dirent) bool) (bool, error) {
	v.lock <- struct{}{}
	defer func() { <-v.lock }()
	return v.Volume.ReadDir(ctx, c, dir, cookie, mask, emit)
}

// A user database that takes its time, or gives no answer at all, holds up the
// listing that needs it and nobody else: no lock of the Volume is held while it
// is asked. Here it answers only once it had the lock itself.
func TestReadDirAsksForNamesWithoutLocks(t *testing.T) {
	const entries = 100
	for name, test := range map[string]struct {
		maxCount uint32
		answers  bool
	}{
		"one page":       {1 << 16, true},
		"many pages":     {400, true},
		"without answer": {1000, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testReadDirNames(t, entries, test.maxCount, test.answers) })
		})
	}
}

func testReadDirNames(t *testing.T, entries int, maxCount uint32, answers bool) {
	vol := &busyVolume{Volume: newVolume(t), lock: make(chan struct{}, 1)}
	id := export.NewIdentity(export.IdentityOptions{Domain: "test", Getent: func(ctx context.Context, database, key string) ([]byte, error) {
		select {
		case vol.lock <- struct{}{}:
			<-vol.lock
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !answers {
			return nil, errors.New("no answer")
		}
		if database == "group" {
			return fmt.Appendf(nil, "g%s:x:%[1]s:\n", key), nil
		}
		return fmt.Appendf(nil, "u%s:x:%[1]s:1::/:/bin/sh\n", key), nil
	}})
	defer id.Close()
	table, err := export.NewTable(t.Context(), []*export.Export{
		{ID: 1, Path: "/data", Volume: vol, Rules: []export.Rule{export.AllowAll}, Squash: export.SquashNone},
	}, export.WithIdentity(id))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(o *Options, _ *state.Options) { o.Exports = export.NewExports(table) })
	c := s.newClient(1, "client")
	dir := c.fh("data")
	top, err := vol.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for i := range entries {
		uid, gid := uint32(1000+i*2/3), uint32(5000+i/3)
		set := export.SetAttr{Set: export.SetUID | export.SetGID, UID: uid, GID: gid}
		if _, err := vol.Mkdir(t.Context(), export.System(), top, fmt.Sprint("d", i), &set); err != nil {
			t.Fatal(err)
		}
		if answers {
			want[fmt.Sprintf("d%d u%d@test g%d@test", i, uid, gid)] = true
		} else {
			want[fmt.Sprintf("d%d %d %d", i, uid, gid)] = true
		}
	}
	var cookie uint64
	for eof := false; !eof; {
		r := c.doOn(c.on(dir).add(nfsv4.OpReadDir, cookie, nfsv4.Verifier{}, 512, maxCount, bitmap(nfsv4.AttrOwner, nfsv4.AttrOwnerGroup)))
		if size := r.Remaining() - 8; size > int(maxCount) {
			t.Fatalf("a page of %d bytes, %d allowed", size, maxCount)
		}
		r.op(nfsv4.OpReadDir, nfsv4.OK).skip(8)
		for r.Bool("more") {
			cookie = r.Uint64("cookie")
			entry := r.String("name", 255)
			_, d := r.fattr()
			entry = fmt.Sprint(entry, " ", d.String("owner", 255), " ", d.String("owner_group", 255))
			if !want[entry] {
				t.Errorf("%q again, or with other owners", entry)
			}
			delete(want, entry)
		}
		eof = r.Bool("eof")
	}
	if len(want) != 0 {
		t.Errorf("missing %v", want)
	}
}
