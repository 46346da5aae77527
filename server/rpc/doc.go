// Package rpc serves ONC RPC version 2 (RFC 5531) over stream connections.
//
// A [Server] accepts connections, cuts their streams into records, checks the
// call headers and hands each call to the [Program] registered for its number
// and version. Calls of one connection run at the same time and their replies
// leave in any order. What a peer can make the server spend is bounded by
// [Options]: a peer that sends more than it may is not read further, one that
// stalls in the middle of a record or does not take its replies is cut.
//
// # Data path
//
// A record is read once, into a pooled [Buffer] of its own; the arguments of a
// call alias it and stay unchanged until Serve returns, or as long as somebody
// keeps a reference to it (see [Call.Record]). A reply is an [xdr.Encoder];
// payloads spliced into it leave the process by writev without a further copy,
// together with other replies of the connection that are ready by then.
//
// # Goroutines
//
// Workers do all the work, and are reused so that their stacks stay grown. At
// any time at most one worker holds the reading role of a connection: it reads
// a record, passes the role on to another worker and runs the call itself, so
// that no switch of goroutines stands between the arrival of a call and its
// execution. (For a client that makes one call at a time, or many quick ones at
// once, even passing the role on is saved, see inline.go: a rescuer goroutine is
// there while such clients are active.) When a connection may have no more calls
// in flight the role is given up, and the worker that sends a reply puts it up again. In the same
// way at most one worker holds the writing role: it takes the replies that are
// queued and writes them, until none is left; the others only append to the
// queue. One watchdog goroutine per server closes connections that exceed their
// times; no timer is set per call. [Server.Shutdown] waits for all of them.
//
// # Lock order
//
// Server.mu, then Conn.mu, then rescuer.mu. sendQueue.mu, pool.mu and budget.mu are leaves: no
// other lock is taken, and nothing blocks, while one of them is held. No lock is
// held while a Program, an Observer or a function given to [Conn.OnClose] runs.
package rpc
