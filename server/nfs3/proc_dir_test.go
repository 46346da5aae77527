package nfs3

import (
	"context"
	"fmt"
	"math"
	"testing"

	"capstan/export"
)

// page asks for one page of a listing.
func (b *bed) page(plus bool, fh []byte, cookie uint64, dircount, maxcount uint32) *reply3 {
	b.t.Helper()
	if plus {
		return b.ok(procReadDirPlus, enc().fh(fh).u64(cookie).u64(0).u32(dircount).u32(maxcount))
	}
	return b.ok(procReadDir, enc().fh(fh).u64(cookie).u64(0).u32(maxcount))
}

// list lists a directory with pages of maxcount bytes, and checks what holds
// for every listing.
func (b *bed) list(plus bool, fh []byte, dircount, maxcount uint32) []entry3 {
	b.t.Helper()
	var all []entry3
	seen := map[string]bool{}
	cookies := map[uint64]bool{}
	for cookie := uint64(0); ; {
		r := b.page(plus, fh, cookie, dircount, maxcount)
		if r.size > int(maxcount) {
			b.t.Fatalf("%d bytes, maxcount is %d", r.size, maxcount)
		}
		if r.verf != ([8]byte{}) {
			b.t.Fatalf("cookie verifier %x", r.verf)
		}
		for _, e := range r.entries {
			if seen[e.name] || cookies[e.cookie] || e.cookie == 0 || e.cookie > math.MaxInt64 || e.id == 0 {
				b.t.Fatalf("entry %q, cookie %d, id %d: listed before or not allowed", e.name, e.cookie, e.id)
			}
			seen[e.name], cookies[e.cookie] = true, true
			cookie = e.cookie
		}
		all = append(all, r.entries...)
		if r.eof {
			return all
		}
		if len(r.entries) == 0 {
			b.t.Fatal("an empty page and no end")
		}
	}
}

// TestListPages: with room for 1 to 9 entries each name comes once, hard links
// to one file included.
func TestListPages(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o755)
	for i := range 6 {
		b.create(d, fmt.Sprint("f", i), 0o644)
	}
	f0 := b.ok(procLookup, enc().fh(d).str("f0")).fh
	for i := range 10 {
		b.ok(procLink, enc().fh(f0).fh(d).str(fmt.Sprint("link", i)))
	}
	const head, entry, plusEntry = 88 + 8 + 8, 24 + 8, 24 + 8 + 88 + 64
	for n := uint32(1); n <= 9; n++ {
		if got := len(b.list(false, d, 0, head+n*entry)); got != 18 {
			t.Errorf("%d entries a page: %d names", n, got)
		}
		if got := len(b.list(true, d, 0, head+n*plusEntry)); got != 18 {
			t.Errorf("plus, %d entries a page: %d names", n, got)
		}
		if got := len(b.list(true, d, n*entry, 1<<20)); got != 18 {
			t.Errorf("dircount for %d entries: %d names", n, got)
		}
	}
}

func TestListDots(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o755)
	for _, plus := range []bool{false, true} {
		r := b.page(plus, d, 0, 0, 4096)
		if len(r.entries) != 2 || !r.eof {
			t.Fatalf("%+v", r)
		}
		self, up := r.entries[0], r.entries[1]
		if self.name != "." || self.cookie != 1 || self.id != b.object(d).Ino {
			t.Errorf("%+v", self)
		}
		if up.name != ".." || up.cookie != 2 || up.id != b.object(b.root).Ino {
			t.Errorf("%+v", up)
		}
		if plus && (string(self.fh) != string(d) || string(up.fh) != string(b.root) || up.attr.fileid != up.id) {
			t.Errorf("handles of the dots: %+v, %+v", self, up)
		}
		if r = b.page(plus, d, 1, 0, 4096); len(r.entries) != 1 || r.entries[0].name != ".." || !r.eof {
			t.Errorf("behind .: %+v", r)
		}
		if r = b.page(plus, d, 2, 0, 4096); len(r.entries) != 0 || !r.eof {
			t.Errorf("behind ..: %+v", r)
		}
	}
	// The root of an export is its own parent, and leads nowhere else.
	if up := b.page(true, b.root, 0, 0, 4096).entries[1]; up.id != b.object(b.root).Ino || string(up.fh) != string(b.root) {
		t.Errorf("%+v", up)
	}
}

