package exporttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"capstan/export"
)

// model is the filesystem that sequences are compared with: maps and byte
// slices, one goroutine, no handles, no space limits. Permission is asked of
// the shared rules of package export, in the order of the Linux system calls.
type model struct {
	nodes []*mnode // in the order in which they were made
}

// mnode is an object of a model.
type mnode struct {
	number   int
	a        export.Attr // Size is the length of data
	data     []byte
	target   string
	kids     map[string]*mnode // of a directory
	parent   *mnode            // of a directory
	xattrs   map[string]string
	verifier [8]byte // zero without
}

func newModel() *model {
	m := &model{}
	m.add(&mnode{a: export.Attr{Type: export.TypeDirectory, Mode: 0o777, Nlink: 1}})
	return m
}

func (m *model) add(n *mnode) *mnode {
	n.number = len(m.nodes)
	if n.a.Type == export.TypeDirectory {
		n.kids = map[string]*mnode{}
	}
	n.xattrs = map[string]string{}
	m.nodes = append(m.nodes, n)
	return n
}

func (m *model) do(o *op) string {
	out, failed := m.call(o)
	if failed == nil {
		return "ok " + out
	}
	var names []string
	for _, st := range failed {
		names = append(names, st.Error())
	}
	return strings.Join(names, either)
}

func (m *model) node(i int) *mnode { return m.nodes[i%len(m.nodes)] }

// call runs o and returns the statuses that are equally right if it fails.
func (m *model) call(o *op) (string, []export.Status) {
	x, to := m.node(o.obj), m.node(o.to)
	if o.kind == "parent" && x == m.nodes[0] {
		return "", nil
	}
	if x.a.Nlink == 0 {
		return "", []export.Status{export.ErrStale}
	}
	switch o.kind {
	case "rename":
		return m.rename(o, x, to)
	case "chmod":
		return x.set(o, mode(o.mode))
	case "chown":
		return x.set(o, o.owner())
	case "truncate":
		return x.set(o, &export.SetAttr{Set: export.SetSize, Size: uint64(o.off + o.arg)})
	}
	out, st := m.simple(o, x, to)
	if st != export.OK {
		return "", []export.Status{st}
	}
	return out, nil
}

// simple is call for what has one right status.
func (m *model) simple(o *op, x, to *mnode) (string, export.Status) {
	switch o.kind {
	case "create", "mkdir", "symlink":
		return m.create(o, x)
	case "link":
		if x.kids != nil {
			return "", export.ErrIsDir
		}
		return m.insert(o, to, func() *mnode { x.a.Nlink++; return x })
	case "lookup", "remove", "parent", "list":
		return m.inDirectory(o, x)
	case "readlink":
		if x.a.Type != export.TypeSymlink {
			return "", export.ErrInval
		}
		return x.target, export.OK
	case "getattr":
		return describe(&x.a), export.OK
	case "write", "deallocate", "read":
		return x.io(o)
	case "setx", "getx", "removex":
		return x.xattr(o)
	}
	panic("unknown operation " + o.kind)
}

// search says whether name of x can be looked up.
func (x *mnode) search(c *export.Cred) export.Status {
	switch {
	case x.a.Nlink == 0:
		return export.ErrStale
	case x.kids == nil:
		return export.ErrNotDir
	case !export.Permits(c, &x.a, export.PermExec):
		return export.ErrAccess
	}
	return export.OK
}

// insert puts what make returns into dir, unless something is there.
func (m *model) insert(o *op, dir *mnode, make func() *mnode) (string, export.Status) {
	if st := dir.search(o.cred); st != export.OK {
		return "", st
	}
	if dir.kids[o.name] != nil {
		return "", export.ErrExist
	}
	if err := export.CheckAdd(o.cred, &dir.a); err != nil {
		return "", export.StatusOf(err)
	}
	n := make()
	dir.kids[o.name] = n
	return fmt.Sprintf("#%d new true %s", n.number, describe(&n.a)), export.OK
}

