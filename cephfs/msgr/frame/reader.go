package frame

import (
	"encoding/binary"
	"io"
)

// readAhead is how much a reader takes from the stream at once. What is ahead
// of a large segment is copied into it, so that this also bounds the copy.
const readAhead = 16 << 10

// sumPiece is how much of a segment is read before its checksum is taken: little
// enough to be in the cache still, much enough for few reads.
const sumPiece = 256 << 10

// Reader reads the frames of one direction of a stream. The fields of Limits
// may be changed between frames.
type Reader struct {
	Limits Limits

	src   io.Reader
	ahead []byte
	r, w  int

	sec       *sealer
	record    []byte // every byte read so far, while recording
	recording bool

	pre   Preamble
	first []byte // segment 0
	store []byte // of first
	tail  [epilogueCRC]byte
	sums  [maxSegments]uint32 // of the segments read
}

// NewReader returns a reader in crc mode that records what it reads.
func NewReader(src io.Reader, lim Limits) *Reader {
	return &Reader{Limits: lim, src: src, ahead: make([]byte, readAhead), recording: true}
}

// Recorded returns the bytes of all frames read since the beginning, the
// banner included: what the handshake's signature covers.
func (r *Reader) Recorded() []byte { return r.record }

// StopRecording drops the record.
func (r *Reader) StopRecording() { r.record, r.recording = nil, false }

// Next reads the start of a frame: its preamble and segment 0. The body, if
// [Reader.BodySize] is not 0, must be read before the next frame.
func (r *Reader) Next() (Preamble, error) {
	if r.sec != nil {
		return r.nextSecure()
	}
	b := r.scratch(preambleSize)
	if err := r.full(b); err != nil {
		return Preamble{}, err
	}
	p, err := parsePreamble(b, &r.Limits)
	if err != nil {
		return p, err
	}
	r.pre, r.first = p, nil
	n := int(p.Len[0])
	if n == 0 {
		return p, nil
	}
	b = r.scratch(n + crcSize)
	if err := r.full(b); err != nil {
		return p, cut(err)
	}
	if crcFinish(crcSegment(0, b[:n])) != binary.LittleEndian.Uint32(b[n:]) {
		return p, &Error{p.Tag, "first segment", ErrChecksum}
	}
	r.first = b[:n]
	return p, nil
}

func (r *Reader) nextSecure() (Preamble, error) {
	b := r.scratch(preambleSize + inlineSize + tagSize)
	if err := r.full(b); err != nil {
		return Preamble{}, err
	}
	if _, err := r.sec.open(b); err != nil {
		return Preamble{}, &Error{What: "preamble", Kind: err}
	}
	p, err := parsePreamble(b[:preambleSize], &r.Limits)
	if err != nil {
		return p, err
	}
	r.pre = p
	n := int(p.Len[0])
	if n <= inlineSize {
		r.first = b[preambleSize : preambleSize+n]
		return p, nil
	}
	// The part in the preamble's block and the rest come together: the block
	// is at the start of the storage, which grows behind it.
	rest := pad(p.Len[0]) - inlineSize + tagSize
	b = r.grow(preambleSize+inlineSize, rest)
	tail := b[preambleSize+inlineSize:]
	if err := r.full(tail); err != nil {
		return p, cut(err)
	}
	if _, err := r.sec.open(tail); err != nil {
		return p, &Error{p.Tag, "first segment", err}
	}
	r.first = b[preambleSize : preambleSize+n]
	return p, nil
}

// First is segment 0 of the frame that Next began: a control frame's payload
// or a message's header. It is valid until the next call of Next.
func (r *Reader) First() []byte { return r.first }

// BodySize is how many bytes [Reader.Body] needs for the rest of the frame; 0 if
// there is none.
func (r *Reader) BodySize() int {
	if r.sec != nil {
		return r.pre.bodySecure()
	}
	return r.pre.partsCRC()
}

// Body reads the rest of a frame into b, of BodySize bytes, and returns the
// parts of the message, which alias b. A frame that its sender gave up after
// its start is whole but void: complete is false.
func (r *Reader) Body(b []byte) (front, middle, data []byte, complete bool, err error) {
	if r.pre.Segments == 1 {
		return nil, nil, nil, true, nil
	}
	if r.sec != nil {
		if err := r.full(b); err != nil {
			return nil, nil, nil, false, cut(err)
		}
		return r.bodySecure(b)
	}
	n := int(r.pre.Len[1]) + int(r.pre.Len[2])
	if front, middle, err = r.Head(b[:n:n]); err != nil {
		return nil, nil, nil, false, err
	}
	data, _ = part(b[n:], r.pre.Len[3], int(r.pre.Len[3]))
	if complete, err = r.Data(data); err != nil {
		return nil, nil, nil, false, err
	}
	return front, middle, data, complete, nil
}

