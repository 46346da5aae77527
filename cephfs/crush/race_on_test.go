//go:build race

package crush

// every is the share of the recorded mappings that tests do: one of so many. The
// mapper has no concurrency for the race detector to look at, only loops that it
// slows down tenfold.
const every = 8
