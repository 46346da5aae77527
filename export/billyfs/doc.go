// Package billyfs joins the Volume contract and go-billy in both directions:
// [NewVolume] serves any [billy.Filesystem] as an [export.Volume], and
// [NewFilesystem] shows a Volume, with a credential, as a billy.Filesystem.
//
// # A path-based filesystem as a Volume
//
// billy knows paths, a Volume knows inodes. Between them stands a handle table
// (table.go): for every object that a client was told of, the names it has,
// each as an entry in a directory's inode. A path is put together from the
// table, and what is found there must have the inode number and generation
// that the handle names; if not, the object's other names are tried, then the
// way to it is repaired, then a bounded search looks for it, and then the
// handle is stale. A rename through us moves one record, also for a directory
// with a million files below it.
//
// # What a handle outlives
//
//   - A kill -9 of the process, at any moment: what a reply tells a client is
//     in the table's log, handed to the kernel, before the reply.
//   - A crash of the machine: except for what was met in the last
//     store.Options.Interval (5 s) before it. Such an object is met again by
//     name, or found by the search, with the same handle.
//   - A rename by others: as far as the search reaches (Options.SearchLimit).
//   - Not: the loss of the table, nor, on a filesystem without inode numbers,
//     a rename or replacement by others.
//
// # What a filesystem may offer
//
// The optional interfaces are in extension.go. What plain billy lacks, and what
// a call then answers:
//
//	hard links, special files, xattrs    ErrNotSupp; Features say so
//	holes, reservation, punching         ErrNotSupp; Features say so
//	inode numbers                        ours, kept in the table
//	owner, mode, times                   ours, kept in the table (only without inode numbers)
//	sync                                 a write counts as stable once it returned
//	space                                zeros
//	attributes of an unlinked open file  those seen last, with its present size
//	exact rename over something          what is there is removed first, so not atomic
//
// # What a Volume checks itself
//
// The filesystem below acts with one identity, the process's. Permission is
// checked here, by the rules of package export, against attributes read under
// the locks that keep our own callers from changing them; new objects are
// given to their caller. The states before and after a call are atomic with
// regard to all callers of this Volume, or Change.Atomic is false: so where a
// write, which takes no lock, came in between, and on a filesystem that says
// others change it too ([Facts].Shared). Byte-range locks live in
// this process alone: nobody but its clients sees them.
//
// # Goroutines and lock order
//
// A Volume runs two goroutines, which Close ends: runLinger syncs what was
// written through files closed since without a Commit, so that a write error
// nobody was there to see still changes the write verifier; and the one of
// package store.
//
// Locks are taken in this order: Volume.tree (shared by whoever uses a path,
// exclusive while a directory moves), the inode stripes of a call in ascending
// order, opened.syncMu, then one of the leaves: searcher.mu (under it only reads of
// the filesystem and leaves), openMu (under it only opened.mu and lockMu),
// opened.mu, roundMu, listing.mu, listings.mu, table.mu, lockMu. Under table.mu
// the store's lock is taken. Calls into the filesystem run under tree, stripes,
// syncMu, searcher.mu and opened.mu.
package billyfs
