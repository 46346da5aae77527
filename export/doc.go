// Package export is the seam between the NFS server and the filesystems it
// serves: what is exported to whom, under which handles, and the contract
// that every filesystem behind it fulfils.
//
// # The Volume contract
//
// A [Volume] is one filesystem at inode level. Its objects are named by
// [Object], never by path, so that a rename or another hard link changes no
// handle. Every call carries a context and the credential of its caller, and
// permission is checked in that call, by the Volume, with the functions of
// this package ([Permits] and its siblings) that all Volumes share.
//
// # What a Volume promises
//
//   - A call that returns without an error has happened, and is seen by every
//     later call. A modifying call on names or attributes (Create, Link,
//     Mkdir, Mknod, Remove, Rename, SetAttr, Symlink, the xattr calls) is
//     stable when it returns, as NFS demands of its replies.
//   - An object whose last name was removed stays usable through every open
//     [File] and, while one is open, through its [Object].
//   - Errors are of type [*Error] or wrap a [Status]; [StatusOf] finds it. A
//     Volume never answers StatusIO for something that has a name of its own.
//   - All methods may be called from several goroutines at once. A context
//     that ends makes a call return early where the filesystem can.
//
// # Lock order
//
// This package holds none of its locks while it calls into a Volume.
package export
