package nfsv4

// Bits of share_access in OPEN and OPEN_DOWNGRADE (OPEN4_SHARE_*, RFC 8881
// section 18.16.1). The low two bits are the access itself.
const (
	ShareAccessRead  uint32 = 1
	ShareAccessWrite uint32 = 2
	ShareAccessBoth  uint32 = 3
	ShareDenyNone    uint32 = 0
	ShareDenyRead    uint32 = 1
	ShareDenyWrite   uint32 = 2
	ShareDenyBoth    uint32 = 3

	WantDelegMask         uint32 = 0xff00
	WantNoPreference      uint32 = 0x0000
	WantReadDeleg         uint32 = 0x0100
	WantWriteDeleg        uint32 = 0x0200
	WantAnyDeleg          uint32 = 0x0300
	WantNoDeleg           uint32 = 0x0400
	WantCancel            uint32 = 0x0500
	WantSignalDelegAvail  uint32 = 0x10000 // ..._WHEN_RESRC_AVAIL
	WantPushDelegUncont   uint32 = 0x20000 // ..._WHEN_UNCONTENDED
	WantDelegTimestamps   uint32 = 0x100000
	WantOpenXorDelegation uint32 = 0x200000
)

// Values of createhow4, opentype4 and open_claim_type4 (RFC 8881 section 18.16.1).
const (
	OpenNoCreate uint32 = 0
	OpenCreate   uint32 = 1

	CreateUnchecked  uint32 = 0
	CreateGuarded    uint32 = 1
	CreateExclusive  uint32 = 2
	CreateExclusive1 uint32 = 3 // EXCLUSIVE4_1

	ClaimNull         uint32 = 0
	ClaimPrevious     uint32 = 1
	ClaimDelegateCur  uint32 = 2
	ClaimDelegatePrev uint32 = 3
	ClaimFH           uint32 = 4
	ClaimDelegCurFH   uint32 = 5
	ClaimDelegPrevFH  uint32 = 6
)

// Delegation types and reasons in the result of OPEN (RFC 8881 section 18.16.2).
const (
	DelegateNone    uint32 = 0
	DelegateRead    uint32 = 1
	DelegateWrite   uint32 = 2
	DelegateNoneExt uint32 = 3

	WhyNotWanted       uint32 = 0
	WhyContention      uint32 = 1
	WhyResource        uint32 = 2
	WhyNotSuppFType    uint32 = 3
	WhyWriteDelegNotFT uint32 = 4
	WhyNotSuppUpgrade  uint32 = 5
	WhyNotSuppDowngrad uint32 = 6
	WhyCancelled       uint32 = 7
	WhyIsDir           uint32 = 8
)

// Result flags of OPEN (OPEN4_RESULT_*).
const (
	OpenResultConfirm        uint32 = 0x02
	OpenResultLockTypePosix  uint32 = 0x04
	OpenResultPreserveUnlink uint32 = 0x08
	OpenResultMayNotifyLock  uint32 = 0x20
)

// Lock types (nfs_lock_type4).
const (
	LockRead        uint32 = 1
	LockWrite       uint32 = 2
	LockReadBlock   uint32 = 3
	LockWriteBlock  uint32 = 4
	LockToEndLength        = ^uint64(0)
)

// Stability of WRITE (stable_how4).
const (
	Unstable uint32 = 0
	DataSync uint32 = 1
	FileSync uint32 = 2
)

// Flags of EXCHANGE_ID (EXCHGID4_FLAG_*, RFC 8881 section 18.35.1).
const (
	ExchangeSuppMovedRefer   uint32 = 0x00000001
	ExchangeSuppMovedMigr    uint32 = 0x00000002
	ExchangeSuppFenceOps     uint32 = 0x00000004 // RFC 7862 section 10
	ExchangeBindPrincStateID uint32 = 0x00000100
	ExchangeUseNonPNFS       uint32 = 0x00010000
	ExchangeUsePNFSMDS       uint32 = 0x00020000
	ExchangeUsePNFSDS        uint32 = 0x00040000
	ExchangeMaskPNFS         uint32 = 0x00070000
	ExchangeUpdConfirmed     uint32 = 0x40000000
	ExchangeConfirmed        uint32 = 0x80000000
)

