package server

import (
	"context"

	"capstan/export"
)

// pendingVolume stands in an export for a Volume that cannot be opened yet, a
// cluster that is not up for instance. It answers everything with
// [export.ErrDelay], so that clients wait as they would for a slow server,
// where a missing export would turn their handles stale.
type pendingVolume struct{}

var _ export.Volume = pendingVolume{}

func (pendingVolume) Features() export.Features { return export.Features{MaxName: 255} }

func (pendingVolume) Root(context.Context) (export.Object, error) {
	return export.Object{}, export.ErrDelay
}

func (pendingVolume) GetAttr(context.Context, *export.Cred, export.Object, export.AttrMask) (export.Attr, error) {
	return export.Attr{}, export.ErrDelay
}

func (pendingVolume) SetAttr(context.Context, *export.Cred, export.Object, export.File, *export.SetAttr) (export.Change, error) {
	return export.Change{}, export.ErrDelay
}

func (pendingVolume) Access(context.Context, *export.Cred, export.Object, export.Access) (export.Access, export.Attr, error) {
	return 0, export.Attr{}, export.ErrDelay
}

func (pendingVolume) Lookup(context.Context, *export.Cred, export.Object, string, export.AttrMask) (export.Object, export.Attr, error) {
	return export.Object{}, export.Attr{}, export.ErrDelay
}

func (pendingVolume) Parent(context.Context, *export.Cred, export.Object, export.AttrMask) (export.Object, export.Attr, error) {
	return export.Object{}, export.Attr{}, export.ErrDelay
}

func (pendingVolume) Readlink(context.Context, *export.Cred, export.Object) (string, error) {
	return "", export.ErrDelay
}

func (pendingVolume) ReadDir(context.Context, *export.Cred, export.Object, uint64, export.AttrMask, func(*export.Dirent) bool) (bool, error) {
	return false, export.ErrDelay
}

func (pendingVolume) Create(context.Context, *export.Cred, export.Object, string, *export.Create) (export.Created, error) {
	return export.Created{}, export.ErrDelay
}

func (pendingVolume) Mkdir(context.Context, *export.Cred, export.Object, string, *export.SetAttr) (export.Created, error) {
	return export.Created{}, export.ErrDelay
}

func (pendingVolume) Symlink(context.Context, *export.Cred, export.Object, string, string, *export.SetAttr) (export.Created, error) {
	return export.Created{}, export.ErrDelay
}

func (pendingVolume) Mknod(context.Context, *export.Cred, export.Object, string, *export.NewNode) (export.Created, error) {
	return export.Created{}, export.ErrDelay
}

func (pendingVolume) Link(context.Context, *export.Cred, export.Object, export.Object, string) (export.Created, error) {
	return export.Created{}, export.ErrDelay
}

func (pendingVolume) Remove(context.Context, *export.Cred, export.Object, string, export.RemoveKind) (export.Object, export.Change, error) {
	return export.Object{}, export.Change{}, export.ErrDelay
}

func (pendingVolume) Rename(context.Context, *export.Cred, export.Object, string, export.Object, string) (export.Renamed, error) {
	return export.Renamed{}, export.ErrDelay
}

func (pendingVolume) Open(context.Context, *export.Cred, export.Object, export.OpenMode) (export.File, error) {
	return nil, export.ErrDelay
}

func (pendingVolume) StatFS(context.Context, export.Object) (export.StatFS, error) {
	return export.StatFS{}, export.ErrDelay
}

func (pendingVolume) GetXattr(context.Context, *export.Cred, export.Object, string) ([]byte, error) {
	return nil, export.ErrDelay
}

func (pendingVolume) SetXattr(context.Context, *export.Cred, export.Object, string, []byte, export.XattrMode) (export.Change, error) {
	return export.Change{}, export.ErrDelay
}

func (pendingVolume) ListXattr(context.Context, *export.Cred, export.Object) ([]string, error) {
	return nil, export.ErrDelay
}

func (pendingVolume) RemoveXattr(context.Context, *export.Cred, export.Object, string) (export.Change, error) {
	return export.Change{}, export.ErrDelay
}

func (pendingVolume) WriteVerifier() [8]byte { return [8]byte{} }

func (pendingVolume) Close(context.Context) error { return nil }
