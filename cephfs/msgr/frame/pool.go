package frame

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer classes: powers of two from 1 KiB to 8 MiB, each with room for a
// front and an epilogue beside a payload of just that power of two. A fresh
// page costs more than a copy of it, so that large buffers are worth keeping.
const (
	minClass  = 10
	maxClass  = 23
	classRoom = 512
)

var pools [maxClass - minClass + 1]sync.Pool

// Buffer is storage that goes back to a pool.
type Buffer struct {
	B []byte // of the length asked for

	class   int
	free    atomic.Bool
	release func()
}

// GetBuffer returns a buffer of n bytes, which hold anything. One that is
// never released is left to the garbage collector.
func GetBuffer(n int) *Buffer {
	class := max(minClass, bits.Len(uint(max(n-classRoom, 1)-1)))
	if class > maxClass {
		return newBuffer(make([]byte, n), -1)
	}
	if v := pools[class-minClass].Get(); v != nil {
		b := v.(*Buffer)
		b.B = b.B[:n]
		b.free.Store(false)
		return b
	}
	return newBuffer(make([]byte, n, 1<<class+classRoom), class)
}

func newBuffer(p []byte, class int) *Buffer {
	b := &Buffer{B: p, class: class}
	b.release = b.Release
	return b
}

// Release gives the storage back. Nobody may use it afterwards.
func (b *Buffer) Release() {
	if b.free.Swap(true) || b.class < 0 {
		return
	}
	pools[b.class-minClass].Put(b)
}

// ReleaseFunc is Release as a value, which costs nothing to take.
func (b *Buffer) ReleaseFunc() func() { return b.release }
