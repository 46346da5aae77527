package export

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// fakeVolume is a Volume of a few directories and files: what the tests of
// tables need. Methods it does not have panic.
type fakeVolume struct {
	Volume
	readOnly bool
	rootErr  atomic.Pointer[error]
	calls    atomic.Int64 // of Root

	nodes map[uint64]*fakeNode // constant

	mu    sync.Mutex // guards what follows
	open  int        // files open now
	opens int        // successful Opens ever
	gate  chan struct{}
	fail  error
}

type fakeNode struct {
	attr   Attr
	parent uint64
	names  []string
	inos   map[string]uint64
}

const fakeRoot = 1

// newFakeVolume has a root, number 1, with the file "file", number 2, and the
// directory "dir", number 3, which is of another user and closed to others and
// holds "sub", number 4.
func newFakeVolume() *fakeVolume {
	dir := func(ino, parent uint64, mode uint32) *fakeNode {
		return &fakeNode{
			attr:   Attr{Type: TypeDirectory, Mode: mode, FileID: ino, Nlink: 2},
			parent: parent, inos: map[string]uint64{},
		}
	}
	v := &fakeVolume{nodes: map[uint64]*fakeNode{
		fakeRoot: dir(fakeRoot, fakeRoot, 0o755),
		2:        {attr: Attr{Type: TypeRegular, Mode: 0o644, FileID: 2, Nlink: 1}},
		3:        dir(3, fakeRoot, 0o750),
		4:        dir(4, 3, 0o755),
	}}
	v.link(fakeRoot, "file", 2)
	v.link(fakeRoot, "dir", 3)
	v.link(3, "sub", 4)
	return v
}

func (v *fakeVolume) link(dir uint64, name string, ino uint64) {
	d := v.nodes[dir]
	d.names = append(d.names, name)
	d.inos[name] = ino
}

func (v *fakeVolume) node(o Object) (*fakeNode, error) {
	if n := v.nodes[o.Ino]; n != nil && o.Snap == SnapHead {
		return n, nil
	}
	return nil, ErrStale
}

func (v *fakeVolume) Features() Features { return Features{ReadOnly: v.readOnly, MaxName: 255} }

func (v *fakeVolume) Root(context.Context) (Object, error) {
	v.calls.Add(1)
	if err := v.rootErr.Load(); err != nil {
		return Object{}, *err
	}
	return Live(fakeRoot), nil
}

func (v *fakeVolume) GetAttr(_ context.Context, _ *Cred, o Object, _ AttrMask) (Attr, error) {
	n, err := v.node(o)
	if err != nil {
		return Attr{}, err
	}
	return n.attr, nil
}

func (v *fakeVolume) Lookup(_ context.Context, c *Cred, dir Object, name string, _ AttrMask) (Object, Attr, error) {
	n, err := v.node(dir)
	if err != nil {
		return Object{}, Attr{}, err
	}
	if n.attr.Type != TypeDirectory {
		return Object{}, Attr{}, ErrNotDir
	}
	if !Permits(c, &n.attr, PermExec) {
		return Object{}, Attr{}, ErrAccess
	}
	ino, ok := n.inos[name]
	if !ok {
		return Object{}, Attr{}, ErrNoEnt
	}
	return Live(ino), v.nodes[ino].attr, nil
}

func (v *fakeVolume) Parent(_ context.Context, _ *Cred, dir Object, _ AttrMask) (Object, Attr, error) {
	n, err := v.node(dir)
	if err != nil {
		return Object{}, Attr{}, err
	}
	return Live(n.parent), v.nodes[n.parent].attr, nil
}

func (v *fakeVolume) ReadDir(_ context.Context, _ *Cred, dir Object, cookie uint64, _ AttrMask, emit func(*Dirent) bool) (bool, error) {
	n, err := v.node(dir)
	if err != nil {
		return false, err
	}
	for i, name := range n.names {
		ino := n.inos[name]
		d := &Dirent{Name: name, Cookie: uint64(3 + i), Object: Live(ino), Attr: v.nodes[ino].attr}
		if d.Cookie > cookie && !emit(d) {
			return false, nil
		}
	}
	return true, nil
}

// Open waits for the gate if there is one, or for ctx, and fails with fail.
func (v *fakeVolume) Open(ctx context.Context, c *Cred, o Object, _ OpenMode) (File, error) {
	if !c.IsSystem() {
		return nil, errors.New("opened by somebody else")
	}
	v.mu.Lock()
	gate := v.gate
	v.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fail != nil {
		return nil, v.fail
	}
	v.open++
	v.opens++
	return &fakeFile{v: v, o: o}, nil
}

// counts returns how many files are open and how often one was opened.
func (v *fakeVolume) counts() (open, opens int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open, v.opens
}

type fakeFile struct {
	File
	v      *fakeVolume
	o      Object
	closed atomic.Bool
}

func (f *fakeFile) Object() Object { return f.o }

func (f *fakeFile) Close() error {
	if f.closed.Swap(true) {
		panic("closed twice")
	}
	f.v.mu.Lock()
	defer f.v.mu.Unlock()
	f.v.open--
	return nil
}
