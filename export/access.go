package export

// Access is a set of rights on an object, with the bits of ACCESS
// (RFC 8881 section 18.1, RFC 1813 section 3.3.4, RFC 8276 section 8.5).
type Access uint32

// The rights.
const (
	AccessRead    Access = 0x01 // read data, list a directory
	AccessLookup  Access = 0x02 // look up names in a directory
	AccessModify  Access = 0x04 // rewrite data, change entries
	AccessExtend  Access = 0x08 // append data, add entries
	AccessDelete  Access = 0x10 // remove entries of a directory
	AccessExecute Access = 0x20 // execute a file
	AccessXARead  Access = 0x40 // read extended attributes
	AccessXAWrite Access = 0x80 // set and remove extended attributes
	AccessXAList  Access = 0x100
)

// Permission is what a caller wants of an object, as the bits of a mode.
type Permission uint32

// The permissions, as in one octal digit of a mode.
const (
	PermExec  Permission = 1 // execute, or search a directory
	PermWrite Permission = 2
	PermRead  Permission = 4
)

// Permits reports whether the mode bits of a grant c everything in want. The
// superuser may do all but execute a file that has no execute bit.
func Permits(c *Cred, a *Attr, want Permission) bool {
	if c.Privileged() {
		return want&PermExec == 0 || a.Type == TypeDirectory || a.Mode&0o111 != 0 || c.system
	}
	bits := a.Mode
	switch {
	case c.UID == a.UID:
		bits >>= 6
	case c.InGroup(a.GID):
		bits >>= 3
	}
	return Permission(bits)&want == want
}

// AccessOf returns which of the rights in want c has on an object with
// attributes a, on a writable Volume. Deleting and extending are asked of the
// directory, so AccessDelete never holds for anything else.
func AccessOf(c *Cred, a *Attr, want Access) Access {
	var got Access
	read, write, exec := Permits(c, a, PermRead), Permits(c, a, PermWrite), Permits(c, a, PermExec)
	if read {
		got |= AccessRead | AccessXARead | AccessXAList
	}
	if write {
		got |= AccessModify | AccessExtend | AccessXAWrite
	}
	if a.Type == TypeDirectory {
		if exec {
			got |= AccessLookup
		}
		if write {
			got |= AccessDelete
		}
	} else if exec {
		got |= AccessExecute
	}
	return got & want
}

// MayRemove reports whether the sticky bit of dir lets c remove or rename away
// the entry with attributes a; write permission on dir is asked separately.
func MayRemove(c *Cred, dir, a *Attr) bool {
	return dir.Mode&0o1000 == 0 || c.Privileged() || c.UID == a.UID || c.UID == dir.UID
}

// CheckSetAttr returns nil if c may apply s to an object with attributes a by
// the rules of POSIX (chmod, chown, utimensat, truncate), else [ErrPerm] or
// [ErrAccess]. written is true when c holds the file open for writing, which
// stands in for write permission when the size is set.
func CheckSetAttr(c *Cred, a *Attr, s *SetAttr, written bool) error {
	if c.Privileged() {
		return nil
	}
	owner := c.UID == a.UID
	if s.Set&SetMode != 0 && !owner {
		return ErrPerm
	}
	if s.Set&SetUID != 0 && (!owner || s.UID != a.UID) {
		return ErrPerm
	}
	if s.Set&SetGID != 0 && s.GID != a.GID && (!owner || !c.InGroup(s.GID)) {
		return ErrPerm
	}
	if s.Set&SetGID != 0 && s.GID == a.GID && !owner {
		return ErrPerm
	}
	if s.Set&(SetAtime|SetMtime) != 0 && !owner {
		return ErrPerm
	}
	if s.Set&(SetAtimeNow|SetMtimeNow) != 0 && !owner && !Permits(c, a, PermWrite) {
		return ErrAccess
	}
	if s.Set&SetSize != 0 && !written && !Permits(c, a, PermWrite) {
		return ErrAccess
	}
	return nil
}

// ModeAfterSet returns the mode that setting s on a leaves, with the set-id
// bits cleared as POSIX wants: set-group-id is refused to one outside the
// group, and a change of owner or of size by one without privilege clears
// both bits of an executable file.
func ModeAfterSet(c *Cred, a *Attr, s *SetAttr) uint32 {
	mode := a.Mode
	if s.Set&SetMode != 0 {
		mode = s.Mode & 0o7777
		if !c.Privileged() && a.Type != TypeDirectory && !c.InGroup(a.GID) {
			mode &^= 0o2000
		}
	}
	if a.Type != TypeDirectory && s.Set&(SetUID|SetGID) != 0 && s.Set&SetMode == 0 {
		mode = ClearSetID(mode)
	}
	if s.Set&SetSize != 0 && s.Set&SetMode == 0 && !c.Privileged() {
		mode = ClearSetID(mode)
	}
	return mode
}

// ClearSetID returns mode as a write by one without privilege leaves it:
// without set-user-id, and without set-group-id if the group may execute.
func ClearSetID(mode uint32) uint32 {
	mode &^= 0o4000
	if mode&0o010 != 0 {
		mode &^= 0o2000
	}
	return mode
}
