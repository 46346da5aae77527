package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"path"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5"
	gonfs "github.com/willscott/go-nfs"
)

// GoNFS serves a billy.Filesystem with go-nfs, an NFSv3 server that somebody else wrote: what it serves of a Volume
// shows that the Volume is seen rightly as a billy.Filesystem, and it is what capstan is measured against.
//
// It has faults that no filesystem can mend, so it is asked for little: no hard links, no exclusive create, no
// create over a file that is there, and one mount in its life, since its handles are paths.
type GoNFS struct {
	Port int // of NFS and MOUNT, on the address that it was started with

	l    net.Listener
	done chan struct{}
}

// StartGoNFS starts a server of fs at ServerIP in n, or on loopback if n is nil.
func StartGoNFS(ctx context.Context, n *Net, fs billy.Filesystem) (*GoNFS, error) {
	ip := "127.0.0.1"
	if n != nil {
		ip = ServerIP
	}
	l, err := n.Listen(ctx, "tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return nil, err
	}
	s := &GoNFS{Port: l.Addr().(*net.TCPAddr).Port, l: l, done: make(chan struct{})}
	h := &goNFSHandler{fs: fs, paths: map[uint64]string{}, ids: map[string]uint64{}}
	go func() {
		defer close(s.done)
		_ = gonfs.Serve(l, h) // ends when the listener is closed
	}()
	return s, nil
}

// Mount is a mount of the server.
func (s *GoNFS) Mount() NFSMount { return NFSMount{Version: "3", Port: s.Port, Path: "/"} }

// Close stops accepting. Connections end with their clients.
func (s *GoNFS) Close() error {
	err := s.l.Close()
	<-s.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// goNFSHandler numbers paths: go-nfs comes with a handler that does so too, but looks through all of them at every
// call.
type goNFSHandler struct {
	fs billy.Filesystem

	mu    sync.Mutex
	paths map[uint64]string // guarded by mu
	ids   map[string]uint64 // guarded by mu
}

var _ gonfs.Handler = (*goNFSHandler)(nil)

func (h *goNFSHandler) Mount(context.Context, net.Conn, gonfs.MountRequest) (gonfs.MountStatus, billy.Filesystem, []gonfs.AuthFlavor) {
	return gonfs.MountStatusOk, h.fs, []gonfs.AuthFlavor{gonfs.AuthFlavorUnix, gonfs.AuthFlavorNull}
}

func (h *goNFSHandler) Change(fs billy.Filesystem) billy.Change {
	c, _ := fs.(billy.Change)
	return c
}

func (h *goNFSHandler) FSStat(context.Context, billy.Filesystem, *gonfs.FSStat) error { return nil }

func (h *goNFSHandler) ToHandle(_ billy.Filesystem, p []string) []byte {
	name := path.Join(p...)
	h.mu.Lock()
	defer h.mu.Unlock()
	id, ok := h.ids[name]
	if !ok {
		id = uint64(len(h.ids)) + 1
		h.ids[name], h.paths[id] = id, name
	}
	return binary.BigEndian.AppendUint64(nil, id)
}

func (h *goNFSHandler) FromHandle(b []byte) (billy.Filesystem, []string, error) {
	if len(b) != 8 {
		return nil, nil, &gonfs.NFSStatusError{NFSStatus: gonfs.NFSStatusBadHandle}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name, ok := h.paths[binary.BigEndian.Uint64(b)]
	switch {
	case !ok:
		return nil, nil, &gonfs.NFSStatusError{NFSStatus: gonfs.NFSStatusStale}
	case name == "":
		return h.fs, nil, nil
	}
	return h.fs, strings.Split(name, "/"), nil
}

// InvalidateHandle keeps the number of a path: another object of that name gets the same handle, which a client
// takes for a change of the file.
func (h *goNFSHandler) InvalidateHandle(billy.Filesystem, []byte) error { return nil }

// HandleLimit bounds the entries of one reply, to half of it.
func (h *goNFSHandler) HandleLimit() int { return 1 << 16 }
