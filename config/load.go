package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"capstan/export"
)

// maxFileSize bounds a configuration file; 5000 exports take about 1 MiB.
const maxFileSize = 64 << 20

// Load reads and checks a configuration file. If anything is wrong with its
// content the error is of type [Problems] and names all of it.
func Load(file string) (*Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(text) > maxFileSize {
		return nil, fmt.Errorf("configuration: %s is larger than %s", file, FormatSize(maxFileSize))
	}
	return Parse(file, text)
}

// Parse is Load of a text; file is only used in messages.
func Parse(file string, text []byte) (*Config, error) {
	r := &reader{file: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, Problems{syntaxProblem(file, err)}
	}
	c := r.parse(&doc)
	if len(r.problems) > 0 {
		return nil, r.sorted()
	}
	return c, nil
}

// parse reads a whole document.
func (r *reader) parse(doc *yaml.Node) *Config {
	c := defaults()
	c.File = r.file
	var root *yaml.Node
	if len(doc.Content) > 0 {
		root = doc.Content[0]
	}
	m := r.mapping(root, "")
	r.server(m.get("server"), &c.Server)
	r.log(m.get("log"), &c.Log)
	r.nfs(m.get("nfs"), &c.NFS)
	r.limits(m.get("limits"), &c.Limits)
	for i, n := range m.list("exports") {
		c.Exports = append(c.Exports, r.export(n, fmt.Sprintf("exports[%d]", i)))
	}
	m.end()
	if len(c.Exports) == 0 && len(r.problems) == 0 {
		r.fail(root, "exports", "no export is given")
	}
	r.validate(&c, m.vals["exports"])
	return &c
}

// syntaxProblem takes the line out of a message of the YAML parser.
func syntaxProblem(file string, err error) Problem {
	p := Problem{File: file, What: strings.TrimPrefix(err.Error(), "yaml: ")}
	var line int
	var rest string
	if n, _ := fmt.Sscanf(p.What, "line %d:", &line); n == 1 {
		_, rest, _ = strings.Cut(p.What, ": ")
		p.Line, p.What = line, rest
	}
	for _, hint := range syntaxHints {
		if strings.Contains(p.What, hint.says) {
			p.What += " (" + hint.means + ")"
		}
	}
	if e, ok := errors.AsType[*yaml.TypeError](err); ok {
		p.What = strings.Join(e.Errors, "; ")
	}
	return p
}

// syntaxHints say what messages of the YAML parser mean most often.
var syntaxHints = []struct{ says, means string }{
	{"did not find expected alphabetic or numeric character", `write "*" in quotes`},
	{"cannot start any token", "indent with spaces, not with tabs"},
	{"did not find expected key", "check the indentation of the lines that follow"},
	{"mapping values are not allowed", "check the indentation"},
}

func (r *reader) server(n *yaml.Node, s *Server) {
	m := r.mapping(n, "server")
	if m.has("listen") {
		s.Listen = nil
	}
	m.texts("listen", func(n *yaml.Node, key, text string) {
		if r.address(n, key, text) {
			s.Listen = append(s.Listen, text)
		}
	})
	if v := m.str("metrics", &s.Metrics); v != nil && s.Metrics != "" {
		r.address(v, m.sub("metrics"), s.Metrics)
	}
	m.absolute("control", &s.Control)
	m.absolute("state_dir", &s.StateDir)
	m.boolean("rpcbind", &s.Rpcbind)
	m.duration("shutdown_timeout", &s.ShutdownTimeout, time.Second, time.Hour)
	m.end()
}

// absolute reads a path that is empty or starts at the root.
func (m *mapping) absolute(name string, into *string) {
	if v := m.str(name, into); v != nil && *into != "" && !strings.HasPrefix(*into, "/") {
		m.r.fail(v, m.sub(name), "want an absolute path, got %q", *into)
	}
}

func (r *reader) log(n *yaml.Node, l *Log) {
	m := r.mapping(n, "log")
	m.oneOf("level", &l.Level, "debug", "info", "warn", "error")
	m.oneOf("format", &l.Format, "text", "json")
	m.end()
}

func (r *reader) nfs(n *yaml.Node, v *NFS) {
	m := r.mapping(n, "nfs")
	m.duration("lease", &v.Lease, time.Second, time.Hour)
	m.str("domain", &v.Domain)
	m.size("max_io", &v.MaxIO, 4<<10, 16<<20)
	m.str("server_owner", &v.ServerOwner)
	if len(v.ServerOwner) > 1024 {
		r.fail(m.get("server_owner"), m.sub("server_owner"), "want at most 1024 bytes, got %d", len(v.ServerOwner))
	}
	m.duration("identity_ttl", &v.IdentityTTL, time.Second, 24*time.Hour)
	m.duration("identity_timeout", &v.IdentityWait, 10*time.Millisecond, time.Minute)
	m.end()
}

