package nfs4

import v4 "capstan/server/nfs4/nfsv4"

// statuses shortens the table below.
type statuses = []v4.Status

// Statuses that many operations share.
var (
	// onlyFH: operations that only move filehandles about. The table has none of
	// the session's limits for GETFH, which meets them as any other does.
	onlyFH = statuses{v4.OK, v4.ErrDeadSession, v4.ErrOpNotInSession, v4.ErrRepTooBig, v4.ErrRepTooBigToCache, v4.ErrReqTooBig,
		v4.ErrRetryUncachedRep, v4.ErrServerFault, v4.ErrTooManyOps}
	// noArgs may come from any operation of a session; inSession from those that
	// have arguments.
	noArgs    = append(statuses{v4.ErrDelay}, onlyFH...)
	inSession = append(statuses{v4.ErrBadXDR}, noArgs...)
	// aloneOrInSession: operations that may also stand alone.
	aloneOrInSession = statuses{v4.OK, v4.ErrBadXDR, v4.ErrDeadSession, v4.ErrDelay, v4.ErrNotOnlyOp, v4.ErrRepTooBig,
		v4.ErrRepTooBigToCache, v4.ErrReqTooBig, v4.ErrRetryUncachedRep, v4.ErrServerFault, v4.ErrTooManyOps}
	// onHandle: operations on the current filehandle.
	onHandle = statuses{v4.ErrFHExpired, v4.ErrMoved, v4.ErrNoFileHandle, v4.ErrStale}
	// onName: operations with a component name.
	onName = statuses{v4.ErrBadChar, v4.ErrBadName, v4.ErrInval, v4.ErrNameTooLong, v4.ErrNotDir, v4.ErrAccess}
	// withState: operations with a stateid.
	withState = statuses{v4.ErrAdminRevoked, v4.ErrBadStateID, v4.ErrExpired, v4.ErrOldStateID}
	// onData: operations on the bytes of a file.
	onData = statuses{v4.ErrAccess, v4.ErrDelegRevoked, v4.ErrGrace, v4.ErrInval, v4.ErrIO, v4.ErrIsDir, v4.ErrLocked,
		v4.ErrOpenMode, v4.ErrSymlink, v4.ErrWrongType}
	onSpace = statuses{v4.ErrDQuot, v4.ErrFBig, v4.ErrNoSpc, v4.ErrROFS}
	onXattr = statuses{v4.ErrAccess, v4.ErrInval, v4.ErrIO, v4.ErrNotSupp, v4.ErrPerm, v4.ErrWrongType}
)

