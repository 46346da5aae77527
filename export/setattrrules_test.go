package export

import "testing"

// TestCheckSetAttrOne has the verdict on every single change by every kind of
// caller.
func TestCheckSetAttrOne(t *testing.T) {
	const another = 7 // a group that "group" and "owner" are not in
	for _, c := range callers {
		owner, root := c.shift == 6, c.shift < 0
		for _, bit := range []SetMask{SetMode, SetUID, SetGID, SetSize, SetAtime, SetMtime, SetAtimeNow, SetMtimeNow, SetGuard} {
			for _, writable := range []bool{false, true} {
				for _, written := range []bool{false, true} {
					for _, same := range []bool{false, true} {
						a := &Attr{Type: TypeRegular, UID: objUID, GID: objGID}
						if writable {
							a.Mode = 0o222
						}
						s := &SetAttr{Set: bit, Mode: 0o777, UID: 55, GID: another}
						if same {
							s.UID, s.GID = objUID, objGID
						}
						var want error
						switch {
						case root || bit == SetGuard:
						case bit == SetSize:
							if !writable && !written {
								want = ErrAccess
							}
						case bit == SetAtimeNow || bit == SetMtimeNow:
							if !owner && !writable {
								want = ErrAccess
							}
						case !owner:
							want = ErrPerm
						case (bit == SetUID || bit == SetGID) && !same:
							want = ErrPerm
						}
						if got := CheckSetAttr(c.cred, a, s, written); got != want {
							t.Errorf("%s, set %#x, writable %v, written %v, same %v: %v, want %v",
								c.name, bit, writable, written, same, got, want)
						}
					}
				}
			}
		}
	}
}

// TestCheckSetAttrMany checks that a call with several changes is allowed when
// each is, and that no permission comes before not being the owner.
func TestCheckSetAttrMany(t *testing.T) {
	const all = SetGuard<<1 - 1
	for _, c := range callers {
		for set := range all + 1 {
			for _, mode := range []uint32{0, 0o222} {
				for _, written := range []bool{false, true} {
					a := &Attr{Type: TypeRegular, Mode: mode, UID: objUID, GID: objGID}
					s := &SetAttr{UID: objUID, GID: 7}
					var want error
					for bit := SetMask(1); bit <= SetGuard; bit <<= 1 {
						if set&bit == 0 ||
							bit == SetAtime && set&SetAtimeNow != 0 || bit == SetMtime && set&SetMtimeNow != 0 {
							continue
						}
						s.Set = bit
						switch CheckSetAttr(c.cred, a, s, written) {
						case ErrAccess:
							want = ErrAccess
						case ErrPerm:
							if want == nil {
								want = ErrPerm
							}
						}
					}
					s.Set = set
					if got := CheckSetAttr(c.cred, a, s, written); got != want {
						t.Fatalf("%s, set %#x, mode %o, written %v: %v, want %v", c.name, set, mode, written, got, want)
					}
				}
			}
		}
	}
}

func TestCheckSetAttrGroup(t *testing.T) {
	a := &Attr{Type: TypeRegular, Mode: 0o644, UID: objUID, GID: objGID}
	owner := &Cred{UID: objUID, GID: 10, Groups: []uint32{20, 30}}
	other := &Cred{UID: 1, GID: 10, Groups: []uint32{20}}
	for _, tt := range []struct {
		c    *Cred
		gid  uint32
		want error
	}{
		{owner, 10, nil}, {owner, 20, nil}, {owner, 30, nil}, {owner, objGID, nil}, {owner, 40, ErrPerm}, {owner, 0, ErrPerm},
		{other, 10, ErrPerm}, {other, objGID, ErrPerm}, {&Cred{}, 40, nil}, {System(), 40, nil},
	} {
		if got := CheckSetAttr(tt.c, a, &SetAttr{Set: SetGID, GID: tt.gid}, false); got != tt.want {
			t.Errorf("uid %d, gid %d: %v, want %v", tt.c.UID, tt.gid, got, tt.want)
		}
	}
}

