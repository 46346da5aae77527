// Package store is the small key-value store that the handle table of a
// billyfs Volume lives in. It is made for many small writes that must outlive
// the process at once and the machine soon:
//
//   - [Store.Apply] appends one checksummed record to a log with one write(2)
//     and no sync. Once it returned, the record is in the page cache and a
//     kill -9 of the process cannot take it back. With sync set it is on the
//     disk too.
//   - A background goroutine moves what has gathered into a bbolt file in one
//     synced transaction every [Options.Interval], or sooner when much has
//     gathered, and then drops the log that carried it.
//
// So a power loss can cost the unsynced writes of the last interval, a killed
// process none. A record that was cut short by the one or the other is found
// by its checksum and ends the replay of its log.
//
// # Files
//
// Next to the bbolt file PATH lie logs PATH.wal.N, N a growing hexadecimal
// number. Both carry a format version; a store of a newer version is refused.
//
// # Goroutines and lock order
//
// runFlush is the only goroutine; Close waits for it. Store.mu guards the
// pending maps and the log; no other lock is taken under it, and no bbolt
// transaction runs under it.
package store
