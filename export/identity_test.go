package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// accounts writes a passwd and a group file and returns a Getent that reads
// them, as RunGetent does where there is no getent.
func accounts(t *testing.T) Getent {
	dir := t.TempDir()
	passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(passwd, "# users\nroot:x:0:0:root:/root:/bin/sh\nann:x:1001:100::/home/ann:\n\n"+
		"4444:x:5555:5555::/:\nDOM\\two words:x:2000:2000::/:\nm@il:x:2001:1::/:\n-x:x:2002:1::/:\nbroken\n")
	write(group, "root:x:0:\nusers:x:100:\naudio:x:29:bob,ann\nvideo:x:44:ann\nwords:x:7:DOM\\two words,annabel\n")
	return func(_ context.Context, database, key string) ([]byte, error) {
		return readAccounts(passwd, group, database, key)
	}
}

func TestIdentityGroups(t *testing.T) {
	i := NewIdentity(IdentityOptions{Getent: accounts(t)})
	defer i.Close()
	for uid, want := range map[uint32][]uint32{
		0: {0}, 1001: {100, 29, 44}, 2000: {2000, 7}, 54321: nil, 4444: nil,
	} {
		got, _, err := i.Groups(t.Context(), uid)
		if !slices.Equal(got, want) || (want == nil) != errors.Is(err, ErrNoEnt) {
			t.Errorf("%d: %v, %v", uid, got, err)
		}
	}
}

