package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// NFSMount is a mount of an NFS server in a guest.
type NFSMount struct {
	// Version is "3", "4.0", "4.1" or "4.2"; "4.2" if empty.
	Version string
	// Server is the server's address; ServerIP if empty.
	Server string
	// Port is the TCP port of NFS and, for version 3, of MOUNT; 2049 if 0.
	Port int
	// MountPort is the port of MOUNT for version 3, if it is not Port.
	MountPort int
	// Path is what to mount: a path in the pseudo-root for 4, an exported path for 3. "/" if empty.
	Path string
	// Options are further mount options ("actimeo=0", "soft", "nconnect=4"), comma separated.
	Options string
}

// String names the protocol for the list of peers.
func (m NFSMount) String() string { return "nfs" + m.version() }

func (m NFSMount) version() string {
	if m.Version == "" {
		return "4.2"
	}
	return m.Version
}

// argv returns the mount command for a mount point.
func (m NFSMount) argv(at string) []string {
	port := m.Port
	if port == 0 {
		port = 2049
	}
	server := m.Server
	if server == "" {
		server = ServerIP
	}
	proto := "tcp"
	if ip := net.ParseIP(server); ip != nil && ip.To4() == nil {
		server, proto = "["+server+"]", "tcp6"
	}
	path := m.Path
	if path == "" {
		path = "/"
	}
	fstype := "nfs4"
	opts := []string{"vers=" + m.version(), fmt.Sprintf("port=%d", port), "proto=" + proto}
	if m.version() == "3" {
		fstype = "nfs"
		mountPort := m.MountPort
		if mountPort == 0 {
			mountPort = port
		}
		opts = append(opts, "nolock", fmt.Sprintf("mountport=%d", mountPort), "mountproto="+proto)
	}
	if m.Options != "" {
		opts = append(opts, m.Options)
	}
	return []string{"mount", "-t", fstype, "-o", strings.Join(opts, ","), server + ":" + path, at}
}

// CephMount is a native mount of a cluster's file system in a guest, through the kernel's CephFS client.
type CephMount struct {
	Cluster *Cluster
	// FS is the file system's name; the cluster's first if empty.
	FS string
	// Path inside the file system; "/" if empty.
	Path string
	// Client is the name of the key ("admin" if empty).
	Client string
	// Mode is the kernel's ms_mode: "crc" (the default), "secure", "prefer-crc", "prefer-secure" or "legacy".
	Mode string
	// Options are further mount options, comma separated.
	Options string
}

// String names the protocol for the list of peers.
func (m CephMount) String() string { return "ceph.ko " + m.mode() }

func (m CephMount) mode() string {
	if m.Mode == "" {
		return "crc"
	}
	return m.Mode
}

func (m CephMount) argv(ctx context.Context, at string) ([]string, error) {
	client := m.Client
	if client == "" {
		client = "admin"
	}
	key, err := m.Cluster.Secret(ctx, client)
	if err != nil {
		return nil, err
	}
	fs := m.FS
	if fs == "" {
		fs = m.Cluster.FSName()
	}
	path := m.Path
	if path == "" {
		path = "/"
	}
	// The kernel wants the monitors' v2 ports for every mode but legacy.
	mons := m.Cluster.MonAddrs(m.mode() != "legacy")
	opts := []string{"name=" + client, "secret=" + key, "mds_namespace=" + fs, "ms_mode=" + m.mode()}
	if m.Options != "" {
		opts = append(opts, m.Options)
	}
	// -i: without mount.ceph, which would read the host's configuration.
	return []string{"mount", "-i", "-t", "ceph", "-o", strings.Join(opts, ","), strings.Join(mons, ",") + ":" + path, at}, nil
}

// MountNFS mounts an NFS server on a new directory and returns its path in the guest.
func (g *Guest) MountNFS(ctx context.Context, m NFSMount) (at string, err error) {
	at = g.mountPoint()
	return at, g.mount(ctx, at, m.argv(at))
}

// MountCeph mounts CephFS natively on a new directory and returns its path in the guest.
func (g *Guest) MountCeph(ctx context.Context, m CephMount) (at string, err error) {
	at = g.mountPoint()
	argv, err := m.argv(ctx, at)
	if err != nil {
		return "", err
	}
	return at, g.mount(ctx, at, argv)
}

func (g *Guest) mountPoint() string { return fmt.Sprintf("/mnt/%d", g.mounts.Add(1)) }

func (g *Guest) mount(ctx context.Context, at string, argv []string) error {
	if _, err := g.Run(ctx, "mkdir", "-p", at); err != nil {
		return err
	}
	if _, err := g.Run(ctx, argv...); err != nil {
		return errors.Join(err, g.rmdir(ctx, at))
	}
	return nil
}

func (g *Guest) rmdir(ctx context.Context, at string) error {
	_, err := g.Run(ctx, "rmdir", at)
	return err
}

// Unmount unmounts what MountNFS or MountCeph mounted.
func (g *Guest) Unmount(ctx context.Context, at string) error {
	if _, err := g.Run(ctx, "umount", at); err != nil {
		return err
	}
	return g.rmdir(ctx, at)
}

// ForceUnmount gets rid of a mount whose server may be gone: programs using it are killed by their errors, and
// what was not written is lost.
func (g *Guest) ForceUnmount(ctx context.Context, at string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := g.Run(ctx, "umount", "-f", "-l", at); err != nil {
		return err
	}
	return g.rmdir(ctx, at)
}
