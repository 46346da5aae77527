package rpc

import (
	"fmt"

	"capstan/server/xdr"
)

// Flavor is auth_flavor of RFC 5531 section 8.1.
type Flavor uint32

// The flavors this package knows.
const (
	FlavorNone Flavor = 0 // AUTH_NONE
	FlavorSys  Flavor = 1 // AUTH_SYS
)

func (f Flavor) String() string {
	switch f {
	case FlavorNone:
		return "AUTH_NONE"
	case FlavorSys:
		return "AUTH_SYS"
	}
	return fmt.Sprintf("flavor %d", uint32(f))
}

// Credential is who a caller says it is. For [FlavorNone] all but Flavor is
// zero.
type Credential struct {
	Flavor  Flavor
	Machine string // name of the caller's machine, at most 255 bytes of any value
	UID     uint32
	GID     uint32
	Groups  []uint32 // at most 16
}

// AppendTo encodes c as an opaque_auth (flavor and body). A client uses it; a
// name or a group list above the limits of AUTH_SYS is sent as it is.
func (c *Credential) AppendTo(e *xdr.Encoder) {
	e.Uint32(uint32(c.Flavor))
	at := e.Reserve32()
	from := e.Len()
	if c.Flavor == FlavorSys {
		e.Uint32(0) // stamp: any value, nobody reads it
		e.String(c.Machine)
		e.Uint32(c.UID)
		e.Uint32(c.GID)
		e.Uint32(uint32(len(c.Groups)))
		for _, g := range c.Groups {
			e.Uint32(g)
		}
	}
	e.Patch32(at, uint32(e.Len()-from))
}

// decodeSys reads authsys_parms (RFC 5531 appendix A) from the body of a
// credential. groups is the storage for the group list, intern gives the
// string for a machine name.
func (c *Credential) decodeSys(body []byte, groups *[maxGroups]uint32, intern func([]byte) string) AuthStat {
	var d xdr.Decoder
	d.Reset(body)
	d.Uint32("stamp")
	machine := d.Opaque("machinename", maxMachine)
	c.UID = d.Uint32("uid")
	c.GID = d.Uint32("gid")
	n := d.Count("gids", maxGroups, 4)
	c.Groups = groups[:n]
	for i := range c.Groups {
		c.Groups[i] = d.Uint32("gids")
	}
	if d.Finish() != nil {
		return AuthBadCred
	}
	c.Machine = intern(machine)
	return AuthOK
}
