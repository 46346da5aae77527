package nfstest

import (
	"context"
	"sync"
	"sync/atomic"

	"capstan/export"
)

// Faults is a Volume that fails on demand. Calls go through to the Volume
// inside unless a hook stands in their way.
type Faults struct {
	export.Volume

	mu       sync.Mutex
	hooks    map[string]func(context.Context) error // by method, guarded by mu
	features func(*export.Features)                 // guarded by mu
	rolled   atomic.Uint64                          // added to the write verifier
}

// NewFaults wraps a Volume.
func NewFaults(v export.Volume) *Faults {
	return &Faults{Volume: v, hooks: make(map[string]func(context.Context) error)}
}

// Fail makes a method of the Volume or of its files fail with err, from now
// on; nil takes it back. The name "*" stands for all that have no fault of
// their own, but for Root.
func (f *Faults) Fail(method string, err error) {
	if err == nil {
		f.Hook(method, nil)
		return
	}
	f.Hook(method, func(context.Context) error { return err })
}

// Hook has fn called before a method; the method fails with its error. nil
// takes it back.
func (f *Faults) Hook(method string, fn func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fn == nil {
		delete(f.hooks, method)
		return
	}
	f.hooks[method] = fn
}

// SetFeatures changes what the Volume says it offers.
func (f *Faults) SetFeatures(change func(*export.Features)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.features = change
}

// Roll changes the write verifier, as a loss of unstable data does.
func (f *Faults) Roll() { f.rolled.Add(1) }

