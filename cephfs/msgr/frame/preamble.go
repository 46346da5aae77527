package frame

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Sizes of the parts of a frame in bytes.
const (
	preambleSize  = 32
	inlineSize    = 48 // of segment 0, in the preamble's block of secure mode
	crcSize       = 4
	epilogueCRC   = 1 + 3*crcSize
	epilogueBlock = 16 // secure: late status and padding
	tagSize       = 16
	blockSize     = 16

	maxSegments = 4
)

// Late status: how the sender ended a frame of several segments.
const (
	lateMask     = 0xf
	lateAborted  = 0x1
	lateComplete = 0xe
)

// flagCompressed of the preamble's flags: the segments are compressed.
const flagCompressed = 1

// Alignments that Ceph asks of the receiver's buffers; they bind nobody.
const (
	alignDefault = 8
	alignPage    = 4096
)

// Preamble is the start of a frame.
type Preamble struct {
	Tag      Tag
	Segments int // 1 to 4
	Len      [maxSegments]uint32
}

// partsCRC is the size of front, middle and data.
func (p *Preamble) partsCRC() int {
	return int(p.Len[1]) + int(p.Len[2]) + int(p.Len[3])
}

// bodySecure is the size on the wire of what follows segment 0, in secure mode.
func (p *Preamble) bodySecure() int {
	if p.Segments == 1 {
		return 0
	}
	return pad(p.Len[1]) + pad(p.Len[2]) + pad(p.Len[3]) + epilogueBlock + tagSize
}

// pad rounds a length up to the cipher's block.
func pad(n uint32) int { return (int(n) + blockSize - 1) &^ (blockSize - 1) }

// put writes p in its 32 bytes.
func (p *Preamble) put(b []byte) {
	_ = b[preambleSize-1]
	b[0], b[1] = byte(p.Tag), byte(p.Segments)
	for i := range maxSegments {
		at := 2 + 6*i
		binary.LittleEndian.PutUint32(b[at:], p.Len[i])
		align := uint16(0)
		if i < p.Segments {
			align = alignDefault
			if i == 3 {
				align = alignPage
			}
		}
		binary.LittleEndian.PutUint16(b[at+4:], align)
	}
	b[26], b[27] = 0, 0
	binary.LittleEndian.PutUint32(b[28:], crcPreamble(b[:28]))
}

// Limits bounds what a reader accepts, before it allocates for it.
type Limits struct {
	Control             uint32 // payload of a control frame
	Front, Middle, Data uint32
}

// parsePreamble reads and checks 32 bytes.
func parsePreamble(b []byte, lim *Limits) (Preamble, error) {
	if got, want := crcPreamble(b[:28]), binary.LittleEndian.Uint32(b[28:]); got != want {
		return Preamble{}, &Error{What: "preamble", Kind: ErrChecksum}
	}
	p := Preamble{Tag: Tag(b[0]), Segments: int(b[1])}
	if p.Segments < 1 || p.Segments > maxSegments {
		return p, &Error{p.Tag, fmt.Sprintf("%d segments", p.Segments), ErrFormat}
	}
	if b[26]&flagCompressed != 0 {
		return p, &Error{p.Tag, "preamble", ErrCompressed}
	}
	for i := range p.Segments {
		p.Len[i] = binary.LittleEndian.Uint32(b[2+6*i:])
	}
	if p.Segments > 1 && p.Len[p.Segments-1] == 0 {
		return p, &Error{p.Tag, "empty last segment", ErrFormat}
	}
	return p, p.check(lim)
}

func (p *Preamble) check(lim *Limits) error {
	if p.Tag != TagMessage {
		if p.Segments != 1 {
			return &Error{p.Tag, fmt.Sprintf("%d segments", p.Segments), ErrFormat}
		}
		return p.checkLen(0, "payload", lim.Control)
	}
	if p.Len[0] != HeaderSize {
		return &Error{p.Tag, fmt.Sprintf("header of %d bytes", p.Len[0]), ErrLength}
	}
	if err := p.checkLen(1, "front", lim.Front); err != nil {
		return err
	}
	if err := p.checkLen(2, "middle", lim.Middle); err != nil {
		return err
	}
	return p.checkLen(3, "data", lim.Data)
}

func (p *Preamble) checkLen(i int, what string, limit uint32) error {
	if p.Len[i] > limit {
		return &Error{p.Tag, fmt.Sprintf("%s of %d bytes", what, p.Len[i]), ErrLength}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcPreamble is Ceph's crc32c from 0. Ceph inverts neither at the start nor
// at the end, the standard library at both.
func crcPreamble(b []byte) uint32 { return ^crc32.Update(^uint32(0), castagnoli, b) }

// crcSegment is Ceph's crc32c from -1, continued over pieces: pass 0 first,
// then the result, and invert the last one with crcFinish.
func crcSegment(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

func crcFinish(crc uint32) uint32 { return ^crc }
