// Package osdmap holds Ceph's osdmap: which pools there are, in what state each
// OSD is, and, through CRUSH, where every object lies.
//
// [Decode] reads a full map, [DecodeIncremental] the difference to the next
// epoch, and [Map.Apply] makes the next map of the two. The encodings are those
// of Ceph releases 16 to 20; checksums are verified. An object is placed in two
// steps:
//
//	pg, ok := m.ObjectPG(osdmap.Object{Pool: 3, Name: "rbd_header.1"})
//	var at osdmap.Placement
//	m.Place(pg, &at) // at.ActingPrimary serves at.PG
//
// A [Map] never changes: Apply returns a new one that shares with the old what
// is the same. Any number of goroutines may read a Map at once without a lock;
// keep the current one in an atomic pointer. Nobody may write to what its fields
// hold. The package starts no goroutine.
//
// What only daemons need (the OSDs' internal addresses, histories and the
// queues of snapshots to remove) is passed over when decoding.
//
// The source of truth is ceph/ceph src/osd/OSDMap.cc and osd_types.cc.
package osdmap
