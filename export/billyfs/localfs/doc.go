//go:build linux

// Package localfs is a directory of the machine as a [billy.Filesystem] with
// every extension that package billyfs knows: the engine `local`.
//
// # Why not billy's osfs
//
// A server must act on a link itself and must never be led out of its export.
// billy's BoundOS resolves the last element of a path too, so that Remove of a
// link removes what it points to; its ChrootOS rewrites the targets of absolute
// links and leaves everything below the root to the kernel, which follows links
// out of it. Both make missing parent directories on create and rename. Here
// every directory on the way is opened beneath the root by openat2(2) with
// RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_XDEV, and the last element
// is passed to an *at call that does not follow it. The methods of billy itself,
// which are specified to follow links, resolve them as if the root were "/"
// (RESOLVE_IN_ROOT).
//
// # Identity
//
// The generation of an object is a hash of its kernel file handle
// (name_to_handle_at(2)), which changes when its inode number is used again;
// where the filesystem has no handles, of its time of birth.
//
// # Limits
//
//   - Filesystems mounted below the root are not entered and not listed, since
//     their inode numbers collide with ours.
//   - It needs Linux 5.6 (openat2) and /proc.
//   - A process without root serves with its own rights only: it can neither
//     give files to their creators nor open what it may not open.
//
// An FS may be used from several goroutines; it starts none and has no locks.
package localfs
