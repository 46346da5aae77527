//go:build linux

package localfs_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/billyfs/localfs"
)

var sys = export.System()

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func create(t testing.TB, v export.Volume, dir export.Object, name string) export.Object {
	t.Helper()
	return must[export.Created](t)(v.Create(t.Context(), sys, dir, name, &export.Create{})).Object
}

func wantStatus(t testing.TB, what string, err error, want export.Status) {
	t.Helper()
	if export.StatusOf(err) != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// childEnv makes the test binary the process that TestHandlesOutliveKill kills.
const childEnv = "CAPSTAN_TEST_KILL_DIR"

// TestHandlesOutliveKill: handles of objects made, listed, linked and renamed
// just before a SIGKILL are good afterwards, as are verifiers and the change
// attribute.
func TestHandlesOutliveKill(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		killMe(t, dir)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "root"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHandlesOutliveKill$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	type told struct {
		what   string
		o      export.Object
		change uint64
	}
	var all []told
	for in := bufio.NewScanner(out); in.Scan(); {
		var x told
		if _, err := fmt.Sscanf(in.Text(), "told %s %d %d %d %d", &x.what, &x.o.Ino, &x.o.Snap, &x.o.NameHash, &x.change); err == nil {
			all = append(all, x)
		}
		if in.Text() == "ready" {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // says that it was killed
	if len(all) < 20 {
		t.Fatalf("the child told %d objects", len(all))
	}
	s := &served{dir: filepath.Join(dir, "root"), table: filepath.Join(dir, "handles")}
	v := s.open(t)
	defer s.close(t)
	for _, x := range all {
		a, err := v.GetAttr(t.Context(), sys, x.o, export.MaskAll)
		if err != nil {
			t.Errorf("%s: %v", x.what, err)
		} else if a.Change != x.change {
			t.Errorf("%s: change attribute was %d, is %d", x.what, x.change, a.Change)
		}
	}
	root := must[export.Object](t)(v.Root(t.Context()))
	args := &export.Create{Mode: export.CreateExclusive, Verifier: [8]byte{7}}
	if res, err := v.Create(t.Context(), sys, root, "exclusive", args); err != nil || res.New {
		t.Errorf("the retry of an exclusive create: new %v, %v", res.New, err)
	}
	args.Verifier[0] = 8
	_, err = v.Create(t.Context(), sys, root, "exclusive", args)
	wantStatus(t, "another verifier", err, export.ErrExist)
}

// killMe does its work, says so, and waits for its end.
func killMe(t *testing.T, dir string) {
	s := &served{dir: filepath.Join(dir, "root"), table: filepath.Join(dir, "handles")}
	v := s.open(t)
	ctx := context.Background()
	var objects []export.Object
	var names []string
	add := func(what string, o export.Object) { objects, names = append(objects, o), append(names, what) }
	root := must[export.Object](t)(v.Root(ctx))
	d := must[export.Created](t)(v.Mkdir(ctx, sys, root, "d", &export.SetAttr{})).Object
	add("d", d)
	for i := range 10 {
		add(fmt.Sprint("made-", i), create(t, v, d, fmt.Sprint("f", i)))
	}
	for i := range 10 { // made by others, seen in a listing only
		if err := os.WriteFile(filepath.Join(s.dir, "d", fmt.Sprint("g", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := v.ReadDir(ctx, sys, d, 0, export.MaskAll, func(e *export.Dirent) bool {
		add("listed-"+e.Name, e.Object)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	must[export.Created](t)(v.Link(ctx, sys, objects[1], root, "link"))
	if _, _, err := v.Remove(ctx, sys, d, "f0", export.RemoveFile); err != nil {
		t.Fatal(err)
	}
	must[export.Renamed](t)(v.Rename(ctx, sys, d, "f1", root, "moved"))
	must[export.Renamed](t)(v.Rename(ctx, sys, root, "d", root, "e"))
	args := &export.Create{Mode: export.CreateExclusive, Verifier: [8]byte{7}}
	add("exclusive", must[export.Created](t)(v.Create(ctx, sys, root, "exclusive", args)).Object)
	for range 5 { // changes within one tick of the clock
		mode := &export.SetAttr{Set: export.SetMode, Mode: 0o640}
		must[export.Change](t)(v.SetAttr(ctx, sys, objects[3], nil, mode))
	}
	for i, o := range objects {
		a := must[export.Attr](t)(v.GetAttr(ctx, sys, o, export.MaskAll))
		fmt.Printf("told %s %d %d %d %d\n", names[i], o.Ino, o.Snap, o.NameHash, a.Change)
	}
	fmt.Println("ready")
	select {}
}

// TestHandlesFollowOthersRenames: what a process beside us moves is found.
func TestHandlesFollowOthersRenames(t *testing.T) {
	s := newServed(t)
	v := s.v
	root := must[export.Object](t)(v.Root(t.Context()))
	a := must[export.Created](t)(v.Mkdir(t.Context(), sys, root, "a", &export.SetAttr{})).Object
	b := must[export.Created](t)(v.Mkdir(t.Context(), sys, a, "b", &export.SetAttr{})).Object
	f := create(t, v, b, "f")
	for _, move := range [][2]string{{"a/b/f", "a/b/g"}, {"a", "z"}, {"z/b", "c"}, {"c/g", "g"}} {
		if err := os.Rename(filepath.Join(s.dir, move[0]), filepath.Join(s.dir, move[1])); err != nil {
			t.Fatal(err)
		}
		for what, o := range map[string]export.Object{"a": a, "b": b, "f": f} {
			if _, err := v.GetAttr(t.Context(), sys, o, export.MaskAll); err != nil {
				t.Errorf("after %v: %s: %v", move, what, err)
			}
		}
	}
	if err := os.Remove(filepath.Join(s.dir, "g")); err != nil {
		t.Fatal(err)
	}
	_, err := v.GetAttr(t.Context(), sys, f, export.MaskAll)
	wantStatus(t, "removed by others", err, export.ErrStale)
}

// TestHandleOfReusedInode: an inode number used again is another object.
func TestHandleOfReusedInode(t *testing.T) {
	s := newServed(t)
	v := s.v
	root := must[export.Object](t)(v.Root(t.Context()))
	seen := map[export.Object]bool{}
	for range 50 {
		o := create(t, v, root, "f")
		if seen[o] {
			t.Fatalf("%v came twice", o)
		}
		seen[o] = true
		if _, _, err := v.Remove(t.Context(), sys, root, "f", export.RemoveFile); err != nil {
			t.Fatal(err)
		}
		_, err := v.GetAttr(t.Context(), sys, o, 0)
		wantStatus(t, "removed", err, export.ErrStale)
	}
}

// TestNoWayOut: links, of ours or of others, and mounts lead nowhere outside.
func TestNoWayOut(t *testing.T) {
	s := newServed(t)
	v := s.v
	outside := filepath.Join(filepath.Dir(s.dir), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	root := must[export.Object](t)(v.Root(t.Context()))
	d := must[export.Created](t)(v.Mkdir(t.Context(), sys, root, "d", &export.SetAttr{})).Object
	// Others put a link where a directory was.
	if err := os.Rename(filepath.Join(s.dir, "d"), filepath.Join(s.dir, "was-d")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.dir, "d")); err != nil {
		t.Fatal(err)
	}
	_, _, err := v.Lookup(t.Context(), sys, d, "secret", 0)
	wantStatus(t, "lookup", err, export.ErrNoEnt)
	_, err = s.fs.LstatInode("d/secret", 0)
	if err == nil {
		t.Error("lstat went out")
	}
	if _, err := s.fs.Open("d/secret"); err == nil {
		t.Error("open went out")
	}
	if err := s.fs.Remove("d"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("the link's target: %v", err)
	}
}

// counting counts look-ups.
type counting struct {
	*localfs.FS
	stats, lists atomic.Int64
}

func (c *counting) LstatInode(p string, m export.AttrMask) (billyfs.Info, error) {
	c.stats.Add(1)
	return c.FS.LstatInode(p, m)
}

func (c *counting) ReadNames(p string, fn func(string, export.FileType, uint64)) error {
	c.lists.Add(1)
	return c.FS.ReadNames(p, fn)
}

// TestRemoveAllIsLinear: deleting while listing costs a fixed number of
// look-ups an entry, and the names are not read again after every page.
func TestRemoveAllIsLinear(t *testing.T) {
	const n, page = 3000, 100
	dir := t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fs := &counting{FS: must[*localfs.FS](t)(localfs.Open(dir))}
	defer fs.Close()
	v := must[*billyfs.Volume](t)(billyfs.NewVolume(fs, billyfs.Options{Async: true}))
	defer v.Close(t.Context())
	root := must[export.Object](t)(v.Root(t.Context()))
	removed := 0
	for _, fromStart := range []bool{false, true} {
		var cookie uint64
		for eof := false; !eof; {
			if fromStart {
				cookie = 0
			}
			var names []string
			var err error
			eof, err = v.ReadDir(t.Context(), sys, root, cookie, export.MaskAll, func(e *export.Dirent) bool {
				if len(names) == page {
					return false
				}
				names, cookie = append(names, e.Name), e.Cookie
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if _, _, err := v.Remove(t.Context(), sys, root, name, export.RemoveFile); err != nil {
					t.Fatal(err)
				}
				removed++
			}
			if !fromStart && removed >= n/2 {
				break
			}
		}
	}
	if removed != n {
		t.Errorf("removed %d of %d", removed, n)
	}
	if s := fs.stats.Load(); s > 12*n {
		t.Errorf("%d look-ups for %d entries", s, n)
	}
	t.Logf("%d look-ups, %d listings for %d entries", fs.stats.Load(), fs.lists.Load(), n)
	if l := fs.lists.Load(); l > 10 {
		t.Errorf("the directory was read %d times", l)
	}
}
