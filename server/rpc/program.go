package rpc

import (
	"context"
	"fmt"

	"capstan/server/xdr"
)

// Program is an RPC program in a range of versions. Its methods are called by
// many goroutines at once.
type Program interface {
	// Number is the program number.
	Number() uint32
	// Versions is the range of versions served, both included. Several Programs
	// may serve ranges of one number that do not overlap.
	Versions() (low, high uint32)
	// Serve runs one call: it decodes call.Args and appends the results to
	// reply. With anything but Success what it appended is dropped. It must keep
	// neither call nor reply, nor what call.Args aliases (see [Call.Record]). ctx
	// ends when the connection is gone or the server stops without waiting.
	//
	// reply holds the header of the reply already: take lengths relative to
	// reply.Len() at the start, and marks by reply.Mark().
	Serve(ctx context.Context, call *Call, reply *xdr.Encoder) AcceptStat
}

// registry is the table of programs. It is never changed, only replaced.
type registry map[uint32][]Program

// with returns a copy of r that has p too. It panics if p's range is empty or
// overlaps another: that is a mistake in the program.
func (r registry) with(p Program) registry {
	n := p.Number()
	low, high := p.Versions()
	if low > high {
		panic(fmt.Sprintf("rpc: program %d: no version between %d and %d", n, low, high))
	}
	out := make(registry, len(r)+1)
	for k, v := range r {
		out[k] = v
	}
	for _, q := range r[n] {
		if l, h := q.Versions(); low <= h && l <= high {
			panic(fmt.Sprintf("rpc: program %d: versions %d-%d and %d-%d overlap", n, low, high, l, h))
		}
	}
	out[n] = append(append([]Program(nil), r[n]...), p)
	return out
}

// find returns the program that serves the version, or why none does and,
// for ProgMismatch, the lowest and highest version that the number is served in.
func (r registry) find(number, version uint32) (p Program, stat AcceptStat, low, high uint32) {
	list := r[number]
	if len(list) == 0 {
		return nil, ProgUnavail, 0, 0
	}
	for _, p := range list {
		if l, h := p.Versions(); l <= version && version <= h {
			return p, Success, 0, 0
		}
	}
	low, high = r.bounds(number)
	return nil, ProgMismatch, low, high
}

// bounds returns the lowest and the highest version of a number that is served.
func (r registry) bounds(number uint32) (low, high uint32) {
	low = ^uint32(0)
	for _, p := range r[number] {
		l, h := p.Versions()
		low, high = min(low, l), max(high, h)
	}
	return low, high
}
