package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"capstan/cephfs/denc"
)

var testLimits = Limits{Control: 1 << 20, Front: 1 << 20, Middle: 1 << 20, Data: 8 << 20}

var testSecret = bytes.Repeat([]byte("0123456789abcdef"), 4)

// pair returns a writer and the reader of what it writes, which goes through
// wire.
func pair(t testing.TB, secure bool) (w *Writer, r *Reader, wire *bytes.Buffer) {
	wire = new(bytes.Buffer)
	w, r = NewWriter(), NewReader(wire, testLimits)
	if secure {
		if err := Secure(NewReader(nil, testLimits), w, testSecret, false); err != nil {
			t.Fatal(err)
		}
		if err := Secure(r, NewWriter(), testSecret, true); err != nil {
			t.Fatal(err)
		}
	}
	return w, r, wire
}

func flush(t testing.TB, w *Writer, wire io.Writer) {
	t.Helper()
	want := w.Len()
	n, err := w.Buffers().WriteTo(wire)
	if err != nil || int(n) != want {
		t.Fatalf("wrote %d of %d: %v", n, want, err)
	}
	w.Flushed()
}

func modes(t *testing.T, f func(t *testing.T, secure bool)) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) { f(t, secure) })
	}
}

func TestMessageRoundTrip(t *testing.T) {
	modes(t, func(t *testing.T, secure bool) {
		w, r, wire := pair(t, secure)
		rnd := rand.New(rand.NewPCG(1, 2))
		noise := make([]byte, 20000)
		for i := range noise {
			noise[i] = byte(rnd.Uint32())
		}
		random := func(n int) []byte { return noise[rnd.IntN(10000):][:n] }
		sizes := []int{0, 1, 15, 16, 17, 48, 511, 512, 513, 9000}
		type sent struct {
			h                   Header
			front, middle, data []byte
		}
		var all []sent
		for _, f := range sizes {
			for _, m := range []int{0, 1, 600} {
				for _, d := range sizes {
					s := sent{h: Header{Seq: uint64(len(all) + 1), Tid: 7, Type: 42, Priority: 127, Version: 8, Compat: 3, AckSeq: 9, Flags: 3, DataOff: 5, DataPrePadding: 6, Reserved: 1},
						front: random(f), middle: random(m), data: random(d)}
					all = append(all, s)
					half := d / 2
					if err := w.Message(&s.h, s.front, s.middle, [][]byte{s.data[:half], nil, s.data[half:]}); err != nil {
						t.Fatal(err)
					}
					if len(all)%7 == 0 {
						flush(t, w, wire)
					}
				}
			}
		}
		flush(t, w, wire)
		for i, s := range all {
			p, err := r.Next()
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			var h Header
			h.Parse(r.First())
			if p.Tag != TagMessage || h != s.h {
				t.Fatalf("message %d: got %v %+v, want %+v", i, p.Tag, h, s.h)
			}
			front, middle, data, complete, err := r.Body(make([]byte, r.BodySize()))
			if err != nil || !complete {
				t.Fatalf("message %d: complete %v, %v", i, complete, err)
			}
			if !bytes.Equal(front, s.front) || !bytes.Equal(middle, s.middle) || !bytes.Equal(data, s.data) {
				t.Fatalf("message %d of %d+%d+%d bytes arrived different", i, len(s.front), len(s.middle), len(s.data))
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

// TestDataApart reads the parts of a message apart, as the stream brings them in
// pieces of any size, and finds every damage.
func TestDataApart(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 3*sumPiece)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	w, _, wire := pair(t, false)
	for range 40 {
		front, middle := data[:rnd.IntN(300)], data[:rnd.IntN(2)*40]
		data := data[:1+rnd.IntN(len(data))]
		if err := w.Message(&Header{Seq: 1}, front, middle, [][]byte{data}); err != nil {
			t.Fatal(err)
		}
		flush(t, w, wire)
		frame := bytes.Clone(wire.Bytes())
		wire.Reset()
		bad := -1
		if rnd.IntN(2) == 0 {
			bad = preambleSize + HeaderSize + crcSize + rnd.IntN(len(frame)-preambleSize-HeaderSize-crcSize)
			frame[bad] ^= 0x11
		}
		r := NewReader(&pieces{frame, rnd}, testLimits)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		head, n, ok := r.Split()
		if !ok || head != len(front)+len(middle) || n != len(data) {
			t.Fatalf("parts of %d and %d bytes, %v", head, n, ok)
		}
		gotFront, gotMiddle, err := r.Head(make([]byte, head))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, n)
		a := rnd.IntN(n + 1)
		b := a + rnd.IntN(n-a+1)
		complete, err := r.Data(got[:a], got[a:b], nil, got[b:])
		if bad >= 0 {
			if err == nil {
				t.Fatalf("damage at byte %d of %d was not found", bad, len(frame))
			}
			continue
		}
		if err != nil || !complete || !bytes.Equal(gotFront, front) || !bytes.Equal(gotMiddle, middle) || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes arrived different: complete %v, %v", n, complete, err)
		}
	}
}

// pieces is a stream that brings a few bytes at a time.
type pieces struct {
	b   []byte
	rnd *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:1+p.rnd.IntN(len(b))], p.b)
	p.b = p.b[n:]
	return n, nil
}

