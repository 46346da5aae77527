package memory

import (
	"context"

	"capstan/export"
)

// Lock implements [export.File].
func (f *file) Lock(_ context.Context, l export.Lock) (*export.Lock, error) {
	want := export.OpenRead
	if l.Write {
		want = export.OpenWrite
	}
	st := f.check(want)
	if st == export.OK && l.Start > l.End {
		st = export.ErrInval
	}
	if st != export.OK {
		return nil, fail("lock", "", st)
	}
	d := f.n.content
	d.lockMu.Lock()
	conflict, granted := d.locks.Lock(l)
	d.lockMu.Unlock()
	if !granted {
		return &conflict, fail("lock", "", export.ErrLocked)
	}
	return nil, nil
}

// TestLock implements [export.File].
func (f *file) TestLock(_ context.Context, l export.Lock) (*export.Lock, error) {
	if st := f.checkRange(l); st != export.OK {
		return nil, fail("lock", "", st)
	}
	d := f.n.content
	d.lockMu.Lock()
	conflict, free := d.locks.Test(l)
	d.lockMu.Unlock()
	if !free {
		return &conflict, nil
	}
	return nil, nil
}

// Unlock implements [export.File].
func (f *file) Unlock(_ context.Context, l export.Lock) error {
	if st := f.checkRange(l); st != export.OK {
		return fail("unlock", "", st)
	}
	d := f.n.content
	d.lockMu.Lock()
	d.locks.Unlock(l)
	d.lockMu.Unlock()
	return nil
}

func (f *file) checkRange(l export.Lock) export.Status {
	if l.Start > l.End {
		return export.ErrInval
	}
	return f.check(0)
}
