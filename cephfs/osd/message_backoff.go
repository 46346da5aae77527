package osd

import "capstan/cephfs/denc"

// What a back-off message says (CEPH_OSD_BACKOFF_OP_*).
const (
	backoffBlock    = 1
	backoffAckBlock = 2
	backoffUnblock  = 3
)

// backoff is MOSDBackoff (ceph/ceph src/messages/MOSDBackoff.h): an OSD asks to
// be sent nothing for a range of objects of a placement group.
type backoff struct {
	pg         PG
	epoch      uint32
	what       uint8
	id         uint64 // unique in the session
	begin, end position
}

func encodeBackoff(b *backoff) []byte {
	var e denc.Encoder
	encodePG(&e, b.pg)
	e.Uint32(b.epoch)
	e.Uint8(b.what)
	e.Uint64(b.id)
	encodePosition(&e, b.begin)
	encodePosition(&e, b.end)
	return e.Data()
}

func decodeBackoff(front []byte) (*backoff, error) {
	d := denc.NewDecoder(front)
	b := backoff{
		pg:    decodePG(d, "pgid"),
		epoch: d.Uint32("epoch"),
		what:  d.Uint8("op"),
		id:    d.Uint64("id"),
		begin: decodePosition(d, "begin"),
		end:   decodePosition(d, "end"),
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return &b, nil
}
