package osd

import (
	"capstan/cephfs/denc"
)

// reply is MOSDOpReply (ceph/ceph src/messages/MOSDOpReply.h), versions 2 to
// 10; what they have behind the redirect is of no interest here.
type reply struct {
	pg      PG
	flags   uint64
	result  int32
	epoch   uint32
	results []Result
	try     int32 // -1 if the OSD is too old to say
	version uint64

	redirected  bool
	redirect    Object // pool, namespace and key; the name is that of the request unless redirectName is set
	redirectObj string
}

// replyCompat is the oldest version that is read. What newer ones than 10 may
// look like they say themselves, with their compat number.
const replyCompat = 2

// decodeReplyInto reads the front of a reply and cuts its data into those of
// the operations. room is storage for the results.
func decodeReplyInto(r *reply, d *denc.Decoder, version uint16, data []byte, room []Result) {
	decodeReplyFront(r, d, version, len(data), room)
	for i := range r.results {
		n := r.results[i].N
		r.results[i].Data, data = data[:n:n], data[n:]
	}
}

// decodeReplyFront reads the front of a reply that has so many bytes of data, and
// of those only the lengths.
func decodeReplyFront(r *reply, d *denc.Decoder, version uint16, data int, room []Result) {
	if version < replyCompat {
		d.Fail("version", denc.ErrVersion)
		return
	}
	d.Bytes("oid") // the request's; a copy would be a string for nothing
	r.pg = decodeRawPG(d)
	r.flags = d.Uint64("flags")
	r.result = d.Int32("result")
	d.Uint64("bad replay version")
	d.Uint32("bad replay epoch")
	r.epoch = d.Uint32("epoch")
	n := d.Count("ops", subopLen)
	if n > maxSubops {
		d.Fail("ops", denc.ErrTooLong)
		return
	}
	r.results = room[:0]
	for range n {
		d.Uint16("op")
		d.Skip("op body", 4+28)
		size := d.Uint32("op length")
		if int64(size) > int64(data) {
			d.Fail("op length", denc.ErrTooLong)
			return
		}
		r.results = append(r.results, Result{N: int(size)})
		data -= int(size)
	}
	if d.OK() && data != 0 {
		d.Fail("data", denc.ErrTrailing)
		return
	}
	r.try = -1
	if version >= 3 {
		r.try = d.Int32("attempt")
	}
	if version >= 4 {
		for i := range r.results {
			r.results[i].Code = d.Int32("op result")
		}
	}
	if version >= 5 {
		d.Uint64("replay version")
		d.Uint32("replay epoch")
		r.version = d.Uint64("user version")
	}
	switch {
	case version == 6:
		r.decodeRedirect(d)
		r.redirected = r.redirect.Pool != -1 || r.redirectObj != ""
	case version >= 7:
		if r.redirected = d.Bool("redirected"); r.redirected {
			r.decodeRedirect(d)
		}
	}
}

// decodeRedirect reads a request_redirect_t.
func (r *reply) decodeRedirect(d *denc.Decoder) {
	s := d.Struct("redirect", 1)
	r.redirect, _ = decodeLocator(d, "locator")
	r.redirectObj = d.String("object")
	d.Bytes("instructions")
	d.End(s)
}
