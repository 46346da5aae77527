package export

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseClient(t *testing.T) {
	good := map[string]string{
		"*":                    "*",
		"192.0.2.7":            "192.0.2.7",
		"192.0.2.7/24":         "192.0.2.0/24",
		"192.0.2.7/32":         "192.0.2.7",
		"0.0.0.0/0":            "0.0.0.0/0",
		"2001:db8::1":          "2001:db8::1",
		"2001:DB8::1/32":       "2001:db8::/32",
		"::ffff:192.0.2.7":     "192.0.2.7",
		"::ffff:192.0.2.7/120": "192.0.2.0/24",
		"node1.Example.org.":   "node1.example.org",
		"*.hpc.example.org":    "*.hpc.example.org",
		"node??":               "node??",
		"a-b_c":                "a-b_c",
	}
	for in, want := range good {
		c, err := ParseClient(in)
		if err != nil || c.String() != want {
			t.Errorf("%q: %v, %v", in, c, err)
			continue
		}
		if again, err := ParseClient(c.String()); err != nil || again != c {
			t.Errorf("%q printed and read again: %v, %v", in, again, err)
		}
	}
	for _, bad := range []string{
		"", ".", "*.", "a..", "a..b", ".example.org", " ", "192.0.2", "192.0.2.256", "1.2.3.4.5", "192.0.2.0/33", "192.0.2.0/255.255.255.0", "192.0.2.0/",
		"2001:db8::/129", "2001:db8::g", "fe80::1%eth0", "fe80::1%eth0/64", "::ffff:192.0.2.7/64", "@trusted",
		"a b", "host/24", "[::1]", "höst", "!host", strings.Repeat("a", 254),
	} {
		if c, err := ParseClient(bad); err == nil {
			t.Errorf("%q accepted as %v", bad, c)
		}
	}
}

func TestMatchHost(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "aa", false}, {"aa", "a", false},
		{"*", "", true}, {"*", "a.b.c", true}, {"?", "", false}, {"?", "a", true}, {"?", ".", true},
		{"*.example.org", "a.example.org", true}, {"*.example.org", "a.b.example.org", true},
		{"*.example.org", "example.org", false}, {"*.example.org", ".example.org", true},
		{"*.example.org", "a.example.org.evil.net", false},
		{"node?.x", "node1.x", true}, {"node?.x", "node12.x", false},
		{"a*b*c", "abc", true}, {"a*b*c", "aXbYbZc", true}, {"a*b*c", "acb", false}, {"a**c", "abc", true},
		{"*a", "aaab", false}, {"*a", "aaba", true},
	}
	for _, tt := range tests {
		if got := matchHost(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%q on %q: %v", tt.pattern, tt.name, got)
		}
	}
	// What makes a naive matcher exponential.
	if matchHost(strings.Repeat("*a", 100)+"b", strings.Repeat("a", 253)) {
		t.Error("matched")
	}
}

// matches reports whether a rule for client lets addr in.
func matches(t *testing.T, client, addr string) bool {
	t.Helper()
	c, err := ParseClient(client)
	if err != nil {
		t.Fatal(err)
	}
	p := Peer{Addr: netip.MustParseAddr(addr)}
	table := &Table{}
	r, until, err := table.rule(t.Context(), &Export{Rules: []Rule{{Client: c, Grant: GrantRW}}}, p.addr())
	if err != nil || !until.IsZero() {
		t.Errorf("%v, %v", until, err)
	}
	return r != nil
}

func TestRuleByAddress(t *testing.T) {
	tests := []struct {
		client, addr string
		want         bool
	}{
		{"*", "192.0.2.1", true}, {"*", "::1", true},
		{"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true}, {"::ffff:192.0.2.1", "192.0.2.1", true},
		{"192.0.2.0/24", "192.0.2.255", true}, {"192.0.2.0/24", "192.0.3.0", false},
		{"0.0.0.0/0", "10.1.2.3", true}, {"0.0.0.0/0", "2001:db8::1", false}, {"::/0", "10.1.2.3", false},
		{"2001:db8::/32", "2001:db8:ffff::1", true}, {"2001:db8::/32", "2001:db9::1", false},
		{"fe80::/10", "fe80::1%eth0", true}, {"fe80::1", "fe80::1%3", true},
	}
	for _, tt := range tests {
		if got := matches(t, tt.client, tt.addr); got != tt.want {
			t.Errorf("%s for %s: %v", tt.client, tt.addr, got)
		}
	}
}

func TestParseGrantAndSquash(t *testing.T) {
	for _, g := range []Grant{GrantNone, GrantRO, GrantRW} {
		if got, ok := ParseGrant(g.String()); !ok || got != g {
			t.Errorf("%v", g)
		}
	}
	for _, q := range []Squash{SquashRoot, SquashAll, SquashNone} {
		if got, ok := ParseSquash(q.String()); !ok || got != q {
			t.Errorf("%v", q)
		}
	}
	if _, ok := ParseGrant("rwx"); ok {
		t.Error("rwx")
	}
	if _, ok := ParseSquash(""); ok {
		t.Error("empty")
	}
}

// FuzzParseClient checks that what is accepted is read the same when printed.
func FuzzParseClient(f *testing.F) {
	for _, s := range []string{"*", "192.0.2.7/24", "::ffff:192.0.2.7/120", "2001:db8::/32", "*.Example.org.", "a?", "@x", "1.2.3", "fe80::1%0", "*.", "A.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseClient(s)
		if err != nil {
			return
		}
		if again, err := ParseClient(c.String()); err != nil || again != c {
			t.Errorf("%q is %v, which is %v, %v", s, c, again, err)
		}
	})
}
