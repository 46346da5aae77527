package portmap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"capstan/server/rpc"
	"capstan/server/xdr"
)

// The numbers of RFC 1833.
const (
	program     = 100000
	versPortmap = 2
	versRpcbind = 4

	procSet   = 1 // PMAPPROC_SET, RPCBPROC_SET
	procUnset = 2 // PMAPPROC_UNSET, RPCBPROC_UNSET

	ipprotoTCP = 6
)

// Service is one program in one version, reachable by TCP.
type Service struct {
	Name    string // for messages
	Program uint32
	Version uint32
}

// NFS are the services of an NFS server that speaks versions 3 and 4.
var NFS = []Service{
	{"nfs v3", 100003, 3},
	{"nfs v4", 100003, 4},
	{"mountd v3", 100005, 3},
}

// Registrar registers services. The zero value speaks to rpcbind on the usual
// address.
type Registrar struct {
	// Addr is where rpcbind is, "127.0.0.1:111" if empty.
	Addr string
	// Timeout is the time for one connection and its calls, 3 s if zero.
	Timeout time.Duration
}

// ErrRefused is the answer of an rpcbind that does not do what it was asked.
var ErrRefused = errors.New("rpcbind refused: it may take registrations from root only, or the service may be registered by another server")

// Register registers the services at the port of addr, for IPv4, IPv6 or both,
// as the address says: an IPv4 address, an IPv6 address, or :: for both. What
// was registered for them before, by a server that has died for instance, is
// replaced. The error names every service that could not be registered; the
// others are.
func (r Registrar) Register(ctx context.Context, services []Service, addr netip.AddrPort) error {
	return r.each(ctx, services, func(c *conn, s Service) error {
		// SET fails for a service that is registered. Nothing to unset is fine.
		c.unset(ctx, s, addr.Addr())
		return c.set(ctx, s, addr)
	})
}

// Unregister takes the services back.
func (r Registrar) Unregister(ctx context.Context, services []Service, addr netip.AddrPort) error {
	return r.each(ctx, services, func(c *conn, s Service) error { return c.unset(ctx, s, addr.Addr()) })
}

func (r Registrar) each(ctx context.Context, services []Service, do func(*conn, Service) error) error {
	timeout := r.Timeout
	if timeout == 0 {
		timeout = 3 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := r.dial(ctx)
	if err != nil {
		return fmt.Errorf("rpcbind: %w (is it installed and running?)", err)
	}
	defer c.Close()
	var errs []error
	for _, s := range services {
		if err := do(c, s); err != nil {
			errs = append(errs, fmt.Errorf("rpcbind: %s (program %d): %w", s.Name, s.Program, err))
		}
	}
	return errors.Join(errs...)
}

type conn struct{ *rpc.Client }

// dial connects to rpcbind, as root from a privileged port if one is free.
func (r Registrar) dial(ctx context.Context) (*conn, error) {
	addr := r.Addr
	if addr == "" {
		addr = "127.0.0.1:111"
	}
	host, _ := os.Hostname()
	opt := rpc.ClientOptions{Credential: rpc.Credential{
		Flavor: rpc.FlavorSys, Machine: host, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}}
	if os.Getuid() == 0 {
		for port := 1023; port >= 600; port-- {
			d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
			nc, err := d.DialContext(ctx, "tcp", addr)
			if err == nil {
				return &conn{rpc.NewClient(nc, opt)}, nil
			}
			if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
				return nil, err
			}
		}
	}
	c, err := rpc.Dial(ctx, "tcp", addr, opt)
	if err != nil {
		return nil, err
	}
	return &conn{c}, nil
}

// owner is what rpcbind remembers as the one who registered.
const owner = "capstan"

// netids are the names of TCP over the families that a listener at addr serves,
// with the address to register for each.
func netids(addr netip.Addr) map[string]netip.Addr {
	switch {
	case addr.Is4() || addr.Is4In6():
		return map[string]netip.Addr{"tcp": addr.Unmap()}
	case addr == netip.IPv6Unspecified() || !addr.IsValid():
		return map[string]netip.Addr{"tcp": netip.IPv4Unspecified(), "tcp6": netip.IPv6Unspecified()}
	}
	return map[string]netip.Addr{"tcp6": addr.WithZone("")}
}

// uaddr is the universal address of RFC 5665 section 5.2.3: address, then the
// two bytes of the port, with dots between.
func uaddr(a netip.AddrPort) string {
	return fmt.Sprintf("%s.%d.%d", a.Addr(), a.Port()>>8, a.Port()&0xff)
}

func (c *conn) set(ctx context.Context, s Service, addr netip.AddrPort) error {
	var errs []error
	for netid, a := range netids(addr.Addr()) {
		err := c.rpcb(ctx, procSet, s, netid, uaddr(netip.AddrPortFrom(a, addr.Port())))
		if old(err) {
			if netid != "tcp" {
				continue // portmap v2 cannot say it
			}
			err = c.pmap(ctx, procSet, s, addr.Port())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", netid, err))
		}
	}
	return errors.Join(errs...)
}

func (c *conn) unset(ctx context.Context, s Service, addr netip.Addr) error {
	var errs []error
	for netid := range netids(addr) {
		err := c.rpcb(ctx, procUnset, s, netid, "")
		if old(err) {
			if netid != "tcp" {
				continue
			}
			err = c.pmap(ctx, procUnset, s, 0)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", netid, err))
		}
	}
	return errors.Join(errs...)
}

// old reports whether err is the answer of a portmapper without version 4.
func old(err error) bool {
	var e *rpc.ReplyError
	return errors.As(err, &e) && e.Stat == rpc.ProgMismatch
}

// rpcb makes a call of version 4; its argument is struct rpcb.
func (c *conn) rpcb(ctx context.Context, proc uint32, s Service, netid, addr string) error {
	return c.call(ctx, versRpcbind, proc, func(e *xdr.Encoder) {
		e.Uint32(s.Program)
		e.Uint32(s.Version)
		e.String(netid)
		e.String(addr)
		e.String(owner)
	})
}

// pmap makes a call of version 2; its argument is struct mapping.
func (c *conn) pmap(ctx context.Context, proc uint32, s Service, port uint16) error {
	return c.call(ctx, versPortmap, proc, func(e *xdr.Encoder) {
		e.Uint32(s.Program)
		e.Uint32(s.Version)
		e.Uint32(ipprotoTCP)
		e.Uint32(uint32(port))
	})
}

func (c *conn) call(ctx context.Context, version, proc uint32, args func(*xdr.Encoder)) error {
	reply, err := c.Call(ctx, program, version, proc, args)
	if err != nil {
		return err
	}
	defer reply.Release()
	done := reply.Results.Bool("result")
	if err := reply.Results.Finish(); err != nil {
		return err
	}
	if !done {
		return ErrRefused
	}
	return nil
}
