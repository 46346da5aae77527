package state

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"capstan/server/nfs4/nfsv4"
)

// slot is one entry of a fore channel's reply cache (RFC 8881 section 2.10.6.1).
//
//	      SEQUENCE seq+1                Finish
//	idle ---------------> running ---------------> idle, reply kept or not
//	 |                       |
//	 | SEQUENCE seq: the     | SEQUENCE seq: NFS4ERR_DELAY. Nobody waits for
//	 | reply, or UNCACHED    | another's request, so nobody can wait for ever.
//
// Any other sequence number is NFS4ERR_SEQ_MISORDERED.
//
// A retry may differ from the request it repeats in sa_highest_slotid, which
// tells of the moment it is sent, and in sa_cachethis: the reply was kept or
// was not. With other operations or from somebody else it is
// NFS4ERR_SEQ_FALSE_RETRY (section 2.10.6.1.3.1), but only once the request is
// done: a client probes a slot it lost track of with a SEQUENCE alone, and has
// to learn that the slot is still busy.
type slot struct {
	seq     uint32 // of the last request accepted
	told    uint32 // target highest slot id in its reply
	used    bool   // seq means something
	running bool
	cached  bool // reply is the reply of seq
	restart bool // was retired: the client may count on, or begin with 1 again
	digest  uint64
	reply   []byte
}

// minSlots is the least a session is shrunk to.
const minSlots = 4

// SequenceArgs are the arguments of SEQUENCE and what goes with them.
type SequenceArgs struct {
	Session     nfsv4.SessionID
	Sequence    uint32
	Slot        uint32
	HighestSlot uint32
	CacheThis   bool
	Conn        *Conn  // nil only in tests
	Digest      uint64 // of what is behind SEQUENCE and of the credential, see Digest
}

// SequenceResult is SEQUENCE4resok.
type SequenceResult struct {
	Session           nfsv4.SessionID
	Sequence          uint32
	Slot              uint32
	HighestSlot       uint32
	TargetHighestSlot uint32
	StatusFlags       uint32 // nfsv4.Seq*
}

// SlotAction is what to do with a request whose SEQUENCE was accepted.
type SlotAction uint8

const (
	// SlotExecute: run the request, then call Finish.
	SlotExecute SlotAction = iota
	// SlotReplay: send SlotUse.Replay, the cached reply.
	SlotReplay
	// SlotUncached: a retry of a request whose reply was not kept. SEQUENCE
	// answers Result; the operation behind it, if there is one, answers
	// NFS4ERR_RETRY_UNCACHED_REP and ends the COMPOUND.
	SlotUncached
)

// SlotUse is a request's hold on its slot. The zero value is ready for
// Sequence, and again after Finish.
type SlotUse struct {
	Action SlotAction
	Result SequenceResult
	// Replay is the cached reply as given to Finish; the caller's to keep.
	Replay []byte

	session *Session
	slot    uint32
	cache   bool
	running bool // Finish has something to do
}

// Client returns the client, nil before Sequence.
func (u *SlotUse) Client() *Client {
	if u.session == nil {
		return nil
	}
	return u.session.client
}

// Session returns the session, nil before Sequence.
func (u *SlotUse) Session() *Session { return u.session }

// CacheLimit returns how long the reply may be if it has to be cached
// (NFS4ERR_REP_TOO_BIG_TO_CACHE above it), and 0 if it need not be.
func (u *SlotUse) CacheLimit() int {
	if !u.running || !u.cache {
		return 0
	}
	return max(1, int(u.session.fore.MaxResponseCached)) // 1 is too short for any
}

// Sequence is SEQUENCE (RFC 8881 section 18.46). If it returns OK, u says what
// to do. It renews the lease, and binds the connection to the session if it is
// a new one, as a client with SP4_NONE expects (section 2.10.3.1). A retry of
// a request that still runs answers NFS4ERR_DELAY (section 2.10.6.2).
//
// It allocates nothing but copies of cached replies, and takes no lock but the
// session's.
func (s *Store) Sequence(a *SequenceArgs, u *SlotUse) nfsv4.Status {
	*u = SlotUse{}
	ses := s.sessions.get(a.Session)
	if ses == nil {
		return nfsv4.ErrBadSession
	}
	c := ses.client
	if !c.gate.hold() {
		return nfsv4.ErrBadSession
	}
	ses.mu.Lock()
	st := ses.acceptLocked(a, u)
	if st == nfsv4.OK && a.Conn != nil && !ses.isBoundLocked(a.Conn) {
		ses.bindLocked(a.Conn, nfsv4.BindFore)
	}
	ses.mu.Unlock()
	if st == nfsv4.OK {
		s.renew(c) // before the hold is released, see gate
	}
	if !u.running {
		c.gate.release()
	}
	return st
}

