package nfs4

import (
	"bytes"
	"testing"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// required are the attributes RFC 8881 section 5.6 asks of every server.
var required = nfsv4.BitmapOf(nfsv4.AttrSupportedAttrs, nfsv4.AttrType, nfsv4.AttrFHExpireType, nfsv4.AttrChange,
	nfsv4.AttrSize, nfsv4.AttrLinkSupport, nfsv4.AttrSymlinkSupport, nfsv4.AttrNamedAttr, nfsv4.AttrFSID,
	nfsv4.AttrUniqueHandles, nfsv4.AttrLeaseTime, nfsv4.AttrRdAttrError, nfsv4.AttrFileHandle, nfsv4.AttrSupAttrExclCreat)

// Every attribute that can be read is answered for every object, and VERIFY
// and NVERIFY agree on it.
func TestEveryAttribute(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		sets := attrsOfMinor[c.minor]
		if missing := required.AndNot(sets.readable); !missing.Empty() {
			t.Errorf("required and not supported: %v", missing)
		}
		file := c.create(dir, "file", 0o640).fh
		for _, fh := range []string{file, dir, c.fh(), c.fh("a"), c.fh("ro")} {
			// What is read-only says so first.
			refused := func(st nfsv4.Status) nfsv4.Status {
				if fh != file && fh != dir {
					return nfsv4.ErrROFS
				}
				return st
			}
			for n := range uint32(96) {
				name := nfsv4.AttrName(n)
				r := c.doOn(c.on(fh).add(nfsv4.OpGetAttr, bitmap(n)))
				if sets.settable.Has(n) && !sets.readable.Has(n) {
					r.op(nfsv4.OpGetAttr, nfsv4.ErrInval)
					c.expect(nfsv4.ErrInval, fh, nfsv4.OpVerify, attrs(bitmap(n), 0))
					c.expect(nfsv4.ErrInval, fh, nfsv4.OpNVerify, attrs(bitmap(n), 0))
					continue
				}
				mask, d := r.op(nfsv4.OpGetAttr, nfsv4.OK).fattr()
				if !sets.readable.Has(n) {
					if !mask.Empty() {
						t.Errorf("%s is answered", name)
					}
					c.expect(nfsv4.ErrAttrNotSupp, fh, nfsv4.OpVerify, attrs(bitmap(n), 0))
					c.expect(nfsv4.ErrAttrNotSupp, fh, nfsv4.OpNVerify, attrs(bitmap(n), 0))
					c.expectSet(refused(nfsv4.ErrAttrNotSupp), fh, bitmap(n), 0)
					continue
				}
				if mask.Empty() && n == nfsv4.AttrTimeCreate {
					continue // the pseudo tree does not know
				}
				if mask != bitmap(n) {
					t.Errorf("%s is not answered", name)
					continue
				}
				value := d.Rest()
				d.Reset(value)
				attributes[n].kind.skip(d)
				if err := d.Finish(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if n == nfsv4.AttrRdAttrError {
					c.expect(nfsv4.ErrInval, fh, nfsv4.OpVerify, attrs(bitmap(n), 0))
					continue
				}
				same := rawAttrs(bitmap(n), value)
				c.expect(nfsv4.OK, fh, nfsv4.OpVerify, same)
				c.expect(nfsv4.ErrSame, fh, nfsv4.OpNVerify, same)
				c.expect(nfsv4.ErrBadXDR, fh, nfsv4.OpVerify, rawAttrs(bitmap(n), append(bytes.Clone(value), 0, 0, 0, 0)))
				if len(value) > 0 {
					c.expect(nfsv4.ErrBadXDR, fh, nfsv4.OpNVerify, rawAttrs(bitmap(n), value[:len(value)-4]))
				}
				if !sets.settable.Has(n) {
					c.expectSet(refused(nfsv4.ErrInval), fh, bitmap(n))
				}
			}
		}
		// All at once, in the order of their numbers.
		r := c.doOn(c.on(file).add(nfsv4.OpGetAttr, sets.readable)).op(nfsv4.OpGetAttr, nfsv4.OK)
		mask, d := r.fattr()
		if mask != sets.readable {
			t.Errorf("asked %v, got %v", sets.readable, mask)
		}
		for n := range uint32(96) {
			if mask.Has(n) {
				attributes[n].kind.skip(d)
			}
		}
		if err := d.Finish(); err != nil {
			t.Error(err)
		}
	})
}

