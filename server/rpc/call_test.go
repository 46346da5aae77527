package rpc

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"capstan/internal/testutil"
)

// FuzzCall sends any record to a server. It must answer with one well-formed
// reply to the xid of the call, or close, and serve the next connection.
func FuzzCall(f *testing.F) {
	f.Add(rawCall(1, testProgram, 3, procNull))
	f.Add(rawCall(1, testProgram, 3, procEcho, 3, 0))
	f.Add(rawCall(1, testProgram, 3, procFill, 100))
	f.Add(rawCall(1, testProgram, 9, procNull))
	f.Add(rawCall(1, testProgram, 3, procPanic))
	f.Add(words(1, 0, 2, testProgram, 3, 0, 1, 28, 0, 1, 0x61000000, 1, 2, 1, 3, 0, 0))
	f.Add(words(1, 0, 2, testProgram, 3, 0, 6, 4, 0))
	f.Add(words(1, 0, 1))
	f.Add(words(1, 1))
	f.Add([]byte{})
	captures, err := testutil.ReadCaptures("../nfstest/testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range captures {
		for _, r := range c {
			if r.FromClient && len(r.Data) >= 16 {
				f.Add(r.Data)
				ours := bytes.Clone(r.Data)
				binary.BigEndian.PutUint32(ours[12:], testProgram)
				f.Add(ours)
			}
		}
	}
	s := newTestServer(f, Options{MaxRecord: 64 << 10})
	f.Fuzz(func(t *testing.T, record []byte) {
		if len(record) > 64<<10 {
			return
		}
		var proc, filled uint32
		if len(record) >= 24 {
			proc = binary.BigEndian.Uint32(record[20:])
		}
		if len(record) >= 44 {
			filled = binary.BigEndian.Uint32(record[40:])
		}
		if proc == procBlock || proc == procFill && filled > 1<<20 {
			return
		}
		a, c := net.Pipe()
		s.ServeConn(a)
		defer c.Close()
		c.SetDeadline(time.Now().Add(2 * time.Minute))
		const next = 0xfefefefe
		go c.Write(append(marked(record), marked(rawCall(next, testProgram, 3, procNull))...))
		want := map[uint32]int{next: 1}
		if len(record) < 8 || binary.BigEndian.Uint32(record[4:]) != msgReply {
			want[binary.BigEndian.Uint32(append(record[:len(record):len(record)], 0, 0, 0, 0))]++
		}
		for len(want) > 0 {
			b, err := readRecord(c)
			if err == io.EOF || err == io.ErrClosedPipe {
				return // closed: no message
			} else if err != nil {
				t.Fatal(err)
			}
			xid := binary.BigEndian.Uint32(b)
			if want[xid]--; want[xid] < 0 {
				t.Fatalf("reply to %x", xid)
			} else if want[xid] == 0 {
				delete(want, xid)
			}
			r := Reply{record: newBuffer(b, -1)}
			if err := r.decode(); err != nil {
				if _, ok := err.(*ReplyError); !ok {
					t.Fatalf("reply %x: %v", b, err)
				}
			}
		}
	})
}

// readRecord reads a record of one fragment.
func readRecord(c net.Conn) ([]byte, error) {
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&maxFragment)
	_, err := io.ReadFull(c, b)
	return b, err
}

// FuzzReply decodes any bytes as a reply.
func FuzzReply(f *testing.F) {
	f.Add(words(1, 1, 0, 0, 0, 0, 5))
	f.Add(words(1, 1, 0, 0, 0, 2, 3, 4))
	f.Add(words(1, 1, 1, 0, 2, 2))
	f.Add(words(1, 1, 1, 1, 5))
	f.Add(words(1, 1, 1, 1, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := Reply{record: newBuffer(b, -1)}
		if err := r.decode(); err == nil && r.Results.Remaining() > len(b)-24 {
			t.Fatal("results outside of the reply")
		}
	})
}
