package auth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// LoadOptions say what to load; all may be left empty.
type LoadOptions struct {
	// Cluster is the name in default file names; the default is that of the
	// configuration file, NAME.conf, or ceph.
	Cluster string
	// Conf is the configuration file, in place of CEPH_CONF and the default
	// places. Several, separated by commas, are tried in turn.
	Conf string
	// Name is the entity; the default is client.admin.
	Name denc.EntityName
	// Keyring is the keyring file, in place of all others.
	Keyring string
	// Args are options as Ceph's tools take them ("--mon-host", "x", "--id=y");
	// they outrank CEPH_ARGS, and are outranked by the fields above.
	Args []string
	// Getenv is the environment; the default is os.Getenv.
	Getenv func(string) string
}

// Config is the configuration of one entity: what files, environment and
// options say together.
type Config struct {
	Name    denc.EntityName
	Cluster string
	Path    string // of the configuration file; empty if there was none

	file     *File
	override hidden[map[string]string] // by normalized key; outranks the file; "key" may be among them
	getenv   func(string) string
}

// Load finds and reads the configuration. A configuration file that was named
// must be there; that none is in the default places is no error.
func Load(o LoadOptions) (*Config, error) {
	c := &Config{Name: denc.EntityName{Type: denc.TypeClient, ID: "admin"},
		override: hide(map[string]string{}), getenv: o.Getenv, file: &File{}}
	if c.getenv == nil {
		c.getenv = os.Getenv
	}
	conf := c.getenv("CEPH_CONF")
	if v := c.getenv("CEPH_KEYRING"); v != "" {
		c.override.show()["keyring"] = v
	}
	if v := c.getenv("CEPH_ARGS"); v != "" {
		args, err := splitArgs(v)
		if err == nil {
			err = c.args(args, &conf)
		}
		if err != nil {
			return nil, fmt.Errorf("CEPH_ARGS: %w", err)
		}
	}
	if err := c.args(o.Args, &conf); err != nil {
		return nil, err
	}
	if o.Cluster != "" {
		c.Cluster = o.Cluster
	}
	if o.Name != (denc.EntityName{}) {
		c.Name = o.Name
	}
	if o.Conf != "" {
		conf = o.Conf
	}
	if o.Keyring != "" {
		c.override.show()["keyring"] = o.Keyring
	}
	return c, c.readConf(conf)
}

func (c *Config) readConf(list string) error {
	named := list != ""
	given := c.Cluster
	if given == "" {
		c.Cluster = "ceph"
	}
	if !named {
		list = "/etc/ceph/$cluster.conf,~/.ceph/$cluster.conf,$cluster.conf"
	}
	for _, p := range strings.Split(list, ",") {
		p = c.path(c.expand(strings.TrimSpace(p)))
		f, err := ReadFile(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		c.file, c.Path = f, p
		if base, ok := strings.CutSuffix(filepath.Base(p), ".conf"); ok && given == "" && base != "" {
			c.Cluster = base // as Ceph's tools have it
		}
		return nil
	}
	if named {
		return fmt.Errorf("configuration file %s: %w", list, os.ErrNotExist)
	}
	return nil
}

// path replaces a leading ~.
func (c *Config) path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(c.getenv("HOME"), rest)
	}
	return p
}

// valued are options that are no flags: without a value they are a mistake.
var valued = []string{"conf", "cluster", "name", "id", "user", "keyring", "keyfile", "key", "mon_host"}

// args takes options in the manner of Ceph's tools. What it does not know it
// takes as the value of a setting.
func (c *Config) args(args []string, conf *string) error {
	short := map[string]string{"-c": "conf", "-n": "name", "-i": "id", "-k": "keyring", "-m": "mon_host", "-K": "keyfile"}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return nil
		}
		key, value, has := short[a], "", false
		if key == "" {
			if !strings.HasPrefix(a, "--") {
				continue
			}
			key, value, has = strings.Cut(a[2:], "=")
			key = NormalizeKey(key)
		}
		if !has {
			if i+1 == len(args) || strings.HasPrefix(args[i+1], "--") {
				if short[a] != "" || slices.Contains(valued, key) {
					return fmt.Errorf("%s needs a value", a)
				}
				value = "true" // a flag
			} else {
				i++
				value = args[i]
			}
		}
		switch key {
		case "":
		case "conf":
			*conf = value
		case "cluster":
			c.Cluster = value
		case "name":
			n, err := denc.ParseEntityName(value)
			if err != nil {
				return err
			}
			c.Name = n
		case "id", "user":
			c.Name.ID = value
		default:
			c.override.show()[key] = value
		}
	}
	return nil
}

