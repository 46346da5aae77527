package nfstest

import (
	"fmt"

	"capstan/server/nfs4/nfsv4"
	"capstan/server/xdr"
)

// Reply is the result of a COMPOUND.
type Reply struct {
	Status  nfsv4.Status
	Tag     string
	Results []Result
	Raw     []byte // the whole of it
}

// Result is the result of one operation. Body is a pointer to the struct named
// after the operation, nil if the result is a status alone.
type Result struct {
	Op     nfsv4.Op
	Status nfsv4.Status
	Body   any
}

// String is "OPEN NFS4_OK".
func (r Result) String() string { return r.Op.String() + " " + r.Status.String() }

// Last is the result of the last operation that was run; the zero Result if
// there is none.
func (r *Reply) Last() Result {
	if len(r.Results) == 0 {
		return Result{}
	}
	return r.Results[len(r.Results)-1]
}

// Of returns the last result of an operation; false if there is none.
func (r *Reply) Of(op nfsv4.Op) (Result, bool) {
	for i := len(r.Results) - 1; i >= 0; i-- {
		if r.Results[i].Op == op {
			return r.Results[i], true
		}
	}
	return Result{}, false
}

// Get returns the last result body of type T; nil if there is none.
func Get[T any](r *Reply) *T {
	for i := len(r.Results) - 1; i >= 0; i-- {
		if b, ok := r.Results[i].Body.(*T); ok {
			return b
		}
	}
	return nil
}

// ParseReply decodes the result of a COMPOUND, to its last byte.
func ParseReply(raw []byte) (*Reply, error) {
	d := xdr.NewDecoder(raw)
	r := &Reply{Status: nfsv4.Status(d.Uint32("status")), Tag: d.String("tag", 1<<20), Raw: raw}
	n := d.Count("resarray", len(raw), 8)
	for range n {
		res := Result{Op: nfsv4.Op(d.Uint32("resop")), Status: nfsv4.Status(d.Uint32("status"))}
		res.decode(d)
		if !d.OK() {
			return nil, fmt.Errorf("result %d, %v: %w", len(r.Results), res, d.Err())
		}
		r.Results = append(r.Results, res)
	}
	if err := d.Finish(); err != nil {
		return nil, fmt.Errorf("COMPOUND result: %w", err)
	}
	if last := r.Last(); n > 0 && last.Status != r.Status {
		return nil, fmt.Errorf("COMPOUND status %v, last result %v", r.Status, last)
	}
	return r, nil
}

// decode reads what follows the status.
func (r *Result) decode(d *xdr.Decoder) {
	switch {
	case r.Op == nfsv4.OpSetAttr:
		r.Body = &SetAttrRes{bitmap(d)}
	case r.Status == nfsv4.ErrDenied && (r.Op == nfsv4.OpLock || r.Op == nfsv4.OpLockT):
		r.Body = decodeDenied(d)
	case r.Status == nfsv4.OK:
		if f := decoders[r.Op]; f != nil {
			r.Body = f(d)
		}
	}
}

