// Package nfstest is an NFS client that can be wrong on purpose, and a whole
// server to let it loose on. Tests, trials and benchmarks use it; no product
// code does.
//
// A [Compound] is built operation by operation, with arguments of the right
// form by the methods named after the operations, or of any form by
// [Compound.Op], [Compound.Raw], [Compound.Cut] and [Compound.SetCount]. A
// [Conn] sends it with any credential; a [Session] keeps the bookkeeping of
// slots and lets it be bypassed (wrong slot, wrong number, the same bytes
// again, over another connection). A [Reply] holds the results decoded
// operation by operation, each into the struct named after it. [V3] makes the
// calls of NFSv3 and its MOUNT protocol.
//
// [Server] runs the programs of this repository on memory volumes, over
// loopback or over connections in memory. [Faults] makes a volume fail, wait
// or lose data on demand. [Capture] records the bytes of a connection and
// plays them again.
//
// # Goroutines and locks
//
// Conn and V3 may be used by any number of goroutines. A Compound belongs to
// one; so does a slot of a Session from Begin to the end of Send, while
// different slots go their own ways. Session.mu guards the slots, Faults.mu
// what is to fail, Recorder.mu the bytes recorded; none is held during a call.
package nfstest
