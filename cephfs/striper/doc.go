// Package striper maps ranges of a file to extents of the objects that hold
// it, and back, for any CephFS file layout (ceph/ceph src/osdc/Striper.cc,
// doc/dev/file-striping.rst).
//
// A file is cut into stripe units. Unit after unit goes to the next object of
// a set of StripeCount objects; when each object of the set has ObjectSize
// bytes, the next set begins. With a stripe unit of 1, a stripe count of 3 and
// an object size of 2, the bytes a to p of a file lie so:
//
//	set 0       object 0  object 1  object 2
//	  stripe 0  a         b         c
//	  stripe 1  d         e         f
//	set 1       object 3  object 4  object 5
//	  stripe 2  g         h         i
//	  stripe 3  j         k         l
//	set 2       object 6  object 7  object 8
//	  stripe 4  m         n         o
//	  stripe 5  p
//
// so that:
//
//	byte  file offset  unit  stripe  set  object  offset in object
//	a     0            0     0       0    0       0
//	b     1            1     0       0    1       0
//	d     3            3     1       0    0       1
//	f     5            5     1       0    2       1
//	g     6            6     2       1    3       0
//	k     10           10    3       1    4       1
//	p     15           15    5       2    6       1
//
// The range d to h (3, 5 bytes) is these extents, the last column being
// places in the buffer of the range:
//
//	object 0, offset 1, 1 byte    buffer 0-1
//	object 1, offset 1, 1 byte    buffer 1-2
//	object 2, offset 1, 1 byte    buffer 2-3
//	object 3, offset 0, 1 byte    buffer 3-4
//	object 4, offset 0, 1 byte    buffer 4-5
//
// while a to f (0, 6 bytes) is three extents of two bytes, each of two pieces
// of the buffer.
//
// Everything here is a pure function; nothing is kept, started or locked.
package striper