// splitArgs splits at blanks that are not quoted.
func splitArgs(s string) ([]string, error) {
	var args []string
	var b strings.Builder
	quote, in := rune(0), false
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(r)
		case r == '"' || r == '\'':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				args, in = append(args, b.String()), false
				b.Reset()
			}
		default:
			b.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New("quote without its end")
	}
	if in {
		args = append(args, b.String())
	}
	return args, nil
}

// Get returns the value of a setting: of an option or the environment, else of
// the section of the entity (client.admin), of its type (client), or of
// global. Metavariables such as $cluster, $name, $id, $type, $host and $pid,
// and other settings as $key or ${key}, are replaced.
func (c *Config) Get(key string) (string, bool) {
	x := expansion{c: c, left: maxExpansions}
	return x.get(key)
}

func (c *Config) raw(key string) (string, bool) {
	if v, ok := c.override.show()[key]; ok {
		return v, true
	}
	for _, section := range []string{c.Name.String(), c.Name.Type.String(), "global"} {
		if v, ok := c.file.Get(section, key); ok {
			return v, true
		}
	}
	if key == "run_dir" {
		return "/var/run/ceph", true
	}
	return "", false
}

// expand replaces metavariables in s.
func (c *Config) expand(s string) string {
	x := expansion{c: c, left: maxExpansions}
	return x.expand(s)
}

// Bounds of one expansion: settings that name others twice grow fast.
const (
	maxExpansions = 256
	maxExpanded   = 64 << 10
)

// expansion is one look-up of a setting with all that it leads to.
type expansion struct {
	c      *Config
	inside []string // settings whose values are being expanded
	left   int      // how many more variables will be replaced
}

func (x *expansion) get(key string) (string, bool) {
	key = NormalizeKey(key)
	v, ok := x.c.raw(key)
	if !ok || slices.Contains(x.inside, key) {
		return "", false // one that leads back to itself stays as it is
	}
	x.inside = append(x.inside, key)
	v = x.expand(v)
	x.inside = x.inside[:len(x.inside)-1]
	return v, true
}

func (x *expansion) expand(s string) string {
	var b strings.Builder
	for s != "" {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			break
		}
		name, rest := cutVariable(after)
		v, ok := "", false
		if x.left > 0 && b.Len() < maxExpanded {
			x.left--
			v, ok = x.variable(name)
		}
		if ok {
			b.WriteString(v)
		} else {
			b.WriteString("$" + after[:len(after)-len(rest)])
		}
		s = rest
	}
	return b.String()
}

func cutVariable(s string) (name, rest string) {
	if strings.HasPrefix(s, "{") {
		if n, r, ok := strings.Cut(s[1:], "}"); ok {
			return n, r
		}
		return "", s
	}
	i := 0
	for i < len(s) && (s[i] == '_' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || i > 0 && s[i] >= '0' && s[i] <= '9') {
		i++
	}
	return s[:i], s[i:]
}

func (x *expansion) variable(name string) (string, bool) {
	c := x.c
	switch name {
	case "":
		return "", false
	case "cluster":
		return c.Cluster, true
	case "type":
		return c.Name.Type.String(), true
	case "id", "num":
		return c.Name.ID, true
	case "name":
		return c.Name.String(), true
	case "host":
		h, err := os.Hostname()
		short, _, _ := strings.Cut(h, ".")
		return short, err == nil
	case "pid":
		return strconv.Itoa(os.Getpid()), true
	case "home":
		return c.getenv("HOME"), true
	}
	return x.get(name)
}

