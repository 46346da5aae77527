package billyfs

import (
	"context"
	"io"
	"math"
	"sync/atomic"

	"capstan/export"
)

// openFile is an [export.File]: one open of an object, with its own mode.
type openFile struct {
	op     *opened
	mode   export.OpenMode // OpenRead and OpenWrite only
	closed atomic.Bool
}

var _ export.File = (*openFile)(nil)

// Object implements [export.File].
func (f *openFile) Object() export.Object { return f.op.obj }

// use checks that f is open with the mode wanted.
func (f *openFile) use(ctx context.Context, want export.OpenMode) error {
	if f.closed.Load() {
		return export.ErrStale
	}
	if f.mode&want != want {
		return export.ErrAccess
	}
	return ctx.Err()
}

func (f *openFile) wrap(op string, err error) error { return export.Wrap(op, label(f.op.obj), err) }

// GetAttr implements [export.File].
func (f *openFile) GetAttr(ctx context.Context, mask export.AttrMask) (export.Attr, error) {
	if err := f.use(ctx, 0); err != nil {
		return export.Attr{}, f.wrap("getattr", err)
	}
	if _, ok := fileWith[FileStater](f.op); !ok {
		return f.op.v.GetAttr(ctx, export.System(), f.op.obj, mask)
	}
	seq := f.op.v.table.now()
	info, err := f.op.stat(mask)
	if err != nil {
		return export.Attr{}, f.wrap("getattr", err)
	}
	return f.op.v.attr(&info, seq), nil
}

// size returns the present size.
func (f *openFile) size() (int64, error) {
	if s, ok := fileWith[sizer](f.op); ok {
		return s.size()
	}
	info, err := f.op.stat(export.MaskFile)
	return int64(info.Size), err
}

// ReadAt implements [export.File].
func (f *openFile) ReadAt(ctx context.Context, p []byte, off uint64) (n int, eof bool, err error) {
	if err := f.use(ctx, export.OpenRead); err != nil {
		return 0, false, f.wrap("read", err)
	}
	if off > math.MaxInt64 {
		return 0, true, nil
	}
	if room := uint64(math.MaxInt64) - off; uint64(len(p)) > room {
		p = p[:room]
	}
	r := f.op.readable()
	if r == nil {
		return 0, false, f.wrap("read", export.ErrStale)
	}
	for n < len(p) {
		m, err := r.ReadAt(p[n:], int64(off)+int64(n))
		n += m
		if err == io.EOF || err == nil && m == 0 {
			return n, true, nil
		}
		if err != nil {
			return n, false, f.wrap("read", err)
		}
	}
	size, err := f.size()
	if err != nil {
		return n, false, f.wrap("read", err)
	}
	return n, off+uint64(n) >= uint64(size), nil
}

// WriteAt implements [export.File].
func (f *openFile) WriteAt(ctx context.Context, c *export.Cred, p []byte, off uint64, stable export.Stability) (n int, committed export.Stability, err error) {
	if err := f.use(ctx, export.OpenWrite); err != nil {
		return 0, 0, f.wrap("write", err)
	}
	if len(p) == 0 {
		return 0, stable, nil
	}
	v := f.op.v
	if limit := min(v.facts.MaxFileSize, math.MaxInt64); off > limit || uint64(len(p)) > limit-off {
		return 0, 0, f.wrap("write", export.ErrFBig)
	}
	w := f.op.writable()
	if w == nil {
		return 0, 0, f.wrap("write", export.ErrStale)
	}
	if !c.Privileged() && f.op.setID.Load() {
		if err := v.clearSetID(c, f.op); err != nil {
			return 0, 0, f.wrap("write", err)
		}
	}
	lost := f.op.lost.Load()
	wa, ok := w.(io.WriterAt)
	if !ok {
		return 0, 0, f.wrap("write", export.ErrNotSupp)
	}
	f.op.writing.Add(1)
	changing := v.table.changing(f.op.obj.Ino, f.op.obj.NameHash)
	for n < len(p) && err == nil {
		var m int
		m, err = wa.WriteAt(p[n:], int64(off)+int64(n))
		n += m
		if m == 0 && err == nil {
			err = io.ErrShortWrite
		}
	}
	if n > 0 {
		f.op.written.Add(1)
		v.changed(f.op.obj, true)
	}
	v.table.done(changing)
	f.op.writing.Add(-1)
	if err != nil {
		return n, export.Unstable, f.wrap("write", err)
	}
	if stable == export.Unstable {
		return n, export.Unstable, nil
	}
	committed = export.FileSync
	if d, ok := w.(DataSyncer); ok && stable == export.DataSync {
		// Only data: what else is unsynced stays for a Commit.
		committed, err = export.DataSync, f.op.sync(syncData, d.Datasync)
	} else {
		err = v.syncOpened(f.op)
	}
	if err == nil && f.op.lost.Load() != lost {
		// Another's sync was told of a failure that may be ours, and nobody
		// compares the verifier of a stable write.
		err = export.ErrIO
	}
	if err != nil {
		return n, export.Unstable, f.wrap("write", err)
	}
	return n, committed, nil
}

// clearSetID takes the set-id bits off before a write by one without
// privilege.
func (v *Volume) clearSetID(c *export.Cred, op *opened) error {
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, ls, err := v.locked(op.obj, export.MaskAuth, true)
	if err != nil {
		return err
	}
	defer ls.unlock()
	mode := export.ModeAfterWrite(c, &t.info.Attr)
	if mode != t.info.Mode {
		m := v.mutatorOf(t)
		defer m.close()
		if err := m.begin(false); err != nil {
			return err
		}
		if err := m.chmod(mode); err != nil {
			return err
		}
		v.changed(op.obj, false)
	}
	op.noteMode(mode)
	return nil
}

