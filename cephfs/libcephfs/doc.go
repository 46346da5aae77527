// Package libcephfs is a CephFS mount through Ceph's own client library, by way
// of go-ceph, as a [billy.Filesystem] with the extensions of package billyfs:
// the engine `libcephfs`.
//
// It is built with the build tag librados, cgo, and the headers of librados
// and libcephfs, beside the tag of their release for go-ceph (pacific for
// 16.2); see [Available]. In any other build [Mount] fails and says so.
//
// # Limits
//
// Each is named here as the documentation names it.
//
//   - one-identity: a libcephfs mount acts as one user. It acts as root, the
//     Volume checks permission, and new objects are given to their owner by a
//     second request. Quotas and path restrictions of the key hold; POSIX ACLs
//     are kept but not evaluated.
//   - local-locks: byte-range locks live in the gateway. Native clients and
//     other gateways do not see them, since go-ceph has no call for them.
//   - path-handles: go-ceph has no inode calls. Handles are resolved through the
//     handle table of package billyfs, so an object that others moved is found
//     only as far as its search reaches.
//   - no-seek: go-ceph refuses SEEK_DATA and SEEK_HOLE; the Volume does not
//     offer SEEK.
//   - no-allocate: CephFS reserves nothing, so ALLOCATE is not offered. Punching
//     holes is.
//   - no-snapshots: names that lead into a snapshot directory do not exist.
//   - no-link-links: the library follows a symbolic link that is to get another
//     name, so that is refused.
//   - times-1970: CephFS keeps times from 1970 to 2106; others are moved there.
//   - lazy-dirstat: size, links and times of a directory may show the state
//     before a rename or a removal of ours for some seconds. The change
//     attribute moves at once.
//   - lazy-link-owner: a symbolic link cannot be opened, so a new one's owner
//     reaches the MDS within about five seconds only; after a kill before that
//     it is root's.
//   - lagging-space: free space lags behind by the interval in which OSDs
//     report it, about five seconds.
//   - link-attributes: attributes of symbolic links and special files cannot be
//     flushed, since such an object cannot be opened; they reach the MDS by
//     themselves some seconds later.
//   - unlinked-xattrs: extended attributes go by path, so those of an unlinked
//     open file cannot be reached.
//   - empty-xattr: go-ceph hands libcephfs no value for an empty one, which
//     libcephfs takes for a removal (tracker.ceph.com/issues/46084); an empty
//     value is refused with EINVAL.
//   - small-xattrs: all extended attributes of an object together have at most
//     64 KiB (mds_max_xattr_pairs_size).
//   - used-is-size: CephFS does not count the storage of a file; the space it
//     takes is reported as its size, holes included.
//   - lazy-metadata: the library returns from calls on names when the MDS has
//     taken them into its memory. (Attributes too.) They are lost only if the MDS and this
//     process die together within the MDS's journal tick (about 5 s). With
//     [Options].SyncMetadata they are flushed before the reply.
//   - no-cancel: a call that waits for the cluster cannot be broken off; at most
//     Options.MaxCalls of them wait at a time.
//   - old-session: a killed process leaves a session behind that the MDS keeps
//     for up to 60 s. With [Options].Instance the next mount evicts it.
//   - hidden-links: when the reply to a rename becomes safe, libcephfs 16.2 drops
//     all names of the file that was replaced (Client::put_request,
//     _try_to_trim_inode) but keeps their dentries, empty and valid: a second
//     name of that file is then taken for absent.
//   - future-times: fill_statx shows the later of ctime and mtime, and the MDS
//     keeps the later of its mtime and one that came with a write.
//   - two-step-exclusive: package billyfs stores an exclusive create's verifier
//     after the file.
//   - not-atomic: others change the filesystem too, so the states before and
//     after a call are never called atomic.
//
// # Goroutines and locks
//
// The package starts no goroutine. A semaphore bounds calls into the library,
// each of which holds an operating system thread. File.mu keeps a file open
// while a call uses it; no other lock is taken under it.
package libcephfs
