package exporttest

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"capstan/export"
)

// fixture is what a row works with: a Volume, and an empty directory of its
// own in it that everybody may write. The helpers end the row when they fail;
// those without a credential act as root.
type fixture struct {
	testing.TB
	cfg  *Config
	v    export.Volume
	feat export.Features
	base export.Object
}

var baseNumber atomic.Uint64

func newFixture(t testing.TB, c *Config) *fixture {
	f := &fixture{TB: t, cfg: c, v: c.New(t)}
	f.feat = f.v.Features()
	top, err := f.v.Root(ctx)
	f.ok(err)
	name := fmt.Sprintf("suite.%d.%d", time.Now().UnixNano(), baseNumber.Add(1))
	f.base = f.mkdirIn(top, name, 0o777)
	t.Cleanup(func() {
		f.removeAll(f.base)
		f.v.Remove(ctx, root, top, name, export.RemoveDir)
	})
	return f
}

// removeAll empties a directory as far as it can.
func (f *fixture) removeAll(dir export.Object) {
	var ents []export.Dirent
	f.v.ReadDir(ctx, root, dir, 0, 0, func(e *export.Dirent) bool { ents = append(ents, *e); return true })
	for _, e := range ents {
		if e.Attr.Type == export.TypeDirectory {
			f.removeAll(e.Object)
		}
		f.v.Remove(ctx, root, dir, e.Name, export.RemoveAny)
	}
}

// ok ends the row if err is not nil.
func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("failed: %v", err)
	}
}

// want fails the row unless err has the status want.
func (f *fixture) want(what string, err error, want export.Status) {
	f.Helper()
	if got := export.StatusOf(err); got != want {
		f.Errorf("%s: got %v (%v), want %v", what, statusName(got), err, statusName(want))
	}
}

func statusName(s export.Status) string {
	if s == export.OK {
		return "no error"
	}
	return "\"" + s.Error() + "\""
}

// check fails the row if cond does not hold.
func (f *fixture) check(cond bool, format string, args ...any) {
	f.Helper()
	if !cond {
		f.Errorf(format, args...)
	}
}

func mode(m uint32) *export.SetAttr { return &export.SetAttr{Set: export.SetMode, Mode: m} }

func (f *fixture) attr(o export.Object) export.Attr {
	f.Helper()
	a, err := f.v.GetAttr(ctx, root, o, export.MaskAll)
	f.ok(err)
	return a
}

func (f *fixture) set(o export.Object, s export.SetAttr) export.Change {
	f.Helper()
	ch, err := f.v.SetAttr(ctx, root, o, nil, &s)
	f.ok(err)
	return ch
}

func (f *fixture) chmod(o export.Object, m uint32) {
	f.Helper()
	f.set(o, *mode(m))
}

func (f *fixture) chown(o export.Object, uid, gid uint32) {
	f.Helper()
	f.set(o, export.SetAttr{Set: export.SetUID | export.SetGID, UID: uid, GID: gid})
}

// create makes a file of root's in the row's directory.
func (f *fixture) create(name string, m uint32) export.Object {
	f.Helper()
	return f.createAs(root, f.base, name, m)
}

func (f *fixture) createAs(c *export.Cred, dir export.Object, name string, m uint32) export.Object {
	f.Helper()
	res, err := f.v.Create(ctx, c, dir, name, &export.Create{Mode: export.CreateGuarded, Attr: *mode(m)})
	f.ok(err)
	return res.Object
}

func (f *fixture) mkdir(name string, m uint32) export.Object {
	f.Helper()
	return f.mkdirIn(f.base, name, m)
}

func (f *fixture) mkdirIn(dir export.Object, name string, m uint32) export.Object {
	f.Helper()
	res, err := f.v.Mkdir(ctx, root, dir, name, mode(m))
	f.ok(err)
	return res.Object
}

func (f *fixture) symlink(name, target string) export.Object {
	f.Helper()
	res, err := f.v.Symlink(ctx, root, f.base, name, target, &export.SetAttr{})
	f.ok(err)
	return res.Object
}

func (f *fixture) mknod(name string, typ export.FileType) export.Object {
	f.Helper()
	res, err := f.v.Mknod(ctx, root, f.base, name, &export.NewNode{Type: typ, Attr: *mode(0o644)})
	f.ok(err)
	return res.Object
}

func (f *fixture) link(o, dir export.Object, name string) {
	f.Helper()
	_, err := f.v.Link(ctx, root, o, dir, name)
	f.ok(err)
}

func (f *fixture) remove(dir export.Object, name string) {
	f.Helper()
	_, _, err := f.v.Remove(ctx, root, dir, name, export.RemoveAny)
	f.ok(err)
}

func (f *fixture) rename(from export.Object, oldName string, to export.Object, newName string) export.Renamed {
	f.Helper()
	res, err := f.v.Rename(ctx, root, from, oldName, to, newName)
	f.ok(err)
	return res
}

