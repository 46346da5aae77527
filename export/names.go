package export

import (
	"context"
	"path"
	"strings"
)

// Root returns the root of everything: the top of the pseudo tree, or the root
// of the export at "/" if there is one.
func (t *Table) Root(ctx context.Context) (Node, error) {
	if e := t.tree.root.export; e != nil {
		o, err := e.Root(ctx)
		return Node{Export: e, Object: o}, err
	}
	return t.node(t.tree.root), nil
}

// node returns the pseudo directory d itself, whatever is joined there.
func (t *Table) node(d *pseudoDir) Node { return Node{Export: t.pseudo, Object: Live(d.ino)} }

// Lookup finds name in dir, with rights r on dir's export. Where an export is
// joined it leads to the export's root. What the peer may not see is not there
// ([ErrNoEnt]). The rights on another export than dir's are what [Table.Enter]
// says.
func (t *Table) Lookup(ctx context.Context, p *Peer, v Version, r Rights, dir Node, name string, mask AttrMask) (Node, Attr, error) {
	if !dir.IsPseudo() {
		o, attr, err := dir.Export.Volume.Lookup(ctx, r.Cred, dir.Object, name, mask)
		return Node{Export: dir.Export, Object: o}, attr, err
	}
	d, err := t.tree.dir(dir.Object)
	if err != nil {
		return Node{}, Attr{}, err
	}
	c := d.children[name]
	if c == nil {
		return Node{}, Attr{}, ErrNoEnt
	}
	switch seen, err := t.visible(ctx, p, v, c); {
	case err != nil:
		return Node{}, Attr{}, err
	case !seen:
		return Node{}, Attr{}, ErrNoEnt
	}
	return t.cross(ctx, c, mask)
}

// cross returns what stands at d: the root of the export joined there, else d.
func (t *Table) cross(ctx context.Context, d *pseudoDir, mask AttrMask) (Node, Attr, error) {
	e := d.export
	if e == nil {
		return t.node(d), d.attr(), nil
	}
	o, err := e.Root(ctx)
	if err != nil {
		return Node{}, Attr{}, err
	}
	attr, err := e.Volume.GetAttr(ctx, System(), o, mask)
	return Node{Export: e, Object: o}, attr, err
}

// visible reports whether p sees d: whether some export at or below d lets it
// in with v.
func (t *Table) visible(ctx context.Context, p *Peer, v Version, d *pseudoDir) (bool, error) {
	if e := d.export; e != nil {
		if !e.Versions.Has(v) {
			return false, nil
		}
		r, _, err := t.rule(ctx, e, p.addr())
		return r != nil && r.Grant != GrantNone, err
	}
	var delay error
	for _, c := range d.order {
		seen, err := t.visible(ctx, p, v, c)
		if seen {
			return true, nil
		}
		if err != nil {
			delay = err
		}
	}
	return false, delay
}

// Parent returns the directory above the directory n, with rights r on n's
// export. Above the root of an export is the pseudo directory that it is
// joined in, except in NFSv3, where a client knows one export and its root is
// its own parent. The root of everything has no parent ([ErrNoEnt], RFC 8881
// section 18.14.3), in NFSv3 itself.
func (t *Table) Parent(ctx context.Context, p *Peer, v Version, r Rights, n Node, mask AttrMask) (Node, Attr, error) {
	var d *pseudoDir
	switch {
	case n.IsPseudo():
		var err error
		if d, err = t.tree.dir(n.Object); err != nil {
			return Node{}, Attr{}, err
		}
	case !n.Export.IsRoot(n.Object):
		o, attr, err := n.Export.Volume.Parent(ctx, r.Cred, n.Object, mask)
		return Node{Export: n.Export, Object: o}, attr, err
	case v == Version3:
		attr, err := n.Export.Volume.GetAttr(ctx, r.Cred, n.Object, mask)
		return n, attr, err
	default:
		if d = t.junction[n.Export.ID]; d == nil {
			return Node{}, Attr{}, ErrStale
		}
	}
	if d.parent != nil {
		d = d.parent
	} else if v != Version3 {
		return Node{}, Attr{}, ErrNoEnt
	}
	return t.node(d), d.attr(), nil
}