// TestListUnsearchable: who may read but not search sees names and ids.
func TestListUnsearchable(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o744)
	b.create(d, "f", 0o644)
	if r := b.want(OK, nobody, procReadDir, enc().fh(d).u64(0).u64(0).u32(4096)); len(r.entries) != 3 {
		t.Errorf("%+v", r.entries)
	}
}

// TestListPlus: attributes and handles are those that LOOKUP gives.
func TestListPlus(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o755)
	b.create(d, "file", 0o640)
	b.mkdir(d, "dir", 0o750)
	b.ok(procSymlink, enc().fh(d).str("link").sattr(export.SetAttr{}).str("file"))
	for _, e := range b.list(true, d, 0, 8192)[2:] {
		l := b.ok(procLookup, enc().fh(d).str(e.name))
		if string(e.fh) != string(l.fh) || e.attr == nil || *e.attr != *l.obj || e.id != l.obj.fileid {
			t.Errorf("%s: %+v, LOOKUP %+v", e.name, e, l)
		}
	}
}

// TestListTooSmall: only if not even one entry fits.
func TestListTooSmall(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o755)
	name := longName[:255]
	b.create(d, name, 0o644)
	const head = 88 + 8 + 8
	read := func(cookie uint64, n uint32) args3 { return enc().fh(d).u64(cookie).u64(0).u32(n) }
	plus := func(cookie uint64, dircount, n uint32) args3 {
		return enc().fh(d).u64(cookie).u64(0).u32(dircount).u32(n)
	}
	b.want(ErrTooSmall, superuser, procReadDir, read(2, head+24+256-1))
	b.want(OK, superuser, procReadDir, read(2, head+24+256))
	b.want(ErrTooSmall, superuser, procReadDirPlus, plus(2, 1000, head+24+256+88+64-1))
	b.want(OK, superuser, procReadDirPlus, plus(2, 1000, head+24+256+88+64))
	// dircount alone never keeps the first entry out.
	if r := b.want(OK, superuser, procReadDirPlus, plus(2, 1, 8192)); len(r.entries) != 1 {
		t.Errorf("%d entries", len(r.entries))
	}
	// What is not listed because the dots fill the page comes with the next.
	if r := b.want(OK, superuser, procReadDir, read(0, head+24+256)); len(r.entries) != 2 || r.eof {
		t.Errorf("%d entries, eof %v", len(r.entries), r.eof)
	}
	b.want(ErrTooSmall, superuser, procReadDir, read(0, head-1))
	b.want(ErrTooSmall, superuser, procReadDir, read(0, head+27))
	b.want(ErrBadCookie, superuser, procReadDir, enc().fh(d).u64(1).u64(1).u32(4096))
	b.want(OK, superuser, procReadDir, enc().fh(d).u64(0).u64(1).u32(4096))
}

// TestListSmallCounts: the small buffers of some clients, on both procedures
// in turn, on a directory larger than them; macOS does without READDIRPLUS.
func TestListSmallCounts(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o755)
	const n = 2500
	for i := range n {
		b.create(d, fmt.Sprintf("file-%04d", i), 0o644)
	}
	for _, plus := range []bool{false, true} {
		if got := len(b.list(plus, d, 512, 1024)); got != n+2 {
			t.Errorf("plus %v: %d names", plus, got)
		}
	}
	// The procedures share their cookies.
	seen := map[string]bool{}
	cookie, pages := uint64(0), 0
	for eof := false; !eof; pages++ {
		r := b.page(pages%2 == 0, d, cookie, 512, 1024)
		for _, e := range r.entries {
			if seen[e.name] {
				t.Fatalf("%q twice", e.name)
			}
			seen[e.name] = true
			cookie = e.cookie
		}
		eof = r.eof
	}
	if len(seen) != n+2 {
		t.Errorf("%d names with both procedures in turn", len(seen))
	}
}

