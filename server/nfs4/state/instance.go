package state

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"

	"capstan/server/nfs4/nfsv4"
)

// Instance identifies one run of the server. It differs from that of every
// other run, also of one that began in the same second or with the clock set
// back, because most of it is random; nothing of it is stored.
type Instance struct {
	// ID is the part that client ids and stateids carry, never 0.
	ID uint32
	// Verifier is for whoever needs eight bytes that change at every start.
	Verifier nfsv4.Verifier
}

// NewInstance makes an Instance from 12 bytes of r, time and process id.
func NewInstance(r io.Reader) (Instance, error) {
	var b [12]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Instance{}, fmt.Errorf("state: instance identity: %w", err)
	}
	// Time and pid help only if r is weak, and must not cancel out what is
	// random in it: adding a constant to a random number keeps it random.
	now := uint64(time.Now().UnixNano()) ^ uint64(os.Getpid())<<32
	i := Instance{ID: binary.BigEndian.Uint32(b[8:]) + uint32(now>>10)}
	binary.BigEndian.PutUint64(i.Verifier[:], binary.BigEndian.Uint64(b[:8])+now)
	if i.ID == 0 {
		i.ID = 1
	}
	return i, nil
}
