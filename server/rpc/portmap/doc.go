// Package portmap registers services with the rpcbind of this machine, so that
// clients find them by program number: version 2 of the protocol (portmap) and
// version 4 (rpcbind), both RFC 1833.
//
// Version 4 is tried first, since only it knows IPv6; a portmapper of old that
// has none is spoken to in version 2. rpcbind lets only callers it takes for
// root register, and tells them by the local address of its socket or by a
// privileged source port, so as root such a port is used.
//
// Nothing here keeps goroutines or connections: each call opens a connection
// to the loopback address and closes it.
package portmap
