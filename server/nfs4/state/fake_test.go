package state

import (
	"context"
	"errors"
	"sync"

	"capstan/export"
	"capstan/export/rangelock"
)

// fakeVolume holds the locks of objects and counts open files. Only what this
// package calls is there: Close and the locks of a File.
type fakeVolume struct {
	mu      sync.Mutex
	locks   map[export.Object]*rangelock.Table
	open    int
	opened  int
	lockErr error                     // answer of Lock, if set
	gate    func(op string)           // called before each operation, without mu
	after   func(op string) (e error) // called behind Lock's work: an error although it was done
	refused func()                    // called once, between a conflict and its answer, without mu

	conflict bool // the call that answers met a lock
}

func newFakeVolume() *fakeVolume {
	return &fakeVolume{locks: make(map[export.Object]*rangelock.Table)}
}

// file opens an object.
func (v *fakeVolume) file(o export.Object, mode Access) *fakeFile {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open++
	v.opened++
	if v.locks[o] == nil {
		v.locks[o] = &rangelock.Table{}
	}
	return &fakeFile{v: v, o: o, mode: mode}
}

// held returns how many locks there are and how many files are open.
func (v *fakeVolume) held() (locks, open int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.locks {
		locks += t.Len()
	}
	return locks, v.open
}

func (v *fakeVolume) enter(op string) {
	v.mu.Lock()
	g := v.gate
	v.mu.Unlock()
	if g != nil {
		g(op)
	}
}

func (v *fakeVolume) setGate(g func(op string)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gate = g
}

// answer ends a call that may have met a lock.
func (v *fakeVolume) answer() {
	v.mu.Lock()
	f := v.refused
	if !v.conflict {
		f = nil
	}
	if v.conflict = false; f != nil {
		v.refused = nil
	}
	v.mu.Unlock()
	if f != nil {
		f()
	}
}

type fakeFile struct {
	export.File // panics on what is not used
	v           *fakeVolume
	o           export.Object
	mode        Access
	closed      bool
}

func (f *fakeFile) Object() export.Object { return f.o }

func (f *fakeFile) Close() error {
	f.v.enter("close")
	f.v.mu.Lock()
	defer f.v.mu.Unlock()
	if f.closed {
		panic("closed twice")
	}
	f.closed = true
	f.v.open--
	return nil
}

func (f *fakeFile) table() *rangelock.Table {
	if f.closed {
		panic("used after Close")
	}
	return f.v.locks[f.o]
}

func (f *fakeFile) Lock(_ context.Context, l export.Lock) (*export.Lock, error) {
	f.v.enter("lock")
	defer f.v.answer()
	f.v.mu.Lock()
	defer f.v.mu.Unlock()
	need := AccessRead
	if l.Write {
		need = AccessWrite
	}
	if f.mode&need == 0 {
		return nil, export.ErrAccess
	}
	if f.v.lockErr != nil {
		return nil, f.v.lockErr
	}
	if c, ok := f.table().Lock(l); !ok {
		f.v.conflict = true
		return &c, export.ErrLocked
	}
	if f.v.after != nil {
		return nil, f.v.after("lock")
	}
	return nil, nil
}

func (f *fakeFile) TestLock(_ context.Context, l export.Lock) (*export.Lock, error) {
	f.v.enter("test")
	defer f.v.answer()
	f.v.mu.Lock()
	defer f.v.mu.Unlock()
	if c, ok := f.table().Test(l); !ok {
		f.v.conflict = true
		return &c, nil
	}
	return nil, nil
}

func (f *fakeFile) Unlock(_ context.Context, l export.Lock) error {
	f.v.enter("unlock")
	f.v.mu.Lock()
	defer f.v.mu.Unlock()
	f.table().Unlock(l)
	return nil
}

var errFake = errors.New("fake failure")
