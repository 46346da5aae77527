package nfstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"capstan/export"
	"capstan/export/memory"
	"capstan/server/nfs3"
	"capstan/server/nfs4"
	"capstan/server/nfs4/state"
	"capstan/server/rpc"
)

// Options configures a [Server]. The zero value is good.
type Options struct {
	// Exports are what is served; nil stands for "/data", read-write without
	// squash, of a new memory volume.
	Exports []*export.Export
	// Table are options of the table, a fixed key for instance.
	Table []export.Option
	State state.Options
	NFS4  nfs4.Options // but for Exports, OpenFiles and State
	NFS3  nfs3.Options
	RPC   rpc.Options
}

// Server is a whole server in this process: state, NFSv4, NFSv3 and MOUNT over
// package rpc.
type Server struct {
	Exports   *export.Exports
	OpenFiles *export.OpenFiles
	State     *state.Store
	NFS4      *nfs4.Server
	NFS3      *nfs3.Server
	RPC       *rpc.Server

	serving sync.WaitGroup
}

// NewVolume returns an empty memory volume whose root everybody may write.
func NewVolume() (*memory.Volume, error) { return memory.New(memory.Options{RootMode: 0o777}) }

// Export describes an export to everybody, without squash.
func Export(id uint32, path string, v export.Volume) *export.Export {
	return &export.Export{ID: id, Path: path, Volume: v, Squash: export.SquashNone, Rules: []export.Rule{export.AllowAll}}
}

// NewServer starts a server, without a listener. [Server.Close] ends it; the
// Volumes stay the caller's.
func NewServer(ctx context.Context, o Options) (*Server, error) {
	if o.Exports == nil {
		v, err := NewVolume()
		if err != nil {
			return nil, err
		}
		o.Exports = []*export.Export{Export(1, "/data", v)}
	}
	table, err := export.NewTable(ctx, o.Exports, o.Table...)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Exports:   export.NewExports(table),
		OpenFiles: export.NewOpenFiles(export.OpenFilesOptions{}),
	}
	if s.State, err = state.New(o.State); err != nil {
		return nil, err
	}
	if o.NFS4.ServerOwner == "" {
		o.NFS4.ServerOwner = "nfstest"
	}
	o.NFS4.Exports, o.NFS4.OpenFiles, o.NFS4.State = s.Exports, s.OpenFiles, s.State
	if s.NFS4, err = nfs4.New(o.NFS4); err != nil {
		return nil, errors.Join(err, s.State.Close(ctx))
	}
	s.NFS3 = nfs3.New(s.Exports, s.OpenFiles, o.NFS3)
	s.RPC = rpc.NewServer(o.RPC)
	for _, p := range []rpc.Program{s.NFS3.NFS(), s.NFS3.Mount(), s.NFS4} {
		s.RPC.Register(p)
	}
	return s, nil
}

// Pipe returns a connection to the server in memory.
func (s *Server) Pipe() (net.Conn, error) {
	here, there := net.Pipe()
	if s.RPC.ServeConn(there) == nil {
		here.Close()
		return nil, errors.New("nfstest: the server takes no more connections")
	}
	return here, nil
}

// Connect returns a connection in memory with a credential.
func (s *Server) Connect(cred rpc.Credential) (*Conn, error) {
	nc, err := s.Pipe()
	if err != nil {
		return nil, err
	}
	return NewConn(nc, cred), nil
}

// Listen serves a port of the loopback and returns its address.
func (s *Server) Listen() (net.Addr, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.serving.Go(func() { _ = s.RPC.Serve(l) }) // ends with Close
	return l.Addr(), nil
}

// Dial connects over TCP to what Listen returned.
func Dial(addr net.Addr, cred rpc.Credential) (*Conn, error) {
	nc, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		return nil, err
	}
	return NewConn(nc, cred), nil
}

// Close ends the server in order.
func (s *Server) Close(ctx context.Context) error {
	err := s.RPC.Shutdown(ctx)
	s.serving.Wait()
	err = errors.Join(err, s.State.Close(ctx))
	s.OpenFiles.Close()
	if err != nil {
		return fmt.Errorf("nfstest: %w", err)
	}
	return nil
}
