// Package msgr speaks Ceph's messenger protocol 2.1 (ceph/ceph
// doc/dev/msgr2.rst, src/msg/async/ProtocolV2.cc and frames_v2.cc), from the
// side that connects.
package msgr
