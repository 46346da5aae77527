package server

import (
	"context"
	"log/slog"
	"time"

	"capstan/export"
	"capstan/server/nfs4/state"
	"capstan/server/rpc"
)

// Options configures a [Server]. Package config fills it in from a file; the
// zero value of a field has the meaning its comment gives.
type Options struct {
	// Listen are the TCP addresses to serve NFS and MOUNT on.
	Listen []string
	// Metrics is the address of /metrics and /healthz, "" for none.
	Metrics string
	// Control is the unix socket that answers [ReadStatus], "" for none.
	Control string
	// Rpcbind registers the programs with this host's rpcbind.
	Rpcbind bool

	// StateDir is the directory of what outlives the process, made if it does
	// not exist: the keys of the file handles, and what engines keep. One server
	// uses it at a time. "" keeps nothing.
	StateDir string

	// RPC holds the budgets of connections and calls. Logger and Observer are
	// set by the server.
	RPC rpc.Options

	// Lease is the NFSv4 lease time, and State the limits of its clients.
	Lease time.Duration
	State state.Limits

	// MaxIO is the most bytes in one READ or WRITE.
	MaxIO uint32

	// Owner names this server in NFSv4.1 (so_major_id and scope), "" for the
	// host's name.
	Owner string

	// Identity configures the look-up of users and groups.
	Identity export.IdentityOptions

	// OpenFiles is how many files are kept open for stateless calls, and
	// OpenIdle for how long without use.
	OpenFiles int
	OpenIdle  time.Duration

	// Mounts are the exports with what stands behind them.
	Mounts []Mount

	// Version of the program, for logs, metrics and status.
	Version string

	Logger *slog.Logger // nil for none
}

// Mount is an export and the engine behind it.
type Mount struct {
	// Export is complete but for its Volume.
	Export *export.Export
	Engine Engine
}

// Engine opens a Volume.
type Engine struct {
	// Name is the kind of engine as in the configuration.
	Name string
	// Key tells engines apart: a reload keeps the Volume of an export whose
	// engine has the same Key as before.
	Key string
	// Open opens the Volume; an error names what is missing. lost may be called
	// at any time, from any goroutine and more than once, to tell that the
	// Volume will not work again: it is then closed and opened anew.
	Open func(ctx context.Context, lost func(error)) (export.Volume, error)
}
