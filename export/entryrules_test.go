package export

import "testing"

// TestMayRemove goes through every kind of caller: the owner of the entry, of
// the directory, of neither, and the superuser, with and without the bit.
func TestMayRemove(t *testing.T) {
	for _, sticky := range []uint32{0, 0o1000} {
		for _, uid := range []uint32{0, 100, 300, 1} {
			for _, dirUID := range []uint32{0, 100, 300} {
				for _, uidOf := range []uint32{0, 100, 300} {
					c := &Cred{UID: uid, GID: 5}
					dir := &Attr{Type: TypeDirectory, Mode: 0o777 | sticky, UID: dirUID, GID: 5}
					a := &Attr{Type: TypeRegular, Mode: 0o666, UID: uidOf, GID: 5}
					want := sticky == 0 || uid == 0 || uid == dirUID || uid == uidOf
					if got := MayRemove(c, dir, a); got != want {
						t.Errorf("caller %d, directory of %d, entry of %d, bit %o: %v", uid, dirUID, uidOf, sticky, got)
					}
					var err error
					if !want {
						err = ErrPerm
					}
					if got := CheckRemove(c, dir, a); got != err {
						t.Errorf("CheckRemove: %v, want %v", got, err)
					}
				}
			}
		}
	}
	dir := &Attr{Type: TypeDirectory, Mode: 0o1000}
	if !MayRemove(System(), dir, &Attr{UID: 9}) {
		t.Error("the server may not remove")
	}
}

func TestCheckAddAndRemoveNeedWriteAndSearch(t *testing.T) {
	for _, c := range callers {
		for digit := range uint32(8) {
			dir := &Attr{Type: TypeDirectory, Mode: digit << max(c.shift, 0), UID: objUID, GID: objGID}
			var want error
			if c.shift >= 0 && digit&3 != 3 {
				want = ErrAccess
			}
			if got := CheckAdd(c.cred, dir); got != want {
				t.Errorf("CheckAdd, %s, %o: %v, want %v", c.name, digit, got, want)
			}
			if got := CheckRemove(c.cred, dir, &Attr{UID: 12345}); got != want {
				t.Errorf("CheckRemove, %s, %o: %v, want %v", c.name, digit, got, want)
			}
		}
	}
}

func TestCheckRename(t *testing.T) {
	dir := func(mode, uid uint32) *Attr { return &Attr{Type: TypeDirectory, Mode: mode, UID: uid} }
	file := func(uid uint32) *Attr { return &Attr{Type: TypeRegular, Mode: 0o600, UID: uid} }
	me := &Cred{UID: 1, GID: 1}
	root := &Cred{}
	tests := []struct {
		name               string
		c                  *Cred
		from, a, to, there *Attr
		same               bool
		want               error
	}{
		{"plain", me, dir(0o777, 2), file(2), dir(0o777, 2), nil, false, nil},
		{"from closed", me, dir(0o755, 2), file(1), dir(0o777, 2), nil, false, ErrAccess},
		{"to closed", me, dir(0o777, 2), file(1), dir(0o755, 2), nil, false, ErrAccess},
		{"to closed, something there", me, dir(0o777, 2), file(1), dir(0o755, 2), file(1), false, ErrAccess},
		{"from sticky", me, dir(0o1777, 2), file(2), dir(0o777, 2), nil, false, ErrPerm},
		{"from sticky, mine", me, dir(0o1777, 2), file(1), dir(0o777, 2), nil, false, nil},
		{"to sticky, nothing there", me, dir(0o777, 2), file(2), dir(0o1777, 2), nil, false, nil},
		{"to sticky, replaces another's", me, dir(0o777, 2), file(1), dir(0o1777, 2), file(2), false, ErrPerm},
		{"to sticky, replaces mine", me, dir(0o777, 2), file(2), dir(0o1777, 2), file(1), false, nil},
		{"directory of mine moves", me, dir(0o777, 2), dir(0o700, 1), dir(0o777, 2), nil, false, nil},
		{"read-only directory moves", me, dir(0o777, 2), dir(0o500, 1), dir(0o777, 2), nil, false, ErrAccess},
		{"read-only directory gets another name", me, dir(0o777, 2), dir(0o500, 1), dir(0o777, 2), nil, true, nil},
		{"another's directory moves", me, dir(0o777, 2), dir(0o755, 2), dir(0o777, 2), nil, false, ErrAccess},
		{"root", root, dir(0o1000, 2), dir(0o500, 3), dir(0o1000, 2), file(3), false, nil},
		{"server", System(), dir(0o1000, 2), dir(0o500, 3), dir(0o1000, 2), file(3), false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := CheckRename(tt.c, tt.from, tt.a, tt.to, tt.there, tt.same); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestInherit(t *testing.T) {
	in, out := &Cred{UID: 1, GID: 10, Groups: []uint32{20}}, &Cred{UID: 1, GID: 10}
	root := &Cred{UID: 0, GID: 0}
	tests := []struct {
		name     string
		c        *Cred
		dirMode  uint32
		typ      FileType
		mode     uint32
		wantGID  uint32
		wantMode uint32
	}{
		{"plain", out, 0o755, TypeRegular, 0o2755, 10, 0o2755},
		{"plain directory", out, 0o755, TypeDirectory, 0o755, 10, 0o755},
		{"file type bits dropped", out, 0o755, TypeRegular, 0o100644, 10, 0o644},
		{"set-gid directory, file", out, 0o2755, TypeRegular, 0o644, 20, 0o644},
		{"set-gid directory, directory", out, 0o2755, TypeDirectory, 0o755, 20, 0o2755},
		{"foreign set-gid file", out, 0o2755, TypeRegular, 0o2755, 20, 0o755},
		{"foreign set-gid file, no group execution", out, 0o2755, TypeRegular, 0o2744, 20, 0o2744},
		{"own set-gid file", in, 0o2755, TypeRegular, 0o2755, 20, 0o2755},
		{"root's set-gid file", root, 0o2755, TypeRegular, 0o2755, 20, 0o2755},
		{"root, plain", root, 0o755, TypeFIFO, 0o600, 0, 0o600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := &Attr{Type: TypeDirectory, Mode: tt.dirMode, UID: 5, GID: 20}
			gid, mode := Inherit(tt.c, dir, tt.typ, tt.mode)
			if gid != tt.wantGID || mode != tt.wantMode {
				t.Errorf("gid %d mode %04o, want %d %04o", gid, mode, tt.wantGID, tt.wantMode)
			}
		})
	}
}
