package frame

import "encoding/binary"

// HeaderSize is the length of segment 0 of a message.
const HeaderSize = 41

// Header is the header of a message (ceph/ceph src/include/msgr.h,
// ceph_msg_header2).
type Header struct {
	Seq, Tid                uint64
	Type, Priority, Version uint16
	DataPrePadding          uint32
	DataOff                 uint16 // of the data in its object; a hint for alignment
	AckSeq                  uint64 // the last message received from the other side
	Flags                   uint8
	Compat, Reserved        uint16
}

// Put writes h in HeaderSize bytes.
func (h *Header) Put(b []byte) {
	_ = b[HeaderSize-1]
	le := binary.LittleEndian
	le.PutUint64(b[0:], h.Seq)
	le.PutUint64(b[8:], h.Tid)
	le.PutUint16(b[16:], h.Type)
	le.PutUint16(b[18:], h.Priority)
	le.PutUint16(b[20:], h.Version)
	le.PutUint32(b[22:], h.DataPrePadding)
	le.PutUint16(b[26:], h.DataOff)
	le.PutUint64(b[28:], h.AckSeq)
	b[36] = h.Flags
	le.PutUint16(b[37:], h.Compat)
	le.PutUint16(b[39:], h.Reserved)
}

// Parse reads HeaderSize bytes.
func (h *Header) Parse(b []byte) {
	_ = b[HeaderSize-1]
	le := binary.LittleEndian
	h.Seq = le.Uint64(b[0:])
	h.Tid = le.Uint64(b[8:])
	h.Type = le.Uint16(b[16:])
	h.Priority = le.Uint16(b[18:])
	h.Version = le.Uint16(b[20:])
	h.DataPrePadding = le.Uint32(b[22:])
	h.DataOff = le.Uint16(b[26:])
	h.AckSeq = le.Uint64(b[28:])
	h.Flags = b[36]
	h.Compat = le.Uint16(b[37:])
	h.Reserved = le.Uint16(b[39:])
}
