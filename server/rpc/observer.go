package rpc

import (
	"net/netip"
	"time"
)

// Observer is told what a [Server] does, for metrics. Its methods are called on
// the goroutines that do the work: they must not block.
type Observer interface {
	// ConnOpened is called once for each connection that was let in.
	ConnOpened(c *Conn)
	// ConnClosed is called once for each of those, with why it ended.
	ConnClosed(c *Conn, reason error)
	// ConnRefused is called for a connection that was not let in; reason is
	// [ErrTooManyConns] or [ErrTooManyFromHost].
	ConnRefused(remote netip.AddrPort, reason error)
	// CallDone is called when the reply of a call was sent or dropped.
	CallDone(CallInfo)
}

// CallInfo is what is known of a call at its end.
type CallInfo struct {
	Program, Version, Procedure uint32

	Stat   AcceptStat    // how the call ended, unless Denied
	Denied bool          // MSG_DENIED: by Auth, or by RPC_MISMATCH if Auth is AuthOK
	Auth   AuthStat      // why the credential was not accepted
	In     int           // bytes of the call's record
	Out    int           // bytes of the reply's record
	Run    time.Duration // time in the program
	Total  time.Duration // from the record's last byte to the end of the write
	Sent   bool          // whether the reply was handed to the transport
}
