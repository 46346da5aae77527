package auth

import (
	"fmt"
	"time"

	"capstan/cephfs/denc"
)

// Authentication methods (ceph/ceph src/include/ceph_fs.h, CEPH_AUTH_*).
const (
	MethodNone  = 1
	MethodCephx = 2
)

// The first byte of an AUTH_REQUEST's payload (src/auth/Auth.h, AUTH_MODE_*).
const (
	requestAuthorizer = 1
	requestMon        = 10
)

// Kinds of request to the monitor (CephxProtocol.h, CEPHX_GET_*).
const (
	getAuthSessionKey      = 0x0100
	getPrincipalSessionKey = 0x0200
)

// limits of what peers send.
const (
	maxTickets          = 32
	maxConnectionSecret = 4096
)

// blob is a ticket as its service sees it, opaque to the client
// (CephXTicketBlob).
type blob struct {
	secretID uint64
	data     []byte
}

func (b blob) encode(e *denc.Encoder) {
	e.Uint8(1)
	e.Uint64(b.secretID)
	e.Bytes(b.data)
}

func decodeBlob(d *denc.Decoder) blob {
	d.Uint8("blob.version")
	return blob{d.Uint64("blob.secret_id"), append([]byte(nil), d.Bytes("blob")...)}
}

// encodeAuthenticate appends the answer to a monitor's challenge (CephXAuthenticate,
// after its CephXRequestHeader). Version 3 promises that old is there if the
// client asks for its old id again.
func encodeAuthenticate(e *denc.Encoder, challenge, response uint64, old blob, services denc.EntityType) {
	e.Uint16(getAuthSessionKey)
	e.Uint8(3)
	e.Uint64(challenge)
	e.Uint64(response)
	old.encode(e)
	e.Uint32(uint32(services))
}

// decodeResponseHeader reads a CephXResponseHeader.
func decodeResponseHeader(d *denc.Decoder) (request uint16, status int32) {
	return d.Uint16("response.type"), d.Int32("response.status")
}

// grant is one ticket as the monitor sends it (CephXServiceTicket and
// CephXTicketBlob).
type grant struct {
	service  denc.EntityType
	key      Key
	validity time.Duration // 0: without end
	blob     blob
}

// decodeGrants reads the tickets of a reply (cephx_build_service_ticket_reply).
// key seals the client's halves, old the services'.
func decodeGrants(d *denc.Decoder, key Key, old *ticket) ([]grant, error) {
	d.Uint8("tickets.version")
	n := d.Count("tickets", 4+1+4+1+4)
	if n > maxTickets {
		d.Fail("tickets", denc.ErrTooLong)
	}
	var grants []grant
	for range n {
		g, err := decodeGrant(d, key, old)
		if err != nil {
			return nil, err
		}
		grants = append(grants, g)
	}
	return grants, d.Err()
}

// decodeSessionKey reads a key made for a ticket: of the length of its type,
// and never empty. An empty one would sign nothing and seal nothing.
func decodeSessionKey(d *denc.Decoder, field string) Key {
	k := DecodeKey(d, field)
	if n := len(k.bytes()); d.OK() && (n == 0 || n != k.Type.secretLen()) {
		d.Fail(fmt.Sprintf("%s(%v, %d bytes)", field, k.Type, n), denc.ErrValue)
		return Key{}
	}
	return k
}

func decodeGrant(d *denc.Decoder, key Key, old *ticket) (grant, error) {
	var g grant
	g.service = denc.EntityType(d.Uint32("ticket.service"))
	d.Uint8("ticket.version")
	mine, err := open(d, "ticket.session_key", key, UsageTicketSessionKey)
	if err != nil {
		return g, err
	}
	m := denc.NewDecoder(mine)
	m.Uint8("service_ticket.version")
	g.key = decodeSessionKey(m, "service_ticket.session_key")
	sec, nsec := m.Uint32("service_ticket.validity"), m.Uint32("service_ticket.validity")
	g.validity = time.Duration(sec)*time.Second + time.Duration(nsec)
	if err := m.Err(); err != nil {
		return g, err
	}

	theirs := d
	if d.Bool("ticket.encrypted") {
		var k Key
		if old != nil {
			k = old.key
		}
		b, err := open(d, "ticket.blob", k, UsageTicketBlob)
		if err != nil {
			return g, err
		}
		theirs = denc.NewDecoder(b)
	}
	s := theirs.Sized("ticket.blob")
	g.blob = decodeBlob(theirs)
	theirs.End(s)
	return g, theirs.Err()
}
