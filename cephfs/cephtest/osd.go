package cephtest

import (
	"encoding/binary"
	"slices"
	"sync"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// OSD is a scripted OSD. Without a script it does what it is asked, on the
// objects it shares with the other OSDs of its cluster.
type OSD struct {
	*Peer
	ID      int32
	Objects *Objects

	mu     sync.Mutex
	script func(*OSDRequest) // guarded by mu
	seen   []*OSDRequest     // guarded by mu
	acks   []uint64          // guarded by mu; ids of acknowledged back-offs
}

// NewOSD starts osd.id at addrs. change, if not nil, may add hooks to the
// peer's configuration; OnMessage is the OSD's own.
func (n *Network) NewOSD(id int32, addrs denc.AddrVec, objects *Objects, change func(*Config)) *OSD {
	o := &OSD{ID: id, Objects: objects}
	cfg := Config{Type: denc.TypeOSD, Num: int64(id), Addrs: addrs}
	if change != nil {
		change(&cfg)
	}
	cfg.OnMessage = o.message
	o.Peer = n.NewPeer(cfg)
	return o
}

// Script has f called for every request instead of [OSDRequest.Answer], from
// the stream's goroutine; nil restores that.
func (o *OSD) Script(f func(*OSDRequest)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.script = f
}

// Seen returns the requests received so far, in their order.
func (o *OSD) Seen() []*OSDRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*OSDRequest(nil), o.seen...)
}

// Acks returns the ids of the back-offs that were acknowledged.
func (o *OSD) Acks() []uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]uint64(nil), o.acks...)
}

// OSDOp is one operation of a request.
type OSDOp struct {
	Code  uint16
	Flags uint32
	Body  [28]byte
	Data  []byte
}

// Offset and Length are the first two fields of an extent.
func (op *OSDOp) Offset() uint64 { return binary.LittleEndian.Uint64(op.Body[0:]) }

// Length is the second field of an extent.
func (op *OSDOp) Length() uint64 { return binary.LittleEndian.Uint64(op.Body[8:]) }

// Trunc is truncate_seq and truncate_size of an extent.
func (op *OSDOp) Trunc() (seq uint32, size uint64) {
	return binary.LittleEndian.Uint32(op.Body[24:]), binary.LittleEndian.Uint64(op.Body[16:])
}

// OSDRequest is an MOSDOp that an OSD received.
type OSDRequest struct {
	OSD    *OSD
	Stream *Stream
	Tid    uint64

	Pool           int64 // of the placement group
	Seed           uint32
	Shard          int8
	Hash           uint32
	Epoch          uint32
	Flags          uint32
	Object         ObjectID
	Ops            []OSDOp
	SnapID         uint64
	SnapSeq        uint64
	Snaps          []uint64
	Attempt        int32
	MtimeSec, Nsec uint32
}

func (o *OSD) message(s *Stream, m *msgr.Message) {
	switch m.Type {
	case 42: // CEPH_MSG_OSD_OP
		rq, err := decodeRequest(m)
		if err != nil {
			panic("cephtest: the client sent a bad MOSDOp: " + err.Error())
		}
		rq.OSD, rq.Stream = o, s
		o.mu.Lock()
		f := o.script
		o.seen = append(o.seen, rq)
		o.mu.Unlock()
		if f == nil {
			f = (*OSDRequest).Answer
		}
		f(rq)
	case 61: // CEPH_MSG_OSD_BACKOFF
		d := denc.NewDecoder(m.Front)
		d.Skip("pg", 24)
		d.Uint32("epoch")
		if d.Uint8("op") == 2 {
			o.mu.Lock()
			o.acks = append(o.acks, d.Uint64("id"))
			o.mu.Unlock()
		}
	}
}

// decodeRequest reads MOSDOp version 8 (ceph/ceph src/messages/MOSDOp.h). It
// shares no code with the client's encoder.
func decodeRequest(m *msgr.Message) (*OSDRequest, error) {
	d := denc.NewDecoder(m.Front)
	if m.Version != 8 {
		d.Fail("version", denc.ErrVersion)
	}
	rq := &OSDRequest{Tid: m.Tid}
	s := d.Struct("spg", 1)
	d.Uint8("pg version")
	rq.Pool, rq.Seed = d.Int64("pool"), d.Uint32("seed")
	d.Int32("preferred")
	rq.Shard = d.Int8("shard")
	d.End(s)
	rq.Hash, rq.Epoch, rq.Flags = d.Uint32("hash"), d.Uint32("epoch"), d.Uint32("flags")
	s = d.Struct("reqid", 2)
	d.Name("name")
	d.Uint64("tid")
	d.Int32("inc")
	d.End(s)
	d.Skip("trace", 24)
	d.Uint32("client inc")
	rq.MtimeSec, rq.Nsec = d.Uint32("mtime"), d.Uint32("mtime")
	s = d.Struct("locator", 6)
	rq.Object.Pool = d.Int64("pool")
	d.Int32("preferred")
	rq.Object.Key, rq.Object.Namespace = d.String("key"), d.String("namespace")
	d.Int64("hash")
	d.End(s)
	rq.Object.Name = d.String("oid")
	var data []byte
	for _, b := range m.Data {
		data = append(data, b...)
	}
	for range d.Uint16("ops") {
		op := OSDOp{Code: d.Uint16("code"), Flags: d.Uint32("op flags")}
		copy(op.Body[:], d.Raw("body", len(op.Body)))
		n := int(d.Uint32("payload"))
		if n > len(data) {
			d.Fail("payload", denc.ErrTooLong)
			break
		}
		op.Data, data = data[:n], data[n:]
		rq.Ops = append(rq.Ops, op)
	}
	if len(data) > 0 {
		d.Fail("data", denc.ErrTrailing)
	}
	rq.SnapID, rq.SnapSeq = d.Uint64("snapid"), d.Uint64("snap seq")
	for range d.Count("snaps", 8) {
		rq.Snaps = append(rq.Snaps, d.Uint64("snap"))
	}
	rq.Attempt = d.Int32("attempt")
	d.Uint64("features")
	return rq, d.Finish()
}

