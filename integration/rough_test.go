package integration

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Every connection is cut, and what came through until then is what was sent.
func TestRoughNet(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 3<<20/16) // more than any connection lets through
	through := func(seed uint64) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var server sync.WaitGroup
		got := make(chan int, 1)
		server.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				server.Go(func() { _, _ = io.Copy(c, bytes.NewReader(data)) })
				up, _ := io.ReadAll(c)
				c.Close()
				if !bytes.HasPrefix(data, up) {
					t.Error("what was sent up is not what came")
				}
				got <- len(up)
			}
		})
		r, err := NewRoughNet(seed)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			c, err := net.Dial("tcp", r.Addr())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(c, l.Addr())
			var up sync.WaitGroup
			up.Go(func() { _, _ = io.Copy(c, bytes.NewReader(data)) })
			down, err := io.ReadAll(c)
			if !bytes.HasPrefix(data, down) {
				t.Errorf("%d bytes came down which are not what was sent, %v", len(down), err)
			}
			up.Wait()
			c.Close()
			// Until the one way is cut, the other may let all through.
			if n := <-got; n == len(data) && len(down) == len(data) {
				t.Error("all came through both ways")
			}
		}
		if err := r.Close(); err != nil { // so that it has counted all
			t.Error(err)
		}
		l.Close()
		server.Wait()
		if r.cuts.Load() != 8 {
			t.Errorf("not all were cut: %v", r)
		}
		return r.String()
	}
	t.Log(through(1))
	t.Log(through(2))
}
