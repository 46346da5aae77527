package memory

import (
	"context"
	"math"
	"sync/atomic"

	"capstan/export"
)

// file is an open regular file. It implements [export.File].
type file struct {
	// Constant.
	v    *Volume
	n    *node
	mode export.OpenMode

	closed atomic.Bool
}

var _ export.File = (*file)(nil)

// Open implements [export.Volume].
func (v *Volume) Open(_ context.Context, c *export.Cred, o export.Object, mode export.OpenMode) (export.File, error) {
	n, st := v.get(o)
	if st == export.OK {
		st = openable(n.typ)
	}
	if st == export.OK {
		var f *file
		if f, st = v.open(c, n, mode); st == export.OK {
			return f, nil
		}
	}
	return nil, fail("open", "", st)
}

// openable says what an object of type typ answers to an open.
func openable(typ export.FileType) export.Status {
	switch typ {
	case export.TypeRegular:
		return export.OK
	case export.TypeDirectory:
		return export.ErrIsDir
	case export.TypeSymlink:
		return export.ErrSymlink
	}
	return export.ErrInval
}

// open opens the regular file n if c may.
func (v *Volume) open(c *export.Cred, n *node, mode export.OpenMode) (*file, export.Status) {
	if mode&(export.OpenRead|export.OpenWrite) == 0 {
		return nil, export.ErrInval
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return nil, export.ErrStale
	}
	if !mayOpen(c, &n.attr, mode) {
		return nil, export.ErrAccess
	}
	n.opens++
	return &file{v: v, n: n, mode: mode}, export.OK
}

// openNew opens a file that was just made, whatever its mode.
func (v *Volume) openNew(n *node, mode export.OpenMode) *file {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opens++
	return &file{v: v, n: n, mode: mode}
}

func mayOpen(c *export.Cred, a *export.Attr, mode export.OpenMode) bool {
	if mode&export.OpenOwner != 0 && c.UID == a.UID {
		return true
	}
	if mode&export.OpenWrite != 0 && !export.Permits(c, a, export.PermWrite) {
		return false
	}
	return mode&export.OpenRead == 0 || export.Permits(c, a, export.PermRead) ||
		mode&export.OpenExec != 0 && export.Permits(c, a, export.PermExec)
}

// check returns why the file cannot be used for what want says, or OK.
func (f *file) check(want export.OpenMode) export.Status {
	switch {
	case f.closed.Load():
		return export.ErrStale
	case f.mode&want != want:
		return export.ErrAccess
	}
	return export.OK
}

// Object implements [export.File].
func (f *file) Object() export.Object { return f.n.object() }

// GetAttr implements [export.File].
func (f *file) GetAttr(context.Context, export.AttrMask) (export.Attr, error) {
	a, st := f.n.getAttr()
	if st == export.OK {
		st = f.check(0)
	}
	if st != export.OK {
		return export.Attr{}, fail("getattr", "", st)
	}
	return a, nil
}

// ReadAt implements [export.File]. Readers of one file do not wait for each
// other.
func (f *file) ReadAt(_ context.Context, p []byte, off uint64) (n int, eof bool, err error) {
	st := f.check(export.OpenRead)
	if st == export.OK {
		n, eof, st = f.n.content.readAt(p, off)
	}
	if st != export.OK {
		return 0, false, fail("read", "", st)
	}
	return n, eof, nil
}

func (d *content) readAt(p []byte, off uint64) (n int, eof bool, st export.Status) {
	d.io.RLock()
	defer d.io.RUnlock()
	if d.gone {
		return 0, false, export.ErrStale
	}
	if off >= d.size {
		return 0, true, export.OK
	}
	if left := d.size - off; uint64(len(p)) >= left {
		p, eof = p[:left], true
	}
	d.read(p, off)
	return len(p), eof, export.OK
}

// WriteAt implements [export.File]. Nothing can make data in memory safer, so
// it promises what was asked and no more: a client that writes unstable data
// finds a changed verifier after a restart. On a full Volume it writes as much
// as there is room for and returns ErrNoSpc.
func (f *file) WriteAt(_ context.Context, c *export.Cred, p []byte, off uint64, stable export.Stability) (int, export.Stability, error) {
	n := 0
	st := f.check(export.OpenWrite)
	if st == export.OK {
		n, st = f.writeAt(c, p, off)
	}
	if st != export.OK {
		return n, stable, fail("write", "", st)
	}
	return n, stable, nil
}

