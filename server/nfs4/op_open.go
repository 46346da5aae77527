package nfs4

import (
	"capstan/export"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
	"capstan/server/xdr"
)

func openOps() []operation {
	return []operation{
		op(nfsv4.OpOpen, 0, 2, needsFH|modifies, codec[openArgs, openRes]{
			decode: (*openArgs).decode, limit: limitOpen, run: opOpen, encode: (*openRes).encode}),
		op(nfsv4.OpOpenDowngrade, 0, 2, needsFH|modifies, codec[openDowngradeArgs, stateIDRes]{
			decode: (*openDowngradeArgs).decode, limit: limitStateID[openDowngradeArgs], run: opOpenDowngrade, encode: (*stateIDRes).encode}),
		op(nfsv4.OpClose, 0, 2, needsFH|modifies, codec[closeArgs, stateIDRes]{
			decode: (*closeArgs).decode, limit: limitStateID[closeArgs], run: opClose, encode: (*stateIDRes).encode}),
	}
}

// openArgs is OPEN4args (RFC 8881 section 18.16.1).
type openArgs struct {
	seqid        uint32 // of minor version 0
	access, deny uint32
	clientID     nfsv4.ClientID // ignored from minor version 1 on
	owner        []byte
	create       bool
	how          uint32 // createmode4
	verifier     nfsv4.Verifier
	attrs        fattr
	claim        uint32
	name         []byte
}

func (a *openArgs) decode(d *xdr.Decoder) {
	a.seqid = d.Uint32("seqid")
	a.access = d.Uint32("share_access")
	a.deny = d.Uint32("share_deny")
	a.clientID = nfsv4.ClientID(d.Uint64("clientid"))
	a.owner = d.Opaque("owner", nfsv4.OpaqueLimit)
	switch d.Uint32("opentype4") {
	case nfsv4.OpenNoCreate:
	case nfsv4.OpenCreate:
		a.create = true
		a.decodeHow(d)
	default:
		d.Fail("opentype4", xdr.ErrValue)
	}
	a.decodeClaim(d)
}

// decodeHow reads createhow4.
func (a *openArgs) decodeHow(d *xdr.Decoder) {
	a.how = d.Uint32("createmode4")
	switch a.how {
	case nfsv4.CreateUnchecked, nfsv4.CreateGuarded:
		a.attrs.decode(d)
	case nfsv4.CreateExclusive:
		a.verifier = nfsv4.DecodeVerifier(d)
	case nfsv4.CreateExclusive1:
		a.verifier = nfsv4.DecodeVerifier(d)
		a.attrs.decode(d)
	default:
		d.Fail("createmode4", xdr.ErrValue)
	}
}

// decodeClaim reads open_claim4.
func (a *openArgs) decodeClaim(d *xdr.Decoder) {
	a.claim = d.Uint32("open_claim_type4")
	switch a.claim {
	case nfsv4.ClaimNull, nfsv4.ClaimDelegatePrev:
		a.name = decodeName(d)
	case nfsv4.ClaimPrevious:
		d.Uint32("delegate_type")
	case nfsv4.ClaimDelegateCur:
		nfsv4.DecodeStateID(d)
		a.name = decodeName(d)
	case nfsv4.ClaimDelegCurFH:
		nfsv4.DecodeStateID(d)
	case nfsv4.ClaimFH, nfsv4.ClaimDelegPrevFH:
	default:
		d.Fail("open_claim_type4", xdr.ErrValue)
	}
}

// openRes is OPEN4resok.
type openRes struct {
	stateID nfsv4.StateID
	info    changeInfo
	flags   uint32
	attrset nfsv4.Bitmap
	deleg   uint32 // DelegateNone or DelegateNoneExt
	why     uint32
}

func limitOpen(*compound, *openArgs) int { return 16 + sizeofChangeInfo + 4 + sizeofBitmap + 12 }

func (r *openRes) encode(st nfsv4.Status, e *xdr.Encoder) {
	r.stateID.Encode(e)
	r.info.encode(st, e)
	e.Uint32(r.flags)
	r.attrset.Encode(e)
	e.Uint32(r.deleg)
	if r.deleg == nfsv4.DelegateNoneExt {
		e.Uint32(r.why)
		if r.why == nfsv4.WhyContention || r.why == nfsv4.WhyResource {
			e.Bool(false) // no callback will say that one can be had
		}
	}
}

