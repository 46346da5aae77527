package nfsv4

import "strconv"

// Op is the number of an operation (nfs_opnum4: RFC 7531, RFC 5662, RFC 7863, RFC 8276).
type Op uint32

// The operations of minor versions 0, 1 and 2, as OP_* in the RFCs.
const (
	OpAccess             Op = 3
	OpClose              Op = 4
	OpCommit             Op = 5
	OpCreate             Op = 6
	OpDelegPurge         Op = 7
	OpDelegReturn        Op = 8
	OpGetAttr            Op = 9
	OpGetFH              Op = 10
	OpLink               Op = 11
	OpLock               Op = 12
	OpLockT              Op = 13
	OpLockU              Op = 14
	OpLookup             Op = 15
	OpLookupP            Op = 16
	OpNVerify            Op = 17
	OpOpen               Op = 18
	OpOpenAttr           Op = 19
	OpOpenConfirm        Op = 20
	OpOpenDowngrade      Op = 21
	OpPutFH              Op = 22
	OpPutPubFH           Op = 23
	OpPutRootFH          Op = 24
	OpRead               Op = 25
	OpReadDir            Op = 26
	OpReadLink           Op = 27
	OpRemove             Op = 28
	OpRename             Op = 29
	OpRenew              Op = 30
	OpRestoreFH          Op = 31
	OpSaveFH             Op = 32
	OpSecInfo            Op = 33
	OpSetAttr            Op = 34
	OpSetClientID        Op = 35
	OpSetClientIDConfirm Op = 36
	OpVerify             Op = 37
	OpWrite              Op = 38
	OpReleaseLockOwner   Op = 39
	OpBackChannelCtl     Op = 40
	OpBindConnToSession  Op = 41
	OpExchangeID         Op = 42
	OpCreateSession      Op = 43
	OpDestroySession     Op = 44
	OpFreeStateID        Op = 45
	OpGetDirDelegation   Op = 46
	OpGetDeviceInfo      Op = 47
	OpGetDeviceList      Op = 48
	OpLayoutCommit       Op = 49
	OpLayoutGet          Op = 50
	OpLayoutReturn       Op = 51
	OpSecInfoNoName      Op = 52
	OpSequence           Op = 53
	OpSetSSV             Op = 54
	OpTestStateID        Op = 55
	OpWantDelegation     Op = 56
	OpDestroyClientID    Op = 57
	OpReclaimComplete    Op = 58
	OpAllocate           Op = 59
	OpCopy               Op = 60
	OpCopyNotify         Op = 61
	OpDeallocate         Op = 62
	OpIOAdvise           Op = 63
	OpLayoutError        Op = 64
	OpLayoutStats        Op = 65
	OpOffloadCancel      Op = 66
	OpOffloadStatus      Op = 67
	OpReadPlus           Op = 68
	OpSeek               Op = 69
	OpWriteSame          Op = 70
	OpClone              Op = 71
	OpGetXattr           Op = 72
	OpSetXattr           Op = 73
	OpListXattrs         Op = 74
	OpRemoveXattr        Op = 75
	OpIllegal            Op = 10044
)

var opNames = map[Op]string{
	OpAccess:             "ACCESS",
	OpClose:              "CLOSE",
	OpCommit:             "COMMIT",
	OpCreate:             "CREATE",
	OpDelegPurge:         "DELEGPURGE",
	OpDelegReturn:        "DELEGRETURN",
	OpGetAttr:            "GETATTR",
	OpGetFH:              "GETFH",
	OpLink:               "LINK",
	OpLock:               "LOCK",
	OpLockT:              "LOCKT",
	OpLockU:              "LOCKU",
	OpLookup:             "LOOKUP",
	OpLookupP:            "LOOKUPP",
	OpNVerify:            "NVERIFY",
	OpOpen:               "OPEN",
	OpOpenAttr:           "OPENATTR",
	OpOpenConfirm:        "OPEN_CONFIRM",
	OpOpenDowngrade:      "OPEN_DOWNGRADE",
	OpPutFH:              "PUTFH",
	OpPutPubFH:           "PUTPUBFH",
	OpPutRootFH:          "PUTROOTFH",
	OpRead:               "READ",
	OpReadDir:            "READDIR",
	OpReadLink:           "READLINK",
	OpRemove:             "REMOVE",
	OpRename:             "RENAME",
	OpRenew:              "RENEW",
	OpRestoreFH:          "RESTOREFH",
	OpSaveFH:             "SAVEFH",
	OpSecInfo:            "SECINFO",
	OpSetAttr:            "SETATTR",
	OpSetClientID:        "SETCLIENTID",
	OpSetClientIDConfirm: "SETCLIENTID_CONFIRM",
	OpVerify:             "VERIFY",
	OpWrite:              "WRITE",
	OpReleaseLockOwner:   "RELEASE_LOCKOWNER",
	OpBackChannelCtl:     "BACKCHANNEL_CTL",
	OpBindConnToSession:  "BIND_CONN_TO_SESSION",
	OpExchangeID:         "EXCHANGE_ID",
	OpCreateSession:      "CREATE_SESSION",
	OpDestroySession:     "DESTROY_SESSION",
	OpFreeStateID:        "FREE_STATEID",
	OpGetDirDelegation:   "GET_DIR_DELEGATION",
	OpGetDeviceInfo:      "GETDEVICEINFO",
	OpGetDeviceList:      "GETDEVICELIST",
	OpLayoutCommit:       "LAYOUTCOMMIT",
	OpLayoutGet:          "LAYOUTGET",
	OpLayoutReturn:       "LAYOUTRETURN",
	OpSecInfoNoName:      "SECINFO_NO_NAME",
	OpSequence:           "SEQUENCE",
	OpSetSSV:             "SET_SSV",
	OpTestStateID:        "TEST_STATEID",
	OpWantDelegation:     "WANT_DELEGATION",
	OpDestroyClientID:    "DESTROY_CLIENTID",
	OpReclaimComplete:    "RECLAIM_COMPLETE",
	OpAllocate:           "ALLOCATE",
	OpCopy:               "COPY",
	OpCopyNotify:         "COPY_NOTIFY",
	OpDeallocate:         "DEALLOCATE",
	OpIOAdvise:           "IO_ADVISE",
	OpLayoutError:        "LAYOUTERROR",
	OpLayoutStats:        "LAYOUTSTATS",
	OpOffloadCancel:      "OFFLOAD_CANCEL",
	OpOffloadStatus:      "OFFLOAD_STATUS",
	OpReadPlus:           "READ_PLUS",
	OpSeek:               "SEEK",
	OpWriteSame:          "WRITE_SAME",
	OpClone:              "CLONE",
	OpGetXattr:           "GETXATTR",
	OpSetXattr:           "SETXATTR",
	OpListXattrs:         "LISTXATTRS",
	OpRemoveXattr:        "REMOVEXATTR",
	OpIllegal:            "ILLEGAL",
}

// String returns the RFC's name without its prefix: "PUTFH".
func (o Op) String() string {
	if s, ok := opNames[o]; ok {
		return s
	}
	return "OP_" + strconv.FormatUint(uint64(o), 10)
}