func (f *file) writeAt(c *export.Cred, p []byte, off uint64) (int, export.Status) {
	if off > maxFileSize || uint64(len(p)) > maxFileSize-off {
		return 0, export.ErrFBig
	}
	if len(p) == 0 {
		return 0, export.OK
	}
	d := f.n.content
	d.io.Lock()
	defer d.io.Unlock()
	if d.gone {
		return 0, export.ErrStale
	}
	n := d.write(f.v, p, off)
	if n == 0 {
		return 0, export.ErrNoSpc
	}
	d.size = max(d.size, off+uint64(n))
	f.n.dataChanged(f.v, func(a *export.Attr) {
		a.Mode = export.ModeAfterWrite(c, a)
	})
	if n < len(p) {
		return n, export.ErrNoSpc
	}
	return n, export.OK
}

// dataChanged brings the attributes up to date with the content, whose io lock
// the caller holds for writing. also may change more; nil is nothing.
func (n *node) dataChanged(v *Volume, also func(*export.Attr)) {
	used, now := n.content.used(), v.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attr.Size = n.content.size
	n.attr.Used = used
	n.touchDataLocked(now)
	if also != nil {
		also(&n.attr)
	}
}

// Commit implements [export.File].
func (f *file) Commit(context.Context, uint64, uint64) error {
	if st := f.check(0); st != export.OK {
		return fail("commit", "", st)
	}
	return nil
}

// Seek implements [export.File].
func (f *file) Seek(_ context.Context, off uint64, what export.SeekWhat) (pos uint64, eof bool, err error) {
	st := f.check(0)
	if st == export.OK {
		pos, eof, st = f.n.content.seek(off, what)
	}
	if st != export.OK {
		return 0, false, fail("seek", "", st)
	}
	return pos, eof, nil
}

func (d *content) seek(off uint64, what export.SeekWhat) (pos uint64, eof bool, st export.Status) {
	d.io.RLock()
	defer d.io.RUnlock()
	if off >= d.size {
		return 0, false, export.ErrNXIO
	}
	switch what {
	case export.SeekData:
		pos, ok := d.seekData(off)
		if !ok {
			pos = d.size
		}
		return pos, !ok, export.OK
	case export.SeekHole:
		pos := d.seekHole(off)
		return pos, pos == d.size, export.OK
	}
	return 0, false, export.ErrInval
}

// Allocate implements [export.File].
func (f *file) Allocate(_ context.Context, off, n uint64) error {
	st := f.check(export.OpenWrite)
	if st == export.OK {
		st = f.allocate(off, n)
	}
	if st != export.OK {
		return fail("allocate", "", st)
	}
	return nil
}

func (f *file) allocate(off, n uint64) export.Status {
	switch {
	case n == 0:
		return export.ErrInval
	case off > maxFileSize || n > maxFileSize-off:
		return export.ErrFBig
	}
	d := f.n.content
	d.io.Lock()
	defer d.io.Unlock()
	if d.gone {
		return export.ErrStale
	}
	if st := d.reserve(f.v, off, off+n); st != export.OK {
		return st
	}
	d.size = max(d.size, off+n)
	f.n.dataChanged(f.v, nil)
	return export.OK
}

// Deallocate implements [export.File].
func (f *file) Deallocate(_ context.Context, off, n uint64) error {
	st := f.check(export.OpenWrite)
	if st == export.OK {
		st = f.deallocate(off, n)
	}
	if st != export.OK {
		return fail("deallocate", "", st)
	}
	return nil
}

func (f *file) deallocate(off, n uint64) export.Status {
	if n == 0 {
		return export.ErrInval
	}
	d := f.n.content
	d.io.Lock()
	defer d.io.Unlock()
	if d.gone {
		return export.ErrStale
	}
	end := d.size
	if n <= math.MaxUint64-off {
		end = min(end, off+n)
	}
	if off < end {
		d.punch(f.v, off, end)
		f.n.dataChanged(f.v, nil)
	}
	return export.OK
}

// Close implements [export.File]. Locks taken through the file stay.
func (f *file) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	f.n.mu.Lock()
	f.n.opens--
	f.n.dead = f.n.opens == 0 && f.n.attr.Nlink == 0
	dead := f.n.dead
	f.n.mu.Unlock()
	if dead {
		f.v.drop(f.n)
	}
	return nil
}
