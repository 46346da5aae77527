package nfstest

import (
	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// The operations on filehandles, names and attributes.

// Access appends ACCESS.
func (c *Compound) Access(want uint32) *Compound { return c.Op(nfsv4.OpAccess, want) }

// Commit appends COMMIT.
func (c *Compound) Commit(off uint64, count uint32) *Compound {
	return c.Op(nfsv4.OpCommit, off, count)
}

// Mkdir appends CREATE of a directory.
func (c *Compound) Mkdir(name string, a Attrs) *Compound {
	return c.Op(nfsv4.OpCreate, 2, name, a)
}

// Symlink appends CREATE of a symbolic link.
func (c *Compound) Symlink(name, target string, a Attrs) *Compound {
	return c.Op(nfsv4.OpCreate, 5, target, name, a)
}

// Mknod appends CREATE of a device (type 3 or 4), a socket (6), a FIFO (7), or
// of what cannot be created.
func (c *Compound) Mknod(typ uint32, name string, a Attrs) *Compound {
	if typ == 3 || typ == 4 {
		return c.Op(nfsv4.OpCreate, typ, 1, 2, name, a)
	}
	return c.Op(nfsv4.OpCreate, typ, name, a)
}

// GetAttr appends GETATTR of the attributes with the given numbers.
func (c *Compound) GetAttr(attrs ...uint32) *Compound {
	return c.Op(nfsv4.OpGetAttr, nfsv4.BitmapOf(attrs...))
}

// GetFH appends GETFH.
func (c *Compound) GetFH() *Compound { return c.Op(nfsv4.OpGetFH) }

// Link appends LINK.
func (c *Compound) Link(name string) *Compound { return c.Op(nfsv4.OpLink, name) }

// Lookup appends a LOOKUP for each name.
func (c *Compound) Lookup(names ...string) *Compound {
	for _, n := range names {
		c.Op(nfsv4.OpLookup, n)
	}
	return c
}

// LookupP appends LOOKUPP.
func (c *Compound) LookupP() *Compound { return c.Op(nfsv4.OpLookupP) }

// Verify appends VERIFY.
func (c *Compound) Verify(a Attrs) *Compound { return c.Op(nfsv4.OpVerify, a) }

// NVerify appends NVERIFY.
func (c *Compound) NVerify(a Attrs) *Compound { return c.Op(nfsv4.OpNVerify, a) }

// PutFH appends PUTFH.
func (c *Compound) PutFH(fh []byte) *Compound { return c.Op(nfsv4.OpPutFH, fh) }

// PutRootFH appends PUTROOTFH.
func (c *Compound) PutRootFH() *Compound { return c.Op(nfsv4.OpPutRootFH) }

// PutPubFH appends PUTPUBFH.
func (c *Compound) PutPubFH() *Compound { return c.Op(nfsv4.OpPutPubFH) }

// ReadDir appends READDIR.
func (c *Compound) ReadDir(cookie uint64, v nfsv4.Verifier, dirCount, maxCount uint32, attrs ...uint32) *Compound {
	return c.Op(nfsv4.OpReadDir, cookie, v, dirCount, maxCount, nfsv4.BitmapOf(attrs...))
}

// ReadLink appends READLINK.
func (c *Compound) ReadLink() *Compound { return c.Op(nfsv4.OpReadLink) }

// Remove appends REMOVE.
func (c *Compound) Remove(name string) *Compound { return c.Op(nfsv4.OpRemove, name) }

// Rename appends RENAME.
func (c *Compound) Rename(from, to string) *Compound { return c.Op(nfsv4.OpRename, from, to) }

// RestoreFH appends RESTOREFH.
func (c *Compound) RestoreFH() *Compound { return c.Op(nfsv4.OpRestoreFH) }

// SaveFH appends SAVEFH.
func (c *Compound) SaveFH() *Compound { return c.Op(nfsv4.OpSaveFH) }

// SecInfo appends SECINFO.
func (c *Compound) SecInfo(name string) *Compound { return c.Op(nfsv4.OpSecInfo, name) }

// SecInfoNoName appends SECINFO_NO_NAME.
func (c *Compound) SecInfoNoName(style uint32) *Compound {
	return c.Op(nfsv4.OpSecInfoNoName, style)
}

// SetAttr appends SETATTR.
func (c *Compound) SetAttr(id nfsv4.StateID, a Attrs) *Compound {
	return c.Op(nfsv4.OpSetAttr, id, a)
}

// GetXattr, SetXattr, ListXattrs and RemoveXattr append the operations of RFC
// 8276.
func (c *Compound) GetXattr(name string) *Compound { return c.Op(nfsv4.OpGetXattr, name) }

// SetXattr appends SETXATTR.
func (c *Compound) SetXattr(option uint32, name string, value []byte) *Compound {
	return c.Op(nfsv4.OpSetXattr, option, name, value)
}

// ListXattrs appends LISTXATTRS.
func (c *Compound) ListXattrs(cookie uint64, maxCount uint32) *Compound {
	return c.Op(nfsv4.OpListXattrs, cookie, maxCount)
}

// RemoveXattr appends REMOVEXATTR.
func (c *Compound) RemoveXattr(name string) *Compound { return c.Op(nfsv4.OpRemoveXattr, name) }

// The operations on open files.

// Close appends CLOSE.
func (c *Compound) Close(id nfsv4.StateID) *Compound { return c.Op(nfsv4.OpClose, 0, id) }

// OpenArgs are the arguments of OPEN.
type OpenArgs struct {
	Access, Deny uint32 // Access 0 stands for both, AccessRaw for none
	Owner        string
	How          CreateHow // nil: no create
	Claim        Claim
}

// AccessRaw in OpenArgs.Access stands for share_access 0.
const AccessRaw = ^uint32(0)

// CreateHow encodes openflag4 with createhow4.
type CreateHow func(*xdr.Encoder)

// Claim encodes open_claim4.
type Claim func(*xdr.Encoder)

// Open appends OPEN.
func (c *Compound) Open(a OpenArgs) *Compound {
	access := a.Access
	switch access {
	case 0:
		access = nfsv4.ShareAccessBoth
	case AccessRaw:
		access = 0
	}
	c.Op(nfsv4.OpOpen, 0, access, a.Deny, uint64(0), a.Owner)
	if a.How == nil {
		c.e.Uint32(nfsv4.OpenNoCreate)
	} else {
		a.How(&c.e)
	}
	a.Claim(&c.e)
	return c
}

// Unchecked, Guarded, Exclusive and Exclusive41 are the ways to create.
func Unchecked(a Attrs) CreateHow {
	return func(e *xdr.Encoder) { put(e, nfsv4.OpenCreate, nfsv4.CreateUnchecked, a) }
}

// Guarded is GUARDED4.
func Guarded(a Attrs) CreateHow {
	return func(e *xdr.Encoder) { put(e, nfsv4.OpenCreate, nfsv4.CreateGuarded, a) }
}

// Exclusive is EXCLUSIVE4.
func Exclusive(v nfsv4.Verifier) CreateHow {
	return func(e *xdr.Encoder) { put(e, nfsv4.OpenCreate, nfsv4.CreateExclusive, v) }
}

// Exclusive41 is EXCLUSIVE4_1.
func Exclusive41(v nfsv4.Verifier, a Attrs) CreateHow {
	return func(e *xdr.Encoder) { put(e, nfsv4.OpenCreate, nfsv4.CreateExclusive1, v, a) }
}

// ByName is CLAIM_NULL.
func ByName(name string) Claim {
	return func(e *xdr.Encoder) { put(e, nfsv4.ClaimNull, name) }
}

// ByHandle is CLAIM_FH.
func ByHandle(e *xdr.Encoder) { put(e, nfsv4.ClaimFH) }

// Previous is CLAIM_PREVIOUS.
func Previous(e *xdr.Encoder) { put(e, nfsv4.ClaimPrevious, nfsv4.DelegateNone) }

// OpenDowngrade appends OPEN_DOWNGRADE.
func (c *Compound) OpenDowngrade(id nfsv4.StateID, access, deny uint32) *Compound {
	return c.Op(nfsv4.OpOpenDowngrade, id, 0, access, deny)
}

// LockArgs are the arguments of LOCK, LOCKT and LOCKU.
type LockArgs struct {
	Type           uint32 // LockRead if 0
	Reclaim        bool
	Offset, Length uint64
	Open           nfsv4.StateID // of the open, if Owner is set (LOCK)
	Lock           nfsv4.StateID // of the locks, if Owner is not set (LOCK), and of LOCKU
	Owner          string
}

func (a *LockArgs) typ() uint32 {
	if a.Type == 0 {
		return nfsv4.LockRead
	}
	return a.Type
}

// LockOp appends LOCK.
func (c *Compound) LockOp(a LockArgs) *Compound {
	c.Op(nfsv4.OpLock, a.typ(), a.Reclaim, a.Offset, a.Length)
	if a.Owner != "" {
		put(&c.e, true, 0, a.Open, 0, uint64(0), a.Owner)
	} else {
		put(&c.e, false, a.Lock, 0)
	}
	return c
}

// LockT appends LOCKT.
func (c *Compound) LockT(a LockArgs) *Compound {
	return c.Op(nfsv4.OpLockT, a.typ(), a.Offset, a.Length, uint64(0), a.Owner)
}

// LockU appends LOCKU.
func (c *Compound) LockU(a LockArgs) *Compound {
	return c.Op(nfsv4.OpLockU, a.typ(), 0, a.Lock, a.Offset, a.Length)
}

// Read appends READ.
func (c *Compound) Read(id nfsv4.StateID, off uint64, count uint32) *Compound {
	return c.Op(nfsv4.OpRead, id, off, count)
}

// Write appends WRITE.
func (c *Compound) Write(id nfsv4.StateID, off uint64, stable uint32, data []byte) *Compound {
	return c.Op(nfsv4.OpWrite, id, off, stable, data)
}

// Seek appends SEEK.
func (c *Compound) Seek(id nfsv4.StateID, off uint64, what uint32) *Compound {
	return c.Op(nfsv4.OpSeek, id, off, what)
}

// Allocate appends ALLOCATE.
func (c *Compound) Allocate(id nfsv4.StateID, off, n uint64) *Compound {
	return c.Op(nfsv4.OpAllocate, id, off, n)
}

// Deallocate appends DEALLOCATE.
func (c *Compound) Deallocate(id nfsv4.StateID, off, n uint64) *Compound {
	return c.Op(nfsv4.OpDeallocate, id, off, n)
}

// IOAdvise appends IO_ADVISE with hint 0.
func (c *Compound) IOAdvise(id nfsv4.StateID, off, n uint64) *Compound {
	return c.Op(nfsv4.OpIOAdvise, id, off, n, nfsv4.BitmapOf(0))
}

// The operations on clients, sessions and stateids.

// BackchannelCtl appends BACKCHANNEL_CTL with a list of flavors, AUTH_NONE or
// AUTH_SYS.
func (c *Compound) BackchannelCtl(program uint32, flavors ...uint32) *Compound {
	return c.Op(nfsv4.OpBackChannelCtl, program, callbackSec(flavors))
}

func callbackSec(flavors []uint32) func(*xdr.Encoder) {
	return func(e *xdr.Encoder) {
		e.Uint32(uint32(len(flavors)))
		for _, f := range flavors {
			e.Uint32(f)
			if f == nfsv4.AuthSys {
				put(e, 0, "nfstest", 0, 0, 0)
			}
		}
	}
}

// BindConnToSession appends BIND_CONN_TO_SESSION.
func (c *Compound) BindConnToSession(id nfsv4.SessionID, dir uint32) *Compound {
	return c.Op(nfsv4.OpBindConnToSession, id, dir, false)
}

// ExchangeIDArgs are the arguments of EXCHANGE_ID.
type ExchangeIDArgs struct {
	Owner    string
	Verifier nfsv4.Verifier
	Flags    uint32
	Protect  uint32 // with empty operations, and no algorithms
	Impl     string // none if empty
}

// ExchangeID appends EXCHANGE_ID.
func (c *Compound) ExchangeID(a ExchangeIDArgs) *Compound {
	c.Op(nfsv4.OpExchangeID, a.Verifier, a.Owner, a.Flags, a.Protect)
	switch a.Protect {
	case nfsv4.ProtectMachCred:
		put(&c.e, nfsv4.Bitmap{}, nfsv4.Bitmap{})
	case nfsv4.ProtectSSV:
		put(&c.e, nfsv4.Bitmap{}, nfsv4.Bitmap{}, 0, 0, 1, 1)
	}
	if a.Impl == "" {
		put(&c.e, 0)
	} else {
		put(&c.e, 1, "nfstest.invalid", a.Impl, int64(0), 0)
	}
	return c
}

// Channel is channel_attrs4 without RDMA; sizes are bytes.
type Channel struct {
	HeaderPad, MaxRequest, MaxResponse, MaxResponseCached, MaxOperations, MaxRequests uint32
}

func (ch Channel) encode(e *xdr.Encoder) {
	put(e, ch.HeaderPad, ch.MaxRequest, ch.MaxResponse, ch.MaxResponseCached, ch.MaxOperations, ch.MaxRequests, 0)
}

// DefaultFore and DefaultBack are the channels that [Client.NewSession] asks
// for, unless told otherwise.
var (
	DefaultFore = Channel{0, 8 << 20, 8 << 20, 64 << 10, 128, 64}
	DefaultBack = Channel{0, 4096, 4096, 0, 2, 1}
)

// CreateSessionArgs are the arguments of CREATE_SESSION.
type CreateSessionArgs struct {
	Client   nfsv4.ClientID
	Sequence uint32
	Flags    uint32
	Fore     Channel // DefaultFore if zero
	Back     Channel // DefaultBack if zero
}

// CreateSession appends CREATE_SESSION.
func (c *Compound) CreateSession(a CreateSessionArgs) *Compound {
	if a.Fore == (Channel{}) {
		a.Fore = DefaultFore
	}
	if a.Back == (Channel{}) {
		a.Back = DefaultBack
	}
	return c.Op(nfsv4.OpCreateSession, a.Client, a.Sequence, a.Flags, a.Fore.encode, a.Back.encode,
		0x40000000, callbackSec([]uint32{nfsv4.AuthNone}))
}

// DestroySession appends DESTROY_SESSION.
func (c *Compound) DestroySession(id nfsv4.SessionID) *Compound {
	return c.Op(nfsv4.OpDestroySession, id)
}

// DestroyClientID appends DESTROY_CLIENTID.
func (c *Compound) DestroyClientID(id nfsv4.ClientID) *Compound {
	return c.Op(nfsv4.OpDestroyClientID, id)
}

// FreeStateID appends FREE_STATEID.
func (c *Compound) FreeStateID(id nfsv4.StateID) *Compound { return c.Op(nfsv4.OpFreeStateID, id) }

// TestStateID appends TEST_STATEID.
func (c *Compound) TestStateID(ids ...nfsv4.StateID) *Compound {
	c.Op(nfsv4.OpTestStateID, len(ids))
	for _, id := range ids {
		id.Encode(&c.e)
	}
	return c
}

// ReclaimComplete appends RECLAIM_COMPLETE.
func (c *Compound) ReclaimComplete(oneFS bool) *Compound {
	return c.Op(nfsv4.OpReclaimComplete, oneFS)
}

// SequenceArgs are the arguments of SEQUENCE.
type SequenceArgs struct {
	Session     nfsv4.SessionID
	Sequence    uint32
	Slot        uint32
	HighestSlot uint32
	Cache       bool
}

// Sequence appends SEQUENCE.
func (c *Compound) Sequence(a SequenceArgs) *Compound {
	return c.Op(nfsv4.OpSequence, a.Session, a.Sequence, a.Slot, a.HighestSlot, a.Cache)
}

// Missing appends an operation that capstan does not offer, with arguments of
// the right form: these are answered NOTSUPP whatever they hold.
func (c *Compound) Missing(op nfsv4.Op) *Compound {
	id := nfsv4.StateID{Seq: 1}
	layout := []any{false, 1, 3}
	var args []any
	switch op {
	case nfsv4.OpDelegPurge, nfsv4.OpRenew:
		args = []any{uint64(1)}
	case nfsv4.OpDelegReturn:
		args = []any{id}
	case nfsv4.OpOpenAttr:
		args = []any{false}
	case nfsv4.OpOpenConfirm:
		args = []any{id, 1}
	case nfsv4.OpSetClientID:
		args = []any{nfsv4.Verifier{1}, "owner", 0x40000000, "tcp", "127.0.0.1.0.0", 1}
	case nfsv4.OpSetClientIDConfirm:
		args = []any{uint64(1), nfsv4.Verifier{1}}
	case nfsv4.OpReleaseLockOwner:
		args = []any{uint64(1), "owner"}
	case nfsv4.OpGetDirDelegation:
		args = []any{false, nfsv4.Bitmap{}, int64(0), 0, int64(0), 0, nfsv4.Bitmap{}, nfsv4.Bitmap{}}
	case nfsv4.OpGetDeviceInfo:
		args = []any{uint64(0), uint64(0), 1, 4096, nfsv4.Bitmap{}}
	case nfsv4.OpGetDeviceList:
		args = []any{1, 16, uint64(0), nfsv4.Verifier{}}
	case nfsv4.OpLayoutCommit:
		args = []any{uint64(0), uint64(1), false, id, false, false, 1, ""}
	case nfsv4.OpLayoutGet:
		args = append(layout, uint64(0), uint64(4096), uint64(0), id, 4096)
	case nfsv4.OpLayoutReturn:
		args = append(layout, 1, uint64(0), uint64(4096), id, "")
	case nfsv4.OpSetSSV:
		args = []any{"ssv", "digest"}
	case nfsv4.OpWantDelegation:
		args = []any{nfsv4.WantReadDeleg, 0}
	case nfsv4.OpCopy:
		args = []any{id, id, uint64(0), uint64(0), uint64(1), true, true, 0}
	case nfsv4.OpCopyNotify:
		args = []any{id, 1, "server"}
	case nfsv4.OpLayoutError:
		args = []any{uint64(0), uint64(1), id, 0}
	case nfsv4.OpLayoutStats:
		args = []any{uint64(0), uint64(1), id, 0, uint64(0), 0, uint64(0), uint64(0), uint64(0), 1, ""}
	case nfsv4.OpOffloadCancel, nfsv4.OpOffloadStatus:
		args = []any{id}
	case nfsv4.OpReadPlus:
		args = []any{id, uint64(0), 4096}
	case nfsv4.OpWriteSame:
		args = []any{id, nfsv4.Unstable, uint64(0), uint64(512), uint64(1), uint64(0), 0, uint64(0), "pattern"}
	case nfsv4.OpClone:
		args = []any{id, id, uint64(0), uint64(0), uint64(0)}
	}
	return c.Op(op, args...)
}