func (f *Faults) before(ctx context.Context, method string) error {
	f.mu.Lock()
	hook := f.hooks[method]
	if hook == nil && method != "Root" {
		hook = f.hooks["*"]
	}
	f.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

// Features implements [export.Volume].
func (f *Faults) Features() export.Features {
	features := f.Volume.Features()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.features != nil {
		f.features(&features)
	}
	return features
}

// Root implements [export.Volume].
func (f *Faults) Root(ctx context.Context) (export.Object, error) {
	if err := f.before(ctx, "Root"); err != nil {
		return export.Object{}, err
	}
	return f.Volume.Root(ctx)
}

// GetAttr implements [export.Volume].
func (f *Faults) GetAttr(ctx context.Context, c *export.Cred, o export.Object, m export.AttrMask) (export.Attr, error) {
	if err := f.before(ctx, "GetAttr"); err != nil {
		return export.Attr{}, err
	}
	return f.Volume.GetAttr(ctx, c, o, m)
}

// SetAttr implements [export.Volume].
func (f *Faults) SetAttr(ctx context.Context, c *export.Cred, o export.Object, via export.File, s *export.SetAttr) (export.Change, error) {
	if err := f.before(ctx, "SetAttr"); err != nil {
		return export.Change{}, err
	}
	if file, ok := via.(*faultyFile); ok {
		via = file.File
	}
	return f.Volume.SetAttr(ctx, c, o, via, s)
}

// Access implements [export.Volume].
func (f *Faults) Access(ctx context.Context, c *export.Cred, o export.Object, want export.Access) (export.Access, export.Attr, error) {
	if err := f.before(ctx, "Access"); err != nil {
		return 0, export.Attr{}, err
	}
	return f.Volume.Access(ctx, c, o, want)
}

// Lookup implements [export.Volume].
func (f *Faults) Lookup(ctx context.Context, c *export.Cred, dir export.Object, name string, m export.AttrMask) (export.Object, export.Attr, error) {
	if err := f.before(ctx, "Lookup"); err != nil {
		return export.Object{}, export.Attr{}, err
	}
	return f.Volume.Lookup(ctx, c, dir, name, m)
}

// Parent implements [export.Volume].
func (f *Faults) Parent(ctx context.Context, c *export.Cred, dir export.Object, m export.AttrMask) (export.Object, export.Attr, error) {
	if err := f.before(ctx, "Parent"); err != nil {
		return export.Object{}, export.Attr{}, err
	}
	return f.Volume.Parent(ctx, c, dir, m)
}

// Readlink implements [export.Volume].
func (f *Faults) Readlink(ctx context.Context, c *export.Cred, o export.Object) (string, error) {
	if err := f.before(ctx, "Readlink"); err != nil {
		return "", err
	}
	return f.Volume.Readlink(ctx, c, o)
}

// ReadDir implements [export.Volume].
func (f *Faults) ReadDir(ctx context.Context, c *export.Cred, dir export.Object, cookie uint64, m export.AttrMask, emit func(*export.Dirent) bool) (bool, error) {
	if err := f.before(ctx, "ReadDir"); err != nil {
		return false, err
	}
	return f.Volume.ReadDir(ctx, c, dir, cookie, m, emit)
}

// Create implements [export.Volume].
func (f *Faults) Create(ctx context.Context, c *export.Cred, dir export.Object, name string, a *export.Create) (export.Created, error) {
	if err := f.before(ctx, "Create"); err != nil {
		return export.Created{}, err
	}
	made, err := f.Volume.Create(ctx, c, dir, name, a)
	if err == nil && made.File != nil {
		made.File = &faultyFile{made.File, f}
	}
	return made, err
}

// Mkdir implements [export.Volume].
func (f *Faults) Mkdir(ctx context.Context, c *export.Cred, dir export.Object, name string, s *export.SetAttr) (export.Created, error) {
	if err := f.before(ctx, "Mkdir"); err != nil {
		return export.Created{}, err
	}
	return f.Volume.Mkdir(ctx, c, dir, name, s)
}

// Symlink implements [export.Volume].
func (f *Faults) Symlink(ctx context.Context, c *export.Cred, dir export.Object, name, target string, s *export.SetAttr) (export.Created, error) {
	if err := f.before(ctx, "Symlink"); err != nil {
		return export.Created{}, err
	}
	return f.Volume.Symlink(ctx, c, dir, name, target, s)
}

// Mknod implements [export.Volume].
func (f *Faults) Mknod(ctx context.Context, c *export.Cred, dir export.Object, name string, a *export.NewNode) (export.Created, error) {
	if err := f.before(ctx, "Mknod"); err != nil {
		return export.Created{}, err
	}
	return f.Volume.Mknod(ctx, c, dir, name, a)
}

// Link implements [export.Volume].
func (f *Faults) Link(ctx context.Context, c *export.Cred, o, dir export.Object, name string) (export.Created, error) {
	if err := f.before(ctx, "Link"); err != nil {
		return export.Created{}, err
	}
	return f.Volume.Link(ctx, c, o, dir, name)
}

// Remove implements [export.Volume].
func (f *Faults) Remove(ctx context.Context, c *export.Cred, dir export.Object, name string, kind export.RemoveKind) (export.Object, export.Change, error) {
	if err := f.before(ctx, "Remove"); err != nil {
		return export.Object{}, export.Change{}, err
	}
	return f.Volume.Remove(ctx, c, dir, name, kind)
}

// Rename implements [export.Volume].
func (f *Faults) Rename(ctx context.Context, c *export.Cred, from export.Object, oldName string, to export.Object, newName string) (export.Renamed, error) {
	if err := f.before(ctx, "Rename"); err != nil {
		return export.Renamed{}, err
	}
	return f.Volume.Rename(ctx, c, from, oldName, to, newName)
}

// Open implements [export.Volume].
func (f *Faults) Open(ctx context.Context, c *export.Cred, o export.Object, m export.OpenMode) (export.File, error) {
	if err := f.before(ctx, "Open"); err != nil {
		return nil, err
	}
	file, err := f.Volume.Open(ctx, c, o, m)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f}, nil
}

// StatFS implements [export.Volume].
func (f *Faults) StatFS(ctx context.Context, o export.Object) (export.StatFS, error) {
	if err := f.before(ctx, "StatFS"); err != nil {
		return export.StatFS{}, err
	}
	return f.Volume.StatFS(ctx, o)
}

