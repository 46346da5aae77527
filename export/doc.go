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
// this package ([Permits], [CheckSetAttr], [CheckRemove] and their siblings)
// that all Volumes share.
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
// # What is exported
//
// An [Export] is a Volume at a path for some peers. A [Table] joins the exports
// under one pseudo tree, which is an export of its own with the ID 0; it makes
// handles and reads them, crosses from the pseudo tree into the exports and
// back, shows every peer what it may see, and turns what a peer says about
// itself into the credential for a Volume. It never changes: [Exports] holds
// the one in force, and a reload swaps in another.
//
// A call goes like this:
//
//	h := exports.Hold()
//	defer h.Release()
//	n, err := h.Table.Resolve(fh)                          // the object, on its export
//	r, err := h.Table.Enter(ctx, peer, n.Export, version)  // what the caller may do there
//	if r.ReadOnly { ... }
//	a, err := n.Export.Volume.GetAttr(ctx, r.Cred, n.Object, mask)
//	m, a, err := h.Table.Lookup(ctx, peer, version, r, n, name, mask) // maybe on another export
//	fh = h.Table.AppendHandle(fh[:0], m)
//
// A reload makes the next table with [After], swaps it in, waits until the old
// one is idle, and then closes the Volumes that are served no more, after
// [OpenFiles.ForgetVolume]:
//
//	old := exports.Swap(next)
//	err := old.WaitIdle(ctx)
//
// # Goroutines
//
// None runs for long. Questions to name servers and user databases are asked
// on a goroutine each, with a time limit, which [Hosts.Close] and
// [Identity.Close] wait for. [NewTable] asks Volumes for their roots in
// parallel and waits for them. A timer of [OpenFiles] closes idle files;
// [OpenFiles.Close] waits for it.
//
// # Lock order
//
// Every lock of this package is taken alone, and none is held during a call
// into a Volume, a File, or a source outside of the process.
package export
