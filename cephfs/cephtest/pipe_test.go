package cephtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(nil, nil)
		data := bytes.Repeat([]byte("0123456789"), 20000) // more than the pipe holds
		go func() {
			if n, err := a.Write(data); n != len(data) || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
			a.Close()
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write to a closed end: %v", err)
		}
		if _, err := a.Read(make([]byte, 1)); err != net.ErrClosed {
			t.Errorf("read at a closed end: %v", err)
		}
	})
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(nil, nil)
		defer a.Close()
		defer b.Close()
		begin := time.Now()
		a.SetReadDeadline(begin.Add(time.Second))
		if _, err := a.Read(make([]byte, 1)); err != os.ErrDeadlineExceeded || time.Since(begin) != time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		a.SetReadDeadline(time.Time{})
		a.SetWriteDeadline(begin.Add(3 * time.Second))
		if n, err := a.Write(make([]byte, pipeBuffer+1)); n != pipeBuffer || err != os.ErrDeadlineExceeded || time.Since(begin) != 3*time.Second {
			t.Errorf("after %v: %d, %v", time.Since(begin), n, err)
		}
		go func() {
			time.Sleep(time.Second)
			b.Write([]byte("x"))
		}()
		if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("without a deadline: %d, %v", n, err)
		}
	})
}

func TestPipeCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(nil, nil)
		defer a.Close()
		defer b.Close()
		b.in.cutAfter(3)
		if n, err := a.Write([]byte("12")); n != 2 || err != nil {
			t.Errorf("before the cut: %d, %v", n, err)
		}
		if n, err := a.Write([]byte("345")); n != 1 || err != syscall.ECONNRESET {
			t.Errorf("over the cut: %d, %v", n, err)
		}
		got, err := io.ReadAll(b)
		if string(got) != "123" || err != syscall.ECONNRESET {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := b.Write([]byte("x")); err != syscall.ECONNRESET {
			t.Errorf("the other direction: %v", err)
		}
		if _, err := a.Read(make([]byte, 1)); err != syscall.ECONNRESET {
			t.Errorf("the other direction: %v", err)
		}
	})
}
