package msgr

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"capstan/cephfs/msgr/frame"
)

// stream is the net.Conn of one attempt, with the time-outs: reads belong to
// the reader, writes to the writer, or both to the handshake.
type stream struct {
	nc      net.Conn
	timeout time.Duration // for a read or write that gets nowhere; 0 in the handshake

	readUntil time.Time // the deadline set last
}

// Read reads with a deadline that moves along, but not at every read.
func (s *stream) Read(p []byte) (int, error) {
	if s.timeout > 0 {
		now := time.Now()
		if s.readUntil.Sub(now) < s.timeout-s.timeout/8 {
			s.readUntil = now.Add(s.timeout)
			if err := s.nc.SetReadDeadline(s.readUntil); err != nil {
				return 0, err
			}
		}
	}
	return s.nc.Read(p)
}

// flush writes what w gathered. It gives up when the peer takes nothing for
// the time-out, not when it is slow.
func (s *stream) flush(w *frame.Writer) error {
	defer w.Flushed()
	bufs := w.Buffers()
	for {
		if s.timeout > 0 {
			if err := s.nc.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
				return err
			}
		}
		n, err := bufs.WriteTo(s.nc)
		if err == nil {
			return nil
		}
		if s.timeout == 0 || n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// kindOf classes what reading or writing a stream failed with.
func kindOf(err error) Kind {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f.kind
	case errors.Is(err, frame.ErrChecksum):
		return KindChecksum
	case errors.Is(err, frame.ErrCrypto), errors.Is(err, frame.ErrNonces):
		return KindCrypto
	case errors.Is(err, frame.ErrLength):
		return KindLength
	case errors.Is(err, frame.ErrLegacy):
		return KindLegacy
	case errors.Is(err, os.ErrDeadlineExceeded):
		return KindTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return KindIO
	}
	var fe *frame.Error
	if errors.As(err, &fe) {
		return KindProtocol
	}
	return KindIO
}
