package nfs3

import (
	"encoding/hex"
	"math"
	"testing"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// TestAttrGolden: fattr3 byte by byte, modes without type bits.
func TestAttrGolden(t *testing.T) {
	a := export.Attr{
		Type: export.TypeChar, Mode: 0o10006755, Nlink: 2, UID: 3, GID: 4, Size: 5, Used: 6,
		Rdev: export.Device{Major: 7, Minor: 8}, FileID: 10,
		Atime: export.Timespec{Sec: -1, Nsec: 5}, Mtime: export.Timespec{Sec: 1 << 32}, Ctime: export.Timespec{Sec: 11, Nsec: 12},
	}
	var e xdr.Encoder
	encodeAttr(&e, &a, 9)
	const want = "00000004" + "00000ded" + "00000002" + "00000003" + "00000004" + "0000000000000005" + "0000000000000006" +
		"00000007" + "00000008" + "0000000000000009" + "000000000000000a" +
		"00000000" + "00000000" + "ffffffff" + "3b9ac9ff" + "0000000b" + "0000000c"
	if got := hex.EncodeToString(e.Bytes()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if e.Len() != sizeOfAttr {
		t.Errorf("%d bytes, sizeOfAttr is %d", e.Len(), sizeOfAttr)
	}
}

func TestGetAttr(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o6755)
	b.chown(f, 1000, 2000)
	b.ok(procSetAttr, enc().fh(f).sattr(export.SetAttr{
		Set: export.SetMode | export.SetAtime | export.SetMtime, Mode: 0o6755,
		Atime: export.Timespec{Sec: math.MaxUint32, Nsec: 1}, Mtime: export.Timespec{Sec: 1 << 31, Nsec: 999999999},
	}).bool(false))
	a := b.ok(procGetAttr, enc().fh(f)).obj
	if a.typ != 1 || a.mode != 0o6755 || a.uid != 1000 || a.gid != 2000 || a.nlink != 1 {
		t.Errorf("%+v", a)
	}
	if a.atime != math.MaxUint32 || a.atimeNs != 1 || a.mtime != 1<<31 || a.mtimeNs != 999999999 || a.ctime == 0 {
		t.Errorf("times: %+v", a)
	}
	if a.fsid == 0 || a.fileid != b.object(f).Ino {
		t.Errorf("fsid %x, fileid %x", a.fsid, a.fileid)
	}
	other := b.ok(procGetAttr, enc().fh(b.handle(idOther, b.rootOf(idOther)))).obj
	if other.fsid == a.fsid || other.fsid == 0 {
		t.Errorf("fsid %x of two exports", other.fsid)
	}
}

func TestGetAttrAsNobody(t *testing.T) {
	b := newBed(t)
	f := b.create(b.mkdir(b.root, "d", 0o700), "f", 0)
	b.want(OK, rpc.Credential{}, procGetAttr, enc().fh(f)) // AUTH_NONE
	b.want(OK, nobody, procGetAttr, enc().fh(f))
}

func TestSetAttrGuard(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o644)
	a := b.ok(procGetAttr, enc().fh(f)).obj
	set := enc().fh(f).sattr(export.SetAttr{Set: export.SetMode, Mode: 0o600}).bool(true)
	b.want(ErrNotSync, superuser, procSetAttr, set.u32(a.ctime).u32(a.ctimeNsec^1))
	if got := b.ok(procGetAttr, enc().fh(f)).obj; got.mode != 0o644 {
		t.Errorf("mode %o in spite of the guard", got.mode)
	}
	set = enc().fh(f).sattr(export.SetAttr{Set: export.SetMode, Mode: 0o600}).bool(true)
	r := b.ok(procSetAttr, set.u32(a.ctime).u32(a.ctimeNsec))
	w := r.wcc[0]
	if w.pre == nil || w.pre.ctime != a.ctime || w.pre.ctimeNsec != a.ctimeNsec || w.post == nil || w.post.mode != 0o600 {
		t.Errorf("wcc %+v", w)
	}
}

