package rpc

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffers come in two sizes per power of two from 512 B (most calls) to 4 MiB,
// 2^k and 2^k + 2^(k-2): a record with 1 MiB of data and its headers takes
// 1.25 MiB and not 2. A larger buffer is allocated for its use alone.
const (
	minClassBits = 9
	maxClassBits = 22
)

var bufferPools [2*(maxClassBits-minClassBits) + 1]sync.Pool

// charger is what the size of a buffer was charged to.
type charger interface{ release(n int64) }

// Buffer is a pooled slice of bytes with a reference count. It holds a received
// record, or the payload of a reply.
type Buffer struct {
	data    []byte // as long as it was asked for; its capacity is that of the class
	class   int8   // index into bufferPools, -1 if not pooled
	refs    atomic.Int32
	release func()  // Release as a value, made once
	owner   charger // gets charge back with the last reference, or nil
	charge  int64
}

// GetBuffer returns a buffer of n bytes with one reference. Its contents are
// not defined.
func GetBuffer(n int) *Buffer {
	class := classOf(n)
	if class < 0 {
		return newBuffer(make([]byte, n), -1)
	}
	if b, ok := bufferPools[class].Get().(*Buffer); ok {
		b.data = b.data[:n]
		b.refs.Store(1)
		return b
	}
	return newBuffer(make([]byte, classSize(class))[:n], class)
}

func newBuffer(data []byte, class int) *Buffer {
	b := &Buffer{data: data, class: int8(class)}
	b.release = b.Release
	b.refs.Store(1)
	return b
}

// classOf returns the index of the smallest class that holds n bytes, -1 if
// there is none.
func classOf(n int) int {
	if n > 1<<maxClassBits {
		return -1
	}
	if n <= 1<<minClassBits {
		return 0
	}
	k := bits.Len(uint(n - 1)) // 2^(k-1) < n <= 2^k
	if n <= 5<<(k-3) {
		return 2*(k-1-minClassBits) + 1
	}
	return 2 * (k - minClassBits)
}

func classSize(class int) int {
	size := 1 << (class/2 + minClassBits)
	if class%2 == 1 {
		size += size / 4
	}
	return size
}

// Bytes returns the bytes of b. They may be used until the reference that the
// caller holds is given up.
func (b *Buffer) Bytes() []byte { return b.data }

// Resize sets the length of b to n, at most its capacity ([Buffer.Cap]).
func (b *Buffer) Resize(n int) { b.data = b.data[:n] }

// Cap is the length b can be resized to.
func (b *Buffer) Cap() int { return cap(b.data) }

// Retain adds a reference, which asks for one more Release.
func (b *Buffer) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("rpc: Retain of a released Buffer")
	}
}

// Release gives up a reference. With the last one b goes back to the pool and
// must not be touched any more.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("rpc: Release of a released Buffer")
	}
	if b.owner != nil {
		owner, n := b.owner, b.charge
		b.owner, b.charge = nil, 0
		owner.release(n)
	}
	if b.class >= 0 {
		bufferPools[b.class].Put(b)
	}
}

// Releaser returns Release as a function, without allocating one: what
// [xdr.Encoder.OpaqueRef] wants.
func (b *Buffer) Releaser() func() { return b.release }
