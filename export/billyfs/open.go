package billyfs

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"capstan/export"
	"capstan/export/rangelock"
)

// opened is one object that is open, or whose written data still wait to be
// synced. All open Files of an object share it, and with it at most two files
// of the filesystem below: one for reading, one for reading and writing.
type opened struct {
	v   *Volume
	obj export.Object

	// Guarded by Volume.openMu.
	refs      int
	lingering time.Time // when the last File was closed on unsynced data; else zero

	mu sync.Mutex
	// Guarded by mu; set once, closed by closeFiles when nobody uses them.
	r, w      File
	writeOnly bool // w cannot read: our own identity may not
	last      Info // seen last, for files that cannot tell
	nameless  bool // its last name was removed by us

	lockMu sync.Mutex
	locks  rangelock.Table // guarded by lockMu

	writing atomic.Int32  // calls that change data and are not counted as changes yet
	setID   atomic.Bool   // the mode has set-id bits, as seen last
	written atomic.Uint64 // counts unstable writes
	synced  atomic.Uint64 // the value of written that is on the disk

	// syncMu is held over every sync of r and w together with what follows from
	// its failure: a file tells of a failed write-back once, to the sync that
	// comes first, and no later one may succeed before the verifier has rolled.
	syncMu sync.Mutex
	lost   atomic.Uint64 // counts failed syncs; moved with syncMu held

	roundMu sync.Mutex
	rounds  [2]*syncRound // guarded by roundMu: gathering, by syncKind
}

// syncKind is what a sync makes stable.
type syncKind int

const (
	syncAll  syncKind = iota // [Syncer]
	syncData                 // [DataSyncer]
)

// syncRound is one sync for all that asked for it before it began.
type syncRound struct {
	done chan struct{} // closed when err is set
	err  error
}

const (
	oRead  = os.O_RDONLY
	oWrite = os.O_RDWR
	// maxLingering bounds closed files waiting for a sync; above it Close syncs.
	maxLingering = 1024
)

// openedOf returns o if it is open or lingering.
func (v *Volume) openedOf(o export.Object) *opened {
	v.openMu.Lock()
	defer v.openMu.Unlock()
	return v.opens[o]
}

// opened returns o, with one reference more, if it is open or lingering.
func (v *Volume) opened(o export.Object) *opened {
	v.openMu.Lock()
	defer v.openMu.Unlock()
	op := v.opens[o]
	if op != nil {
		op.refs++
	}
	return op
}

// hold returns the opened of o, made if need be, with one reference more.
func (v *Volume) hold(o export.Object) *opened {
	v.openMu.Lock()
	defer v.openMu.Unlock()
	op := v.opens[o]
	if op == nil {
		op = &opened{v: v, obj: o}
		v.opens[o] = op
	}
	op.refs++
	return op
}

// release drops a reference. With the last one the files are closed, unless
// data written through them are not synced: they then linger.
func (op *opened) release() error {
	v := op.v
	v.openMu.Lock()
	op.refs--
	if op.refs > 0 {
		v.openMu.Unlock()
		return nil
	}
	op.dropLocks()                                                     // before the next open can find op and lock
	dirty := op.written.Load() != op.synced.Load() && !op.isNameless() // those nobody can commit or read again
	if dirty && v.lingerers() < maxLingering {
		op.lingering = v.opt.now()
		v.openMu.Unlock()
		return nil
	}
	if dirty {
		op.refs++ // stays findable while it is synced
		v.openMu.Unlock()
		_ = v.syncOpened(op) // the verifier tells
		return op.release()
	}
	delete(v.opens, op.obj)
	v.openMu.Unlock()
	return op.closeFiles()
}

// lingerers counts. Called with openMu held.
func (v *Volume) lingerers() int {
	n := 0
	if len(v.opens) < maxLingering {
		return 0
	}
	for _, op := range v.opens {
		if op.refs == 0 {
			n++
		}
	}
	return n
}

func (op *opened) isNameless() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.nameless
}

func (op *opened) dropLocks() {
	op.lockMu.Lock()
	defer op.lockMu.Unlock()
	op.locks = rangelock.Table{}
}

// closeFiles closes what is open below. Nobody uses op any more.
func (op *opened) closeFiles() error {
	op.mu.Lock()
	defer op.mu.Unlock()
	var err error
	if op.r != nil {
		err = op.r.Close()
	}
	if op.w != nil {
		err2 := op.w.Close()
		if err2 != nil {
			op.v.verifier.Roll() // a close may be the first to tell of a lost write
		}
		err = errors.Join(err, err2)
	}
	op.r, op.w = nil, nil
	return err
}

