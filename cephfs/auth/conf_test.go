package auth

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

const conf = `
[global]
	fsid = e50c7e34-7da0-4eb2-8e05-2397fb8cd60f ; comment
	mon host = [v2:10.99.0.1:40100,v1:10.99.0.1:40101]
	a   b = 1
	single = 'x "y" z'
	escaped = a\#b\;c
	multi = one \
   two \
	three
	path = $run_dir/$cluster/$name.$id.$type
	brace = ${cluster}-${nope}-$nope
	self = $self
	esc quote = "a\"b"
	back = a\\b
	dup = first
	dup = second
	log_file = /var/log/$cluster-$name.log
	empty =
	equals = a=b=c
	admin-socket=$run_dir/x
	hash = "a # b ; c"   # which Ceph does not take
[client]
	dup = client
[client.admin]
	dup = admin
[global]
	late = yes
	dup = third`

// The values are those that `ceph-conf -n client.admin --lookup` of 16.2.15
// gives, but for the keys with a dash and hash, which it does not take.
func TestConf(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "t.conf"), conf)
	c, err := Load(LoadOptions{Conf: path, Getenv: env(nil)})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"fsid": "e50c7e34-7da0-4eb2-8e05-2397fb8cd60f", "mon host": "[v2:10.99.0.1:40100,v1:10.99.0.1:40101]",
		"mon_host": "[v2:10.99.0.1:40100,v1:10.99.0.1:40101]", "a b": "1", "single": `x "y" z`, "escaped": "a#b;c",
		"multi": "one    two \tthree", "path": "/var/run/ceph/t/client.admin.admin.client", "brace": "t-${nope}-$nope",
		"self": "$self", "esc quote": `a"b`, "back": `a\b`, "dup": "admin", "log_file": "/var/log/t-client.admin.log",
		"empty": "", "equals": "a=b=c", "late": "yes", "admin_socket": "/var/run/ceph/x", "hash": "a # b ; c",
		"mon-host": "[v2:10.99.0.1:40100,v1:10.99.0.1:40101]",
	} {
		if got, ok := c.Get(key); !ok || got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if v, ok := c.Get("absent"); ok {
		t.Errorf("absent: %q", v)
	}
	c.Name = denc.EntityName{Type: denc.TypeMDS, ID: "a"}
	if v, _ := c.Get("dup"); v != "third" {
		t.Errorf("dup of mds.a: %q", v)
	}
	if got := c.file.Sections(); !slices.Equal(got, []string{"global", "client", "client.admin"}) {
		t.Errorf("sections %q", got)
	}
}

func TestConfFaults(t *testing.T) {
	for text, line := range map[string]int{
		"[global]\nx\n": 2, "[global\n": 1, "[]": 1, "[a] b": 1, "\n\nx = \"a": 3, "x = \"a\" b": 1, "= 1": 1,
		"a = 1\\\n2\n\nq": 4, "x = \xff\n": 1, "a\nb = \xff": 2,
	} {
		_, err := ParseFile("f", []byte(text))
		var e *SyntaxError
		if !errors.As(err, &e) || !errors.Is(err, ErrSyntax) || e.Line != line {
			t.Errorf("%q: %v, want line %d", text, err, line)
		}
	}
}

