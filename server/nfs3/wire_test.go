package nfs3

import (
	"encoding/binary"

	"capstan/export"
	"capstan/server/xdr"
)

// The client's side of the protocol: arguments written and replies read here
// by RFC 1813, without the code under test.

// args3 is arguments being written.
type args3 []byte

func enc() args3 { return nil }

func (a args3) u32(v uint32) args3 { return binary.BigEndian.AppendUint32(a, v) }
func (a args3) u64(v uint64) args3 { return binary.BigEndian.AppendUint64(a, v) }

func (a args3) bool(v bool) args3 {
	if v {
		return a.u32(1)
	}
	return a.u32(0)
}

func (a args3) str(s string) args3 {
	a = append(a.u32(uint32(len(s))), s...)
	for len(s)%4 != 0 {
		a, s = append(a, 0), s+"."
	}
	return a
}

func (a args3) fh(fh []byte) args3 { return a.str(string(fh)) }

func (a args3) sattr(s export.SetAttr) args3 {
	u32 := func(bit export.SetMask, v uint32) {
		if a = a.bool(s.Set&bit != 0); s.Set&bit != 0 {
			a = a.u32(v)
		}
	}
	u32(export.SetMode, s.Mode)
	u32(export.SetUID, s.UID)
	u32(export.SetGID, s.GID)
	if a = a.bool(s.Set&export.SetSize != 0); s.Set&export.SetSize != 0 {
		a = a.u64(s.Size)
	}
	when := func(now, client export.SetMask, t export.Timespec) {
		switch {
		case s.Set&now != 0:
			a = a.u32(1)
		case s.Set&client != 0:
			a = a.u32(2).u32(uint32(t.Sec)).u32(t.Nsec)
		default:
			a = a.u32(0)
		}
	}
	when(export.SetAtimeNow, export.SetAtime, s.Atime)
	when(export.SetMtimeNow, export.SetMtime, s.Mtime)
	return a
}

// attr3 is fattr3.
type attr3 struct {
	typ, mode, nlink, uid, gid  uint32
	size, used                  uint64
	major, minor                uint32
	fsid, fileid                uint64
	atime, mtime, ctime         uint32
	atimeNs, mtimeNs, ctimeNsec uint32
}

// wcc3 is wcc_data.
type wcc3 struct {
	pre  *attr3 // of which size, mtime and ctime are set
	post *attr3
}

type entry3 struct {
	id     uint64
	name   string
	cookie uint64
	attr   *attr3
	fh     []byte
}

// reply3 is what any procedure answers.
type reply3 struct {
	status  Status
	post    *attr3 // post_op_attr of the handle in the arguments
	wcc     []wcc3
	fh      []byte
	obj     *attr3 // of the object found, made or asked for
	access  uint32
	link    string
	count   uint32
	eof     bool
	data    []byte
	stable  uint32
	verf    [8]byte
	entries []entry3
	space   [6]uint64
	info    []uint64
	size    int // of the resok, in bytes
}

func readAttr(d *xdr.Decoder) *attr3 {
	var a attr3
	for _, v := range []*uint32{&a.typ, &a.mode, &a.nlink, &a.uid, &a.gid} {
		*v = d.Uint32("fattr3")
	}
	a.size, a.used = d.Uint64("size"), d.Uint64("used")
	a.major, a.minor = d.Uint32("rdev"), d.Uint32("rdev")
	a.fsid, a.fileid = d.Uint64("fsid"), d.Uint64("fileid")
	for _, v := range []*uint32{&a.atime, &a.atimeNs, &a.mtime, &a.mtimeNs, &a.ctime, &a.ctimeNsec} {
		*v = d.Uint32("time")
	}
	return &a
}

func readPost(d *xdr.Decoder) *attr3 {
	if !d.Bool("attributes_follow") {
		return nil
	}
	return readAttr(d)
}

func readWcc(d *xdr.Decoder) (w wcc3) {
	if d.Bool("pre") {
		w.pre = &attr3{size: d.Uint64("size"), mtime: d.Uint32("m"), mtimeNs: d.Uint32("m"), ctime: d.Uint32("c"), ctimeNsec: d.Uint32("c")}
	}
	w.post = readPost(d)
	return w
}

func readFH(d *xdr.Decoder) []byte { return append([]byte(nil), d.Opaque("fh", 64)...) }

// parseReply reads a whole reply, to its last byte.
func parseReply(proc uint32, b []byte) (*reply3, error) {
	d := xdr.NewDecoder(b)
	r := &reply3{status: Status(d.Uint32("status")), size: len(b) - 4}
	ok := r.status == OK
	switch proc {
	case procGetAttr:
		if ok {
			r.obj = readAttr(d)
		}
	case procSetAttr, procRemove, procRmdir:
		r.wcc = []wcc3{readWcc(d)}
	case procLookup:
		if ok {
			r.fh = readFH(d)
			r.obj = readPost(d)
		}
		r.post = readPost(d)
	case procAccess:
		if r.post = readPost(d); ok {
			r.access = d.Uint32("access")
		}
	case procReadLink:
		if r.post = readPost(d); ok {
			r.link = d.String("data", 1<<16)
		}
	case procRead:
		if r.post = readPost(d); ok {
			r.count, r.eof = d.Uint32("count"), d.Bool("eof")
			r.data = d.Opaque("data", 1<<30)
		}
	case procWrite:
		if r.wcc = []wcc3{readWcc(d)}; ok {
			r.count, r.stable = d.Uint32("count"), d.Uint32("committed")
			copy(r.verf[:], d.Fixed("verf", 8))
		}
	case procCreate, procMkdir, procSymlink, procMknod:
		if ok {
			if d.Bool("handle_follows") {
				r.fh = readFH(d)
			}
			r.obj = readPost(d)
		}
		r.wcc = []wcc3{readWcc(d)}
	case procRename:
		r.wcc = []wcc3{readWcc(d), readWcc(d)}
	case procLink:
		r.post = readPost(d)
		r.wcc = []wcc3{readWcc(d)}
	case procReadDir, procReadDirPlus:
		if r.post = readPost(d); !ok {
			break
		}
		copy(r.verf[:], d.Fixed("cookieverf", 8))
		for d.Bool("entry") {
			e := entry3{id: d.Uint64("fileid"), name: d.String("name", 255), cookie: d.Uint64("cookie")}
			if proc == procReadDirPlus {
				e.attr = readPost(d)
				if d.Bool("handle_follows") {
					e.fh = readFH(d)
				}
			}
			r.entries = append(r.entries, e)
		}
		r.eof = d.Bool("eof")
	case procFSStat:
		if r.post = readPost(d); ok {
			for i := range r.space {
				r.space[i] = d.Uint64("space")
			}
			d.Uint32("invarsec")
		}
	case procFSInfo:
		if r.post = readPost(d); ok {
			for range 7 {
				r.info = append(r.info, uint64(d.Uint32("sizes")))
			}
			r.info = append(r.info, d.Uint64("maxfilesize"), uint64(d.Uint32("s")), uint64(d.Uint32("ns")), uint64(d.Uint32("properties")))
		}
	case procPathConf:
		if r.post = readPost(d); ok {
			r.info = append(r.info, uint64(d.Uint32("linkmax")), uint64(d.Uint32("name_max")))
			for range 4 {
				v := uint64(0)
				if d.Bool("flag") {
					v = 1
				}
				r.info = append(r.info, v)
			}
		}
	case procCommit:
		if r.wcc = []wcc3{readWcc(d)}; ok {
			copy(r.verf[:], d.Fixed("verf", 8))
		}
	}
	return r, d.Finish()
}