// allowedStatuses says what each operation may answer: RFC 8881 section 15.2,
// RFC 7862 section 11.2, RFC 8276 section 8.4. Operations that this server
// answers NOTSUPP in every minor version are not listed.
var allowedStatuses = map[v4.Op][]statuses{
	v4.OpAccess:         {inSession, onHandle, {v4.ErrAccess, v4.ErrInval, v4.ErrIO}},
	v4.OpBackChannelCtl: {inSession, {v4.ErrInval, v4.ErrNoEnt}},
	v4.OpClose:          {inSession, onHandle, withState, {v4.ErrLocksHeld, v4.ErrWrongCred}},
	// The RFC lists neither NOSPC nor DQUOT for COMMIT, which is where a full
	// filesystem shows up behind unstable writes. Linux answers them too, and
	// fsync then fails with the reason and not with EIO.
	v4.OpCommit:          {inSession, onHandle, {v4.ErrAccess, v4.ErrDQuot, v4.ErrIO, v4.ErrIsDir, v4.ErrNoSpc, v4.ErrSymlink, v4.ErrWrongType}},
	v4.OpCreate:          {inSession, onHandle, onName, {v4.ErrAttrNotSupp, v4.ErrBadOwner, v4.ErrBadType, v4.ErrDQuot, v4.ErrExist, v4.ErrIO, v4.ErrMLink, v4.ErrNoSpc, v4.ErrPerm, v4.ErrROFS, v4.ErrUnsafeCompound}},
	v4.OpFreeStateID:     {inSession, {v4.ErrBadStateID, v4.ErrLocksHeld, v4.ErrOldStateID, v4.ErrWrongCred}},
	v4.OpGetAttr:         {inSession, onHandle, {v4.ErrAccess, v4.ErrGrace, v4.ErrInval, v4.ErrIO, v4.ErrWrongType}},
	v4.OpGetFH:           {onlyFH, onHandle},
	v4.OpIllegal:         {{v4.ErrBadXDR, v4.ErrOpIllegal}},
	v4.OpLink:            {inSession, onHandle, onName, {v4.ErrDQuot, v4.ErrExist, v4.ErrFileOpen, v4.ErrGrace, v4.ErrIsDir, v4.ErrIO, v4.ErrMLink, v4.ErrNoEnt, v4.ErrNoSpc, v4.ErrNotSupp, v4.ErrROFS, v4.ErrSymlink, v4.ErrWrongSec, v4.ErrWrongType, v4.ErrXDev}},
	v4.OpLock:            {inSession, onHandle, withState, {v4.ErrAccess, v4.ErrBadRange, v4.ErrDeadlock, v4.ErrDenied, v4.ErrGrace, v4.ErrInval, v4.ErrIsDir, v4.ErrLockNotSupp, v4.ErrLockRange, v4.ErrNoGrace, v4.ErrOpenMode, v4.ErrReclaimBad, v4.ErrReclaimConflict, v4.ErrROFS, v4.ErrSymlink, v4.ErrWrongCred, v4.ErrWrongType}},
	v4.OpLockT:           {inSession, onHandle, {v4.ErrAccess, v4.ErrBadRange, v4.ErrDenied, v4.ErrGrace, v4.ErrInval, v4.ErrIsDir, v4.ErrLockRange, v4.ErrROFS, v4.ErrSymlink, v4.ErrWrongCred, v4.ErrWrongType}},
	v4.OpLockU:           {inSession, onHandle, withState, {v4.ErrAccess, v4.ErrBadRange, v4.ErrInval, v4.ErrLockRange, v4.ErrWrongCred}},
	v4.OpLookup:          {inSession, onHandle, onName, {v4.ErrIO, v4.ErrNoEnt, v4.ErrSymlink, v4.ErrWrongSec}},
	v4.OpLookupP:         {noArgs, onHandle, {v4.ErrAccess, v4.ErrIO, v4.ErrNoEnt, v4.ErrNotDir, v4.ErrSymlink, v4.ErrWrongSec}},
	v4.OpNVerify:         {inSession, onHandle, {v4.ErrAccess, v4.ErrAttrNotSupp, v4.ErrBadChar, v4.ErrGrace, v4.ErrInval, v4.ErrIO, v4.ErrSame, v4.ErrUnknownLayoutType, v4.ErrWrongType}},
	v4.OpOpen:            {inSession, onHandle, onName, withState, onSpace, {v4.ErrAttrNotSupp, v4.ErrBadOwner, v4.ErrDelegAlreadyWanted, v4.ErrDelegRevoked, v4.ErrExist, v4.ErrGrace, v4.ErrIO, v4.ErrIsDir, v4.ErrNoEnt, v4.ErrNoGrace, v4.ErrPerm, v4.ErrReclaimBad, v4.ErrReclaimConflict, v4.ErrShareDenied, v4.ErrSymlink, v4.ErrUnsafeCompound, v4.ErrWrongSec, v4.ErrWrongType}},
	v4.OpOpenDowngrade:   {inSession, onHandle, withState, {v4.ErrInval, v4.ErrROFS, v4.ErrWrongCred}},
	v4.OpPutFH:           {inSession, {v4.ErrBadHandle, v4.ErrMoved, v4.ErrStale, v4.ErrWrongSec}},
	v4.OpPutPubFH:        {noArgs, {v4.ErrWrongSec}},
	v4.OpPutRootFH:       {noArgs, {v4.ErrWrongSec}},
	v4.OpRead:            {inSession, onHandle, withState, onData, {v4.ErrPNFSIOHole, v4.ErrPNFSNoLayout}},
	v4.OpReadDir:         {inSession, onHandle, {v4.ErrAccess, v4.ErrBadCookie, v4.ErrInval, v4.ErrIO, v4.ErrNotDir, v4.ErrNotSame, v4.ErrTooSmall}},
	v4.OpReadLink:        {noArgs, onHandle, {v4.ErrAccess, v4.ErrInval, v4.ErrIO, v4.ErrWrongType}},
	v4.OpReclaimComplete: {inSession, onHandle, {v4.ErrCompleteAlready, v4.ErrInval, v4.ErrWrongCred, v4.ErrWrongType}},
	v4.OpRemove:          {inSession, onHandle, onName, {v4.ErrFileOpen, v4.ErrGrace, v4.ErrIO, v4.ErrNoEnt, v4.ErrNotEmpty, v4.ErrROFS}},
	v4.OpRename:          {inSession, onHandle, onName, {v4.ErrDQuot, v4.ErrExist, v4.ErrFileOpen, v4.ErrGrace, v4.ErrIO, v4.ErrMLink, v4.ErrNoEnt, v4.ErrNoSpc, v4.ErrNotEmpty, v4.ErrROFS, v4.ErrWrongSec, v4.ErrXDev}},
	v4.OpRestoreFH:       {onlyFH, onHandle, {v4.ErrWrongSec}},
	v4.OpSaveFH:          {onlyFH, onHandle},
	v4.OpSecInfo:         {inSession, onHandle, onName, {v4.ErrNoEnt}},
	v4.OpSecInfoNoName:   {inSession, onHandle, {v4.ErrAccess, v4.ErrInval, v4.ErrNoEnt, v4.ErrNotDir, v4.ErrNotSupp}},
	v4.OpSetAttr:         {inSession, onHandle, withState, onSpace, {v4.ErrAccess, v4.ErrAttrNotSupp, v4.ErrBadChar, v4.ErrBadOwner, v4.ErrDelegRevoked, v4.ErrGrace, v4.ErrInval, v4.ErrIO, v4.ErrLocked, v4.ErrOpenMode, v4.ErrPerm, v4.ErrUnknownLayoutType, v4.ErrWrongType}},
	v4.OpTestStateID:     {inSession},
	v4.OpVerify:          {inSession, onHandle, {v4.ErrAccess, v4.ErrAttrNotSupp, v4.ErrBadChar, v4.ErrGrace, v4.ErrInval, v4.ErrIO, v4.ErrNotSame, v4.ErrUnknownLayoutType, v4.ErrWrongType}},
	v4.OpWrite:           {inSession, onHandle, withState, onData, onSpace, {v4.ErrPNFSIOHole, v4.ErrPNFSNoLayout}},

	v4.OpBindConnToSession: {aloneOrInSession, {v4.ErrBadSession, v4.ErrBadSessionDigest, v4.ErrInval}},
	v4.OpCreateSession:     {aloneOrInSession, {v4.ErrClIDInUse, v4.ErrInval, v4.ErrNoEnt, v4.ErrNoSpc, v4.ErrSeqMisordered, v4.ErrStaleClientID, v4.ErrTooSmall, v4.ErrWrongCred}},
	v4.OpDestroyClientID:   {aloneOrInSession, {v4.ErrClientIDBusy, v4.ErrStaleClientID, v4.ErrWrongCred}},
	v4.OpDestroySession:    {aloneOrInSession, {v4.ErrBackChanBusy, v4.ErrBadSession, v4.ErrCBPathDown, v4.ErrConnNotBoundToSession, v4.ErrStaleClientID, v4.ErrWrongCred}},
	v4.OpExchangeID:        {aloneOrInSession, {v4.ErrBadChar, v4.ErrClIDInUse, v4.ErrEncrAlgUnsupp, v4.ErrHashAlgUnsupp, v4.ErrInval, v4.ErrNoEnt, v4.ErrNotSame, v4.ErrPerm}},
	v4.OpSequence:          {{v4.OK, v4.ErrBadSession, v4.ErrBadSlot, v4.ErrBadXDR, v4.ErrBadHighSlot, v4.ErrConnNotBoundToSession, v4.ErrDeadSession, v4.ErrDelay, v4.ErrRepTooBig, v4.ErrRepTooBigToCache, v4.ErrReqTooBig, v4.ErrRetryUncachedRep, v4.ErrSequencePos, v4.ErrSeqFalseRetry, v4.ErrSeqMisordered, v4.ErrTooManyOps}},

	v4.OpAllocate:    {inSession, onHandle, withState, onData, onSpace, {v4.ErrNotSupp}},
	v4.OpDeallocate:  {inSession, onHandle, withState, onData, onSpace, {v4.ErrNotSupp}},
	v4.OpIOAdvise:    {inSession, onHandle, withState, {v4.ErrAccess, v4.ErrDelegRevoked, v4.ErrFBig, v4.ErrGrace, v4.ErrInval, v4.ErrIO, v4.ErrIsDir, v4.ErrNotSupp, v4.ErrSymlink, v4.ErrWrongType}},
	v4.OpSeek:        {inSession, onHandle, withState, onData, {v4.ErrNotSupp, v4.ErrNXIO, v4.ErrPNFSIOHole, v4.ErrPNFSNoLayout, v4.ErrUnionNotSupp}},
	v4.OpGetXattr:    {inSession, onHandle, onXattr, {v4.ErrBadChar, v4.ErrNameTooLong, v4.ErrNoXattr, v4.ErrTooSmall}},
	v4.OpSetXattr:    {inSession, onHandle, onXattr, {v4.ErrBadChar, v4.ErrDQuot, v4.ErrExist, v4.ErrNameTooLong, v4.ErrNoSpc, v4.ErrNoXattr, v4.ErrROFS, v4.ErrXattrTooBig}},
	v4.OpListXattrs:  {inSession, onHandle, onXattr, {v4.ErrBadCookie, v4.ErrNameTooLong, v4.ErrNoXattr, v4.ErrTooSmall}},
	v4.OpRemoveXattr: {inSession, onHandle, onXattr, {v4.ErrBadChar, v4.ErrDQuot, v4.ErrExist, v4.ErrNameTooLong, v4.ErrNoSpc, v4.ErrNoXattr, v4.ErrROFS}},
}