// Answer does the request and replies.
func (rq *OSDRequest) Answer() { rq.Do().Send() }

// Do does the request, and returns the reply without sending it.
func (rq *OSDRequest) Do() *OSDReply {
	out := rq.OSD.Objects.do(rq)
	return &OSDReply{
		Request: rq, Result: out.result, Codes: slices.Clone(out.codes), Outs: slices.Clone(out.outs),
		Attempt: rq.Attempt, Epoch: rq.Epoch, Version: out.version,
	}
}

// Refuse makes a reply that says that the request was not done.
func (rq *OSDRequest) Refuse(result int32) *OSDReply {
	return &OSDReply{
		Request: rq, Result: result, Codes: make([]int32, len(rq.Ops)), Outs: make([][]byte, len(rq.Ops)),
		Attempt: rq.Attempt, Epoch: rq.Epoch,
	}
}

// OSDReply is an MOSDOpReply, whose fields a script may change before it is
// sent.
type OSDReply struct {
	Request  *OSDRequest
	Result   int32
	Codes    []int32
	Outs     [][]byte
	Attempt  int32
	Epoch    uint32
	Version  uint64
	Redirect *ObjectID
	// MsgVersion is that of the message; 0 stands for 8.
	MsgVersion uint16
	Nonsense   bool // the front is cut short
}

// Send sends the reply on the stream of its request. A stream that broke
// meanwhile drops it.
func (r *OSDReply) Send() {
	rq := r.Request
	v := r.MsgVersion
	if v == 0 {
		v = 8
	}
	var e denc.Encoder
	e.String(rq.Object.Name)
	e.Uint8(1)
	e.Int64(rq.Pool)
	e.Uint32(rq.Seed)
	e.Int32(-1)
	e.Uint64(uint64(rq.Flags))
	e.Int32(r.Result)
	e.Uint64(r.Version)
	e.Uint32(r.Epoch)
	e.Uint32(r.Epoch)
	e.Count(len(r.Outs))
	var data [][]byte
	for i, out := range r.Outs {
		e.Uint16(rq.Ops[i].Code)
		e.Uint32(rq.Ops[i].Flags)
		e.Raw(rq.Ops[i].Body[:])
		e.Uint32(uint32(len(out)))
		if len(out) > 0 {
			data = append(data, out)
		}
	}
	e.Int32(r.Attempt)
	for _, c := range r.Codes {
		e.Int32(c)
	}
	e.Uint64(r.Version)
	e.Uint32(r.Epoch)
	e.Uint64(r.Version)
	if v >= 7 {
		e.Bool(r.Redirect != nil)
	}
	if r.Redirect != nil || v == 6 {
		to := ObjectID{Pool: -1}
		if r.Redirect != nil {
			to = *r.Redirect
		}
		s := e.Struct(1, 1)
		l := e.Struct(6, 3)
		e.Int64(to.Pool)
		e.Int32(-1)
		e.String(to.Key)
		e.String(to.Namespace)
		e.Int64(-1)
		e.End(l)
		e.String(to.Name)
		e.Uint32(0)
		e.End(s)
	}
	if v >= 9 {
		e.Uint8(0)
	}
	if v >= 8 {
		for range 3 {
			e.Uint64(0)
		}
	}
	if v >= 10 {
		e.Uint32(0)
	}
	front := e.Data()
	if r.Nonsense {
		front = front[:len(front)/2]
	}
	_ = rq.Stream.Send(&msgr.Message{
		Type: 43, Version: v, Compat: 2, Tid: rq.Tid, Front: front, Data: data, Priority: 63,
	})
}

// OSDRange is a range of objects of a placement group, by their names; hashes
// must agree with those of the requests.
type OSDRange struct {
	Pool       int64
	Seed       uint32
	Shard      int8
	Begin, End OSDPosition
}

// OSDPosition is a place in the order of objects (hobject_t).
type OSDPosition struct {
	Object ObjectID
	Hash   uint32
	Max    bool
}

// Block sends a back-off for a range on a stream, and Unblock lifts it.
func (o *OSD) Block(s *Stream, id uint64, r OSDRange) { o.backoff(s, 1, id, r) }

// Unblock lifts a back-off.
func (o *OSD) Unblock(s *Stream, id uint64, r OSDRange) { o.backoff(s, 3, id, r) }

func (o *OSD) backoff(s *Stream, what uint8, id uint64, r OSDRange) {
	var e denc.Encoder
	p := e.Struct(1, 1)
	e.Uint8(1)
	e.Int64(r.Pool)
	e.Uint32(r.Seed)
	e.Int32(-1)
	e.Int8(r.Shard)
	e.End(p)
	e.Uint32(1)
	e.Uint8(what)
	e.Uint64(id)
	for _, at := range []OSDPosition{r.Begin, r.End} {
		p := e.Struct(4, 3)
		e.String(at.Object.Key)
		e.String(at.Object.Name)
		e.Uint64(^uint64(1)) // CEPH_NOSNAP
		e.Uint32(at.Hash)
		e.Bool(at.Max)
		e.String(at.Object.Namespace)
		e.Int64(at.Object.Pool)
		e.End(p)
	}
	_ = s.Send(&msgr.Message{Type: 61, Version: 1, Compat: 1, Front: e.Data(), Priority: 63})
}
