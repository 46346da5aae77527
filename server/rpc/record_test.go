package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// testReader returns a reader of records that counts what it reserves.
func testReader(src io.Reader, limit int) (*recordReader, *budget) {
	b := &budget{limit: 1 << 40}
	return &recordReader{
		src:      src,
		limit:    limit,
		reserve:  func(n int) (charger, error) { b.force(int64(n)); return b, nil },
		arriving: func(bool) {},
	}, b
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// TestRecordShapes reads records of many sizes in fragments of many sizes, from
// a source that gives everything, one byte, or half of what is asked for.
func TestRecordShapes(t *testing.T) {
	sizes := []int{1, 4, 511, 512, stageSize - 5, stageSize - 4, stageSize - 3, stageSize, stageSize + 1, stageSize + stageSize/4, 100_000}
	sources := map[string]func(io.Reader) io.Reader{
		"all":  func(r io.Reader) io.Reader { return r },
		"one":  iotest.OneByteReader,
		"half": iotest.HalfReader,
		"err":  iotest.DataErrReader,
	}
	for name, source := range sources {
		for _, cut := range []int{1, 3, 1000, stageSize - 4, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", name, cut), func(t *testing.T) {
				var stream []byte
				for _, n := range sizes {
					stream = append(stream, fragmented(pattern(n), cut)...)
				}
				rr, used := testReader(source(bytes.NewReader(stream)), 100_000)
				for _, n := range sizes {
					b, err := rr.next()
					if err != nil {
						t.Fatalf("record of %d: %v", n, err)
					}
					if !bytes.Equal(b.Bytes(), pattern(n)) {
						t.Errorf("record of %d differs", n)
					}
					if got := used.used.Load(); got != int64(n) {
						t.Errorf("record of %d is charged %d", n, got)
					}
					b.Release()
				}
				if _, err := rr.next(); err != io.EOF {
					t.Errorf("end: %v", err)
				}
				if got := used.used.Load(); got != 0 {
					t.Errorf("%d bytes left charged", got)
				}
			})
		}
	}
}

// TestRecordCut ends the stream after every byte: io.EOF between records,
// io.ErrUnexpectedEOF within one, nothing left charged.
func TestRecordCut(t *testing.T) {
	var stream []byte
	ends := map[int]bool{0: true}
	for _, r := range [][]byte{marked(pattern(10)), fragmented(pattern(40), 7), marked(nil), marked(pattern(3))} {
		stream = append(stream, r...)
		ends[len(stream)] = true
	}
	for n := range stream {
		rr, used := testReader(bytes.NewReader(stream[:n]), 64)
		var err error
		for err == nil {
			var b *Buffer
			if b, err = rr.next(); err == nil {
				b.Release()
			}
		}
		want := io.ErrUnexpectedEOF
		if ends[n] {
			want = io.EOF
		}
		if err != want {
			t.Errorf("cut at %d: %v, want %v", n, err, want)
		}
		if used.used.Load() != 0 {
			t.Errorf("cut at %d: %d bytes left charged", n, used.used.Load())
		}
	}
}

// TestRecordNoMemoryForPromises checks that a mark alone makes nothing be
// reserved.
func TestRecordNoMemoryForPromises(t *testing.T) {
	for _, mark := range []uint32{lastFragment | 1<<20, 1 << 20} {
		rr, used := testReader(nil, 1<<20)
		rr.reserve = func(int) (charger, error) { t.Error("reserved"); return used, nil }
		stream := append(words(mark), make([]byte, stageSize-1)...)
		rr.src = bytes.NewReader(stream)
		if _, err := rr.next(); err != io.ErrUnexpectedEOF {
			t.Error(err)
		}
	}
}

// FuzzRecord compares the reader with a plain model of record marking, on
// sources that cut the stream anywhere.
func FuzzRecord(f *testing.F) {
	f.Add(marked(rawCall(1, testProgram, 3, 0)), uint64(1))
	f.Add(append(fragmented(pattern(100), 1), marked(pattern(5))...), uint64(2))
	f.Add(words(0, 0, lastFragment), uint64(3))
	f.Add(words(lastFragment|5000, 0), uint64(4))
	f.Add(append(words(lastFragment|20000), make([]byte, 20100)...), uint64(5))
	f.Add(append(words(20000), make([]byte, 20100)...), uint64(6))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		const limit = 40_000
		want, wantErr := splitModel(stream, limit)
		rr, used := testReader(&choppy{stream, rand.New(rand.NewPCG(seed, 0))}, limit)
		for i := 0; ; i++ {
			b, err := rr.next()
			if err != nil {
				if i != len(want) || !errors.Is(err, wantErr) {
					t.Fatalf("after %d records: %v; want %d, %v", i, err, len(want), wantErr)
				}
				break
			}
			if i >= len(want) || !bytes.Equal(b.Bytes(), want[i]) {
				t.Fatalf("record %d differs", i)
			}
			b.Release()
		}
		if n := used.used.Load(); n != 0 {
			t.Fatalf("%d bytes left charged", n)
		}
	})
}

// choppy returns what it likes of a stream.
type choppy struct {
	left []byte
	rnd  *rand.Rand
}

func (c *choppy) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+c.rnd.IntN(30_000))], c.left)
	c.left = c.left[n:]
	return n, nil
}

// splitModel is record marking without any buffering.
func splitModel(s []byte, limit int) (records [][]byte, err error) {
	for len(s) > 0 {
		record := []byte{}
		for empty := 0; ; {
			if len(s) < 4 {
				return records, io.ErrUnexpectedEOF
			}
			v := uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
			s = s[4:]
			n, last := int(v&maxFragment), v&lastFragment != 0
			if len(record)+n > limit {
				return records, ErrRecordTooLong
			}
			if n > len(s) {
				return records, io.ErrUnexpectedEOF
			}
			// An empty fragment that is the whole record is just an empty record.
			if n == 0 && !(last && empty == 0 && len(record) == 0) {
				if empty++; empty > maxEmptyFragments {
					return records, ErrEmptyFragments
				}
			}
			record = append(record, s[:n]...)
			s = s[n:]
			if last {
				break
			}
		}
		records = append(records, record)
	}
	return records, io.EOF
}
