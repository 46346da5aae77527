package nfs4

import (
	"sync"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// maxMinor is the highest minor version the engine knows.
const maxMinor = 2

// opFlags say what the engine checks before it runs an operation.
type opFlags uint16

const (
	// needsFH: there must be a current filehandle.
	needsFH opFlags = 1 << iota
	// needsSaved: there must be a saved filehandle too.
	needsSaved
	// modifies: it changes something, so it runs only if its reply fits, and
	// not on a read-only export.
	modifies
	// writesFS: it changes the filesystem: not on a read-only export.
	writesFS
	// standsAlone: in a COMPOUND without SEQUENCE it may be the only operation
	// (RFC 8881 section 2.10.1).
	standsAlone
	// aloneOnly: it must be the only operation of its COMPOUND.
	aloneOnly
	// encodesFailure: the result has a body in some failures too, whatever the
	// failure is of.
	encodesFailure
	// idempotent: to run it twice does no harm.
	idempotent
)

// operation is a row of the operation table.
type operation struct {
	op       nfsv4.Op
	from, to uint32 // first and last minor version
	flags    opFlags
	allowed  statusSet
	// exec decodes the arguments from c.d, checks what the flags ask for, runs
	// the operation and appends its result behind the status. nil: the
	// operation exists in these minor versions, and this server answers NOTSUPP.
	exec func(o *operation, c *compound) nfsv4.Status
	// refuse appends the body that goes with a failure when the operation is not
	// run. nil: there is none.
	refuse func(st nfsv4.Status, e *xdr.Encoder)
}

// codec says how an operation with arguments A and result R is decoded, run
// and encoded. run may append the body of the result to c.e itself; then
// encode is nil.
type codec[A, R any] struct {
	decode func(*A, *xdr.Decoder)
	// limit is the largest body of the result with these arguments, in bytes.
	// nil: the body is empty.
	limit func(*compound, *A) int
	run   func(*compound, *A, *R) nfsv4.Status
	// encode appends the body for status OK, and for the failures of an
	// operation flagged encodesFailure.
	encode func(*R, nfsv4.Status, *xdr.Encoder)
}

// frame holds the arguments and the result of one run. Frames are pooled, a
// pool for each operation, so that an operation allocates nothing.
type frame[A, R any] struct {
	args A
	res  R
}

// op makes a row of the table.
func op[A, R any](n nfsv4.Op, from, to uint32, flags opFlags, k codec[A, R]) operation {
	pool := &sync.Pool{New: func() any { return new(frame[A, R]) }}
	o := operation{op: n, from: from, to: to, flags: flags,
		exec: func(o *operation, c *compound) nfsv4.Status {
			f := pool.Get().(*frame[A, R])
			st := k.exec(o, c, f)
			*f = frame[A, R]{}
			pool.Put(f)
			return st
		}}
	if flags&encodesFailure != 0 {
		o.refuse = func(st nfsv4.Status, e *xdr.Encoder) { k.encode(new(R), st, e) }
	}
	return o
}

// exec runs the operation in f, and appends the body of its result.
func (k *codec[A, R]) exec(o *operation, c *compound, f *frame[A, R]) nfsv4.Status {
	body := c.e.Mark()
	st := o.permit(k.attempt(o, c, f))
	if st != nfsv4.OK {
		c.e.TruncateTo(body)
	}
	if k.encode != nil && (st == nfsv4.OK || o.flags&encodesFailure != 0) {
		k.encode(&f.res, st, c.e)
	}
	// SEQUENCE has taken the slot when its result is there; if that is too large
	// already, the operation behind it says so.
	if o.flags&modifies == 0 && o.op != nfsv4.OpSequence && !c.fits(0) {
		c.e.TruncateTo(body)
		st = c.tooBig
	}
	return st
}

// attempt decodes the arguments, checks, and runs.
func (k *codec[A, R]) attempt(o *operation, c *compound, f *frame[A, R]) nfsv4.Status {
	if k.decode != nil {
		k.decode(&f.args, c.d)
		if !c.d.OK() {
			return nfsv4.ErrBadXDR
		}
	}
	if st := c.admit(o); st != nfsv4.OK {
		return st
	}
	limit := 0
	if k.limit != nil {
		limit = k.limit(c, &f.args)
	}
	if o.flags&modifies != 0 && !c.fits(limit) {
		return c.tooBig
	}
	return k.run(c, &f.args, &f.res)
}

// notSupported makes a row for an operation that the minor versions have and
// this server does not: its arguments need no decoding, since a COMPOUND ends
// with the first operation that fails.
func notSupported(n nfsv4.Op, from, to uint32) operation {
	return operation{op: n, from: from, to: to}
}

// none is the type of arguments or results that are empty.
type none struct{}

// opTable is indexed by operation number. Rows whose op is 0 do not exist.
type opTable [nfsv4.OpRemoveXattr + 1]operation

// theOps is the operation table; it is built once and constant.
var theOps = newOpTable()

func newOpTable() *opTable {
	t := new(opTable)
	for _, group := range [][]operation{
		handleOps(), nameOps(), attrOps(), dirOps(), openOps(), ioOps(), lockOps(),
		clientOps(), sessionOps(), stateOps(), securityOps(), rangeOps(), xattrOps(), missingOps(),
	} {
		for _, o := range group {
			if t[o.op].op != 0 {
				panic("nfs4: two rows for " + o.op.String())
			}
			lists, ok := allowedStatuses[o.op]
			if !ok && o.exec != nil {
				panic("nfs4: no statuses for " + o.op.String())
			}
			o.allowed = newStatusSet(lists...)
			if o.exec == nil {
				o.allowed = newStatusSet(statuses{nfsv4.ErrNotSupp})
			}
			t[o.op] = o
		}
	}
	return t
}

// illegal stands for numbers that are no operation of the minor version.
var illegal = operation{op: nfsv4.OpIllegal, to: maxMinor,
	allowed: newStatusSet(allowedStatuses[nfsv4.OpIllegal]...)}

// find returns the row of n in a minor version, or illegal.
func (t *opTable) find(n uint32, minor uint32) *operation {
	if n >= uint32(len(t)) {
		return &illegal
	}
	o := &t[n]
	if o.op == 0 || minor < o.from || minor > o.to {
		return &illegal
	}
	return o
}

// OperationInfo describes an operation of this server.
type OperationInfo struct {
	Op         nfsv4.Op
	FirstMinor uint32 // first and last minor version that has the operation
	LastMinor  uint32
	Supported  bool // false: it is answered NOTSUPP
	NeedsFH    bool // there must be a current filehandle
	Modifies   bool // it changes something
	Idempotent bool // to run it twice does no harm
	Alone      bool // it may stand in a COMPOUND without SEQUENCE
	// Errors lists what it may answer beside OK, in order of their numbers.
	Errors []nfsv4.Status
}

// Operations lists the operation table, in order of the numbers: the one
// source of what this server answers to which operation.
func Operations() []OperationInfo {
	var list []OperationInfo
	for i := range theOps {
		o := &theOps[i]
		if o.op == 0 {
			continue
		}
		list = append(list, OperationInfo{
			Op: o.op, FirstMinor: o.from, LastMinor: o.to,
			Supported:  o.exec != nil,
			NeedsFH:    o.flags&needsFH != 0,
			Modifies:   o.flags&modifies != 0,
			Idempotent: o.flags&modifies == 0 || o.flags&idempotent != 0,
			Alone:      o.flags&standsAlone != 0,
			Errors:     o.allowed.errors(),
		})
	}
	return list
}

func (set *statusSet) errors() (list []nfsv4.Status) {
	for s := nfsv4.Status(1); s < 11000; s++ {
		if s == 80 {
			s = 10000
		}
		if _, bit := statusBit(s); bit != 0 && set.has(s) && (s < 79 || s >= 10000) {
			list = append(list, s)
		}
	}
	return list
}
