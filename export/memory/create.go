package memory

import (
	"context"
	"time"

	"capstan/export"
)

// Create implements [export.Volume].
func (v *Volume) Create(_ context.Context, c *export.Cred, dir export.Object, name string, args *export.Create) (export.Created, error) {
	res, st := v.add(c, dir, name, &newEntry{typ: export.TypeRegular, attr: &args.Attr, create: args})
	if st != export.OK {
		return export.Created{}, fail("create", name, st)
	}
	return res, nil
}

// Mkdir implements [export.Volume].
func (v *Volume) Mkdir(_ context.Context, c *export.Cred, dir export.Object, name string, s *export.SetAttr) (export.Created, error) {
	res, st := v.add(c, dir, name, &newEntry{typ: export.TypeDirectory, attr: s})
	if st != export.OK {
		return export.Created{}, fail("mkdir", name, st)
	}
	return res, nil
}

// Symlink implements [export.Volume]. The mode of a symbolic link is 0777.
func (v *Volume) Symlink(_ context.Context, c *export.Cred, dir export.Object, name, target string, s *export.SetAttr) (export.Created, error) {
	var res export.Created
	st := export.ErrInval
	switch {
	case target == "":
	case len(target) > maxTarget:
		st = export.ErrNameTooLong
	default:
		res, st = v.add(c, dir, name, &newEntry{typ: export.TypeSymlink, attr: s, target: target})
	}
	if st != export.OK {
		return export.Created{}, fail("symlink", name, st)
	}
	return res, nil
}

// Mknod implements [export.Volume]. Only the superuser makes devices.
func (v *Volume) Mknod(_ context.Context, c *export.Cred, dir export.Object, name string, args *export.NewNode) (export.Created, error) {
	var res export.Created
	var st export.Status
	e := &newEntry{typ: args.Type, attr: &args.Attr}
	switch args.Type {
	case export.TypeBlock, export.TypeChar:
		e.rdev = args.Rdev
		res, st = v.add(c, dir, name, e)
	case export.TypeSocket, export.TypeFIFO:
		res, st = v.add(c, dir, name, e)
	default:
		st = export.ErrBadType
	}
	if st != export.OK {
		return export.Created{}, fail("mknod", name, st)
	}
	return res, nil
}

// Link implements [export.Volume].
func (v *Volume) Link(_ context.Context, c *export.Cred, o, dir export.Object, name string) (export.Created, error) {
	var res export.Created
	n, st := v.get(o)
	if st == export.OK && n.typ == export.TypeDirectory {
		st = export.ErrIsDir
	}
	if st == export.OK {
		res, st = v.add(c, dir, name, &newEntry{typ: n.typ, link: n})
	}
	if st != export.OK {
		return export.Created{}, fail("link", name, st)
	}
	return res, nil
}

// newEntry says what add is to add.
type newEntry struct {
	typ    export.FileType
	attr   *export.SetAttr // may be nil
	target string
	rdev   export.Device
	create *export.Create // of Create, else nil
	link   *node          // of Link, else nil
}

// add adds an entry to a directory. Its checks come in the order of the system
// calls on Linux: search, existence, write permission, the rest.
func (v *Volume) add(c *export.Cred, dir export.Object, name string, e *newEntry) (res export.Created, st export.Status) {
	d, st := v.getDir(dir)
	if st != export.OK {
		return res, st
	}
	if len(name) > maxName {
		return res, export.ErrNameTooLong
	}
	d.dir.names.Lock()
	defer d.dir.names.Unlock()
	if st := d.searchLocked(c); st != export.OK {
		return res, st
	}
	if old := d.dir.entries[name]; old != nil {
		if e.create == nil {
			return res, export.ErrExist
		}
		return v.takeLocked(c, d, old.node, e.create)
	}
	if st := d.permits(c, export.PermWrite); st != export.OK {
		return res, st
	}
	now := v.now()
	n, st := v.makeLocked(c, d, name, e, now)
	if st != export.OK {
		return res, st
	}
	d.dir.addLocked(name, n)
	links := 0
	if n.dir != nil {
		links = 1
	}
	res = export.Created{Object: n.object(), Attr: n.snapshot(), New: true, Dir: d.changeDir(1, links, now)}
	if e.create != nil && e.create.Open != 0 {
		res.File = v.openNew(n, e.create.Open)
	}
	return res, export.OK
}