// decoders decode the body of a success, by operation.
var decoders = map[nfsv4.Op]func(*xdr.Decoder) any{
	nfsv4.OpAccess: func(d *xdr.Decoder) any { return &AccessRes{d.Uint32("supported"), d.Uint32("access")} },
	nfsv4.OpClose:  func(d *xdr.Decoder) any { return &CloseRes{nfsv4.DecodeStateID(d)} },
	nfsv4.OpCommit: func(d *xdr.Decoder) any { return &CommitRes{nfsv4.DecodeVerifier(d)} },
	nfsv4.OpCreate: func(d *xdr.Decoder) any { return &CreateRes{changeInfo(d), bitmap(d)} },
	nfsv4.OpGetAttr: func(d *xdr.Decoder) any {
		return &GetAttrRes{decodeFattr(d)}
	},
	nfsv4.OpGetFH:         func(d *xdr.Decoder) any { return &GetFHRes{opaque(d, nfsv4.FHSize)} },
	nfsv4.OpLink:          func(d *xdr.Decoder) any { return &LinkRes{changeInfo(d)} },
	nfsv4.OpLock:          func(d *xdr.Decoder) any { return &LockRes{nfsv4.DecodeStateID(d)} },
	nfsv4.OpLockU:         func(d *xdr.Decoder) any { return &LockURes{nfsv4.DecodeStateID(d)} },
	nfsv4.OpOpen:          decodeOpen,
	nfsv4.OpOpenDowngrade: func(d *xdr.Decoder) any { return &OpenDowngradeRes{nfsv4.DecodeStateID(d)} },
	nfsv4.OpRead:          func(d *xdr.Decoder) any { return &ReadRes{d.Bool("eof"), opaque(d, d.Remaining())} },
	nfsv4.OpReadDir:       decodeReadDir,
	nfsv4.OpReadLink:      func(d *xdr.Decoder) any { return &ReadLinkRes{d.String("link", 1<<16)} },
	nfsv4.OpRemove:        func(d *xdr.Decoder) any { return &RemoveRes{changeInfo(d)} },
	nfsv4.OpRename:        func(d *xdr.Decoder) any { return &RenameRes{changeInfo(d), changeInfo(d)} },
	nfsv4.OpSecInfo:       func(d *xdr.Decoder) any { return &SecInfoRes{decodeFlavors(d)} },
	nfsv4.OpSecInfoNoName: func(d *xdr.Decoder) any { return &SecInfoRes{decodeFlavors(d)} },
	nfsv4.OpWrite: func(d *xdr.Decoder) any {
		return &WriteRes{d.Uint32("count"), d.Uint32("committed"), nfsv4.DecodeVerifier(d)}
	},
	nfsv4.OpBindConnToSession: func(d *xdr.Decoder) any {
		return &BindConnRes{nfsv4.DecodeSessionID(d), d.Uint32("dir"), d.Bool("rdma")}
	},
	nfsv4.OpExchangeID:    decodeExchangeID,
	nfsv4.OpCreateSession: decodeCreateSession,
	nfsv4.OpSequence: func(d *xdr.Decoder) any {
		return &SequenceRes{nfsv4.DecodeSessionID(d), d.Uint32("sequence"), d.Uint32("slot"),
			d.Uint32("highest"), d.Uint32("target"), d.Uint32("flags")}
	},
	nfsv4.OpTestStateID: decodeTestStateID,
	nfsv4.OpIOAdvise:    func(d *xdr.Decoder) any { return &IOAdviseRes{bitmap(d)} },
	nfsv4.OpSeek:        func(d *xdr.Decoder) any { return &SeekRes{d.Bool("eof"), d.Uint64("offset")} },
	nfsv4.OpGetXattr:    func(d *xdr.Decoder) any { return &GetXattrRes{opaque(d, d.Remaining())} },
	nfsv4.OpSetXattr:    func(d *xdr.Decoder) any { return &SetXattrRes{changeInfo(d)} },
	nfsv4.OpListXattrs:  decodeListXattrs,
	nfsv4.OpRemoveXattr: func(d *xdr.Decoder) any { return &RemoveXattrRes{changeInfo(d)} },
}

