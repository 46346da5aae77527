package state

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"capstan/server/nfs4/nfsv4"
)

// Snapshot is the whole state at one moment, for `capstan status`: no client
// is in it twice or half.
type Snapshot struct {
	Instance    Instance       `json:"-"`
	Lease       time.Duration  `json:"lease_ns"`
	Clients     []ClientStatus `json:"clients"` // confirmed ones, by id
	Unconfirmed int            `json:"unconfirmed"`
	ReplyCache  int64          `json:"reply_cache_bytes"` // bytes the slots of all sessions may need
	Counts      `json:"counts"`
}

// Counts are totals over all confirmed clients.
type Counts struct {
	Clients  int `json:"clients"`
	Courtesy int `json:"courtesy"` // clients whose lease has expired
	Sessions int `json:"sessions"`
	Opens    int `json:"opens"`
	Locks    int `json:"locks"` // lock stateids
}

// ClientStatus is one client.
type ClientStatus struct {
	ID       nfsv4.ClientID  `json:"id"`
	Owner    string          `json:"owner"` // co_ownerid, printable
	Addr     netip.AddrPort  `json:"address"`
	Impl     string          `json:"implementation"`
	Minor    uint32          `json:"minor_version"`
	Age      time.Duration   `json:"age_ns"`  // since EXCHANGE_ID
	Idle     time.Duration   `json:"idle_ns"` // since the last renewal of its lease
	Expired  bool            `json:"expired"` // the lease has run out, the state is kept
	Running  int             `json:"running"` // requests
	Revoked  int             `json:"revoked"` // stateids revoked and not yet freed
	Sessions []SessionStatus `json:"sessions"`
	Opens    int             `json:"opens"`
	Locks    int             `json:"locks"`
	Files    []OpenStatus    `json:"files,omitempty"` // only if asked for; by export and inode
}

// SessionStatus is one session.
type SessionStatus struct {
	ID          nfsv4.SessionID  `json:"id"`
	Slots       uint32           `json:"slots"` // the client may use
	Running     int              `json:"running"`
	Conns       []netip.AddrPort `json:"connections"`
	BackChannel bool             `json:"back_channel"` // some connection serves the back channel
}

// OpenStatus is what one open-owner has of a file.
type OpenStatus struct {
	Key    FileKey `json:"key"`
	Access Access  `json:"access"`
	Deny   Access  `json:"deny"`
	Ranges int     `json:"ranges"` // byte ranges locked through it
}

// Counts returns the totals. It costs a walk over all clients.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	n := Counts{Clients: len(s.confirmed)}
	for _, c := range s.confirmed {
		n.Sessions += len(c.sessions)
		if s.expired(c, now) {
			n.Courtesy++
		}
		c.mu.Lock()
		n.Opens += c.opens
		n.Locks += c.locks
		c.mu.Unlock()
	}
	return n
}

// Snapshot returns the state; with the open files of each client if files is
// set.
func (s *Store) Snapshot(files bool) Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	snap := Snapshot{
		Instance: s.opt.Instance, Lease: s.opt.Lease,
		Unconfirmed: len(s.unconfirmed), ReplyCache: s.cacheInUse.Load(),
	}
	for _, c := range s.confirmed {
		cs := c.statusLocked(now, files)
		snap.Clients = append(snap.Clients, cs)
		snap.Counts.Sessions += len(cs.Sessions)
		snap.Opens += cs.Opens
		snap.Locks += cs.Locks
		if cs.Expired {
			snap.Courtesy++
		}
	}
	snap.Counts.Clients = len(snap.Clients)
	slices.SortFunc(snap.Clients, func(a, b ClientStatus) int { return cmp.Compare(a.ID, b.ID) })
	return snap
}

// statusLocked describes c. Precondition: Store.mu.
func (c *Client) statusLocked(now time.Duration, files bool) ClientStatus {
	cs := ClientStatus{
		ID: c.id, Owner: printable(c.owner), Addr: c.addr, Impl: c.impl, Minor: c.minor,
		Age: now - c.created, Idle: max(0, now-time.Duration(c.renewed.Load())),
		Expired: c.store.expired(c, now), Running: c.gate.running(), Revoked: int(c.revoked.Load()),
	}
	for _, ses := range c.sessions {
		cs.Sessions = append(cs.Sessions, ses.status())
	}
	slices.SortFunc(cs.Sessions, func(a, b SessionStatus) int { return slices.Compare(a.ID[:], b.ID[:]) })
	c.mu.Lock()
	defer c.mu.Unlock()
	cs.Opens, cs.Locks = c.opens, c.locks
	if !files {
		return cs
	}
	for _, ref := range c.states {
		if os := ref.open; os != nil && os.revoked == nfsv4.OK {
			o := OpenStatus{Key: os.share.file.key, Access: os.share.access, Deny: os.share.deny}
			for _, ls := range os.locks {
				o.Ranges += ls.ranges.Len()
			}
			cs.Files = append(cs.Files, o)
		}
	}
	slices.SortFunc(cs.Files, func(a, b OpenStatus) int {
		return cmp.Or(cmp.Compare(a.Key.Export, b.Key.Export), cmp.Compare(a.Key.Object.Ino, b.Key.Object.Ino),
			cmp.Compare(a.Key.Object.Snap, b.Key.Object.Snap))
	})
	return cs
}

func (ses *Session) status() SessionStatus {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	st := SessionStatus{ID: ses.id, Slots: ses.highest + 1}
	for i := range ses.slots {
		if ses.slots[i].running {
			st.Running++
		}
	}
	for _, b := range ses.conns {
		st.Conns = append(st.Conns, b.conn.remote)
		st.BackChannel = st.BackChannel || b.dir&nfsv4.BindBack != 0
	}
	return st
}
