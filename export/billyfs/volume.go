package billyfs

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5"

	"capstan/export"
	"capstan/export/billyfs/store"
)

// Options of a Volume; the zero value serves a filesystem with a handle table
// in memory.
type Options struct {
	// Table is the file that the handle table is kept in; its logs lie beside
	// it. Empty means that handles end with the process.
	Table string
	// TableInMemory bounds the nodes of the table held in memory; 0: 131,072.
	TableInMemory int
	// Listed bounds the entries of directories held in memory; 0: 1,000,000.
	Listed int
	// SearchLimit bounds how many entries are looked at to find an object
	// again whose names the table does not know, or knows wrongly; 0: 50,000,
	// negative: none.
	SearchLimit int
	// Linger is how long data that were written through a closed file and not
	// committed wait for a Commit before they are synced anyway; 0: 5 s.
	Linger time.Duration
	// Async answers calls on names and attributes before they are on the disk,
	// for a filesystem that has PathSyncer.
	Async bool
	// MaxFileSize bounds files, in bytes; 0: as the filesystem says, or 1 GiB if
	// it says nothing and has no inodes, since it may well keep files in memory,
	// holes included.
	MaxFileSize uint64
	// UID and GID own everything in a filesystem that knows no owners.
	UID, GID uint32
	// Logger gets one line for each fault worth one; nil: slog.Default.
	Logger *slog.Logger

	// flushInterval and now are for tests; 0 and nil mean the real ones.
	flushInterval time.Duration
	now           func() time.Time
}

// Volume is a billy filesystem as an [export.Volume].
type Volume struct {
	fs    billy.Filesystem
	opt   Options
	ext   extensions
	facts export.Features
	// shared: others change the filesystem too. plain: it has no inode numbers.
	shared, plain bool
	root          export.Object
	table         *table
	verifier      *export.VerifierSource
	lists         *listings
	search        *searcher

	// tree is held shared by every call that uses a path, and exclusively while
	// a directory moves, so that no path changes its meaning in between.
	tree    sync.RWMutex
	stripes stripes

	openMu sync.Mutex
	opens  map[export.Object]*opened // guarded by openMu

	stop chan struct{}
	done chan struct{}
}

var _ export.Volume = (*Volume)(nil)

// extensions are the optional interfaces of the filesystem, nil where it lacks
// one. Constant.
type extensions struct {
	inoder     Inoder
	opener     Opener
	linker     Linker
	mkdirer    Mkdirer
	mknoder    Mknoder
	remover    Remover
	renamer    Renamer
	setter     AttrSetter
	attrOpener AttrOpener
	change     billy.Change
	chmod      billy.Chmod
	truncater  Truncater
	xattrer    Xattrer
	statfser   StatFSer
	lister     DirReader
	syncer     PathSyncer
}

func extensionsOf(fs billy.Filesystem) (x extensions) {
	x.inoder, _ = fs.(Inoder)
	x.opener, _ = fs.(Opener)
	x.linker, _ = fs.(Linker)
	x.mkdirer, _ = fs.(Mkdirer)
	x.mknoder, _ = fs.(Mknoder)
	x.remover, _ = fs.(Remover)
	x.renamer, _ = fs.(Renamer)
	x.setter, _ = fs.(AttrSetter)
	x.attrOpener, _ = fs.(AttrOpener)
	x.change, _ = fs.(billy.Change)
	x.chmod, _ = fs.(billy.Chmod)
	x.truncater, _ = fs.(Truncater)
	x.xattrer, _ = fs.(Xattrer)
	x.statfser, _ = fs.(StatFSer)
	x.lister, _ = fs.(DirReader)
	x.syncer, _ = fs.(PathSyncer)
	return x
}

// NewVolume serves fs. The caller closes fs, if it can be closed, after the
// Volume.
func NewVolume(fs billy.Filesystem, opt Options) (*Volume, error) {
	if opt.TableInMemory <= 0 {
		opt.TableInMemory = 131072
	}
	if opt.Listed <= 0 {
		opt.Listed = 1000000
	}
	if opt.SearchLimit == 0 {
		opt.SearchLimit = 50000
	}
	if opt.Linger <= 0 {
		opt.Linger = 5 * time.Second
	}
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if opt.now == nil {
		opt.now = time.Now
	}
	v := &Volume{fs: fs, opt: opt, ext: extensionsOf(fs), verifier: export.NewVerifierSource(), opens: map[export.Object]*opened{}}
	v.lists = newListings(opt.Listed)
	v.search = newSearcher()
	t, err := openTable(opt.Table, store.Options{Interval: opt.flushInterval, Logger: opt.Logger}, opt.TableInMemory)
	if err != nil {
		return nil, err
	}
	v.table = t
	t.epoch.Store(1)
	if err := v.findRoot(); err != nil {
		return nil, errors.Join(export.Wrap("mount", fs.Root(), err), t.close())
	}
	v.setFacts()
	v.stop, v.done = make(chan struct{}), make(chan struct{})
	go v.runLinger()
	return v, nil
}

