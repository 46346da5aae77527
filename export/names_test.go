package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// hangingVolume answers nothing.
type hangingVolume struct{ Volume }

func (hangingVolume) Root(ctx context.Context) (Object, error) {
	<-ctx.Done()
	return Object{}, ctx.Err()
}

func (hangingVolume) Features() Features { return Features{} }

// lookup walks from the root of table to path as p.
func lookup(t testing.TB, table *Table, p *Peer, v Version, path string) Node {
	t.Helper()
	n, err := walk(t, table, p, v, path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return n
}

func walk(t testing.TB, table *Table, p *Peer, v Version, path string) (Node, error) {
	t.Helper()
	ctx := t.Context()
	n, err := table.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		r, err := table.Enter(ctx, p, n.Export, v)
		if err != nil {
			return Node{}, err
		}
		if n, _, err = table.Lookup(ctx, p, v, r, n, name, MaskAll); err != nil {
			return Node{}, err
		}
	}
	return n, nil
}

// list returns the names in the directory at path as p sees it, read page by
// page entries at a time.
func list(t testing.TB, table *Table, p *Peer, v Version, path string, page int) []string {
	t.Helper()
	n := lookup(t, table, p, v, path)
	r, err := table.Enter(t.Context(), p, n.Export, v)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	cookie := uint64(0)
	for {
		left := page
		eof, err := table.ReadDir(t.Context(), p, v, r, n, cookie, MaskAll, func(d *Dirent, n Node) bool {
			if left == 0 {
				return false
			}
			left--
			if d.Cookie < 3 || d.Cookie > 1<<63-1 || d.Attr.Type == 0 || d.Attr.FileID == 0 || d.Object != n.Object || d.Err != nil {
				t.Errorf("entry %+v, node %+v", d, n)
			}
			names = append(names, d.Name)
			cookie = d.Cookie
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if eof {
			slices.Sort(names)
			return names
		}
	}
}

// joined has exports at several depths, for several peers:
//
//	/all         everybody
//	/lab/ten     10.0.0.0/8 only
//	/lab/v3      everybody, NFSv3 only
//	/deep/er/six 2001:db8::/32 only
func joined(t testing.TB) *Table {
	t.Helper()
	rule := func(s string) []Rule { return []Rule{{Client: client(t, s), Grant: GrantRW}} }
	table, err := NewTable(t.Context(), []*Export{
		{ID: 1, Path: "/all", Volume: newFakeVolume(), Rules: rule("*")},
		{ID: 2, Path: "/lab/ten", Volume: newFakeVolume(), Rules: rule("10.0.0.0/8")},
		{ID: 3, Path: "/lab/v3", Volume: newFakeVolume(), Rules: rule("*"), Versions: Versions(Version3)},
		{ID: 4, Path: "/deep/er/six", Volume: newFakeVolume(), Rules: rule("2001:db8::/32")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestPeersSeeTheirOwn(t *testing.T) {
	table := joined(t)
	tests := []struct {
		addr string
		v    Version
		want map[string]string // path: names there, or the error
	}{
		{"10.1.1.1", Version42, map[string]string{
			"/": "all lab", "/lab": "ten", "/lab/ten": "dir file", "/all": "dir file",
			"/lab/v3": "no", "/deep": "no", "/deep/er/six": "no", "/nothing": "no",
		}},
		{"10.1.1.1", Version3, map[string]string{"/": "all lab", "/lab": "ten v3", "/deep": "no"}},
		{"192.0.2.1", Version41, map[string]string{"/": "all", "/lab": "no", "/deep": "no"}},
		{"192.0.2.1", Version3, map[string]string{"/": "all lab", "/lab": "v3", "/lab/ten": "no"}},
		{"2001:db8::1", Version42, map[string]string{"/": "all deep", "/deep": "er", "/deep/er": "six", "/deep/er/six": "dir file"}},
	}
	for _, tt := range tests {
		p := peer(tt.addr, 1, 1)
		for path, want := range tt.want {
			t.Run(fmt.Sprintf("%s %v %s", tt.addr, tt.v, path), func(t *testing.T) {
				_, err := walk(t, table, p, tt.v, path)
				if want == "no" {
					if !errors.Is(err, ErrNoEnt) {
						t.Errorf("%v", err)
					}
					if _, _, err := table.ByPath(t.Context(), p, tt.v, path); !errors.Is(err, ErrNoEnt) {
						t.Errorf("by path: %v", err)
					}
					return
				}
				for _, page := range []int{1, 2, 100} {
					if got := strings.Join(list(t, table, p, tt.v, path, page), " "); got != want {
						t.Errorf("%q, want %q", got, want)
					}
				}
				if n, _, err := table.ByPath(t.Context(), p, tt.v, path); err != nil || n != lookup(t, table, p, tt.v, path) {
					t.Errorf("by path: %v, %v", n, err)
				}
			})
		}
	}
	paths := func(addr string, v Version) (paths []string) {
		for _, e := range table.List(t.Context(), peer(addr, 1, 1), v) {
			paths = append(paths, e.Path)
		}
		return paths
	}
	if got, want := paths("10.1.1.1", Version3), []string{"/all", "/lab/ten", "/lab/v3"}; !slices.Equal(got, want) {
		t.Errorf("exports: %v, want %v", got, want)
	}
}

// TestCrossing goes down into an export and up again.
func TestCrossing(t *testing.T) {
	table := joined(t)
	ctx, p := t.Context(), peer("10.1.1.1", 0, 0)
	root := lookup(t, table, p, Version42, "/")
	lab := lookup(t, table, p, Version42, "/lab")
	ten := lookup(t, table, p, Version42, "/lab/ten")
	if !root.IsPseudo() || !lab.IsPseudo() || ten.IsPseudo() || ten.Export.ID != 2 || ten.Object != Live(fakeRoot) {
		t.Fatalf("%v, %v, %v", root, lab, ten)
	}
	rights, err := table.Enter(ctx, p, ten.Export, Version42)
	if err != nil {
		t.Fatal(err)
	}
	system := Rights{Cred: System()}
	dir, _, err := table.Lookup(ctx, p, Version42, system, ten, "dir", MaskAll)
	if err != nil {
		t.Fatal(err)
	}
	sub, _, err := table.Lookup(ctx, p, Version42, system, dir, "sub", MaskAll)
	if err != nil {
		t.Fatal(err)
	}
	parents := []struct {
		name      string
		v         Version
		r         Rights
		of, want  Node
		wantError error
	}{
		{"in an export", Version42, system, sub, dir, nil},
		{"to an export's root", Version42, system, dir, ten, nil},
		{"out of an export", Version42, rights, ten, lab, nil},
		{"out of an export, NFSv3", Version3, rights, ten, ten, nil},
		{"in the pseudo tree", Version42, pseudoRights, lab, root, nil},
		{"of the root", Version42, pseudoRights, root, Node{}, ErrNoEnt},
		{"of the root, NFSv3", Version3, pseudoRights, root, root, nil},
		{"of what is gone", Version42, pseudoRights, Node{table.pseudo, Live(12345)}, Node{}, ErrStale},
	}
	for _, tt := range parents {
		t.Run(tt.name, func(t *testing.T) {
			n, a, err := table.Parent(ctx, p, tt.v, tt.r, tt.of, MaskAll)
			if !errors.Is(err, tt.wantError) || n != tt.want || err == nil && a.Type != TypeDirectory {
				t.Errorf("%v, %v, %v, want %v, %v", n, a, err, tt.want, tt.wantError)
			}
		})
	}
	// Permission inside an export is the caller's, through whatever table.
	if _, _, err := table.Lookup(ctx, p, Version42, rights, dir, "sub", MaskAll); !errors.Is(err, ErrAccess) {
		t.Errorf("a squashed root in a closed directory: %v", err)
	}
}

func TestMountedOn(t *testing.T) {
	table := joined(t)
	p := peer("10.1.1.1", 0, 0)
	ten := lookup(t, table, p, Version42, "/lab/ten")
	on := table.MountedOn(ten, fakeRoot)
	if on != pseudoIno("/lab/ten") {
		t.Errorf("%#x", on)
	}
	lab := lookup(t, table, p, Version42, "/lab")
	for n, id := range map[Node]uint64{lab: lab.Object.Ino, {ten.Export, Live(3)}: 3, {ten.Export, Object{Ino: fakeRoot, Snap: 7}}: 1} {
		if got := table.MountedOn(n, id); got != id {
			t.Errorf("%v: %d", n, got)
		}
	}
	seen := map[uint64]bool{}
	for _, e := range table.Exports() {
		root, err := e.Root(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		on := table.MountedOn(Node{e, root}, root.Ino)
		if seen[on] {
			t.Errorf("%s is mounted on the number of another", e.Path)
		}
		seen[on] = true
	}
}

func TestExportAtRoot(t *testing.T) {
	e := &Export{ID: 9, Path: "/", Volume: newFakeVolume(), Rules: []Rule{{Client: client(t, "10.0.0.0/8"), Grant: GrantRW}}}
	table, err := NewTable(t.Context(), []*Export{e})
	if err != nil {
		t.Fatal(err)
	}
	ctx, in, out := t.Context(), peer("10.0.0.1", 1, 1), peer("::1", 1, 1)
	root := lookup(t, table, in, Version42, "/")
	if root.Export != e || root.Object != Live(fakeRoot) {
		t.Fatalf("%v", root)
	}
	if got := list(t, table, in, Version42, "/", 1); !slices.Equal(got, []string{"dir", "file"}) {
		t.Errorf("%v", got)
	}
	if _, _, err := table.Parent(ctx, in, Version42, Rights{Cred: System()}, root, MaskAll); !errors.Is(err, ErrNoEnt) {
		t.Errorf("parent: %v", err)
	}
	if n, _, err := table.Parent(ctx, in, Version3, Rights{Cred: System()}, root, MaskAll); err != nil || n != root {
		t.Errorf("parent, NFSv3: %v, %v", n, err)
	}
	if got := table.MountedOn(root, fakeRoot); got != fakeRoot {
		t.Errorf("mounted on %d", got)
	}
	if n, _, err := table.ByPath(ctx, in, Version3, "/"); err != nil || n != root {
		t.Errorf("by path: %v, %v", n, err)
	}
	if _, _, err := table.ByPath(ctx, out, Version3, "/"); !errors.Is(err, ErrAccess) {
		t.Errorf("by path, from outside: %v", err)
	}
	if _, _, err := table.ByPath(ctx, out, Version3, "/dir"); !errors.Is(err, ErrAccess) {
		t.Errorf("by path, from outside: %v", err)
	}
	if n, err := table.Resolve(table.AppendHandle(nil, root)); err != nil || n != root {
		t.Errorf("%v, %v", n, err)
	}
}

func TestByPath(t *testing.T) {
	table := joined(t)
	ctx, p := t.Context(), peer("10.1.1.1", 1, 1)
	for path, want := range map[string]Node{
		"":                    table.node(table.tree.root),
		"/":                   table.node(table.tree.root),
		"all":                 {table.Export(1), Live(1)},
		"/all/":               {table.Export(1), Live(1)},
		"//lab/./ten/../ten/": {table.Export(2), Live(1)},
		"/../all":             {table.Export(1), Live(1)},
		"/all/dir":            {table.Export(1), Live(3)},
		// Below a directory of mode 0750 of another user.
		"/all/dir/sub": {table.Export(1), Live(4)},
	} {
		n, a, err := table.ByPath(ctx, p, Version3, path)
		if err != nil || n != want || a.Type != TypeDirectory {
			t.Errorf("%q: %v, %v", path, n, err)
		}
	}
	for path, want := range map[string]error{
		"/no": ErrNoEnt, "/all/no": ErrNoEnt, "/all/file": ErrNotDir, "/all/file/x": ErrNotDir, "/deep": ErrNoEnt,
		"/all/" + strings.Repeat("x", 256): ErrNameTooLong, strings.Repeat("/x", 600): ErrNameTooLong,
	} {
		if n, _, err := table.ByPath(ctx, p, Version3, path); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, %v, want %v", path, n, err, want)
		}
	}
}

// TestListBrokenExport checks that an export whose Volume is away keeps its
// name in the listing, with the reason and the type, and harms no other.
func TestListBrokenExport(t *testing.T) {
	v := newFakeVolume()
	down := error(ErrDelay)
	v.rootErr.Store(&down)
	table, err := NewTable(t.Context(), []*Export{
		{ID: 1, Path: "/down", Volume: v, Rules: []Rule{AllowAll}},
		{ID: 2, Path: "/up", Volume: newFakeVolume(), Rules: []Rule{AllowAll}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]error{}
	p := peer("::1", 1, 1)
	eof, err := table.ReadDir(t.Context(), p, Version42, pseudoRights, lookup(t, table, p, Version42, "/"), 0, MaskAll, func(d *Dirent, n Node) bool {
		got[d.Name] = d.Err
		if d.Attr.Type != TypeDirectory || d.Attr.FileID == 0 {
			t.Errorf("%+v", d)
		}
		return true
	})
	if !eof || err != nil || len(got) != 2 || got["up"] != nil || !errors.Is(got["down"], ErrDelay) {
		t.Errorf("%v, %v, %v", eof, err, got)
	}
	if _, err := walk(t, table, p, Version42, "/down"); !errors.Is(err, ErrDelay) {
		t.Errorf("%v", err)
	}
}

// TestPseudoVolume checks the pseudo tree as the Volume it is.
func TestPseudoVolume(t *testing.T) {
	table := joined(t)
	v, ctx := table.pseudo.Volume, t.Context()
	root, err := v.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, a, err := v.Access(ctx, System(), root, 0x1ff)
	if err != nil || got != AccessRead|AccessLookup || a.Mode != 0o555 {
		t.Errorf("%#x, %v", got, err)
	}
	o, _, err := v.Lookup(ctx, System(), root, "lab", MaskAll)
	if err != nil {
		t.Fatal(err)
	}
	if up, _, err := v.Parent(ctx, System(), o, MaskAll); err != nil || up != root {
		t.Errorf("%v, %v", up, err)
	}
	if up, _, err := v.Parent(ctx, System(), root, MaskAll); err != nil || up != root {
		t.Errorf("%v, %v", up, err)
	}
	if _, _, err := v.Lookup(ctx, System(), root, "nothing", MaskAll); !errors.Is(err, ErrNoEnt) {
		t.Error(err)
	}
	n := 0
	if eof, err := v.ReadDir(ctx, System(), root, 0, 0, func(*Dirent) bool { n++; return true }); !eof || err != nil || n != 3 {
		t.Errorf("%d entries, %v, %v", n, eof, err)
	}
	for _, o := range []Object{Live(5), {Ino: root.Ino, Snap: 1}, {Ino: root.Ino, Snap: SnapHead, Parent: 1}} {
		if _, err := v.GetAttr(ctx, System(), o, MaskAll); !errors.Is(err, ErrStale) {
			t.Errorf("%v: %v", o, err)
		}
	}
	if _, err := v.Mkdir(ctx, System(), root, "new", &SetAttr{}); !errors.Is(err, ErrROFS) {
		t.Error(err)
	}
	if _, _, err := v.Remove(ctx, System(), root, "lab", RemoveAny); !errors.Is(err, ErrROFS) {
		t.Error(err)
	}
}