func TestSetAttrServerTime(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o666)
	b.ok(procSetAttr, enc().fh(f).sattr(export.SetAttr{Set: export.SetAtime | export.SetMtime}).bool(false))
	a := b.ok(procGetAttr, enc().fh(f)).obj
	if a.atime != 0 || a.mtime != 0 {
		t.Fatalf("times %d and %d", a.atime, a.mtime)
	}
	// touch by somebody who may write but does not own.
	b.want(OK, nobody, procSetAttr, enc().fh(f).sattr(export.SetAttr{Set: export.SetAtimeNow | export.SetMtimeNow}).bool(false))
	b.want(ErrPerm, nobody, procSetAttr, enc().fh(f).sattr(export.SetAttr{Set: export.SetMtime}).bool(false))
	if a = b.ok(procGetAttr, enc().fh(f)).obj; a.atime == 0 || a.mtime == 0 {
		t.Errorf("times %d and %d", a.atime, a.mtime)
	}
}

// TestSetSize: as the owner of a file that may not be written, as somebody
// else, and beyond what there is.
func TestSetSize(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o444)
	b.chown(f, 1000, 1000)
	size := func(n uint64) args3 {
		return enc().fh(f).sattr(export.SetAttr{Set: export.SetSize, Size: n}).bool(false)
	}
	b.want(OK, nobody, procSetAttr, size(7))
	b.want(ErrAccess, user(1001, 1001), procSetAttr, size(8))
	b.want(ErrFBig, nobody, procSetAttr, size(1<<63))
	if a := b.ok(procGetAttr, enc().fh(f)).obj; a.size != 7 {
		t.Errorf("size %d", a.size)
	}
	r := b.call(nobody, procSetAttr, enc().fh(b.root).sattr(export.SetAttr{Set: export.SetSize}).bool(false))
	if r.status == OK {
		t.Error("a directory was truncated")
	}
	b.vol.fail["Access"] = export.ErrIO
	b.want(ErrIO, nobody, procSetAttr, size(9))
	delete(b.vol.fail, "Access")
	b.vol.fail["Open"] = export.ErrDelay
	b.server.files.Forget(b.vol, b.object(f))
	b.want(ErrJukebox, nobody, procSetAttr, size(9))
}

func TestAccess(t *testing.T) {
	b := newBed(t)
	f := b.create(b.root, "f", 0o754)
	b.chown(f, 1000, 2000)
	d := b.mkdir(b.root, "d", 0o755)
	for _, c := range []struct {
		name string
		cred rpc.Credential
		fh   []byte
		ask  uint32
		want uint32
	}{
		{"owner", user(1000, 1), f, 0x3f, 0x01 | 0x04 | 0x08 | 0x20},
		{"group", user(1, 2000), f, 0x3f, 0x01 | 0x20},
		{"other group", user(1, 1, 5, 2000), f, 0x3f, 0x01 | 0x20},
		{"others", user(1, 1), f, 0x3f, 0x01},
		{"asked for one", user(1000, 1), f, 0x04, 0x04},
		{"asked for nothing", user(1000, 1), f, 0, 0},
		{"bits that NFSv3 has not", user(1000, 1), f, 0xffffffff, 0x01 | 0x04 | 0x08 | 0x20},
		{"directory", superuser, d, 0x3f, 0x1f},
		{"directory of others", user(1, 1), d, 0x3f, 0x03},
		{"read-only file", user(1000, 1), b.via(idRO, f), 0x3f, 0x01 | 0x20},
		{"read-only directory", superuser, b.via(idRO, d), 0x3f, 0x03},
	} {
		r := b.want(OK, c.cred, procAccess, enc().fh(c.fh).u32(c.ask))
		if r.access != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, r.access, c.want)
		}
		if r.post == nil {
			t.Errorf("%s: no attributes", c.name)
		}
	}
}
