package frame

import (
	"errors"
	"fmt"
)

// The faults a reader finds. An [Error] wraps one of them.
var (
	ErrChecksum   = errors.New("bad checksum")
	ErrCrypto     = errors.New("bad authentication tag")
	ErrLength     = errors.New("length not allowed")
	ErrFormat     = errors.New("not a frame of messenger 2.1")
	ErrCompressed = errors.New("compressed, which was not agreed on")
	ErrLegacy     = errors.New("messenger v1 banner")
	ErrNonces     = errors.New("all nonces of the session key are used")
)

// Error says what was wrong with which frame.
type Error struct {
	Tag  Tag    // of the frame, 0 if not known
	What string // the part of the frame
	Kind error  // one of the above, or what denc says
}

// Error says what of a frame is wrong, and how.
func (e *Error) Error() string {
	if e.Tag == 0 {
		return fmt.Sprintf("%s: %v", e.What, e.Kind)
	}
	return fmt.Sprintf("%v: %s: %v", e.Tag, e.What, e.Kind)
}

// Unwrap returns the kind, for errors.Is.
func (e *Error) Unwrap() error { return e.Kind }