func (m *model) create(o *op, dir *mnode) (string, export.Status) {
	if st := dir.search(o.cred); st != export.OK {
		return "", st
	}
	if old := dir.kids[o.name]; old != nil && o.kind == "create" {
		return m.take(o, old)
	}
	n := &mnode{a: export.Attr{Type: export.TypeRegular, Nlink: 1, UID: o.cred.UID}, parent: dir}
	perm := o.mode
	switch o.kind {
	case "create":
		if how, _ := o.createMode(); how == export.CreateExclusive {
			n.verifier = o.verifier()
		}
	case "mkdir":
		n.a.Type = export.TypeDirectory
	case "symlink":
		n.a.Type, n.target, perm = export.TypeSymlink, "to/"+o.newName, 0o777
	}
	n.a.GID, n.a.Mode = export.Inherit(o.cred, &dir.a, n.a.Type, perm)
	return m.insert(o, dir, func() *mnode { return m.add(n) })
}

// take is Create on an existing name.
func (m *model) take(o *op, old *mnode) (string, export.Status) {
	how, truncate := o.createMode()
	switch {
	case how == export.CreateGuarded, how == export.CreateExclusive && old.verifier != o.verifier():
		return "", export.ErrExist
	case how == export.CreateUnchecked:
		if st := openStatus(old); st != export.OK {
			return "", st
		}
		if truncate {
			if _, failed := old.set(o, &export.SetAttr{Set: export.SetSize}); failed != nil {
				return "", failed[0]
			}
		}
	}
	return fmt.Sprintf("#%d new false %s", old.number, describe(&old.a)), export.OK
}

func (m *model) inDirectory(o *op, x *mnode) (string, export.Status) {
	if o.kind == "list" {
		switch {
		case x.kids == nil:
			return "", export.ErrNotDir
		case !export.Permits(o.cred, &x.a, export.PermRead):
			return "", export.ErrAccess
		}
		var names []string
		for name, n := range x.kids {
			names = append(names, name+" "+describe(&n.a))
		}
		slices.Sort(names)
		return fmt.Sprint(names), export.OK
	}
	if st := x.search(o.cred); st != export.OK {
		return "", st
	}
	if o.kind == "parent" {
		return fmt.Sprintf("#%d %s", x.parent.number, describe(&x.parent.a)), export.OK
	}
	n := x.kids[o.name]
	if n == nil {
		return "", export.ErrNoEnt
	}
	if o.kind == "lookup" {
		return fmt.Sprintf("#%d %s", n.number, describe(&n.a)), export.OK
	}
	if err := export.CheckRemove(o.cred, &x.a, &n.a); err != nil {
		return "", export.StatusOf(err)
	}
	switch kind := o.removeKind(); {
	case kind == export.RemoveFile && n.kids != nil:
		return "", export.ErrIsDir
	case kind == export.RemoveDir && n.kids == nil:
		return "", export.ErrNotDir
	case len(n.kids) > 0:
		return "", export.ErrNotEmpty
	}
	delete(x.kids, o.name)
	n.a.Nlink--
	return fmt.Sprint("#", n.number), export.OK
}

func (n *mnode) isAbove(other *mnode) bool {
	for d := other; d != nil; d = d.parent {
		if d == n {
			return true
		}
	}
	return false
}

func (m *model) rename(o *op, from, to *mnode) (string, []export.Status) {
	stFrom, stTo := from.search(o.cred), to.search(o.cred)
	source := from.kids[o.name]
	if stFrom == export.OK && source == nil {
		stFrom = export.ErrNoEnt
	}
	switch {
	case stFrom != export.OK && stTo != export.OK && stFrom != stTo:
		return "", []export.Status{stFrom, stTo}
	case stFrom != export.OK:
		return "", []export.Status{stFrom}
	case stTo != export.OK:
		return "", []export.Status{stTo}
	}
	victim := to.kids[o.newName]
	var replaced *export.Attr
	if victim != nil {
		replaced = &victim.a
	}
	switch {
	case source.kids != nil && source.isAbove(to):
		return "", []export.Status{export.ErrInval}
	case victim != nil && victim.kids != nil && victim.isAbove(from):
		return "", []export.Status{export.ErrNotEmpty}
	case source == victim:
		return "", nil
	}
	if err := export.CheckRename(o.cred, &from.a, &source.a, &to.a, replaced, from == to); err != nil {
		return "", []export.Status{export.StatusOf(err)}
	}
	out := ""
	if victim != nil {
		switch {
		case source.kids != nil && victim.kids == nil:
			return "", []export.Status{export.ErrNotDir}
		case source.kids == nil && victim.kids != nil:
			return "", []export.Status{export.ErrIsDir}
		case len(victim.kids) > 0:
			return "", []export.Status{export.ErrNotEmpty}
		}
		victim.a.Nlink--
		out = fmt.Sprint("#", victim.number)
	}
	delete(from.kids, o.name)
	to.kids[o.newName] = source
	if source.kids != nil {
		source.parent = to
	}
	return out, nil
}

