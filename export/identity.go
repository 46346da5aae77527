package export

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// IdentityOptions are the options of [NewIdentity]; zero values stand for the
// defaults named.
type IdentityOptions struct {
	// Domain is what stands behind the @ in owners of NFSv4. Without one,
	// owners are numbers in both directions, which is what Linux clients expect
	// with AUTH_SYS.
	Domain string

	Getent      Getent        // RunGetent
	Timeout     time.Duration // of one look-up: 5 s
	TTL         time.Duration // how long an answer counts: 10 min
	NegativeTTL time.Duration // how long an id counts as unknown: 1 min
	Retry       time.Duration // after a failure: 10 s
	MaxStale    time.Duration // how long an old answer stands in for one that fails: 1 h
	Size        int           // answers remembered of each kind: 4096
	Parallel    int           // look-ups at the same time: 16
}

// Identity is the server's user database: the groups of users, and the names
// of users and groups as NFSv4 writes them. Answers are remembered, also that
// there is none. Its methods may be called from several goroutines at once.
type Identity struct {
	domain string
	getent Getent
	slots  chan struct{} // one per look-up that may run

	groups    *lookups[uint32, []uint32]
	userName  *lookups[uint32, string]
	groupName *lookups[uint32, string]
	userID    *lookups[string, uint32]
	groupID   *lookups[string, uint32]
}

// NewIdentity returns a user database without goroutines until it is used.
func NewIdentity(o IdentityOptions) *Identity {
	i := &Identity{
		domain: strings.ToLower(o.Domain),
		getent: o.Getent,
		slots:  make(chan struct{}, cmp.Or(o.Parallel, 16)),
	}
	if i.getent == nil {
		i.getent = RunGetent
	}
	i.groups = newIdentityLookups(&o, i.askGroups)
	i.userName = newIdentityLookups(&o, func(ctx context.Context, uid uint32) (string, error) {
		return i.askName(ctx, "passwd", uid)
	})
	i.groupName = newIdentityLookups(&o, func(ctx context.Context, gid uint32) (string, error) {
		return i.askName(ctx, "group", gid)
	})
	i.userID = newIdentityLookups(&o, func(ctx context.Context, name string) (uint32, error) {
		return i.askID(ctx, "passwd", name)
	})
	i.groupID = newIdentityLookups(&o, func(ctx context.Context, name string) (uint32, error) {
		return i.askID(ctx, "group", name)
	})
	return i
}

func newIdentityLookups[K comparable, V any](o *IdentityOptions, ask func(context.Context, K) (V, error)) *lookups[K, V] {
	l := newLookups(cmp.Or(o.Size, 4096), ask)
	l.limit = cmp.Or(o.Timeout, 5*time.Second)
	l.ttl = cmp.Or(o.TTL, 10*time.Minute)
	l.ttlNone = cmp.Or(o.NegativeTTL, time.Minute)
	l.retry = cmp.Or(o.Retry, 10*time.Second)
	l.maxStale = cmp.Or(o.MaxStale, time.Hour)
	return l
}

// Close ends running look-ups and waits for them.
func (i *Identity) Close() {
	i.groups.close()
	i.userName.close()
	i.groupName.close()
	i.userID.close()
	i.groupID.close()
}

// Groups returns all groups of uid, its own first, and until when they count.
// The error is [ErrNoEnt] for a user not known here, [ErrDelay] if the database
// gives no answer. The slice is not to be changed.
func (i *Identity) Groups(ctx context.Context, uid uint32) ([]uint32, time.Time, error) {
	return i.groups.get(ctx, uid)
}

// AppendOwner appends the NFSv4 owner string of uid (RFC 8881 section 5.9) to
// dst: name@domain if there is a domain and uid has a name, else the number.
func (i *Identity) AppendOwner(ctx context.Context, dst []byte, uid uint32) []byte {
	return i.appendOwner(ctx, dst, i.userName, uid)
}

// AppendGroup does for a group what AppendOwner does for a user.
func (i *Identity) AppendGroup(ctx context.Context, dst []byte, gid uint32) []byte {
	return i.appendOwner(ctx, dst, i.groupName, gid)
}

// OwnerString returns what [Identity.AppendOwner] appends.
func (i *Identity) OwnerString(ctx context.Context, uid uint32) string {
	return string(i.AppendOwner(ctx, nil, uid))
}