// TestListWhileRemoving: what was listed is removed before the next page, and
// new names come up meanwhile; no survivor is skipped or listed twice.
func TestListWhileRemoving(t *testing.T) {
	b := newBed(t)
	d := b.mkdir(b.root, "d", 0o755)
	const n = 1000
	for i := range n {
		b.create(d, fmt.Sprint("f", i), 0o644)
	}
	removed, made := 0, 0
	for cookie, eof := uint64(0), false; !eof; {
		r := b.page(true, d, cookie, 0, 4096)
		for _, e := range r.entries {
			cookie = e.cookie
			if e.name[0] == 'f' {
				b.ok(procRemove, enc().fh(d).str(e.name))
				removed++
			}
		}
		if made < 50 {
			b.create(d, fmt.Sprint("new", made), 0o644)
			made++
		}
		eof = r.eof
	}
	if removed != n {
		t.Errorf("%d of %d removed", removed, n)
	}
}

// breaking is a volume whose listing breaks off.
type breaking struct {
	*faulty
	after int
}

func (v *breaking) ReadDir(ctx context.Context, c *export.Cred, dir export.Object, cookie uint64, m export.AttrMask, emit func(*export.Dirent) bool) (bool, error) {
	n := 0
	_, err := v.faulty.ReadDir(ctx, c, dir, cookie, m, func(d *export.Dirent) bool {
		n++
		return n <= v.after && emit(d)
	})
	if err == nil && n > v.after {
		err = export.ErrIO
	}
	return false, err
}

// TestListBreaksOff: what was listed before a fault is sent, and the fault
// comes with the next call.
func TestListBreaksOff(t *testing.T) {
	b := newBed(t)
	v := &breaking{faulty: b.vol, after: 3}
	table, err := export.NewTable(b.ctx, []*export.Export{
		{ID: idExport, Path: "/export", Volume: v, Squash: export.SquashNone, Rules: []export.Rule{export.AllowAll}},
	}, export.After(b.table))
	if err != nil {
		t.Fatal(err)
	}
	b.server.exports.Swap(table)
	for i := range 10 {
		b.create(b.root, fmt.Sprint("f", i), 0o644)
	}
	r := b.page(false, b.root, 0, 0, 4096)
	if len(r.entries) != 5 || r.eof {
		t.Fatalf("%d entries, eof %v", len(r.entries), r.eof)
	}
	v.after = 0
	b.want(ErrIO, superuser, procReadDir, enc().fh(b.root).u64(r.entries[4].cookie).u64(0).u32(4096))
}

// TestListPseudo: the directory that joins the exports shows those that the
// caller may enter, and attributes are left to LOOKUP.
func TestListPseudo(t *testing.T) {
	b := newBed(t)
	top, err := b.table.Root(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	fh := b.table.AppendHandle(nil, top)
	names := map[string]bool{}
	for _, e := range b.list(true, fh, 0, 8192)[2:] {
		names[e.name] = true
		if e.attr != nil || e.fh != nil {
			t.Errorf("%s: attributes of another filesystem", e.name)
		}
		l := b.ok(procLookup, enc().fh(fh).str(e.name))
		if l.obj.fsid == l.post.fsid {
			t.Errorf("%s: fsid %x of the pseudo root", e.name, l.obj.fsid)
		}
	}
	if len(names) != 3 || names["closed"] {
		t.Errorf("exports %v", names)
	}
	b.want(ErrNoEnt, superuser, procLookup, enc().fh(fh).str("closed"))
	b.want(ErrROFS, superuser, procMkdir, enc().fh(fh).str("new").sattr(plain))
	b.want(OK, superuser, procFSInfo, enc().fh(fh))
}
