package nfs4

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

// fromExport is the one place where the outcome of a call on a Volume becomes
// a status of the protocol. What an operation may not answer by the RFC is
// replaced afterwards, by [operation.permit].
var fromExport = [...]nfsv4.Status{
	export.OK:             nfsv4.OK,
	export.ErrPerm:        nfsv4.ErrPerm,
	export.ErrNoEnt:       nfsv4.ErrNoEnt,
	export.ErrIO:          nfsv4.ErrIO,
	export.ErrNXIO:        nfsv4.ErrNXIO,
	export.ErrAccess:      nfsv4.ErrAccess,
	export.ErrExist:       nfsv4.ErrExist,
	export.ErrXDev:        nfsv4.ErrXDev,
	export.ErrNotDir:      nfsv4.ErrNotDir,
	export.ErrIsDir:       nfsv4.ErrIsDir,
	export.ErrInval:       nfsv4.ErrInval,
	export.ErrFBig:        nfsv4.ErrFBig,
	export.ErrNoSpc:       nfsv4.ErrNoSpc,
	export.ErrROFS:        nfsv4.ErrROFS,
	export.ErrMLink:       nfsv4.ErrMLink,
	export.ErrNameTooLong: nfsv4.ErrNameTooLong,
	export.ErrNotEmpty:    nfsv4.ErrNotEmpty,
	export.ErrDQuot:       nfsv4.ErrDQuot,
	export.ErrStale:       nfsv4.ErrStale,
	export.ErrBadHandle:   nfsv4.ErrBadHandle,
	export.ErrBadCookie:   nfsv4.ErrBadCookie,
	export.ErrNotSupp:     nfsv4.ErrNotSupp,
	export.ErrDelay:       nfsv4.ErrDelay,
	export.ErrSymlink:     nfsv4.ErrSymlink,
	export.ErrBadType:     nfsv4.ErrBadType,
	export.ErrBadName:     nfsv4.ErrBadName,
	export.ErrFileOpen:    nfsv4.ErrFileOpen,
	export.ErrNoXattr:     nfsv4.ErrNoXattr,
	export.ErrXattrTooBig: nfsv4.ErrXattrTooBig,
	export.ErrLocked:      nfsv4.ErrDenied,
	export.ErrDeadlock:    nfsv4.ErrDeadlock,
	export.ErrNotSync:     nfsv4.ErrDelay, // has no meaning in version 4
	export.ErrFault:       nfsv4.ErrServerFault,
	export.ErrCanceled:    nfsv4.ErrDelay, // nobody waits for this answer
	export.ErrBadOwner:    nfsv4.ErrBadOwner,
}

// statusOf translates an error of package export.
func statusOf(err error) nfsv4.Status {
	if err == nil {
		return nfsv4.OK
	}
	if s := export.StatusOf(err); int(s) < len(fromExport) {
		return fromExport[s]
	}
	return nfsv4.ErrServerFault
}

// statusOf is statusOf for an error of the running operation. The cause behind
// IO and SERVERFAULT is told in the log, since the client learns nothing of it;
// at most once a second.
func (c *compound) statusOf(err error) nfsv4.Status {
	st := statusOf(err)
	if st == nfsv4.ErrIO || st == nfsv4.ErrServerFault {
		c.srv.faults.Do(func() {
			c.srv.opts.Logger.Warn("nfs4: an operation failed", "peer", c.peer.Addr, "status", st, "err", err)
		})
	}
	return st
}

// statusSet is a set of statuses, a bit for each.
type statusSet [3]uint64

func statusBit(s nfsv4.Status) (word int, bit uint64) {
	n := uint32(s)
	switch {
	case n < 80:
	case n >= 10000 && n < 10112:
		n = n - 10000 + 80
	default:
		n = 79 // no status has this number, so it is in no set
	}
	return int(n / 64), 1 << (n % 64)
}

func newStatusSet(lists ...[]nfsv4.Status) (set statusSet) {
	for _, l := range lists {
		for _, s := range l {
			w, b := statusBit(s)
			set[w] |= b
		}
	}
	return set
}

func (set *statusSet) has(s nfsv4.Status) bool {
	w, b := statusBit(s)
	return set[w]&b != 0
}

// nearest lists, for a status that an operation may not answer, what says the
// same most closely, best first. After these come IO, SERVERFAULT and DELAY.
var nearest = map[nfsv4.Status][]nfsv4.Status{
	nfsv4.ErrPerm:        {nfsv4.ErrAccess},
	nfsv4.ErrAccess:      {nfsv4.ErrPerm, nfsv4.ErrStale, nfsv4.ErrWrongSec},
	nfsv4.ErrNoEnt:       {nfsv4.ErrStale},
	nfsv4.ErrNXIO:        {nfsv4.ErrInval},
	nfsv4.ErrXDev:        {nfsv4.ErrInval},
	nfsv4.ErrNotDir:      {nfsv4.ErrInval, nfsv4.ErrWrongType},
	nfsv4.ErrIsDir:       {nfsv4.ErrExist, nfsv4.ErrInval, nfsv4.ErrWrongType},
	nfsv4.ErrSymlink:     {nfsv4.ErrNotDir, nfsv4.ErrInval, nfsv4.ErrWrongType},
	nfsv4.ErrBadType:     {nfsv4.ErrInval},
	nfsv4.ErrWrongType:   {nfsv4.ErrInval},
	nfsv4.ErrFBig:        {nfsv4.ErrInval},
	nfsv4.ErrNoSpc:       {nfsv4.ErrDQuot},
	nfsv4.ErrDQuot:       {nfsv4.ErrNoSpc},
	nfsv4.ErrMLink:       {nfsv4.ErrNoSpc},
	nfsv4.ErrNotEmpty:    {nfsv4.ErrExist},
	nfsv4.ErrROFS:        {nfsv4.ErrAccess},
	nfsv4.ErrNameTooLong: {nfsv4.ErrInval, nfsv4.ErrNoEnt},
	nfsv4.ErrBadName:     {nfsv4.ErrInval},
	nfsv4.ErrBadChar:     {nfsv4.ErrInval},
	nfsv4.ErrBadOwner:    {nfsv4.ErrInval},
	nfsv4.ErrBadHandle:   {nfsv4.ErrStale},
	nfsv4.ErrBadCookie:   {nfsv4.ErrInval},
	nfsv4.ErrXattrTooBig: {nfsv4.ErrNoSpc, nfsv4.ErrInval},
	nfsv4.ErrNotSupp:     {nfsv4.ErrInval},
	nfsv4.ErrDenied:      {nfsv4.ErrLocked},
	nfsv4.ErrFileOpen:    {nfsv4.ErrDelay},
	nfsv4.ErrDeadlock:    {nfsv4.ErrDenied},
	nfsv4.ErrInval:       {nfsv4.ErrWrongType},
}

// permit returns s, or what comes nearest to it among the statuses that the
// RFC lets o answer.
func (o *operation) permit(s nfsv4.Status) nfsv4.Status {
	if o.allowed.has(s) {
		return s
	}
	for _, n := range nearest[s] {
		if o.allowed.has(n) {
			return n
		}
	}
	for _, n := range [...]nfsv4.Status{nfsv4.ErrIO, nfsv4.ErrServerFault} {
		if o.allowed.has(n) {
			return n
		}
	}
	return nfsv4.ErrDelay
}
