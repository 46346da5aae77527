package config

import (
	"reflect"
	"time"
)

// Config is a whole configuration file with every default filled in.
// docs/configuration.md describes each key; the names there are the YAML names
// of the fields here.
type Config struct {
	File string // where it was read from; "" for the built-in configuration

	Server  Server
	Log     Log
	NFS     NFS
	Limits  Limits
	Exports []Export
}

// Server says where capstan listens and keeps its state.
type Server struct {
	Listen          []string      // host:port of NFS, TCP
	Metrics         string        // host:port of /metrics and /healthz; "" for none
	Control         string        // unix socket of `capstan status`; "" for none
	StateDir        string        // handle keys and handle tables; "" keeps them in memory
	Rpcbind         bool          // register with the rpcbind of this host
	ShutdownTimeout time.Duration // how long running calls may take to finish
}

// Log says what is logged, on standard error.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// NFS holds what clients see of the protocol.
type NFS struct {
	Lease        time.Duration // NFSv4 lease time
	Domain       string        // of owner names; "" sends numbers
	MaxIO        int64         // bytes in one READ or WRITE
	ServerOwner  string        // NFSv4.1 server owner and scope; "" makes one from the host name
	IdentityTTL  time.Duration // how long look-ups of users and groups are kept
	IdentityWait time.Duration // how long one may take
}

// Limits are the budgets that bound what clients can make capstan spend.
type Limits struct {
	Connections        int           // in all
	ConnectionsPerHost int           // from one address
	CallsPerConnection int           // running at once
	Calls              int           // running at once, in all
	Memory             int64         // bytes of calls and replies under way
	IdleTimeout        time.Duration // of a connection without calls
	RecordTimeout      time.Duration // for a call to arrive whole
	WriteTimeout       time.Duration // for a reply to be taken
	Clients            int           // NFSv4 clients
	SessionsPerClient  int
	Slots              int // of a session: calls a client may have under way
	OpenFiles          int // kept open for stateless reads and writes
	OpenIdle           time.Duration
}

// Export is one exported directory.
type Export struct {
	Line int // where it begins in the file

	Path     string // where clients see it: "/a/b"
	ID       uint32 // in file handles; never reuse one for another filesystem
	FSID     uint64 // what clients see as device; 0: the ID
	ReadOnly bool

	Engine    string // memory, local, libcephfs
	Memory    Memory
	Local     Local
	LibCephFS LibCephFS

	Access     []Access
	Squash     string // root, all, none
	AnonUID    uint32
	AnonGID    uint32
	Versions   []string // "3", "4.1", "4.2"
	ManageGIDs bool
}

// Memory is the engine of the scratch export.
type Memory struct {
	Size  int64 // bytes of data at most
	Files int   // objects at most
}

// Local serves a directory of this host.
type Local struct {
	Root string
}

// LibCephFS serves CephFS through Ceph's own library.
type LibCephFS struct {
	Conf       string // ceph.conf
	Name       string // client name without "client."
	Keyring    string // "": as ceph.conf says
	Filesystem string // "": the cluster's default
	Root       string // directory in it
	Options    map[string]string
	// SyncMetadata answers calls on names and attributes only when the MDS has
	// them in its journal.
	SyncMetadata bool
}

// Access is one access rule; the first that matches a client counts.
type Access struct {
	Clients []string // addresses, CIDR blocks, host names with * and ?, or "*"
	Access  string   // rw, ro, none
	Squash  string   // "" for the export's
}

// Engines lists the engines a file can name.
func Engines() []string { return []string{"memory", "local", "libcephfs"} }

// TakeFrom puts the sections that a reload does not change in the place of c's
// own, and returns the names of those that differ.
func (c *Config) TakeFrom(running *Config) (changed []string) {
	if !reflect.DeepEqual(c.Server, running.Server) {
		changed = append(changed, "server")
	}
	if c.Log != running.Log {
		changed = append(changed, "log")
	}
	if c.NFS != running.NFS {
		changed = append(changed, "nfs")
	}
	if c.Limits != running.Limits {
		changed = append(changed, "limits")
	}
	c.Server, c.Log, c.NFS, c.Limits = running.Server, running.Log, running.NFS, running.Limits
	return changed
}

func defaults() Config {
	return Config{
		Server: Server{
			Listen:          []string{"[::]:2049"},
			Control:         "/run/capstan/control.sock",
			StateDir:        "/var/lib/capstan",
			ShutdownTimeout: 30 * time.Second,
		},
		Log: Log{Level: "info", Format: "text"},
		NFS: NFS{
			Lease:        60 * time.Second,
			MaxIO:        1 << 20,
			IdentityTTL:  5 * time.Minute,
			IdentityWait: 2 * time.Second,
		},
		Limits: Limits{
			Connections:        4096,
			ConnectionsPerHost: 256,
			CallsPerConnection: 128,
			Calls:              1024,
			Memory:             512 << 20,
			IdleTimeout:        15 * time.Minute,
			RecordTimeout:      30 * time.Second,
			WriteTimeout:       60 * time.Second,
			Clients:            16384,
			SessionsPerClient:  16,
			Slots:              64,
			OpenFiles:          1024,
			OpenIdle:           30 * time.Second,
		},
	}
}

func defaultExport() Export {
	return Export{
		Squash:    "root",
		AnonUID:   65534,
		AnonGID:   65534,
		Versions:  []string{"3", "4.1", "4.2"},
		Memory:    Memory{Size: 1 << 30, Files: 1 << 20},
		LibCephFS: LibCephFS{Conf: "/etc/ceph/ceph.conf", Name: "admin", Root: "/"},
	}
}

// Scratch is the configuration of `capstan serve` without a file: one
// in-memory export on loopback, nothing on disk.
func Scratch() *Config {
	c := defaults()
	c.Server.Listen = []string{"127.0.0.1:2049"}
	c.Server.StateDir = ""
	c.Server.Control = ""
	e := defaultExport()
	e.Path, e.ID, e.Engine, e.Squash = "/scratch", 1, "memory", "none"
	e.Access = []Access{{Clients: []string{"127.0.0.0/8", "::1"}, Access: "rw"}}
	c.Exports = []Export{e}
	return &c
}
