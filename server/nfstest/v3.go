package nfstest

import (
	"context"
	"fmt"

	"capstan/export"
	"capstan/server/nfs3"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// V3 makes the calls of NFSv3 and its MOUNT protocol (RFC 1813) that trials
// need.
type V3 struct {
	Conn *Conn
	Cred *rpc.Credential // nil: that of the connection
}

// The procedures that V3 calls.
const (
	v3GetAttr     = 1
	v3SetAttr     = 2
	v3Lookup      = 3
	v3Read        = 6
	v3Write       = 7
	v3Create      = 8
	v3Mkdir       = 9
	v3Remove      = 12
	v3Rename      = 14
	v3Link        = 15
	v3ReadDir     = 16
	v3ReadDirPlus = 17
	v3FSInfo      = 19
	v3Commit      = 21
	mountMnt      = 1
)

// Attr3 is the part of fattr3 that trials look at.
type Attr3 struct {
	Type, Mode, Nlink, UID, GID uint32
	Size, FileID                uint64
	Atime, Mtime, Ctime         export.Timespec
}

// Write3 is WRITE3resok.
type Write3 struct {
	Count, Committed uint32
	Verifier         [8]byte
}

// Entry3 is an entry of READDIR or READDIRPLUS; Attr and FH are of the latter.
type Entry3 struct {
	FileID uint64
	Name   string
	Cookie uint64
	Attr   *Attr3
	FH     []byte
}

// call makes a call and reads the status.
func (v *V3) call(ctx context.Context, proc uint32, args func(*xdr.Encoder)) (nfs3.Status, *xdr.Decoder, error) {
	var e xdr.Encoder
	args(&e)
	raw, err := v.Conn.Call(ctx, v.Cred, nfs3.Program, 3, proc, e.Bytes())
	if err != nil {
		return 0, nil, err
	}
	d := decoderOf(raw)
	return nfs3.Status(d.Uint32("status")), d, nil
}

func finish(what string, d *xdr.Decoder, err error) error {
	if err == nil {
		err = d.Finish()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func attr3(d *xdr.Decoder) (a Attr3) {
	for _, p := range []*uint32{&a.Type, &a.Mode, &a.Nlink, &a.UID, &a.GID} {
		*p = d.Uint32("fattr3")
	}
	a.Size = d.Uint64("size")
	d.Fixed("used, rdev, fsid", 8+8+8)
	a.FileID = d.Uint64("fileid")
	for _, t := range []*export.Timespec{&a.Atime, &a.Mtime, &a.Ctime} {
		t.Sec, t.Nsec = int64(d.Uint32("seconds")), d.Uint32("nseconds")
	}
	return a
}

func postAttr(d *xdr.Decoder) *Attr3 {
	if !d.Bool("attributes_follow") {
		return nil
	}
	a := attr3(d)
	return &a
}

func wcc(d *xdr.Decoder) (after *Attr3) {
	if d.Bool("pre") {
		d.Fixed("wcc_attr", 24)
	}
	return postAttr(d)
}

func fh3(d *xdr.Decoder) []byte { return append([]byte(nil), d.Opaque("nfs_fh3", 64)...) }

// Mount answers the root handle of an export.
func (v *V3) Mount(ctx context.Context, path string) ([]byte, nfs3.MountStatus, error) {
	var e xdr.Encoder
	e.String(path)
	raw, err := v.Conn.Call(ctx, v.Cred, nfs3.MountProgram, 3, mountMnt, e.Bytes())
	if err != nil {
		return nil, 0, fmt.Errorf("MNT: %w", err)
	}
	d := decoderOf(raw)
	st := nfs3.MountStatus(d.Uint32("status"))
	if st != nfs3.MountOK {
		return nil, st, finish("MNT", d, nil)
	}
	fh := fh3(d)
	for range d.Count("flavors", 16, 4) {
		d.Uint32("flavor")
	}
	return fh, st, finish("MNT", d, nil)
}

// GetAttr is GETATTR.
func (v *V3) GetAttr(ctx context.Context, fh []byte) (a Attr3, st nfs3.Status, err error) {
	st, d, err := v.call(ctx, v3GetAttr, func(e *xdr.Encoder) { e.Opaque(fh) })
	if err == nil && st == nfs3.OK {
		a = attr3(d)
	}
	return a, st, finish("GETATTR", d, err)
}

// SetAttr is SETATTR without a guard.
func (v *V3) SetAttr(ctx context.Context, fh []byte, s export.SetAttr) (nfs3.Status, error) {
	st, d, err := v.call(ctx, v3SetAttr, func(e *xdr.Encoder) {
		e.Opaque(fh)
		sattr3(e, &s)
		e.Bool(false)
	})
	if err == nil {
		wcc(d)
	}
	return st, finish("SETATTR", d, err)
}

func sattr3(e *xdr.Encoder, s *export.SetAttr) {
	number := func(bit export.SetMask, v uint32) {
		e.Bool(s.Set&bit != 0)
		if s.Set&bit != 0 {
			e.Uint32(v)
		}
	}
	number(export.SetMode, s.Mode)
	number(export.SetUID, s.UID)
	number(export.SetGID, s.GID)
	e.Bool(s.Set&export.SetSize != 0)
	if s.Set&export.SetSize != 0 {
		e.Uint64(s.Size)
	}
	when := func(now, client export.SetMask, t export.Timespec) {
		switch {
		case s.Set&now != 0:
			e.Uint32(1)
		case s.Set&client != 0:
			put(e, 2, uint32(t.Sec), t.Nsec)
		default:
			e.Uint32(0)
		}
	}
	when(export.SetAtimeNow, export.SetAtime, s.Atime)
	when(export.SetMtimeNow, export.SetMtime, s.Mtime)
}

// Lookup is LOOKUP.
func (v *V3) Lookup(ctx context.Context, dir []byte, name string) (fh []byte, st nfs3.Status, err error) {
	st, d, err := v.call(ctx, v3Lookup, func(e *xdr.Encoder) { put(e, dir, name) })
	if err == nil {
		if st == nfs3.OK {
			fh = fh3(d)
			postAttr(d)
		}
		postAttr(d)
	}
	return fh, st, finish("LOOKUP", d, err)
}

// Read is READ.
func (v *V3) Read(ctx context.Context, fh []byte, off uint64, count uint32) (data []byte, eof bool, st nfs3.Status, err error) {
	st, d, err := v.call(ctx, v3Read, func(e *xdr.Encoder) { put(e, fh, off, count) })
	if err == nil {
		postAttr(d)
		if st == nfs3.OK {
			n := d.Uint32("count")
			eof = d.Bool("eof")
			if data = opaque(d, d.Remaining()); int(n) != len(data) {
				d.Fail("count", xdr.ErrValue)
			}
		}
	}
	return data, eof, st, finish("READ", d, err)
}

// Write is WRITE.
func (v *V3) Write(ctx context.Context, fh []byte, off uint64, stable uint32, data []byte) (w Write3, st nfs3.Status, err error) {
	st, d, err := v.call(ctx, v3Write, func(e *xdr.Encoder) { put(e, fh, off, len(data), stable, data) })
	if err == nil {
		wcc(d)
		if st == nfs3.OK {
			w.Count, w.Committed = d.Uint32("count"), d.Uint32("committed")
			copy(w.Verifier[:], d.Fixed("verf", 8))
		}
	}
	return w, st, finish("WRITE", d, err)
}

// Commit is COMMIT.
func (v *V3) Commit(ctx context.Context, fh []byte, off uint64, count uint32) (verifier [8]byte, st nfs3.Status, err error) {
	st, d, err := v.call(ctx, v3Commit, func(e *xdr.Encoder) { put(e, fh, off, count) })
	if err == nil {
		wcc(d)
		if st == nfs3.OK {
			copy(verifier[:], d.Fixed("verf", 8))
		}
	}
	return verifier, st, finish("COMMIT", d, err)
}

// Create is CREATE, GUARDED.
func (v *V3) Create(ctx context.Context, dir []byte, name string, s export.SetAttr) ([]byte, nfs3.Status, error) {
	return v.make(ctx, v3Create, func(e *xdr.Encoder) {
		put(e, dir, name, 1)
		sattr3(e, &s)
	})
}

// CreateUnchecked is CREATE, UNCHECKED.
func (v *V3) CreateUnchecked(ctx context.Context, dir []byte, name string, s export.SetAttr) ([]byte, nfs3.Status, error) {
	return v.make(ctx, v3Create, func(e *xdr.Encoder) {
		put(e, dir, name, 0)
		sattr3(e, &s)
	})
}

// CreateExclusive is CREATE, EXCLUSIVE.
func (v *V3) CreateExclusive(ctx context.Context, dir []byte, name string, verifier [8]byte) ([]byte, nfs3.Status, error) {
	return v.make(ctx, v3Create, func(e *xdr.Encoder) {
		put(e, dir, name, 2)
		e.Fixed(verifier[:])
	})
}

// Mkdir is MKDIR.
func (v *V3) Mkdir(ctx context.Context, dir []byte, name string, s export.SetAttr) ([]byte, nfs3.Status, error) {
	return v.make(ctx, v3Mkdir, func(e *xdr.Encoder) {
		put(e, dir, name)
		sattr3(e, &s)
	})
}

func (v *V3) make(ctx context.Context, proc uint32, args func(*xdr.Encoder)) (fh []byte, st nfs3.Status, err error) {
	st, d, err := v.call(ctx, proc, args)
	if err == nil {
		if st == nfs3.OK {
			if d.Bool("handle_follows") {
				fh = fh3(d)
			}
			postAttr(d)
		}
		wcc(d)
	}
	return fh, st, finish("CREATE", d, err)
}

// Remove is REMOVE.
func (v *V3) Remove(ctx context.Context, dir []byte, name string) (nfs3.Status, error) {
	st, d, err := v.call(ctx, v3Remove, func(e *xdr.Encoder) { put(e, dir, name) })
	if err == nil {
		wcc(d)
	}
	return st, finish("REMOVE", d, err)
}

// Rename is RENAME.
func (v *V3) Rename(ctx context.Context, from []byte, oldName string, to []byte, newName string) (nfs3.Status, error) {
	st, d, err := v.call(ctx, v3Rename, func(e *xdr.Encoder) { put(e, from, oldName, to, newName) })
	if err == nil {
		wcc(d)
		wcc(d)
	}
	return st, finish("RENAME", d, err)
}

// Link is LINK.
func (v *V3) Link(ctx context.Context, fh, dir []byte, name string) (nfs3.Status, error) {
	st, d, err := v.call(ctx, v3Link, func(e *xdr.Encoder) { put(e, fh, dir, name) })
	if err == nil {
		postAttr(d)
		wcc(d)
	}
	return st, finish("LINK", d, err)
}

// ReadDir is READDIR.
func (v *V3) ReadDir(ctx context.Context, dir []byte, cookie uint64, verifier [8]byte, count uint32) ([]Entry3, bool, nfs3.Status, error) {
	return v.list(ctx, v3ReadDir, func(e *xdr.Encoder) { put(e, dir, cookie, fixed(verifier), count) })
}

// ReadDirPlus is READDIRPLUS.
func (v *V3) ReadDirPlus(ctx context.Context, dir []byte, cookie uint64, verifier [8]byte, dirCount, maxCount uint32) ([]Entry3, bool, nfs3.Status, error) {
	return v.list(ctx, v3ReadDirPlus, func(e *xdr.Encoder) { put(e, dir, cookie, fixed(verifier), dirCount, maxCount) })
}

func fixed(v [8]byte) func(*xdr.Encoder) { return func(e *xdr.Encoder) { e.Fixed(v[:]) } }

func (v *V3) list(ctx context.Context, proc uint32, args func(*xdr.Encoder)) (list []Entry3, eof bool, st nfs3.Status, err error) {
	st, d, err := v.call(ctx, proc, args)
	if err != nil {
		return nil, false, 0, err
	}
	postAttr(d)
	if st == nfs3.OK {
		d.Fixed("cookieverf", 8)
		for d.Bool("entry follows") {
			n := Entry3{FileID: d.Uint64("fileid"), Name: d.String("name", 255), Cookie: d.Uint64("cookie")}
			if proc == v3ReadDirPlus {
				n.Attr = postAttr(d)
				if d.Bool("handle_follows") {
					n.FH = fh3(d)
				}
			}
			list = append(list, n)
		}
		eof = d.Bool("eof")
	}
	return list, eof, st, finish("READDIR", d, nil)
}

// Sizes3 is the part of FSINFO3resok about sizes, in bytes.
type Sizes3 struct{ ReadMax, ReadPref, ReadMult, WriteMax, WritePref, WriteMult, DirPref uint32 }

// FSInfo is FSINFO.
func (v *V3) FSInfo(ctx context.Context, fh []byte) (s Sizes3, st nfs3.Status, err error) {
	st, d, err := v.call(ctx, v3FSInfo, func(e *xdr.Encoder) { e.Opaque(fh) })
	if err == nil {
		postAttr(d)
		if st == nfs3.OK {
			for _, p := range []*uint32{&s.ReadMax, &s.ReadPref, &s.ReadMult, &s.WriteMax, &s.WritePref, &s.WriteMult, &s.DirPref} {
				*p = d.Uint32("size")
			}
			d.Fixed("maxfilesize, time_delta, properties", 8+8+4)
		}
	}
	return s, st, finish("FSINFO", d, err)
}