// Split returns how many bytes the front and the middle of a message have
// together, and how many its data, if there are data and the parts may be read
// apart, by [Reader.Head] and then [Reader.Data] instead of Body. They cannot in
// secure mode, where all are one block.
func (r *Reader) Split() (head, data int, ok bool) {
	p := &r.pre
	if r.sec != nil || p.Len[3] == 0 {
		return 0, 0, false
	}
	return int(p.Len[1]) + int(p.Len[2]), int(p.Len[3]), true
}

// Head reads front and middle into b, of the length that Split gave. Their
// checksums come behind the data: until Data returned they may be anything.
func (r *Reader) Head(b []byte) (front, middle []byte, err error) {
	front, rest := part(b, r.pre.Len[1], int(r.pre.Len[1]))
	middle, _ = part(rest, r.pre.Len[2], int(r.pre.Len[2]))
	r.sums = [maxSegments]uint32{}
	for i, seg := range [...][]byte{front, middle} {
		if err := r.sum(1+i, seg); err != nil {
			return nil, nil, err
		}
	}
	return front, middle, nil
}

// Data reads the data into bufs, one after the other, which have room for just
// that, and the end of the frame, and checks all that was read since Next. See
// Body for complete. After an error bufs hold anything.
func (r *Reader) Data(bufs ...[]byte) (complete bool, err error) {
	for _, b := range bufs {
		if err := r.sum(3, b); err != nil {
			return false, err
		}
	}
	if err := r.full(r.tail[:]); err != nil {
		return false, cut(err)
	}
	// Segments that were not sent have 0 here, which is not the checksum of
	// nothing.
	for i := 1; i < r.pre.Segments; i++ {
		if crcFinish(r.sums[i]) != binary.LittleEndian.Uint32(r.tail[1+crcSize*(i-1):]) {
			return false, &Error{r.pre.Tag, segmentNames[i], ErrChecksum}
		}
	}
	return r.late(r.tail[0])
}

// sum fills p with the next bytes of a segment, and goes on with its checksum
// over what just came.
func (r *Reader) sum(segment int, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), sumPiece)
		if err := r.full(p[:n]); err != nil {
			return cut(err)
		}
		r.sums[segment] = crcSegment(r.sums[segment], p[:n])
		p = p[n:]
	}
	return nil
}

func (r *Reader) bodySecure(b []byte) (front, middle, data []byte, complete bool, err error) {
	if b, err = r.sec.open(b); err != nil {
		return nil, nil, nil, false, &Error{r.pre.Tag, "segments", err}
	}
	front, rest := part(b, r.pre.Len[1], pad(r.pre.Len[1]))
	middle, rest = part(rest, r.pre.Len[2], pad(r.pre.Len[2]))
	data, rest = part(rest, r.pre.Len[3], pad(r.pre.Len[3]))
	complete, err = r.late(rest[0])
	return front, middle, data, complete, err
}

var segmentNames = [maxSegments]string{"header", "front", "middle", "data"}

// part splits off a segment of n bytes that takes size bytes. An empty one is
// nil, and none can be appended to over the next.
func part(b []byte, n uint32, size int) (seg, rest []byte) {
	if n == 0 {
		return nil, b
	}
	return b[:n:n], b[size:]
}

func (r *Reader) late(status byte) (complete bool, err error) {
	switch status & lateMask {
	case lateComplete:
		return true, nil
	case lateAborted:
		return false, nil
	}
	return false, &Error{r.pre.Tag, "late status", ErrFormat}
}

// scratch returns n bytes of the reader's storage, which hold nothing.
func (r *Reader) scratch(n int) []byte {
	if cap(r.store) < n {
		r.store = make([]byte, max(n, 512))
	}
	return r.store[:n]
}

// grow returns the first keep bytes of the storage and n more.
func (r *Reader) grow(keep, n int) []byte {
	if cap(r.store) < keep+n {
		s := make([]byte, keep+n)
		copy(s, r.store[:keep])
		r.store = s
	}
	return r.store[:keep+n]
}

// full fills p: from what was read ahead, then directly.
func (r *Reader) full(p []byte) error {
	whole := p
	for len(p) > 0 {
		if r.r < r.w {
			n := copy(p, r.ahead[r.r:r.w])
			r.r += n
			p = p[n:]
			continue
		}
		if len(p) >= len(r.ahead) {
			n, err := io.ReadFull(r.src, p)
			p = p[n:]
			if err != nil {
				return partial(err, len(whole)-len(p))
			}
			continue
		}
		n, err := r.src.Read(r.ahead)
		r.r, r.w = 0, n
		if n == 0 && err != nil {
			return partial(err, len(whole)-len(p))
		}
	}
	if r.recording {
		r.record = append(r.record, whole...)
	}
	return nil
}

// partial makes an end of the stream io.EOF only between two parts.
func partial(err error, got int) error {
	if got > 0 {
		return cut(err)
	}
	return err
}

// cut makes an end of the stream within a frame unexpected.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
