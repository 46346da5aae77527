package nfs4

import (
	"slices"
	"strings"
	"testing"

	"capstan/export"
	"capstan/server/nfs4/nfsv4"
)

// Every operation of the protocol has a row, with the minor versions that the
// RFCs give it.
func TestOperationsAreComplete(t *testing.T) {
	rows := map[nfsv4.Op]OperationInfo{}
	for _, o := range Operations() {
		rows[o.Op] = o
		if strings.HasPrefix(o.Op.String(), "OP_") {
			t.Errorf("operation %d has no name", o.Op)
		}
		if o.Supported && len(o.Errors) < 5 || slices.Contains(o.Errors, nfsv4.OK) {
			t.Errorf("%v: errors %v", o.Op, o.Errors)
		}
		if !o.Supported && !slices.Equal(o.Errors, []nfsv4.Status{nfsv4.ErrNotSupp}) {
			t.Errorf("%v: errors %v", o.Op, o.Errors)
		}
	}
	for n := nfsv4.OpAccess; n <= nfsv4.OpRemoveXattr; n++ {
		first := uint32(0)
		switch {
		case n >= nfsv4.OpAllocate:
			first = 2
		case n >= nfsv4.OpBackChannelCtl:
			first = 1
		}
		o, ok := rows[n]
		if !ok || o.FirstMinor != first || o.LastMinor != 2 {
			t.Errorf("%v: %v, minor versions %d to %d", n, ok, o.FirstMinor, o.LastMinor)
		}
	}
	if len(rows) != int(nfsv4.OpRemoveXattr-nfsv4.OpAccess)+1 {
		t.Errorf("%d rows", len(rows))
	}
}

// Whatever a Volume says, an operation answers something that the RFC lets it
// answer, and never OK for an error.
func TestStatusesArePermitted(t *testing.T) {
	for i := range theOps {
		o := &theOps[i]
		if o.exec == nil {
			continue
		}
		if !o.allowed.has(nfsv4.OK) {
			t.Errorf("%v cannot succeed", o.op)
		}
		for s := export.Status(1); s < export.Status(len(fromExport)); s++ {
			st := o.permit(statusOf(s))
			if st == nfsv4.OK || !o.allowed.has(st) {
				t.Errorf("%v: %v becomes %v", o.op, s, st)
			}
		}
	}
	for _, x := range []struct {
		op       nfsv4.Op
		in, want nfsv4.Status
	}{
		{nfsv4.OpRemove, nfsv4.ErrPerm, nfsv4.ErrAccess}, {nfsv4.OpRename, nfsv4.ErrIsDir, nfsv4.ErrExist},
		{nfsv4.OpCommit, nfsv4.ErrDQuot, nfsv4.ErrDQuot}, {nfsv4.OpPutFH, nfsv4.ErrAccess, nfsv4.ErrStale},
		{nfsv4.OpSetAttr, nfsv4.ErrIsDir, nfsv4.ErrInval}, {nfsv4.OpSequence, nfsv4.ErrIO, nfsv4.ErrDelay},
		{nfsv4.OpGetAttr, nfsv4.Status(12345), nfsv4.ErrIO}, {nfsv4.OpLookup, nfsv4.ErrMLink, nfsv4.ErrIO},
	} {
		if got := theOps.find(uint32(x.op), 1).permit(x.in); got != x.want {
			t.Errorf("%v: %v becomes %v, want %v", x.op, x.in, got, x.want)
		}
	}
	if statusOf(nil) != nfsv4.OK || statusOf(export.Status(200)) != nfsv4.ErrServerFault {
		t.Error("nil, or a status that does not exist")
	}
}

// An operation in the steady state allocates nothing: SEQUENCE, PUTFH, GETATTR.
func TestGetAttrAllocatesNothing(t *testing.T) {
	c := newSite(t).newClient(2, "client")
	o := c.create(c.fh("data"), "file", 0o644)
	once := looper(c, c.on(o.fh).add(nfsv4.OpGetAttr, bitmap(nfsv4.AttrType, nfsv4.AttrSize, nfsv4.AttrOwner, nfsv4.AttrMode, nfsv4.AttrFileHandle)))
	once()
	// sync.Pool gives things up now and then, so not exactly 0; and the race
	// detector makes it do so often.
	if n := testing.AllocsPerRun(1000, once); n > 0.5 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}