// runLinger syncs and closes what has lingered long enough. Owner: Volume;
// Close waits for it.
func (v *Volume) runLinger() {
	defer close(v.done)
	tick := time.NewTicker(max(v.opt.Linger/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-v.stop:
			return
		}
		var due []*opened
		v.openMu.Lock()
		for _, op := range v.opens {
			if op.refs == 0 && v.opt.now().Sub(op.lingering) >= v.opt.Linger {
				op.refs++
				due = append(due, op)
			}
		}
		v.openMu.Unlock()
		for _, op := range due {
			if err := errors.Join(v.syncOpened(op), op.release()); err != nil {
				v.opt.Logger.Error("data written through a closed file could not be synced; clients will send them again",
					"object", label(op.obj), "err", err)
			}
		}
	}
}

// syncOpened makes everything written through op stable. If it fails the
// verifier is rolled, and what was written counts as told.
func (v *Volume) syncOpened(op *opened) error {
	return op.sync(syncAll, func() error {
		at := op.written.Load()
		f := op.any()
		if f == nil {
			return nil
		}
		var err error
		if s, ok := f.(Syncer); ok {
			err = s.Sync()
		}
		op.markSynced(at)
		return err
	})
}

// sync runs do, which syncs a file of op, once for all callers of a kind that
// come before it begins. Who comes later may have written later: the next run
// is theirs.
func (op *opened) sync(kind syncKind, do func() error) error {
	op.roundMu.Lock()
	r := op.rounds[kind]
	if r != nil {
		op.roundMu.Unlock()
		<-r.done
		return r.err
	}
	r = &syncRound{done: make(chan struct{}), err: export.ErrIO} // kept if do panics
	op.rounds[kind] = r
	op.roundMu.Unlock()
	defer close(r.done)
	r.err = op.syncAlone(func() error {
		op.roundMu.Lock()
		op.rounds[kind] = nil
		op.roundMu.Unlock()
		return do()
	})
	return r.err
}

// syncAlone runs do, which syncs a file of op, and rolls the verifier if it
// fails before any other sync of op can return.
func (op *opened) syncAlone(do func() error) error {
	op.syncMu.Lock()
	defer op.syncMu.Unlock()
	err := do()
	if err != nil {
		op.lost.Add(1)
		op.v.verifier.Roll()
	}
	return err
}

func (op *opened) markSynced(at uint64) {
	for {
		old := op.synced.Load()
		if old >= at || op.synced.CompareAndSwap(old, at) {
			return
		}
	}
}

// any returns a file of op, the one for writing first, nil if it has none.
func (op *opened) any() File {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.w != nil {
		return op.w
	}
	return op.r
}

// writable returns the file for writing, nil if there is none.
func (op *opened) writable() File {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.w
}

func (op *opened) readable() File {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.w != nil && !op.writeOnly {
		return op.w
	}
	return op.r
}

// fileWith returns a file of op that has I.
func fileWith[I any](op *opened) (i I, ok bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.w != nil {
		if i, ok = op.w.(I); ok {
			return i, true
		}
	}
	if op.r != nil {
		i, ok = op.r.(I)
	}
	return i, ok
}

// stat observes the object through its open file.
func (op *opened) stat(mask export.AttrMask) (Info, error) {
	if f, ok := fileWith[FileStater](op); ok {
		info, err := f.StatInode(mask)
		if err == nil {
			op.noteMode(info.Mode)
		}
		return info, err
	}
	op.mu.Lock()
	info, nameless := op.last, op.nameless
	op.mu.Unlock()
	if info.FileID == 0 {
		return info, export.ErrStale
	}
	if nameless {
		info.Nlink = 0
	}
	if f, ok := fileWith[sizer](op); ok {
		if n, err := f.size(); err == nil {
			info.Size = uint64(n)
		}
	}
	return info, nil
}

// noteMode remembers whether a write may have set-id bits to clear.
func (op *opened) noteMode(mode uint32) { op.setID.Store(mode&0o6000 != 0) }

// noteInfo keeps what was seen of the object.
func (op *opened) noteInfo(info *Info) {
	op.mu.Lock()
	op.last = *info
	op.mu.Unlock()
	op.noteMode(info.Mode)
}

