package cephtest

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"syscall"

	"capstan/cephfs/denc"
)

// ObjectID names an object of a store.
type ObjectID struct {
	Pool                 int64
	Namespace, Key, Name string
}

// object is one of a store's.
type object struct {
	data      []byte
	xattrs    map[string][]byte
	omap      map[string][]byte
	header    []byte
	version   uint64
	truncSeq  uint32
	truncSize uint64
}

func (o *object) clone() *object {
	c := *o
	c.data = bytes.Clone(o.data)
	c.xattrs, c.omap = maps.Clone(o.xattrs), maps.Clone(o.omap)
	return &c
}

// Objects is what the OSDs of a scripted cluster store, all in one place. It
// does the operations that a real OSD does, as far as tests need them, and
// does none twice: a request that was done before gets its first answer.
type Objects struct {
	mu      sync.Mutex
	objects map[ObjectID]*object
	version uint64
	dups    map[dup]*outcome
	done    int // requests done, those repeated not counted
}

// dup is what a cluster knows a request by.
type dup struct {
	client int64
	tid    uint64
}

type outcome struct {
	result  int32
	codes   []int32
	outs    [][]byte
	version uint64
}

// NewObjects returns an empty store.
func NewObjects() *Objects {
	return &Objects{objects: map[ObjectID]*object{}, dups: map[dup]*outcome{}}
}

// Data returns a copy of an object's data, and whether there is such a one.
func (s *Objects) Data(id ObjectID) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[id]; o != nil {
		return bytes.Clone(o.data), true
	}
	return nil, false
}

// Done is how many requests were done.
func (s *Objects) Done() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// do does a request: all of its operations or none.
func (s *Objects) do(rq *OSDRequest) *outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	write := rq.Flags&0x20 != 0
	key := dup{rq.Stream.Client().Num, rq.Tid}
	if write {
		if out := s.dups[key]; out != nil {
			return out
		}
	}
	s.done++
	old := s.objects[rq.Object]
	x := &transaction{exists: old != nil, o: &object{}}
	if old != nil {
		x.o = old.clone()
	}
	out := &outcome{}
	for i := range rq.Ops {
		x.out = nil
		code := x.do(&rq.Ops[i])
		out.codes = append(out.codes, code)
		if code < 0 {
			x.out = nil
		}
		out.outs = append(out.outs, x.out)
		if code < 0 {
			out.result = code
			break
		}
	}
	for len(out.codes) < len(rq.Ops) {
		out.codes, out.outs = append(out.codes, 0), append(out.outs, nil)
	}
	if write && out.result == 0 {
		s.version++
		x.o.version = s.version
		if x.exists {
			s.objects[rq.Object] = x.o
		} else {
			delete(s.objects, rq.Object)
		}
		for i := range out.outs {
			out.outs[i] = nil // a request that writes returns no data
		}
	}
	out.version = x.o.version
	if write {
		s.dups[key] = out
	}
	return out
}

// transaction is a request while it is done.
type transaction struct {
	o      *object
	exists bool
	out    []byte
}

func errno(e syscall.Errno) int32 { return -int32(e) }

func (x *transaction) grow(n uint64) {
	if uint64(len(x.o.data)) < n {
		x.o.data = append(x.o.data, make([]byte, n-uint64(len(x.o.data)))...)
	}
	x.exists = true
}

func (x *transaction) write(off uint64, b []byte) {
	x.grow(off + uint64(len(b)))
	copy(x.o.data[off:], b)
}

// slice is what there is of n bytes at off; n 0 means all.
func (x *transaction) slice(off, n uint64) []byte {
	if off >= uint64(len(x.o.data)) {
		return nil
	}
	b := x.o.data[off:]
	if n != 0 && n < uint64(len(b)) {
		b = b[:n]
	}
	return b
}