func rawAttrs(mask nfsv4.Bitmap, values []byte) func(*xdr.Encoder) {
	return func(e *xdr.Encoder) {
		mask.Encode(e)
		e.Opaque(values)
	}
}

// expectSet runs a SETATTR and checks that it says what was set: all or nothing.
func (c *client) expectSet(want nfsv4.Status, fh string, mask nfsv4.Bitmap, values ...any) {
	c.tb.Helper()
	r := c.doOn(c.on(fh).add(nfsv4.OpSetAttr, nfsv4.AnonymousStateID, attrs(mask, values...)))
	r.Uint32("resop")
	if st := nfsv4.Status(r.Uint32("status")); st != want {
		c.tb.Fatalf("SETATTR of %v: got %v, want %v", mask, st, want)
	}
	set := r.mask()
	r.n--
	r.end()
	if want == nfsv4.OK && set != mask || want != nfsv4.OK && !set.Empty() {
		c.tb.Errorf("%v: attrsset %v of %v", want, set, mask)
	}
}

func TestVerifyDiffers(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "f", 0o640)
		for _, x := range []struct {
			n     uint32
			other any
		}{
			{nfsv4.AttrSize, uint64(1)}, {nfsv4.AttrMode, 0o641}, {nfsv4.AttrOwner, "7"}, {nfsv4.AttrOwnerGroup, "nobody@x"},
			{nfsv4.AttrFileHandle, "x"}, {nfsv4.AttrNamedAttr, true}, {nfsv4.AttrType, 2},
		} {
			c.expect(nfsv4.ErrNotSame, o.fh, nfsv4.OpVerify, attrs(bitmap(x.n), x.other))
			c.expect(nfsv4.OK, o.fh, nfsv4.OpNVerify, attrs(bitmap(x.n), x.other))
		}
		c.expect(nfsv4.OK, o.fh, nfsv4.OpVerify, attrs(nfsv4.Bitmap{}))
		beyond := func(e *xdr.Encoder) { put(e, 4, 0, 0, 0, 1, 0) }
		c.expect(nfsv4.ErrAttrNotSupp, o.fh, nfsv4.OpVerify, beyond)
		c.expect(nfsv4.ErrAttrNotSupp, o.fh, nfsv4.OpSetAttr, nfsv4.AnonymousStateID, beyond)
		r := c.doOn(c.on(o.fh).add(nfsv4.OpGetAttr, func(e *xdr.Encoder) { put(e, 4, 0, 0, 0, 1) })).op(nfsv4.OpGetAttr, nfsv4.OK)
		if mask, _ := r.fattr(); !mask.Empty() {
			t.Errorf("attributes beyond those known: %v", mask)
		}
	})
}

