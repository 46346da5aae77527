package memory

import (
	"math"
	"sync"

	"capstan/export"
	"capstan/export/rangelock"

	"github.com/google/btree"
)

// content is the data and the locks of a regular file. Chunks that were never
// written do not exist and read as zeros. Bytes of a chunk behind the end of
// the file are zero, so that a file that grows shows zeros there.
type content struct {
	io sync.RWMutex
	// Guarded by io.
	size  uint64
	first []byte               // chunk 0, as long as firstSize says
	rest  *btree.BTreeG[chunk] // the others by index; nil if none
	gone  bool                 // the file is dead and its chunks are freed

	lockMu sync.Mutex
	locks  rangelock.Table // guarded by lockMu
}

// chunk is chunkSize bytes of a file from offset index*chunkSize on. Its room
// is taken; data is nil if it is only reserved.
type chunk struct {
	index uint64
	data  []byte
}

func chunkLess(a, b chunk) bool { return a.index < b.index }

// used returns the bytes of storage taken.
func (d *content) used() uint64 {
	n := uint64(len(d.first))
	if d.rest != nil {
		n += uint64(d.rest.Len()) << chunkShift
	}
	return n
}

// data returns the bytes of chunk i; what lies behind them is zero.
func (d *content) data(i uint64) []byte {
	if i == 0 {
		return d.first
	}
	if d.rest == nil {
		return nil
	}
	c, _ := d.rest.Get(chunk{index: i})
	return c.data
}

// read fills p from off on; the range lies within the file.
func (d *content) read(p []byte, off uint64) {
	for len(p) > 0 {
		within := int(off % chunkSize)
		part := p[:min(len(p), chunkSize-within)]
		n := 0
		if data := d.data(off >> chunkShift); within < len(data) {
			n = copy(part, data[within:])
		}
		clear(part[n:])
		off += uint64(len(part))
		p = p[len(part):]
	}
}

// write stores p at off as far as there is room and returns how much it was.
// It leaves the size alone.
func (d *content) write(v *Volume, p []byte, off uint64) (n int) {
	for len(p) > 0 {
		within := int(off % chunkSize)
		part := p[:min(len(p), chunkSize-within)]
		data := d.writable(v, off>>chunkShift, within, within+len(part))
		if data == nil {
			return n
		}
		copy(data[within:], part)
		off += uint64(len(part))
		p = p[len(part):]
		n += len(part)
	}
	return n
}

// writable returns the bytes of chunk i for the caller to fill [from, to), all
// others being what they were; nil if there is no room.
func (d *content) writable(v *Volume, i uint64, from, to int) []byte {
	if i == 0 {
		return d.writableFirst(v, from, to)
	}
	if d.rest == nil {
		d.rest = btree.NewG(16, chunkLess)
	}
	c, ok := d.rest.Get(chunk{index: i})
	if c.data != nil {
		return c.data
	}
	if !ok && !v.space.take(chunkSize) {
		return nil
	}
	data := newChunk(v, from, to)
	d.rest.ReplaceOrInsert(chunk{index: i, data: data})
	return data
}

func (d *content) writableFirst(v *Volume, from, to int) []byte {
	if to <= len(d.first) {
		return d.first
	}
	size := firstSize(to)
	if !v.space.take(int64(size - len(d.first))) {
		return nil
	}
	var data []byte
	if size == chunkSize {
		data = newChunk(v, max(from, len(d.first)), to)
	} else {
		data = make([]byte, size)
	}
	copy(data, d.first)
	d.first = data
	return data
}

// newChunk returns a chunk of zeros but for [from, to), which the caller fills.
func newChunk(v *Volume, from, to int) []byte {
	data, zero := v.pool.get()
	if !zero {
		clear(data[:from])
		clear(data[to:])
	}
	return data
}

// resize cuts the file to size, or lets it grow by a hole.
func (d *content) resize(v *Volume, size uint64) {
	if size < d.size {
		d.punch(v, size, math.MaxUint64)
	}
	d.size = size
}