// codes of operations (CEPH_OSD_OP_*).
const (
	OpRead        = 0x1201
	OpStat        = 0x1202
	OpSparseRead  = 0x1205
	OpAssertVer   = 0x1208
	OpCmpExt      = 0x1220
	OpOmapKeys    = 0x1211
	OpOmapVals    = 0x1212
	OpOmapHeader  = 0x1213
	OpOmapByKeys  = 0x1214
	OpWrite       = 0x2201
	OpWriteFull   = 0x2202
	OpTruncate    = 0x2203
	OpZero        = 0x2204
	OpDelete      = 0x2205
	OpAppend      = 0x2206
	OpCreate      = 0x220d
	OpAllocHint   = 0x2223
	OpOmapSet     = 0x2215
	OpOmapSetHead = 0x2216
	OpOmapClear   = 0x2217
	OpOmapRemove  = 0x2218
	OpGetXattr    = 0x1301
	OpGetXattrs   = 0x1302
	OpCmpXattr    = 0x1303
	OpSetXattr    = 0x2301
	OpRmXattr     = 0x2304
)

func (x *transaction) do(op *OSDOp) int32 {
	if op.Code&0x1000 != 0 && !x.exists {
		return errno(syscall.ENOENT)
	}
	o := x.o
	off, n := op.Offset(), op.Length()
	switch op.Code {
	case OpRead:
		x.out = bytes.Clone(x.slice(off, n))
	case OpSparseRead:
		x.sparse(off, x.slice(off, n))
	case OpStat:
		var e denc.Encoder
		e.Uint64(uint64(len(o.data)))
		e.Uint64(0)
		x.out = e.Data()
	case OpAssertVer:
		switch v := n; {
		case v < o.version:
			return errno(syscall.ERANGE)
		case v > o.version:
			return errno(syscall.EOVERFLOW)
		}
	case OpCmpExt:
		have := make([]byte, len(op.Data))
		copy(have, x.slice(off, n))
		for i := range have {
			if have[i] != op.Data[i] {
				return -4095 - int32(i)
			}
		}
	case OpWrite:
		b := op.Data
		if seq, size := op.Trunc(); seq > o.truncSeq && x.exists {
			x.truncate(size)
			o.truncSeq, o.truncSize = seq, size
		} else if seq < o.truncSeq && off+uint64(len(b)) > uint64(len(o.data)) {
			// An older writer is clipped. Of what begins behind the end nothing
			// is left, and a write of nothing grows the object to where it
			// begins, as a real OSD has it.
			b = b[:max(uint64(len(o.data)), off)-off]
		}
		x.write(off, b)
	case OpWriteFull:
		o.data = nil
		x.write(0, op.Data)
	case OpAppend:
		x.write(uint64(len(o.data)), op.Data)
	case OpZero:
		if x.exists {
			clear(x.slice(off, n))
		}
	case OpTruncate:
		if seq, size := op.Trunc(); seq != 0 {
			if size != off {
				return errno(syscall.EDOTDOT) // a real one asserts
			}
			if seq <= o.truncSeq {
				return 0
			}
			o.truncSeq, o.truncSize = seq, size
		}
		x.truncate(off)
	case OpDelete:
		if !x.exists {
			return errno(syscall.ENOENT)
		}
		x.exists, x.o = false, &object{}
	case OpCreate:
		if x.exists && op.Flags&1 != 0 {
			return errno(syscall.EEXIST)
		}
		x.exists = true
	case OpAllocHint:
		x.exists = true
	case OpGetXattr, OpCmpXattr, OpSetXattr, OpRmXattr:
		return x.xattr(op)
	case OpGetXattrs:
		x.out = encodeMap(o.xattrs, slices.Sorted(maps.Keys(o.xattrs)), nil)
	default:
		return x.doOmap(op)
	}
	return 0
}

func (x *transaction) truncate(size uint64) {
	if uint64(len(x.o.data)) > size {
		x.o.data = x.o.data[:size:size]
	}
	x.grow(size)
}