func TestIdentityNumbers(t *testing.T) {
	i := NewIdentity(IdentityOptions{Getent: func(context.Context, string, string) ([]byte, error) {
		t.Error("looked up")
		return nil, ErrNoEnt
	}})
	defer i.Close()
	for _, id := range []uint32{0, 1, 1001, 54321, 1<<32 - 2} {
		s := i.OwnerString(t.Context(), id)
		if s != fmt.Sprint(id) || i.GroupString(t.Context(), id) != s {
			t.Errorf("%d is written %q", id, s)
		}
		got, err := i.ParseOwner(t.Context(), s)
		group, gerr := i.ParseGroup(t.Context(), s)
		if got != id || group != id || err != nil || gerr != nil {
			t.Errorf("%q is read %d, %d, %v, %v", s, got, group, err, gerr)
		}
	}
	for _, bad := range []string{"", "01", "00", "+1", "-1", " 1", "1 ", "0x1", "4294967295", "4294967296", "99999999999999999999", "ann", "ann@", "ann@example.org", "1@example.org"} {
		if id, err := i.ParseOwner(t.Context(), bad); !errors.Is(err, ErrBadOwner) {
			t.Errorf("%q: %d, %v", bad, id, err)
		}
	}
	if n := testing.AllocsPerRun(50, func() {
		var buf [16]byte
		_ = i.AppendOwner(context.Background(), buf[:0], 1001)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestIdentityNames(t *testing.T) {
	i := NewIdentity(IdentityOptions{Getent: accounts(t), Domain: "Example.org"})
	defer i.Close()
	for id, want := range map[uint32]string{
		0: "root@example.org", 1001: "ann@example.org", 2000: `DOM\two words@example.org`,
		54321: "54321", 5555: "5555", 2001: "2001", 2002: "2002",
	} {
		s := i.OwnerString(t.Context(), id)
		if s != want {
			t.Errorf("%d is written %q, want %q", id, s, want)
		}
		if got, err := i.ParseOwner(t.Context(), s); got != id || err != nil {
			t.Errorf("%q is read %d, %v", s, got, err)
		}
	}
	if s := i.GroupString(t.Context(), 29); s != "audio@example.org" {
		t.Error(s)
	}
	if gid, err := i.ParseGroup(t.Context(), "video@EXAMPLE.ORG"); gid != 44 || err != nil {
		t.Errorf("%d, %v", gid, err)
	}
	for _, bad := range []string{
		"nobodyknows@example.org", "ann@example.com", "ann", "@example.org", "-x@example.org", "4444@example.org",
		"+0@example.org", " 0@example.org", "root:x@example.org", "a\nb@example.org", "a\x00@example.org",
		strings.Repeat("a", 257) + "@example.org", "root@example.org@evil.org",
	} {
		if id, err := i.ParseOwner(t.Context(), bad); !errors.Is(err, ErrBadOwner) {
			t.Errorf("%q: %d, %v", bad, id, err)
		}
	}
}

// TestIdentityGetentReadsNumbers has a getent that takes a name for a number,
// as the real one does with "+0".
func TestIdentityGetentReadsNumbers(t *testing.T) {
	i := NewIdentity(IdentityOptions{Domain: "x", Getent: func(context.Context, string, string) ([]byte, error) {
		return []byte("root:x:0:0:::\n"), nil
	}})
	defer i.Close()
	if id, err := i.ParseOwner(t.Context(), "+0@x"); !errors.Is(err, ErrBadOwner) {
		t.Errorf("%d, %v", id, err)
	}
	if s := i.OwnerString(t.Context(), 5); s != "5" {
		t.Errorf("another user's name: %q", s)
	}
}

func TestIdentityBrokenAnswers(t *testing.T) {
	for _, out := range []string{"", "\n", "a:b", "a:b:c:d", "a:x:1:x", "a:x:99999999999:1", ":::::"} {
		i := NewIdentity(IdentityOptions{Domain: "x", Getent: func(context.Context, string, string) ([]byte, error) {
			return []byte(out), nil
		}})
		if _, _, err := i.Groups(t.Context(), 1); !errors.Is(err, ErrDelay) {
			t.Errorf("%q: %v", out, err)
		}
		if s := i.OwnerString(t.Context(), 1); s != "1" {
			t.Errorf("%q: %q", out, s)
		}
		i.Close()
	}
	for _, out := range []string{"", "other 1 2", "ann 1 x", "ann -1", "ann " + strings.Repeat("1 ", maxGroups+1)} {
		if _, err := parseInitgroups([]byte(out), "ann"); err == nil {
			t.Errorf("%.20q accepted", out)
		}
	}
}

// TestIdentityParallel checks that no more than so many commands run, and that
// the others wait no longer than the limit.
func TestIdentityParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		i := NewIdentity(IdentityOptions{Parallel: 3, Getent: func(ctx context.Context, _, _ string) ([]byte, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			running--
			mu.Unlock()
			return nil, ctx.Err()
		}})
		defer i.Close()
		begin := time.Now()
		var wg sync.WaitGroup
		for uid := range uint32(50) {
			wg.Go(func() {
				if _, _, err := i.Groups(t.Context(), uid); !errors.Is(err, ErrDelay) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most != 3 || time.Since(begin) != 5*time.Second {
			t.Errorf("%d at once, %v in all", most, time.Since(begin))
		}
	})
}

// TestRunGetent asks the machine this runs on.
func TestRunGetent(t *testing.T) {
	i := NewIdentity(IdentityOptions{Domain: "x"})
	defer i.Close()
	if groups, _, err := i.Groups(t.Context(), 0); err != nil || len(groups) == 0 || groups[0] != 0 {
		t.Errorf("root: %v, %v", groups, err)
	}
	if s := i.OwnerString(t.Context(), 0); s != "root@x" {
		t.Error(s)
	}
	if id, err := i.ParseOwner(t.Context(), "root@x"); id != 0 || err != nil {
		t.Errorf("%d, %v", id, err)
	}
	if _, _, err := i.Groups(t.Context(), 3999999999); !errors.Is(err, ErrNoEnt) {
		t.Errorf("a user that is not there: %v", err)
	}
}

// TestRunGetentMissing has a machine without getent.
func TestRunGetentMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	out, err := RunGetent(t.Context(), "passwd", "0")
	if err != nil || !strings.HasPrefix(string(out), "root:") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := RunGetent(t.Context(), "group", "3999999999"); !errors.Is(err, ErrNoEnt) {
		t.Error(err)
	}
	if _, err := RunGetent(t.Context(), "hosts", "x"); err == nil {
		t.Error("answered about hosts")
	}
}