// The bodies, named after their operations. Data and handles alias Reply.Raw.
type (
	AccessRes struct{ Supported, Access uint32 }
	CloseRes  struct{ ID nfsv4.StateID }
	CommitRes struct{ Verifier nfsv4.Verifier }
	CreateRes struct {
		Dir     ChangeInfo
		Attrset nfsv4.Bitmap
	}
	GetAttrRes       struct{ Fattr }
	GetFHRes         struct{ FH []byte }
	LinkRes          struct{ Dir ChangeInfo }
	LockRes          struct{ ID nfsv4.StateID }
	LockURes         struct{ ID nfsv4.StateID }
	OpenDowngradeRes struct{ ID nfsv4.StateID }
	ReadRes          struct {
		EOF  bool
		Data []byte
	}
	ReadLinkRes struct{ Target string }
	RemoveRes   struct{ Dir ChangeInfo }
	RenameRes   struct{ From, To ChangeInfo }
	SecInfoRes  struct{ Flavors []uint32 } // of SECINFO_NO_NAME too
	SetAttrRes  struct{ Attrset nfsv4.Bitmap }
	WriteRes    struct {
		Count, Committed uint32
		Verifier         nfsv4.Verifier
	}
	BindConnRes struct {
		Session nfsv4.SessionID
		Dir     uint32
		RDMA    bool
	}
	SequenceRes struct {
		Session                                nfsv4.SessionID
		Sequence, Slot, Highest, Target, Flags uint32
	}
	IOAdviseRes struct{ Hints nfsv4.Bitmap }
	SeekRes     struct {
		EOF    bool
		Offset uint64
	}
	GetXattrRes    struct{ Value []byte }
	SetXattrRes    struct{ Info ChangeInfo }
	RemoveXattrRes struct{ Info ChangeInfo }
)

// ChangeInfo is change_info4.
type ChangeInfo struct {
	Atomic        bool
	Before, After uint64
}

// LockDenied is LOCK4denied, of LOCK and LOCKT.
type LockDenied struct {
	Offset, Length uint64
	Type           uint32
	Client         nfsv4.ClientID
	Owner          string
}

// OpenRes is OPEN4resok. Delegations are not expected, so their bodies are not
// decoded.
type OpenRes struct {
	ID      nfsv4.StateID
	Dir     ChangeInfo
	Flags   uint32
	Attrset nfsv4.Bitmap
	Deleg   uint32
	Why     uint32 // of DelegateNoneExt
}

// Dirent is one entry of ReadDirRes.
type Dirent struct {
	Cookie uint64
	Name   string
	Attrs  Fattr
}

// ReadDirRes is READDIR4resok.
type ReadDirRes struct {
	Verifier nfsv4.Verifier
	Entries  []Dirent
	EOF      bool
}

// ExchangeIDRes is EXCHANGE_ID4resok.
type ExchangeIDRes struct {
	Client       nfsv4.ClientID
	Sequence     uint32
	Flags        uint32
	Protect      uint32
	MinorID      uint64
	MajorID      string
	Scope        string
	Domain, Name string
}

// CreateSessionRes is CREATE_SESSION4resok.
type CreateSessionRes struct {
	Session         nfsv4.SessionID
	Sequence, Flags uint32
	Fore, Back      Channel
}

// TestStateIDRes is TEST_STATEID4resok.
type TestStateIDRes struct{ Statuses []nfsv4.Status }

// ListXattrsRes is LISTXATTRS4resok.
type ListXattrsRes struct {
	Cookie uint64
	Names  []string
	EOF    bool
}

// Fattr is a fattr4 as received.
type Fattr struct {
	Mask   nfsv4.Bitmap
	Values []byte
}

// Uint64 decodes the value of a fattr4 that holds one attribute, a number.
func (f *Fattr) Uint64() uint64 {
	d := xdr.NewDecoder(f.Values)
	if len(f.Values) == 4 {
		return uint64(d.Uint32("value"))
	}
	return d.Uint64("value")
}

func opaque(d *xdr.Decoder, limit int) []byte { return d.Opaque("opaque", limit) }

func bitmap(d *xdr.Decoder) nfsv4.Bitmap {
	b, beyond := nfsv4.DecodeBitmap(d)
	if beyond {
		d.Fail("bitmap4", xdr.ErrValue) // capstan knows no such attribute
	}
	return b
}

func changeInfo(d *xdr.Decoder) ChangeInfo {
	return ChangeInfo{d.Bool("atomic"), d.Uint64("before"), d.Uint64("after")}
}

