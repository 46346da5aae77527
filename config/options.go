package config

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"capstan/export"
	"capstan/server"
	"capstan/server/nfs4/state"
	"capstan/server/rpc"
)

// recordOverhead is what a call may have besides its data: headers, and the
// other operations of a COMPOUND.
const recordOverhead = 64 << 10

// Options returns what the server is started with. Logger and Version are left
// to the caller.
func (c *Config) Options() (server.Options, error) {
	mounts, err := c.Mounts()
	if err != nil {
		return server.Options{}, err
	}
	record := c.NFS.MaxIO + recordOverhead
	o := server.Options{
		Listen:   c.Server.Listen,
		Metrics:  c.Server.Metrics,
		Control:  c.Server.Control,
		Rpcbind:  c.Server.Rpcbind,
		StateDir: c.Server.StateDir,
		RPC: rpc.Options{
			MaxRecord:          int(record),
			MaxConns:           c.Limits.Connections,
			MaxConnsPerHost:    c.Limits.ConnectionsPerHost,
			MaxInFlightPerConn: c.Limits.CallsPerConnection,
			MaxInFlight:        c.Limits.Calls,
			MaxInFlightBytes:   c.Limits.Memory / 2,
			MaxReplyBytes:      c.Limits.Memory / 2,
			IdleTimeout:        c.Limits.IdleTimeout,
			RecordTimeout:      c.Limits.RecordTimeout,
			WriteTimeout:       c.Limits.WriteTimeout,
		},
		Lease: c.NFS.Lease,
		State: state.Limits{
			MaxClients:  c.Limits.Clients,
			MaxSessions: c.Limits.SessionsPerClient,
			MaxSlots:    uint32(c.Limits.Slots),
			MaxRequest:  uint32(record),
			MaxResponse: uint32(record),
		},
		MaxIO: uint32(c.NFS.MaxIO),
		Owner: c.NFS.ServerOwner,
		Identity: export.IdentityOptions{
			Domain:  c.NFS.Domain,
			TTL:     c.NFS.IdentityTTL,
			Timeout: c.NFS.IdentityWait,
		},
		OpenFiles: c.Limits.OpenFiles,
		OpenIdle:  c.Limits.OpenIdle,
		Mounts:    mounts,
	}
	return o, nil
}

// Mounts returns the exports with their engines, which a reload takes alone.
func (c *Config) Mounts() ([]server.Mount, error) {
	mounts := make([]server.Mount, 0, len(c.Exports))
	for i := range c.Exports {
		m, err := c.mount(&c.Exports[i])
		if err != nil {
			return nil, fmt.Errorf("export %s: %w", c.Exports[i].Path, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

var (
	grants   = map[string]export.Grant{"rw": export.GrantRW, "ro": export.GrantRO, "none": export.GrantNone}
	squashes = map[string]export.Squash{"": export.SquashDefault, "root": export.SquashRoot, "all": export.SquashAll, "none": export.SquashNone}
)

func (c *Config) mount(e *Export) (server.Mount, error) {
	x := &export.Export{
		ID:         e.ID,
		Path:       e.Path,
		ReadOnly:   e.ReadOnly,
		Squash:     squashes[e.Squash],
		AnonUID:    e.AnonUID,
		AnonGID:    e.AnonGID,
		ManageGIDs: e.ManageGIDs,
	}
	if e.FSID != 0 {
		x.FSID = export.FSID{0, e.FSID}
	}
	var versions []export.Version
	for _, s := range e.Versions {
		v, ok := export.ParseVersion(s)
		if !ok {
			return server.Mount{}, fmt.Errorf("NFS version %q", s)
		}
		versions = append(versions, v)
	}
	x.Versions = export.Versions(versions...)
	for _, a := range e.Access {
		for _, s := range a.Clients {
			client, err := export.ParseClient(s)
			if err != nil {
				return server.Mount{}, err
			}
			x.Rules = append(x.Rules, export.Rule{Client: client, Grant: grants[a.Access], Squash: squashes[a.Squash]})
		}
	}
	// Handles name the file system too, so that they turn stale when the export
	// is pointed at another one. Every gateway finds the same number.
	sum := sha256.Sum256([]byte(strings.Join(e.filesystem(), "\x00")))
	x.FSCID = binary.BigEndian.Uint32(sum[:])
	engine, err := c.engine(e)
	return server.Mount{Export: x, Engine: engine}, err
}

// filesystem says which file system e exports, apart from how it is reached.
func (e *Export) filesystem() []string {
	switch e.Engine {
	case "local":
		return []string{e.Engine, e.Local.Root}
	case "libcephfs":
		return []string{e.Engine, e.LibCephFS.Filesystem, e.LibCephFS.Root}
	}
	return []string{e.Engine}
}
