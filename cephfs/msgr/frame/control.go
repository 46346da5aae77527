package frame

import "capstan/cephfs/denc"

// FlagLossy of an ident: the connection keeps no session (CEPH_MSG_CONNECT_LOSSY).
const FlagLossy = 1

// maxModes bounds the lists of authentication methods and modes.
const maxModes = 64

// Payload is what a control frame carries.
type Payload interface {
	// Tag is that of the frame.
	Tag() Tag
	// Encode appends the payload.
	Encode(e *denc.Encoder)
}

// Append adds a control frame with the given payload.
func (w *Writer) Append(p Payload) error {
	var e denc.Encoder
	p.Encode(&e)
	return w.Control(p.Tag(), e.Data())
}

// finish turns a decoder's fault into one of the frame. Bytes that newer
// peers add are passed over.
func finish(d *denc.Decoder, tag Tag) error {
	if err := d.Err(); err != nil {
		return &Error{tag, "payload", err}
	}
	return nil
}

// Hello tells the other side what we are and where we see it.
type Hello struct {
	Type denc.EntityType
	Addr denc.Addr // of the receiver, as the sender sees it
}

// Tag implements [Payload].
func (Hello) Tag() Tag { return TagHello }

// Encode implements [Payload].
func (h Hello) Encode(e *denc.Encoder) {
	e.Uint8(uint8(h.Type))
	e.Addr(h.Addr)
}

// DecodeHello reads the payload of [TagHello].
func DecodeHello(b []byte) (h Hello, err error) {
	d := denc.NewDecoder(b)
	h.Type = denc.EntityType(d.Uint8("entity_type"))
	h.Addr = d.Addr("peer_addr")
	return h, finish(d, TagHello)
}

// AuthRequest begins the authentication.
type AuthRequest struct {
	Method  uint32
	Modes   []uint32 // that the client takes, the best first
	Payload []byte
}

// Tag implements [Payload].
func (AuthRequest) Tag() Tag { return TagAuthRequest }

// Encode implements [Payload].
func (a AuthRequest) Encode(e *denc.Encoder) {
	e.Uint32(a.Method)
	encodeList(e, a.Modes)
	e.Bytes(a.Payload)
}

// DecodeAuthRequest reads the payload of [TagAuthRequest].
func DecodeAuthRequest(b []byte) (a AuthRequest, err error) {
	d := denc.NewDecoder(b)
	a.Method = d.Uint32("method")
	a.Modes = decodeList(d, "preferred_modes")
	a.Payload = d.Bytes("auth_payload")
	return a, finish(d, TagAuthRequest)
}

// AuthBadMethod refuses a method, or what it said.
type AuthBadMethod struct {
	Method         uint32
	Result         int32 // a negative errno
	Methods, Modes []uint32
}

// Tag implements [Payload].
func (AuthBadMethod) Tag() Tag { return TagAuthBadMethod }

// Encode implements [Payload].
func (a AuthBadMethod) Encode(e *denc.Encoder) {
	e.Uint32(a.Method)
	e.Int32(a.Result)
	encodeList(e, a.Methods)
	encodeList(e, a.Modes)
}

// DecodeAuthBadMethod reads the payload of [TagAuthBadMethod].
func DecodeAuthBadMethod(b []byte) (a AuthBadMethod, err error) {
	d := denc.NewDecoder(b)
	a.Method = d.Uint32("method")
	a.Result = d.Int32("result")
	a.Methods = decodeList(d, "allowed_methods")
	a.Modes = decodeList(d, "allowed_modes")
	return a, finish(d, TagAuthBadMethod)
}

// AuthReplyMore is the server's next step of the method.
type AuthReplyMore struct{ Payload []byte }

// Tag implements [Payload].
func (AuthReplyMore) Tag() Tag { return TagAuthReplyMore }

// Encode implements [Payload].
func (a AuthReplyMore) Encode(e *denc.Encoder) { e.Bytes(a.Payload) }

