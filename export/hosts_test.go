package export

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeDNS answers from two maps; what is not there does not exist.
type fakeDNS struct {
	mu      sync.Mutex // guards what follows
	names   map[string][]string
	addrs   map[string][]string
	failing map[string]error // by address or name
	hanging map[string]bool
	asked   int
}

func (d *fakeDNS) lookup(ctx context.Context, from map[string][]string, key string) ([]string, error) {
	d.mu.Lock()
	d.asked++
	out, fail, hangs := from[key], d.failing[key], d.hanging[key]
	d.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return nil, &net.DNSError{Err: ctx.Err().Error(), Name: key, IsTimeout: true}
	case fail != nil:
		return nil, fail
	case out == nil:
		return nil, &net.DNSError{Err: "no such host", Name: key, IsNotFound: true}
	}
	return out, nil
}

func (d *fakeDNS) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return d.lookup(ctx, d.names, addr)
}

func (d *fakeDNS) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	texts, err := d.lookup(ctx, d.addrs, host)
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, err
}

// newFakeDNS knows 10.0.0.1 as node1.example.org and 10.0.0.2 as itself says
// node1.example.org too, but the name does not lead back to it.
func newFakeDNS() *fakeDNS {
	return &fakeDNS{
		names: map[string][]string{
			"10.0.0.1":    {"Node1.Example.org.", "old.example.org."},
			"10.0.0.2":    {"node1.example.org."},
			"2001:db8::7": {"node7.example.org."},
		},
		addrs: map[string][]string{
			"Node1.Example.org.": {"192.0.2.1", "::ffff:10.0.0.1"},
			"node1.example.org.": {"10.0.0.1"},
			"old.example.org.":   {"10.9.9.9"},
			"node7.example.org.": {"10.0.0.7", "2001:db8::7"},
		},
		failing: map[string]error{},
		hanging: map[string]bool{},
	}
}

func TestHostsNames(t *testing.T) {
	h := NewHosts(HostsOptions{Resolver: newFakeDNS()})
	defer h.Close()
	for addr, want := range map[string][]string{
		"10.0.0.1": {"node1.example.org"}, "10.0.0.2": nil, "10.0.0.3": nil, "2001:db8::7": {"node7.example.org"},
	} {
		got, _, err := h.Names(t.Context(), netip.MustParseAddr(addr))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", addr, got, err)
		}
	}
}

func TestHostsNoAddress(t *testing.T) {
	dns := newFakeDNS()
	h := NewHosts(HostsOptions{Resolver: dns})
	defer h.Close()
	if names, _, err := h.Names(t.Context(), netip.Addr{}); err != nil || names != nil || dns.asked != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestEnterByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := newFakeDNS()
		hosts := NewHosts(HostsOptions{Resolver: dns})
		defer hosts.Close()
		e := &Export{Rules: []Rule{
			{Client: client(t, "10.5.0.0/16"), Grant: GrantRO},
			{Client: client(t, "node?.example.org"), Grant: GrantRW},
			{Client: client(t, "10.0.0.2"), Grant: GrantRO},
			{Client: client(t, "*.example.org"), Grant: GrantNone},
		}}
		table := oneExport(t, e, WithHosts(hosts))
		enter := func(addr string) (string, time.Duration) {
			begin := time.Now()
			r, err := table.Enter(t.Context(), peer(addr, 1, 1), e, Version42)
			switch {
			case errors.Is(err, ErrDelay):
				return "delay", time.Since(begin)
			case err != nil:
				return "none", time.Since(begin)
			case r.ReadOnly:
				return "ro", time.Since(begin)
			}
			return "rw", time.Since(begin)
		}
		for addr, want := range map[string]string{
			"10.0.0.1": "rw", "2001:db8::7": "rw", "10.0.0.2": "ro", "10.0.0.3": "none", "10.5.0.1": "ro",
		} {
			if got, _ := enter(addr); got != want {
				t.Errorf("%s: %s, want %s", addr, got, want)
			}
		}
		n := dns.asked
		enter("10.0.0.1")
		if dns.asked != n {
			t.Error("asked again at once")
		}
		// A rule by name that cannot be decided is not passed over.
		dns.mu.Lock()
		dns.hanging["10.0.0.9"] = true
		dns.failing["10.0.0.10"] = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
		dns.mu.Unlock()
		if got, took := enter("10.0.0.9"); got != "delay" || took != 5*time.Second {
			t.Errorf("a name server that hangs: %s after %v", got, took)
		}
		if got, _ := enter("10.0.0.10"); got != "delay" {
			t.Errorf("a name server that fails: %s", got)
		}
		// While it hangs for one, others are not held up; not even that one by
		// rules before those by name.
		if got, took := enter("10.0.0.1"); got != "rw" || took != 0 {
			t.Errorf("%s after %v", got, took)
		}
		// Who was known keeps his rights while the name server is away.
		dns.mu.Lock()
		dns.hanging["10.0.0.1"] = true
		dns.mu.Unlock()
		for range 10 {
			time.Sleep(5 * time.Minute)
			if got, took := enter("10.0.0.1"); got != "rw" || took != 0 {
				t.Errorf("%s after %v", got, took)
			}
		}
	})
}

func TestHostsConfirmFails(t *testing.T) {
	dns := newFakeDNS()
	dns.failing["Node1.Example.org."] = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	h := NewHosts(HostsOptions{Resolver: dns})
	defer h.Close()
	if names, _, err := h.Names(t.Context(), netip.MustParseAddr("10.0.0.1")); !errors.Is(err, ErrDelay) {
		t.Errorf("%v, %v", names, err)
	}
}