func decodeFattr(d *xdr.Decoder) Fattr {
	return Fattr{bitmap(d), d.Opaque("attrlist4", d.Remaining())}
}

func decodeDenied(d *xdr.Decoder) *LockDenied {
	return &LockDenied{d.Uint64("offset"), d.Uint64("length"), d.Uint32("locktype"),
		nfsv4.ClientID(d.Uint64("clientid")), d.String("owner", nfsv4.OpaqueLimit)}
}

func decodeOpen(d *xdr.Decoder) any {
	r := &OpenRes{ID: nfsv4.DecodeStateID(d), Dir: changeInfo(d), Flags: d.Uint32("rflags"), Attrset: bitmap(d), Deleg: d.Uint32("delegation_type")}
	switch r.Deleg {
	case nfsv4.DelegateNone:
	case nfsv4.DelegateNoneExt:
		r.Why = d.Uint32("ond_why")
		if r.Why == nfsv4.WhyContention || r.Why == nfsv4.WhyResource {
			d.Bool("ond_server_will")
		}
	default:
		d.Fail("delegation_type", xdr.ErrValue)
	}
	return r
}

func decodeReadDir(d *xdr.Decoder) any {
	r := &ReadDirRes{Verifier: nfsv4.DecodeVerifier(d)}
	for d.Bool("entry follows") {
		r.Entries = append(r.Entries, Dirent{d.Uint64("cookie"), d.String("name", 1<<16), decodeFattr(d)})
	}
	r.EOF = d.Bool("eof")
	return r
}

func decodeExchangeID(d *xdr.Decoder) any {
	r := &ExchangeIDRes{Client: nfsv4.ClientID(d.Uint64("clientid")), Sequence: d.Uint32("sequenceid"), Flags: d.Uint32("flags"),
		Protect: d.Uint32("spr_how"), MinorID: d.Uint64("so_minor_id"),
		MajorID: d.String("so_major_id", nfsv4.OpaqueLimit), Scope: d.String("server_scope", nfsv4.OpaqueLimit)}
	if d.Count("impl_id", 1, 20) == 1 {
		r.Domain, r.Name = d.String("domain", 1<<16), d.String("name", 1<<16)
		d.Uint64("seconds")
		d.Uint32("nseconds")
	}
	return r
}

func decodeChannel(d *xdr.Decoder) (c Channel) {
	for _, v := range []*uint32{&c.HeaderPad, &c.MaxRequest, &c.MaxResponse, &c.MaxResponseCached, &c.MaxOperations, &c.MaxRequests} {
		*v = d.Uint32("channel_attrs4")
	}
	if d.Count("ca_rdma_ird", 1, 4) == 1 {
		d.Uint32("ca_rdma_ird")
	}
	return c
}

func decodeCreateSession(d *xdr.Decoder) any {
	return &CreateSessionRes{nfsv4.DecodeSessionID(d), d.Uint32("sequence"), d.Uint32("flags"), decodeChannel(d), decodeChannel(d)}
}

func decodeFlavors(d *xdr.Decoder) (list []uint32) {
	for range d.Count("secinfo4", 64, 4) {
		list = append(list, d.Uint32("flavor"))
	}
	return list
}

func decodeTestStateID(d *xdr.Decoder) any {
	r := &TestStateIDRes{}
	for range d.Count("statuses", d.Remaining(), 4) {
		r.Statuses = append(r.Statuses, nfsv4.Status(d.Uint32("status")))
	}
	return r
}

func decodeListXattrs(d *xdr.Decoder) any {
	r := &ListXattrsRes{Cookie: d.Uint64("cookie")}
	for range d.Count("names", d.Remaining(), 4) {
		r.Names = append(r.Names, d.String("name", 1<<16))
	}
	r.EOF = d.Bool("eof")
	return r
}
