package memory

import (
	"sync"
)

// Data are kept in chunks of this many bytes; only the first chunk of a file
// may be shorter.
const (
	chunkShift = 16
	chunkSize  = 1 << chunkShift
)

// keptBytes bounds the free chunks kept for reuse.
const keptBytes = 256 << 20

// chunkPool keeps free chunks, since touching fresh memory costs more than
// filling it.
type chunkPool struct {
	mu   sync.Mutex
	free [][]byte // guarded by mu; not cleared
}

// get returns a chunk, and whether it is known to hold zeros.
func (p *chunkPool) get() (b []byte, zero bool) {
	p.mu.Lock()
	if last := len(p.free) - 1; last >= 0 {
		b = p.free[last]
		p.free[last] = nil
		p.free = p.free[:last]
	}
	p.mu.Unlock()
	if b == nil {
		return make([]byte, chunkSize), true
	}
	return b, false
}

// put takes back a chunk; shorter pieces are left to the garbage collector.
func (p *chunkPool) put(b []byte) {
	if len(b) != chunkSize {
		return
	}
	p.mu.Lock()
	if len(p.free) < keptBytes/chunkSize {
		p.free = append(p.free, b)
	}
	p.mu.Unlock()
}

// firstSize returns how long the first chunk of a file is made that needs n
// bytes of it: small files take little.
func firstSize(n int) int {
	for _, size := range [...]int{512, 4 << 10, 16 << 10} {
		if n <= size {
			return size
		}
	}
	return chunkSize
}