// sparse gives the runs of b that are not all zero, in units of 16 bytes.
func (x *transaction) sparse(off uint64, b []byte) {
	var ext, data denc.Encoder
	n := 0
	for i := 0; i < len(b); i += 16 {
		unit := b[i:min(i+16, len(b))]
		if bytes.Count(unit, []byte{0}) == len(unit) {
			continue
		}
		n++
		ext.Uint64(off + uint64(i))
		ext.Uint64(uint64(len(unit)))
		data.Raw(unit)
	}
	var e denc.Encoder
	e.Count(n)
	e.Raw(ext.Data())
	e.Bytes(data.Data())
	x.out = e.Data()
}

func (x *transaction) xattr(op *OSDOp) int32 {
	n := int(binary.LittleEndian.Uint32(op.Body[0:]))
	if n > len(op.Data) {
		return errno(syscall.EINVAL)
	}
	name, value := string(op.Data[:n]), op.Data[n:]
	have, ok := x.o.xattrs[name]
	switch op.Code {
	case OpSetXattr:
		if x.o.xattrs == nil {
			x.o.xattrs = map[string][]byte{}
		}
		x.o.xattrs[name], x.exists = bytes.Clone(value), true
		return 0
	case OpCmpXattr:
		if !bytes.Equal(have, value) {
			return errno(syscall.ECANCELED)
		}
		return 0
	}
	if !ok {
		return errno(syscall.ENODATA)
	}
	if op.Code == OpRmXattr {
		delete(x.o.xattrs, name)
	} else {
		x.out = bytes.Clone(have)
	}
	return 0
}

func encodeMap(m map[string][]byte, keys []string, more *bool) []byte {
	var e denc.Encoder
	e.Count(len(keys))
	for _, k := range keys {
		e.String(k)
		e.Bytes(m[k])
	}
	if more != nil {
		e.Bool(*more)
	}
	return e.Data()
}

func (x *transaction) doOmap(op *OSDOp) int32 {
	o := x.o
	d := denc.NewDecoder(op.Data)
	strings := func() []string {
		keys := make([]string, d.Count("keys", 4))
		for i := range keys {
			keys[i] = d.String("key")
		}
		return keys
	}
	switch op.Code {
	case OpOmapKeys, OpOmapVals:
		after, limit := d.String("after"), d.Uint64("max")
		prefix := ""
		if op.Code == OpOmapVals {
			prefix = d.String("prefix")
		}
		var keys []string
		more := false
		for _, k := range slices.Sorted(maps.Keys(o.omap)) {
			if k <= after || len(k) < len(prefix) || k[:len(prefix)] != prefix {
				continue
			}
			if uint64(len(keys)) == limit {
				more = true
				break
			}
			keys = append(keys, k)
		}
		if op.Code == OpOmapVals {
			x.out = encodeMap(o.omap, keys, &more)
			break
		}
		var e denc.Encoder
		e.Count(len(keys))
		for _, k := range keys {
			e.String(k)
		}
		e.Bool(more)
		x.out = e.Data()
	case OpOmapByKeys:
		var keys []string
		for _, k := range strings() {
			if _, ok := o.omap[k]; ok {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		x.out = encodeMap(o.omap, keys, nil)
	case OpOmapHeader:
		x.out = bytes.Clone(o.header)
	case OpOmapSet:
		if o.omap == nil {
			o.omap = map[string][]byte{}
		}
		for range d.Count("vals", 8) {
			k := d.String("key")
			o.omap[k] = bytes.Clone(d.Bytes("value"))
		}
		x.exists = true
	case OpOmapSetHead:
		o.header, x.exists = bytes.Clone(op.Data), true
	case OpOmapRemove:
		for _, k := range strings() {
			delete(o.omap, k)
		}
	case OpOmapClear:
		o.omap, o.header = nil, nil
	default:
		return errno(syscall.EOPNOTSUPP)
	}
	if d.Err() != nil {
		return errno(syscall.EINVAL)
	}
	return 0
}
