package export

import (
	"context"
	"net/netip"
	"time"
)

// Grant is what a [Rule] lets its peers do.
type Grant uint8

// The grants.
const (
	GrantNone Grant = iota // the export does not exist for them
	GrantRO
	GrantRW
)

// String returns the grant as written in the configuration.
func (g Grant) String() string {
	switch g {
	case GrantRO:
		return "ro"
	case GrantRW:
		return "rw"
	}
	return "none"
}

// ParseGrant is the inverse of [Grant.String].
func ParseGrant(s string) (Grant, bool) {
	for _, g := range []Grant{GrantNone, GrantRO, GrantRW} {
		if s == g.String() {
			return g, true
		}
	}
	return 0, false
}

// Rule is one access rule of an [Export].
type Rule struct {
	Client Client
	Grant  Grant
	Squash Squash // SquashDefault: as the export says
}

// AllowAll is the rule that lets everybody read and write.
var AllowAll = Rule{Client: AnyClient, Grant: GrantRW}

// rule finds the first rule of e that matches addr; nil if none does. until is
// when the answer must be asked for again, zero for never. The error is
// [ErrDelay] when it hangs on a host name that cannot be had now: passing over
// a rule could let a peer in that the rule is meant to keep out.
func (t *Table) rule(ctx context.Context, e *Export, addr netip.Addr) (r *Rule, until time.Time, err error) {
	var names []string
	asked := false
	for i := range e.Rules {
		r := &e.Rules[i]
		switch r.Client.kind {
		case clientAny:
			return r, until, nil
		case clientNet:
			if r.Client.prefix.Contains(addr) {
				return r, until, nil
			}
		case clientHost:
			if !asked {
				asked = true
				if names, until, err = t.hosts.Names(ctx, addr); err != nil {
					return nil, until, err
				}
			}
			for _, name := range names {
				if matchHost(r.Client.host, name) {
					return r, until, nil
				}
			}
		}
	}
	return nil, until, nil
}
