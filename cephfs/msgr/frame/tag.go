package frame

import "strconv"

// Tag says what a frame is.
type Tag uint8

// The tags (ceph/ceph src/msg/async/frames_v2.h).
const (
	TagHello Tag = iota + 1
	TagAuthRequest
	TagAuthBadMethod
	TagAuthReplyMore
	TagAuthRequestMore
	TagAuthDone
	TagAuthSignature
	TagClientIdent
	TagServerIdent
	TagIdentMissingFeatures
	TagSessionReconnect
	TagSessionReset
	TagSessionRetry
	TagSessionRetryGlobal
	TagSessionReconnectOK
	TagWait
	TagMessage
	TagKeepalive2
	TagKeepalive2Ack
	TagAck
	TagCompressionRequest // only between peers that both offer compression
	TagCompressionDone

	// TagLimit is above every tag.
	TagLimit
)

var tagNames = [TagLimit]string{
	TagHello:                "HELLO",
	TagAuthRequest:          "AUTH_REQUEST",
	TagAuthBadMethod:        "AUTH_BAD_METHOD",
	TagAuthReplyMore:        "AUTH_REPLY_MORE",
	TagAuthRequestMore:      "AUTH_REQUEST_MORE",
	TagAuthDone:             "AUTH_DONE",
	TagAuthSignature:        "AUTH_SIGNATURE",
	TagClientIdent:          "CLIENT_IDENT",
	TagServerIdent:          "SERVER_IDENT",
	TagIdentMissingFeatures: "IDENT_MISSING_FEATURES",
	TagSessionReconnect:     "SESSION_RECONNECT",
	TagSessionReset:         "SESSION_RESET",
	TagSessionRetry:         "SESSION_RETRY",
	TagSessionRetryGlobal:   "SESSION_RETRY_GLOBAL",
	TagSessionReconnectOK:   "SESSION_RECONNECT_OK",
	TagWait:                 "WAIT",
	TagMessage:              "MESSAGE",
	TagKeepalive2:           "KEEPALIVE2",
	TagKeepalive2Ack:        "KEEPALIVE2_ACK",
	TagAck:                  "ACK",
	TagCompressionRequest:   "COMPRESSION_REQUEST",
	TagCompressionDone:      "COMPRESSION_DONE",
}

// String returns Ceph's name of the tag.
func (t Tag) String() string {
	if t < TagLimit && tagNames[t] != "" {
		return tagNames[t]
	}
	return "tag " + strconv.Itoa(int(t))
}
