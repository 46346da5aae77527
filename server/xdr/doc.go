// Package xdr reads and writes External Data Representation (RFC 4506) on
// byte slices: big-endian, in units of four bytes, by hand and without
// reflection.
//
// A [Decoder] is sticky: the first fault is kept with the field and offset it
// was met at, everything read after it is zero, and the caller asks once, at
// the end of a structure, whether the decoder is healthy. No length from the
// wire allocates: opaque data alias the input, and every length is bounded by
// the caller and by the bytes that are left.
//
// An [Encoder] appends to a slice it owns. A large payload (the data of READ)
// is not copied: it is spliced into the record by reference and leaves as its
// own vector (see [Encoder.OpaqueRef] and [Encoder.Vectors]).
//
// Neither type is safe for use by several goroutines at once.
package xdr