// State protection of EXCHANGE_ID (state_protect_how4).
const (
	ProtectNone     uint32 = 0
	ProtectMachCred uint32 = 1
	ProtectSSV      uint32 = 2
)

// Flags of CREATE_SESSION (CREATE_SESSION4_FLAG_*).
const (
	SessionPersist     uint32 = 1
	SessionConnBackCh  uint32 = 2
	SessionConnRDMA    uint32 = 4
	SessionFlagsKnown  uint32 = 7
	CallbackSecAuthSys uint32 = 1
)

// Directions of BIND_CONN_TO_SESSION (channel_dir_from_client4 and
// channel_dir_from_server4).
const (
	BindFore       uint32 = 1
	BindBack       uint32 = 2
	BindForeOrBoth uint32 = 3
	BindBackOrBoth uint32 = 7
	BindBoth       uint32 = 3 // from server
)

// Status flags of SEQUENCE (SEQ4_STATUS_*, RFC 8881 section 18.46.1).
const (
	SeqCBPathDown              uint32 = 0x001
	SeqCBGSSContextsExpiring   uint32 = 0x002
	SeqCBGSSContextsExpired    uint32 = 0x004
	SeqExpiredAllStateRevoked  uint32 = 0x008
	SeqExpiredSomeStateRevoked uint32 = 0x010
	SeqAdminStateRevoked       uint32 = 0x020
	SeqRecallableStateRevoked  uint32 = 0x040
	SeqLeaseMoved              uint32 = 0x080
	SeqRestartReclaimNeeded    uint32 = 0x100
	SeqCBPathDownSession       uint32 = 0x200
	SeqBackchannelFault        uint32 = 0x400
	SeqDevIDChanged            uint32 = 0x800
	SeqDevIDDeleted            uint32 = 0x1000
)

// ACCESS bits (ACCESS4_*, RFC 8881 section 18.1.1, RFC 8276 section 8.5).
const (
	AccessRead    uint32 = 0x01
	AccessLookup  uint32 = 0x02
	AccessModify  uint32 = 0x04
	AccessExtend  uint32 = 0x08
	AccessDelete  uint32 = 0x10
	AccessExecute uint32 = 0x20
	AccessXARead  uint32 = 0x40
	AccessXAWrite uint32 = 0x80
	AccessXAList  uint32 = 0x100
	AccessKnown41 uint32 = 0x3f
	AccessKnown42 uint32 = 0x1ff
)

// Security styles of SECINFO_NO_NAME (secinfo_style4) and flavors (RFC 5531
// section 8.2).
const (
	SecInfoCurrentFH uint32 = 0
	SecInfoParent    uint32 = 1
	AuthNone         uint32 = 0
	AuthSys          uint32 = 1
)

// Options of SETXATTR (setxattr_option4, RFC 8276 section 8.4.1).
const (
	SetXattrEither  uint32 = 0
	SetXattrCreate  uint32 = 1
	SetXattrReplace uint32 = 2
)

// Values of change_attr_type (change_attr_type4, RFC 7862 section 12.2.3).
const (
	ChangeMonotonicIncr  uint32 = 0
	ChangeVersionCounter uint32 = 1
	ChangeVersionNoPNFS  uint32 = 2
	ChangeTimeMetadata   uint32 = 3
	ChangeUndefined      uint32 = 4
)

// SetToServerTime and SetToClientTime are time_how4.
const (
	SetToServerTime uint32 = 0
	SetToClientTime uint32 = 1
)

// CharsetNonUTF8 says in fs_charset_cap that names may hold any bytes
// (FSCHARSET_CAP4_CONTAINS_NON_UTF8, RFC 8881 section 14.4).
const CharsetNonUTF8 uint32 = 1
