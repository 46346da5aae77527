package export

// The rules for changing attributes, which are those of the Linux VFS and its
// NFS server (setattr_prepare, notify_change, nfsd_setattr).

// CheckSetAttr returns nil if c may apply s to an object with attributes a by
// the rules of POSIX (chmod, chown, utimensat, truncate), else [ErrPerm] or
// [ErrAccess]. written is true when c holds the file open for writing, which
// stands in for write permission when the size is set.
func CheckSetAttr(c *Cred, a *Attr, s *SetAttr, written bool) error {
	if c.Privileged() {
		return nil
	}
	owner := c.UID == a.UID
	set := s.effective()

	// What write permission is enough for.
	if set&SetSize != 0 && !written && !Permits(c, a, PermWrite) {
		return ErrAccess
	}
	if set&(SetAtimeNow|SetMtimeNow) != 0 && !owner && !Permits(c, a, PermWrite) {
		return ErrAccess
	}
	// What is the owner's alone.
	if set&(SetMode|SetUID|SetGID|SetAtime|SetMtime) != 0 && !owner {
		return ErrPerm
	}
	// What even the owner cannot give away.
	if set&SetUID != 0 && s.UID != a.UID {
		return ErrPerm
	}
	if set&SetGID != 0 && s.GID != a.GID && !c.InGroup(s.GID) {
		return ErrPerm
	}
	return nil
}

// effective returns s.Set without the given times that a time of "now"
// overrides.
func (s *SetAttr) effective() SetMask {
	set := s.Set
	if set&SetAtimeNow != 0 {
		set &^= SetAtime
	}
	if set&SetMtimeNow != 0 {
		set &^= SetMtime
	}
	return set
}

// ModeAfterSet returns the mode that setting s on a leaves, once it is allowed.
//
// The mode of a symbolic link stays. One without privilege cannot set the
// set-group-id bit for a group he is not in: of the new group if the group
// changes too. Any chown of something that is not a directory clears both bits
// as a write does, for the superuser too, and also from a mode set in the same
// call. A change of size by one without privilege does, unless the mode is set.
func ModeAfterSet(c *Cred, a *Attr, s *SetAttr) uint32 {
	chown := s.Set&(SetUID|SetGID) != 0 && a.Type != TypeDirectory
	if s.Set&SetMode == 0 || a.Type == TypeSymlink {
		if chown {
			return dropSetID(c, a)
		}
		if s.Set&SetSize != 0 {
			return ModeAfterWrite(c, a)
		}
		return a.Mode
	}
	mode, gid := s.Mode&0o7777, a.GID
	if s.Set&SetGID != 0 {
		gid = s.GID
	}
	if !c.Privileged() && !c.InGroup(gid) {
		mode &^= 0o2000
	}
	if chown {
		mode = ClearSetID(mode)
	}
	return mode
}

// ModeAfterWrite returns the mode that a write or truncation by c leaves on a:
// the superuser's changes nothing.
func ModeAfterWrite(c *Cred, a *Attr) uint32 {
	if c.Privileged() || a.Type != TypeRegular {
		return a.Mode
	}
	return dropSetID(c, a)
}

// dropSetID is ClearSetID, and takes set-group-id also without group execution
// if c, without privilege, is not in that group.
func dropSetID(c *Cred, a *Attr) uint32 {
	mode := ClearSetID(a.Mode)
	if !c.Privileged() && !c.InGroup(a.GID) {
		mode &^= 0o2000
	}
	return mode
}

// ClearSetID returns mode without set-user-id, and without set-group-id if the
// group may execute. Who changes what are the attributes of an object uses
// [ModeAfterSet] and [ModeAfterWrite].
func ClearSetID(mode uint32) uint32 {
	mode &^= 0o4000
	if mode&0o010 != 0 {
		mode &^= 0o2000
	}
	return mode
}
