package osd

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"capstan/cephfs/denc"
)

// TestPatchIsEncoding: a message patched for its next try is the one that would
// have been encoded.
func TestPatchIsEncoding(t *testing.T) {
	var op Op
	op.Write(5, []byte("hello"))
	op.SetXattr("name", []byte("value"))
	h := opHeader{
		object: Object{Pool: 3, Namespace: "ns", Key: "k", Name: "name"},
		pg:     PG{Pool: 3, Seed: 7, Shard: -1}, hash: 0x12345678, epoch: 9, flags: flagWrite,
		mtime: time.Unix(5, 6), snapID: NoSnap, snap: SnapContext{Seq: 4, Snaps: []uint64{4, 2}},
	}
	front := encodeOp(&h, op.subops)
	h.pg, h.hash, h.epoch, h.flags, h.try = PG{3, 2, 1}, 0x87654321, 10, flagWrite|flagRetry, 3
	patchOp(front, &h)
	if want := encodeOp(&h, op.subops); !bytes.Equal(front, want) {
		t.Errorf("patched\n%x, encoded\n%x", front, want)
	}
	if cap(front) > len(front)+64 {
		t.Errorf("%d bytes take %d", len(front), cap(front))
	}
}

// TestGoldenOp holds the layout of a whole message.
func TestGoldenOp(t *testing.T) {
	var op Op
	op.Read(1, 2)
	h := opHeader{
		object: Object{Pool: 1, Name: "o"}, pg: PG{1, 2, -1}, hash: 3, epoch: 4, flags: flagRead, snapID: NoSnap,
	}
	want := []byte{
		1, 1, 18, 0, 0, 0, // spg_t
		1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255, 255,
		3, 0, 0, 0, // hash
		4, 0, 0, 0, // epoch
		16, 0, 0, 0, // flags
		2, 2, 21, 0, 0, 0, // osd_reqid_t
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	}
	want = append(want, make([]byte, 24+4+8)...) // trace, incarnation, time
	want = append(want,
		6, 3, 28, 0, 0, 0, // object_locator_t
		1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
		1, 0, 0, 0, 'o',
		1, 0, // operations
		1, 0x12, 0, 0, 0, 0,
		1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0,
		254, 255, 255, 255, 255, 255, 255, 255, // snapid
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // snapshot context
		0, 0, 0, 0, // attempt
		0, 0, 0, 0, 0, 0, 0, 0)
	if got := encodeOp(&h, op.subops); !bytes.Equal(got, want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
}

func TestBackoffMessage(t *testing.T) {
	b := backoff{
		pg: PG{5, 6, 2}, epoch: 7, what: backoffBlock, id: 8,
		begin: position{key: "k", name: "n", nspace: "s", snap: 3, hash: 9, pool: 5}, end: position{max: true, pool: -1},
	}
	got, err := decodeBackoff(encodeBackoff(&b))
	if err != nil || *got != b {
		t.Errorf("%+v %v", got, err)
	}
}

// TestPositionOrder: by pool, by the hash with its bits reversed, by namespace,
// key or name, name, snapshot; the end behind all.
func TestPositionOrder(t *testing.T) {
	order := []position{
		{pool: 1, hash: 0xffffffff, name: "z"},
		{pool: 2, hash: 0, name: "a"},
		{pool: 2, hash: 0x80000000, name: "a"},
		{pool: 2, hash: 0x00000002, name: "a"},
		{pool: 2, hash: 1, nspace: "", name: "a", snap: 1},
		{pool: 2, hash: 1, nspace: "", name: "a", snap: 2},
		{pool: 2, hash: 1, nspace: "", name: "b"},
		{pool: 2, hash: 1, nspace: "", key: "c", name: "a"},
		{pool: 2, hash: 1, nspace: "", name: "d"},
		{pool: 2, hash: 1, nspace: "n", name: "a"},
		{max: true},
	}
	for i, p := range order {
		for j, q := range order {
			if c, want := p.compare(q), i-j; c < 0 != (want < 0) || c > 0 != (want > 0) {
				t.Errorf("%d against %d: %d", i, j, c)
			}
		}
	}
	if p := order[3]; !p.in(order[2], order[4]) || !p.in(p, p) || p.in(order[1], p) || p.in(order[4], order[9]) || !p.in(position{}, position{max: true}) {
		t.Error("ranges do not hold what they should")
	}
	shuffled := slices.Clone(order)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortFunc(shuffled, position.compare)
	if !slices.Equal(shuffled, order) {
		t.Error("sorting gives another order")
	}
}

func TestTooLarge(t *testing.T) {
	var op Op
	for range maxSubops + 1 {
		op.Stat()
	}
	if op.err == nil || op.Len() != maxSubops {
		t.Errorf("%d operations: %v", op.Len(), op.err)
	}
	op.Reset()
	if op.err != nil || op.Len() != 0 || op.flags != 0 {
		t.Error("Reset left something")
	}
	op.Call(string(make([]byte, 256)), "m", nil, true)
	if op.err == nil {
		t.Error("a class name of 256 bytes was taken")
	}
}

// replyFront is a reply with two results, of 3 and 0 bytes.
func replyFront(version uint16) []byte {
	var e denc.Encoder
	e.String("obj")
	e.Uint8(1)
	e.Int64(2)
	e.Uint32(3)
	e.Int32(-1)
	e.Uint64(flagOndisk)
	e.Int32(-5)
	e.Uint64(6)
	e.Uint32(7)
	e.Uint32(8)
	e.Count(2)
	for _, n := range []uint32{3, 0} {
		e.Uint16(uint16(opRead))
		e.Raw(make([]byte, 32))
		e.Uint32(n)
	}
	e.Int32(4)
	e.Int32(-9)
	e.Int32(10)
	e.Uint64(6)
	e.Uint32(7)
	e.Uint64(11)
	if version >= 7 {
		e.Bool(true)
	}
	s := e.Struct(1, 1)
	encodeLocator(&e, Object{Pool: 12, Key: "k", Namespace: "n"}, -1)
	e.String("there")
	e.Uint32(0)
	e.End(s)
	e.Raw(make([]byte, 24))
	return e.Data()
}

func TestReplyMessage(t *testing.T) {
	for _, v := range []uint16{6, 7, 8, 10} {
		var r reply
		d := denc.NewDecoder(replyFront(v))
		decodeReplyInto(&r, d, v, []byte("abc"), nil)
		if d.Err() != nil || r.result != -5 || r.epoch != 8 || r.try != 4 || r.version != 11 || r.pg != (PG{2, 3, -1}) ||
			string(r.results[0].Data) != "abc" || r.results[0].Code != -9 || r.results[1].Code != 10 ||
			!r.redirected || r.redirect != (Object{Pool: 12, Key: "k", Namespace: "n"}) || r.redirectObj != "there" {
			t.Errorf("version %d: %+v %v", v, r, d.Err())
		}
	}
	for _, data := range []string{"ab", "abcd"} {
		var r reply
		d := denc.NewDecoder(replyFront(8))
		decodeReplyInto(&r, d, 8, []byte(data), nil)
		if d.Err() == nil {
			t.Errorf("%d bytes of data for 3", len(data))
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add(uint16(8), replyFront(8), []byte("abc"))
	f.Add(uint16(6), replyFront(6), []byte("abc"))
	f.Add(uint16(10), replyFront(10), []byte(""))
	f.Fuzz(func(t *testing.T, version uint16, front, data []byte) {
		var r reply
		d := denc.NewDecoder(front)
		decodeReplyInto(&r, d, version, data, nil)
		n := 0
		for i := range r.results {
			n += len(r.results[i].Data)
		}
		if d.OK() && n != len(data) {
			t.Errorf("results have %d bytes of %d", n, len(data))
		}
		reply := &Reply{Results: r.results}
		for i := range r.results {
			decodeAll(reply, i)
		}
	})
}

// decodeAll decodes a result as anything.
func decodeAll(r *Reply, i int) {
	r.Stat(i)
	r.Extents(i)
	r.Xattrs(i)
	r.Omap(i)
	r.OmapKeys(i)
}

func FuzzResult(f *testing.F) {
	var e denc.Encoder
	e.Count(1)
	e.Uint64(4)
	e.Uint64(3)
	e.Bytes([]byte("abc"))
	f.Add(e.Data())
	e.Reset()
	e.Count(1)
	e.String("key")
	e.Bytes([]byte("value"))
	e.Bool(true)
	f.Add(bytes.Clone(e.Data()))
	f.Add(binary.LittleEndian.AppendUint32(nil, 0xffffffff))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &Reply{Results: []Result{{Data: b}}}
		decodeAll(r, 0)
		if ext, err := r.Extents(0); err == nil {
			n := 0
			for _, x := range ext {
				n += len(x.Data)
			}
			if n > len(b) {
				t.Errorf("%d bytes out of %d", n, len(b))
			}
		}
	})
}

func FuzzBackoff(f *testing.F) {
	f.Add(encodeBackoff(&backoff{pg: PG{1, 2, -1}, what: backoffBlock, id: 3, begin: position{name: "a"}, end: position{max: true}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeBackoff(b)
		if err != nil {
			return
		}
		if again, err := decodeBackoff(encodeBackoff(m)); err != nil || *again != *m {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}

func FuzzMapMessage(f *testing.F) {
	var e denc.Encoder
	e.Raw(make([]byte, 16))
	e.Count(1)
	e.Uint32(5)
	e.Bytes([]byte("no increment"))
	e.Count(1)
	e.Uint32(4)
	e.Bytes([]byte("no map"))
	f.Add(e.Data())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMapMessage(b)
		if err != nil {
			return
		}
		if next, err := m.after(nil); err == nil && next == nil && len(m.fulls) > 1 {
			t.Errorf("no map out of %d", len(m.fulls))
		}
	})
}
