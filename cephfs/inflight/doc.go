// Package inflight keeps the requests that were sent, or will be, and are not
// answered yet: a table keyed by transaction id (tid) that its users need no
// lock of their own for.
//
// [Table.Add] gives a request the next tid. [Table.Take] gives it to exactly
// one of those who ask for it: the reply, the cancellation and the teardown
// race, one of them wins. [Table.Oldest] is an atomic that a message can carry
// without a lock. [Table.All] walks in the order of the tids, which is the
// order in which requests are sent again. [Table.Wait] waits until all up to
// some tid are done.
//
// # How it is made
//
// Tids are dense, so the table is an array cut into pages, and a page is
// dropped when every tid in it is done. A slot holds nothing yet, the request,
// or a mark that it is done; who swaps the request for the mark has taken it.
// Only the list of pages is copied under a lock, once in [pageSize] tids.
//
// # Lock order
//
// pagesMu and waitMu are leaves, each held for a few instructions and never
// together. No function of the user is called under either, but the one that
// notes the tid, which runs under none.
//
// The package starts no goroutine.
package inflight
