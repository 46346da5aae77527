// Package denc reads and writes Ceph's binary encoding: little-endian numbers,
// 32-bit length prefixes, and structs that carry a version, the oldest version
// that can still read them, and their length (ceph/ceph
// src/include/encoding.h).
//
// [Decoder] is sticky: after the first fault every read returns zero and the
// fault stays, so that a caller reads all fields and asks once, with
// [Decoder.Finish] or [Decoder.Err]. A fault names the field, the structs
// around it and the offset. Nothing is allocated for a count or a length
// before it is known that the bytes left could hold it.
//
//	d := denc.NewDecoder(front)
//	s := d.Struct("hit_set_params", 1)
//	kind := d.Uint8("type")
//	d.End(s) // what newer versions added is skipped
//	err := d.Finish()
//
// [Encoder] appends to a slice and patches the length of a struct when the
// struct ends.
//
// Neither type may be used by two goroutines at once. The package starts no
// goroutine and holds no lock.
package denc
