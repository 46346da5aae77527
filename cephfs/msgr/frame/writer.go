package frame

import (
	"encoding/binary"
	"net"
)

const (
	chunkSize  = 8 << 10
	largePiece = 2 << 10 // what is longer has storage of its own
	maxChunks  = 16      // that are kept from one batch to the next
	// copyBelow is the length of a front or middle that is cheaper to copy
	// next to its header than to send as a piece of its own.
	copyBelow = 512
)

// Writer gathers frames, to be written with one call. What frames are made of
// stays where it is, and must not change, until the writer was flushed; only
// in secure mode the ciphertext is a copy.
type Writer struct {
	sec       *sealer
	record    []byte
	recording bool

	bufs   net.Buffers
	store  net.Buffers // the storage of bufs, which writing eats up
	chunk  []byte      // small pieces; chunk[:mark] is in bufs
	mark   int
	chunks [][]byte // all chunks of the batch, kept for the next
	next   int      // of chunks, the first not in use
	pooled []*Buffer
	size   int
	head   [HeaderSize]byte // of the message being added
}

// NewWriter returns a writer in crc mode that records what it writes.
func NewWriter() *Writer { return &Writer{recording: true} }

// Recorded returns the bytes of all frames added since the beginning.
func (w *Writer) Recorded() []byte { return w.record }

// StopRecording drops the record.
func (w *Writer) StopRecording() { w.record, w.recording = nil, false }

// Len is the number of bytes added since the last flush.
func (w *Writer) Len() int { return w.size }

// Raw adds bytes that are no frame: a banner.
func (w *Writer) Raw(b []byte) {
	copy(w.reserve(len(b)), b)
	w.recorded(b)
}

// Control adds a control frame. The payload is copied.
func (w *Writer) Control(tag Tag, payload []byte) error {
	p := Preamble{Tag: tag, Segments: 1}
	p.Len[0] = uint32(len(payload))
	if w.sec != nil {
		return w.startSecure(&p, payload)
	}
	w.startCRC(&p, payload)
	return nil
}

// Message adds a message. front, middle and data are not copied in crc mode,
// except for a short front or middle.
func (w *Writer) Message(h *Header, front, middle []byte, data [][]byte) error {
	head := w.head[:]
	h.Put(head)
	p := Preamble{Tag: TagMessage, Segments: 1}
	p.Len[0] = HeaderSize
	p.Len[1], p.Len[2] = uint32(len(front)), uint32(len(middle))
	for _, b := range data {
		p.Len[3] += uint32(len(b))
	}
	for i := 1; i < maxSegments; i++ {
		if p.Len[i] > 0 {
			p.Segments = i + 1
		}
	}
	if w.sec != nil {
		if err := w.startSecure(&p, head); err != nil || p.Segments == 1 {
			return err
		}
		return w.bodySecure(&p, front, middle, data)
	}
	w.startCRC(&p, head)
	if p.Segments > 1 {
		w.bodyCRC(&p, front, middle, data)
	}
	return nil
}

func (w *Writer) startCRC(p *Preamble, first []byte) {
	n := preambleSize + len(first)
	if len(first) > 0 {
		n += crcSize
	}
	b := w.reserve(n)
	p.put(b)
	if len(first) > 0 {
		copy(b[preambleSize:], first)
		binary.LittleEndian.PutUint32(b[n-crcSize:], crcFinish(crcSegment(0, first)))
	}
	w.recorded(b)
}

func (w *Writer) bodyCRC(p *Preamble, front, middle []byte, data [][]byte) {
	w.piece(front)
	w.piece(middle)
	var crc uint32
	for _, b := range data {
		crc = crcSegment(crc, b)
		w.add(b)
	}
	e := w.reserve(epilogueCRC)
	clear(e)
	e[0] = lateComplete
	binary.LittleEndian.PutUint32(e[1:], crcFinish(crcSegment(0, front)))
	if p.Segments > 2 {
		binary.LittleEndian.PutUint32(e[5:], crcFinish(crcSegment(0, middle)))
	}
	if p.Segments > 3 {
		binary.LittleEndian.PutUint32(e[9:], crcFinish(crc))
	}
}

