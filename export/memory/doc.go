// Package memory is a complete filesystem in memory behind the Volume
// contract: the scratch export of a server without configuration, and the test
// bed and benchmark target of the server alone.
//
// It has everything the contract knows: hard links, symbolic links, special
// files, user extended attributes, byte-range locks, sparse files with holes
// up to offset 2^63-1, open files that outlive their names. It has no quotas,
// keeps access times as they were set (as mounted with noatime), and forgets
// everything when it is closed.
//
// # Identity
//
// The root is inode 1. All others count up from a random base that differs
// from Volume to Volume, and no number is used twice, so that the handle of
// something that is gone, or of an earlier life of the server, is stale and
// never another file's.
//
// # Directory order
//
// Entries are listed newest first. A cookie is a number that an entry keeps as
// long as it lives, so that removals shift nothing, and what is added during a
// listing stands before the place the listing has come to: a listing ends even
// if somebody keeps adding names.
//
// # Goroutines
//
// None of its own. Every method may be called from any goroutine.
//
// # Lock order
//
// Outer before inner; a goroutine holds at most one lock of a kind, but for
// directory.names:
//
//	Volume.moves       renames between directories, one at a time
//	directory.names    entries of one directory
//	content.io         bytes of one file; read lock while reading
//	node.mu            attributes of one object
//	shard.mu, content.lockMu, chunkPool.mu    leaves
//
// Two or three directory.names are held together only by the removal of a
// directory (parent, then child) and by a rename (an ancestor before its
// descendant, then the directory that is replaced). Parents of directories
// change only under Volume.moves, which makes that order one that cannot turn
// round while it is being taken.
package memory
