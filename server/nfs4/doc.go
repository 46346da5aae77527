// Package nfs4 serves NFS version 4, minor versions 1 and 2 (RFC 8881, RFC
// 7862, RFC 8275, RFC 8276), on the exports of package export.
//
// # How a COMPOUND runs
//
// [Server] is an [rpc.Program]. One engine (compound.go) decodes a COMPOUND
// operation by operation: what comes first has run, and is answered, when what
// comes later turns out to be broken, unknown or out of place. Which operations
// there are, in which minor versions, what has to hold before one runs, how it
// is decoded, run and encoded, and how large its result can be, is one table
// (optable.go); [Operations] lists it. Attributes have a table of their own
// (attr_table.go). A family of operations has a file, op_*.go.
//
// SEQUENCE hands the request to its slot (package state). The complete reply
// goes back there, and a retry is answered with it. An operation that changes
// something runs only if its largest result still fits into what the session
// allows, so that nothing is done that cannot be told.
//
// # Names, statuses
//
// Names are bytes and go through unchanged. Errors of Volumes become statuses
// in one place (status.go); no operation answers a status that the RFCs do not
// let it answer (status_allowed.go).
//
// # Goroutines and locks
//
// The package starts no goroutine. A compound belongs to the goroutine that
// serves the call; everything it needs is in it, and it is pooled. The tables
// are constant. Server.connMu is taken alone, when a connection shows up.
//
// # Data
//
// READ reads into a pooled buffer that leaves with the reply by reference;
// WRITE hands the Volume a slice of the received record.
package nfs4