func (w *Writer) startSecure(p *Preamble, first []byte) error {
	const block = preambleSize + inlineSize
	n := block + tagSize
	rest := 0
	if len(first) > inlineSize {
		rest = pad(uint32(len(first))) - inlineSize
		n += rest + tagSize
	}
	b := w.reserve(n)
	clear(b)
	p.put(b)
	k := copy(b[preambleSize:block], first)
	if err := w.sec.seal(b[:block]); err != nil {
		return err
	}
	if rest > 0 {
		tail := b[block+tagSize:]
		copy(tail, first[k:])
		if err := w.sec.seal(tail[:rest]); err != nil {
			return err
		}
	}
	w.recorded(b)
	return nil
}

func (w *Writer) bodySecure(p *Preamble, front, middle []byte, data [][]byte) error {
	b := w.reserve(p.bodySecure())
	at := put(b, front)
	at += put(b[at:], middle)
	start := at
	for _, d := range data {
		at += copy(b[at:], d)
	}
	end := start + pad(p.Len[3])
	clear(b[at : end+epilogueBlock])
	b[end] = lateComplete
	return w.sec.seal(b[:end+epilogueBlock])
}

// put copies a segment and its padding, and returns their length.
func put(b, seg []byte) int {
	n := pad(uint32(len(seg)))
	clear(b[copy(b, seg):n])
	return n
}

func (w *Writer) recorded(b []byte) {
	if w.recording {
		w.record = append(w.record, b...)
	}
}

// piece adds a part of a payload, copied if it is short.
func (w *Writer) piece(b []byte) {
	if len(b) > 0 && len(b) < copyBelow {
		copy(w.reserve(len(b)), b)
		return
	}
	w.add(b)
}

// add adds a piece that stays where it is.
func (w *Writer) add(b []byte) {
	if len(b) == 0 {
		return
	}
	w.cut()
	w.bufs = append(w.bufs, b)
	w.size += len(b)
}

// reserve adds n bytes of the writer's own storage, which hold anything.
func (w *Writer) reserve(n int) []byte {
	w.size += n
	if n > largePiece {
		w.cut()
		pb := GetBuffer(n)
		w.pooled = append(w.pooled, pb)
		w.bufs = append(w.bufs, pb.B)
		return pb.B
	}
	if cap(w.chunk)-len(w.chunk) < n {
		w.cut()
		if w.next == len(w.chunks) {
			w.chunks = append(w.chunks, make([]byte, 0, chunkSize))
		}
		w.chunk, w.mark = w.chunks[w.next], 0
		w.next++
	}
	at := len(w.chunk)
	w.chunk = w.chunk[:at+n]
	return w.chunk[at : at+n : at+n]
}

// cut ends the piece of the chunk that is not in bufs yet.
func (w *Writer) cut() {
	if w.mark < len(w.chunk) {
		w.bufs = append(w.bufs, w.chunk[w.mark:len(w.chunk):len(w.chunk)])
		w.mark = len(w.chunk)
	}
}

// Buffers returns what was added since the last flush, to be written. The
// caller may consume it.
func (w *Writer) Buffers() *net.Buffers {
	w.cut()
	w.store = w.bufs
	return &w.bufs
}

// Flushed says that the buffers were written, or never will be: the writer
// gives up all that frames were made of.
func (w *Writer) Flushed() {
	clear(w.store)
	w.bufs = w.store[:0]
	if len(w.chunks) > maxChunks {
		clear(w.chunks[maxChunks:])
		w.chunks = w.chunks[:maxChunks]
	}
	w.chunk, w.mark, w.next, w.size = nil, 0, 0, 0
	for i, b := range w.pooled {
		b.Release()
		w.pooled[i] = nil
	}
	w.pooled = w.pooled[:0]
}