func (f *fixture) lookup(dir export.Object, name string) export.Object {
	f.Helper()
	o, _, err := f.v.Lookup(ctx, root, dir, name, export.MaskAll)
	f.ok(err)
	return o
}

// absent checks that there is no such name.
func (f *fixture) absent(dir export.Object, name string) {
	f.Helper()
	_, _, err := f.v.Lookup(ctx, root, dir, name, 0)
	f.want("lookup "+name, err, export.ErrNoEnt)
}

const readWrite = export.OpenRead | export.OpenWrite

// open opens o until the row ends.
func (f *fixture) open(c *export.Cred, o export.Object, m export.OpenMode) export.File {
	f.Helper()
	file, err := f.v.Open(ctx, c, o, m)
	f.ok(err)
	f.Cleanup(func() { file.Close() })
	return file
}

// file makes a file of root's with the given data and opens it.
func (f *fixture) file(name string, data []byte) export.File {
	f.Helper()
	file := f.open(root, f.create(name, 0o644), readWrite)
	f.writeFile(file, 0, data)
	return file
}

func (f *fixture) writeFile(file export.File, off uint64, data []byte) {
	f.Helper()
	f.writeAs(root, file, off, data)
}

func (f *fixture) writeAs(c *export.Cred, file export.File, off uint64, data []byte) {
	f.Helper()
	n, _, err := file.WriteAt(ctx, c, data, off, export.Unstable)
	f.ok(err)
	if n != len(data) {
		f.Fatalf("wrote %d of %d bytes without an error", n, len(data))
	}
}

// content reads the whole of a file.
func (f *fixture) content(file export.File) []byte {
	f.Helper()
	a, err := file.GetAttr(ctx, export.MaskAll)
	f.ok(err)
	p := make([]byte, a.Size)
	n, _, err := file.ReadAt(ctx, p, 0)
	f.ok(err)
	return p[:n]
}

func (f *fixture) holds(file export.File, want []byte) {
	f.Helper()
	if got := f.content(file); !bytes.Equal(got, want) {
		f.Errorf("content is %s, want %s", brief(got), brief(want))
	}
}

func brief(p []byte) string {
	if len(p) > 40 {
		return fmt.Sprintf("%q... (%d bytes)", p[:40], len(p))
	}
	return fmt.Sprintf("%q", p)
}

// page lists dir from cookie on, at most n entries (0: all), the way a server
// fills a reply: the entry that does not fit is refused.
func (f *fixture) page(dir export.Object, cookie uint64, n int) (ents []export.Dirent, eof bool) {
	f.Helper()
	eof, err := f.v.ReadDir(ctx, root, dir, cookie, export.MaskAll, func(e *export.Dirent) bool {
		if n > 0 && len(ents) == n {
			return false
		}
		ents = append(ents, *e)
		return true
	})
	f.ok(err)
	return ents, eof
}

// list lists dir in pages of n entries.
func (f *fixture) list(dir export.Object, n int) []export.Dirent {
	f.Helper()
	var all []export.Dirent
	cookie := uint64(0)
	for {
		ents, eof := f.page(dir, cookie, n)
		all = append(all, ents...)
		if eof {
			return all
		}
		if len(ents) == 0 {
			f.Fatalf("no entry behind cookie %d, and no eof", cookie)
		}
		cookie = ents[len(ents)-1].Cookie
	}
}

// names returns the sorted names in dir.
func (f *fixture) names(dir export.Object) []string {
	f.Helper()
	return sortedNames(f.list(dir, 0))
}

func sortedNames(ents []export.Dirent) []string {
	var names []string
	for _, e := range ents {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

// changed checks the Change of a call that altered o, which was before.
func (f *fixture) changed(what string, o export.Object, before export.Attr, ch export.Change) {
	f.Helper()
	after := f.attr(o)
	f.check(after.Change != before.Change, "%s: change attribute stays %d", what, after.Change)
	f.check(ch.Post.Change == after.Change, "%s: Post has change %d, then it is %d", what, ch.Post.Change, after.Change)
	if ch.Atomic {
		f.check(ch.Pre == before.PreAttr(), "%s: Pre is %+v, was %+v", what, ch.Pre, before.PreAttr())
		f.check(ch.Post == after, "%s: Post is %+v, then it is %+v", what, ch.Post, after)
	}
}

// unchanged checks that o is as it was.
func (f *fixture) unchanged(what string, o export.Object, before export.Attr) {
	f.Helper()
	after := f.attr(o)
	before.Atime = after.Atime
	f.check(after == before, "%s: %+v became %+v", what, before, after)
}

// recent checks that t is now, as far as clocks of machines agree.
func (f *fixture) recent(what string, t export.Timespec) {
	f.Helper()
	if d := time.Since(t.Time()).Abs(); d > time.Minute {
		f.Errorf("%s is %v, %v from now", what, t.Time(), d)
	}
}
