package state

import (
	"context"
	"net/netip"
	"time"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

// New returns a Store and starts its expiry goroutine. The error is that of
// Options.Rand.
func New(o Options) (*Store, error) { panic("unfinished") }

// Close discards all clients, gives back what they hold and ends the
// goroutines. It returns ctx's error if Volumes took longer than that.
func (s *Store) Close(ctx context.Context) error { panic("unfinished") }

// Instance returns the identity of this run.
func (s *Store) Instance() Instance { return s.opt.Instance }

// Lease returns the length of a lease.
func (s *Store) Lease() time.Duration { return s.opt.Lease }

// Principal is who sent a request, as far as state protection of kind SP4_NONE
// looks (RFC 8881 section 2.10.8.3).
type Principal struct {
	Flavor  uint32
	UID     uint32
	Machine string
}

// Flags of EXCHANGE_ID (EXCHGID4_FLAG_*, RFC 8881 section 18.35.1).
const (
	ExchangeSuppMovedRefer   uint32 = 0x1
	ExchangeSuppMovedMigr    uint32 = 0x2
	ExchangeSuppFenceOps     uint32 = 0x4 // RFC 7862 section 14.3
	ExchangeBindPrincStateID uint32 = 0x100
	ExchangeUseNonPNFS       uint32 = 0x10000
	ExchangeUsePNFSMDS       uint32 = 0x20000
	ExchangeUsePNFSDS        uint32 = 0x40000
	ExchangeUpdateConfirmed  uint32 = 0x40000000 // UPD_CONFIRMED_REC_A
	ExchangeConfirmed        uint32 = 0x80000000 // CONFIRMED_R, in replies only
)

// State protection of EXCHANGE_ID (state_protect_how4).
const (
	ProtectNone        uint32 = 0
	ProtectMachineCred uint32 = 1
	ProtectSSV         uint32 = 2
)

// ExchangeIDArgs are the arguments of EXCHANGE_ID.
type ExchangeIDArgs struct {
	Verifier  nfsv4.Verifier // co_verifier
	Owner     []byte         // co_ownerid; copied
	Flags     uint32
	Protect   uint32 // state_protect_how4; anything but ProtectNone is refused
	Principal Principal
	Addr      netip.AddrPort // for log and status
	Impl      string         // client implementation, for status; may be empty
	Minor     uint32         // minor version of the COMPOUND, for status
}

// ExchangeIDResult is what EXCHANGE_ID answers beyond the server's owner and
// scope, which are configuration.
type ExchangeIDResult struct {
	ClientID nfsv4.ClientID
	Sequence uint32 // eir_sequenceid
	Flags    uint32
}

// ExchangeID is EXCHANGE_ID (RFC 8881 section 18.35).
func (s *Store) ExchangeID(a *ExchangeIDArgs) (ExchangeIDResult, nfsv4.Status) { panic("unfinished") }

// ChannelAttrs are channel_attrs4 without the RDMA part (ca_rdma_ird is always
// answered empty).
type ChannelAttrs struct {
	HeaderPad         uint32
	MaxRequest        uint32
	MaxResponse       uint32
	MaxResponseCached uint32
	MaxOperations     uint32
	MaxRequests       uint32
}

// Flags of CREATE_SESSION (CREATE_SESSION4_FLAG_*).
const (
	SessionPersist      uint32 = 0x1
	SessionConnBackChan uint32 = 0x2
	SessionConnRDMA     uint32 = 0x4
)

// CallbackSec is one callback_sec_parms4.
type CallbackSec struct {
	Flavor  uint32
	Machine string // AUTH_SYS
	UID     uint32
	GID     uint32
	Groups  []uint32
}

// CreateSessionArgs are the arguments of CREATE_SESSION.
type CreateSessionArgs struct {
	ClientID  nfsv4.ClientID
	Sequence  uint32
	Flags     uint32
	Fore      ChannelAttrs
	Back      ChannelAttrs
	CBProgram uint32
	CBSec     []CallbackSec // kept
	Principal Principal
	Conn      *Conn // bound to the new session
}

// CreateSessionResult is CREATE_SESSION4resok.
type CreateSessionResult struct {
	Session  nfsv4.SessionID
	Sequence uint32
	Flags    uint32
	Fore     ChannelAttrs
	Back     ChannelAttrs
}

// CreateSession is CREATE_SESSION (RFC 8881 section 18.36). If it replaces an
// older incarnation of the client, it returns when that one's locks are given
// back, or ctx ends.
func (s *Store) CreateSession(ctx context.Context, a *CreateSessionArgs) (CreateSessionResult, nfsv4.Status) {
	panic("unfinished")
}

// DestroySession is DESTROY_SESSION (RFC 8881 section 18.37). running is the
// use of a slot of the COMPOUND it is in, nil if there is none.
func (s *Store) DestroySession(id nfsv4.SessionID, conn *Conn, running *SlotUse) nfsv4.Status {
	panic("unfinished")
}

// DestroyClientID is DESTROY_CLIENTID (RFC 8881 section 18.50).
func (s *Store) DestroyClientID(id nfsv4.ClientID) nfsv4.Status { panic("unfinished") }

// Conn is what the state knows of one connection: the sessions bound to it.
// Its owner is the connection's reader; it calls Close when the connection is
// gone.
type Conn struct{}

// NewConn returns the record of a connection.
func NewConn(id uint64, remote netip.AddrPort) *Conn { panic("unfinished") }

// ID returns the number of the connection.
func (c *Conn) ID() uint64 { panic("unfinished") }

// Close forgets what is bound to the connection.
func (c *Conn) Close() { panic("unfinished") }

// Directions of BIND_CONN_TO_SESSION: channel_dir_from_client4 in arguments,
// channel_dir_from_server4 (the first three) in results.
const (
	BindFore       uint32 = 1
	BindBack       uint32 = 2
	BindBoth       uint32 = 3 // in arguments: CDFC4_FORE_OR_BOTH
	BindBackOrBoth uint32 = 7
)

// BindConn is BIND_CONN_TO_SESSION (RFC 8881 section 18.34). It returns the
// channels the connection now serves.
func (s *Store) BindConn(id nfsv4.SessionID, conn *Conn, dir uint32) (uint32, nfsv4.Status) {
	panic("unfinished")
}

// Session is a session of a client.
type Session struct{}

// ID returns the session's id.
func (s *Session) ID() nfsv4.SessionID { panic("unfinished") }

// Fore returns the negotiated limits of the fore channel.
func (s *Session) Fore() ChannelAttrs { panic("unfinished") }

// BackchannelCtl is BACKCHANNEL_CTL (RFC 8881 section 18.33). sec is kept.
func (s *Session) BackchannelCtl(program uint32, sec []CallbackSec) nfsv4.Status { panic("unfinished") }

// SequenceArgs are the arguments of SEQUENCE and what goes with them.
type SequenceArgs struct {
	Session     nfsv4.SessionID
	Sequence    uint32
	Slot        uint32
	HighestSlot uint32
	CacheThis   bool
	Conn        *Conn  // nil only in tests
	Digest      uint64 // of the whole request and its credential, see Digest
}

// Digest returns a cheap digest of a request: of its length, its beginning and
// its end, and of who sent it. It differs from run to run.
func Digest(args []byte, flavor, uid uint32) uint64 { panic("unfinished") }

// Flags of SEQUENCE's reply (SEQ4_STATUS_*, RFC 8881 section 18.46.1).
const (
	StatusCBPathDown           uint32 = 0x1
	StatusExpiredAllRevoked    uint32 = 0x8
	StatusExpiredSomeRevoked   uint32 = 0x10
	StatusAdminRevoked         uint32 = 0x20
	StatusRecallableRevoked    uint32 = 0x40
	StatusLeaseMoved           uint32 = 0x80
	StatusRestartReclaimNeeded uint32 = 0x100
	StatusCBPathDownSession    uint32 = 0x200
	StatusBackchannelFault     uint32 = 0x400
	StatusDevidChanged         uint32 = 0x800
	StatusDevidDeleted         uint32 = 0x1000
)

// SequenceResult is SEQUENCE4resok.
type SequenceResult struct {
	Session           nfsv4.SessionID
	Sequence          uint32
	Slot              uint32
	HighestSlot       uint32
	TargetHighestSlot uint32
	StatusFlags       uint32
}

// SlotAction is what to do with a request whose SEQUENCE was accepted.
type SlotAction uint8

const (
	// SlotExecute: run the request, then call Finish.
	SlotExecute SlotAction = iota
	// SlotReplay: send SlotUse.Replay, the cached reply. Finish must not be
	// called.
	SlotReplay
	// SlotUncached: a retry of a request whose reply was not kept. SEQUENCE
	// answers Result; the operation behind it, if there is one, answers
	// NFS4ERR_RETRY_UNCACHED_REP and ends the COMPOUND. Finish must not be
	// called.
	SlotUncached
)

// SlotUse is a request's hold on its slot. The zero value is ready for
// Sequence, and again after Finish.
type SlotUse struct {
	Action SlotAction
	Result SequenceResult
	// Replay is the cached reply as given to Finish; the caller's to keep.
	Replay []byte
}

// Sequence is SEQUENCE (RFC 8881 section 18.46). If it returns OK, u says what
// to do. A retry of a request that still runs answers NFS4ERR_DELAY.
func (s *Store) Sequence(a *SequenceArgs, u *SlotUse) nfsv4.Status { panic("unfinished") }

// Finish ends a request that had SlotExecute: reply is its COMPOUND reply,
// copied if the client asked for it to be cached and it fits (see Cached).
// A second call does nothing, so it may be deferred.
func (u *SlotUse) Finish(reply []byte) { panic("unfinished") }

// CacheLimit returns how long the reply may be if it has to be cached
// (NFS4ERR_REP_TOO_BIG_TO_CACHE above it), and 0 if it need not be.
func (u *SlotUse) CacheLimit() int { panic("unfinished") }

// Client returns the client, nil before Sequence.
func (u *SlotUse) Client() *Client { panic("unfinished") }

// Session returns the session, nil before Sequence.
func (u *SlotUse) Session() *Session { panic("unfinished") }

// Client is a client record, one incarnation of a client. Its methods are for
// requests that hold a slot of one of its sessions. Once it was discarded they
// answer NFS4ERR_EXPIRED or NFS4ERR_BAD_STATEID.
type Client struct{}

// ID returns the client id.
func (c *Client) ID() nfsv4.ClientID { panic("unfinished") }

// ReclaimComplete is RECLAIM_COMPLETE (RFC 8881 section 18.51). The caller has
// checked that oneFS comes with a current file handle.
func (c *Client) ReclaimComplete(oneFS bool) nfsv4.Status { panic("unfinished") }

// TestStateIDs is TEST_STATEID (RFC 8881 section 18.48): it fills in
// out[i] for ids[i].
func (c *Client) TestStateIDs(ids []nfsv4.StateID, out []nfsv4.Status) { panic("unfinished") }

// FreeStateID is FREE_STATEID (RFC 8881 section 18.38).
func (c *Client) FreeStateID(ctx context.Context, id nfsv4.StateID) nfsv4.Status { panic("unfinished") }

// FileKey names an open file's object.
type FileKey struct {
	Export uint32 // export.Export.ID
	Object export.Object
}

// Access is a set of share access or share deny bits (OPEN4_SHARE_ACCESS_*,
// OPEN4_SHARE_DENY_*) without the delegation wants.
type Access uint32

// The bits.
const (
	AccessRead  Access = 1
	AccessWrite Access = 2
	AccessBoth  Access = 3
)

// OpenArgs say what OPEN wants. Owner is the opaque part of open_owner4.
type OpenArgs struct {
	Owner   []byte // copied
	Key     FileKey
	Access  Access // AccessRead, AccessWrite or AccessBoth, else NFS4ERR_INVAL
	Deny    Access // any
	Reclaim bool   // CLAIM_PREVIOUS: NFS4ERR_NO_GRACE
}

// CanOpen returns what OPEN answers before it looks at the file: NFS4ERR_GRACE
// before RECLAIM_COMPLETE, NFS4ERR_NO_GRACE for reclaims.
func (c *Client) CanOpen(reclaim bool) nfsv4.Status { panic("unfinished") }

// PendingOpen is a share reservation whose file is not open yet: others
// conflict with it already. It ends with Commit or Abort.
type PendingOpen struct{}

// BeginOpen reserves what an OPEN wants (RFC 8881 section 18.16):
// NFS4ERR_SHARE_DENIED if another open-owner is in the way. Call it before the
// file is truncated or opened. State of expired clients yields.
func (c *Client) BeginOpen(ctx context.Context, a *OpenArgs) (*PendingOpen, nfsv4.Status) {
	panic("unfinished")
}

// Commit makes it an open with f, which was opened for at least
// OpenArgs.Access and is the Store's from now on, also if Commit fails: it is
// closed when it is not needed. The stateid is new, or that of the owner's
// open of this file, upgraded.
func (p *PendingOpen) Commit(f export.File) (nfsv4.StateID, nfsv4.Status) { panic("unfinished") }

// Abort drops the reservation. After Commit it does nothing, so it may be
// deferred.
func (p *PendingOpen) Abort() { panic("unfinished") }

// OpenDowngrade is OPEN_DOWNGRADE (RFC 8881 section 18.18).
func (c *Client) OpenDowngrade(ctx context.Context, id nfsv4.StateID, key FileKey, access, deny Access) (nfsv4.StateID, nfsv4.Status) {
	panic("unfinished")
}

// Close is CLOSE (RFC 8881 section 18.2). Locks held through the open are
// given back. The stateid returned is the special invalid one.
func (c *Client) Close(ctx context.Context, id nfsv4.StateID, key FileKey) (nfsv4.StateID, nfsv4.Status) {
	panic("unfinished")
}

// FileUse is a stateid in use. Release must be called if Use returned OK.
type FileUse struct {
	// File is open for what was wanted. It is nil for a special stateid: open
	// the file by other means then, with the caller's permission.
	File export.File
}

// Release ends the use; a second call does nothing.
func (u *FileUse) Release() { panic("unfinished") }

// Use checks a stateid given to READ, WRITE, SETATTR of size, ALLOCATE and so
// on (RFC 8881 section 8.2): want is AccessRead or AccessWrite, or 0 when any
// valid stateid will do. The current stateid has been put in by the caller.
// Special stateids answer NFS4ERR_LOCKED against a deny mode.
func (c *Client) Use(ctx context.Context, id nfsv4.StateID, key FileKey, want Access) (FileUse, nfsv4.Status) {
	panic("unfinished")
}

// LockRange is the range of LOCK, LOCKT and LOCKU.
type LockRange struct {
	Write  bool // WRITE_LT or WRITEW_LT
	Offset uint64
	Length uint64 // all ones: to the end of the file
}

// LockArgs are the arguments of LOCK.
type LockArgs struct {
	Key     FileKey
	Range   LockRange
	Reclaim bool
	// NewOwner selects open_to_lock_owner: StateID is that of the open and
	// Owner names the lock-owner. Else StateID is a lock stateid.
	NewOwner bool
	StateID  nfsv4.StateID
	Owner    []byte // copied
}

// LockDenied is LOCK4denied.
type LockDenied struct {
	Range    LockRange
	ClientID nfsv4.ClientID // 0 with no Owner if it is not a lock of this server's
	Owner    []byte
}

// Lock is LOCK (RFC 8881 section 18.10). With NFS4ERR_DENIED it returns who is
// in the way; a blocking lock is for the client to ask again.
func (c *Client) Lock(ctx context.Context, a *LockArgs) (nfsv4.StateID, *LockDenied, nfsv4.Status) {
	panic("unfinished")
}

// LockTArgs are the arguments of LOCKT.
type LockTArgs struct {
	Range LockRange
	Owner []byte
	File  export.File // open for reading or writing; stays the caller's
}

// LockT is LOCKT (RFC 8881 section 18.11).
func (c *Client) LockT(ctx context.Context, a *LockTArgs) (*LockDenied, nfsv4.Status) {
	panic("unfinished")
}

// LockU is LOCKU (RFC 8881 section 18.12).
func (c *Client) LockU(ctx context.Context, id nfsv4.StateID, key FileKey, r LockRange) (nfsv4.StateID, nfsv4.Status) {
	panic("unfinished")
}

// CheckDeny returns NFS4ERR_LOCKED if an open denies others this access, for
// requests without open state (special stateids, NFSv3). State of expired
// clients yields.
func (s *Store) CheckDeny(ctx context.Context, key FileKey, access Access) nfsv4.Status {
	panic("unfinished")
}

// Removed tells that key lost its last name, or was replaced by a rename:
// expired clients that keep it open are discarded, so that its space comes
// free.
func (s *Store) Removed(ctx context.Context, key FileKey) { panic("unfinished") }

// KeepExports drops the state of exports that keep says no to: their files are
// closed when it returns, unless ctx ends, and their stateids answer
// NFS4ERR_ADMIN_REVOKED until the client frees them.
func (s *Store) KeepExports(ctx context.Context, keep func(id uint32) bool) { panic("unfinished") }
