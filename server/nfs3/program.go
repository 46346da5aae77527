package nfs3

import (
	"context"
	"log/slog"
	"sync"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// The program numbers and the one version served of each.
const (
	Program      = 100003 // NFS_PROGRAM
	MountProgram = 100005 // MOUNT_PROGRAM
	version      = export.Version3
	wireVersion  = 3
)

// Options are the settings of a [Server]. A zero field means its default.
type Options struct {
	// MaxRead and MaxWrite are the largest READ and WRITE in bytes (default
	// 1 MiB), announced as rtmax and wtmax. What a client asks for beyond that
	// is cut. They are at least 4 KiB. The record limit of the RPC server must
	// leave room for MaxWrite and 1 KiB of headers.
	MaxRead, MaxWrite uint32

	// MaxDir is the largest reply to READDIR and READDIRPLUS in bytes (default
	// 128 KiB, at least 4 KiB), announced as dtpref.
	MaxDir uint32

	// MaxMounts is how many mounts DUMP remembers (default 1024); the one that
	// was made longest ago is forgotten first.
	MaxMounts int

	// MaxReplays is how many replies are kept for calls that are sent again
	// (default 2048, of some 300 bytes each), the oldest making room.
	MaxReplays int

	// Shares are the share reservations of other versions on the same exports,
	// nil for none.
	Shares Shares

	// Logger gets mounts, refusals and faults, nil for none.
	Logger *slog.Logger
}

// Shares are share reservations that NFSv3 has no notion of and respects: an
// NFSv4 open that denies others reading or writing (RFC 8881 section 9.7).
type Shares interface {
	// Denied reports whether an open denies others reading, or writing.
	Denied(ctx context.Context, export uint32, o export.Object, write bool) bool
	// Removed tells that an object lost a name.
	Removed(ctx context.Context, export uint32, o export.Object)
}

func (o Options) withDefaults() Options {
	if o.MaxRead == 0 {
		o.MaxRead = 1 << 20
	}
	if o.MaxWrite == 0 {
		o.MaxWrite = 1 << 20
	}
	if o.MaxDir == 0 {
		o.MaxDir = 128 << 10
	}
	const least = 4096
	o.MaxRead, o.MaxWrite, o.MaxDir = max(o.MaxRead, least), max(o.MaxWrite, least), max(o.MaxDir, least)
	if o.MaxMounts <= 0 {
		o.MaxMounts = 1024
	}
	if o.MaxReplays <= 0 {
		o.MaxReplays = 2048
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server serves NFSv3 and its MOUNT protocol. It keeps no state of clients
// but the list that DUMP shows and the replies that may be asked for again.
type Server struct {
	exports *export.Exports   // constant
	files   *export.OpenFiles // constant
	options Options           // constant
	log     *slog.Logger      // constant
	mounts  *mountList        // locks itself
	replays *replayCache      // locks itself
	calls   sync.Pool         // of *call
}

// New returns a server of exports that does its I/O through files.
func New(exports *export.Exports, files *export.OpenFiles, o Options) *Server {
	o = o.withDefaults()
	s := &Server{
		exports: exports, files: files, options: o, log: o.Logger,
		mounts: newMountList(o.MaxMounts), replays: newReplayCache(o.MaxReplays),
	}
	s.calls.New = func() any { return &call{server: s} }
	return s
}

// NFS returns the program 100003 in version 3.
func (s *Server) NFS() rpc.Program { return nfsProgram{s} }

// Mount returns the program 100005 in version 3.
func (s *Server) Mount() rpc.Program { return mountProgram{s} }

type nfsProgram struct{ *Server }

func (nfsProgram) Number() uint32 { return Program }

func (nfsProgram) Versions() (low, high uint32) { return wireVersion, wireVersion }

// Serve runs one call, or answers it from the replay cache.
func (p nfsProgram) Serve(ctx context.Context, rc *rpc.Call, reply *xdr.Encoder) rpc.AcceptStat {
	if rc.Procedure >= uint32(len(procedures)) {
		return rpc.ProcUnavail
	}
	proc := &procedures[rc.Procedure]
	if !proc.once || rc.Conn == nil {
		stat, _ := p.run(ctx, proc, rc, reply)
		return stat
	}
	k := p.replays.key(rc)
	old, entry := p.replays.begin(ctx, k)
	if entry == nil {
		if old == nil {
			return rpc.SystemErr // the connection is gone
		}
		reply.Append(old)
		return rpc.Success
	}
	var keep []byte
	defer func() { p.replays.finish(k, entry, keep) }()
	mark := reply.Mark()
	stat, st := p.run(ctx, proc, rc, reply)
	if stat == rpc.Success && st != ErrJukebox {
		keep = reply.AppendSince(nil, mark)
	}
	return stat
}

// run runs one call by its row of the procedure table.
func (p nfsProgram) run(ctx context.Context, proc *procedure, rc *rpc.Call, reply *xdr.Encoder) (rpc.AcceptStat, Status) {
	c := p.newCall(ctx, rc, reply)
	defer c.free()
	proc.decode(c, &rc.Args)
	if rc.Args.Finish() != nil {
		return rpc.GarbageArgs, OK
	}
	if proc.run == nil {
		return rpc.Success, OK
	}
	at := reply.Reserve32()
	body := reply.Mark()
	st := proc.run(c)
	if st == OK {
		proc.encode(c)
	} else {
		reply.TruncateTo(body)
		proc.fail(c)
		c.logFault(proc.name, st)
	}
	reply.Patch32(at, uint32(st))
	return rpc.Success, st
}

// newCall takes a call from the pool and fills in who asks.
func (s *Server) newCall(ctx context.Context, rc *rpc.Call, reply *xdr.Encoder) *call {
	c := s.calls.Get().(*call)
	c.ctx, c.rpc, c.reply = ctx, rc, reply
	c.hold = s.exports.Hold()
	c.table = c.hold.Table
	c.peer = peerOf(rc)
	return c
}

// peerOf returns the caller as the record has it.
func peerOf(rc *rpc.Call) export.Peer {
	p := export.Peer{
		Flavor: uint32(rc.Cred.Flavor), Machine: rc.Cred.Machine,
		UID: rc.Cred.UID, GID: rc.Cred.GID, Groups: rc.Cred.Groups,
	}
	if rc.Conn != nil {
		p.Addr = rc.Conn.Remote().Addr()
	}
	return p
}

// free empties c, releases what was not handed to the reply, and puts c back.
func (c *call) free() {
	if c.res.buf != nil {
		c.res.buf.Release()
	}
	c.hold.Release()
	s := c.server
	*c = call{server: s}
	s.calls.Put(c)
}
