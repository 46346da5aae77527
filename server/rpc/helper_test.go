package rpc

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"capstan/server/xdr"
)

func goexit() { runtime.Goexit() }

// payloadCount checks that each spliced payload is released exactly once.
type payloadCount struct {
	mu    sync.Mutex
	count []int
}

func (p *payloadCount) track(release func()) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := len(p.count)
	p.count = append(p.count, 0)
	return func() {
		p.mu.Lock()
		p.count[i]++
		p.mu.Unlock()
		if release != nil {
			release()
		}
	}
}

func (p *payloadCount) check(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, n := range p.count {
		if n != 1 {
			t.Errorf("payload %d released %d times", i, n)
		}
	}
}

// rawCall is the record of a call, without its mark, to be spoiled at will.
func rawCall(xid, program, version, procedure uint32, args ...uint32) []byte {
	var e xdr.Encoder
	for _, v := range []uint32{xid, msgCall, Version, program, version, procedure, 0, 0, 0, 0} {
		e.Uint32(v)
	}
	for _, v := range args {
		e.Uint32(v)
	}
	return e.Bytes()
}

// words is a record of these words.
func words(w ...uint32) []byte {
	var e xdr.Encoder
	for _, v := range w {
		e.Uint32(v)
	}
	return e.Bytes()
}

// marked puts a mark before a record that is one fragment.
func marked(record []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, lastFragment|uint32(len(record))), record...)
}

// fragmented cuts a record into fragments of n bytes.
func fragmented(record []byte, n int) []byte {
	var out []byte
	for len(record) > n {
		out = binary.BigEndian.AppendUint32(out, uint32(n))
		out = append(out, record[:n]...)
		record = record[n:]
	}
	return append(out, marked(record)...)
}

// send writes in the background, since in-memory connections hold the writer
// until the last byte is read.
func send(t testing.TB, c net.Conn, b []byte) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Write(b)
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
}

// receive reads one record of the server, which sends each as one fragment.
func receive(t testing.TB, c net.Conn) []byte {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		t.Fatalf("no reply: %v", err)
	}
	v := binary.BigEndian.Uint32(mark[:])
	if v&lastFragment == 0 {
		t.Fatalf("reply mark %#x is not of a last fragment", v)
	}
	b := make([]byte, v&maxFragment)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("short reply: %v", err)
	}
	return b
}

// closed checks that the server closes the connection without another byte.
func closed(t testing.TB, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	b, err := io.ReadAll(c)
	if len(b) != 0 {
		t.Errorf("%d bytes before the close: %x", len(b), b)
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("connection is still open")
	}
}

func equal(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got %x\nwant %x", what, got, want)
	}
}
