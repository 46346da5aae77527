package rpc

import "fmt"

// Version is the version of the RPC protocol itself.
const Version = 2

// The message types (msg_type) and reply kinds (reply_stat, reject_stat) of
// RFC 5531 section 9.
const (
	msgCall  = 0
	msgReply = 1

	replyAccepted = 0
	replyDenied   = 1

	rejectMismatch = 0
	rejectAuth     = 1
)

// Limits of the message header.
const (
	maxAuthBody = 400 // opaque_auth.body, RFC 5531 section 8.2
	maxMachine  = 255 // authsys_parms.machinename, appendix A
	maxGroups   = 16  // authsys_parms.gids, appendix A
)

// AcceptStat is accept_stat of RFC 5531 section 9: how a call ended whose
// header was in order.
type AcceptStat uint32

// The values of AcceptStat.
const (
	Success      AcceptStat = 0 // SUCCESS
	ProgUnavail  AcceptStat = 1 // PROG_UNAVAIL: program not served here
	ProgMismatch AcceptStat = 2 // PROG_MISMATCH: version not served here
	ProcUnavail  AcceptStat = 3 // PROC_UNAVAIL: no such procedure
	GarbageArgs  AcceptStat = 4 // GARBAGE_ARGS: arguments cannot be decoded
	SystemErr    AcceptStat = 5 // SYSTEM_ERR: the server itself failed
)

var acceptNames = [...]string{"SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"}

func (s AcceptStat) String() string {
	if int64(s) < int64(len(acceptNames)) {
		return acceptNames[s]
	}
	return fmt.Sprintf("accept_stat %d", uint32(s))
}

// AuthStat is auth_stat of RFC 5531 section 9: why a credential or verifier was
// not accepted.
type AuthStat uint32

// The values of AuthStat that a server sends.
const (
	AuthOK           AuthStat = 0  // AUTH_OK
	AuthBadCred      AuthStat = 1  // AUTH_BADCRED: credential cannot be decoded
	AuthRejectedCred AuthStat = 2  // AUTH_REJECTEDCRED: flavor or session not accepted
	AuthBadVerf      AuthStat = 3  // AUTH_BADVERF: verifier cannot be decoded
	AuthRejectedVerf AuthStat = 4  // AUTH_REJECTEDVERF: verifier expired or replayed
	AuthTooWeak      AuthStat = 5  // AUTH_TOOWEAK: flavor not allowed for this call
	AuthFailed       AuthStat = 7  // AUTH_FAILED: reason unknown
	AuthGSSCredProb  AuthStat = 13 // RPCSEC_GSS_CREDPROBLEM
	AuthGSSCtxProb   AuthStat = 14 // RPCSEC_GSS_CTXPROBLEM
)

var authNames = map[AuthStat]string{
	AuthOK: "AUTH_OK", AuthBadCred: "AUTH_BADCRED", AuthRejectedCred: "AUTH_REJECTEDCRED",
	AuthBadVerf: "AUTH_BADVERF", AuthRejectedVerf: "AUTH_REJECTEDVERF", AuthTooWeak: "AUTH_TOOWEAK",
	AuthFailed: "AUTH_FAILED", AuthGSSCredProb: "RPCSEC_GSS_CREDPROBLEM", AuthGSSCtxProb: "RPCSEC_GSS_CTXPROBLEM",
}

func (s AuthStat) String() string {
	if n, ok := authNames[s]; ok {
		return n
	}
	return fmt.Sprintf("auth_stat %d", uint32(s))
}
