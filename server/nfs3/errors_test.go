package nfs3

import (
	"fmt"
	"strings"
	"testing"

	"capstan/export"
	"capstan/server/rpc"
)

// rfcErrors is the list of errors that RFC 1813 gives for each procedure, in
// section 3.3.
var rfcErrors = map[uint32][]Status{
	procGetAttr:     {ErrIO, ErrStale, ErrBadHandle, ErrServerFault},
	procSetAttr:     {ErrPerm, ErrIO, ErrAccess, ErrInval, ErrNoSpc, ErrROFS, ErrDQuot, ErrNotSync, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procLookup:      {ErrIO, ErrNoEnt, ErrAccess, ErrNotDir, ErrNameTooLong, ErrStale, ErrBadHandle, ErrServerFault},
	procAccess:      {ErrIO, ErrStale, ErrBadHandle, ErrServerFault},
	procReadLink:    {ErrIO, ErrInval, ErrAccess, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procRead:        {ErrIO, ErrNXIO, ErrAccess, ErrInval, ErrStale, ErrBadHandle, ErrServerFault},
	procWrite:       {ErrIO, ErrAccess, ErrFBig, ErrDQuot, ErrNoSpc, ErrROFS, ErrInval, ErrStale, ErrBadHandle, ErrServerFault},
	procCreate:      {ErrIO, ErrAccess, ErrExist, ErrNotDir, ErrNoSpc, ErrROFS, ErrNameTooLong, ErrDQuot, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procMkdir:       {ErrIO, ErrAccess, ErrExist, ErrNotDir, ErrNoSpc, ErrROFS, ErrNameTooLong, ErrDQuot, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procSymlink:     {ErrIO, ErrAccess, ErrExist, ErrNotDir, ErrNoSpc, ErrROFS, ErrNameTooLong, ErrDQuot, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procMknod:       {ErrIO, ErrAccess, ErrExist, ErrNotDir, ErrNoSpc, ErrROFS, ErrNameTooLong, ErrDQuot, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault, ErrBadType},
	procRemove:      {ErrNoEnt, ErrIO, ErrAccess, ErrNotDir, ErrNameTooLong, ErrROFS, ErrStale, ErrBadHandle, ErrServerFault},
	procRmdir:       {ErrNoEnt, ErrIO, ErrAccess, ErrInval, ErrExist, ErrNotDir, ErrNameTooLong, ErrROFS, ErrNotEmpty, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procRename:      {ErrNoEnt, ErrIO, ErrAccess, ErrExist, ErrXDev, ErrNotDir, ErrIsDir, ErrInval, ErrNoSpc, ErrROFS, ErrMLink, ErrNameTooLong, ErrNotEmpty, ErrDQuot, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procLink:        {ErrIO, ErrAccess, ErrExist, ErrXDev, ErrNotDir, ErrInval, ErrNoSpc, ErrROFS, ErrMLink, ErrNameTooLong, ErrDQuot, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procReadDir:     {ErrIO, ErrAccess, ErrNotDir, ErrBadCookie, ErrTooSmall, ErrStale, ErrBadHandle, ErrServerFault},
	procReadDirPlus: {ErrIO, ErrAccess, ErrNotDir, ErrBadCookie, ErrTooSmall, ErrStale, ErrBadHandle, ErrNotSupp, ErrServerFault},
	procFSStat:      {ErrIO, ErrStale, ErrBadHandle, ErrServerFault},
	procFSInfo:      {ErrStale, ErrBadHandle, ErrServerFault},
	procPathConf:    {ErrStale, ErrBadHandle, ErrServerFault},
	procCommit:      {ErrIO, ErrStale, ErrBadHandle, ErrServerFault},
}

// subject is how a procedure is called where only its handles and its name
// matter.
type subject struct {
	op      string                                          // method of the Volume that does the work
	onDir   bool                                            // the handle is of a directory
	args    func(fh []byte, name string) args3              // a call that succeeds on fh, with a free name
	second  func(first, second []byte, name string) args3   // the same with a second handle
	name    string                                          // a name the call succeeds with, "" if there is none in the arguments
	prepare func(b *bed)                                    // makes that name
	cells   map[Status]func(b *bed) (rpc.Credential, args3) // what provokes an error
	never   map[Status]string                               // why an error cannot occur
}

var (
	plain    = export.SetAttr{Set: export.SetMode, Mode: 0o644}
	nobody   = user(1000, 1000)
	longName = strings.Repeat("n", 256)
)

func single(fh []byte, _ string) args3 { return enc().fh(fh) }

type provoke = func(b *bed) (rpc.Credential, args3)

// by makes a cell of a call by the superuser.
func by(f func(b *bed) args3) provoke {
	return func(b *bed) (rpc.Credential, args3) { return superuser, f(b) }
}

// locked returns a directory (with a file f in it) that only root may use.
func locked(b *bed) []byte {
	d := b.mkdir(b.root, "locked", 0o700)
	b.create(d, "f", 0o600)
	b.mkdir(d, "d", 0o700)
	return d
}

var subjects = map[uint32]subject{
	procGetAttr: {op: "GetAttr", args: single},
	procSetAttr: {
		op:   "SetAttr",
		args: func(fh []byte, _ string) args3 { return enc().fh(fh).sattr(plain).bool(false) },
		cells: map[Status]provoke{
			ErrPerm: func(b *bed) (rpc.Credential, args3) {
				return nobody, enc().fh(b.create(b.root, "f", 0o644)).sattr(plain).bool(false)
			},
			ErrAccess: func(b *bed) (rpc.Credential, args3) {
				return nobody, enc().fh(b.create(b.root, "f", 0o644)).sattr(export.SetAttr{Set: export.SetSize}).bool(false)
			},
			ErrInval: by(func(b *bed) args3 {
				return enc().fh(b.create(b.root, "f", 0o644)).sattr(export.SetAttr{Set: export.SetMtime, Mtime: export.Timespec{Nsec: 1e9}}).bool(false)
			}),
			ErrNotSync: by(func(b *bed) args3 {
				return enc().fh(b.create(b.root, "f", 0o644)).sattr(plain).bool(true).u32(1).u32(2)
			}),
		},
	},
	procLookup: {
		op: "Lookup", onDir: true, name: "f",
		prepare: func(b *bed) { b.create(b.root, "f", 0o644) },
		args:    func(fh []byte, name string) args3 { return enc().fh(fh).str(name) },
		cells: map[Status]provoke{
			ErrNoEnt:  by(func(b *bed) args3 { return enc().fh(b.root).str("absent") }),
			ErrAccess: func(b *bed) (rpc.Credential, args3) { return nobody, enc().fh(locked(b)).str("f") },
		},
	},
	procAccess: {op: "Access", args: func(fh []byte, _ string) args3 { return enc().fh(fh).u32(0x3f) }},
	procReadLink: {
		op:   "Readlink",
		args: single,
		cells: map[Status]provoke{
			ErrInval: by(func(b *bed) args3 { return enc().fh(b.create(b.root, "f", 0o644)) }),
		},
	},
	procRead: {
		op:   "ReadAt",
		args: func(fh []byte, _ string) args3 { return enc().fh(fh).u64(0).u32(10) },
		cells: map[Status]provoke{
			ErrAccess: func(b *bed) (rpc.Credential, args3) {
				return nobody, enc().fh(b.create(b.root, "f", 0o600)).u64(0).u32(10)
			},
			ErrInval: by(func(b *bed) args3 { return enc().fh(b.root).u64(0).u32(10) }),
		},
	},
	procWrite: {
		op:   "WriteAt",
		args: func(fh []byte, _ string) args3 { return enc().fh(fh).u64(0).u32(3).u32(0).str("abc") },
		cells: map[Status]provoke{
			ErrAccess: func(b *bed) (rpc.Credential, args3) {
				return nobody, enc().fh(b.create(b.root, "f", 0o644)).u64(0).u32(3).u32(0).str("abc")
			},
			ErrFBig: by(func(b *bed) args3 {
				return enc().fh(b.create(b.root, "f", 0o644)).u64(1<<63 - 2).u32(3).u32(0).str("abc")
			}),
			ErrInval: by(func(b *bed) args3 { return enc().fh(b.root).u64(0).u32(3).u32(0).str("abc") }),
		},
	},
	procCreate: {
		op: "Create", onDir: true, name: "new",
		args: func(fh []byte, name string) args3 { return enc().fh(fh).str(name).u32(createGuarded).sattr(plain) },
		cells: map[Status]provoke{
			ErrExist: by(func(b *bed) args3 {
				b.create(b.root, "new", 0o644)
				return enc().fh(b.root).str("new").u32(createGuarded).sattr(plain)
			}),
		},
	},
	procMkdir: {
		op: "Mkdir", onDir: true, name: "new",
		args: func(fh []byte, name string) args3 { return enc().fh(fh).str(name).sattr(plain) },
		cells: map[Status]provoke{
			ErrExist: by(func(b *bed) args3 { return enc().fh(b.root).str(".").sattr(plain) }),
		},
	},
	procSymlink: {
		op: "Symlink", onDir: true, name: "new",
		args: func(fh []byte, name string) args3 { return enc().fh(fh).str(name).sattr(plain).str("to") },
		cells: map[Status]provoke{
			ErrExist: by(func(b *bed) args3 { return enc().fh(b.root).str("..").sattr(plain).str("to") }),
		},
	},
	procMknod: {
		op: "Mknod", onDir: true, name: "new",
		args: func(fh []byte, name string) args3 {
			return enc().fh(fh).str(name).u32(uint32(export.TypeFIFO)).sattr(plain)
		},
		cells: map[Status]provoke{
			ErrExist: by(func(b *bed) args3 {
				b.create(b.root, "new", 0o644)
				return enc().fh(b.root).str("new").u32(uint32(export.TypeFIFO)).sattr(plain)
			}),
			ErrBadType: by(func(b *bed) args3 { return enc().fh(b.root).str("new").u32(uint32(export.TypeRegular)) }),
		},
	},
	procRemove: {
		op: "Remove", onDir: true, name: "f",
		prepare: func(b *bed) { b.create(b.root, "f", 0o644) },
		args:    func(fh []byte, name string) args3 { return enc().fh(fh).str(name) },
		cells: map[Status]provoke{
			ErrNoEnt: by(func(b *bed) args3 { return enc().fh(b.root).str("absent") }),
		},
	},
	procRmdir: {
		op: "Remove", onDir: true, name: "d",
		prepare: func(b *bed) { b.mkdir(b.root, "d", 0o755) },
		args:    func(fh []byte, name string) args3 { return enc().fh(fh).str(name) },
		cells: map[Status]provoke{
			ErrNoEnt: by(func(b *bed) args3 { return enc().fh(b.root).str("absent") }),
			ErrInval: by(func(b *bed) args3 { return enc().fh(b.root).str(".") }),
			ErrExist: by(func(b *bed) args3 { return enc().fh(b.root).str("..") }),
			ErrNotEmpty: by(func(b *bed) args3 {
				b.create(b.mkdir(b.root, "d", 0o755), "f", 0o644)
				return enc().fh(b.root).str("d")
			}),
		},
	},
	procRename: {
		op: "Rename", onDir: true, name: "f",
		prepare: func(b *bed) { b.create(b.root, "f", 0o644) },
		args:    func(fh []byte, name string) args3 { return enc().fh(fh).str(name).fh(fh).str("to") },
		second: func(first, second []byte, name string) args3 {
			return enc().fh(first).str("f").fh(second).str(name)
		},
		cells: map[Status]provoke{
			ErrNoEnt: by(func(b *bed) args3 { return enc().fh(b.root).str("absent").fh(b.root).str("to") }),
			ErrXDev: by(func(b *bed) args3 {
				b.create(b.root, "f", 0o644)
				return enc().fh(b.root).str("f").fh(b.handle(idOther, b.rootOf(idOther))).str("to")
			}),
			ErrIsDir: by(func(b *bed) args3 {
				b.create(b.root, "f", 0o644)
				b.mkdir(b.root, "d", 0o755)
				return enc().fh(b.root).str("f").fh(b.root).str("d")
			}),
			ErrInval: by(func(b *bed) args3 {
				d := b.mkdir(b.root, "d", 0o755)
				return enc().fh(b.root).str("d").fh(d).str("below itself")
			}),
			ErrNotEmpty: by(func(b *bed) args3 {
				b.mkdir(b.root, "d", 0o755)
				b.create(b.mkdir(b.root, "full", 0o755), "f", 0o644)
				return enc().fh(b.root).str("d").fh(b.root).str("full")
			}),
		},
		never: map[Status]string{
			ErrExist: "targets that are in the way are ISDIR, NOTDIR or NOTEMPTY, which say more",
		},
	},
	procLink: {
		op:   "Link",
		args: func(fh []byte, _ string) args3 { return enc().fh(fh).fh(linkDir).str("to") },
		second: func(first, second []byte, name string) args3 {
			return enc().fh(first).fh(second).str(name)
		},
		cells: map[Status]provoke{
			ErrExist: by(func(b *bed) args3 {
				f := b.create(b.root, "f", 0o644)
				return enc().fh(f).fh(b.root).str("f")
			}),
			ErrXDev: by(func(b *bed) args3 {
				f := b.create(b.root, "f", 0o644)
				return enc().fh(f).fh(b.handle(idOther, b.rootOf(idOther))).str("to")
			}),
			ErrAccess: func(b *bed) (rpc.Credential, args3) {
				return nobody, enc().fh(b.create(b.root, "f", 0o644)).fh(b.root).str("to")
			},
			ErrNotDir: by(func(b *bed) args3 {
				f := b.create(b.root, "f", 0o644)
				return enc().fh(f).fh(f).str("to")
			}),
			ErrNameTooLong: by(func(b *bed) args3 {
				return enc().fh(b.create(b.root, "f", 0o644)).fh(b.root).str(longName)
			}),
		},
	},
	procReadDir: {
		op: "ReadDir", onDir: true,
		args: func(fh []byte, _ string) args3 { return enc().fh(fh).u64(0).u64(0).u32(4096) },
		cells: map[Status]provoke{
			ErrAccess:    func(b *bed) (rpc.Credential, args3) { return nobody, enc().fh(locked(b)).u64(0).u64(0).u32(4096) },
			ErrNotDir:    by(func(b *bed) args3 { return enc().fh(b.create(b.root, "f", 0o644)).u64(0).u64(0).u32(4096) }),
			ErrBadCookie: by(func(b *bed) args3 { return enc().fh(b.root).u64(1 << 63).u64(0).u32(4096) }),
			ErrTooSmall:  by(func(b *bed) args3 { return enc().fh(b.root).u64(0).u64(0).u32(120) }),
		},
	},
	procReadDirPlus: {
		op: "ReadDir", onDir: true,
		args: func(fh []byte, _ string) args3 { return enc().fh(fh).u64(0).u64(0).u32(4096).u32(4096) },
		cells: map[Status]provoke{
			ErrAccess: func(b *bed) (rpc.Credential, args3) {
				return nobody, enc().fh(locked(b)).u64(0).u64(0).u32(4096).u32(4096)
			},
			ErrNotDir:    by(func(b *bed) args3 { return enc().fh(b.create(b.root, "f", 0o644)).u64(0).u64(0).u32(512).u32(4096) }),
			ErrBadCookie: by(func(b *bed) args3 { return enc().fh(b.root).u64(7).u64(1).u32(512).u32(4096) }),
			ErrTooSmall:  by(func(b *bed) args3 { return enc().fh(b.root).u64(0).u64(0).u32(512).u32(128) }),
		},
		never: map[Status]string{
			ErrNotSupp: "every Volume can give attributes with a listing",
		},
	},
	procFSStat:   {op: "StatFS", args: single},
	procFSInfo:   {op: "GetAttr", args: single},
	procPathConf: {op: "GetAttr", args: single},
	procCommit: {
		op:   "Commit",
		args: func(fh []byte, _ string) args3 { return enc().fh(fh).u64(0).u32(0) },
	},
}

// linkDir is the directory that LINK of the general cells goes to.
var linkDir []byte

// target makes the object that the first handle of a general call names.
func (b *bed) target(proc uint32) []byte {
	b.t.Helper()
	linkDir = b.root
	s := subjects[proc]
	switch {
	case proc == procReadLink:
		return b.ok(procSymlink, enc().fh(b.root).str("link").sattr(plain).str("to")).fh
	case s.onDir:
		if s.prepare != nil {
			s.prepare(b)
		}
		return b.root
	}
	return b.create(b.root, "target", 0o644)
}

// general are the cells that look the same for every procedure.
func general(proc uint32, st Status) provoke {
	s := subjects[proc]
	switch st {
	case ErrStale:
		return by(func(b *bed) args3 { linkDir = b.root; return s.args(b.stale(s.onDir), s.name) })
	case ErrBadHandle:
		return by(func(b *bed) args3 {
			fh := append([]byte(nil), b.target(proc)...)
			fh[20] ^= 1 // another inode, not signed
			return s.args(fh, s.name)
		})
	case ErrROFS:
		return by(func(b *bed) args3 { return s.args(b.via(idRO, b.target(proc)), s.name) })
	case ErrNameTooLong:
		return by(func(b *bed) args3 { return s.args(b.root, longName) })
	case ErrNotDir:
		return by(func(b *bed) args3 { return s.args(b.create(b.root, "file", 0o644), s.name) })
	case ErrAccess:
		if s.onDir {
			return func(b *bed) (rpc.Credential, args3) { b.target(proc); return nobody, s.args(b.root, s.name) }
		}
	}
	return nil
}

// faults are the errors that the Volume's word makes, whatever they are.
var faults = map[Status]export.Status{
	ErrIO: export.ErrIO, ErrServerFault: export.ErrFault, ErrNoSpc: export.ErrNoSpc, ErrDQuot: export.ErrDQuot,
	ErrNotSupp: export.ErrNotSupp, ErrMLink: export.ErrMLink, ErrNXIO: export.ErrNXIO, ErrJukebox: export.ErrDelay,
	ErrInval: export.ErrInval, ErrAccess: export.ErrAccess,
}

// TestErrors walks the table procedure x error. Each cell is a call that
// provokes the error or the reason why it cannot occur; an empty one fails.
// JUKEBOX belongs to every procedure (section 2.6).
func TestErrors(t *testing.T) {
	for proc := uint32(1); proc < uint32(len(procedures)); proc++ {
		s := subjects[proc]
		for _, st := range append([]Status{ErrJukebox}, rfcErrors[proc]...) {
			t.Run(procedures[proc].name+"/"+strings.TrimPrefix(st.String(), "NFS3ERR_"), func(t *testing.T) {
				if reason, ok := s.never[st]; ok {
					t.Log("cannot occur: " + reason)
					return
				}
				b := newBed(t)
				cell := s.cells[st]
				if cell == nil {
					cell = general(proc, st)
				}
				if cell == nil {
					fault, ok := faults[st]
					if !ok {
						t.Fatal("empty cell")
					}
					cell = by(func(b *bed) args3 {
						args := s.args(b.target(proc), s.name)
						b.vol.fail[s.op] = &export.Error{Op: "test", Status: fault}
						return args
					})
				}
				cred, args := cell(b)
				r := b.want(st, cred, proc, args)
				checkFail(t, proc, st, r, b.vol.fail["GetAttr"] != nil)
			})
		}
	}
}

// checkFail looks for the attributes in a resfail: there unless the object
// cannot be told. What the second handle names is told whatever is wrong with
// the first.
func checkFail(t *testing.T, proc uint32, st Status, r *reply3, noAttr bool) {
	t.Helper()
	if proc == procGetAttr {
		return
	}
	for _, w := range r.wcc {
		if w.pre != nil {
			t.Error("a state before, of a call that failed")
		}
		if proc == procLink && w.post == nil && !noAttr {
			t.Error("no attributes of the second handle")
		}
	}
	var got *attr3
	if proc == procLink || len(r.wcc) == 0 {
		got = r.post
	} else {
		got = r.wcc[0].post
	}
	if want := st != ErrStale && st != ErrBadHandle && !noAttr; (got != nil) != want {
		t.Errorf("attributes in resfail: %v, want %v", got != nil, want)
	}
	if proc == procRename && (r.wcc[0].post != nil) != (r.wcc[1].post != nil) {
		t.Error("attributes of one of the directories only")
	}
}

// TestRFCErrorsHaveSubjects: no procedure is left out of the table.
func TestRFCErrorsHaveSubjects(t *testing.T) {
	for proc := 1; proc < len(procedures); proc++ {
		if len(rfcErrors[uint32(proc)]) == 0 || subjects[uint32(proc)].args == nil {
			t.Errorf("%s is not in the table of errors", procedures[proc].name)
		}
	}
}

// TestRefusedByExport: who is not admitted learns nothing, attributes
// included, from any procedure.
func TestRefusedByExport(t *testing.T) {
	for proc := uint32(1); proc < uint32(len(procedures)); proc++ {
		b := newBed(t)
		s := subjects[proc]
		r := b.want(ErrAccess, superuser, proc, s.args(b.via(idClosed, b.target(proc)), s.name))
		checkFail(t, proc, ErrStale, r, true)
	}
}

// TestSecondHandle: what the second handle of RENAME and LINK can be.
func TestSecondHandle(t *testing.T) {
	for _, proc := range []uint32{procRename, procLink} {
		for _, c := range []struct {
			st Status
			fh func(b *bed) []byte
		}{
			{ErrStale, func(b *bed) []byte { return b.stale(true) }},
			{ErrBadHandle, func(b *bed) []byte { return make([]byte, 56) }},
			{ErrBadHandle, func(b *bed) []byte { return nil }},
			{ErrBadHandle, func(b *bed) []byte { return make([]byte, 64) }},
			{ErrROFS, func(b *bed) []byte { return b.handle(idRO, b.rootOf(idRO)) }},
			{ErrAccess, func(b *bed) []byte { return b.handle(idClosed, b.rootOf(idClosed)) }},
			{ErrNotDir, func(b *bed) []byte { return b.create(b.root, "file", 0o644) }},
		} {
			b := newBed(t)
			first := b.target(proc)
			b.want(c.st, superuser, proc, subjects[proc].second(first, c.fh(b), "to"))
		}
	}
}

// TestStatusNames: every status has its name, and every status of the Volume
// contract a translation.
func TestStatusNames(t *testing.T) {
	for st := export.OK; ; st++ {
		if strings.HasPrefix(st.Error(), "status ") {
			if int(st) != len(statusTable) {
				t.Errorf("%d statuses are translated, there are %d", len(statusTable), st)
			}
			break
		}
		n := statusOf(st)
		if strings.HasPrefix(n.String(), "nfsstat3") {
			t.Errorf("%v has no name", uint32(n))
		}
		if (n == OK) != (st == export.OK) {
			t.Errorf("%v becomes %v", st, n)
		}
	}
	if got := statusOf(fmt.Errorf("in some volume: %w", export.ErrNoSpc)); got != ErrNoSpc {
		t.Errorf("wrapped status: %v", got)
	}
	if got := statusOf(export.Status(200)); got != ErrServerFault {
		t.Errorf("unknown status: %v", got)
	}
	if got := Status(4711).String(); got != "nfsstat3(4711)" {
		t.Error(got)
	}
}