// ensure opens what mode needs and is not open yet. t is where the object was
// found; the caller holds it locked shared, so that only others can have put
// something else there, which is noticed.
func (op *opened) ensure(t *target, mode export.OpenMode) error {
	op.mu.Lock()
	defer op.mu.Unlock()
	needW := mode&export.OpenWrite != 0 && op.w == nil
	needR := mode&export.OpenRead != 0 && op.r == nil && (op.w == nil || op.writeOnly)
	if !needW && !needR {
		return nil
	}
	open := func(flag int) (File, error) {
		if t.path == "" {
			return op.reopenLocked(flag)
		}
		f, err := op.v.openPath(t.path, flag, 0)
		if err != nil {
			return nil, err
		}
		if s, ok := f.(FileStater); ok {
			info, err := s.StatInode(0)
			if err == nil && objectOf(&info) != op.obj {
				err = export.ErrStale // others replaced it this instant
			}
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
		return f, nil
	}
	if needW {
		f, err := open(os.O_RDWR)
		if st := export.StatusOf(err); st == export.ErrAccess || st == export.ErrPerm {
			if f, err = open(os.O_WRONLY); err == nil {
				op.writeOnly = true
			}
		}
		if err != nil {
			return err
		}
		op.w = f
		needR = mode&export.OpenRead != 0 && op.r == nil && op.writeOnly
	}
	if needR {
		f, err := open(os.O_RDONLY)
		if err != nil {
			return err
		}
		op.r = f
	}
	return nil
}

// Reopener opens an open file once more, also after its last name is gone.
type Reopener interface {
	Reopen(flag int) (File, error)
}

func (op *opened) reopenLocked(flag int) (File, error) {
	for _, f := range []File{op.w, op.r} {
		if re, ok := f.(Reopener); ok {
			return re.Reopen(flag)
		}
	}
	return nil, export.ErrStale
}

// adopt gives op the file that a create opened, for reading and writing.
func (op *opened) adopt(f File) error {
	op.mu.Lock()
	if op.w == nil {
		op.w, f = f, nil
	}
	op.mu.Unlock()
	if f != nil {
		return f.Close()
	}
	return nil
}

// openPath opens a regular file of the filesystem below.
func (v *Volume) openPath(path string, flag int, perm uint32) (File, error) {
	if v.ext.opener != nil {
		return v.ext.opener.OpenNode(path, flag, perm)
	}
	f, err := v.fs.OpenFile(path, flag, GoMode(perm))
	if err != nil {
		return nil, err
	}
	return newPlainFile(f), nil
}

// Open implements [export.Volume].
func (v *Volume) Open(ctx context.Context, c *export.Cred, o export.Object, mode export.OpenMode) (f export.File, err error) {
	defer func() { err = export.Wrap("open", label(o), err) }()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if mode&export.OpenWrite != 0 {
		if err := v.writable(); err != nil {
			return nil, err
		}
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	t, ls, err := v.locked(o, export.MaskAll, false)
	if err != nil {
		return nil, err
	}
	defer ls.unlock()
	if err := checkOpen(c, &t.info.Attr, mode); err != nil {
		return nil, err
	}
	return v.openTarget(t, mode)
}

// checkOpen checks type and permission.
func checkOpen(c *export.Cred, a *export.Attr, mode export.OpenMode) error {
	switch a.Type {
	case export.TypeRegular:
	case export.TypeDirectory:
		return export.ErrIsDir
	case export.TypeSymlink:
		return export.ErrSymlink
	default:
		return export.ErrInval
	}
	owner := mode&export.OpenOwner != 0 && c.UID == a.UID
	if mode&export.OpenRead != 0 && !owner && !export.Permits(c, a, export.PermRead) &&
		(mode&export.OpenExec == 0 || !export.Permits(c, a, export.PermExec)) {
		return export.ErrAccess
	}
	if mode&export.OpenWrite != 0 && !owner && !export.Permits(c, a, export.PermWrite) {
		return export.ErrAccess
	}
	return nil
}

// openTarget opens t, which the caller has checked and locked.
func (v *Volume) openTarget(t *target, mode export.OpenMode) (export.File, error) {
	op := v.hold(t.obj)
	if err := op.ensure(t, mode); err != nil {
		return nil, errors.Join(err, op.release())
	}
	op.noteInfo(&t.info)
	return &openFile{op: op, mode: mode & (export.OpenRead | export.OpenWrite)}, nil
}