func TestControlRoundTrip(t *testing.T) {
	modes(t, func(t *testing.T, secure bool) {
		w, r, wire := pair(t, secure)
		for n := range 200 {
			if err := w.Control(TagAuthReplyMore, bytes.Repeat([]byte{byte(n)}, n)); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, w, wire)
		for n := range 200 {
			p, err := r.Next()
			if err != nil || p.Tag != TagAuthReplyMore || r.BodySize() != 0 {
				t.Fatalf("frame %d: %v %v", n, p, err)
			}
			if !bytes.Equal(r.First(), bytes.Repeat([]byte{byte(n)}, n)) {
				t.Fatalf("payload of %d bytes: %x", n, r.First())
			}
		}
	})
}

// TestOnTheWire holds the layout to what frames_v2.cc describes.
func TestOnTheWire(t *testing.T) {
	w, _, wire := pair(t, false)
	w.Control(TagAck, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	flush(t, w, wire)
	if n := wire.Len(); n != 32+8+4 {
		t.Errorf("a control frame with 8 bytes has %d", n)
	}
	wire.Reset()
	w.Control(TagWait, nil)
	flush(t, w, wire)
	if n := wire.Len(); n != 32 {
		t.Errorf("an empty control frame has %d", n)
	}
	wire.Reset()
	w.Message(&Header{}, nil, nil, nil)
	flush(t, w, wire)
	if n := wire.Len(); n != 32+41+4 {
		t.Errorf("an empty message has %d", n)
	}
	wire.Reset()
	w.Message(&Header{}, nil, nil, [][]byte{{1}})
	flush(t, w, wire)
	if b := wire.Bytes(); len(b) != 32+41+4+1+13 || b[1] != 4 || !bytes.Equal(b[78+1:78+9], []byte{255, 255, 255, 255, 255, 255, 255, 255}) || b[78] != lateComplete {
		t.Errorf("a message with only data: % x", b)
	}
	wire.Reset()

	w, _, wire = pair(t, true)
	w.Control(TagAck, make([]byte, 48))
	flush(t, w, wire)
	if n := wire.Len(); n != 96 {
		t.Errorf("a secure frame of 48 bytes has %d", n)
	}
	wire.Reset()
	w.Control(TagAck, make([]byte, 49))
	flush(t, w, wire)
	if n := wire.Len(); n != 96+16+16 {
		t.Errorf("a secure frame of 49 bytes has %d", n)
	}
	wire.Reset()
	w.Message(&Header{}, make([]byte, 5), nil, [][]byte{make([]byte, 17)})
	flush(t, w, wire)
	if n := wire.Len(); n != 96+16+32+16+16 {
		t.Errorf("a secure message has %d", n)
	}
}

// TestDamage flips every bit of a frame: in crc mode either the damage is
// found or it was in a byte nothing covers (the reserved alignment is
// covered too); in secure mode every flip is found.
func TestDamage(t *testing.T) {
	modes(t, func(t *testing.T, secure bool) {
		whole := func() []byte {
			w, _, wire := pair(t, secure)
			w.Message(&Header{Seq: 1}, []byte("front"), []byte("mid"), [][]byte{[]byte("data")})
			flush(t, w, wire)
			return wire.Bytes()
		}()
		for i := range whole {
			for bit := range 8 {
				_, r, wire := pair(t, secure)
				b := bytes.Clone(whole)
				b[i] ^= 1 << bit
				wire.Write(b)
				_, err := r.Next()
				complete := true
				if err == nil {
					_, _, _, complete, err = r.Body(make([]byte, r.BodySize()))
				}
				if err == nil && !complete {
					t.Fatalf("byte %d bit %d made an aborted frame", i, bit)
				}
				if err == nil && (secure || i != len(whole)-13) { // the upper bits of late status mean nothing
					t.Fatalf("byte %d bit %d: not noticed", i, bit)
				}
				var fe *Error
				if err != nil && !errors.As(err, &fe) {
					t.Fatalf("byte %d bit %d: %T %v", i, bit, err, err)
				}
			}
		}
		for n := range len(whole) {
			_, r, wire := pair(t, secure)
			wire.Write(whole[:n])
			_, err := r.Next()
			if err == nil {
				_, _, _, _, err = r.Body(make([]byte, r.BodySize()))
			}
			if want := io.ErrUnexpectedEOF; n > 0 && err != want || n == 0 && err != io.EOF {
				t.Fatalf("cut after %d bytes: %v", n, err)
			}
		}
	})
}

func TestAborted(t *testing.T) {
	w, r, wire := pair(t, false)
	w.Message(&Header{Seq: 1}, []byte("front"), nil, nil)
	flush(t, w, wire)
	wire.Bytes()[wire.Len()-13] = lateAborted
	w.Control(TagAck, make([]byte, 8))
	flush(t, w, wire)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, _, _, complete, err := r.Body(make([]byte, r.BodySize())); complete || err != nil {
		t.Fatalf("aborted frame: complete %v, %v", complete, err)
	}
	if p, err := r.Next(); err != nil || p.Tag != TagAck {
		t.Fatalf("after it: %v %v", p, err)
	}
}

func TestPreambleRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Preamble
		edit func([]byte)
		kind error
	}{
		{"no segment", Preamble{Tag: TagAck}, nil, ErrFormat},
		{"five segments", Preamble{Tag: TagMessage, Segments: 5}, nil, ErrFormat},
		{"two segments in a control frame", Preamble{Tag: TagAck, Segments: 2, Len: [4]uint32{8, 8}}, nil, ErrFormat},
		{"empty last segment", Preamble{Tag: TagMessage, Segments: 2, Len: [4]uint32{HeaderSize}}, nil, ErrFormat},
		{"compressed", Preamble{Tag: TagMessage, Segments: 1, Len: [4]uint32{HeaderSize}}, func(b []byte) { b[26] = flagCompressed }, ErrCompressed},
		{"short header", Preamble{Tag: TagMessage, Segments: 1, Len: [4]uint32{HeaderSize - 1}}, nil, ErrLength},
		{"long header", Preamble{Tag: TagMessage, Segments: 1, Len: [4]uint32{HeaderSize + 1}}, nil, ErrLength},
		{"long control", Preamble{Tag: TagAck, Segments: 1, Len: [4]uint32{testLimits.Control + 1}}, nil, ErrLength},
		{"long front", Preamble{Tag: TagMessage, Segments: 2, Len: [4]uint32{HeaderSize, testLimits.Front + 1}}, nil, ErrLength},
		{"long middle", Preamble{Tag: TagMessage, Segments: 3, Len: [4]uint32{HeaderSize, 0, 1<<32 - 1}}, nil, ErrLength},
		{"long data", Preamble{Tag: TagMessage, Segments: 4, Len: [4]uint32{HeaderSize, 0, 0, 1<<32 - 1}}, nil, ErrLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := make([]byte, preambleSize)
			c.p.put(b)
			if c.edit != nil {
				c.edit(b)
				crc := crcPreamble(b[:28])
				b[28], b[29], b[30], b[31] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
			}
			_, err := NewReader(bytes.NewReader(b), testLimits).Next()
			if !errors.Is(err, c.kind) {
				t.Errorf("got %v, want %v", err, c.kind)
			}
		})
	}
}