// DecodeAuthReplyMore reads the payload of [TagAuthReplyMore].
func DecodeAuthReplyMore(b []byte) (a AuthReplyMore, err error) {
	d := denc.NewDecoder(b)
	a.Payload = d.Bytes("auth_payload")
	return a, finish(d, TagAuthReplyMore)
}

// AuthRequestMore is the client's next step of the method.
type AuthRequestMore struct{ Payload []byte }

// Tag implements [Payload].
func (AuthRequestMore) Tag() Tag { return TagAuthRequestMore }

// Encode implements [Payload].
func (a AuthRequestMore) Encode(e *denc.Encoder) { e.Bytes(a.Payload) }

// DecodeAuthRequestMore reads the payload of [TagAuthRequestMore].
func DecodeAuthRequestMore(b []byte) (a AuthRequestMore, err error) {
	d := denc.NewDecoder(b)
	a.Payload = d.Bytes("auth_payload")
	return a, finish(d, TagAuthRequestMore)
}

// AuthDone ends the authentication. Frames after it are in Mode.
type AuthDone struct {
	GlobalID uint64
	Mode     uint32
	Payload  []byte
}

// Tag implements [Payload].
func (AuthDone) Tag() Tag { return TagAuthDone }

// Encode implements [Payload].
func (a AuthDone) Encode(e *denc.Encoder) {
	e.Uint64(a.GlobalID)
	e.Uint32(a.Mode)
	e.Bytes(a.Payload)
}

// DecodeAuthDone reads the payload of [TagAuthDone].
func DecodeAuthDone(b []byte) (a AuthDone, err error) {
	d := denc.NewDecoder(b)
	a.GlobalID = d.Uint64("global_id")
	a.Mode = d.Uint32("con_mode")
	a.Payload = d.Bytes("auth_payload")
	return a, finish(d, TagAuthDone)
}

// Signature is an HMAC-SHA-256 over all bytes its sender received before.
type Signature [32]byte

// Tag implements [Payload].
func (Signature) Tag() Tag { return TagAuthSignature }

// Encode implements [Payload].
func (s Signature) Encode(e *denc.Encoder) { e.Raw(s[:]) }

// DecodeSignature reads the payload of [TagAuthSignature].
func DecodeSignature(b []byte) (s Signature, err error) {
	d := denc.NewDecoder(b)
	copy(s[:], d.Raw("signature", len(s)))
	return s, finish(d, TagAuthSignature)
}

// ClientIdent asks for a new session.
type ClientIdent struct {
	Addrs                                         denc.AddrVec // of the client
	Target                                        denc.Addr    // the address it connected to
	GlobalID                                      int64
	GlobalSeq, Supported, Required, Flags, Cookie uint64
}

// Tag implements [Payload].
func (ClientIdent) Tag() Tag { return TagClientIdent }

// Encode implements [Payload].
func (c ClientIdent) Encode(e *denc.Encoder) {
	e.AddrVec(c.Addrs)
	e.Addr(c.Target)
	e.Int64(c.GlobalID)
	e.Uint64(c.GlobalSeq)
	e.Uint64(c.Supported)
	e.Uint64(c.Required)
	e.Uint64(c.Flags)
	e.Uint64(c.Cookie)
}

// DecodeClientIdent reads the payload of [TagClientIdent].
func DecodeClientIdent(b []byte) (c ClientIdent, err error) {
	d := denc.NewDecoder(b)
	c.Addrs = d.AddrVec("addrs")
	c.Target = d.Addr("target_addr")
	c.GlobalID = d.Int64("gid")
	c.GlobalSeq = d.Uint64("global_seq")
	c.Supported = d.Uint64("features_supported")
	c.Required = d.Uint64("features_required")
	c.Flags = d.Uint64("flags")
	c.Cookie = d.Uint64("cookie")
	return c, finish(d, TagClientIdent)
}

// ServerIdent grants a new session.
type ServerIdent struct {
	Addrs                                         denc.AddrVec
	GlobalID                                      int64 // the number in the server's name
	GlobalSeq, Supported, Required, Flags, Cookie uint64
}

// Tag implements [Payload].
func (ServerIdent) Tag() Tag { return TagServerIdent }

