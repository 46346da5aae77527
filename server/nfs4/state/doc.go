// Package state is what an NFSv4.1 and 4.2 server remembers about its
// clients: client records, sessions with their slots, leases, open files,
// share reservations and byte-range locks (RFC 8881 chapters 2.10, 8 and 9).
// It knows no wire format and no connection: arguments and results are Go
// structs, outcomes are [nfsv4.Status] values.
//
// # How a request uses it
//
// A COMPOUND begins with [Store.Sequence], which finds the slot and pins the
// client until [SlotUse.Finish]; in between its operations call methods of
// the [Client]. Operations without a session (EXCHANGE_ID, CREATE_SESSION,
// ...) are methods of the [Store].
//
// # All or nothing
//
// A client's state is wholly kept or wholly gone. A client whose lease ran out
// keeps everything as a courtesy until somebody else needs what it holds, the
// memory is needed, or [Options.Courtesy] has passed; then the record, its
// sessions and all its state go in one step, and its next SEQUENCE answers
// NFS4ERR_BADSESSION. That step and a SEQUENCE which renews the lease meet at
// one atomic word ([gate]), so one of them wins and nothing is half alive.
// SEQUENCE therefore never reports SEQ4_STATUS_EXPIRED_*: a client that still
// has a session has its state. The one exception is an export that goes away
// ([Store.KeepExports]): its stateids remain as revoked ones, and
// SEQ4_STATUS_ADMIN_STATE_REVOKED says so.
//
// A client can be discarded once its lease is over and none of its requests
// runs. While one runs, however slowly, the client is there, and what
// conflicts with it is refused.
//
// # Goroutines
//
// runExpiry, one per Store, started by [New] and ended by [Store.Close]: drops
// unconfirmed records, notices leases that ran out, bounds courtesy state.
// runTeardown, one per client that died while it held files: gives locks back
// and closes files, waited for by [Store.Close].
//
// # What comes later
//
// Grace and reclaim begin at [Client.CanOpen], which knows of no earlier state
// and so refuses every reclaim. Minor version 0 adds sequence numbers to the
// owners of open.go and lockowner.go, and confirmation by SETCLIENTID_CONFIRM
// beside that by CREATE_SESSION.
//
// # Lock order
//
//	Store.mu  ->  Client.mu  ->  fileShard.mu
//	Store.mu  ->  Session.mu  ->  Conn.mu
//	numberTable.mu, sessionShard.mu, Store.jobsMu: nothing is taken below them
//
// Nothing is called on a Volume or a File while any of them is held: what has
// to be closed or unlocked is collected under the lock and done behind it.
// SEQUENCE and Finish take the lock of their session and no other, but to log
// that a client returned whose lease had expired.
package state