// GroupString returns what [Identity.AppendGroup] appends.
func (i *Identity) GroupString(ctx context.Context, gid uint32) string {
	return string(i.AppendGroup(ctx, nil, gid))
}

// ParseOwner returns the uid an owner string stands for: a decimal number
// without leading zeros, or name@domain. The error is [ErrBadOwner] for a name
// or domain not known here, [ErrDelay] if the database gives no answer.
func (i *Identity) ParseOwner(ctx context.Context, s string) (uint32, error) {
	return i.parseOwner(ctx, s, i.userID)
}

// ParseGroup does for a group what ParseOwner does for a user.
func (i *Identity) ParseGroup(ctx context.Context, s string) (uint32, error) {
	return i.parseOwner(ctx, s, i.groupID)
}

func (i *Identity) appendOwner(ctx context.Context, dst []byte, names *lookups[uint32, string], id uint32) []byte {
	if i.domain != "" {
		if name, _, err := names.get(ctx, id); err == nil {
			dst = append(dst, name...)
			dst = append(dst, '@')
			return append(dst, i.domain...)
		}
	}
	return strconv.AppendUint(dst, uint64(id), 10)
}

func (i *Identity) parseOwner(ctx context.Context, s string, ids *lookups[string, uint32]) (uint32, error) {
	if id, ok := parseID(s); ok {
		return id, nil
	}
	at := strings.LastIndexByte(s, '@')
	if i.domain == "" || at < 0 || !strings.EqualFold(s[at+1:], i.domain) || !askable(s[:at]) {
		return 0, ErrBadOwner
	}
	id, _, err := ids.get(ctx, s[:at])
	if err == error(ErrNoEnt) {
		err = ErrBadOwner
	}
	return id, err
}

// parseID reads a number as RFC 8881 section 5.9 wants it: decimal digits
// without leading zeros.
func parseID(s string) (uint32, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || s[0] == '+' {
		return 0, false
	}
	id, err := strconv.ParseUint(s, 10, 32)
	return uint32(id), err == nil && id != uint64(invalidID)
}

// maxAccount is the longest name that is asked for, in bytes.
const maxAccount = 256

// askable reports whether a name of a client can be handed to getent: not an
// option, not a number, nothing that cannot be in a name.
func askable(name string) bool {
	if name == "" || len(name) > maxAccount || name[0] == '-' {
		return false
	}
	if _, number := parseID(name); number {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == ':' || r == ',' }) < 0
}

// ask runs one look-up when there is a slot for it.
func (i *Identity) ask(ctx context.Context, database, key string) ([]byte, error) {
	select {
	case i.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-i.slots }()
	return i.getent(ctx, database, key)
}

func (i *Identity) askGroups(ctx context.Context, uid uint32) ([]uint32, error) {
	out, err := i.ask(ctx, "passwd", strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil, err
	}
	a, err := parseAccount(out, true)
	if err != nil {
		return nil, err
	}
	if a.id != uid {
		return nil, ErrNoEnt // a user whose name is this number
	}
	if out, err = i.ask(ctx, "initgroups", a.name); err != nil {
		return nil, err
	}
	others, err := parseInitgroups(out, a.name)
	if err != nil {
		return nil, err
	}
	others = slices.DeleteFunc(others, func(g uint32) bool { return g == a.gid })
	return append([]uint32{a.gid}, others...), nil
}

func (i *Identity) askName(ctx context.Context, database string, id uint32) (string, error) {
	out, err := i.ask(ctx, database, strconv.FormatUint(uint64(id), 10))
	if err != nil {
		return "", err
	}
	a, err := parseAccount(out, database == "passwd")
	if err != nil {
		return "", err
	}
	// A name with an @ would not come back as the same user.
	if a.id != id || !askable(a.name) || strings.Contains(a.name, "@") {
		return "", ErrNoEnt
	}
	return a.name, nil
}

func (i *Identity) askID(ctx context.Context, database, name string) (uint32, error) {
	out, err := i.ask(ctx, database, name)
	if err != nil {
		return 0, err
	}
	a, err := parseAccount(out, database == "passwd")
	if err != nil {
		return 0, err
	}
	// getent reads more as a number than we do: " 0", "+0".
	if a.name != name {
		return 0, ErrNoEnt
	}
	return a.id, nil
}
