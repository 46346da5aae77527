package export

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestNewTableRefuses(t *testing.T) {
	v := newFakeVolume()
	mk := func(id uint32, path string) *Export { return &Export{ID: id, Path: path, Volume: v} }
	tests := []struct {
		name    string
		exports []*Export
		want    []string // parts of the error
	}{
		{"no path", []*Export{mk(1, "")}, []string{`export ""`, "must begin with /"}},
		{"relative", []*Export{mk(1, "a")}, []string{"must begin with /"}},
		{"not clean", []*Export{mk(1, "/a/"), mk(2, "/b//c"), mk(3, "/d/../e"), mk(4, "/.")},
			[]string{`written "/a"`, `written "/b/c"`, `written "/e"`, `written "/"`}},
		{"too long", []*Export{mk(1, "/"+strings.Repeat("a", 256)), mk(2, strings.Repeat("/a", 513))}, []string{"255 bytes", "1024 bytes"}},
		{"NUL", []*Export{mk(1, "/a\x00")}, []string{"NUL"}},
		{"no volume", []*Export{{ID: 1, Path: "/a"}}, []string{"no volume"}},
		{"no ID", []*Export{mk(0, "/a")}, []string{"ID 0"}},
		{"one ID", []*Export{mk(1, "/a"), mk(1, "/b")}, []string{`export "/b"`, `ID 1 is also that of "/a"`}},
		{"one path", []*Export{mk(1, "/a"), mk(2, "/a")}, []string{`export "/a"`, "there twice"}},
		{"nested", []*Export{mk(1, "/a"), mk(2, "/a/b/c")}, []string{`export "/a/b/c"`, `lies inside export "/a"`}},
		{"nested, siblings between", []*Export{mk(1, "/a/b"), mk(2, "/a-b"), mk(3, "/a")}, []string{"inside"}},
		{"at / with others", []*Export{mk(1, "/"), mk(2, "/b")}, []string{`export "/b"`, `lies inside export "/"`}},
		{"/ twice", []*Export{mk(1, "/"), mk(2, "/")}, []string{"there twice"}},
		{"rule for nobody", []*Export{{ID: 1, Path: "/a", Volume: v, Rules: []Rule{AllowAll, {Grant: GrantRW}}}}, []string{"rule 2 is for nobody"}},
		{"one fsid", []*Export{{ID: 1, Path: "/a", Volume: v, FSID: FSID{3, 4}}, {ID: 2, Path: "/b", Volume: v, FSID: FSID{3, 4}}},
			[]string{`file system id 3:4 cannot be told from that of "/a"`}},
		{"one fsid in NFSv3", []*Export{{ID: 1, Path: "/a", Volume: v, FSID: FSID{1, 0}}, {ID: 2, Path: "/b", Volume: v, FSID: FSID{0, verifierStep}}},
			[]string{"cannot be told"}},
		{"fsid of the pseudo tree", []*Export{{ID: 1, Path: "/a", Volume: v, FSID: FSID{fsidMajor, 0}}}, []string{"cannot be told"}},
		{"fsid of another's ID", []*Export{{ID: 1, Path: "/a", Volume: v, FSID: FSID{fsidMajor, 2}}, mk(2, "/b")}, []string{"cannot be told"}},
		{"all at once", []*Export{mk(0, "/a"), mk(7, "b"), {ID: 8, Path: "/c"}, mk(9, "/a/b")},
			[]string{"ID 0", "begin with /", "no volume", "lies inside"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewTable(t.Context(), tt.exports)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
}

func TestFSID(t *testing.T) {
	seen, seen3 := map[FSID]bool{}, map[uint64]bool{}
	for id := range uint32(2000) {
		f := (&Export{ID: id}).FileSystem()
		if seen[f] || seen3[f.V3()] || f.V3() == 0 || f == (FSID{}) {
			t.Fatalf("export %d: %v, %d", id, f, f.V3())
		}
		seen[f], seen3[f.V3()] = true, true
	}
	if f := (&Export{ID: 1, FSID: FSID{0, 42}}).FileSystem(); f != (FSID{0, 42}) || f.V3() != 42 {
		t.Errorf("%v, %d", f, f.V3())
	}
}

// TestNewTableHangingVolume checks that a Volume that does not answer holds up
// the start only so long, and the others not at all afterwards.
func TestNewTableHangingVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exports := []*Export{
			{ID: 1, Path: "/up", Volume: newFakeVolume(), Rules: []Rule{AllowAll}},
			{ID: 2, Path: "/down", Volume: hangingVolume{}, Rules: []Rule{AllowAll}},
		}
		begin := time.Now()
		table, err := NewTable(t.Context(), exports)
		if err != nil || time.Since(begin) != rootsTime || len(table.Broken()) != 1 {
			t.Fatalf("%v after %v, broken: %v", err, time.Since(begin), table.Broken())
		}
		if _, err := table.Enter(t.Context(), peer("::1", 1, 1), exports[0], Version42); err != nil {
			t.Error(err)
		}
	})
}

// manyExports makes n exports in directories of 100, all of one volume.
func manyExports(n int) ([]*Export, *fakeVolume) {
	v := newFakeVolume()
	exports := make([]*Export, n)
	for i := range exports {
		exports[i] = &Export{
			ID: uint32(i + 1), Path: fmt.Sprintf("/group%d/export%d", i/100, i), Volume: v, Rules: []Rule{AllowAll},
		}
	}
	return exports, v
}

