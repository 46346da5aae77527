package nfs4

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// Options configures a [Server]. Exports, OpenFiles and State must be set; the
// zero value of any other field takes the default in its comment.
type Options struct {
	Exports   *export.Exports
	OpenFiles *export.OpenFiles // for READ, WRITE and COMMIT without an open
	State     *state.Store

	// MinorVersions lists the minor versions served (1 and 2).
	MinorVersions []uint32

	// MaxIO is the largest payload of READ and WRITE in bytes (1 MiB). The
	// channel sizes of State should leave Overhead above it.
	MaxIO int

	// MaxReply bounds the reply of a COMPOUND without a session, in bytes
	// (MaxIO + Overhead).
	MaxReply int

	// ServerOwner is so_major_id of EXCHANGE_ID: clients take servers of one
	// owner and scope for one server on several addresses, so it must differ
	// between gateways ("capstan:" and the host's name).
	ServerOwner string
	// ServerScope is eir_server_scope (ServerOwner).
	ServerScope string
	// Implementation is what clients are told the server is: domain, name with
	// version, and date of the build ("capstan.invalid", "capstan", none).
	Implementation Implementation

	// Logger gets one line per event (discarded).
	Logger *slog.Logger
}

// Overhead is how much larger than its payload a request or reply with READ or
// WRITE may be: RPC header, credential and the operations around it, in bytes.
const Overhead = 64 << 10

// Implementation is nfs_impl_id4 (RFC 8881 section 3.3.24).
type Implementation struct {
	Domain string
	Name   string
	Date   time.Time
}

// Server is NFS version 4 as an [rpc.Program].
type Server struct {
	opts         Options
	leaseSeconds uint32
	minors       [maxMinor + 1]bool
	maxReply     int // what the body of a reply without session may have

	connMu sync.Mutex     // held while a connection gets its record
	faults rate.Sometimes // limits the log of failed operations
}

// New returns a Server.
func New(o Options) (*Server, error) {
	if o.Exports == nil || o.OpenFiles == nil || o.State == nil {
		return nil, errors.New("nfs4: Exports, OpenFiles and State must be set")
	}
	if len(o.MinorVersions) == 0 {
		o.MinorVersions = []uint32{1, 2}
	}
	o.MaxIO = cmp.Or(o.MaxIO, 1<<20)
	o.MaxReply = cmp.Or(o.MaxReply, o.MaxIO+Overhead)
	if o.ServerOwner == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		o.ServerOwner = "capstan:" + host
	}
	o.ServerScope = cmp.Or(o.ServerScope, o.ServerOwner)
	if len(o.ServerOwner) > nfsv4.OpaqueLimit || len(o.ServerScope) > nfsv4.OpaqueLimit {
		return nil, errors.New("nfs4: server owner or scope longer than 1024 bytes")
	}
	o.Implementation.Domain = cmp.Or(o.Implementation.Domain, "capstan.invalid")
	o.Implementation.Name = cmp.Or(o.Implementation.Name, "capstan")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, leaseSeconds: uint32(o.State.Lease() / time.Second), maxReply: o.MaxReply - replyHeader,
		faults: rate.Sometimes{Interval: time.Second}}
	for _, m := range o.MinorVersions {
		// Minor version 0 is known to the engine; its operations on clients and
		// owners are still to come.
		if m == 0 || m > maxMinor {
			return nil, errors.New("nfs4: minor versions 1 and 2 can be served")
		}
		s.minors[m] = true
	}
	return s, nil
}

func (s *Server) serves(minor uint32) bool { return minor <= maxMinor && s.minors[minor] }

// Number is the program number of NFS.
func (s *Server) Number() uint32 { return nfsv4.Program }

// Versions is the one version served.
func (s *Server) Versions() (low, high uint32) { return nfsv4.Version, nfsv4.Version }

// Serve runs one call.
func (s *Server) Serve(ctx context.Context, call *rpc.Call, reply *xdr.Encoder) rpc.AcceptStat {
	switch call.Procedure {
	case nfsv4.ProcNull:
		return rpc.Success
	case nfsv4.ProcCompound:
		return s.serveCompound(ctx, call, reply)
	}
	return rpc.ProcUnavail
}

// peerOf describes the caller to the exports. Groups aliases the call.
func peerOf(call *rpc.Call) export.Peer {
	p := export.Peer{
		Flavor: uint32(call.Cred.Flavor), Machine: call.Cred.Machine,
		UID: call.Cred.UID, GID: call.Cred.GID, Groups: call.Cred.Groups,
	}
	if call.Conn != nil {
		p.Addr = call.Conn.Remote().Addr()
	}
	return p
}

// principalOf is the caller as far as client records compare it.
func principalOf(call *rpc.Call) state.Principal {
	return state.Principal{Flavor: uint32(call.Cred.Flavor), UID: call.Cred.UID, Machine: call.Cred.Machine}
}

// connKey is where a connection keeps its [state.Conn].
type connKey struct{}

// connOf returns the state's record of the connection of a call; nil for a call
// without one, in tests.
func (s *Server) connOf(call *rpc.Call) *state.Conn {
	if call.Conn == nil {
		return nil
	}
	if c, ok := call.Conn.Attached(connKey{}).(*state.Conn); ok {
		return c
	}
	s.connMu.Lock()
	defer s.connMu.Unlock()
	if c, ok := call.Conn.Attached(connKey{}).(*state.Conn); ok {
		return c
	}
	c := state.NewConn(call.Conn.ID(), call.Conn.Remote())
	call.Conn.Attach(connKey{}, c)
	call.Conn.OnClose(c.Close)
	return c
}
