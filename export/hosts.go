package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Resolver is the part of [net.Resolver] that [Hosts] uses.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// HostsOptions are the options of [NewHosts]; zero values stand for the
// defaults named.
type HostsOptions struct {
	Resolver Resolver      // net.DefaultResolver
	Timeout  time.Duration // of one look-up, both directions: 5 s
	TTL      time.Duration // how long an answer counts: 5 min
	Retry    time.Duration // after a failure: 10 s
	MaxStale time.Duration // how long an old answer stands in for one that fails: 1 h
	Size     int           // peers remembered: 4096
}

// Hosts finds the host names of peers for rules that match by name: the names
// the reverse look-up gives that lead back to the address. Answers are
// remembered; a slow look-up holds up only the peer it is for.
type Hosts struct {
	resolver Resolver
	cache    *lookups[netip.Addr, []string]
}

// maxHostNames bounds how many names of one address are confirmed.
const maxHostNames = 8

// NewHosts returns a look-up without goroutines until it is used.
func NewHosts(o HostsOptions) *Hosts {
	h := &Hosts{resolver: o.Resolver}
	if h.resolver == nil {
		h.resolver = net.DefaultResolver
	}
	h.cache = newLookups(cmp.Or(o.Size, 4096), h.ask)
	h.cache.limit = cmp.Or(o.Timeout, 5*time.Second)
	h.cache.ttl = cmp.Or(o.TTL, 5*time.Minute)
	h.cache.ttlNone = min(h.cache.ttl, time.Minute)
	h.cache.retry = cmp.Or(o.Retry, 10*time.Second)
	h.cache.maxStale = cmp.Or(o.MaxStale, time.Hour)
	return h
}

// Names returns the confirmed names of addr, in lower case and without a dot
// at the end, and until when they count. An address without any has none and
// no error; [ErrDelay] says that they cannot be had now.
func (h *Hosts) Names(ctx context.Context, addr netip.Addr) ([]string, time.Time, error) {
	if !addr.IsValid() { // a connection that is not of the internet
		return nil, time.Time{}, nil
	}
	names, until, err := h.cache.get(ctx, addr)
	if err == error(ErrNoEnt) {
		err = nil
	}
	return names, until, err
}

// Close ends running look-ups and waits for them.
func (h *Hosts) Close() { h.cache.close() }

func (h *Hosts) ask(ctx context.Context, addr netip.Addr) ([]string, error) {
	names, err := h.resolver.LookupAddr(ctx, addr.String())
	if err != nil {
		return nil, hostError(err)
	}
	var confirmed []string
	for _, name := range names[:min(len(names), maxHostNames)] {
		addrs, err := h.resolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			if err := hostError(err); !errors.Is(err, ErrNoEnt) {
				return nil, err
			}
			continue
		}
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap().WithZone("") == addr }) {
			confirmed = append(confirmed, strings.TrimSuffix(strings.ToLower(name), "."))
		}
	}
	if confirmed == nil {
		return nil, ErrNoEnt
	}
	return confirmed, nil
}

// hostError tells "there is no such name" from everything else.
func hostError(err error) error {
	if d, ok := errors.AsType[*net.DNSError](err); ok && d.IsNotFound && !d.IsTemporary && !d.IsTimeout {
		return ErrNoEnt
	}
	return fmt.Errorf("host name: %w", err)
}
