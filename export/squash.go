package export

import "slices"

// Squash says whose identity a peer's callers lose.
type Squash uint8

// The kinds of squashing.
const (
	// SquashDefault is SquashRoot in an [Export], and in a [Rule] whatever the
	// export says.
	SquashDefault Squash = iota
	// SquashRoot makes uid 0 anonymous, and gid 0 wherever it is the caller's
	// group or one of its others.
	SquashRoot
	// SquashAll makes everybody anonymous.
	SquashAll
	// SquashNone trusts what the caller says.
	SquashNone
)

// String returns the kind as written in the configuration.
func (s Squash) String() string {
	switch s {
	case SquashAll:
		return "all"
	case SquashNone:
		return "none"
	}
	return "root"
}

// ParseSquash is the inverse of [Squash.String].
func ParseSquash(s string) (Squash, bool) {
	for _, q := range []Squash{SquashRoot, SquashAll, SquashNone} {
		if s == q.String() {
			return q, true
		}
	}
	return 0, false
}

// invalidID is the id that means "none" in the kernel; who sends it is
// anonymous however little is squashed.
const invalidID = ^uint32(0)

// squash returns the credential that uid, gid and groups of a peer have on e.
// groups is not kept.
func squash(e *Export, s Squash, uid, gid uint32, groups []uint32) *Cred {
	anonUID, anonGID := e.anon()
	c := &Cred{UID: uid, GID: gid}
	if s == SquashAll {
		c.UID, c.GID = anonUID, anonGID
		return c
	}
	if uid == invalidID || uid == 0 && s != SquashNone {
		c.UID = anonUID
	}
	if gid == invalidID || gid == 0 && s != SquashNone {
		c.GID = anonGID
	}
	if len(groups) == 0 {
		return c
	}
	c.Groups = make([]uint32, 0, len(groups))
	for _, g := range groups {
		if g == 0 && s != SquashNone {
			g = anonGID
		}
		if g != invalidID && g != c.GID {
			c.Groups = append(c.Groups, g)
		}
	}
	slices.Sort(c.Groups)
	c.Groups = slices.Compact(c.Groups)
	return c
}