// punch makes [off, end) a hole: chunks that lie in it whole are freed, others
// are cleared in part.
func (d *content) punch(v *Volume, off, end uint64) {
	if off >= end {
		return
	}
	last := (end - 1) >> chunkShift
	for _, i := range d.indexesIn(off>>chunkShift, last) {
		lo, hi := uint64(0), uint64(chunkSize)
		if i == off>>chunkShift {
			lo = off % chunkSize
		}
		if i == last {
			hi = (end-1)%chunkSize + 1
		}
		data := d.data(i)
		length := uint64(len(data))
		if i != 0 {
			length = chunkSize
		}
		switch {
		case lo == 0 && hi >= min(length, d.size-i*chunkSize):
			d.freeChunk(v, i)
		case data != nil && lo < length:
			clear(data[lo:min(hi, length)])
		}
	}
}

// indexesIn returns the indexes of the chunks from first to last that exist.
func (d *content) indexesIn(first, last uint64) []uint64 {
	var found []uint64
	if first == 0 && d.first != nil {
		found = append(found, 0)
	}
	if d.rest != nil {
		d.rest.AscendGreaterOrEqual(chunk{index: first}, func(c chunk) bool {
			if c.index > last {
				return false
			}
			found = append(found, c.index)
			return true
		})
	}
	return found
}

func (d *content) freeChunk(v *Volume, i uint64) {
	if i == 0 {
		v.space.give(int64(len(d.first)))
		v.pool.put(d.first)
		d.first = nil
		return
	}
	if c, ok := d.rest.Delete(chunk{index: i}); ok {
		v.space.give(chunkSize)
		v.pool.put(c.data)
	}
}

// free frees everything when the file is dead.
func (d *content) free(v *Volume) {
	d.io.Lock()
	defer d.io.Unlock()
	d.gone = true
	for _, i := range d.indexesIn(0, math.MaxUint64) {
		d.freeChunk(v, i)
	}
}

// reserve takes room for all chunks of [off, end), or for none.
func (d *content) reserve(v *Volume, off, end uint64) export.Status {
	first, last := off>>chunkShift, (end-1)>>chunkShift
	missing := int64(min(last-first+1, math.MaxInt64>>chunkShift))
	if first == 0 {
		missing--
	}
	have := d.indexesIn(max(first, 1), last)
	missing = (missing - int64(len(have))) << chunkShift
	head := 0
	if first == 0 {
		head = max(0, firstSize(int(min(end, chunkSize)))-len(d.first))
	}
	if !v.space.take(missing + int64(head)) {
		return export.ErrNoSpc
	}
	if head > 0 {
		v.space.give(int64(head)) // writableFirst takes it again
		if to := int(min(end, chunkSize)); d.writableFirst(v, to, to) == nil {
			v.space.give(missing)
			return export.ErrNoSpc
		}
	}
	if d.rest == nil && last > 0 {
		d.rest = btree.NewG(16, chunkLess)
	}
	for i := max(first, 1); i <= last; i++ {
		if len(have) > 0 && have[0] == i {
			have = have[1:]
			continue
		}
		d.rest.ReplaceOrInsert(chunk{index: i})
	}
	return export.OK
}

// seekData returns the first offset from off on that lies in written data, and
// false if there is none before the end.
func (d *content) seekData(off uint64) (pos uint64, ok bool) {
	if off < uint64(len(d.first)) {
		return off, true
	}
	if d.rest != nil {
		d.rest.AscendGreaterOrEqual(chunk{index: off >> chunkShift}, func(c chunk) bool {
			if c.data == nil {
				return true
			}
			pos, ok = max(off, c.index<<chunkShift), true
			return false
		})
	}
	return pos, ok && pos < d.size
}

// seekHole returns the first offset from off on that does not lie in written
// data; the end of the file counts.
func (d *content) seekHole(off uint64) uint64 {
	pos := off
	if pos < chunkSize {
		if pos >= uint64(len(d.first)) {
			return pos
		}
		pos = uint64(len(d.first))
	}
	if pos >= chunkSize && d.rest != nil {
		d.rest.AscendGreaterOrEqual(chunk{index: pos >> chunkShift}, func(c chunk) bool {
			if c.data == nil || c.index != pos>>chunkShift {
				return false
			}
			pos = (c.index + 1) << chunkShift
			return true
		})
	}
	return min(pos, d.size)
}
