package export

import (
	"fmt"
	"testing"
)

// caller is one of every kind of caller there is for an object of uid 100 and
// gid 200.
type caller struct {
	name  string
	cred  *Cred
	shift int // of the mode bits that count for it; -1: the superuser, -2: the server
}

const (
	objUID = 100
	objGID = 200
)

var callers = []caller{
	{"owner in group", &Cred{UID: objUID, GID: objGID}, 6},
	{"owner elsewhere", &Cred{UID: objUID, GID: 1}, 6},
	{"group", &Cred{UID: 1, GID: objGID}, 3},
	{"other group", &Cred{UID: 1, GID: 1, Groups: []uint32{7, objGID}}, 3},
	{"other", &Cred{UID: 1, GID: 1, Groups: []uint32{7}}, 0},
	{"gid 0 only", &Cred{UID: 1, GID: 0}, 0},
	{"root", &Cred{UID: 0, GID: 0}, -1},
	{"root of another group", &Cred{UID: 0, GID: 1}, -1},
	{"server", System(), -2},
}

var allTypes = []FileType{TypeRegular, TypeDirectory, TypeBlock, TypeChar, TypeSymlink, TypeSocket, TypeFIFO}

func TestPermitsAll(t *testing.T) {
	for _, c := range callers {
		for _, typ := range allTypes {
			for mode := range uint32(0o1000) {
				a := &Attr{Type: typ, Mode: mode | 0o7000, UID: objUID, GID: objGID}
				for want := range Permission(8) {
					var right bool
					switch c.shift {
					case -2:
						right = true
					case -1:
						right = want&PermExec == 0 || typ == TypeDirectory || mode&0o111 != 0
					default:
						right = mode>>c.shift&7&uint32(want) == uint32(want)
					}
					if got := Permits(c.cred, a, want); got != right {
						t.Fatalf("%s, type %d, mode %04o, want %o: %v", c.name, typ, mode, want, got)
					}
				}
			}
		}
	}
}

// TestAccessOf has the rights that a mode digit gives, for each type.
func TestAccessOf(t *testing.T) {
	const (
		r, w, x      = AccessRead, AccessModify | AccessExtend, AccessExecute
		look, change = AccessLookup, AccessModify | AccessExtend | AccessDelete
		xr, xw       = AccessXARead | AccessXAList, AccessXAWrite
		all          = Access(0x1ff)
	)
	tests := map[FileType][8]Access{
		TypeRegular: {
			0, x, w | xw, x | w | xw,
			r | xr, r | xr | x, r | xr | w | xw, r | xr | w | xw | x,
		},
		TypeDirectory: {
			0, look, xw, look | change | xw,
			r | xr, r | xr | look, r | xr | xw, r | xr | look | change | xw,
		},
		TypeChar: {0, x, w, x | w, r, r | x, r | w, r | w | x},
	}
	tests[TypeBlock], tests[TypeSocket], tests[TypeFIFO], tests[TypeSymlink] =
		tests[TypeChar], tests[TypeChar], tests[TypeChar], tests[TypeChar]
	for typ, rights := range tests {
		for _, c := range callers {
			for digit := range uint32(8) {
				a := &Attr{Type: typ, UID: objUID, GID: objGID}
				right := rights[digit]
				switch {
				case c.shift >= 0:
					a.Mode = digit << c.shift
				case c.shift == -1 && typ != TypeDirectory && digit&1 == 0:
					a.Mode, right = digit<<6, rights[6]
				default:
					a.Mode, right = digit<<6, rights[7]
				}
				for _, want := range []Access{all, 0, AccessRead, AccessDelete | AccessLookup, AccessXAWrite} {
					if got := AccessOf(c.cred, a, want); got != right&want {
						t.Errorf("%s, type %d, mode %04o, asked %#x: %#x, want %#x", c.name, typ, a.Mode, want, got, right&want)
					}
				}
			}
		}
	}
}

func TestCheckXattr(t *testing.T) {
	owner, other, root := callers[0].cred, callers[4].cred, callers[6].cred
	tests := []struct {
		typ   FileType
		mode  uint32
		cred  *Cred
		write bool
		want  error
	}{
		{TypeRegular, 0o400, owner, false, nil},
		{TypeRegular, 0o400, owner, true, ErrAccess},
		{TypeRegular, 0o004, other, false, nil},
		{TypeRegular, 0o004, other, true, ErrAccess},
		{TypeRegular, 0, other, false, ErrAccess},
		{TypeRegular, 0, root, true, nil},
		{TypeDirectory, 0o777, other, true, nil},
		{TypeDirectory, 0o1777, other, true, ErrPerm},
		{TypeDirectory, 0o1777, other, false, nil},
		{TypeDirectory, 0o1777, owner, true, nil},
		{TypeDirectory, 0o1077, owner, true, ErrAccess},
		{TypeDirectory, 0o1777, root, true, nil},
		{TypeSymlink, 0o777, owner, true, ErrPerm},
		{TypeSymlink, 0o777, root, true, ErrPerm},
		{TypeSymlink, 0o777, owner, false, ErrNoXattr},
		{TypeFIFO, 0o666, owner, true, ErrPerm},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d %04o uid %d %v", tt.typ, tt.mode, tt.cred.UID, tt.write), func(t *testing.T) {
			a := &Attr{Type: tt.typ, Mode: tt.mode, UID: objUID, GID: objGID}
			if got := CheckXattr(tt.cred, a, tt.write); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
