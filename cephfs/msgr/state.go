package msgr

import "capstan/cephfs/msgr/frame"

// The states of a stream, from the side that connects. What is sent on the
// way into a state stands in brackets; the banners were exchanged before:
//
//	[HELLO]
//	 hello ──HELLO──▶ auth ──AUTH_DONE──▶ sign ──AUTH_SIGNATURE──┐
//	               [AUTH_REQUEST]    [AUTH_SIGNATURE]            │
//	                │    ▲                            no session │ session
//	AUTH_BAD_METHOD └────┘ AUTH_REPLY_MORE                ┌──────┴──────┐
//	                                                      ▼             ▼
//	                             ┌───────────────────── ident ◀──── reconnect ◀─┐
//	                             │ SERVER_IDENT  [CLIENT_IDENT] │ [SESSION_RECONNECT]
//	                             ▼                        SESSION_RESET │ └─────┘
//	                           ready ◀────── SESSION_RECONNECT_OK ──────┘ SESSION_RETRY,
//	                                                                      SESSION_RETRY_GLOBAL
//
// IDENT_MISSING_FEATURES and WAIT end the stream, as does every frame that
// the table does not allow.
type state uint8

const (
	stateHello     state = iota + 1 // waits for the peer's HELLO
	stateAuth                       // waits for the answer to AUTH_REQUEST or _MORE
	stateSign                       // waits for the peer's AUTH_SIGNATURE
	stateIdent                      // waits for the answer to CLIENT_IDENT
	stateReconnect                  // waits for the answer to SESSION_RECONNECT
	stateReady                      // messages flow

	stateLimit
)

var stateNames = [stateLimit]string{
	stateHello: "hello", stateAuth: "auth", stateSign: "sign",
	stateIdent: "ident", stateReconnect: "reconnect", stateReady: "ready",
}

func (s state) String() string {
	if s < stateLimit && stateNames[s] != "" {
		return stateNames[s]
	}
	return "none"
}

// action is what a frame asks for; actRefuse if it is not allowed.
type action uint8

const (
	actRefuse action = iota
	actHello
	actBadMethod
	actReplyMore
	actDone
	actSignature
	actServerIdent
	actMissingFeatures
	actReset
	actRetry
	actRetryGlobal
	actReconnectOK
	actWait
	actMessage
	actKeepalive
	actKeepaliveAck
	actAck
)

// table holds every frame that a state allows.
var table = [stateLimit][frame.TagLimit]action{
	stateHello: {frame.TagHello: actHello},
	stateAuth: {
		frame.TagAuthBadMethod: actBadMethod,
		frame.TagAuthReplyMore: actReplyMore,
		frame.TagAuthDone:      actDone,
	},
	stateSign: {frame.TagAuthSignature: actSignature},
	stateIdent: {
		frame.TagServerIdent:          actServerIdent,
		frame.TagIdentMissingFeatures: actMissingFeatures,
		frame.TagWait:                 actWait,
	},
	stateReconnect: {
		frame.TagSessionReconnectOK: actReconnectOK,
		frame.TagSessionReset:       actReset,
		frame.TagSessionRetry:       actRetry,
		frame.TagSessionRetryGlobal: actRetryGlobal,
		frame.TagWait:               actWait,
	},
	stateReady: {
		frame.TagMessage:       actMessage,
		frame.TagAck:           actAck,
		frame.TagKeepalive2:    actKeepalive,
		frame.TagKeepalive2Ack: actKeepaliveAck,
	},
}

// lookup says what a frame asks for in a state.
func lookup(s state, t frame.Tag) action {
	if s >= stateLimit || t >= frame.TagLimit {
		return actRefuse
	}
	return table[s][t]
}
