package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// request is a call that was encoded once, record mark included, and is sent
// again and again with what must differ patched in.
type request struct {
	b     []byte
	seq   int // where the number of SEQUENCE stands; 0: nowhere
	off   int // where a file offset stands; 0: nowhere
	reply int // bytes that the reply has at least
}

// Offsets go through a file of fileSize bytes, more than a processor's cache
// keeps, in steps of blockSize.
const (
	blockSize = 1 << 20
	fileSize  = 64 << 20
)

// A record begins with its mark and the xid, here and in the plain protocol.
const (
	markSize   = 4
	xidAt      = 4
	prefix     = 8
	lastRecord = 1 << 31
	// statusAt is where the status stands in the reply to a COMPOUND or an NFSv3
	// call: behind mark, xid, reply, accepted, an empty verifier and success.
	statusAt = 28
)

// slot is one call under way: requests that take turns.
type slot struct {
	cycle []request
	at    int
	seq   uint32
	off   uint64
}

// lane is a connection with a fixed number of calls under way. It belongs to
// the goroutine that runs it.
type lane struct {
	nc     net.Conn
	slots  []slot
	status bool // replies hold a status

	xid   uint32 // the high bits; the low eight are the slot
	out   []byte
	in    []byte
	r, w  int
	calls int
}

// xids makes the xids of different lanes differ: a server may take a call with
// an xid it has seen for a repetition.
var xids atomic.Uint32

func init() { xids.Store(rand.Uint32N(1 << 20)) }

func newLane(nc net.Conn, depth int, status bool) *lane {
	l := &lane{nc: nc, slots: make([]slot, depth), status: status, in: make([]byte, blockSize+64<<10)}
	for i := range l.slots {
		l.slots[i].off = uint64(i * (fileSize / depth) / blockSize * blockSize)
	}
	return l
}

// patience is how long the server may leave a lane without an answer.
const patience = 30 * time.Second

// run keeps the calls under way until the time has come, and takes the replies
// of the last ones. It returns how many calls were answered.
func (l *lane) run(until time.Time) (int, error) {
	if err := l.nc.SetDeadline(until.Add(patience)); err != nil {
		return 0, err
	}
	l.calls, l.out = 0, l.out[:0]
	for i := range l.slots {
		if err := l.send(i); err != nil {
			return 0, err
		}
	}
	for underWay := len(l.slots); underWay > 0; {
		if l.w-l.r < statusAt+4 {
			if err := l.flush(); err != nil {
				return 0, err
			}
		}
		i, err := l.receive()
		if err != nil {
			return 0, err
		}
		l.calls++
		if time.Now().Before(until) {
			if err := l.send(i); err != nil {
				return 0, err
			}
		} else {
			underWay--
		}
	}
	return l.calls, nil
}

// send adds the next request of a slot to what is to be written.
func (l *lane) send(i int) error {
	s := &l.slots[i]
	req := &s.cycle[s.at]
	l.xid = xids.Add(1) << 8
	binary.BigEndian.PutUint32(req.b[xidAt:], l.xid|uint32(i))
	if req.seq != 0 {
		s.seq++
		binary.BigEndian.PutUint32(req.b[req.seq:], s.seq)
	}
	if req.off != 0 {
		binary.BigEndian.PutUint64(req.b[req.off:], s.off)
		s.off = (s.off + blockSize) % fileSize
	}
	if len(req.b) < 16<<10 {
		l.out = append(l.out, req.b...)
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	_, err := l.nc.Write(req.b)
	return err
}

func (l *lane) flush() error {
	if len(l.out) == 0 {
		return nil
	}
	_, err := l.nc.Write(l.out)
	l.out = l.out[:0]
	return err
}

// receive takes one reply, checks it and returns its slot.
func (l *lane) receive() (int, error) {
	if err := l.fill(prefix); err != nil {
		return 0, err
	}
	mark := binary.BigEndian.Uint32(l.in[l.r:])
	i := int(binary.BigEndian.Uint32(l.in[l.r+xidAt:]) & 0xff)
	n := int(mark&^lastRecord) + markSize
	if mark&lastRecord == 0 || i >= len(l.slots) {
		return 0, errors.New("a reply of several fragments, or to no call")
	}
	s := &l.slots[i]
	if want := s.cycle[s.at].reply; n < want {
		return 0, fmt.Errorf("a reply of %d bytes, at least %d are expected: % x", n, want, l.in[l.r:min(l.w, l.r+n)])
	}
	if l.status {
		if err := l.fill(statusAt + 4); err != nil {
			return 0, err
		}
		if st := binary.BigEndian.Uint32(l.in[l.r+statusAt:]); st != 0 {
			return 0, fmt.Errorf("status %d", st)
		}
	}
	s.at = (s.at + 1) % len(s.cycle)
	return i, l.skip(n)
}

// fill reads until n bytes are there.
func (l *lane) fill(n int) error {
	if l.w-l.r >= n {
		return nil
	}
	l.w = copy(l.in, l.in[l.r:l.w])
	l.r = 0
	k, err := io.ReadAtLeast(l.nc, l.in[l.w:], n-l.w)
	l.w += k
	return err
}

// skip drops n bytes.
func (l *lane) skip(n int) error {
	for n > l.w-l.r {
		n -= l.w - l.r
		l.r, l.w = 0, 0
		if err := l.fill(1); err != nil {
			return err
		}
	}
	l.r += n
	return nil
}
