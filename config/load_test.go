package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const good = `
server:
  listen: ["127.0.0.1:12049", "[::1]:12049"]
  metrics: 127.0.0.1:9649
  state_dir: /var/lib/capstan
nfs: {lease: 30s, max_io: 256KiB}
limits: {memory: 64MiB}
exports:
  - path: /a
    id: 1
    engine: local
    local: {root: /srv}
    access:
      - {clients: [10.0.0.0/8, "*.lab.example", fd00::1], squash: none}
      - {clients: "*", access: ro}
  - path: /b/c
    id: 2
    fsid: 77
    engine: libcephfs
    libcephfs: {name: nfs, options: {client_oc_size: "0"}}
    versions: [4.1, 4.2]
    access: [{clients: "*"}]
`

func TestParseGood(t *testing.T) {
	c, err := Parse("x.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if c.NFS.Lease != 30*time.Second || c.NFS.MaxIO != 256<<10 || c.Limits.Memory != 64<<20 {
		t.Errorf("scalars: %+v %+v", c.NFS, c.Limits)
	}
	if c.Limits.Calls != defaults().Limits.Calls {
		t.Errorf("a key that is not given lost its default: %d", c.Limits.Calls)
	}
	want := []Access{
		{Clients: []string{"10.0.0.0/8", "*.lab.example", "fd00::1"}, Access: "rw", Squash: "none"},
		{Clients: []string{"*"}, Access: "ro"},
	}
	if d := cmp.Diff(want, c.Exports[0].Access); d != "" {
		t.Errorf("access: %s", d)
	}
	if e := c.Exports[1]; e.FSID != 77 || e.LibCephFS.Name != "nfs" || e.LibCephFS.Options["client_oc_size"] != "0" {
		t.Errorf("export 2: %+v", e)
	}
	if d := cmp.Diff([]string{"4.1", "4.2"}, c.Exports[1].Versions); d != "" {
		t.Errorf("versions: %s", d)
	}
}

// Every error of a file is reported at once, each with its line and key.
func TestParseNamesEveryError(t *testing.T) {
	text := `server:
  listen: [nowhere, "127.0.0.1:99999", "::1:2049"]
  metrcs: 127.0.0.1:1
  shutdown_timeout: fast
  state_dir: relative
nfs: {lease: 0s, max_io: 3}
limits:
  calls: many
  calls: 3
exports:
  - path: relative
    id: 1
    engine: nfs
    access: [{clients: 10.0.0.0/99}]
  - path: /b
    id: 1
    engine: memory
    local: {root: /x}
    access: []
  - path: /b/c
    id: 3
    engine: local
    versions: [5]
    access: [{clients: "*", acces: rw}]
`
	_, err := Parse("c.yaml", []byte(text))
	ps, ok := errors.AsType[Problems](err)
	if !ok {
		t.Fatalf("got %v, want Problems", err)
	}
	want := []string{
		`c.yaml:2: server.listen[0]: want host:port`,
		`c.yaml:2: server.listen[1]: port "99999"`,
		`c.yaml:2: server.listen[2]: write an IPv6 address in brackets`,
		`c.yaml:3: server.metrcs: unknown key; did you mean "metrics"?`,
		`c.yaml:4: server.shutdown_timeout: want a duration`,
		`c.yaml:5: server.state_dir: want an absolute path`,
		`c.yaml:6: nfs.lease: want 1s to 1h0m0s`,
		`c.yaml:6: nfs.max_io: want 4KiB to 16MiB`,
		`c.yaml:8: limits.calls: want a whole number`,
		`c.yaml:9: limits.calls: given twice, first on line 8`,
		`c.yaml:11: exports[0].path: want a path that starts with /`,
		`c.yaml:13: exports[0].engine: want one of memory, local, libcephfs, got "nfs"`,
		`c.yaml:14: exports[0].access[0].clients[0]: client "10.0.0.0/99"`,
		`c.yaml:15: exports[1].access: missing`,
		`c.yaml:16: exports[1].id: 1 is the id of exports[0] too`,
		`c.yaml:18: exports[1].local: settings of an engine`,
		`c.yaml:20: exports[2].path: "/b/c" lies inside the export "/b"`,
		`c.yaml:20: exports[2].local.root: missing`,
		`c.yaml:23: exports[2].versions[0]: want 3, 4.1 or 4.2`,
		`c.yaml:23: exports[2].versions: no version is left`,
		`c.yaml:24: exports[2].access[0].acces: unknown key; did you mean "access"?`,
	}
	var got []string
	for _, p := range ps {
		got = append(got, p.Error())
	}
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || strings.HasPrefix(g, w)
		}
		if !found {
			t.Errorf("missing: %s", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":  {"", "no export is given"},
		"syntax": {"a: [", "c.yaml:1"},
		"scalar": {"hello", "want a mapping of keys"},
		"root with others": {
			"exports: [{path: /, id: 1, engine: memory, access: [{clients: '*'}]}, {path: /a, id: 2, engine: memory, access: [{clients: '*'}]}]",
			"leaves no place",
		},
		"same fsid": {
			"exports: [{path: /b, id: 1, fsid: 9, engine: memory, access: [{clients: '*'}]}, {path: /a, id: 9, engine: memory, access: [{clients: '*'}]}]",
			"9 is the fsid of exports[0] too",
		},
		"not clean": {"exports: [{path: /a//b/, id: 1, engine: memory, access: [{clients: '*'}]}]", `write "/a//b/" as "/a/b"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("c.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "65536": 65536, "64KiB": 65536, "1 MiB": 1 << 20, "2GiB": 2 << 30, "3TiB": 3 << 40, "5B": 5} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1MB", "x", "9999999999TiB", "KiB"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: accepted as %d", text, got)
		}
	}
}

// Every key that the parser knows stands in the reference, and the other way
// round.
func TestReferenceIsComplete(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, key := range Keys() {
		known[key] = true
		if !strings.Contains(string(doc), "`"+key+"`") {
			t.Errorf("docs/configuration.md does not describe `%s`", key)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.\\[\\]]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		if !known[m[1]] {
			t.Errorf("docs/configuration.md describes `%s`, which is not a key", m[1])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("exports: [{path: /a, id: 1}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f.yaml", text)
		if (c == nil) == (err == nil) {
			t.Fatalf("configuration %v and error %v", c, err)
		}
	})
}
