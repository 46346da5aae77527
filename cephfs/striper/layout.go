package striper

import (
	"errors"
	"fmt"
	"strconv"
)

// MinStripeUnit is the granularity, in bytes, of the stripe units and object
// sizes that a metadata server accepts (CEPH_MIN_STRIPE_UNIT). The arithmetic
// here takes any.
const MinStripeUnit = 64 << 10

// MaxFile is the largest end of a range, in bytes: offsets are signed in POSIX.
const MaxFile = 1<<63 - 1

// ErrLayout is wrapped by what [Layout.Validate] returns.
var ErrLayout = errors.New("bad file layout")

// Layout says how a file is cut (the numbers of file_layout_t). The zero
// Layout is not valid: it is what an inode without a layout carries.
type Layout struct {
	StripeUnit  uint32 // bytes that lie together; divides ObjectSize
	StripeCount uint32 // objects of a set
	ObjectSize  uint32 // bytes of an object
}

// Default is the layout of files where no other is set: objects of 4 MiB, one
// after the other.
var Default = Layout{StripeUnit: 4 << 20, StripeCount: 1, ObjectSize: 4 << 20}

// Validate returns nil if l can be computed with. Every other method needs
// that.
func (l Layout) Validate() error {
	switch {
	case l.StripeUnit == 0 || l.StripeCount == 0 || l.ObjectSize == 0:
		return fmt.Errorf("%w: %v has a zero", ErrLayout, l)
	case l.ObjectSize%l.StripeUnit != 0:
		return fmt.Errorf("%w: object size of %v is no multiple of its stripe unit", ErrLayout, l)
	}
	return nil
}

// String returns the three numbers: unit 65536 count 2 object 4194304.
func (l Layout) String() string {
	return fmt.Sprintf("unit %d count %d object %d", l.StripeUnit, l.StripeCount, l.ObjectSize)
}

// unitsPerObject is the number of stripe units in an object.
func (l Layout) unitsPerObject() uint64 { return uint64(l.ObjectSize / l.StripeUnit) }

// Locate returns the object that holds the byte at off of the file, and where.
func (l Layout) Locate(off uint64) (object, objectOff uint64) {
	su, sc := uint64(l.StripeUnit), uint64(l.StripeCount)
	unit, in := off/su, off%su
	stripe, pos := unit/sc, unit%sc
	set, row := stripe/l.unitsPerObject(), stripe%l.unitsPerObject()
	return set*sc + pos, row*su + in
}

// FileOffset returns where in the file the byte at objectOff of an object
// lies: the inverse of [Layout.Locate]. objectOff must be below ObjectSize.
func (l Layout) FileOffset(object, objectOff uint64) uint64 {
	su, sc := uint64(l.StripeUnit), uint64(l.StripeCount)
	set, pos := object/sc, object%sc
	stripe := set*l.unitsPerObject() + objectOff/su
	return (stripe*sc+pos)*su + objectOff%su
}

// Objects returns how many objects a file of size bytes can have; their
// numbers start at 0. With several objects in a set, some may be empty.
func (l Layout) Objects(size uint64) uint64 {
	if size == 0 {
		return 0
	}
	set := uint64(l.ObjectSize) * uint64(l.StripeCount)
	full, rest := size/set, size%set
	n := full * uint64(l.StripeCount)
	units := (rest + uint64(l.StripeUnit) - 1) / uint64(l.StripeUnit)
	return n + min(units, uint64(l.StripeCount))
}

// ObjectBytes returns how many bytes of an object belong to a file of size
// bytes. It is also the truncate_size of the operations on that object when
// the file's is size (Striper::object_truncate_size); the file's "never
// truncated", all bits set, stays so.
func (l Layout) ObjectBytes(size, object uint64) uint64 {
	if size == 0 || size == ^uint64(0) {
		return size
	}
	su, sc := uint64(l.StripeUnit), uint64(l.StripeCount)
	set := uint64(l.ObjectSize) * sc
	switch have := size / set; {
	case object/sc < have:
		return uint64(l.ObjectSize)
	case object/sc > have:
		return 0
	}
	unit := size % set / su // the unit that the end of the file is in
	row, pos := unit/sc, unit%sc
	switch p := object % sc; {
	case p < pos:
		return (row + 1) * su
	case p > pos:
		return row * su
	}
	return row*su + size%su
}

// AppendObjectName appends the name of a file's object: the inode number in
// hexadecimal, a dot, and the object's number in at least 8 hexadecimal
// digits.
func AppendObjectName(dst []byte, ino, object uint64) []byte {
	dst = strconv.AppendUint(dst, ino, 16)
	dst = append(dst, '.')
	for d := object | 1; d < 1<<28; d <<= 4 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, object, 16)
}

// ObjectName is [AppendObjectName] as a string.
func ObjectName(ino, object uint64) string {
	return string(AppendObjectName(make([]byte, 0, 32), ino, object))
}
