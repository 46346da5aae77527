package exporttest

import "capstan/export"

func rlock(owner, start, end uint64) export.Lock {
	return export.Lock{Owner: owner, Start: start, End: end}
}

func wlock(owner, start, end uint64) export.Lock {
	return export.Lock{Owner: owner, Write: true, Start: start, End: end}
}

// locks takes a lock and checks what is in the way; nil for nothing.
func (f *fixture) locks(file export.File, l export.Lock, conflict *export.Lock) {
	f.Helper()
	f.tests(file, l, conflict)
	got, err := file.Lock(ctx, l)
	if conflict == nil {
		f.want("lock", err, export.OK)
		return
	}
	f.want("lock", err, export.ErrLocked)
	f.check(got != nil && *got == *conflict, "lock %+v: in the way is %+v, want %+v", l, got, *conflict)
}

// tests asks what would be in the way.
func (f *fixture) tests(file export.File, l export.Lock, conflict *export.Lock) {
	f.Helper()
	got, err := file.TestLock(ctx, l)
	f.ok(err)
	if (got == nil) != (conflict == nil) || got != nil && *got != *conflict {
		f.Errorf("test %+v: %+v, want %+v", l, got, conflict)
	}
}

func (f *fixture) unlocks(file export.File, l export.Lock) {
	f.Helper()
	f.ok(file.Unlock(ctx, l))
}

const lockEnd = uint64(export.LockEnd)

var lockRows = []row{
	{name: "Lock/ReadersShare", run: func(f *fixture) {
		file := f.file("f", nil)
		f.locks(file, rlock(1, 0, 99), nil)
		f.locks(file, rlock(2, 50, 149), nil)
		in := rlock(1, 0, 99)
		f.locks(file, wlock(3, 0, 10), &in)
		f.unlocks(file, rlock(1, 0, 99))
		f.locks(file, wlock(3, 0, 10), nil)
	}},
	// Trial 16.
	{name: "Lock/ConflictIsReported", run: func(f *fixture) {
		file := f.file("f", nil)
		held := wlock(1, 0, 99)
		f.locks(file, held, nil)
		f.locks(file, wlock(2, 50, 149), &held)
		f.locks(file, rlock(2, 99, 99), &held)
		f.locks(file, rlock(2, 100, 149), nil)
		other := rlock(2, 100, 149)
		f.locks(file, wlock(1, 99, 100), &other)
	}},
	{name: "Lock/OwnLocksAreReplaced", run: func(f *fixture) {
		file := f.file("f", nil)
		f.locks(file, rlock(1, 0, 99), nil)
		f.locks(file, wlock(1, 20, 29), nil) // upgrade in the middle
		middle := wlock(1, 20, 29)
		f.tests(file, rlock(2, 0, 99), &middle)
		f.locks(file, rlock(1, 20, 29), nil) // and back
		f.tests(file, rlock(2, 0, 99), nil)
		whole := rlock(1, 0, 99) // merged again
		f.tests(file, wlock(2, 50, 50), &whole)
	}},
	{name: "Lock/UpgradeInTheWay", run: func(f *fixture) {
		file := f.file("f", nil)
		f.locks(file, rlock(1, 0, 9), nil)
		f.locks(file, rlock(2, 0, 9), nil)
		in := rlock(2, 0, 9)
		f.locks(file, wlock(1, 0, 9), &in)
		still := rlock(1, 0, 9)
		f.unlocks(file, rlock(2, 0, 9))
		f.tests(file, wlock(3, 0, 9), &still)
		f.locks(file, wlock(1, 0, 9), nil)
	}},
	{name: "Lock/UnlockInTheMiddle", run: func(f *fixture) {
		file := f.file("f", nil)
		f.locks(file, wlock(1, 0, 99), nil)
		f.unlocks(file, rlock(1, 40, 59))
		f.locks(file, wlock(2, 40, 59), nil)
		left, right := wlock(1, 0, 39), wlock(1, 60, 99)
		f.tests(file, rlock(2, 39, 39), &left)
		f.tests(file, rlock(2, 60, lockEnd), &right)
	}},
	{name: "Lock/ToTheEndOfAllOffsets", run: func(f *fixture) {
		file := f.file("f", nil)
		all := wlock(1, 0, lockEnd)
		f.locks(file, all, nil)
		f.tests(file, rlock(2, lockEnd, lockEnd), &all)
		f.unlocks(file, rlock(1, 1<<63, lockEnd))
		f.locks(file, wlock(2, 1<<63, lockEnd), nil)
		low := wlock(1, 0, 1<<63-1)
		f.locks(file, wlock(2, 1<<63-1, 1<<63-1), &low)
		f.unlocks(file, rlock(2, lockEnd, lockEnd))
		f.locks(file, wlock(3, lockEnd, lockEnd), nil)
		f.unlocks(file, rlock(1, 0, lockEnd))
		f.locks(file, wlock(4, 0, 1<<63-1), nil)
	}},
	{name: "Lock/UnlockNothing", run: func(f *fixture) {
		file := f.file("f", nil)
		f.unlocks(file, rlock(1, 0, lockEnd))
		f.locks(file, wlock(1, 0, 9), nil)
		f.unlocks(file, rlock(2, 0, 9))
		held := wlock(1, 0, 9)
		f.tests(file, wlock(2, 0, 9), &held)
	}},
	{name: "Lock/BadRange", run: func(f *fixture) {
		file := f.file("f", nil)
		_, err := file.Lock(ctx, rlock(1, 5, 4))
		f.want("lock", err, export.ErrInval)
		_, err = file.TestLock(ctx, rlock(1, 5, 4))
		f.want("test", err, export.ErrInval)
		f.want("unlock", file.Unlock(ctx, rlock(1, 5, 4)), export.ErrInval)
	}},
	{name: "Lock/NeedsTheOpenMode", run: func(f *fixture) {
		o := f.create("f", 0o644)
		r, w := f.open(root, o, export.OpenRead), f.open(root, o, export.OpenWrite)
		_, err := r.Lock(ctx, wlock(1, 0, 9))
		f.want("write lock on a file open for reading", err, export.ErrAccess)
		_, err = w.Lock(ctx, rlock(1, 0, 9))
		f.want("read lock on a file open for writing", err, export.ErrAccess)
		f.locks(r, rlock(1, 0, 9), nil)
		f.locks(w, wlock(1, 0, 9), nil)
	}},
	{name: "Lock/AreOfTheObject", run: func(f *fixture) {
		a := f.file("f", nil)
		b := f.open(root, a.Object(), readWrite)
		held := wlock(1, 0, 9)
		f.locks(a, held, nil)
		f.locks(b, wlock(2, 0, 9), &held)
		f.locks(b, rlock(1, 0, 9), nil) // the same owner
		f.unlocks(b, rlock(1, 0, 9))
		f.locks(b, wlock(2, 0, 9), nil)
		f.locks(f.file("g", nil), wlock(3, 0, 9), nil) // another file
	}},
	{name: "Lock/OutliveTheName", run: func(f *fixture) {
		file := f.file("f", nil)
		f.locks(file, wlock(1, 0, 9), nil)
		f.remove(f.base, "f")
		held := wlock(1, 0, 9)
		f.locks(file, wlock(2, 5, 5), &held)
		f.locks(f.file("f", nil), wlock(2, 5, 5), nil)
	}},
	{name: "Lock/DoNotKeepFromReading", run: func(f *fixture) {
		file := f.file("f", []byte("data"))
		f.locks(file, wlock(1, 0, lockEnd), nil)
		f.holds(file, []byte("data"))
		f.writeFile(file, 0, []byte("D"))
	}},
}