func TestSetAttr(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		o := c.create(dir, "f", 0o640)
		at := func(sec int64, nsec int) []any { return []any{nfsv4.SetToClientTime, sec, nsec} }
		c.expectSet(nfsv4.OK, o.fh, bitmap(nfsv4.AttrMode), 0o4755)
		c.expectSet(nfsv4.OK, o.fh, bitmap(nfsv4.AttrModeSetMasked), 0o700, 0o7700)
		if m := c.attr(o.fh, nfsv4.AttrMode); m != 0o755 {
			t.Errorf("mode %o", m)
		}
		c.expectSet(nfsv4.OK, o.fh, bitmap(nfsv4.AttrSize, nfsv4.AttrMode), uint64(100), 0o600)
		c.expectSet(nfsv4.OK, o.fh, bitmap(nfsv4.AttrTimeAccessSet, nfsv4.AttrTimeModifySet), append([]any{nfsv4.SetToServerTime}, at(-5, 7)...)...)
		r := c.doOn(c.on(o.fh).add(nfsv4.OpGetAttr, bitmap(nfsv4.AttrTimeModify))).op(nfsv4.OpGetAttr, nfsv4.OK)
		if _, d := r.fattr(); decodeTime(d) != (export.Timespec{Sec: -5, Nsec: 7}) {
			t.Error("time is not what was set")
		}
		// An owner without a name is a number and comes back as that number.
		c.expectSet(nfsv4.OK, o.fh, bitmap(nfsv4.AttrOwner, nfsv4.AttrOwnerGroup), "54321", "54322")
		r = c.doOn(c.on(o.fh).add(nfsv4.OpGetAttr, bitmap(nfsv4.AttrOwner, nfsv4.AttrOwnerGroup))).op(nfsv4.OpGetAttr, nfsv4.OK)
		if _, d := r.fattr(); d.String("owner", 99) != "54321" || d.String("group", 99) != "54322" {
			t.Error("owner or group is not what was set")
		}
		c.expectSet(nfsv4.OK, o.fh, nfsv4.Bitmap{})

		c.expectSet(nfsv4.ErrInval, o.fh, bitmap(nfsv4.AttrMode), 0o10000)
		c.expectSet(nfsv4.ErrInval, o.fh, bitmap(nfsv4.AttrModeSetMasked), 0o700, 0o70)
		c.expectSet(nfsv4.ErrInval, o.fh, bitmap(nfsv4.AttrMode, nfsv4.AttrModeSetMasked), 0, 0, 1)
		c.expectSet(nfsv4.ErrInval, o.fh, bitmap(nfsv4.AttrTimeModifySet), at(0, 1_000_000_000)...)
		c.expectSet(nfsv4.ErrBadXDR, o.fh, bitmap(nfsv4.AttrTimeModifySet), 2)
		c.expectSet(nfsv4.ErrBadXDR, o.fh, bitmap(nfsv4.AttrMode))
		c.expectSet(nfsv4.ErrBadXDR, o.fh, bitmap(nfsv4.AttrMode), 0, 0)
		c.expectSet(nfsv4.ErrBadOwner, o.fh, bitmap(nfsv4.AttrOwner), "who@where")
		c.expectSet(nfsv4.ErrInval, o.fh, bitmap(nfsv4.AttrChange), uint64(1))
		c.expectSet(nfsv4.ErrFBig, o.fh, bitmap(nfsv4.AttrSize), uint64(1<<63))
		c.expectSet(nfsv4.ErrROFS, c.fh("ro", "f"), bitmap(nfsv4.AttrMode), 0)
		c.cred = bob
		c.expectSet(nfsv4.ErrPerm, o.fh, bitmap(nfsv4.AttrMode), 0o777)
		c.expectSet(nfsv4.ErrAccess, o.fh, bitmap(nfsv4.AttrSize), uint64(0))
		c.expectSet(nfsv4.ErrPerm, dir, bitmap(nfsv4.AttrOwner), "1001")
		if c.minor == 2 {
			c.expectSet(nfsv4.ErrInval, o.fh, bitmap(nfsv4.AttrModeUmask), 0o777, 0o22)
		}
	})
}

// The mode of a new object under the umask of its creator (RFC 8275).
func TestCreateWithUmask(t *testing.T) {
	c := newSite(t).newClient(2, "client")
	dir := c.fh("data")
	c.expect(nfsv4.OK, dir, nfsv4.OpCreate, 2, "d", attrs(bitmap(nfsv4.AttrModeUmask), 0o777, 0o027))
	if m := c.attr(c.fh("data", "d"), nfsv4.AttrMode); m != 0o750 {
		t.Errorf("mode %o", m)
	}
	o := c.open(dir, openBy("o", 3, 0), unchecked(bitmap(nfsv4.AttrModeUmask), 0o666, 0o022), byName("f"))
	if m := c.attr(o.fh, nfsv4.AttrMode); m != 0o644 || o.attrset != bitmap(nfsv4.AttrModeUmask) {
		t.Errorf("mode %o, attrset %v", m, o.attrset)
	}
	c.expect(nfsv4.ErrInval, dir, nfsv4.OpCreate, 2, "e", attrs(bitmap(nfsv4.AttrModeUmask), 0o777, 0o1000))
}