// check finds what is wrong with the arguments whatever file they mean.
func (a *openArgs) check(c *compound) nfsv4.Status {
	const known = nfsv4.ShareAccessBoth | nfsv4.WantDelegMask | nfsv4.WantSignalDelegAvail | nfsv4.WantPushDelegUncont
	want := a.access & nfsv4.WantDelegMask
	switch {
	case a.access&nfsv4.ShareAccessBoth == 0, a.deny > nfsv4.ShareDenyBoth:
		return nfsv4.ErrInval
	case a.access&^known != 0, want > nfsv4.WantCancel:
		return nfsv4.ErrInval
	case a.create && a.claim != nfsv4.ClaimNull:
		return nfsv4.ErrInval
	case a.create && a.how == nfsv4.CreateExclusive1 && c.minor == 0:
		return nfsv4.ErrInval
	}
	switch a.claim {
	case nfsv4.ClaimNull:
		return c.checkName(a.name)
	case nfsv4.ClaimDelegateCur, nfsv4.ClaimDelegCurFH:
		return nfsv4.ErrBadStateID // no delegation was given out
	case nfsv4.ClaimDelegatePrev, nfsv4.ClaimDelegPrevFH:
		return nfsv4.ErrReclaimBad
	}
	return nfsv4.OK
}

func (a *openArgs) share() state.Access { return state.Access(a.access & nfsv4.ShareAccessBoth) }

// mode is what the file is opened for. Reading is granted to one who may only
// execute, since the client executes by reading; it checks the difference
// itself (RFC 8881 section 18.16.4).
func (a *openArgs) mode() export.OpenMode {
	switch a.share() {
	case state.AccessRead:
		return export.OpenRead | export.OpenExec
	case state.AccessWrite:
		return export.OpenWrite
	}
	return export.OpenRead | export.OpenWrite
}

func opOpen(c *compound, a *openArgs, r *openRes) nfsv4.Status {
	if st := a.check(c); st != nfsv4.OK {
		return st
	}
	if st := c.client().CanOpen(a.claim == nfsv4.ClaimPrevious); st != nfsv4.OK {
		return st
	}
	if a.access&nfsv4.ShareAccessWrite != 0 && c.cur.rights.ReadOnly {
		return nfsv4.ErrROFS
	}
	var st nfsv4.Status
	if a.create {
		st = c.openCreate(a, r)
	} else {
		st = c.openExisting(a, r)
	}
	if st != nfsv4.OK {
		return st
	}
	c.setStateID(r.stateID)
	r.flags = nfsv4.OpenResultLockTypePosix
	r.deleg, r.why = noDelegation(c.minor, a.access)
	return nfsv4.OK
}

// noDelegation is the answer to a wish for a delegation: none, and why where
// the client asked in a way that wants a reason (RFC 8881 section 18.16.3).
func noDelegation(minor, access uint32) (deleg, why uint32) {
	if minor == 0 {
		return nfsv4.DelegateNone, 0
	}
	switch access & nfsv4.WantDelegMask {
	case nfsv4.WantNoPreference:
		return nfsv4.DelegateNone, 0
	case nfsv4.WantNoDeleg:
		return nfsv4.DelegateNoneExt, nfsv4.WhyNotWanted
	case nfsv4.WantCancel:
		return nfsv4.DelegateNoneExt, nfsv4.WhyCancelled
	}
	return nfsv4.DelegateNoneExt, nfsv4.WhyResource
}

// openExisting is an OPEN that makes nothing.
func (c *compound) openExisting(a *openArgs, r *openRes) nfsv4.Status {
	if a.claim == nfsv4.ClaimNull {
		dir := c.cur
		node, attr, err := c.lookup(a.name, 0)
		if err != nil {
			return c.dirStatus(err)
		}
		if st := openable(attr.Type); st != nfsv4.OK {
			return st
		}
		// Nothing changed in the directory; what its change attribute is, is no
		// snapshot of the moment.
		d, err := dir.vol().GetAttr(c.ctx, dir.rights.Cred, dir.node.Object, export.MaskChange)
		if err != nil {
			return c.statusOf(err)
		}
		r.info = changeInfo{before: d.Change, after: d.Change}
		if st := c.setCurrent(node); st != nfsv4.OK {
			return st
		}
	}
	return c.openCurrent(a, r)
}

// openable says why an object of type t is not opened. For special files
// SYMLINK is what makes clients look them up and open them on their own.
func openable(t export.FileType) nfsv4.Status {
	switch t {
	case export.TypeRegular:
		return nfsv4.OK
	case export.TypeDirectory:
		return nfsv4.ErrIsDir
	}
	return nfsv4.ErrSymlink
}

