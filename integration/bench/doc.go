// Command bench measures capstan alone, on its in-memory export over loopback,
// against a plain TCP copy, and prints the tables of docs/performance.md.
//
// Both sides run in one run and one after the other, in windows of about a
// second that alternate, since the machine may be busy with other things: what
// counts is the median of the ratios of neighbouring windows, and CPU time and
// allocations per operation, not the absolute rates.
//
// The sides are processes of their own: `capstan serve` (or, to take CPU
// profiles of it, this program in its place) and a server that knows no more
// than to copy. Only their CPU time is counted, not that of the client, which is
// in this process: a closed loop for each connection with a fixed number of
// calls under way, on requests that were encoded before (see lane.go).
package main