func TestBanner(t *testing.T) {
	b := Banner{FeatureRevision1, 0}.Append(nil)
	if len(b) != 26 {
		t.Errorf("banner of %d bytes", len(b))
	}
	read := func(b []byte) (Banner, error) { return NewReader(bytes.NewReader(b), testLimits).Banner() }
	if got, err := read(b); err != nil || got != (Banner{FeatureRevision1, 0}) {
		t.Errorf("read %v, %v", got, err)
	}
	longer := append(bytes.Clone(b[:8]), 18, 0)
	longer = append(append(longer, b[10:]...), 7, 7)
	if got, err := read(longer); err != nil || got.Supported != FeatureRevision1 {
		t.Errorf("a banner with two more bytes: %v, %v", got, err)
	}
	if _, err := read([]byte("ceph v027\x00\x00\x00\x00\x00\x00")); !errors.Is(err, ErrLegacy) {
		t.Errorf("v1 banner: %v", err)
	}
	if _, err := read([]byte("HTTP/1.1 400 Bad Request")); !errors.Is(err, ErrFormat) {
		t.Errorf("nonsense: %v", err)
	}
	if _, err := read([]byte("ceph v2\n\x0f\x00aaaaaaaaaaaaaaa")); !errors.Is(err, ErrLength) {
		t.Errorf("short payload: %v", err)
	}
	if _, err := read([]byte("ceph v2\n\xff\xff")); !errors.Is(err, ErrLength) {
		t.Errorf("long payload: %v", err)
	}
	for n := range b {
		if _, err := read(b[:n]); err == nil {
			t.Errorf("a banner of %d bytes was taken", n)
		}
	}
}

