// Package exporttest holds the one behaviour suite that every [export.Volume]
// runs, natively or through a mounted client.
//
//	func TestBehaviour(t *testing.T) {
//		exporttest.Run(t, exporttest.Config{
//			New: func(t testing.TB) export.Volume { ... },
//		})
//	}
//
// The suite is a list of rows with names like "Create/GuardedExists", small
// and independent, in one file a family (rows_*.go). Each works in a directory
// of its own and asks for exact statuses. A row may need a feature, and then
// runs only where [export.Features] has it; its counterpart asserts ErrNotSupp
// where not. A row that a Volume is known to fail is listed with the reason in
// [Config.Known] and must fail: the list cannot go stale.
//
// Beside the rows, [RunModel] compares random sequences of calls with a simple
// model of a filesystem, and [RunPair] compares two Volumes with each other.
//
// # Goroutines
//
// Rows run one after the other. The Parallel family starts goroutines and
// waits for them before the row ends.
package exporttest
