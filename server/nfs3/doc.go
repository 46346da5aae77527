// Package nfs3 serves NFS version 3 and the MOUNT protocol version 3 (RFC
// 1813) on export.Volume, through the programs that [Server.NFS] and
// [Server.Mount] register with an RPC server, on one port.
//
// # Shape
//
// A row of the procedure table holds what a procedure decodes, does and
// answers, for success and for failure; one function runs every row. A call
// and all its arguments and results come from a pool, and the arguments alias
// the record. Whether the caller may come in is asked of the export table for
// every handle of every call, so that access rules hold from one call to the
// next; permission on the object is checked by its Volume with the caller's
// credential.
//
// READ, WRITE and COMMIT have no open of the client behind them. They go
// through export.OpenFiles, which opens with the rights of the server, after
// this package has checked the caller's: by the mode of the file, with the
// allowances for its owner and for executing that RFC 1813 section 4.4 asks
// for.
//
// # What is chosen where the RFC leaves a choice
//
//   - Weak cache consistency: the state before is sent only when the Volume
//     says that the change was atomic, the state after always, failed calls
//     included. The attributes in a listing are those before it.
//   - Directory cookies are good for ever, and the cookie verifier is 0.
//   - A READ or WRITE above the announced maximum is cut to it.
//   - UNCHECKED CREATE of an existing file changes nothing but, for size 0,
//     its size.
//   - An empty name, '/' and NUL in a name are ACCES; "." and ".." are EXIST
//     for what makes a name, INVAL for RENAME and RMDIR (".." there: EXIST),
//     ACCES for REMOVE.
//   - JUKEBOX stands for every condition that passes by itself.
//
// A call that is sent again after its connection broke is answered from a
// bounded cache of replies, if running it twice could answer differently.
//
// # Goroutines and locks
//
// There is no goroutine here: calls run on those of package rpc. The list of
// mounts and the cache of replies have a lock each, under which nothing is
// called and no other lock is taken.
package nfs3
