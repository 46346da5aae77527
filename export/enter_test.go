package export

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func client(t testing.TB, s string) Client {
	t.Helper()
	c, err := ParseClient(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// peer is an AUTH_SYS caller at addr.
func peer(addr string, uid, gid uint32, groups ...uint32) *Peer {
	return &Peer{Addr: netip.MustParseAddr(addr), Flavor: FlavorSys, UID: uid, GID: gid, Groups: groups}
}

// oneExport is a table of e with ID 1 at /a.
func oneExport(t testing.TB, e *Export, options ...Option) *Table {
	t.Helper()
	e.ID, e.Path = 1, "/a"
	if e.Volume == nil {
		e.Volume = newFakeVolume()
	}
	table, err := NewTable(t.Context(), []*Export{e}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestEnterSquash(t *testing.T) {
	const minus1 = ^uint32(0)
	none := func(p *Peer) *Peer { p.Flavor = FlavorNone; return p }
	tests := []struct {
		name           string
		export, rule   Squash
		anonUID        uint32
		anonGID        uint32
		peer           *Peer
		wantUID        uint32
		wantGID        uint32
		wantGroups     []uint32
		wantPrivileged bool
	}{
		{name: "root squash, user", peer: peer("::1", 1000, 100, 7, 8), wantUID: 1000, wantGID: 100, wantGroups: []uint32{7, 8}},
		{name: "root squash, root", peer: peer("::1", 0, 0, 0, 5), wantUID: Nobody, wantGID: Nobody, wantGroups: []uint32{5}},
		{name: "root squash, user with gid 0", peer: peer("::1", 1000, 0, 0, 5), wantUID: 1000, wantGID: Nobody, wantGroups: []uint32{5}},
		{name: "root squash, user in group 0", peer: peer("::1", 1000, 100, 5, 0, 6), wantUID: 1000, wantGID: 100, wantGroups: []uint32{5, 6, Nobody}},
		{name: "root squash, anonymous ids", anonUID: 70, anonGID: 71, peer: peer("::1", 0, 0, 0, 5), wantUID: 70, wantGID: 71, wantGroups: []uint32{5}},
		{name: "root squash, group said twice", peer: peer("::1", 1000, 100, 5, 100, 5), wantUID: 1000, wantGID: 100, wantGroups: []uint32{5}},
		{name: "no squash, root", export: SquashNone, peer: peer("::1", 0, 0, 0, 5), wantUID: 0, wantGID: 0, wantGroups: []uint32{5}, wantPrivileged: true},
		{name: "no squash, ids of nobody", export: SquashNone, peer: peer("::1", minus1, minus1, minus1, 5), wantUID: Nobody, wantGID: Nobody, wantGroups: []uint32{5}},
		{name: "all squash, user", export: SquashAll, anonUID: 1001, anonGID: 1001, peer: peer("::1", 1000, 100, 7), wantUID: 1001, wantGID: 1001},
		{name: "all squash, root", export: SquashAll, peer: peer("::1", 0, 0, 0), wantUID: Nobody, wantGID: Nobody},
		{name: "rule trusts root", rule: SquashNone, peer: peer("::1", 0, 0), wantUID: 0, wantGID: 0, wantPrivileged: true},
		{name: "rule squashes all", export: SquashNone, rule: SquashAll, peer: peer("::1", 0, 0), wantUID: Nobody, wantGID: Nobody},
		{name: "rule squashes root", export: SquashNone, rule: SquashRoot, peer: peer("::1", 0, 0), wantUID: Nobody, wantGID: Nobody},
		{name: "AUTH_NONE", export: SquashNone, peer: none(peer("::1", 0, 0, 5)), wantUID: Nobody, wantGID: Nobody},
		{name: "AUTH_NONE, anonymous ids", anonUID: 70, anonGID: 71, peer: none(peer("::1", 5, 5, 5)), wantUID: 70, wantGID: 71},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &Export{
				Squash: tt.export, AnonUID: tt.anonUID, AnonGID: tt.anonGID,
				Rules: []Rule{{Client: AnyClient, Grant: GrantRW, Squash: tt.rule}},
			}
			r, err := oneExport(t, e).Enter(t.Context(), tt.peer, e, Version42)
			if err != nil {
				t.Fatal(err)
			}
			c := r.Cred
			if c.UID != tt.wantUID || c.GID != tt.wantGID || !slices.Equal(c.Groups, tt.wantGroups) {
				t.Errorf("%d:%d %v, want %d:%d %v", c.UID, c.GID, c.Groups, tt.wantUID, tt.wantGID, tt.wantGroups)
			}
			if c.Privileged() != tt.wantPrivileged || c.IsSystem() || c.Client != "::1" || r.ReadOnly {
				t.Errorf("%+v, %+v", r, c)
			}
		})
	}
}

func TestEnterFirstMatchWins(t *testing.T) {
	e := &Export{Rules: []Rule{
		{Client: client(t, "10.0.0.66"), Grant: GrantNone},
		{Client: client(t, "10.0.0.0/24"), Grant: GrantRW},
		{Client: client(t, "10.0.0.0/8"), Grant: GrantRO},
		{Client: client(t, "2001:db8::/32"), Grant: GrantRW},
	}}
	table := oneExport(t, e)
	for _, tt := range []struct {
		addr     string
		in, only bool
	}{
		{"10.0.0.66", false, false}, {"10.0.0.65", true, false}, {"::ffff:10.0.0.66", false, false},
		{"10.1.0.66", true, true}, {"11.0.0.1", false, false}, {"2001:db8::7", true, false}, {"::1", false, false},
	} {
		for range 2 { // worked out, and remembered
			r, err := table.Enter(t.Context(), peer(tt.addr, 1, 1), e, Version3)
			if tt.in != (err == nil) || !tt.in && !errors.Is(err, ErrAccess) || r.ReadOnly != tt.only {
				t.Errorf("%s: %+v, %v", tt.addr, r, err)
			}
		}
	}
	bare := &Export{}
	if _, err := oneExport(t, bare).Enter(t.Context(), peer("::1", 0, 0), bare, Version3); !errors.Is(err, ErrAccess) {
		t.Errorf("without rules: %v", err)
	}
}

func TestEnterReadOnly(t *testing.T) {
	for i, e := range []*Export{
		{ReadOnly: true, Rules: []Rule{AllowAll}},
		{Rules: []Rule{{Client: AnyClient, Grant: GrantRO}}},
		{Rules: []Rule{AllowAll}, Volume: &fakeVolume{readOnly: true, nodes: newFakeVolume().nodes}},
	} {
		r, err := oneExport(t, e).Enter(t.Context(), peer("::1", 1, 1), e, Version42)
		if err != nil || !r.ReadOnly {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
	}
}

func TestEnterVersions(t *testing.T) {
	all := []Version{Version3, Version40, Version41, Version42}
	for set := range VersionSet(16) {
		e := &Export{Versions: set, Rules: []Rule{AllowAll}}
		table := oneExport(t, e)
		for _, v := range all {
			_, err := table.Enter(t.Context(), peer("::1", 1, 1), e, v)
			if want := set == 0 || set&(1<<v) != 0; want != (err == nil) {
				t.Errorf("%v with %v: %v", set, v, err)
			}
		}
	}
	if s := Versions(Version3, Version42).String(); s != "3,4.2" {
		t.Error(s)
	}
	for _, v := range all {
		if got, ok := ParseVersion(v.String()); !ok || got != v {
			t.Errorf("%v", v)
		}
	}
}

func TestEnterPseudo(t *testing.T) {
	table := oneExport(t, &Export{})
	r, err := table.Enter(t.Context(), peer("::1", 0, 0), table.pseudo, Version42)
	if err != nil || !r.ReadOnly || r.Cred.Privileged() {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestEnterRemembers checks that a caller gets the same credential again, and
// that callers that differ in anything get their own.
func TestEnterRemembers(t *testing.T) {
	e := &Export{Rules: []Rule{AllowAll}, Squash: SquashNone}
	table := oneExport(t, e)
	peers := []*Peer{
		peer("10.0.0.1", 1, 1), peer("10.0.0.2", 1, 1), peer("10.0.0.1", 2, 1), peer("10.0.0.1", 1, 2),
		peer("10.0.0.1", 1, 1, 5), peer("10.0.0.1", 1, 1, 5, 6), peer("10.0.0.1", 1, 1, 6, 5),
	}
	creds := map[*Cred]bool{}
	for _, p := range peers {
		a, err := table.Enter(t.Context(), p, e, Version42)
		if err != nil {
			t.Fatal(err)
		}
		copied := *p
		copied.Groups = slices.Clone(p.Groups)
		b, _ := table.Enter(t.Context(), &copied, e, Version3)
		if a.Cred != b.Cred {
			t.Errorf("%+v: another credential the second time", p)
		}
		if creds[a.Cred] {
			t.Errorf("%+v: the credential of another", p)
		}
		creds[a.Cred] = true
	}
}

// TestEnterGroupsNotTrustedByHash gives a caller the remembered entry of one
// whose groups have the same hash.
func TestEnterGroupsNotTrustedByHash(t *testing.T) {
	e := &Export{ID: 1, Rules: []Rule{AllowAll}}
	table := oneExport(t, e)
	victim, evil := peer("::1", 1, 1, 10), peer("::1", 1, 1, 20)
	key := keyOf(evil, e)
	table.rights.shard(&key).add(&key, &rightsEntry{groups: victim.Groups, rights: Rights{Cred: &Cred{UID: 99}}})
	r, err := table.Enter(t.Context(), evil, e, Version42)
	if err != nil || r.Cred.UID != 1 || !slices.Equal(r.Cred.Groups, []uint32{20}) {
		t.Errorf("%+v, %v", r.Cred, err)
	}
}

func TestEnterBounded(t *testing.T) {
	e := &Export{Rules: []Rule{AllowAll}}
	table := oneExport(t, e)
	for uid := range uint32(3 * rightsShards * rightsPerShard) {
		if _, err := table.Enter(t.Context(), peer("::1", uid, 1), e, Version42); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for i := range table.rights {
		kept += table.rights[i].lru.Len()
	}
	if kept > rightsShards*rightsPerShard {
		t.Errorf("%d callers remembered", kept)
	}
}

func TestEnterAllocs(t *testing.T) {
	e := &Export{Rules: []Rule{{Client: client(t, "10.0.0.0/8"), Grant: GrantRW}}}
	table := oneExport(t, e)
	in, out := peer("10.0.0.1", 1, 1, 2, 3, 4), peer("192.0.2.1", 1, 1, 2, 3, 4)
	ctx := t.Context()
	for _, p := range []*Peer{in, out} {
		if got := testing.AllocsPerRun(100, func() { _, _ = table.Enter(ctx, p, e, Version42) }); got != 0 {
			t.Errorf("%v: %v allocations", p.Addr, got)
		}
	}
}

func TestEnterWithoutRoot(t *testing.T) {
	v := newFakeVolume()
	down := error(ErrDelay)
	v.rootErr.Store(&down)
	e := &Export{Rules: []Rule{AllowAll}, Volume: v}
	table := oneExport(t, e)
	if len(table.Broken()) != 1 || !errors.Is(table.Broken()[0], ErrDelay) {
		t.Errorf("broken: %v", table.Broken())
	}
	if _, err := table.Enter(t.Context(), peer("::1", 1, 1), e, Version42); !errors.Is(err, ErrDelay) {
		t.Errorf("%v", err)
	}
	v.rootErr.Store(nil)
	if _, err := table.Enter(t.Context(), peer("::1", 1, 1), e, Version42); err != nil {
		t.Errorf("after it came up: %v", err)
	}
}

// groupsOf makes an Identity that knows the groups of some users, and counts
// how often it was asked.
func groupsOf(users map[string]string, asked *atomic.Int64) *Identity {
	return NewIdentity(IdentityOptions{Getent: func(_ context.Context, database, key string) ([]byte, error) {
		switch database {
		case "passwd":
			asked.Add(1)
			if _, ok := users[key]; !ok {
				return nil, ErrNoEnt
			}
			return fmt.Appendf(nil, "u%s:x:%s:50:::\n", key, key), nil
		case "initgroups":
			return []byte(key + " " + users[key[1:]] + "\n"), nil
		}
		return nil, errors.New("what?")
	}})
}

func TestEnterManageGIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var many string // 40 groups
		var groups []uint32
		for g := range uint32(40) {
			many += fmt.Sprintf(" %d", 1000+g)
			groups = append(groups, 1000+g)
		}
		identity := groupsOf(map[string]string{"7": many, "0": "0 44"}, &asked)
		defer identity.Close()
		e := &Export{ManageGIDs: true, Rules: []Rule{AllowAll}}
		table := oneExport(t, e, WithIdentity(identity))
		check := func(p *Peer, uid, gid uint32, want ...uint32) {
			t.Helper()
			r, err := table.Enter(t.Context(), p, e, Version42)
			if err != nil {
				t.Fatal(err)
			}
			if r.Cred.UID != uid || r.Cred.GID != gid || !slices.Equal(r.Cred.Groups, want) {
				t.Errorf("%d:%d %v, want %d:%d %v", r.Cred.UID, r.Cred.GID, r.Cred.Groups, uid, gid, want)
			}
		}
		// All 40 count, and what the client says does not.
		check(peer("::1", 7, 60, 1, 2, 3), 7, 60, append([]uint32{50}, groups...)...)
		// Unknown here: what the client says counts.
		check(peer("::1", 54321, 60, 1, 2, 3), 54321, 60, 1, 2, 3)
		// Squashing comes after.
		check(peer("::1", 0, 0, 1), Nobody, Nobody, 44, 50)

		n := asked.Load()
		check(peer("::1", 7, 60, 1, 2, 3), 7, 60, append([]uint32{50}, groups...)...)
		check(peer("::1", 54321, 60, 1, 2, 3), 54321, 60, 1, 2, 3)
		if asked.Load() != n {
			t.Error("asked again at once")
		}
		time.Sleep(time.Hour)
		check(peer("::1", 7, 60, 1, 2, 3), 7, 60, append([]uint32{50}, groups...)...)
		synctest.Wait()
		if asked.Load() == n {
			t.Error("never asked again")
		}
	})
}

// TestEnterManageGIDsDown checks that a user database that hangs turns into
// the groups that were sent, not into a refusal.
func TestEnterManageGIDsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		identity := NewIdentity(IdentityOptions{Getent: func(ctx context.Context, _, _ string) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		defer identity.Close()
		e := &Export{ManageGIDs: true, Rules: []Rule{AllowAll}}
		table := oneExport(t, e, WithIdentity(identity))
		begin := time.Now()
		r, err := table.Enter(t.Context(), peer("::1", 7, 60, 1, 2), e, Version3)
		if err != nil || !slices.Equal(r.Cred.Groups, []uint32{1, 2}) {
			t.Errorf("%+v, %v", r.Cred, err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		begin = time.Now()
		if _, err := table.Enter(t.Context(), peer("::1", 7, 60, 1, 2), e, Version3); err != nil || time.Since(begin) != 0 {
			t.Errorf("the second time: %v after %v", err, time.Since(begin))
		}
	})
}

func BenchmarkEnter(b *testing.B) {
	e := &Export{Rules: []Rule{AllowAll}}
	table := oneExport(b, e)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		p := peer("10.0.0.1", 1000, 1000, 1, 2, 3, 4, 5, 6, 7, 8)
		for pb.Next() {
			if _, err := table.Enter(context.Background(), p, e, Version42); err != nil {
				b.Fatal(err)
			}
		}
	})
}