// makeLocked makes the node e wants, or adds a link to the one it names, and
// takes the room it needs.
func (v *Volume) makeLocked(c *export.Cred, d *node, name string, e *newEntry, now time.Time) (*node, export.Status) {
	if e.link != nil {
		if !v.space.take(nameCost(name)) {
			return nil, export.ErrNoSpc
		}
		if st := e.link.addLink(now); st != export.OK {
			v.space.give(nameCost(name))
			return nil, st
		}
		return e.link, export.OK
	}
	a, st := firstAttr(c, d.snapshot(), e)
	if st != export.OK {
		return nil, st
	}
	cost := nameCost(name) + int64(len(e.target))
	if !v.files.take(1) {
		return nil, export.ErrNoSpc
	}
	if !v.space.take(cost) {
		v.files.give(1)
		return nil, export.ErrNoSpc
	}
	n := newNode(v.lastIno.Add(1), a, now)
	n.target = e.target
	if n.dir != nil {
		n.dir.parent.Store(d)
	}
	if n.content != nil {
		n.content.size = a.Size
	}
	if s := e.attr; s != nil {
		n.setTimesLocked(s, now)
	}
	if e.create != nil && e.create.Mode == export.CreateExclusive {
		n.verifier, n.hasVerifier = e.create.Verifier, true
	}
	v.table.put(n)
	return n, export.OK
}

// firstAttr returns what a new object in a directory with attributes dir
// begins with, times apart.
func firstAttr(c *export.Cred, dir export.Attr, e *newEntry) (a export.Attr, st export.Status) {
	a = export.Attr{Type: e.typ, Mode: 0o600, UID: c.UID, GID: c.GID, Rdev: e.rdev}
	switch e.typ {
	case export.TypeDirectory:
		a.Mode = 0o700
	case export.TypeSymlink:
		a.Mode = 0o777
		a.Size = uint64(len(e.target))
	case export.TypeBlock, export.TypeChar:
		if !c.Privileged() {
			return a, export.ErrPerm
		}
	}
	s := e.attr
	if s == nil {
		s = &export.SetAttr{}
	}
	if s.Set&export.SetMode != 0 && e.typ != export.TypeSymlink {
		a.Mode = s.Mode
	}
	a.GID, a.Mode = export.Inherit(c, &dir, e.typ, a.Mode)
	if err := export.CheckSetAttr(c, &a, s, true); err != nil {
		return a, export.StatusOf(err)
	}
	if s.Set&export.SetUID != 0 {
		a.UID = s.UID
	}
	if s.Set&export.SetGID != 0 {
		a.GID = s.GID
	}
	if s.Set&export.SetSize != 0 {
		if e.typ != export.TypeRegular {
			return a, export.ErrInval
		}
		if s.Size > maxFileSize {
			return a, export.ErrFBig
		}
		a.Size = s.Size
	}
	return a, export.OK
}

// addLink adds one to the links of n. An open file that has lost its last name
// gets no new one.
func (n *node) addLink(now time.Time) export.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.dead:
		return export.ErrStale
	case n.attr.Nlink == 0:
		return export.ErrNoEnt
	case n.attr.Nlink >= maxLink:
		return export.ErrMLink
	}
	n.attr.Nlink++
	n.touchLocked(now)
	return export.OK
}

// takeLocked is Create where the name stands for n. The caller holds the names
// of the directory d.
func (v *Volume) takeLocked(c *export.Cred, d, n *node, args *export.Create) (res export.Created, st export.Status) {
	mode := args.Open
	switch args.Mode {
	case export.CreateGuarded:
		return res, export.ErrExist
	case export.CreateExclusive:
		// The retry of a create that was done. It opens like the first call
		// whatever the mode, if it comes from the owner.
		n.mu.RLock()
		same := n.hasVerifier && n.verifier == args.Verifier
		n.mu.RUnlock()
		if !same {
			return res, export.ErrExist
		}
		mode |= export.OpenOwner
	default:
		if st := openable(n.typ); st != export.OK {
			return res, st
		}
	}
	var f *file
	if args.Open != 0 {
		if f, st = v.open(c, n, mode); st != export.OK {
			return res, st
		}
	}
	if s := &args.Attr; args.Mode == export.CreateUnchecked && s.Set&export.SetSize != 0 && s.Size == 0 {
		if _, st = v.setAttr(c, n, false, &export.SetAttr{Set: export.SetSize}); st != export.OK {
			if f != nil {
				f.Close()
			}
			return res, st
		}
	}
	res = export.Created{Object: n.object(), Attr: n.snapshot(), Dir: d.unchanged()}
	if f != nil {
		res.File = f
	}
	return res, export.OK
}
