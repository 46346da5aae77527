package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// The plain side speaks the least that carries the same bytes. A request is
// mark, xid, how many bytes are wanted, an offset, and data; a reply is mark,
// xid and data. Data pass through one buffer, from and to a memory that each
// connection has for itself, as large as the files on the other side.
const plainHeader = prefix + 4 + 8

// servePlain serves the plain protocol until the listener is closed.
func servePlain(l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		nc, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		wg.Go(func() {
			defer nc.Close()
			if err := plainConn(nc); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				fmt.Fprintln(os.Stderr, "plain:", err)
			}
		})
	}
}

// plainConn serves one connection, its requests one after the other, and
// returns why it ended.
func plainConn(nc net.Conn) error {
	in := bufio.NewReaderSize(nc, 4096)
	buf := make([]byte, prefix+blockSize)
	memory := make([]byte, 4096)
	var head [plainHeader]byte
	var out []byte // small replies that leave together
	for {
		if in.Buffered() < plainHeader && len(out) > 0 {
			if _, err := nc.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		data := int(binary.BigEndian.Uint32(head[:])&^lastRecord) + markSize - plainHeader
		want := int(binary.BigEndian.Uint32(head[prefix:]))
		off := binary.BigEndian.Uint64(head[prefix+4:])
		if max(data, want) == blockSize && len(memory) < fileSize {
			memory = make([]byte, fileSize)
			for i := range memory {
				memory[i] = byte(i >> 12) // touched: else it is one page of zeros
			}
		}
		if n := max(data, want); data < 0 || n > len(memory) || off > uint64(len(memory)-n) {
			return errors.New("no such request")
		}
		if data > 0 {
			if _, err := io.ReadFull(in, buf[:data]); err != nil {
				return err
			}
			copyPieces(memory[off:], buf[:data])
		}
		binary.BigEndian.PutUint32(buf, lastRecord|uint32(want+prefix-markSize))
		copy(buf[xidAt:], head[xidAt:prefix])
		copyPieces(buf[prefix:prefix+want], memory[off:])
		if want < 16<<10 {
			out = append(out, buf[:prefix+want]...)
		} else if _, err := nc.Write(buf[:prefix+want]); err != nil {
			return err
		}
	}
}

// copyPieces is copy in pieces as large as those in which the in-memory volume
// keeps its files. Go copies from 1 MiB on past the caches, which is faster into
// the memory and slower out of it: that would be compared too.
func copyPieces(dst, src []byte) {
	const piece = 64 << 10
	for n := min(len(dst), len(src)); n > 0; n = min(len(dst), len(src)) {
		n = copy(dst[:min(n, piece)], src)
		dst, src = dst[n:], src[n:]
	}
}

// plainRequest encodes a request that carries data and asks for want bytes.
func plainRequest(data, want int) request {
	b := make([]byte, plainHeader+data)
	binary.BigEndian.PutUint32(b, lastRecord|uint32(len(b)-markSize))
	binary.BigEndian.PutUint32(b[prefix:], uint32(want))
	r := request{b: b, reply: prefix + want}
	if max(data, want) == blockSize {
		r.off = prefix + 4
	}
	return r
}
