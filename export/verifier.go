package export

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"sync/atomic"
	"time"
)

// VerifierSource makes write verifiers for a [Volume]: every source begins
// with a value of its own, and every [VerifierSource.Roll] goes on to another.
//
// The first value hangs on 128 random bits, the time and the process id, so
// that two starts differ within the same tick, with the clock set back, and
// should the random bits ever repeat in a cloned machine. The later ones are
// an arithmetic sequence with an odd step, which does not repeat in 2^64
// steps.
type VerifierSource struct {
	base uint64
	n    atomic.Uint64
}

// verifierStep is odd, and far from the small differences between clocks.
const verifierStep = 0x9e3779b97f4a7c15

// NewVerifierSource returns a source of its own.
func NewVerifierSource() *VerifierSource {
	var random [16]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	return newVerifierSource(random, time.Now(), os.Getpid())
}

func newVerifierSource(random [16]byte, now time.Time, pid int) *VerifierSource {
	seed := random[:]
	seed = binary.BigEndian.AppendUint64(seed, uint64(now.UnixNano()))
	seed = binary.BigEndian.AppendUint64(seed, uint64(pid))
	sum := sha256.Sum256(seed)
	return &VerifierSource{base: binary.BigEndian.Uint64(sum[:])}
}

// Verifier returns the present value.
func (s *VerifierSource) Verifier() [8]byte {
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], s.base+s.n.Load()*verifierStep)
	return v
}

// Roll changes the value, because unstable data may have been lost.
func (s *VerifierSource) Roll() { s.n.Add(1) }
