package integration

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
)

// LibNFS runs the tools of libnfs against a server: a second, independent NFS client that needs no root.
type LibNFS struct {
	Net *Net // namespace to run in; nil for the host's
	// Server is the server's address; ServerIP, or 127.0.0.1 without a namespace, if empty.
	Server    string
	Port      int    // of NFS; 2049 if 0
	MountPort int    // of MOUNT, for version 3; Port if 0
	Version   int    // 3 or 4 (4.0: libnfs knows no minor version); 3 if 0
	Export    string // path of the export; "/" if empty
}

// URL returns the nfs:// URL of a path below the export.
func (l LibNFS) URL(path string) string {
	server := l.Server
	switch {
	case server == "" && l.Net == nil:
		server = "127.0.0.1"
	case server == "":
		server = ServerIP
	}
	if ip := net.ParseIP(server); ip != nil && ip.To4() == nil {
		server = "[" + server + "]"
	}
	port := l.Port
	if port == 0 {
		port = 2049
	}
	q := url.Values{"nfsport": {strconv.Itoa(port)}}
	if l.Version == 4 {
		q.Set("version", "4")
	} else {
		mp := l.MountPort
		if mp == 0 {
			mp = port
		}
		q.Set("mountport", strconv.Itoa(mp))
	}
	export := l.Export
	if export == "/" {
		export = ""
	}
	return fmt.Sprintf("nfs://%s%s%s?%s", server, export, path, q.Encode())
}

// Ls lists a directory ("/", "/sub").
func (l LibNFS) Ls(ctx context.Context, path string) (Result, error) {
	return l.Net.Run(ctx, "nfs-ls", l.URL(path))
}

// Cat returns a file's content.
func (l LibNFS) Cat(ctx context.Context, path string) ([]byte, error) {
	r, err := l.Net.Run(ctx, "nfs-cat", l.URL(path))
	return []byte(r.Stdout), err
}

// Put copies a local file to the server.
func (l LibNFS) Put(ctx context.Context, local, path string) error {
	_, err := l.Net.Run(ctx, "nfs-cp", local, l.URL(path))
	return err
}

// Get copies a file from the server.
func (l LibNFS) Get(ctx context.Context, path, local string) error {
	_, err := l.Net.Run(ctx, "nfs-cp", l.URL(path), local)
	return err
}