func TestAccess(t *testing.T) {
	eachMinor(t, func(t *testing.T, c *client, dir string) {
		c.cred = alice
		o := c.create(dir, "f", 0o640)
		ask := func(fh string, want uint32) (supported, access uint32) {
			t.Helper()
			r := c.doOn(c.on(fh).add(nfsv4.OpAccess, want)).op(nfsv4.OpAccess, nfsv4.OK)
			return r.Uint32("supported"), r.Uint32("access")
		}
		xattr := uint32(0)
		if c.minor == 2 {
			xattr = accessXattr
		}
		for _, x := range []struct {
			fh                string
			supported, access uint32
		}{
			{o.fh, accessOfOther | xattr, nfsv4.AccessRead | nfsv4.AccessModify | nfsv4.AccessExtend | xattr},
			{dir, accessOfDir | xattr, accessOfDir | xattr},
			{c.fh("ro", "f"), accessOfOther | xattr, nfsv4.AccessRead | xattr&^nfsv4.AccessXAWrite},
		} {
			if s, a := ask(x.fh, ^uint32(0)); s != x.supported || a != x.access {
				t.Errorf("supported %#x, access %#x, want %#x, %#x", s, a, x.supported, x.access)
			}
		}
		if s, a := ask(dir, nfsv4.AccessLookup); s != nfsv4.AccessLookup || a != nfsv4.AccessLookup {
			t.Errorf("lookup alone: %#x, %#x", s, a)
		}
		c.cred = bob
		if _, a := ask(o.fh, ^uint32(0)); a != 0 {
			t.Errorf("access of another: %#x", a)
		}
	})
}

func FuzzAttr(f *testing.F) {
	for _, n := range []uint32{nfsv4.AttrOwner, nfsv4.AttrTimeModifySet, nfsv4.AttrMode, nfsv4.AttrSupportedAttrs} {
		var e xdr.Encoder
		attrs(bitmap(n), 1, 2, 3, 4)(&e)
		f.Add(bytes.Clone(e.Bytes()))
	}
	var e xdr.Encoder
	attrs(bitmap(nfsv4.AttrSize, nfsv4.AttrMode, nfsv4.AttrOwner), uint64(7), 0o644, "1000")(&e)
	f.Add(bytes.Clone(e.Bytes()))
	s := newSite(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &compound{srv: s.srv, ctx: t.Context(), table: s.table, minor: 2, e: newEncoder()}
		c.cur = handle{set: true, node: nodeOf(s.table.Export(1), export.Object{})}
		c.view = attrView{c: c, node: c.cur.node}
		var d xdr.Decoder
		d.Reset(b)
		var a fattr
		a.decode(&d)
		if !d.OK() {
			return
		}
		var ch attrChange
		if st := ch.parse(c, &a); st == nfsv4.OK && (ch.Mode&^0o7777 != 0 || ch.Mtime.Nsec >= 1e9 || ch.Atime.Nsec >= 1e9) {
			t.Errorf("accepted %+v", ch)
		}
		if checkVerifiable(2, &a) == nfsv4.OK {
			// What we encode ourselves is the same as what we have.
			if c.view.matches(&a) == nfsv4.ErrSame && !a.mask.Has(nfsv4.AttrOwner) && !a.mask.Has(nfsv4.AttrOwnerGroup) {
				c.view.encode(c.e, a.mask)
				if !bytes.HasSuffix(c.e.Bytes(), a.values) {
					t.Errorf("%x is the same as %x", a.values, c.e.Bytes())
				}
			}
		}
	})
}