func TestNonces(t *testing.T) {
	w, _, _ := pair(t, true)
	first := w.sec.nonce
	if err := w.Control(TagAck, make([]byte, 49)); err != nil {
		t.Fatal(err)
	}
	if w.sec.nonce[4] != first[4]+2 || !bytes.Equal(w.sec.nonce[:4], first[:4]) {
		t.Errorf("two seals took the nonce from %x to %x", first, w.sec.nonce)
	}
	copy(w.sec.nonce[:], first[:])
	if err := w.Control(TagAck, nil); !errors.Is(err, ErrNonces) {
		t.Errorf("a nonce was used twice: %v", err)
	}
	if err := Secure(NewReader(nil, testLimits), NewWriter(), make([]byte, SecretSize-1), false); err == nil {
		t.Error("a short secret was taken")
	}
}

var samples = []Payload{
	Hello{denc.TypeMon, addr("v2:192.0.2.1:3300/0")},
	AuthRequest{2, []uint32{2, 1}, []byte("payload")},
	AuthBadMethod{2, -13, []uint32{1, 2}, []uint32{2}},
	AuthReplyMore{[]byte("more")},
	AuthRequestMore{[]byte("and more")},
	AuthDone{4711, 2, []byte("done")},
	Signature{1, 2, 31: 3},
	ClientIdent{denc.AddrVec{addr("any:192.0.2.9:0/77")}, addr("v2:192.0.2.1:3300/0"), 4711, 1, 2, 3, 4, 5},
	ServerIdent{denc.AddrVec{addr("v2:192.0.2.1:3300/0"), addr("v1:192.0.2.1:6789/0")}, 2, 1, 2, 3, 4, 5},
	Number{TagIdentMissingFeatures, 1 << 59},
	Reconnect{denc.AddrVec{addr("any:192.0.2.9:0/77")}, 1, 2, 3, 4, 5},
	Reset{true},
	Number{TagSessionRetry, 3},
	Number{TagSessionRetryGlobal, 4},
	Number{TagSessionReconnectOK, 5},
	Wait{},
	Number{TagAck, 6},
}

