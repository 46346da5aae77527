package export

import "slices"

// Cred is the identity a call is made with, after squashing. It is shared by
// many calls and never changed.
type Cred struct {
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary groups, without GID
	Client string   // who asks, for logs and lock tables: host name or address
	system bool     // made by System: passes every check
}

// System returns a credential that passes every permission check, for what
// the server does on its own behalf after it has checked by other means.
func System() *Cred { return systemCred }

var systemCred = &Cred{Client: "capstan", system: true}

// IsSystem reports whether c is [System].
func (c *Cred) IsSystem() bool { return c.system }

// Privileged reports whether c overrides permission bits: the superuser that
// no squash took the right from.
func (c *Cred) Privileged() bool { return c.system || c.UID == 0 }

// InGroup reports whether gid is the caller's group or one of its others.
func (c *Cred) InGroup(gid uint32) bool {
	return c.GID == gid || slices.Contains(c.Groups, gid)
}
