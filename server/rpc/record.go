package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Record marking (RFC 5531 section 11): a record is sent as fragments, each
// after four bytes with its length and, in the highest bit, whether it is the
// last.
const (
	lastFragment = 1 << 31
	maxFragment  = 1<<31 - 1
)

// stageSize is what a connection reads ahead: some dozens of small calls. More
// than this of a record must have arrived before memory for all of it is taken.
const stageSize = 16 << 10

// maxEmptyFragments is how many empty fragments a record may have. The RFC does
// not forbid them, but they are of no use, and endless ones would be.
const maxEmptyFragments = 16

// The faults of a stream of records. After one of them the stream cannot be
// followed any further.
var (
	ErrRecordTooLong  = errors.New("rpc: record above its limit")
	ErrEmptyFragments = errors.New("rpc: too many empty fragments")
)

// recordReader cuts a stream into records. Small reads go through a stage, the
// rest of a large record straight into its buffer.
type recordReader struct {
	src   io.Reader
	limit int
	// reserve is called before memory for a record of up to n bytes is taken; it
	// may wait. An error ends the stream. What it reserved is settled in arrived.
	reserve func(n int) (charger, error)
	// arriving is called with true when the first byte of a record is here, and
	// with false when the record is complete.
	arriving func(bool)

	stage []byte
	r, w  int // stage[r:w] has been read and not used
}

// next returns the next record. io.EOF means that the stream ended between two
// records, io.ErrUnexpectedEOF that it ended within one.
func (rr *recordReader) next() (*Buffer, error) {
	if rr.stage == nil {
		rr.stage = make([]byte, stageSize)
	}
	if rr.w == rr.r {
		rr.r, rr.w = 0, 0
		if err := rr.fill(1); err != nil {
			return nil, err
		}
	}
	rr.arriving(true)
	defer rr.arriving(false)
	size, last, err := rr.mark(0)
	if err != nil {
		return nil, inRecord(err)
	}
	// Let it show that it is meant seriously before memory is taken for it.
	if err := rr.fill(min(size, stageSize)); err != nil {
		return nil, inRecord(err)
	}
	if !last {
		return rr.assemble(size)
	}
	owner, err := rr.reserve(size)
	if err != nil {
		return nil, err
	}
	b := GetBuffer(size)
	b.owner, b.charge = owner, int64(size)
	if err := rr.read(b.data); err != nil {
		b.Release()
		return nil, inRecord(err)
	}
	return b, nil
}

// ahead reports whether a part of the next record at least is here.
func (rr *recordReader) ahead() bool { return rr.r < rr.w }

// whole reports whether the next record is here and can be read without waiting
// for the peer.
func (rr *recordReader) whole() bool {
	if rr.w-rr.r < 4 {
		return false
	}
	v := binary.BigEndian.Uint32(rr.stage[rr.r:])
	return v&lastFragment != 0 && int(v&maxFragment) <= rr.w-rr.r-4
}

// assemble reads a record of several fragments, the first of which has size
// bytes. How long it gets is not known: the limit is reserved for it at once,
// since to ask for more and more while keeping a part could block all records
// together, but its buffer grows only as it arrives.
func (rr *recordReader) assemble(size int) (*Buffer, error) {
	owner, err := rr.reserve(rr.limit)
	if err != nil {
		return nil, err
	}
	b := GetBuffer(min(size, stageSize))
	b.owner, b.charge = owner, int64(rr.limit)
	n, empty, last := 0, 0, false
	for {
		if size == 0 {
			if empty++; empty > maxEmptyFragments {
				b.Release()
				return nil, ErrEmptyFragments
			}
		}
		for size > 0 {
			part := min(size, max(n, stageSize))
			b = grow(b, n, part)
			if err := rr.read(b.data[n : n+part]); err != nil {
				b.Release()
				return nil, inRecord(err)
			}
			n += part
			size -= part
		}
		if last {
			break
		}
		if size, last, err = rr.mark(n); err != nil {
			b.Release()
			return nil, inRecord(err)
		}
	}
	b.data = b.data[:n]
	// Give back what turned out not to be needed.
	spare := b.charge - int64(n)
	b.charge = int64(n)
	if owner != nil {
		owner.release(spare)
	}
	return b, nil
}

// grow makes room for part bytes after the first n of b, in a new buffer of
// twice the size if need be.
func grow(b *Buffer, n, part int) *Buffer {
	if n+part <= cap(b.data) {
		b.data = b.data[:n+part]
		return b
	}
	bigger := GetBuffer(max(n+part, 2*n))
	bigger.data = bigger.data[:n+part]
	copy(bigger.data, b.data[:n])
	bigger.owner, bigger.charge = b.owner, b.charge
	b.owner, b.charge = nil, 0
	b.Release()
	return bigger
}

// mark reads the mark of a fragment that follows n bytes of its record.
func (rr *recordReader) mark(n int) (size int, last bool, err error) {
	if err := rr.fill(4); err != nil {
		return 0, false, err
	}
	v := binary.BigEndian.Uint32(rr.stage[rr.r:])
	rr.r += 4
	size, last = int(v&maxFragment), v&lastFragment != 0
	if size > rr.limit-n {
		return 0, false, fmt.Errorf("%w: %d bytes and more, %d allowed", ErrRecordTooLong, n+size, rr.limit)
	}
	return size, last, nil
}

// fill reads until n bytes, at most stageSize, are in the stage.
func (rr *recordReader) fill(n int) error {
	for rr.w-rr.r < n {
		if rr.r > 0 && rr.r+n > len(rr.stage) {
			rr.w = copy(rr.stage, rr.stage[rr.r:rr.w])
			rr.r = 0
		}
		k, err := rr.src.Read(rr.stage[rr.w:])
		rr.w += k
		if rr.w-rr.r >= n {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read fills p: from the stage, then straight from the source, and what little is
// missing at the end through the stage again, where the next record may follow.
func (rr *recordReader) read(p []byte) error {
	n := copy(p, rr.stage[rr.r:rr.w])
	rr.r += n
	for n < len(p) && len(p)-n >= stageSize/4 {
		k, err := rr.src.Read(p[n:])
		n += k
		if err != nil && n < len(p) {
			return err
		}
	}
	if n == len(p) {
		return nil
	}
	if err := rr.fill(len(p) - n); err != nil {
		return err
	}
	rr.r += copy(p[n:], rr.stage[rr.r:rr.w])
	return nil
}

// inRecord is err for a stream that ended within a record.
func inRecord(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