// findRoot learns the identity of the root, and by that whether the
// filesystem has inode numbers.
func (v *Volume) findRoot() error {
	if v.ext.inoder == nil {
		fi, err := v.fs.Lstat(".")
		if errors.Is(err, billy.ErrNotSupported) || export.StatusOf(err) == export.ErrNoEnt {
			fi, err = v.fs.Stat(".") // a root that exists only once something is in it
		}
		switch {
		case err == nil:
			_, sys := infoOfSys(fi)
			v.plain = !sys
		case export.StatusOf(err) == export.ErrNoEnt:
			v.plain = true
		default:
			return err
		}
	}
	if v.plain {
		v.root = export.Live(rootID)
		v.table.root = rootID
		return nil
	}
	info, err := v.stat(nameRef{}, ".", export.MaskAll)
	if err != nil {
		return err
	}
	if info.Type != export.TypeDirectory {
		return export.ErrNotDir
	}
	v.root = objectOf(&info)
	v.table.root = v.root.Ino
	return nil
}

func (v *Volume) setFacts() {
	var d Facts
	if f, ok := v.fs.(Describer); ok {
		d = f.Describe()
	}
	x := &v.ext
	v.shared = d.Shared
	v.facts = export.Features{
		HardLinks:   x.linker != nil,
		Symlinks:    true,
		Special:     x.mknoder != nil && !d.NoSpecial,
		Xattrs:      x.xattrer != nil && !d.NoXattrs,
		Seek:        x.opener != nil && !d.NoHoles,
		Allocate:    x.opener != nil && !d.NoAllocate,
		Deallocate:  x.opener != nil && !d.NoPunch,
		SetTime:     x.setter != nil || x.change != nil || v.plain,
		ReadOnly:    !billy.CapabilityCheck(v.fs, billy.WriteCapability),
		CaseFold:    d.CaseFold,
		MaxName:     d.MaxName,
		MaxLink:     d.MaxLink,
		MaxFileSize: d.MaxFileSize,
		TimeDelta:   d.TimeDelta,
	}
	f := &v.facts
	if f.MaxName == 0 {
		f.MaxName = 255
	}
	if f.MaxLink == 0 {
		f.MaxLink = 1
		if f.HardLinks {
			f.MaxLink = 65000
		}
	}
	if f.MaxFileSize == 0 {
		f.MaxFileSize = math.MaxInt64
		if v.plain {
			f.MaxFileSize = 1 << 30
		}
	}
	if v.opt.MaxFileSize != 0 {
		f.MaxFileSize = min(f.MaxFileSize, v.opt.MaxFileSize)
	}
	if f.TimeDelta == (export.Timespec{}) {
		f.TimeDelta.Nsec = 1
	}
}

// Features implements [export.Volume].
func (v *Volume) Features() export.Features { return v.facts }

// Root implements [export.Volume].
func (v *Volume) Root(context.Context) (export.Object, error) { return v.root, nil }

// WriteVerifier implements [export.Volume].
func (v *Volume) WriteVerifier() [8]byte { return v.verifier.Verifier() }

// Close implements [export.Volume]: it syncs what closed files left unsynced
// and closes the handle table.
func (v *Volume) Close(context.Context) error {
	close(v.stop)
	<-v.done
	v.openMu.Lock()
	var all []*opened
	for _, o := range v.opens {
		all = append(all, o)
	}
	v.opens = map[export.Object]*opened{}
	v.openMu.Unlock()
	var errs []error
	for _, o := range all {
		errs = append(errs, v.syncOpened(o), o.closeFiles())
	}
	errs = append(errs, v.table.close())
	return export.Wrap("close", v.fs.Root(), errors.Join(errs...))
}

// writable refuses calls that would change a read-only Volume.
func (v *Volume) writable() error {
	if v.facts.ReadOnly {
		return export.ErrROFS
	}
	return nil
}

// syncAttrs makes the attributes of the object at path stable before they are
// answered.
func (v *Volume) syncAttrs(path string) error {
	if v.ext.syncer == nil || v.opt.Async {
		return nil
	}
	return v.ext.syncer.SyncAttrs(path)
}

// syncEntries does so for the entries of directories.
func (v *Volume) syncEntries(paths ...string) error {
	if v.ext.syncer == nil || v.opt.Async {
		return nil
	}
	for i, p := range paths {
		if i > 0 && p == paths[i-1] {
			continue
		}
		if err := v.ext.syncer.SyncEntries(p); err != nil {
			return err
		}
	}
	return nil
}
