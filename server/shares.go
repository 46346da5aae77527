package server

import (
	"context"

	"capstan/export"
	"capstan/server/nfs3"
	"capstan/server/nfs4/nfsv4"
	"capstan/server/nfs4/state"
)

// shares shows NFSv3 the share reservations of NFSv4.
type shares struct{ store *state.Store }

var _ nfs3.Shares = shares{}

// Denied is part of [nfs3.Shares].
func (s shares) Denied(ctx context.Context, export uint32, o export.Object, write bool) bool {
	want := state.AccessRead
	if write {
		want = state.AccessWrite
	}
	return s.store.CheckDeny(ctx, state.FileKey{Export: export, Object: o}, want) != nfsv4.OK
}

// Removed is part of [nfs3.Shares].
func (s shares) Removed(ctx context.Context, export uint32, o export.Object) {
	s.store.Removed(ctx, state.FileKey{Export: export, Object: o})
}
