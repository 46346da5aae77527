package nfstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"capstan/export"
	"capstan/server/nfs3"
)

// listAll lists a directory page by page. Every name must come once.
func listAll(t *testing.T, d dialect, dir []byte, dirCount, maxCount uint32) []listed {
	t.Helper()
	var all []listed
	seen := map[string]bool{}
	for cookie, eof := uint64(0), false; !eof; {
		var page []listed
		var st string
		if page, eof, st = d.page(dir, cookie, dirCount, maxCount); st != "" {
			t.Fatalf("page behind %d in %d bytes: %s", cookie, maxCount, st)
		}
		if len(page) == 0 && !eof {
			t.Fatalf("an empty page behind %d, and no end", cookie)
		}
		for _, e := range page {
			if cookie = e.cookie; e.name == "." || e.name == ".." {
				continue
			}
			if seen[e.name] {
				t.Fatalf("%s comes twice", e.name)
			}
			if e.cookie < 3 || e.cookie > 1<<63-1 {
				t.Fatalf("cookie %d of %s cannot be held as a signed number", e.cookie, e.name)
			}
			seen[e.name] = true
			all = append(all, e)
		}
	}
	return all
}

// Trial 9 (2): hard links of one file in one directory, listed by few entries at
// a time.
func TestTrial09HardLinksInOneDirectory(t *testing.T) {
	eachDialect(t, Options{}, func(t *testing.T, _ *bed, d dialect) {
		var first []byte
		for i := range 6 {
			fh := d.create(d.root(), fmt.Sprintf("f%d", i))
			if i == 0 {
				first = fh
			}
		}
		for i := range 10 {
			d.link(first, d.root(), fmt.Sprintf("link%d", i))
		}
		same := map[uint64]int{}
		for _, e := range listAll(t, d, d.root(), 8192, 8192) {
			same[e.fileID]++
		}
		if len(same) != 6 {
			t.Errorf("%d file ids among 6 files", len(same))
		}
		// From the smallest reply that can hold an entry up.
		pages := 0
		for size := uint32(1); size < 2500; size += 29 {
			if _, _, st := d.page(d.root(), 0, size, size); st != "" {
				if !strings.HasSuffix(st, "TOOSMALL") {
					t.Fatalf("in %d bytes: %s", size, st)
				}
				if pages > 0 {
					t.Fatalf("too small at %d bytes, but not below", size)
				}
				continue
			}
			pages++
			if got := listAll(t, d, d.root(), size, size); len(got) != 16 {
				t.Errorf("in replies of %d bytes: %d of 16 names", size, len(got))
			}
		}
		if pages < 50 {
			t.Errorf("only %d sizes are large enough", pages)
		}
	})
}

// Trial 9 (3): a client that takes few bytes, of a directory that has many
// more. The next page begins behind the last entry that was sent.
func TestTrial09SmallReplies(t *testing.T) {
	eachDialect(t, Options{}, func(t *testing.T, _ *bed, d dialect) {
		const n = 500
		for i := range n {
			d.create(d.root(), fmt.Sprintf("a name of some length, number %d", i))
		}
		if got := listAll(t, d, d.root(), 512, 1024); len(got) != n {
			t.Errorf("%d of %d names", len(got), n)
		}
	})
}

// Trial 9 (4): READDIR and READDIRPLUS of NFSv3 in turns on one directory, and
// READDIR alone as macOS has it.
func TestTrial09MixedListings(t *testing.T) {
	b := newBed(t, Options{})
	d := b.speak(t, "v3").(*v3Dialect)
	const n = 2500
	for i := range n {
		d.create(d.top, fmt.Sprintf("file%d", i))
	}
	for _, mixed := range []bool{true, false} {
		seen := map[string]bool{}
		plus := false
		for cookie, eof := uint64(0), false; !eof; plus = mixed && !plus {
			var entries []Entry3
			var st nfs3.Status
			var err error
			if plus {
				entries, eof, st, err = d.c.ReadDirPlus(t.Context(), d.top, cookie, [8]byte{}, 1000, 4000)
			} else {
				entries, eof, st, err = d.c.ReadDir(t.Context(), d.top, cookie, [8]byte{}, 2000)
			}
			d.ok("listing", st, err)
			for _, e := range entries {
				if seen[e.Name] {
					t.Fatalf("%s comes twice", e.Name)
				}
				seen[e.Name] = true
				cookie = e.Cookie
			}
		}
		if len(seen) != n && len(seen) != n+2 { // "." and ".." may be there
			t.Errorf("mixed %v: %d names", mixed, len(seen))
		}
	}
}