func (x *mnode) set(o *op, s *export.SetAttr) (string, []export.Status) {
	var failed []export.Status
	if s.Set&export.SetSize != 0 && x.a.Type != export.TypeRegular {
		if x.kids != nil {
			failed = append(failed, export.ErrIsDir)
		} else {
			failed = append(failed, export.ErrInval)
		}
	}
	if err := export.CheckSetAttr(o.cred, &x.a, s, false); err != nil {
		failed = append(failed, export.StatusOf(err))
	}
	if failed != nil {
		return "", failed
	}
	x.a.Mode = export.ModeAfterSet(o.cred, &x.a, s)
	if s.Set&export.SetUID != 0 {
		x.a.UID = s.UID
	}
	if s.Set&export.SetGID != 0 {
		x.a.GID = s.GID
	}
	if s.Set&export.SetSize != 0 {
		x.resize(int(s.Size))
	}
	return describe(&x.a), nil
}

func (x *mnode) resize(n int) {
	x.data = append(x.data, make([]byte, max(0, n-len(x.data)))...)[:n]
	x.a.Size = uint64(n)
}

func openStatus(x *mnode) export.Status {
	switch x.a.Type {
	case export.TypeRegular:
		return export.OK
	case export.TypeDirectory:
		return export.ErrIsDir
	}
	return export.ErrSymlink
}

func (x *mnode) io(o *op) (string, export.Status) {
	if st := openStatus(x); st != export.OK {
		return "", st
	}
	want := export.PermWrite
	if o.kind == "read" {
		want = export.PermRead
	}
	if !export.Permits(o.cred, &x.a, want) {
		return "", export.ErrAccess
	}
	size := len(x.data)
	switch o.kind {
	case "read":
		p := x.data[min(o.off, size):min(o.off+o.n, size)]
		return fmt.Sprint(digest(p), " eof ", o.off+o.n >= size), export.OK
	case "write":
		x.resize(max(size, o.off+o.n))
		copy(x.data[o.off:], o.bytes())
		x.a.Mode = export.ModeAfterWrite(o.cred, &x.a)
	case "deallocate":
		clear(x.data[min(o.off, size):min(o.off+o.n, size)])
	}
	return describe(&x.a), export.OK
}

func (x *mnode) xattr(o *op) (string, export.Status) {
	if err := export.CheckXattr(o.cred, &x.a, o.kind != "getx"); err != nil {
		return "", export.StatusOf(err)
	}
	value, ok := x.xattrs[o.name]
	switch o.kind {
	case "getx", "removex":
		if !ok {
			return "", export.ErrNoXattr
		}
		if o.kind == "getx" {
			return value, export.OK
		}
		delete(x.xattrs, o.name)
	case "setx":
		switch how := export.XattrMode(o.arg % 3); {
		case ok && how == export.XattrCreate:
			return "", export.ErrExist
		case !ok && how == export.XattrReplace:
			return "", export.ErrNoXattr
		}
		x.xattrs[o.name] = o.newName
	}
	return "", export.OK
}

func (m *model) dump() string {
	var b strings.Builder
	m.nodes[0].dump(&b, "")
	return b.String()
}

func (x *mnode) dump(b *strings.Builder, path string) {
	for _, name := range slices.Sorted(maps.Keys(x.kids)) {
		n := x.kids[name]
		fmt.Fprintf(b, "%s/%s #%d %s", path, name, n.number, describe(&n.a))
		switch n.a.Type {
		case export.TypeRegular:
			fmt.Fprintf(b, " %s %v", digest(n.data), nil)
		case export.TypeSymlink:
			fmt.Fprintf(b, " %q %v", n.target, nil)
		}
		fmt.Fprintln(b)
		n.dump(b, path+"/"+name)
	}
}