func (r *reader) limits(n *yaml.Node, l *Limits) {
	m := r.mapping(n, "limits")
	m.integer("connections", &l.Connections, 1, 1<<20)
	m.integer("connections_per_host", &l.ConnectionsPerHost, 1, 1<<20)
	m.integer("calls_per_connection", &l.CallsPerConnection, 1, 65536)
	m.integer("calls", &l.Calls, 1, 1<<20)
	m.size("memory", &l.Memory, 16<<20, math.MaxInt64)
	m.duration("idle_timeout", &l.IdleTimeout, time.Second, 24*time.Hour)
	m.duration("record_timeout", &l.RecordTimeout, time.Second, time.Hour)
	m.duration("write_timeout", &l.WriteTimeout, time.Second, time.Hour)
	m.integer("clients", &l.Clients, 1, 1<<20)
	m.integer("sessions_per_client", &l.SessionsPerClient, 1, 1024)
	m.integer("slots", &l.Slots, 1, 1024)
	m.integer("open_files", &l.OpenFiles, 1, 1<<20)
	m.duration("open_idle", &l.OpenIdle, time.Second, time.Hour)
	m.end()
}

func (r *reader) export(n *yaml.Node, key string) Export {
	e := defaultExport()
	if n != nil {
		e.Line = n.Line
	}
	m := r.mapping(n, key)
	if m.str("path", &e.Path) == nil {
		r.fail(n, m.sub("path"), "missing")
	}
	if m.get("id") == nil {
		r.fail(n, m.sub("id"), "missing: a number of your choice that stays with this export for ever")
	}
	m.uint32("id", &e.ID, 1, math.MaxUint32)
	m.unsigned("fsid", &e.FSID, 1, math.MaxUint64)
	m.boolean("read_only", &e.ReadOnly)

	m.oneOf("engine", &e.Engine, Engines()...)
	if m.get("engine") == nil {
		r.fail(n, m.sub("engine"), "missing: one of %s", strings.Join(Engines(), ", "))
	}
	r.memory(m.get("memory"), m.sub("memory"), &e.Memory)
	r.local(m.get("local"), m.sub("local"), &e.Local)
	r.libcephfs(m.get("libcephfs"), m.sub("libcephfs"), &e.LibCephFS)
	for _, name := range Engines() {
		if m.has(name) && e.Engine != "" && e.Engine != name {
			r.fail(m.vals[name], m.sub(name), "settings of an engine that is not this export's (%s)", e.Engine)
		}
	}

	m.oneOf("squash", &e.Squash, "root", "all", "none")
	m.uint32("anon_uid", &e.AnonUID, 1, math.MaxUint32-1)
	m.uint32("anon_gid", &e.AnonGID, 1, math.MaxUint32-1)
	m.boolean("manage_gids", &e.ManageGIDs)
	if m.has("versions") {
		e.Versions = nil
	}
	m.texts("versions", func(n *yaml.Node, key, text string) {
		switch text {
		case "3", "4.1", "4.2":
			e.Versions = append(e.Versions, text)
		default:
			hint := ""
			if text == "4" {
				hint = ": write 4.1, 4.2"
			}
			r.fail(n, key, "want 3, 4.1 or 4.2, got %q%s", text, hint)
		}
	})
	for i, a := range m.list("access") {
		e.Access = append(e.Access, r.access(a, fmt.Sprintf("%s[%d]", m.sub("access"), i)))
	}
	m.end()
	return e
}

func (r *reader) memory(n *yaml.Node, key string, v *Memory) {
	m := r.mapping(n, key)
	m.size("size", &v.Size, 1<<20, math.MaxInt64)
	m.integer("files", &v.Files, 16, math.MaxInt32)
	m.end()
}

func (r *reader) local(n *yaml.Node, key string, v *Local) {
	m := r.mapping(n, key)
	m.absolute("root", &v.Root)
	m.end()
}

func (r *reader) libcephfs(n *yaml.Node, key string, v *LibCephFS) {
	m := r.mapping(n, key)
	m.absolute("conf", &v.Conf)
	m.str("name", &v.Name)
	if strings.HasPrefix(v.Name, "client.") {
		r.fail(m.get("name"), m.sub("name"), "write the name without \"client.\"")
	}
	m.absolute("keyring", &v.Keyring)
	m.str("filesystem", &v.Filesystem)
	m.absolute("root", &v.Root)
	m.boolean("sync_metadata", &v.SyncMetadata)
	o := r.mapping(m.get("options"), m.sub("options"))
	for name := range o.vals {
		var s string
		if o.str(name, &s) != nil {
			if v.Options == nil {
				v.Options = map[string]string{}
			}
			v.Options[name] = s
		}
	}
	m.end()
}

func (r *reader) access(n *yaml.Node, key string) Access {
	a := Access{Access: "rw"}
	m := r.mapping(n, key)
	m.texts("clients", func(n *yaml.Node, key, text string) {
		if _, err := export.ParseClient(text); err != nil {
			r.fail(n, key, "%v", err)
		}
		a.Clients = append(a.Clients, text)
	})
	if len(a.Clients) == 0 && !m.has("clients") && deref(n).Kind == yaml.MappingNode {
		r.fail(n, m.sub("clients"), "missing: addresses, CIDR blocks, host names or \"*\"")
	}
	m.oneOf("access", &a.Access, "rw", "ro", "none")
	m.oneOf("squash", &a.Squash, "root", "all", "none")
	m.end()
	return a
}
