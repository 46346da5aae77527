package denc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestStructSkipsWhatItDoesNotKnow(t *testing.T) {
	var e Encoder
	outer := e.Struct(3, 1)
	e.Uint32(7)
	inner := e.Struct(9, 2)
	e.String("known")
	e.Uint64(99) // a newer field
	e.End(inner)
	e.Uint8(1) // another
	e.End(outer)
	e.Uint16(0xbeef)

	d := NewDecoder(e.Data())
	o := d.Struct("outer", 1)
	if got := d.Uint32("a"); got != 7 {
		t.Errorf("a = %d, want 7", got)
	}
	i := d.Struct("inner", 2)
	if i.Version != 9 || i.Compat != 2 {
		t.Errorf("inner version %d compat %d, want 9 and 2", i.Version, i.Compat)
	}
	if got := d.String("b"); got != "known" {
		t.Errorf("b = %q", got)
	}
	d.End(i)
	d.End(o)
	if got := d.Uint16("c"); got != 0xbeef {
		t.Errorf("c = %#x", got)
	}
	if err := d.Finish(); err != nil {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	structOf := func(version, compat uint8, length uint32, rest ...byte) []byte {
		var e Encoder
		e.Uint8(version)
		e.Uint8(compat)
		e.Uint32(length)
		e.Raw(rest)
		return e.Data()
	}
	for _, tc := range []struct {
		name  string
		in    []byte
		read  func(*Decoder)
		kind  error
		field string
		at    int
	}{
		{"short number", []byte{1, 2}, func(d *Decoder) { d.Uint32("epoch") }, ErrShort, "epoch", 0},
		{"string beyond the input", []byte{9, 0, 0, 0, 'a'}, func(d *Decoder) { _ = d.String("name") }, ErrShort, "name", 0},
		{"count beyond the input", []byte{255, 255, 255, 255, 1}, func(d *Decoder) { d.Count("list", 8) }, ErrTooLong, "list", 0},
		{"struct beyond the input", structOf(1, 1, 5, 1), func(d *Decoder) { d.Struct("pool", 1) }, ErrShort, "pool", 2},
		{"compat too new", structOf(9, 8, 0), func(d *Decoder) { d.Struct("pool", 7) }, ErrVersion, "pool", 0},
		{"field beyond its struct", structOf(1, 1, 2, 1, 2, 3, 4), func(d *Decoder) {
			d.Struct("pool", 1)
			d.Uint32("size")
		}, ErrShort, "pool.size", 6},
		{"bytes left", []byte{1}, func(d *Decoder) { _ = d.Finish() }, ErrTrailing, "end", 0},
		{"address marker", []byte{7}, func(d *Decoder) { d.Addr("addr") }, ErrValue, "addr", 1},
		{"vector marker", []byte{3}, func(d *Decoder) { d.AddrVec("addrs") }, ErrValue, "addrs", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := NewDecoder(tc.in)
			tc.read(d)
			var e *Error
			if !errors.As(d.Err(), &e) {
				t.Fatalf("no fault: %v", d.Err())
			}
			if !errors.Is(e, tc.kind) || e.Offset != tc.at || !strings.HasPrefix(e.Field, tc.field) {
				t.Errorf("got %v, want %s at %d: %v", e, tc.field, tc.at, tc.kind)
			}
			if d.Uint64("later") != 0 || d.Remaining() != 0 || d.Err() != error(e) {
				t.Error("the fault did not stick")
			}
		})
	}
}

func TestNestingIsBounded(t *testing.T) {
	var e Encoder
	for range 100 {
		e.Struct(1, 1)
	}
	for place := len(e.buf); place > 0; place -= 6 {
		e.End(place)
	}
	d := NewDecoder(e.Data())
	for range 100 {
		d.Struct("s", 1)
	}
	if !errors.Is(d.Err(), ErrTooLong) {
		t.Errorf("got %v", d.Err())
	}
}

