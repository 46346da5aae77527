package exporttest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"capstan/export"
	"capstan/export/memory"
)

func newMemory(t testing.TB) export.Volume {
	v, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestNamesAreUnique(t *testing.T) {
	names := Names()
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			t.Errorf("two rows are named %s", names[i])
		}
	}
	for _, n := range names {
		if family, situation, ok := strings.Cut(n, "/"); !ok || family == "" || situation == "" {
			t.Errorf("row %q is not Family/Situation", n)
		}
	}
}

// faulty is a Volume that answers lookups of what is not there with ErrIO.
type faulty struct{ export.Volume }

func (v faulty) Lookup(ctx context.Context, c *export.Cred, dir export.Object, name string, mask export.AttrMask) (export.Object, export.Attr, error) {
	o, a, err := v.Volume.Lookup(ctx, c, dir, name, mask)
	if export.StatusOf(err) == export.ErrNoEnt {
		err = export.ErrIO
	}
	return o, a, err
}

func TestKnown(t *testing.T) {
	all := rows()
	noEnt := all[slices.IndexFunc(all, func(r row) bool { return r.name == "Lookup/NoEnt" })]
	known := map[string]string{"Lookup/NoEnt": "a test"}
	for _, tc := range []struct {
		name  string
		new   func(testing.TB) export.Volume
		known map[string]string
		fails bool
	}{
		{"good", newMemory, nil, false},
		{"good, said to fail", newMemory, known, true},
		{"faulty", func(t testing.TB) export.Volume { return faulty{newMemory(t)} }, nil, true},
		{"faulty, said to fail", func(t testing.TB) export.Volume { return faulty{newMemory(t)} }, known, false},
	} {
		rec := &recorder{TB: t}
		if failed := rec.run(func() { noEnt.runOn(rec, &Config{New: tc.new, Known: tc.known}) }); failed != tc.fails {
			t.Errorf("%s: failed %v, want %v; %s", tc.name, failed, tc.fails, rec.output())
		}
	}
}

// bare is a Volume without optional features.
type bare struct{ export.Volume }

func (v bare) Features() export.Features {
	f := v.Volume.Features()
	f.HardLinks, f.Symlinks, f.Special, f.Xattrs = false, false, false, false
	f.Seek, f.Allocate, f.Deallocate, f.SetTime = false, false, false, false
	return f
}

func (v bare) Symlink(context.Context, *export.Cred, export.Object, string, string, *export.SetAttr) (export.Created, error) {
	return export.Created{}, export.ErrNotSupp
}

func (v bare) Mknod(context.Context, *export.Cred, export.Object, string, *export.NewNode) (export.Created, error) {
	return export.Created{}, export.ErrNotSupp
}

func (v bare) Link(context.Context, *export.Cred, export.Object, export.Object, string) (export.Created, error) {
	return export.Created{}, export.ErrNotSupp
}

func (v bare) GetXattr(context.Context, *export.Cred, export.Object, string) ([]byte, error) {
	return nil, export.ErrNotSupp
}

func (v bare) SetXattr(context.Context, *export.Cred, export.Object, string, []byte, export.XattrMode) (export.Change, error) {
	return export.Change{}, export.ErrNotSupp
}

func (v bare) ListXattr(context.Context, *export.Cred, export.Object) ([]string, error) {
	return nil, export.ErrNotSupp
}

func (v bare) RemoveXattr(context.Context, *export.Cred, export.Object, string) (export.Change, error) {
	return export.Change{}, export.ErrNotSupp
}

func (v bare) Open(ctx context.Context, c *export.Cred, o export.Object, m export.OpenMode) (export.File, error) {
	f, err := v.Volume.Open(ctx, c, o, m)
	if err != nil {
		return nil, err
	}
	return bareFile{f}, nil
}

type bareFile struct{ export.File }

func (f bareFile) Seek(context.Context, uint64, export.SeekWhat) (uint64, bool, error) {
	return 0, false, export.ErrNotSupp
}
func (f bareFile) Allocate(context.Context, uint64, uint64) error   { return export.ErrNotSupp }
func (f bareFile) Deallocate(context.Context, uint64, uint64) error { return export.ErrNotSupp }

// TestAbsentFeatures runs the rows for what a Volume does not have.
func TestAbsentFeatures(t *testing.T) {
	Run(t, Config{
		New:  func(t testing.TB) export.Volume { return bare{newMemory(t)} },
		Only: []string{"Symlink/", "Mknod/", "Link/", "Xattr/", "Seek/", "Allocate/", "Deallocate/", "Errors/", "Create/", "ReadDir/"},
	})
}

// lasting is a Volume that loses nothing when it is reopened.
type lasting struct {
	export.Volume
	verifier *export.VerifierSource
}

func (v lasting) WriteVerifier() [8]byte { return v.verifier.Verifier() }

// TestRestart runs the Restart rows.
func TestRestart(t *testing.T) {
	Run(t, Config{
		New: func(t testing.TB) export.Volume { return lasting{newMemory(t), export.NewVerifierSource()} },
		Reopen: func(_ testing.TB, v export.Volume) export.Volume {
			return lasting{v.(lasting).Volume, export.NewVerifierSource()}
		},
		Only: []string{"Restart/"},
	})
}
