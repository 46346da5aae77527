package state

import (
	"context"
	"encoding/binary"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

// stateRef is what a stateid stands for: an open or the locks of a lock-owner.
// The number in a stateid's Other field is the key of Client.states; since the
// table is the client's own, a stateid of another client is a bad one.
type stateRef struct {
	open *openState
	lock *lockState
}

func (r stateRef) seq() uint32 {
	if r.open != nil {
		return r.open.seq
	}
	return r.lock.seq
}

func (r stateRef) key() FileKey {
	if r.open != nil {
		return r.open.share.file.key
	}
	return r.lock.key
}

// revoked is what the stateid of revoked state answers, OK for good state.
func (r stateRef) revoked() nfsv4.Status {
	switch {
	case r.open != nil:
		return r.open.revoked
	case r.lock != nil:
		return r.lock.revoked
	}
	return nfsv4.OK
}

// stateID is the stateid of a number with a sequence number. Seq 0 means "the
// newest" and is never handed out (RFC 8881 section 8.2.2).
func (s *Store) stateID(number uint64, seq uint32) nfsv4.StateID {
	id := nfsv4.MakeStateID(s.opt.Instance.ID, number)
	id.Seq = seq
	return id
}

// nextSeq follows seq, leaving out 0 when it wraps.
func nextSeq(seq uint32) uint32 {
	if seq++; seq == 0 {
		return 1
	}
	return seq
}

// findLocked finds what id stands for (RFC 8881 section 8.2.4): NFS4ERR_EXPIRED
// if the client is gone, NFS4ERR_BAD_STATEID for ids of other clients and
// earlier instances, freed ones and those from the future, NFS4ERR_OLD_STATEID
// for a sequence number that is past. Precondition: c.mu.
func (c *Client) findLocked(id nfsv4.StateID) (stateRef, nfsv4.Status) {
	if c.dead {
		return stateRef{}, nfsv4.ErrExpired
	}
	if id.Special() || binary.BigEndian.Uint32(id.Other[:4]) != c.store.opt.Instance.ID {
		return stateRef{}, nfsv4.ErrBadStateID
	}
	ref, ok := c.states[binary.BigEndian.Uint64(id.Other[4:])]
	if !ok {
		return stateRef{}, nfsv4.ErrBadStateID
	}
	if id.Seq != 0 {
		// Serial number arithmetic: half of the numbers are past.
		switch d := int32(id.Seq - ref.seq()); {
		case d < 0:
			return stateRef{}, nfsv4.ErrOldStateID
		case d > 0:
			return stateRef{}, nfsv4.ErrBadStateID
		}
	}
	if st := ref.revoked(); st != nfsv4.OK {
		return ref, st
	}
	return ref, nfsv4.OK
}

// findOnLocked is findLocked of a stateid used with a file.
func (c *Client) findOnLocked(id nfsv4.StateID, key FileKey) (stateRef, nfsv4.Status) {
	ref, st := c.findLocked(id)
	if st == nfsv4.OK && ref.key() != key {
		return stateRef{}, nfsv4.ErrBadStateID
	}
	return ref, st
}

// FileUse is a stateid in use. Release must be called if Use returned OK.
type FileUse struct {
	// File is open for what was wanted. It is nil for a special stateid: open
	// the file by other means then, with the caller's permission.
	File export.File
	// Volume opened File. While a reload goes on it need not be the one that
	// the export has now.
	Volume export.Volume

	handle *handle
}

// Release ends the use; a second call does nothing.
func (u *FileUse) Release() {
	if u.handle != nil {
		u.handle.release()
		u.handle, u.File, u.Volume = nil, nil, nil
	}
}

// Use checks a stateid given to READ, WRITE, SETATTR of size, ALLOCATE and so
// on (RFC 8881 section 8.2): want is AccessRead or AccessWrite, or 0 when any
// valid stateid will do. The current stateid has been put in by the caller.
// Special stateids answer NFS4ERR_LOCKED against a deny mode, but for READ
// with the READ bypass stateid.
func (c *Client) Use(ctx context.Context, id nfsv4.StateID, key FileKey, want Access) (FileUse, nfsv4.Status) {
	switch {
	case id == nfsv4.BypassStateID && want&AccessWrite == 0:
		return FileUse{}, nfsv4.OK
	case id == nfsv4.AnonymousStateID, id == nfsv4.BypassStateID:
		return FileUse{}, c.store.CheckDeny(ctx, key, want)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ref, st := c.findOnLocked(id, key)
	if st != nfsv4.OK {
		return FileUse{}, st
	}
	os := ref.open
	if os == nil {
		os = ref.lock.open
	}
	h := os.handleFor(want)
	if h == nil {
		return FileUse{}, nfsv4.ErrOpenMode
	}
	return FileUse{File: h.file, Volume: h.vol, handle: h.hold()}, nfsv4.OK
}

// TestStateIDs is TEST_STATEID (RFC 8881 section 18.48): it fills in
// out[i] for ids[i].
func (c *Client) TestStateIDs(ids []nfsv4.StateID, out []nfsv4.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		_, out[i] = c.findLocked(id)
	}
}

// FreeStateID is FREE_STATEID (RFC 8881 section 18.38): NFS4ERR_LOCKS_HELD for
// an open, and for a lock stateid with locks.
func (c *Client) FreeStateID(ctx context.Context, id nfsv4.StateID) nfsv4.Status {
	var l leavings
	c.mu.Lock()
	ref, st := c.findLocked(id)
	switch {
	case ref.revoked() != nfsv4.OK: // ref is set: the id is good, the state is not
		delete(c.states, binary.BigEndian.Uint64(id.Other[4:]))
		c.revoked.Add(-1)
		st = nfsv4.OK
	case st != nfsv4.OK:
	case ref.open != nil, ref.lock.busy, ref.lock.ranges.Len() > 0:
		st = nfsv4.ErrLocksHeld
	default:
		ref.lock.removeLocked()
		ref.lock.dieLocked(&l)
	}
	c.mu.Unlock()
	c.store.giveBack(context.WithoutCancel(ctx), &l)
	return st
}