// TestNewTableThousands counts the work for 5000 exports: each Volume is asked
// once, and memory grows with their number and no faster.
func TestNewTableThousands(t *testing.T) {
	allocs := func(n int) float64 {
		exports, _ := manyExports(n)
		return testing.AllocsPerRun(1, func() {
			if _, err := NewTable(t.Context(), exports); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := allocs(500), allocs(5000)
	if many > 15*few { // 10 and some noise; a square would be 100
		t.Errorf("%v allocations for 500 exports, %v for 5000", few, many)
	}
	exports, v := manyExports(5000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table, err := NewTable(t.Context(), exports)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := v.calls.Load(); n != 5000 {
		t.Errorf("the volume was asked %d times", n)
	}
	if size := int64(after.HeapAlloc) - int64(before.HeapAlloc); size > 5000*1500 {
		t.Errorf("the table takes %d bytes", size)
	}
	seen := 0
	p := peer("::1", 1, 1)
	for id := range uint32(50) {
		n := lookup(t, table, p, Version42, fmt.Sprintf("/group%d", id))
		_, err := table.ReadDir(t.Context(), p, Version42, pseudoRights, n, 0, MaskAll, func(d *Dirent, n Node) bool {
			seen++
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen != 5000 {
		t.Errorf("%d exports listed", seen)
	}
}

// TestTableReload checks what a client sees over a reload: untouched exports
// and directories are what they were, changed directories have changed, and
// what is gone is stale.
func TestTableReload(t *testing.T) {
	v := newFakeVolume()
	export := func(id uint32, path string, rules ...Rule) *Export {
		return &Export{ID: id, Path: path, Volume: v, Rules: append(rules, AllowAll)}
	}
	kept := export(1, "/kept/deep/a")
	first, err := NewTable(t.Context(), []*Export{kept, export(2, "/b"), export(3, "/gone/x")})
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewTable(t.Context(), []*Export{kept, export(2, "/b", Rule{Client: AnyClient}), export(4, "/kept/new")}, After(first))
	if err != nil {
		t.Fatal(err)
	}
	x := NewExports(first)
	calls := v.calls.Load()
	if old := x.Swap(second); old != first || x.Current() != second {
		t.Error("not swapped")
	}
	if v.calls.Load() != calls {
		t.Error("the root of an untouched export was asked again")
	}
	p := peer("::1", 1, 1)
	change := func(table *Table, path string) uint64 {
		n := lookup(t, table, p, Version42, path)
		a, err := n.Export.Volume.GetAttr(t.Context(), System(), n.Object, MaskAll)
		if err != nil {
			t.Fatal(err)
		}
		return a.Change
	}
	if change(first, "/kept/deep") != change(second, "/kept/deep") {
		t.Error("an untouched directory changed")
	}
	for _, path := range []string{"/", "/kept"} {
		if change(first, path) >= change(second, path) {
			t.Errorf("%s did not change", path)
		}
	}
	// Handles of before.
	for path, want := range map[string]error{"/": nil, "/kept": nil, "/kept/deep": nil, "/kept/deep/a": nil, "/gone": ErrStale, "/gone/x": ErrStale} {
		fh := first.AppendHandle(nil, lookup(t, first, p, Version42, path))
		n, err := second.Resolve(fh)
		if err == nil {
			_, err = n.Export.Volume.GetAttr(t.Context(), System(), n.Object, MaskAll)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	// Rules of an export decide what its directory shows; the same tables
	// once more change nothing.
	third, err := NewTable(t.Context(), []*Export{kept, export(2, "/b", Rule{Client: AnyClient}), export(4, "/kept/new")}, After(second))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/kept", "/kept/deep"} {
		if change(third, path) != change(second, path) {
			t.Errorf("%s changed", path)
		}
	}
}

// TestTableReloadClockSetBack has a reload with the clock before the last one.
func TestTableReloadClockSetBack(t *testing.T) {
	v := newFakeVolume()
	tree := func(old *pseudoTree, now time.Time, paths ...string) *pseudoTree {
		tr := newPseudoTree()
		tr.old = old
		for i, path := range paths {
			if _, err := tr.add(&Export{ID: uint32(i + 1), Path: path, Volume: v}); err != nil {
				t.Fatal(err)
			}
		}
		tr.finish(now)
		return tr
	}
	noon := time.Unix(1e9, 0)
	a := tree(nil, noon, "/x")
	b := tree(a, noon.Add(-time.Hour), "/x", "/y")
	c := tree(b, noon.Add(-time.Hour), "/x")
	if a.root.change >= b.root.change || b.root.change >= c.root.change {
		t.Errorf("%d, %d, %d", a.root.change, b.root.change, c.root.change)
	}
}

// TestPseudoNumbersAreForEver keeps inode numbers and with them cookies and
// handles of the pseudo tree the same in every version and on every gateway.
func TestPseudoNumbersAreForEver(t *testing.T) {
	for path, want := range map[string]uint64{"/": 0x603df4b1929b1dbf, "/a": 0x588e575c3489b3dd} {
		got := pseudoIno(path)
		if got < 1<<62 || got > 1<<63-1 {
			t.Errorf("%s: %#x is out of range", path, got)
		}
		if got != want {
			t.Errorf("%s: %#x, want %#x", path, got, want)
		}
	}
}
