package testutil

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// ErrFault is what a [FaultConn] fails with.
var ErrFault = errors.New("injected fault")

// FaultConn is a connection that fails at the Nth read or write, counted from
// 1; zero means never. Once it has failed it stays closed. Short limits what one
// Read returns. The fields are set before use.
type FaultConn struct {
	net.Conn
	FailRead  int64 // the read that fails
	FailWrite int64 // the write that fails, after half of its bytes went out
	Short     int   // most bytes a Read returns, 0 for no limit

	reads, writes atomic.Int64
}

// Reads and Writes are how many there were.
func (f *FaultConn) Reads() int64  { return f.reads.Load() }
func (f *FaultConn) Writes() int64 { return f.writes.Load() }

// Read fails if it is the FailReadth.
func (f *FaultConn) Read(p []byte) (int, error) {
	if n := f.reads.Add(1); n == f.FailRead {
		f.Conn.Close()
		return 0, ErrFault
	}
	if f.Short > 0 && len(p) > f.Short {
		p = p[:f.Short]
	}
	return f.Conn.Read(p)
}

// Write fails if it is the FailWriteth, and writes half of p before.
func (f *FaultConn) Write(p []byte) (int, error) {
	if n := f.writes.Add(1); n == f.FailWrite {
		f.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		n, _ := f.Conn.Write(p[:len(p)/2])
		f.Conn.Close()
		return n, ErrFault
	}
	return f.Conn.Write(p)
}