// Encode implements [Payload].
func (s ServerIdent) Encode(e *denc.Encoder) {
	e.AddrVec(s.Addrs)
	e.Int64(s.GlobalID)
	e.Uint64(s.GlobalSeq)
	e.Uint64(s.Supported)
	e.Uint64(s.Required)
	e.Uint64(s.Flags)
	e.Uint64(s.Cookie)
}

// DecodeServerIdent reads the payload of [TagServerIdent].
func DecodeServerIdent(b []byte) (s ServerIdent, err error) {
	d := denc.NewDecoder(b)
	s.Addrs = d.AddrVec("addrs")
	s.GlobalID = d.Int64("gid")
	s.GlobalSeq = d.Uint64("global_seq")
	s.Supported = d.Uint64("features_supported")
	s.Required = d.Uint64("features_required")
	s.Flags = d.Uint64("flags")
	s.Cookie = d.Uint64("cookie")
	return s, finish(d, TagServerIdent)
}

// Reconnect asks to go on with a session.
type Reconnect struct {
	Addrs                                                     denc.AddrVec
	ClientCookie, ServerCookie, GlobalSeq, ConnectSeq, MsgSeq uint64
}

// Tag implements [Payload].
func (Reconnect) Tag() Tag { return TagSessionReconnect }

// Encode implements [Payload].
func (r Reconnect) Encode(e *denc.Encoder) {
	e.AddrVec(r.Addrs)
	e.Uint64(r.ClientCookie)
	e.Uint64(r.ServerCookie)
	e.Uint64(r.GlobalSeq)
	e.Uint64(r.ConnectSeq)
	e.Uint64(r.MsgSeq)
}

// DecodeReconnect reads the payload of [TagSessionReconnect].
func DecodeReconnect(b []byte) (r Reconnect, err error) {
	d := denc.NewDecoder(b)
	r.Addrs = d.AddrVec("addrs")
	r.ClientCookie = d.Uint64("client_cookie")
	r.ServerCookie = d.Uint64("server_cookie")
	r.GlobalSeq = d.Uint64("global_seq")
	r.ConnectSeq = d.Uint64("connect_seq")
	r.MsgSeq = d.Uint64("msg_seq")
	return r, finish(d, TagSessionReconnect)
}

// Reset says that there is no such session; Full, that nothing is left of it.
type Reset struct{ Full bool }

// Tag implements [Payload].
func (Reset) Tag() Tag { return TagSessionReset }

// Encode implements [Payload].
func (r Reset) Encode(e *denc.Encoder) { e.Bool(r.Full) }

// DecodeReset reads the payload of [TagSessionReset].
func DecodeReset(b []byte) (r Reset, err error) {
	d := denc.NewDecoder(b)
	r.Full = d.Bool("full")
	return r, finish(d, TagSessionReset)
}

// Number is the payload of the control frames that hold one 64-bit number:
// missing features, retries, reconnect's answer and acknowledgements.
type Number struct {
	Of    Tag
	Value uint64
}

// Tag implements [Payload].
func (n Number) Tag() Tag { return n.Of }

// Encode implements [Payload].
func (n Number) Encode(e *denc.Encoder) { e.Uint64(n.Value) }

// DecodeNumber reads a payload of one number.
func DecodeNumber(tag Tag, b []byte) (uint64, error) {
	d := denc.NewDecoder(b)
	v := d.Uint64("value")
	return v, finish(d, tag)
}

// Wait asks the other side to wait for a connection from this one.
type Wait struct{}

// Tag implements [Payload].
func (Wait) Tag() Tag { return TagWait }

// Encode implements [Payload].
func (Wait) Encode(*denc.Encoder) {}

func encodeList(e *denc.Encoder, v []uint32) {
	e.Count(len(v))
	for _, x := range v {
		e.Uint32(x)
	}
}

func decodeList(d *denc.Decoder, field string) []uint32 {
	n := d.Count(field, 4)
	if n > maxModes {
		d.Fail(field, denc.ErrTooLong)
		return nil
	}
	v := make([]uint32, 0, n)
	for range n {
		v = append(v, d.Uint32(field))
	}
	return v
}
