package server

import (
	"context"
	"net"

	"capstan/server/rpc/portmap"
)

// register tells this host's rpcbind about the programs at every address, and
// takes them back at Shutdown. That it cannot is a warning: NFSv4 does not need
// it, and NFSv3 clients can name the port.
func (s *Server) register(ctx context.Context) {
	var r portmap.Registrar
	for _, l := range s.listeners {
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		at := addr.AddrPort()
		if err := r.Register(ctx, portmap.NFS, at); err != nil {
			s.log.Warn("not registered with rpcbind", "address", at, "err", err)
			continue
		}
		s.closers = append(s.closers, func(ctx context.Context) error {
			if err := r.Unregister(ctx, portmap.NFS, at); err != nil {
				s.log.Warn("not taken back from rpcbind", "address", at, "err", err)
			}
			return nil
		})
	}
}
