package nfs3

import (
	"context"
	"testing"

	"capstan/export"
)

// recordedShares denies as told and records what lost a name.
type recordedShares struct {
	read, write bool
	removed     []export.Object
}

func (s *recordedShares) Denied(_ context.Context, _ uint32, _ export.Object, write bool) bool {
	if write {
		return s.write
	}
	return s.read
}

func (s *recordedShares) Removed(_ context.Context, _ uint32, o export.Object) {
	s.removed = append(s.removed, o)
}

// TestSharesOfOtherVersions: an NFSv4 open that denies writing, or reading,
// counts for NFSv3, and learns of names that go.
func TestSharesOfOtherVersions(t *testing.T) {
	s := &recordedShares{}
	b := newBedWith(t, Options{Shares: s})
	f := b.create(b.root, "f", 0o644)
	g := b.create(b.root, "g", 0o644)
	b.write(f, 0, "abc", export.FileSync)

	s.write = true
	b.want(ErrAccess, superuser, procWrite, enc().fh(f).u64(0).u32(1).u32(0).str("x"))
	b.want(ErrAccess, superuser, procSetAttr, enc().fh(f).sattr(export.SetAttr{Set: export.SetSize, Size: 0}).bool(false))
	cut := export.SetAttr{Set: export.SetSize, Size: 0}
	b.want(ErrAccess, superuser, procCreate, enc().fh(b.root).str("f").u32(createUnchecked).sattr(cut))
	b.read(f, 0, 3)

	s.read, s.write = true, false
	b.want(ErrAccess, superuser, procRead, enc().fh(f).u64(0).u32(3))
	b.write(f, 0, "xyz", export.Unstable)

	b.ok(procRename, enc().fh(b.root).str("f").fh(b.root).str("g"))
	b.ok(procRemove, enc().fh(b.root).str("g"))
	want := []export.Object{b.object(g), b.object(f)}
	if len(s.removed) != 2 || s.removed[0] != want[0] || s.removed[1] != want[1] {
		t.Errorf("told of %v, want %v", s.removed, want)
	}
}
