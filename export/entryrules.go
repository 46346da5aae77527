package export

// The rules for changing the entries of directories, which are those of the
// Linux VFS.

// CheckAdd returns nil if c may add an entry to dir, else [ErrAccess].
func CheckAdd(c *Cred, dir *Attr) error { return permit(c, dir, PermWrite|PermExec) }

// CheckRemove returns nil if c may remove from dir the entry that stands for
// an object with attributes a: [ErrAccess] without write and search permission
// on dir, [ErrPerm] if the sticky bit forbids it.
func CheckRemove(c *Cred, dir, a *Attr) error {
	if err := permit(c, dir, PermWrite|PermExec); err != nil {
		return err
	}
	if !MayRemove(c, dir, a) {
		return ErrPerm
	}
	return nil
}

// CheckRename returns nil if c may move the object with attributes a from one
// directory to another, where it replaces the one with attributes replaced,
// nil if there is none. A directory that gets another parent needs write
// permission on itself, since its ".." changes. sameDir says that from and to
// are one directory.
func CheckRename(c *Cred, from, a, to, replaced *Attr, sameDir bool) error {
	if err := CheckRemove(c, from, a); err != nil {
		return err
	}
	if replaced != nil {
		if err := CheckRemove(c, to, replaced); err != nil {
			return err
		}
	} else if err := CheckAdd(c, to); err != nil {
		return err
	}
	if a.Type == TypeDirectory && !sameDir {
		return permit(c, a, PermWrite)
	}
	return nil
}

// MayRemove reports whether the sticky bit of dir lets c remove or rename away
// the entry with attributes a; write permission on dir is asked separately.
func MayRemove(c *Cred, dir, a *Attr) bool {
	return dir.Mode&0o1000 == 0 || c.Privileged() || c.UID == a.UID || c.UID == dir.UID
}

// Inherit returns the group and the mode that a new object of type t gets when
// c makes it in dir with mode. In a set-group-id directory that is the
// directory's group, and a new directory is set-group-id as well; elsewhere it
// is the caller's. A group-executable file is not made set-group-id for the
// group of a directory by one outside that group.
func Inherit(c *Cred, dir *Attr, t FileType, mode uint32) (gid, newMode uint32) {
	mode &= 0o7777
	if dir.Mode&0o2000 == 0 {
		return c.GID, mode
	}
	if t == TypeDirectory {
		return dir.GID, mode | 0o2000
	}
	if mode&0o2010 == 0o2010 && !c.Privileged() && !c.InGroup(dir.GID) {
		mode &^= 0o2000
	}
	return dir.GID, mode
}
