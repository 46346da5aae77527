package frame

import (
	"bytes"
	"fmt"
	"testing"

	"capstan/cephfs/denc"
)

func FuzzControl(f *testing.F) {
	for _, p := range samples {
		var e denc.Encoder
		p.Encode(&e)
		f.Add(uint8(p.Tag()), e.Data())
	}
	f.Fuzz(func(t *testing.T, tag uint8, b []byte) {
		p, err := decode(Tag(tag), b)
		if err != nil {
			return
		}
		var e denc.Encoder
		p.Encode(&e)
		again, err := decode(Tag(tag), e.Data())
		if err != nil || fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", p) {
			t.Fatalf("%+v became %+v, %v", p, again, err)
		}
	})
}

// FuzzReader reads any bytes as a stream in crc mode.
func FuzzReader(f *testing.F) {
	w, _, wire := pair(f, false)
	w.Raw(Banner{1, 1}.Append(nil))
	w.Append(Hello{denc.TypeMon, addr("v2:192.0.2.1:3300/0")})
	w.Message(&Header{Seq: 1}, []byte("front"), []byte("mid"), [][]byte{[]byte("data")})
	w.Append(Number{TagAck, 1})
	flush(f, w, wire)
	f.Add(wire.Bytes())
	f.Add([]byte("ceph v027"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b), Limits{Control: 4096, Front: 4096, Middle: 4096, Data: 4096})
		if _, err := r.Banner(); err != nil {
			return
		}
		drain(t, r)
	})
}

// FuzzReaderSecure seals any bytes, so that what is under the cipher is what a
// hostile peer that knows the key would send.
func FuzzReaderSecure(f *testing.F) {
	f.Add(make([]byte, 80), make([]byte, 48), uint8(1))
	var p Preamble
	p = Preamble{Tag: TagMessage, Segments: 4, Len: [4]uint32{HeaderSize, 5, 0, 17}}
	b := make([]byte, 80)
	p.put(b)
	f.Add(b, make([]byte, 16+32+16), uint8(0))
	p = Preamble{Tag: TagHello, Segments: 1, Len: [4]uint32{60}}
	b = make([]byte, 80)
	p.put(b)
	f.Add(b, make([]byte, 16), uint8(0))
	f.Fuzz(func(t *testing.T, block, rest []byte, fix uint8) {
		w, r, wire := pair(t, true)
		r.Limits = Limits{Control: 4096, Front: 4096, Middle: 4096, Data: 4096}
		seal := func(b []byte) {
			out := append(bytes.Clone(b), make([]byte, tagSize)...)
			if err := w.sec.seal(out[:len(b)]); err != nil {
				t.Fatal(err)
			}
			wire.Write(out)
		}
		block = append(block, make([]byte, 80)...)[:80]
		if fix&1 == 0 {
			crc := crcPreamble(block[:28])
			block[28], block[29], block[30], block[31] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
		}
		seal(block)
		seal(rest)
		drain(t, r)
	})
}

func drain(t *testing.T, r *Reader) {
	var store []byte
	for {
		p, err := r.Next()
		if err != nil {
			return
		}
		if len(r.First()) != int(p.Len[0]) {
			t.Fatalf("%v: %d bytes of %d", p.Tag, len(r.First()), p.Len[0])
		}
		n := r.BodySize()
		if n > 3*4096+64 {
			t.Fatalf("%v: body of %d bytes", p.Tag, n)
		}
		store = append(store[:0], make([]byte, n)...)
		var front, middle, data []byte
		if head, size, ok := r.Split(); ok && size%2 == 1 {
			if head+size != n {
				t.Fatalf("%v: parts of %d and %d bytes, body of %d", p.Tag, head, size, n)
			}
			if front, middle, err = r.Head(store[:head]); err == nil {
				data = store[head:]
				_, err = r.Data(data[:size/2], nil, data[size/2:])
			}
		} else {
			front, middle, data, _, err = r.Body(store)
		}
		if err != nil {
			return
		}
		if len(front) != int(p.Len[1]) || len(middle) != int(p.Len[2]) || len(data) != int(p.Len[3]) {
			t.Fatalf("%v: parts of %d %d %d bytes, preamble %v", p.Tag, len(front), len(middle), len(data), p.Len)
		}
	}
}

func BenchmarkWriteRead(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, size := range []int{0, 4 << 10, 4 << 20} {
			b.Run(fmt.Sprintf("secure=%v/data=%d", secure, size), func(b *testing.B) {
				w, r, wire := pair(b, secure)
				w.StopRecording()
				r.StopRecording()
				front, data := make([]byte, 200), [][]byte{make([]byte, size)}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := w.Message(&Header{Seq: 1}, front, nil, data); err != nil {
						b.Fatal(err)
					}
					flush(b, w, wire)
					if _, err := r.Next(); err != nil {
						b.Fatal(err)
					}
					buf := GetBuffer(r.BodySize())
					if _, _, _, _, err := r.Body(buf.B); err != nil {
						b.Fatal(err)
					}
					buf.Release()
				}
			})
		}
	}
}
