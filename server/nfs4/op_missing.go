package nfs4

import "capstan/server/nfs4/nfsv4"

// missingOps are the operations that the minor versions have and this server
// does not: optional features it does not offer, and what is mandatory not to
// implement from minor version 1 on (RFC 8881 chapter 17, RFC 7862 section 13).
func missingOps() []operation {
	return []operation{
		notSupported(nfsv4.OpDelegPurge, 0, 2),
		notSupported(nfsv4.OpDelegReturn, 0, 2),
		notSupported(nfsv4.OpOpenAttr, 0, 2),
		notSupported(nfsv4.OpOpenConfirm, 0, 2),
		notSupported(nfsv4.OpRenew, 0, 2),
		notSupported(nfsv4.OpSetClientID, 0, 2),
		notSupported(nfsv4.OpSetClientIDConfirm, 0, 2),
		notSupported(nfsv4.OpReleaseLockOwner, 0, 2),

		notSupported(nfsv4.OpGetDirDelegation, 1, 2),
		notSupported(nfsv4.OpGetDeviceInfo, 1, 2),
		notSupported(nfsv4.OpGetDeviceList, 1, 2),
		notSupported(nfsv4.OpLayoutCommit, 1, 2),
		notSupported(nfsv4.OpLayoutGet, 1, 2),
		notSupported(nfsv4.OpLayoutReturn, 1, 2),
		notSupported(nfsv4.OpSetSSV, 1, 2),
		notSupported(nfsv4.OpWantDelegation, 1, 2),

		notSupported(nfsv4.OpCopy, 2, 2),
		notSupported(nfsv4.OpCopyNotify, 2, 2),
		notSupported(nfsv4.OpLayoutError, 2, 2),
		notSupported(nfsv4.OpLayoutStats, 2, 2),
		notSupported(nfsv4.OpOffloadCancel, 2, 2),
		notSupported(nfsv4.OpOffloadStatus, 2, 2),
		notSupported(nfsv4.OpReadPlus, 2, 2),
		notSupported(nfsv4.OpWriteSame, 2, 2),
		notSupported(nfsv4.OpClone, 2, 2),
	}
}