// Trial 13: cookies are good for ever and in any order, and fit a signed number
// of 64 bits; file ids are unique and stay.
func TestTrial13Cookies(t *testing.T) {
	const n = 100_000
	b := newBed(t, Options{})
	root, err := b.vol.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n { // below the server, which is tested elsewhere, for speed
		if _, err := b.vol.Mknod(t.Context(), export.System(), root, fmt.Sprintf("n%d", i), &export.NewNode{Type: export.TypeFIFO}); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]uint64{}
	for _, version := range []string{"v3", "v4.1", "v4.2"} {
		t.Run(version, func(t *testing.T) {
			d := b.speak(t, version)
			all := listAll(t, d, d.root(), 1<<20, 1<<20)
			if len(all) != n {
				t.Fatalf("%d of %d names", len(all), n)
			}
			unique := map[uint64]bool{}
			for _, e := range all {
				if was, ok := ids[e.name]; ok && was != e.fileID {
					t.Fatalf("file id of %s is %d, was %d", e.name, e.fileID, was)
				}
				ids[e.name] = e.fileID
				if unique[e.fileID] {
					t.Fatalf("file id %d comes twice", e.fileID)
				}
				unique[e.fileID] = true
			}
			// seekdir to positions, from the last to the first.
			rng := rand.New(rand.NewPCG(13, 13))
			for i := n - 2; i >= 0; i -= 1 + rng.IntN(200) {
				page, _, st := d.page(d.root(), all[i].cookie, 512, 1024)
				if st != "" || len(page) == 0 || page[0] != all[i+1] {
					t.Fatalf("behind entry %d: %s %v, want %v", i, st, page[:min(1, len(page))], all[i+1])
				}
			}
		})
	}
}

// Trial 10: names vanish while they are listed, and none is left over or comes
// twice.
func TestTrial10RemoveWhileListing(t *testing.T) {
	eachDialect(t, Options{}, func(t *testing.T, _ *bed, d dialect) {
		const n = 2000
		for i := range n {
			d.create(d.root(), fmt.Sprintf("file%d", i))
		}
		removed := map[string]bool{}
		for cookie, eof := uint64(0), false; !eof; {
			var page []listed
			var st string
			if page, eof, st = d.page(d.root(), cookie, 2000, 4000); st != "" {
				t.Fatal(st)
			}
			for _, e := range page {
				if cookie = e.cookie; e.name == "." || e.name == ".." {
					continue
				}
				if removed[e.name] {
					t.Fatalf("%s is listed after it was removed", e.name)
				}
				d.remove(d.root(), e.name)
				removed[e.name] = true
			}
			d.create(d.root(), fmt.Sprintf("new%d", len(removed))) // counts for nobody
		}
		for i := range n {
			if name := fmt.Sprintf("file%d", i); !removed[name] {
				t.Errorf("%s was skipped", name)
			}
		}
	})
}

// Names that are not UTF-8, and twins that differ in normal form alone, are
// made with one version and used with another.
func TestTrialNamesAreBytes(t *testing.T) {
	b := newBed(t, Options{})
	v3 := b.speak(t, "v3")
	names := []string{"\x80\xff\xfe", "caf\u00e9", "cafe\u0301", strings.Repeat("\xfd", 255), "..."}
	handles := map[string][]byte{}
	for _, name := range names {
		handles[name] = v3.create(v3.root(), name)
	}
	for _, version := range []string{"v4.1", "v4.2"} {
		d := b.speak(t, version).(*v4Dialect)
		got := listAll(t, d, d.root(), 8192, 8192)
		if len(got) != len(names) {
			t.Errorf("%s lists %d names", version, len(got))
		}
		for _, e := range got {
			fh, err := d.s.Walk(context.WithoutCancel(t.Context()), "data", e.name)
			if err != nil || string(fh) != string(handles[e.name]) {
				t.Errorf("%s: %q: %v", version, e.name, err)
			}
			if st := d.rename(d.root(), e.name, "\xf0"+e.name[:1]); st != "" {
				t.Errorf("%s: rename of %q: %s", version, e.name, st)
			}
			if st := d.rename(d.root(), "\xf0"+e.name[:1], e.name); st != "" {
				t.Errorf("%s: rename back to %q: %s", version, e.name, st)
			}
		}
	}
	for _, name := range names {
		v3.remove(v3.root(), name)
	}
}