// ReadDir calls emit for the entries of dir as [Volume.ReadDir] does, with the
// node each stands for. Of a pseudo directory p gets the entries it may see;
// those where an export is joined have the attributes of its root, as Lookup
// has, or Err.
func (t *Table) ReadDir(ctx context.Context, p *Peer, v Version, r Rights, dir Node, cookie uint64, mask AttrMask, emit func(*Dirent, Node) bool) (eof bool, err error) {
	if !dir.IsPseudo() {
		e := dir.Export
		return e.Volume.ReadDir(ctx, r.Cred, dir.Object, cookie, mask, func(d *Dirent) bool {
			return emit(d, Node{Export: e, Object: d.Object})
		})
	}
	d, err := t.tree.dir(dir.Object)
	if err != nil {
		return false, err
	}
	for _, c := range d.from(cookie) {
		// Without an answer about the name of the peer it sees less for now:
		// one slow name server must not hold up the whole listing.
		if seen, _ := t.visible(ctx, p, v, c); !seen {
			continue
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		ent := Dirent{Name: c.name, Cookie: c.ino}
		n, attr, err := t.cross(ctx, c, mask)
		if err != nil {
			n, attr = t.node(c), c.attr()
			ent.Err = err
		}
		ent.Object, ent.Attr = n.Object, attr
		if !emit(&ent, n) {
			return false, nil
		}
	}
	return true, nil
}

// MountedOn returns the mounted_on_fileid of n, whose own number is fileid: the
// number of the directory that an export's root covers, else fileid (RFC 8881
// section 5.8.2.23).
func (t *Table) MountedOn(n Node, fileid uint64) uint64 {
	if !n.IsPseudo() && n.Export.IsRoot(n.Object) {
		if d := t.junction[n.Export.ID]; d != nil && d.parent != nil {
			return d.ino
		}
	}
	return fileid
}

// ByPath finds the directory at path as MOUNT names it: one of the pseudo tree,
// an export, or a directory inside one. What p may not see is not there. Inside
// an export no permission of the caller is asked, and symbolic links are not
// followed: a client may be mounted below a directory that the user who will
// work there cannot search, and is checked at every call from then on.
func (t *Table) ByPath(ctx context.Context, p *Peer, v Version, name string) (Node, Attr, error) {
	if len(name) > maxPath {
		return Node{}, Attr{}, ErrNameTooLong
	}
	n, err := t.Root(ctx)
	if err != nil {
		return Node{}, Attr{}, err
	}
	if !n.IsPseudo() {
		if seen, err := t.visible(ctx, p, v, t.tree.root); !seen || err != nil {
			return Node{}, Attr{}, cmpErr(err, ErrAccess)
		}
	}
	attr, err := n.Export.Volume.GetAttr(ctx, System(), n.Object, MaskAll)
	for part := range strings.SplitSeq(path.Clean("/" + name)[1:], "/") {
		if err != nil {
			return Node{}, Attr{}, err
		}
		if part == "" {
			break
		}
		if attr.Type != TypeDirectory {
			return Node{}, Attr{}, ErrNotDir
		}
		if len(part) > maxName {
			return Node{}, Attr{}, ErrNameTooLong
		}
		n, attr, err = t.Lookup(ctx, p, v, Rights{Cred: System()}, n, part, MaskAll)
	}
	if err == nil && attr.Type != TypeDirectory {
		err = ErrNotDir
	}
	if err != nil {
		return Node{}, Attr{}, err
	}
	return n, attr, nil
}

// cmpErr returns err, or other if it is nil.
func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// List returns the exports that p sees with v, by path: the answer of MOUNT's
// EXPORT procedure.
func (t *Table) List(ctx context.Context, p *Peer, v Version) []*Export {
	var list []*Export
	for _, e := range t.exports {
		if seen, _ := t.visible(ctx, p, v, t.junction[e.ID]); seen {
			list = append(list, e)
		}
	}
	return list
}
