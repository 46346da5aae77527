package nfs3

import (
	"context"
	"log/slog"
	"path"
	"slices"
	"strings"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// maxMountPath is MNTPATHLEN, the longest path in bytes (RFC 1813 section
// 5.1.2).
const maxMountPath = 1024

// MountStatus is the outcome of MNT (mountstat3, RFC 1813 section 5.1.5).
type MountStatus uint32

// The statuses, as MNT3_OK and MNT3ERR_* in the RFC.
const (
	MountOK             MountStatus = 0
	MountErrPerm        MountStatus = 1
	MountErrNoEnt       MountStatus = 2
	MountErrIO          MountStatus = 5
	MountErrAccess      MountStatus = 13
	MountErrNotDir      MountStatus = 20
	MountErrInval       MountStatus = 22
	MountErrNameTooLong MountStatus = 63
	MountErrNotSupp     MountStatus = 10004
	MountErrServerFault MountStatus = 10006
)

// mountStatusOf translates an error of MNT, for which there is no "later": a
// client that is told of a fault of the server tries again.
func mountStatusOf(err error) MountStatus {
	switch st := statusOf(err); st {
	case OK:
		return MountOK
	case ErrPerm, ErrNoEnt, ErrIO, ErrAccess, ErrNotDir, ErrInval, ErrNameTooLong, ErrNotSupp:
		return MountStatus(st)
	}
	return MountErrServerFault
}

type mountProgram struct{ *Server }

func (mountProgram) Number() uint32 { return MountProgram }

func (mountProgram) Versions() (low, high uint32) { return wireVersion, wireVersion }

// mountCall is one call of the MOUNT protocol.
type mountCall struct {
	*Server
	ctx   context.Context
	table *export.Table
	peer  export.Peer
	path  string // dirpath of MNT and UMNT
	reply *xdr.Encoder
}

// mountProcedures is indexed by procedure number (RFC 1813 section 5.2).
var mountProcedures = [...]struct {
	name    string
	hasPath bool // the argument is a dirpath, else void
	run     func(*mountCall)
}{
	0: {"NULL", false, func(*mountCall) {}},
	1: {"MNT", true, (*mountCall).mnt},
	2: {"DUMP", false, (*mountCall).dump},
	3: {"UMNT", true, (*mountCall).umnt},
	4: {"UMNTALL", false, (*mountCall).umntAll},
	5: {"EXPORT", false, (*mountCall).export},
}

// Serve runs one call by its row of the table.
func (p mountProgram) Serve(ctx context.Context, rc *rpc.Call, reply *xdr.Encoder) rpc.AcceptStat {
	if rc.Procedure >= uint32(len(mountProcedures)) {
		return rpc.ProcUnavail
	}
	proc := &mountProcedures[rc.Procedure]
	hold := p.exports.Hold()
	defer hold.Release()
	c := mountCall{Server: p.Server, ctx: ctx, table: hold.Table, peer: peerOf(rc), reply: reply}
	if proc.hasPath {
		c.path = rc.Args.String("dirpath", maxMountPath)
	}
	if rc.Args.Finish() != nil {
		return rpc.GarbageArgs
	}
	proc.run(&c)
	return rpc.Success
}

// mnt answers the handle of an export, of a directory inside one, or of a
// directory of the pseudo tree. No permission of the caller on the way there
// is asked: the machine mounts, and its users are checked call by call.
func (c *mountCall) mnt() {
	n, err := c.find()
	if err != nil {
		st := mountStatusOf(err)
		c.log.LogAttrs(c.ctx, slog.LevelWarn, "nfs3: mount refused", slog.String("client", c.peer.Addr.String()),
			slog.String("path", c.path), slog.Any("error", err))
		c.reply.Uint32(uint32(st))
		return
	}
	var space [maxHandle]byte
	c.reply.Uint32(uint32(MountOK))
	c.reply.Opaque(c.table.AppendHandle(space[:0], n))
	c.reply.Uint32(1) // auth_flavors
	c.reply.Uint32(export.FlavorSys)
	if c.mounts.add(c.host(), c.path) {
		c.log.LogAttrs(c.ctx, slog.LevelInfo, "nfs3: mounted", slog.String("client", c.peer.Addr.String()),
			slog.String("path", c.path))
	}
}

func (c *mountCall) find() (export.Node, error) {
	if strings.IndexByte(c.path, 0) >= 0 {
		return export.Node{}, export.ErrInval
	}
	n, _, err := c.table.ByPath(c.ctx, &c.peer, version, c.path)
	if export.StatusOf(err) == export.ErrNoEnt && c.refused() {
		return n, export.ErrAccess
	}
	if err != nil {
		return n, err
	}
	_, err = c.table.Enter(c.ctx, &c.peer, n.Export, version)
	return n, err
}

// refused reports whether the path leads into an export that does not admit
// the peer. Elsewhere such an export is not there at all, but somebody who
// mounts it by name is helped by hearing why it fails.
func (c *mountCall) refused() bool {
	want := path.Clean("/" + c.path)
	for _, e := range c.table.Exports() {
		if want == e.Path || strings.HasPrefix(want, strings.TrimSuffix(e.Path, "/")+"/") {
			_, err := c.table.Enter(c.ctx, &c.peer, e, version)
			return export.StatusOf(err) == export.ErrAccess
		}
	}
	return false
}

// host names the peer in the list of mounts.
func (c *mountCall) host() string { return c.peer.Addr.Unmap().String() }

func (c *mountCall) dump() {
	for _, m := range c.mounts.all() {
		c.reply.Bool(true)
		c.reply.String(m.host)
		c.reply.String(m.path)
	}
	c.reply.Bool(false)
}

func (c *mountCall) umnt() { c.mounts.remove(c.host(), c.path) }

func (c *mountCall) umntAll() { c.mounts.removeHost(c.host()) }

// export lists what the peer may mount, and for whom each export is.
func (c *mountCall) export() {
	for _, e := range c.table.List(c.ctx, &c.peer, version) {
		c.reply.Bool(true)
		c.reply.String(e.Path)
		for _, group := range groupsOf(e) {
			c.reply.Bool(true)
			c.reply.String(group)
		}
		c.reply.Bool(false)
	}
	c.reply.Bool(false)
}

// maxGroup is MNTNAMLEN, the longest name of a group or host in bytes.
const maxGroup = 255

// groupsOf names the clients that e has a rule to admit, everybody as "*".
func groupsOf(e *export.Export) []string {
	var groups []string
	for i := range e.Rules {
		r := &e.Rules[i]
		if r.Grant == export.GrantNone {
			continue
		}
		name := r.Client.String()
		if len(name) <= maxGroup && !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	return groups
}