// fileOnly says why an operation on the bytes of a file is not for an object of
// type t. Nobody opens anything because of it, so special files are told what
// they are, in the minor versions that can say so (RFC 8881 section 18.22.3).
func (c *compound) fileOnly(t export.FileType) nfsv4.Status {
	if st := openable(t); st != nfsv4.ErrSymlink || t == export.TypeSymlink || c.minor == 0 {
		return st
	}
	return nfsv4.ErrWrongType
}

// noFile translates the error of opening what should be a file for such an
// operation: INVAL is a special file.
func (c *compound) noFile(err error) nfsv4.Status {
	if st := c.statusOf(err); st != nfsv4.ErrInval || c.minor == 0 {
		return st
	}
	return nfsv4.ErrWrongType
}

// openCurrent opens the current filehandle's object.
func (c *compound) openCurrent(a *openArgs, r *openRes) nfsv4.Status {
	h := &c.cur
	if st := c.mayDeny(a); st != nfsv4.OK {
		return st
	}
	pending, st := c.beginOpen(a)
	if st != nfsv4.OK {
		return st
	}
	defer pending.Abort()
	f, err := h.vol().Open(c.ctx, h.rights.Cred, h.node.Object, a.mode())
	if st := c.statusOf(err); st == nfsv4.ErrInval {
		return nfsv4.ErrSymlink // a special file, see openable
	} else if st != nfsv4.OK {
		return st
	}
	r.stateID, st = pending.Commit(f)
	return st
}

// mayDeny says why the caller may not deny what a denies of the current
// filehandle's object, which exists already: who may not write must not keep
// others from reading.
func (c *compound) mayDeny(a *openArgs) nfsv4.Status {
	if a.deny&nfsv4.ShareDenyRead == 0 {
		return nfsv4.OK
	}
	h := &c.cur
	attr, err := h.vol().GetAttr(c.ctx, h.rights.Cred, h.node.Object, export.MaskAuth)
	if err != nil {
		return c.statusOf(err)
	}
	if !export.Permits(h.rights.Cred, &attr, export.PermWrite) {
		return nfsv4.ErrAccess
	}
	return nfsv4.OK
}

// beginOpen reserves what a wants of the current filehandle's object.
func (c *compound) beginOpen(a *openArgs) (*state.PendingOpen, nfsv4.Status) {
	return c.client().BeginOpen(c.ctx, &state.OpenArgs{
		Owner: a.owner, Key: c.cur.key(), Volume: c.cur.vol(), Access: a.share(), Deny: state.Access(a.deny),
		Reclaim: a.claim == nfsv4.ClaimPrevious,
	})
}

// openCreate is an OPEN that may make the file.
func (c *compound) openCreate(a *openArgs, r *openRes) nfsv4.Status {
	s := &c.change
	if st := s.parse(c, &a.attrs); st != nfsv4.OK {
		return st
	}
	s.newMode()
	if c.cur.rights.ReadOnly {
		return c.openReadOnly(a, r)
	}
	// The size is set when the share reservation stands, and not by Create.
	sized := s.Set&export.SetSize != 0
	s.Set &^= export.SetSize
	made, err := c.cur.vol().Create(c.ctx, c.cur.rights.Cred, c.cur.node.Object, string(a.name), a.createArgs(s))
	if err != nil {
		if st := c.dirStatus(err); st != nfsv4.ErrInval && st != nfsv4.ErrBadType {
			return st
		}
		return c.notOpenable(a, err)
	}
	file := made.File
	defer func() {
		if file != nil {
			_ = file.Close() // nothing was written through it
		}
	}()
	if st := c.setCurrent(export.Node{Export: c.cur.node.Export, Object: made.Object}); st != nfsv4.OK {
		return st
	}
	if !made.New && a.how == nfsv4.CreateUnchecked { // what the caller made itself is its own
		if st := c.mayDeny(a); st != nfsv4.OK {
			return st
		}
	}
	pending, st := c.beginOpen(a)
	if st != nfsv4.OK {
		return st
	}
	defer pending.Abort()
	r.attrset = a.attrs.mask
	if !made.New && a.how == nfsv4.CreateUnchecked {
		r.attrset = nfsv4.Bitmap{} // an existing file keeps what it has
	}
	if sized && (made.New && s.Size > 0 || !made.New && a.how == nfsv4.CreateUnchecked && s.Size == 0) {
		if st := c.truncateNew(s.Size, made.File, a); st != nfsv4.OK {
			return st
		}
		r.attrset.Set(nfsv4.AttrSize)
	}
	file = nil
	r.stateID, st = pending.Commit(made.File)
	r.info = changeInfoOf(&made.Dir)
	return st
}