// Commit implements [export.File].
func (f *openFile) Commit(ctx context.Context, _, _ uint64) error {
	if err := f.use(ctx, 0); err != nil {
		return f.wrap("commit", err)
	}
	return f.wrap("commit", f.op.v.syncOpened(f.op))
}

// Seek implements [export.File].
func (f *openFile) Seek(ctx context.Context, off uint64, what export.SeekWhat) (pos uint64, eof bool, err error) {
	defer func() { err = f.wrap("seek", err) }()
	if err := f.use(ctx, 0); err != nil {
		return 0, false, err
	}
	if what != export.SeekData && what != export.SeekHole {
		return 0, false, export.ErrInval
	}
	s, ok := fileWith[HoleSeeker](f.op)
	if !ok || !f.op.v.facts.Seek {
		return 0, false, export.ErrNotSupp
	}
	size, err := f.size()
	if err != nil {
		return 0, false, err
	}
	if off >= uint64(size) {
		return 0, false, export.ErrNXIO
	}
	data, err := s.SeekHole(int64(off), export.SeekData)
	trailing := export.StatusOf(err) == export.ErrNXIO // no data follow
	if err != nil && !trailing {
		return 0, false, err
	}
	switch {
	case what == export.SeekData && trailing:
		return uint64(size), true, nil
	case what == export.SeekData:
		return uint64(data), false, nil
	case trailing:
		return off, off == uint64(size), nil
	}
	hole, err := s.SeekHole(int64(off), export.SeekHole)
	if err != nil {
		return 0, false, err
	}
	return uint64(hole), uint64(hole) >= uint64(size), nil
}

// Allocate implements [export.File].
func (f *openFile) Allocate(ctx context.Context, off, n uint64) error {
	return f.wrap("allocate", f.space(ctx, off, n, f.op.v.facts.Allocate, Allocator.Allocate))
}

// Deallocate implements [export.File].
func (f *openFile) Deallocate(ctx context.Context, off, n uint64) error {
	if err := f.use(ctx, export.OpenWrite); err != nil {
		return f.wrap("deallocate", err)
	}
	// Nothing is beyond the end (RFC 7862 section 15.4).
	if f.op.v.facts.Deallocate && n != 0 {
		size, err := f.size()
		if err != nil {
			return f.wrap("deallocate", err)
		}
		if off >= uint64(size) {
			return nil
		}
		n = min(n, uint64(size)-off)
	}
	return f.wrap("deallocate", f.space(ctx, off, n, f.op.v.facts.Deallocate, Allocator.Deallocate))
}

func (f *openFile) space(ctx context.Context, off, n uint64, offered bool, do func(a Allocator, off, n int64) error) error {
	if err := f.use(ctx, export.OpenWrite); err != nil {
		return err
	}
	a, ok := f.op.writable().(Allocator)
	if !ok || !offered {
		return export.ErrNotSupp
	}
	if n == 0 {
		return export.ErrInval
	}
	if limit := min(f.op.v.facts.MaxFileSize, math.MaxInt64); off > limit || n > limit-off {
		return export.ErrFBig
	}
	f.op.writing.Add(1)
	defer f.op.writing.Add(-1)
	changing := f.op.v.table.changing(f.op.obj.Ino, f.op.obj.NameHash)
	defer f.op.v.table.done(changing)
	err := do(a, int64(off), int64(n))
	f.op.written.Add(1) // also after an error: it may have begun
	f.op.v.changed(f.op.obj, true)
	return err
}

// Lock implements [export.File].
func (f *openFile) Lock(ctx context.Context, l export.Lock) (*export.Lock, error) {
	want := export.OpenRead
	if l.Write {
		want = export.OpenWrite
	}
	if err := f.use(ctx, want); err != nil {
		return nil, f.wrap("lock", err)
	}
	if l.Start > l.End {
		return nil, f.wrap("lock", export.ErrInval)
	}
	f.op.lockMu.Lock()
	defer f.op.lockMu.Unlock()
	if conflict, ok := f.op.locks.Lock(l); !ok {
		return &conflict, f.wrap("lock", export.ErrLocked)
	}
	return nil, nil
}

// TestLock implements [export.File].
func (f *openFile) TestLock(ctx context.Context, l export.Lock) (*export.Lock, error) {
	if err := f.use(ctx, 0); err != nil {
		return nil, f.wrap("testlock", err)
	}
	if l.Start > l.End {
		return nil, f.wrap("testlock", export.ErrInval)
	}
	f.op.lockMu.Lock()
	defer f.op.lockMu.Unlock()
	if conflict, free := f.op.locks.Test(l); !free {
		return &conflict, nil
	}
	return nil, nil
}

// Unlock implements [export.File].
func (f *openFile) Unlock(ctx context.Context, l export.Lock) error {
	if err := f.use(ctx, 0); err != nil {
		return f.wrap("unlock", err)
	}
	if l.Start > l.End {
		return f.wrap("unlock", export.ErrInval)
	}
	f.op.lockMu.Lock()
	defer f.op.lockMu.Unlock()
	f.op.locks.Unlock(l)
	return nil
}

// Close implements [export.File].
func (f *openFile) Close() error {
	if f.closed.Swap(true) {
		return f.wrap("close", export.ErrStale)
	}
	return f.wrap("close", f.op.release())
}
