package export

import "context"

// The pseudo tree as a Volume: directories that everybody may list and nobody
// may change. [Table] shows each peer its own part of it.

var _ Volume = (*pseudoTree)(nil)

// dir returns the directory that o names.
func (t *pseudoTree) dir(o Object) (*pseudoDir, error) {
	if d := t.inos[o.Ino]; d != nil && o == Live(o.Ino) {
		return d, nil
	}
	return nil, ErrStale
}

func (t *pseudoTree) Features() Features {
	return Features{ReadOnly: true, MaxName: maxName, MaxLink: 1, MaxFileSize: 1<<63 - 1, TimeDelta: Timespec{Nsec: 1}}
}

func (t *pseudoTree) Root(context.Context) (Object, error) { return Live(t.root.ino), nil }

func (t *pseudoTree) GetAttr(_ context.Context, _ *Cred, o Object, _ AttrMask) (Attr, error) {
	d, err := t.dir(o)
	if err != nil {
		return Attr{}, err
	}
	return d.attr(), nil
}

func (t *pseudoTree) Access(_ context.Context, c *Cred, o Object, want Access) (Access, Attr, error) {
	d, err := t.dir(o)
	if err != nil {
		return 0, Attr{}, err
	}
	return want & (AccessRead | AccessLookup), d.attr(), nil
}

func (t *pseudoTree) Lookup(_ context.Context, _ *Cred, dir Object, name string, _ AttrMask) (Object, Attr, error) {
	d, err := t.dir(dir)
	if err != nil {
		return Object{}, Attr{}, err
	}
	c := d.children[name]
	if c == nil {
		return Object{}, Attr{}, ErrNoEnt
	}
	return Live(c.ino), c.attr(), nil
}

func (t *pseudoTree) Parent(_ context.Context, _ *Cred, dir Object, _ AttrMask) (Object, Attr, error) {
	d, err := t.dir(dir)
	if err != nil {
		return Object{}, Attr{}, err
	}
	if d.parent != nil {
		d = d.parent
	}
	return Live(d.ino), d.attr(), nil
}

func (t *pseudoTree) ReadDir(_ context.Context, _ *Cred, dir Object, cookie uint64, _ AttrMask, emit func(*Dirent) bool) (bool, error) {
	d, err := t.dir(dir)
	if err != nil {
		return false, err
	}
	for _, c := range d.from(cookie) {
		if !emit(&Dirent{Name: c.name, Cookie: c.ino, Object: Live(c.ino), Attr: c.attr()}) {
			return false, nil
		}
	}
	return true, nil
}

func (t *pseudoTree) Readlink(context.Context, *Cred, Object) (string, error) { return "", ErrInval }

func (t *pseudoTree) Open(context.Context, *Cred, Object, OpenMode) (File, error) {
	return nil, ErrIsDir
}

func (t *pseudoTree) StatFS(context.Context, Object) (StatFS, error) {
	return StatFS{TotalFiles: uint64(len(t.inos))}, nil
}

func (t *pseudoTree) SetAttr(context.Context, *Cred, Object, File, *SetAttr) (Change, error) {
	return Change{}, ErrROFS
}

func (t *pseudoTree) Create(context.Context, *Cred, Object, string, *Create) (Created, error) {
	return Created{}, ErrROFS
}

func (t *pseudoTree) Mkdir(context.Context, *Cred, Object, string, *SetAttr) (Created, error) {
	return Created{}, ErrROFS
}

func (t *pseudoTree) Symlink(context.Context, *Cred, Object, string, string, *SetAttr) (Created, error) {
	return Created{}, ErrROFS
}

func (t *pseudoTree) Mknod(context.Context, *Cred, Object, string, *NewNode) (Created, error) {
	return Created{}, ErrROFS
}

func (t *pseudoTree) Link(context.Context, *Cred, Object, Object, string) (Created, error) {
	return Created{}, ErrROFS
}

func (t *pseudoTree) Remove(context.Context, *Cred, Object, string, RemoveKind) (Object, Change, error) {
	return Object{}, Change{}, ErrROFS
}

func (t *pseudoTree) Rename(context.Context, *Cred, Object, string, Object, string) (Renamed, error) {
	return Renamed{}, ErrROFS
}

func (t *pseudoTree) GetXattr(context.Context, *Cred, Object, string) ([]byte, error) {
	return nil, ErrNotSupp
}

func (t *pseudoTree) SetXattr(context.Context, *Cred, Object, string, []byte, XattrMode) (Change, error) {
	return Change{}, ErrNotSupp
}

func (t *pseudoTree) ListXattr(context.Context, *Cred, Object) ([]string, error) {
	return nil, ErrNotSupp
}

func (t *pseudoTree) RemoveXattr(context.Context, *Cred, Object, string) (Change, error) {
	return Change{}, ErrNotSupp
}

func (t *pseudoTree) WriteVerifier() [8]byte { return [8]byte{} }

func (t *pseudoTree) Close(context.Context) error { return nil }
