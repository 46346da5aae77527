package config

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"

	"capstan/cephfs/libcephfs"
	"capstan/export"
	"capstan/export/billyfs"
	"capstan/export/billyfs/localfs"
	"capstan/export/memory"
	"capstan/server"
)

// engine describes how the Volume of e is opened. Its key holds everything
// that went into it, and the export's id, since a handle table is one export's.
func (c *Config) engine(e *Export) (server.Engine, error) {
	var (
		settings any
		open     func(context.Context, func(error)) (export.Volume, error)
	)
	// Where a path-based engine keeps its handles: one file for each export and
	// file system, so that pointing an export at another one and back loses
	// nothing.
	table := ""
	if c.Server.StateDir != "" {
		sum := sha256.Sum256([]byte(strings.Join(e.filesystem(), "\x00")))
		table = filepath.Join(c.Server.StateDir, fmt.Sprintf("handles-%d-%x.db", e.ID, sum[:4]))
	}
	switch e.Engine {
	case "memory":
		o := e.Memory
		settings = o
		open = func(context.Context, func(error)) (export.Volume, error) {
			return memory.New(memory.Options{MaxBytes: uint64(o.Size), MaxFiles: uint64(o.Files), RootMode: 0o1777})
		}
	case "local":
		o := e.Local
		settings = o
		open = func(context.Context, func(error)) (export.Volume, error) {
			fs, err := localfs.Open(o.Root)
			if err != nil {
				return nil, err
			}
			return serveBilly(fs, table)
		}
	case "libcephfs":
		o := e.LibCephFS
		settings = o
		open = func(_ context.Context, lost func(error)) (export.Volume, error) {
			instance, err := c.instance(e.ID)
			if err != nil {
				return nil, err
			}
			fs, err := libcephfs.Mount(libcephfs.Options{
				Conf: o.Conf, Client: o.Name, Keyring: o.Keyring, Filesystem: o.Filesystem, Root: o.Root,
				Settings: o.Options, SyncMetadata: o.SyncMetadata, Instance: instance, Lost: lost, Warn: warn,
			})
			if err != nil {
				return nil, err
			}
			return serveBilly(fs, table)
		}
	default:
		return server.Engine{}, fmt.Errorf("engine %q", e.Engine)
	}
	key, err := json.Marshal([]any{e.ID, e.Engine, settings, c.Server.StateDir})
	if err != nil {
		return server.Engine{}, err
	}
	return server.Engine{Name: e.Engine, Key: string(key), Open: open}, nil
}

// instance names the mount of an export among those of one Ceph cluster, so
// that the next start finds what a killed one left: by what the state directory
// is called for ever, and the export. Without a state directory nothing tells
// it from others.
func (c *Config) instance(id uint32) (string, error) {
	if c.Server.StateDir == "" {
		return "", nil
	}
	name, err := server.StateName(c.Server.StateDir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("capstan:%s:%d", name, id), nil
}

// warn logs what an engine says while it opens.
func warn(msg string, err error) { slog.Warn(msg, "err", err) }

// owned is a Volume over a file system that it gives back when it closes.
type owned struct {
	*billyfs.Volume
	fs io.Closer
}

// serveBilly makes a Volume of fs, which is its own from then on.
func serveBilly(fs interface {
	billy.Filesystem
	io.Closer
}, table string) (export.Volume, error) {
	v, err := billyfs.NewVolume(fs, billyfs.Options{Table: table})
	if err != nil {
		return nil, errors.Join(err, fs.Close())
	}
	return &owned{v, fs}, nil
}

// Close closes the Volume and what it stands on.
func (o *owned) Close(ctx context.Context) error {
	return errors.Join(o.Volume.Close(ctx), o.fs.Close())
}
