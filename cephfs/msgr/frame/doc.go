// Package frame is the wire format of Ceph's messenger 2.1: the banner, the
// two protections of a frame (checksums, or AES-GCM) and the payloads of
// control frames (ceph/ceph doc/dev/msgr2.rst, src/msg/async/frames_v2.cc,
// crypto_onwire.cc). It knows no connections and no order of frames; package
// msgr does, and cephtest plays the other side of it.
//
// A frame has one to four segments. A control frame has one; a message has its
// header, front, middle and data, and those that are empty at the end are not
// sent:
//
//	crc     preamble 32 | segment 0 | crc 4 | segments 1..3 | epilogue 13
//	secure  {preamble 32, first 48 bytes of segment 0} tag 16
//	        | {rest of segment 0} tag 16 | {segments 1..3, epilogue 16} tag 16
//
// In both, the part after segment 0 is missing if there is only that. In
// secure mode each {} is encrypted on its own, under the next nonce, and what
// is in it is padded to 16 bytes.
//
// A [Reader] and a [Writer] each belong to one goroutine. The package starts
// none and holds no lock.
package frame