// truncateNew sets the size that came with OPEN. Where the file is not open for
// writing the caller needs the permission.
func (c *compound) truncateNew(size uint64, f export.File, a *openArgs) nfsv4.Status {
	var via export.File
	if a.access&nfsv4.ShareAccessWrite != 0 {
		via = f
	}
	_, err := c.cur.vol().SetAttr(c.ctx, c.cur.rights.Cred, c.cur.node.Object, via, &export.SetAttr{Set: export.SetSize, Size: size})
	return c.statusOf(err)
}

// notOpenable finds the better status for a name that stands for something
// that is no regular file.
func (c *compound) notOpenable(a *openArgs, err error) nfsv4.Status {
	if _, attr, lerr := c.lookup(a.name, 0); lerr == nil && attr.Type != export.TypeRegular {
		return openable(attr.Type)
	}
	return c.statusOf(err)
}

// openReadOnly is an OPEN with create where nothing can be made: an existing
// file is opened as it is.
func (c *compound) openReadOnly(a *openArgs, r *openRes) nfsv4.Status {
	_, _, err := c.lookup(a.name, 0)
	switch {
	case c.statusOf(err) == nfsv4.ErrNoEnt:
		return nfsv4.ErrROFS
	case err != nil:
		return c.dirStatus(err)
	case a.how != nfsv4.CreateUnchecked:
		return nfsv4.ErrExist
	case c.change.Set&export.SetSize != 0 && c.change.Size == 0:
		return nfsv4.ErrROFS
	}
	return c.openExisting(a, r)
}

// createArgs translates createhow4. A retry of an exclusive create opens what
// the first try made, whatever mode it gave it: nobody else knows the verifier.
func (a *openArgs) createArgs(s *attrChange) *export.Create {
	args := &export.Create{Attr: s.SetAttr, Open: a.mode()}
	switch a.how {
	case nfsv4.CreateUnchecked:
		args.Mode = export.CreateUnchecked
	case nfsv4.CreateGuarded:
		args.Mode = export.CreateGuarded
	default:
		args.Mode, args.Verifier = export.CreateExclusive, a.verifier
		args.Open |= export.OpenOwner
	}
	return args
}

// stateIDRes is a result that is a stateid.
type stateIDRes struct{ id nfsv4.StateID }

const sizeofStateID = 16

func limitStateID[A any](*compound, *A) int { return sizeofStateID }

func (r *stateIDRes) encode(_ nfsv4.Status, e *xdr.Encoder) { r.id.Encode(e) }

// openDowngradeArgs is OPEN_DOWNGRADE4args (RFC 8881 section 18.18.1).
type openDowngradeArgs struct {
	id           nfsv4.StateID
	seqid        uint32
	access, deny uint32
}

func (a *openDowngradeArgs) decode(d *xdr.Decoder) {
	a.id = nfsv4.DecodeStateID(d)
	a.seqid = d.Uint32("seqid")
	a.access = d.Uint32("share_access")
	a.deny = d.Uint32("share_deny")
}

func opOpenDowngrade(c *compound, a *openDowngradeArgs, r *stateIDRes) nfsv4.Status {
	// Wishes for delegations mean nothing here (RFC 8881 section 18.18.3).
	access := a.access &^ (nfsv4.WantDelegMask | nfsv4.WantSignalDelegAvail | nfsv4.WantPushDelegUncont)
	if access == 0 || access > nfsv4.ShareAccessBoth || a.deny > nfsv4.ShareDenyBoth {
		return nfsv4.ErrInval
	}
	id, st := c.resolveStateID(a.id, true)
	if st != nfsv4.OK {
		return st
	}
	r.id, st = c.client().OpenDowngrade(c.ctx, id, c.cur.key(), state.Access(access), state.Access(a.deny))
	if st == nfsv4.OK {
		c.setStateID(r.id)
	}
	return st
}

// closeArgs is CLOSE4args (RFC 8881 section 18.2.1).
type closeArgs struct {
	seqid uint32
	id    nfsv4.StateID
}

func (a *closeArgs) decode(d *xdr.Decoder) {
	a.seqid = d.Uint32("seqid")
	a.id = nfsv4.DecodeStateID(d)
}

func opClose(c *compound, a *closeArgs, r *stateIDRes) nfsv4.Status {
	id, st := c.resolveStateID(a.id, true)
	if st != nfsv4.OK {
		return st
	}
	r.id, st = c.client().Close(c.ctx, id, c.cur.key())
	if st == nfsv4.OK {
		c.setStateID(r.id)
	}
	return st
}
