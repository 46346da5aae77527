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

// Permits reports whether the mode bits of a grant c everything in want. Only
// the first class that c belongs to counts, of owner, group and others. The
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
// attributes a, on a writable Volume: those whose use would succeed. Changing
// the entries of a directory takes search permission too. Removing a file is
// asked of its directory, so AccessDelete never holds for anything else, and
// extended attributes are only on regular files and directories.
func AccessOf(c *Cred, a *Attr, want Access) Access {
	var got Access
	read, write, exec := Permits(c, a, PermRead), Permits(c, a, PermWrite), Permits(c, a, PermExec)
	if read {
		got |= AccessRead
	}
	if a.Type == TypeDirectory {
		if exec {
			got |= AccessLookup
		}
		if write && exec {
			got |= AccessModify | AccessExtend | AccessDelete
		}
	} else {
		if exec {
			got |= AccessExecute
		}
		if write {
			got |= AccessModify | AccessExtend
		}
	}
	if CheckXattr(c, a, false) == nil {
		got |= AccessXARead | AccessXAList
	}
	if CheckXattr(c, a, true) == nil {
		got |= AccessXAWrite
	}
	return got & want
}

// CheckXattr returns nil if c may read (or, with write, set and remove) the
// user extended attributes of an object with attributes a. They exist on
// regular files and directories only: elsewhere there are none to read
// ([ErrNoXattr]) and none may be made ([ErrPerm]). On a directory with the
// sticky bit they are its owner's ([ErrPerm]), for everybody may write there.
// Otherwise read or write permission is asked for ([ErrAccess]).
func CheckXattr(c *Cred, a *Attr, write bool) error {
	switch {
	case a.Type != TypeRegular && a.Type != TypeDirectory:
		if write {
			return ErrPerm
		}
		return ErrNoXattr
	case !write:
		return permit(c, a, PermRead)
	case a.Type == TypeDirectory && a.Mode&0o1000 != 0 && !c.Privileged() && c.UID != a.UID:
		return ErrPerm
	}
	return permit(c, a, PermWrite)
}

// permit is Permits as an error.
func permit(c *Cred, a *Attr, want Permission) error {
	if !Permits(c, a, want) {
		return ErrAccess
	}
	return nil
}