// acceptLocked is the table above. A refused request changes nothing (RFC 8881
// section 2.10.6.1.2).
func (ses *Session) acceptLocked(a *SequenceArgs, u *SlotUse) nfsv4.Status {
	if ses.dead {
		return nfsv4.ErrBadSession
	}
	if a.Slot > ses.highest {
		return nfsv4.ErrBadSlot
	}
	sl := &ses.slots[a.Slot]
	retry := sl.used && a.Sequence == sl.seq
	switch {
	case a.HighestSlot > ses.highest && !retry:
		return nfsv4.ErrBadHighSlot
	case retry && sl.running:
		return nfsv4.ErrDelay
	case retry && a.Digest != sl.digest:
		return nfsv4.ErrSeqFalseRetry
	case retry && sl.cached:
		// A copy: the slot may take its next request while this is sent.
		u.Action, u.Replay = SlotReplay, slices.Clone(sl.reply)
	case retry:
		u.Action = SlotUncached
	case sl.running:
		return nfsv4.ErrSeqMisordered
	case a.Sequence != sl.seq+1 && !(sl.restart && a.Sequence == 1):
		return nfsv4.ErrSeqMisordered
	default:
		if ses.target < ses.highest {
			ses.retireLocked(a, sl)
		}
		u.Action, u.cache, u.running = SlotExecute, a.CacheThis, true
		sl.seq, sl.told = a.Sequence, ses.target
		sl.used, sl.running, sl.cached, sl.restart = true, true, false, false
		sl.digest = a.Digest
		ses.used = max(ses.used, a.Slot, a.HighestSlot)
	}
	u.session, u.slot = ses, a.Slot
	u.Result = SequenceResult{
		Session: ses.id, Sequence: a.Sequence, Slot: a.Slot,
		HighestSlot: ses.highest, TargetHighestSlot: ses.target,
	}
	if ses.client.revoked.Load() > 0 {
		u.Result.StatusFlags |= nfsv4.SeqAdminStateRevoked
	}
	return nfsv4.OK
}

// Finish ends a request that had SlotExecute: reply is its COMPOUND reply,
// copied if the client asked for it to be cached and it is within CacheLimit;
// nil says that there is none to keep.
// After any other action, and if called again, it does nothing, so it may be
// deferred.
func (u *SlotUse) Finish(reply []byte) {
	if !u.running {
		return
	}
	u.running = false
	ses := u.session
	ses.mu.Lock()
	sl := &ses.slots[u.slot]
	sl.running = false
	if u.cache && !ses.dead && len(reply) > 0 && len(reply) <= int(ses.fore.MaxResponseCached) {
		sl.reply = append(sl.reply[:0], reply...)
		sl.cached = true
	}
	ses.mu.Unlock()
	ses.client.store.renew(ses.client)
	ses.client.gate.release()
}

// retireLocked lowers the enforced highest slot id to the target if the client
// has seen the target and complies, which its next request on sl tells if
// sl's last reply carried the target (RFC 8881 section 2.10.6.1).
func (ses *Session) retireLocked(a *SequenceArgs, sl *slot) {
	if !sl.used || sl.told != ses.target || a.HighestSlot > ses.target || a.Slot > ses.target {
		return
	}
	for i := ses.target + 1; i <= ses.highest; i++ {
		if ses.slots[i].running {
			return
		}
	}
	for i := ses.target + 1; i <= ses.highest; i++ {
		sl := &ses.slots[i]
		sl.reply, sl.cached, sl.restart = nil, false, true
	}
	ses.client.store.cacheInUse.Add(-ses.cacheNeed(ses.highest - ses.target))
	ses.highest = ses.target
}

// resizeLocked asks the client to use slots up to n-1; when n grows, they are
// its to use at once.
func (ses *Session) resizeLocked(n uint32) {
	n = min(max(n, 1), uint32(len(ses.slots)))
	ses.target = n - 1
	if ses.target > ses.highest {
		ses.client.store.cacheInUse.Add(ses.cacheNeed(ses.target - ses.highest))
		ses.highest = ses.target
	}
}

// balanceLocked fits the slots of all sessions to the memory for replies: when
// it is nearly all spoken for, sessions that use less than half their slots
// are asked to give half of them up; when there is room again, they grow back.
// Precondition: Store.mu is held.
func (s *Store) balanceLocked() {
	limit := s.opt.Limits.MaxReplyCache
	tight := s.cacheInUse.Load() > limit-limit/4
	for _, c := range s.confirmed {
		for _, ses := range c.sessions {
			ses.mu.Lock()
			n := ses.target + 1
			switch {
			case tight && n/2 >= minSlots && ses.used+1 <= n/2:
				ses.resizeLocked(n / 2)
			case !tight && int(n) < len(ses.slots) && s.cacheInUse.Load()+ses.cacheNeed(n) < limit/2:
				ses.resizeLocked(n * 2)
			}
			ses.used = 0
			ses.mu.Unlock()
		}
	}
}

var digestSeed = maphash.MakeSeed()

// digestEnds is how much of either end of the operations goes into the digest:
// they and their arguments, of a WRITE all but most of its data.
const digestEnds = 512

// Digest returns a cheap digest of a request of count operations: of the
// length, the beginning and the end of those behind SEQUENCE, and of who sent
// it. It differs from run to run.
func Digest(behind []byte, count int, flavor, uid uint32) uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	var n [24]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(behind)))
	binary.LittleEndian.PutUint64(n[8:], uint64(count))
	binary.LittleEndian.PutUint32(n[16:], flavor)
	binary.LittleEndian.PutUint32(n[20:], uid)
	h.Write(n[:])
	if len(behind) <= 2*digestEnds {
		h.Write(behind)
	} else {
		h.Write(behind[:digestEnds])
		h.Write(behind[len(behind)-digestEnds:])
	}
	return h.Sum64()
}