func TestLegacyStruct(t *testing.T) {
	for version := uint8(1); version <= 6; version++ {
		var e Encoder
		e.Uint8(version)
		if version >= 4 {
			e.Uint8(1)
		}
		place := 0
		if version >= 5 {
			place = e.Sized()
		}
		e.Uint32(42)
		if version >= 6 {
			e.Uint32(43)
		}
		if version >= 5 {
			e.End(place)
		}
		e.Uint8(9)
		d := NewDecoder(e.Data())
		s := d.LegacyStruct("old", 5, 4, 5)
		if got := d.Uint32("x"); got != 42 {
			t.Errorf("version %d: x = %d", version, got)
		}
		d.End(s)
		if got := d.Uint8("y"); got != 9 {
			t.Errorf("version %d: y = %d", version, got)
		}
		if err := d.Finish(); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// The layout of entity_addr_t::encode, by hand.
func TestAddrBytes(t *testing.T) {
	const want = "01" + "0101" + "1c000000" + "02000000" + "15cd5b07" + "10000000" + "0200" + "9ca4" + "0a630001" + "0000000000000000"
	a := Addr{Type: AddrMsgr2, Nonce: 123456789, Host: netip.MustParseAddrPort("10.99.0.1:40100")}
	var e Encoder
	e.Addr(a)
	if got := hex.EncodeToString(e.Data()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAddrRoundTrip(t *testing.T) {
	vecs := []AddrVec{
		{},
		{{}},
		{{Type: AddrLegacy, Host: netip.MustParseAddrPort("192.0.2.1:6789")}},
		{{Type: AddrMsgr2, Nonce: 1, Host: netip.MustParseAddrPort("[2001:db8::1]:3300")}, {Type: AddrAny, Nonce: 1<<32 - 1, Host: netip.MustParseAddrPort("192.0.2.1:0")}},
	}
	for _, v := range vecs {
		var e Encoder
		e.AddrVec(v)
		d := NewDecoder(e.Data())
		got := d.AddrVec("v")
		if err := d.Finish(); err != nil {
			t.Errorf("%v: %v", v, err)
		}
		if !v.Equal(got) {
			t.Errorf("got %v, want %v", got, v)
		}
		for _, a := range v {
			if !a.Host.IsValid() {
				continue
			}
			back, err := ParseAddr(a.String())
			if err != nil || (back != a && a.Type != AddrAny) {
				t.Errorf("ParseAddr(%q) = %v, %v", a, back, err)
			}
		}
	}
}

func TestLegacyAddr(t *testing.T) {
	var e Encoder
	e.Uint32(0)
	e.Uint32(77)
	e.Raw([]byte{0, familyInet, 0x1a, 0x85, 192, 0, 2, 9})
	e.Raw(make([]byte, sockaddrStorage-8))
	want := Addr{Type: AddrLegacy, Nonce: 77, Host: netip.MustParseAddrPort("192.0.2.9:6789")}
	d := NewDecoder(e.Data())
	if got := d.Addr("a"); got != want || d.Finish() != nil {
		t.Errorf("Addr: %v, %v", got, d.Err())
	}
	d.Reset(e.Data())
	if got := d.AddrVec("a"); !got.Equal(AddrVec{want}) || d.Finish() != nil {
		t.Errorf("AddrVec: %v, %v", got, d.Err())
	}
}

func TestParseAddrRefuses(t *testing.T) {
	for _, s := range []string{"", "v2:", "v2:host:1", "192.0.2.1:99999", "v2:192.0.2.1:1/x", "[fe80::1%eth0]:1"} {
		if a, err := ParseAddr(s); err == nil {
			t.Errorf("ParseAddr(%q) = %v", s, a)
		}
	}
}

func TestTypesRoundTrip(t *testing.T) {
	when := time.Date(2026, 11, 30, 1, 2, 3, 456, time.UTC)
	id := uuid.MustParse("11111111-2222-3333-4444-555555555555")
	var e Encoder
	e.Time(when)
	e.Time(time.Time{})
	e.FSID(id)
	e.Name(Name{TypeOSD, 3})
	e.Name(Name{TypeClient, NoNum})
	e.EntityName(EntityName{TypeClient, "admin"})
	e.Float64(1.5)
	e.Float32(-2)
	e.Bool(true)
	e.Int8(-1)
	d := NewDecoder(e.Data())
	got := []any{d.Time("t"), d.Time("z").IsZero(), d.FSID("id"), d.Name("n"), d.Name("c").String(), d.EntityName("e").String(), d.Float64("f"), d.Float32("g"), d.Bool("b"), d.Int8("i")}
	want := []any{when, true, id, Name{TypeOSD, 3}, "client.?", "client.admin", 1.5, float32(-2), true, int8(-1)}
	if diff := cmp.Diff(want, got); diff != "" || d.Finish() != nil {
		t.Errorf("%v\n%s", d.Err(), diff)
	}
}

func TestTimeOutOfRange(t *testing.T) {
	var e Encoder
	e.Time(time.Unix(-5, 0))
	e.Time(time.Unix(1<<33, 0))
	if want := append(make([]byte, 8), 0xff, 0xff, 0xff, 0xff, 0xff, 0xc9, 0x9a, 0x3b); !bytes.Equal(e.Data(), want) {
		t.Errorf("got %x, want %x", e.Data(), want)
	}
}

func TestParseEntityName(t *testing.T) {
	if n, err := ParseEntityName("client.cap.stan"); err != nil || n != (EntityName{TypeClient, "cap.stan"}) {
		t.Errorf("%v %v", n, err)
	}
	for _, s := range []string{"admin", "klient.admin", ""} {
		if n, err := ParseEntityName(s); err == nil {
			t.Errorf("ParseEntityName(%q) = %v", s, n)
		}
	}
}

// FuzzDecoder drives a decoder by a script: no order of calls on any input may
// panic, read outside, or allocate more than the input could hold.
func FuzzDecoder(f *testing.F) {
	var e Encoder
	s := e.Struct(2, 1)
	e.AddrVec(AddrVec{{Type: AddrMsgr2, Host: netip.MustParseAddrPort("192.0.2.1:1")}})
	e.End(s)
	f.Add([]byte{8, 10, 13}, e.Data())
	f.Add([]byte{9, 5, 7, 13, 11}, []byte{5, 5, 9, 0, 0, 0, 1, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, script, in []byte) {
		d := NewDecoder(in)
		var open []Struct
		for _, op := range script {
			before := d.Remaining()
			switch op % 16 {
			case 0:
				d.Uint8("u8")
			case 1:
				d.Uint16("u16")
			case 2:
				d.Uint32("u32")
			case 3:
				d.Uint64("u64")
			case 4:
				if b := d.Bytes("bytes"); len(b) > before || cap(b) != len(b) {
					t.Fatalf("%d bytes of %d, capacity %d", len(b), before, cap(b))
				}
			case 5:
				if n := d.Count("count", int(op/16)); n*max(int(op/16), 1) > before {
					t.Fatalf("count %d with %d bytes left", n, before)
				}
			case 6:
				d.Skip("skip", int(op/16)-3)
			case 7:
				d.Addr("addr")
			case 8:
				open = append(open, d.Struct("struct", 3))
			case 9:
				open = append(open, d.LegacyStruct("legacy", 5, 3, 4))
			case 10:
				d.AddrVec("vec")
			case 11:
				d.EntityName("entity")
			case 12:
				open = append(open, d.Sized("sized"))
			case 13:
				if n := len(open); n > 0 {
					d.End(open[n-1])
					open = open[:n-1]
				}
			case 14:
				d.Rest()
			case 15:
				d.Time("time")
			}
			if d.Offset() > len(in) || d.Remaining() < 0 {
				t.Fatalf("offset %d of %d, %d left", d.Offset(), len(in), d.Remaining())
			}
		}
		_ = d.Finish()
	})
}