func TestModeAfterSet(t *testing.T) {
	in := &Cred{UID: objUID, GID: objGID, Groups: []uint32{20}}
	out := &Cred{UID: objUID, GID: 1, Groups: []uint32{20}}
	root := &Cred{}
	tests := []struct {
		name string
		c    *Cred
		typ  FileType
		mode uint32
		set  SetAttr
		want uint32
	}{
		{"nothing", in, TypeRegular, 0o6755, SetAttr{}, 0o6755},
		{"times", in, TypeRegular, 0o6755, SetAttr{Set: SetMtimeNow | SetAtime}, 0o6755},
		{"mode", in, TypeRegular, 0o644, SetAttr{Set: SetMode, Mode: 0o106755}, 0o6755},
		{"mode outside the group", out, TypeRegular, 0o644, SetAttr{Set: SetMode, Mode: 0o6755}, 0o4755},
		{"mode outside the group, directory", out, TypeDirectory, 0o755, SetAttr{Set: SetMode, Mode: 0o3777}, 0o1777},
		{"mode by root", root, TypeRegular, 0o644, SetAttr{Set: SetMode, Mode: 0o6755}, 0o6755},
		{"mode by the server", System(), TypeRegular, 0o644, SetAttr{Set: SetMode, Mode: 0o6755}, 0o6755},
		{"mode of a symlink", root, TypeSymlink, 0o777, SetAttr{Set: SetMode, Mode: 0o600}, 0o777},
		{"mode and group he is in", out, TypeRegular, 0o644, SetAttr{Set: SetMode | SetGID, Mode: 0o2744, GID: 20}, 0o2744},
		{"mode and group he is not in", in, TypeRegular, 0o644, SetAttr{Set: SetMode | SetGID, Mode: 0o2744, GID: 9}, 0o744},
		{"mode and group, directory", out, TypeDirectory, 0o755, SetAttr{Set: SetMode | SetGID, Mode: 0o2775, GID: 20}, 0o2775},
		{"owner", root, TypeRegular, 0o6755, SetAttr{Set: SetUID}, 0o755},
		{"owner, locking bit", root, TypeRegular, 0o6745, SetAttr{Set: SetUID}, 0o2745},
		{"owner, locking bit, outside the group", out, TypeRegular, 0o6745, SetAttr{Set: SetUID}, 0o745},
		{"group", in, TypeRegular, 0o6755, SetAttr{Set: SetGID}, 0o755},
		{"owner of a directory", root, TypeDirectory, 0o7755, SetAttr{Set: SetUID | SetGID}, 0o7755},
		{"owner and mode", root, TypeRegular, 0o644, SetAttr{Set: SetUID | SetMode, Mode: 0o6755}, 0o755},
		{"owner and mode, locking bit", root, TypeRegular, 0o644, SetAttr{Set: SetUID | SetMode, Mode: 0o6745}, 0o2745},
		{"owner and mode, directory", root, TypeDirectory, 0o755, SetAttr{Set: SetUID | SetMode, Mode: 0o6755}, 0o6755},
		{"size", in, TypeRegular, 0o6755, SetAttr{Set: SetSize}, 0o755},
		{"size, locking bit", in, TypeRegular, 0o6745, SetAttr{Set: SetSize}, 0o2745},
		{"size, locking bit, outside the group", out, TypeRegular, 0o6745, SetAttr{Set: SetSize}, 0o745},
		{"size by root", root, TypeRegular, 0o6755, SetAttr{Set: SetSize}, 0o6755},
		{"size and mode", in, TypeRegular, 0o644, SetAttr{Set: SetSize | SetMode, Mode: 0o6755}, 0o6755},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &Attr{Type: tt.typ, Mode: tt.mode, UID: objUID, GID: objGID}
			if got := ModeAfterSet(tt.c, a, &tt.set); got != tt.want {
				t.Errorf("mode %04o, want %04o", got, tt.want)
			}
		})
	}
}

// TestModeAfterWrite goes through every mode: set-user-id never survives one
// without privilege; set-group-id does only as the old locking bit, without
// group execution, and only in the group.
func TestModeAfterWrite(t *testing.T) {
	for _, c := range callers {
		in := c.cred.InGroup(objGID)
		for mode := range uint32(0o10000) {
			a := &Attr{Type: TypeRegular, Mode: mode, UID: objUID, GID: objGID}
			want := mode
			if c.shift >= 0 {
				want &^= 0o4000
				if mode&0o010 != 0 || !in {
					want &^= 0o2000
				}
			}
			if got := ModeAfterWrite(c.cred, a); got != want {
				t.Fatalf("%s: %04o becomes %04o, want %04o", c.name, mode, got, want)
			}
		}
	}
}