func TestInclude(t *testing.T) {
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, "d"), 0o700)
	write(t, filepath.Join(dir, "d", "1.conf"), "[client]\nx = one\ny = one\n")
	write(t, filepath.Join(dir, "d", "2.conf"), "[client]\nx = two\n")
	path := write(t, filepath.Join(dir, "ceph.conf"), "[global]\nx = zero\ninclude d/*.conf\nz = zero\ninclude d/none*.conf\n")
	f, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range [][3]string{{"client", "x", "two"}, {"client", "y", "one"}, {"global", "z", "zero"}, {"global", "x", "zero"}} {
		if v, _ := f.Get(w[0], w[1]); v != w[2] {
			t.Errorf("%s: %q", w, v)
		}
	}
	write(t, filepath.Join(dir, "loop.conf"), "include loop.conf\n")
	if _, err := ReadFile(filepath.Join(dir, "loop.conf")); err == nil {
		t.Error("a loop of includes ended well")
	}
	write(t, filepath.Join(dir, "miss.conf"), "include absent.conf\n")
	if _, err := ReadFile(filepath.Join(dir, "miss.conf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestExpansionIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 26 {
		b.WriteString(string(rune('a'+i)) + "x = " + strings.Repeat("$"+string(rune('a'+(i+1)%26))+"x ", 50) + "\n")
	}
	path := write(t, filepath.Join(t.TempDir(), "ceph.conf"), b.String())
	c, err := Load(LoadOptions{Conf: path, Getenv: env(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := c.Get("ax"); len(v) > 2*maxExpanded {
		t.Errorf("%d bytes", len(v))
	}
}

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	k1, _ := NewKey(KeyAES)
	k2, _ := NewKey(KeyAES256K)
	write(t, filepath.Join(dir, "ceph.conf"), "[global]\nmon host = 192.0.2.1\nkeyring = "+dir+"/absent,"+dir+"/ring.$name\n[client.b]\nmon host = 192.0.2.2\n")
	write(t, filepath.Join(dir, "ring.client.admin"), "[client.admin]\n\tkey = "+k1.Base64()+"\n\tcaps mon = \"allow *\"\n\tcaps osd = \"allow rwx pool=\\\"x y\\\"\"\n")
	write(t, filepath.Join(dir, "ring2"), "[client.b]\nkey="+k2.Base64()+"\n[mon.]\nkey="+k1.Base64()+"\n")

	load := func(o LoadOptions, e map[string]string) *Config {
		t.Helper()
		o.Getenv = env(e)
		c, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	e := map[string]string{"CEPH_CONF": dir + "/ceph.conf"}
	c := load(LoadOptions{}, e)
	if k, err := c.Key(); err != nil || !k.Equal(k1) {
		t.Errorf("%v, %v", k, err)
	}
	e["CEPH_ARGS"] = `--id b --ms-client-mode "secure crc" --debug-ms=1`
	c = load(LoadOptions{}, e)
	if c.Name.String() != "client.b" {
		t.Errorf("name %v", c.Name)
	}
	if m, err := c.Modes("ms_client_mode"); err != nil || !slices.Equal(m, []msgr.AuthMode{msgr.ModeSecure, msgr.ModeCRC}) {
		t.Errorf("%v, %v", m, err)
	}
	if v, _ := c.Get("debug_ms"); v != "1" {
		t.Errorf("debug_ms %q", v)
	}
	_, err := c.Key()
	if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), "client.b") || !strings.Contains(err.Error(), dir+"/absent") {
		t.Errorf("%v", err)
	}
	// Without a key none is left; if the monitors want cephx, the error says
	// what is missing.
	client, err := c.NewClient()
	if err != nil {
		t.Fatalf("cephx, none without a key: %v", err)
	}
	session, _ := client.Begin(denc.TypeMon)
	session.Request()
	if err := session.BadMethod(MethodNone, -95, []uint32{MethodCephx}, nil); !errors.Is(err, ErrNoKey) || !errors.Is(err, msgr.ErrPermanent) || !strings.Contains(err.Error(), dir+"/absent") {
		t.Errorf("%v", err)
	}
	e["CEPH_KEYRING"] = dir + "/ring2"
	c = load(LoadOptions{}, e)
	if k, err := c.Key(); err != nil || !k.Equal(k2) {
		t.Errorf("%v, %v", k, err)
	}
	addrs, err := c.Monitors(context.Background(), nil)
	if err != nil || len(addrs) != 1 || addrs[0][0].String() != "v2:192.0.2.2:3300/0" || len(addrs[0]) != 2 {
		t.Errorf("%v, %v", addrs, err)
	}
	c = load(LoadOptions{Args: []string{"-n", "mon.", "-m", "[2001:db8::1]:3301", "--auth-client-required", "none", "x"}}, e)
	if k, err := c.Key(); err != nil || !k.Equal(k1) || c.Name.String() != "mon." {
		t.Errorf("%v, %v, %v", k, err, c.Name)
	}
	if m, err := c.Methods(); err != nil || !slices.Equal(m, []uint32{MethodNone}) {
		t.Errorf("%v, %v", m, err)
	}
	addrs, err = c.Monitors(context.Background(), nil)
	if err != nil || len(addrs) != 1 || addrs[0].String() != "v2:[2001:db8::1]:3301/0" {
		t.Errorf("%v, %v", addrs, err)
	}
	c = load(LoadOptions{Name: denc.EntityName{Type: denc.TypeClient, ID: "z"}, Keyring: dir + "/ring2", Args: []string{"--key", k2.Base64()}}, e)
	if k, err := c.Key(); err != nil || !k.Equal(k2) || c.Name.ID != "z" {
		t.Errorf("%v, %v, %v", k, err, c.Name)
	}
	write(t, filepath.Join(dir, "secret"), k1.Base64()+"\n")
	c = load(LoadOptions{Args: []string{"--keyfile=" + dir + "/secret"}}, e)
	if k, err := c.Key(); err != nil || !k.Equal(k1) {
		t.Errorf("%v, %v", k, err)
	}

	if _, err := Load(LoadOptions{Conf: dir + "/nope.conf", Getenv: env(nil)}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := Load(LoadOptions{Getenv: env(map[string]string{"CEPH_ARGS": `--id "x`})}); err == nil {
		t.Error("an open quote in CEPH_ARGS passed")
	}
	for args, want := range map[string]string{
		"-c": "CEPH_ARGS: -c needs a value", "--id x --conf": "CEPH_ARGS: --conf needs a value",
		"-k --id=x": "CEPH_ARGS: -k needs a value", "--mon-host --id=x": "CEPH_ARGS: --mon-host needs a value",
	} {
		if _, err := Load(LoadOptions{Getenv: env(map[string]string{"CEPH_ARGS": args})}); err == nil || err.Error() != want {
			t.Errorf("CEPH_ARGS=%q: %v, want %q", args, err, want)
		}
	}
	if _, err := Load(LoadOptions{Args: []string{"--name", "admin"}, Getenv: env(nil)}); err == nil {
		t.Error("a bad name passed")
	}

	r, err := ReadKeyring(filepath.Join(dir, "ring.client.admin"))
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := r.Get(denc.EntityName{Type: denc.TypeClient, ID: "admin"})
	if !reflect.DeepEqual(entry.Caps, map[string]string{"mon": "allow *", "osd": `allow rwx pool="x y"`}) || !entry.Key.Equal(k1) {
		t.Errorf("%v", entry)
	}
	for _, text := range []string{"[admin]\nkey = x\n", "[client.admin]\nkey = x\n", "[client.admin]\nkey =\n"} {
		if _, err := ParseKeyring("ring", []byte(text)); err == nil || strings.Contains(err.Error(), "x\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

type resolver map[string][]netip.Addr

func (r resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if a, ok := r[host]; ok {
		return a, nil
	}
	return nil, errors.New("no such host")
}

func TestMonHosts(t *testing.T) {
	r := resolver{"mon1": {netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}, "mon-2.example": {netip.MustParseAddr("192.0.2.8")}}
	for text, want := range map[string][]string{
		"192.0.2.1":                              {"[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0]"},
		"192.0.2.1:6789":                         {"v1:192.0.2.1:6789/0"},
		"192.0.2.1:3300, 192.0.2.2:7000":         {"v2:192.0.2.1:3300/0", "v2:192.0.2.2:7000/0"},
		"v2:192.0.2.1 v1:192.0.2.2;v1:1.2.3.4:5": {"v2:192.0.2.1:3300/0", "v1:192.0.2.2:6789/0", "v1:1.2.3.4:5/0"},
		"[v2:192.0.2.1:3300,v1:192.0.2.1:6789],[v2:192.0.2.2:3300/0,v1:192.0.2.2:6789/0]": {
			"[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0]", "[v2:192.0.2.2:3300/0,v1:192.0.2.2:6789/0]"},
		"[v2:[2001:db8::1]:3300/0,v1:[2001:db8::1]:6789/0]": {"[v2:[2001:db8::1]:3300/0,v1:[2001:db8::1]:6789/0]"},
		"2001:db8::1":                   {"[v2:[2001:db8::1]:3300/0,v1:[2001:db8::1]:6789/0]"},
		"[2001:db8::1],[2001:db8::2]:1": {"[v2:[2001:db8::1]:3300/0,v1:[2001:db8::1]:6789/0]", "v2:[2001:db8::2]:1/0"},
		"mon1":                          {"[v2:192.0.2.7:3300/0,v1:192.0.2.7:6789/0]", "[v2:[2001:db8::7]:3300/0,v1:[2001:db8::7]:6789/0]"},
		"v2:mon-2.example:4000,absent":  {"v2:192.0.2.8:4000/0"},
	} {
		hosts, err := ParseMonHosts(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		vecs, err := ResolveMonHosts(context.Background(), r, hosts)
		var got []string
		for _, v := range vecs {
			got = append(got, v.String())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"[v2:192.0.2.1:1", "[]", "a:b", "http://x", "[mon1]", "192.0.2.1:99999", "mon%1"} {
		if h, err := ParseMonHosts(text); err == nil {
			t.Errorf("%q: %v", text, h)
		}
	}
	if _, err := ResolveMonHosts(context.Background(), r, []MonHost{{Host: "absent"}}); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("%v", err)
	}
}

func TestMonAddrSections(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "ceph.conf"), "[mon.a]\nmon addr = 192.0.2.1:6789\n[mon.b]\nmon addr = 192.0.2.2\n")
	c, err := Load(LoadOptions{Conf: path, Getenv: env(nil)})
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Monitors(context.Background(), nil)
	if err != nil || len(v) != 2 || v[0].String() != "v1:192.0.2.1:6789/0" {
		t.Errorf("%v, %v", v, err)
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add(conf)
	f.Add("[a]\nx=\"1\\\"\" # c\n\\\n")
	f.Fuzz(func(t *testing.T, s string) {
		file, err := ParseFile("f", []byte(s))
		if strings.Contains(s, "include") || err != nil {
			return
		}
		again, err := ParseFile("f", []byte(s+"\n"))
		if err != nil && !strings.HasSuffix(s, `\`) {
			t.Fatal(err)
		}
		if err == nil && !strings.HasSuffix(s, `\`) {
			if diff := cmp.Diff(file.sections.show(), again.sections.show(), cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			if !slices.Equal(file.names, again.names) {
				t.Fatalf("sections %q and %q", file.names, again.names)
			}
		}
		c := &Config{file: file, override: hide(map[string]string{}), getenv: env(nil)}
		for k := range file.sections.show()["global"] {
			c.Get(k)
		}
	})
}

func FuzzParseMonHosts(f *testing.F) {
	f.Add("[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0],mon1:3300 [2001:db8::1]")
	f.Fuzz(func(t *testing.T, s string) {
		hosts, err := ParseMonHosts(s)
		for _, h := range hosts {
			if err == nil && len(h.Addrs) == 0 && h.Host == "" {
				t.Fatalf("%q gives nothing", s)
			}
		}
	})
}

func FuzzParseKeyring(f *testing.F) {
	f.Add("[client.admin]\nkey = AQB5lQxqyQPjMBAAUk2mhB0d4Z6H4CkpZ3kuWg==\ncaps mon = \"allow *\"\n")
	f.Fuzz(func(t *testing.T, s string) {
		if !strings.Contains(s, "include") {
			ParseKeyring("ring", []byte(s))
		}
	})
}