// GetXattr implements [export.Volume].
func (f *Faults) GetXattr(ctx context.Context, c *export.Cred, o export.Object, name string) ([]byte, error) {
	if err := f.before(ctx, "GetXattr"); err != nil {
		return nil, err
	}
	return f.Volume.GetXattr(ctx, c, o, name)
}

// SetXattr implements [export.Volume].
func (f *Faults) SetXattr(ctx context.Context, c *export.Cred, o export.Object, name string, value []byte, mode export.XattrMode) (export.Change, error) {
	if err := f.before(ctx, "SetXattr"); err != nil {
		return export.Change{}, err
	}
	return f.Volume.SetXattr(ctx, c, o, name, value, mode)
}

// ListXattr implements [export.Volume].
func (f *Faults) ListXattr(ctx context.Context, c *export.Cred, o export.Object) ([]string, error) {
	if err := f.before(ctx, "ListXattr"); err != nil {
		return nil, err
	}
	return f.Volume.ListXattr(ctx, c, o)
}

// RemoveXattr implements [export.Volume].
func (f *Faults) RemoveXattr(ctx context.Context, c *export.Cred, o export.Object, name string) (export.Change, error) {
	if err := f.before(ctx, "RemoveXattr"); err != nil {
		return export.Change{}, err
	}
	return f.Volume.RemoveXattr(ctx, c, o, name)
}

// WriteVerifier implements [export.Volume].
func (f *Faults) WriteVerifier() [8]byte {
	v := f.Volume.WriteVerifier()
	v[0] += byte(f.rolled.Load())
	return v
}

// faultyFile is an open file of a Faults.
type faultyFile struct {
	export.File
	faults *Faults
}

func (f *faultyFile) ReadAt(ctx context.Context, p []byte, off uint64) (int, bool, error) {
	if err := f.faults.before(ctx, "ReadAt"); err != nil {
		return 0, false, err
	}
	return f.File.ReadAt(ctx, p, off)
}

func (f *faultyFile) WriteAt(ctx context.Context, c *export.Cred, p []byte, off uint64, s export.Stability) (int, export.Stability, error) {
	if err := f.faults.before(ctx, "WriteAt"); err != nil {
		return 0, s, err
	}
	return f.File.WriteAt(ctx, c, p, off, s)
}

// Commit changes the write verifier when it fails, as the contract asks.
func (f *faultyFile) Commit(ctx context.Context, off, n uint64) error {
	if err := f.faults.before(ctx, "Commit"); err != nil {
		f.faults.Roll()
		return err
	}
	return f.File.Commit(ctx, off, n)
}

func (f *faultyFile) Seek(ctx context.Context, off uint64, what export.SeekWhat) (uint64, bool, error) {
	if err := f.faults.before(ctx, "Seek"); err != nil {
		return 0, false, err
	}
	return f.File.Seek(ctx, off, what)
}

func (f *faultyFile) Allocate(ctx context.Context, off, n uint64) error {
	if err := f.faults.before(ctx, "Allocate"); err != nil {
		return err
	}
	return f.File.Allocate(ctx, off, n)
}

func (f *faultyFile) Deallocate(ctx context.Context, off, n uint64) error {
	if err := f.faults.before(ctx, "Deallocate"); err != nil {
		return err
	}
	return f.File.Deallocate(ctx, off, n)
}

func (f *faultyFile) Lock(ctx context.Context, l export.Lock) (*export.Lock, error) {
	if err := f.faults.before(ctx, "Lock"); err != nil {
		return nil, err
	}
	return f.File.Lock(ctx, l)
}

func (f *faultyFile) TestLock(ctx context.Context, l export.Lock) (*export.Lock, error) {
	if err := f.faults.before(ctx, "TestLock"); err != nil {
		return nil, err
	}
	return f.File.TestLock(ctx, l)
}

func (f *faultyFile) Unlock(ctx context.Context, l export.Lock) error {
	if err := f.faults.before(ctx, "Unlock"); err != nil {
		return err
	}
	return f.File.Unlock(ctx, l)
}