func addr(s string) denc.Addr {
	a, err := denc.ParseAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}

func decode(tag Tag, b []byte) (Payload, error) {
	switch tag {
	case TagHello:
		return DecodeHello(b)
	case TagAuthRequest:
		return DecodeAuthRequest(b)
	case TagAuthBadMethod:
		return DecodeAuthBadMethod(b)
	case TagAuthReplyMore:
		return DecodeAuthReplyMore(b)
	case TagAuthRequestMore:
		return DecodeAuthRequestMore(b)
	case TagAuthDone:
		return DecodeAuthDone(b)
	case TagAuthSignature:
		return DecodeSignature(b)
	case TagClientIdent:
		return DecodeClientIdent(b)
	case TagServerIdent:
		return DecodeServerIdent(b)
	case TagSessionReconnect:
		return DecodeReconnect(b)
	case TagSessionReset:
		return DecodeReset(b)
	case TagWait:
		return Wait{}, nil
	}
	v, err := DecodeNumber(tag, b)
	return Number{tag, v}, err
}

func TestPayloads(t *testing.T) {
	for _, p := range samples {
		var e denc.Encoder
		p.Encode(&e)
		got, err := decode(p.Tag(), e.Data())
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", p) {
			t.Errorf("%v: sent %+v, got %+v, %v", p.Tag(), p, got, err)
		}
		for n := range e.Len() {
			if _, err := decode(p.Tag(), e.Data()[:n]); err == nil {
				t.Errorf("%v: %d of %d bytes were taken", p.Tag(), n, e.Len())
			} else if !strings.Contains(err.Error(), p.Tag().String()) {
				t.Errorf("%v: the error does not name the frame: %v", p.Tag(), err)
			}
		}
		if _, err := decode(p.Tag(), append(bytes.Clone(e.Data()), 1, 2, 3)); err != nil {
			t.Errorf("%v: with more behind it: %v", p.Tag(), err)
		}
	}
	long := AuthRequest{Modes: make([]uint32, maxModes+1)}
	var e denc.Encoder
	long.Encode(&e)
	if _, err := DecodeAuthRequest(e.Data()); !errors.Is(err, denc.ErrTooLong) {
		t.Errorf("a long list: %v", err)
	}
}

func TestRecording(t *testing.T) {
	w, r, wire := pair(t, false)
	w.Raw(Banner{1, 0}.Append(nil))
	w.Append(Hello{denc.TypeMon, addr("v2:192.0.2.1:3300/0")})
	flush(t, w, wire)
	sent := bytes.Clone(wire.Bytes())
	if _, err := r.Banner(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(w.Recorded(), sent) || !bytes.Equal(r.Recorded(), sent) {
		t.Errorf("sent %x\nwriter recorded %x\nreader recorded %x", sent, w.Recorded(), r.Recorded())
	}
}

func TestPool(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 10, 1<<10 + classRoom, 1<<10 + classRoom + 1, 4<<20 + 300, 9 << 20} {
		b := GetBuffer(n)
		if len(b.B) != n {
			t.Errorf("asked for %d, got %d", n, len(b.B))
		}
		if n == 4<<20+300 && cap(b.B) > 4<<20+classRoom {
			t.Errorf("4 MiB and a front take %d bytes", cap(b.B))
		}
		b.Release()
		b.ReleaseFunc()() // a second time does no harm
	}
}