// Key finds the entity's key: the setting key, a file that keyfile names, or a
// keyring. The error is [ErrNoKey] if none has it, with what was tried.
func (c *Config) Key() (Key, error) {
	if v, ok := c.Get("key"); ok {
		return ParseKey(v)
	}
	if v, ok := c.Get("keyfile"); ok {
		b, err := readBounded(c.path(v))
		if err != nil {
			return Key{}, err
		}
		return ParseKey(string(b))
	}
	list, ok := c.Get("keyring")
	if !ok {
		list = c.expand("/etc/ceph/$cluster.$name.keyring,/etc/ceph/$cluster.keyring,/etc/ceph/keyring,/etc/ceph/keyring.bin")
	}
	var tried []string
	for _, p := range splitList(list) {
		p = c.path(p)
		r, err := ReadKeyring(p)
		if errors.Is(err, os.ErrNotExist) {
			tried = append(tried, p+" (no such file)")
			continue
		}
		if err != nil {
			return Key{}, err
		}
		if e, ok := r.Get(c.Name); ok && !e.Key.IsZero() {
			return e.Key, nil
		}
		tried = append(tried, p+" (does not have it)")
	}
	return Key{}, &Error{Entity: c.Name, Peer: denc.TypeMon, Err: fmt.Errorf("%w; tried %s", ErrNoKey, strings.Join(tried, ", "))}
}

// Methods are what the settings let a client authenticate by, best first
// ("auth client required", else "auth supported"). They are nil if nothing is
// set: a client with a key uses cephx then, one without none. Ceph's default is
// cephx and then none, which leaves it to whoever sits between client and
// monitor to switch authentication off; who wants that has to set it.
func (c *Config) Methods() ([]uint32, error) {
	v, ok := c.Get("auth_client_required")
	if old, set := c.Get("auth_supported"); set && old != "" {
		v, ok = old, true
	}
	if !ok || v == "" {
		return nil, nil
	}
	var methods []uint32
	for _, m := range splitList(v) {
		switch m {
		case "cephx":
			methods = append(methods, MethodCephx)
		case "none":
			methods = append(methods, MethodNone)
		case "gss": // not ours
		default:
			return nil, fmt.Errorf("auth client required: %q is not known", m)
		}
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("%w: auth client required is %q", ErrMethod, v)
	}
	return methods, nil
}

// Modes are the connection modes that a setting such as ms_client_mode names,
// best first.
func (c *Config) Modes(key string) ([]msgr.AuthMode, error) {
	v, _ := c.Get(key)
	var modes []msgr.AuthMode
	for _, m := range splitList(v) {
		switch m {
		case "crc":
			modes = append(modes, msgr.ModeCRC)
		case "secure":
			modes = append(modes, msgr.ModeSecure)
		default:
			return nil, fmt.Errorf("%s: %q is neither crc nor secure", key, m)
		}
	}
	return modes, nil
}

// NewClient returns the entity's client.
func (c *Config) NewClient() (*Client, error) {
	o := Options{Name: c.Name}
	var err error
	if o.Methods, err = c.Methods(); err != nil {
		return nil, err
	}
	if o.MonModes, err = c.Modes("ms_mon_client_mode"); err != nil {
		return nil, err
	}
	if o.ServiceModes, err = c.Modes("ms_client_mode"); err != nil {
		return nil, err
	}
	var keyErr error
	if o.Methods == nil || slices.Contains(o.Methods, MethodCephx) {
		o.Key, keyErr = c.Key()
		none := o.Methods == nil || slices.Contains(o.Methods, MethodNone)
		if keyErr != nil && !(errors.Is(keyErr, ErrNoKey) && none) {
			return nil, keyErr
		}
	}
	client, err := New(o)
	if err != nil {
		return nil, err
	}
	client.keyErr = keyErr // the monitors may want one all the same
	return client, nil
}

// Monitors are the addresses of the monitors: of "mon host", else the
// "mon addr" of the sections [mon.NAME]. A nil resolver is the default one.
func (c *Config) Monitors(ctx context.Context, r Resolver) ([]denc.AddrVec, error) {
	list, ok := c.Get("mon_host")
	if !ok || strings.TrimSpace(list) == "" {
		var addrs []string
		for _, s := range c.file.names {
			if !strings.HasPrefix(s, "mon.") {
				continue
			}
			if v, ok := c.file.Get(s, "mon_addr"); ok {
				addrs = append(addrs, v)
			}
		}
		list = strings.Join(addrs, ",")
	}
	hosts, err := ParseMonHosts(list)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		where := c.Path
		if where == "" {
			where = "no configuration file was found"
		}
		return nil, fmt.Errorf("mon host is not set (%s)", where)
	}
	return ResolveMonHosts(ctx, r, hosts)
}
