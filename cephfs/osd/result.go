package osd

import (
	"time"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// Result is what one operation of a list gave.
type Result struct {
	// Code is what the operation returned: 0, a negative errno, or a number of
	// its own. A list that failed was not done at all, whatever this says.
	Code int32
	// N is the number of bytes that the operation returned.
	N int
	// Data is what it returned, in the storage of the reply; nil for
	// [Op.ReadInto].
	Data []byte
}

// Reply is the answer to an [Op].
type Reply struct {
	// Results has one entry for each operation of the list, but none for those
	// behind the one that failed, or if the OSD did not come to do them.
	Results []Result
	// Version is that of the object after the list was done.
	Version uint64
	// Epoch is that of the OSD's map.
	Epoch uint32

	msg    *msgr.Message
	placed bool      // what buffers of the caller are for is there already
	room   [2]Result // for Results
}

// Release gives the storage of the reply back. Nothing of it, Data included,
// may be used afterwards. Not calling it costs an allocation, no more.
func (r *Reply) Release() {
	if r == nil || r.msg == nil {
		return
	}
	r.Results = nil
	r.drop()
}

// drop is Release while no result has Data.
func (r *Reply) drop() {
	m := r.msg
	r.msg = nil
	release(m)
}

func (r *Reply) data(i int) []byte {
	if r == nil || i < 0 || i >= len(r.Results) {
		return nil
	}
	return r.Results[i].Data
}

// Data is the Data of result i; nil if there is no such result.
func (r *Reply) Data(i int) []byte { return r.data(i) }

// What follows behind a result is passed over: a read of an erasure-coded pool
// has an OSD do the list again from its start when the shards have come, and
// those of release 16 then give the results before it twice.

// Stat decodes the result of [Op.Stat].
func (r *Reply) Stat(i int) (size uint64, mtime time.Time, err error) {
	d := denc.NewDecoder(r.data(i))
	size, mtime = d.Uint64("size"), d.Time("mtime")
	return size, mtime, d.Err()
}

// Extent is a part of an object that is no hole.
type Extent struct {
	Offset uint64
	Data   []byte // in the storage of the reply
}

// Extents decodes the result of [Op.SparseRead].
func (r *Reply) Extents(i int) ([]Extent, error) {
	if len(r.data(i)) == 0 {
		return nil, nil
	}
	d := denc.NewDecoder(r.data(i))
	ext := make([]Extent, d.Count("extents", 16))
	lens := make([]uint64, len(ext))
	for i := range ext {
		ext[i].Offset, lens[i] = d.Uint64("offset"), d.Uint64("length")
	}
	data := d.Bytes("data")
	if err := d.Err(); err != nil {
		return nil, err
	}
	for i, n := range lens {
		if n > uint64(len(data)) || ext[i].Offset+n < n {
			d.Fail("length", denc.ErrTooLong)
			return nil, d.Err()
		}
		ext[i].Data, data = data[:n:n], data[n:]
	}
	if len(data) != 0 {
		d.Fail("data", denc.ErrTrailing)
	}
	return ext, d.Err()
}

// Pair is a name and its value, which aliases the reply.
type Pair struct {
	Name  string
	Value []byte
}

func pairs(d *denc.Decoder) []Pair {
	p := make([]Pair, d.Count("pairs", 8))
	for i := range p {
		p[i] = Pair{Name: d.String("name"), Value: d.Bytes("value")}
	}
	return p
}

// Xattrs decodes the result of [Op.GetXattrs], ordered by name.
func (r *Reply) Xattrs(i int) ([]Pair, error) {
	d := denc.NewDecoder(r.data(i))
	p := pairs(d)
	return p, d.Err()
}

// Omap decodes the result of [Op.OmapVals] or [Op.OmapGet], ordered by key.
// more says that the list was cut at its limit, or at the OSD's.
func (r *Reply) Omap(i int) (vals []Pair, more bool, err error) {
	d := denc.NewDecoder(r.data(i))
	vals = pairs(d)
	if d.Remaining() > 0 {
		more = d.Bool("more")
	}
	return vals, more, d.Err()
}

// OmapKeys decodes the result of [Op.OmapKeys].
func (r *Reply) OmapKeys(i int) (keys []string, more bool, err error) {
	d := denc.NewDecoder(r.data(i))
	keys = make([]string, d.Count("keys", 4))
	for i := range keys {
		keys[i] = d.String("key")
	}
	if d.Remaining() > 0 {
		more = d.Bool("more")
	}
	return keys, more, d.Err()
}
