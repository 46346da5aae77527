package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing wrong with a configuration file.
type Problem struct {
	File string
	Line int    // 1 for the first; 0 if the fault is not on one line
	Key  string // dotted, with list positions: "exports[1].path"; "" for the file as a whole
	What string
}

func (p Problem) Error() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
	}
	if p.Key != "" {
		s += ": " + p.Key
	}
	return s + ": " + p.What
}

// Problems is all that is wrong with a file, in the order of its lines.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// reader collects the problems of one file.
type reader struct {
	file     string
	problems Problems
	asked    map[string]bool // every leaf and section key ever asked for
}

func (r *reader) fail(n *yaml.Node, key, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Key: key, What: fmt.Sprintf(format, args...)})
}

// sorted returns the problems in the order of their lines.
func (r *reader) sorted() Problems {
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return r.problems
}

// mapping is a YAML mapping that is being read key by key; end reports the
// keys nobody asked for.
type mapping struct {
	r     *reader
	node  *yaml.Node // the mapping, or nil if the file has none here
	key   string
	vals  map[string]*yaml.Node
	keys  map[string]*yaml.Node
	known []string
}

// mapping reads n, which may be nil or null, as a mapping called key.
func (r *reader) mapping(n *yaml.Node, key string) *mapping {
	m := &mapping{r: r, node: n, key: key, vals: map[string]*yaml.Node{}, keys: map[string]*yaml.Node{}}
	n = deref(n)
	if n == nil || n.Tag == "!!null" {
		return m
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, key, "want a mapping of keys, got %s", kindName(n))
		return m
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if first, dup := m.keys[k.Value]; dup {
			r.fail(k, m.sub(k.Value), "given twice, first on line %d", first.Line)
			continue
		}
		m.keys[k.Value], m.vals[k.Value] = k, v
	}
	return m
}

// sub is the dotted name of a key of m.
func (m *mapping) sub(name string) string {
	if m.key == "" {
		return name
	}
	return m.key + "." + name
}

// get returns the value of a known key, nil if it is absent.
func (m *mapping) get(name string) *yaml.Node {
	m.known = append(m.known, name)
	if m.r.asked != nil {
		m.r.asked[positions.ReplaceAllString(m.sub(name), "[]")] = true
	}
	return deref(m.vals[name])
}

// has reports whether the file gives the key.
func (m *mapping) has(name string) bool { return m.vals[name] != nil }

// positions matches the list positions in a key.
var positions = regexp.MustCompile(`\[\d+\]`)

// sectionOf returns the section that has a key, "" if none or several do.
func sectionOf(name string) string {
	found := ""
	for _, key := range Keys() {
		section, k, _ := strings.Cut(key, ".")
		if k == name && !strings.Contains(section, "[") {
			if found != "" {
				return ""
			}
			found = section
		}
	}
	return found
}

// Keys returns every key a file can have, with "[]" for the elements of lists,
// sorted.
func Keys() []string {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte("exports: [{access: [{}]}]"), &doc); err != nil {
		panic(err) // a constant
	}
	r := &reader{asked: map[string]bool{}}
	r.parse(&doc)
	return slices.Sorted(maps.Keys(r.asked))
}

// end reports keys that nobody asked for.
func (m *mapping) end() {
	for name, k := range m.keys {
		if slices.Contains(m.known, name) {
			continue
		}
		hint := ""
		if section := sectionOf(name); m.key == "" && section != "" {
			hint = fmt.Sprintf("; it belongs to %q: check the indentation", section)
		} else if near := nearest(name, m.known); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		m.r.fail(k, m.sub(name), "unknown key%s", hint)
	}
}

// scalar returns the text of a scalar value.
func (m *mapping) scalar(name, want string) (*yaml.Node, string, bool) {
	n := m.get(name)
	if n == nil {
		return nil, "", false
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		m.r.fail(n, m.sub(name), "want %s, got %s", want, kindName(n))
		return nil, "", false
	}
	return n, n.Value, true
}

func (m *mapping) str(name string, into *string) *yaml.Node {
	n, s, ok := m.scalar(name, "a text")
	if ok {
		*into = s
	}
	return n
}

// oneOf reads a word that must be one of a few.
func (m *mapping) oneOf(name string, into *string, words ...string) {
	n, s, ok := m.scalar(name, "one of "+strings.Join(words, ", "))
	if !ok {
		return
	}
	if !slices.Contains(words, s) {
		m.r.fail(n, m.sub(name), "want one of %s, got %q", strings.Join(words, ", "), s)
		return
	}
	*into = s
}

func (m *mapping) boolean(name string, into *bool) {
	n, s, ok := m.scalar(name, "true or false")
	if !ok {
		return
	}
	if n.Tag != "!!bool" {
		m.r.fail(n, m.sub(name), "want true or false, got %q", s)
		return
	}
	_ = n.Decode(into) // a !!bool scalar always decodes
}

// integer reads a whole number in [low, high].
func (m *mapping) integer(name string, into *int, low, high int) {
	v := uint64(max(*into, 0))
	m.unsigned(name, &v, uint64(low), uint64(high))
	*into = int(v)
}

func (m *mapping) uint32(name string, into *uint32, low, high uint32) {
	v := uint64(*into)
	m.unsigned(name, &v, uint64(low), uint64(high))
	*into = uint32(v)
}

func (m *mapping) unsigned(name string, into *uint64, low, high uint64) {
	n, s, ok := m.scalar(name, "a whole number")
	if !ok {
		return
	}
	v, err := strconv.ParseUint(s, 0, 64)
	switch {
	case err != nil:
		m.r.fail(n, m.sub(name), "want a whole number, got %q", s)
	case v < low || v > high:
		m.r.fail(n, m.sub(name), "want %d to %d, got %d", low, high, v)
	default:
		*into = v
	}
}

// size reads a number of bytes such as 65536, 64KiB, 1MiB or 2GiB.
func (m *mapping) size(name string, into *int64, low, high int64) {
	n, s, ok := m.scalar(name, "a size such as 64KiB")
	if !ok {
		return
	}
	v, err := parseSize(s)
	switch {
	case err != nil:
		m.r.fail(n, m.sub(name), "%v", err)
	case v < low || v > high:
		m.r.fail(n, m.sub(name), "want %s to %s, got %s", FormatSize(low), FormatSize(high), s)
	default:
		*into = v
	}
}

func (m *mapping) duration(name string, into *time.Duration, low, high time.Duration) {
	n, s, ok := m.scalar(name, "a duration such as 60s")
	if !ok {
		return
	}
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		m.r.fail(n, m.sub(name), "want a duration such as 60s or 5m, got %q", s)
	case v < low || v > high:
		m.r.fail(n, m.sub(name), "want %v to %v, got %v", low, high, v)
	default:
		*into = v
	}
}

// list returns the elements of a list; a single value counts as a list of one.
func (m *mapping) list(name string) []*yaml.Node {
	n := m.get(name)
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.SequenceNode:
		out := make([]*yaml.Node, len(n.Content))
		for i, c := range n.Content {
			out[i] = deref(c)
		}
		return out
	case n.Tag != "!!null":
		return []*yaml.Node{n}
	}
	m.r.fail(n, m.sub(name), "want a list, got %s", kindName(n))
	return nil
}

// texts reads a list of scalars and calls each with every one.
func (m *mapping) texts(name string, each func(n *yaml.Node, key, text string)) {
	for i, n := range m.list(name) {
		key := fmt.Sprintf("%s[%d]", m.sub(name), i)
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			m.r.fail(n, key, "want a text, got %s", kindName(n))
			continue
		}
		each(n, key, n.Value)
	}
}

// address checks host:port; the host may be empty, a name or an address.
func (r *reader) address(n *yaml.Node, key, s string) bool {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		r.fail(n, key, "want host:port, got %q", s)
		return false
	}
	host, port := s[:i], s[i+1:]
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || (p == 0 && port != "0") {
		r.fail(n, key, "port %q is not a number from 0 to 65535", port)
		return false
	}
	if strings.HasPrefix(host, "[") {
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil {
			r.fail(n, key, "%q is not an address", host)
			return false
		}
	} else if strings.ContainsAny(host, ":/ ") {
		r.fail(n, key, "write an IPv6 address in brackets: [%s]:%s", host, port)
		return false
	}
	return true
}

// deref follows YAML aliases.
func deref(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func kindName(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

var sizeUnits = []struct {
	name  string
	shift uint
}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}, {"", 0}}

func parseSize(s string) (int64, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || v < 0 || v > math.MaxInt64>>u.shift {
			break
		}
		return v << u.shift, nil
	}
	return 0, fmt.Errorf("want a size such as 65536, 64KiB, 1MiB or 2GiB, got %q", s)
}

// FormatSize writes a number of bytes in the largest unit that loses nothing.
func FormatSize(v int64) string {
	for _, u := range sizeUnits {
		if u.shift > 0 && v != 0 && v&(1<<u.shift-1) == 0 {
			return strconv.FormatInt(v>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(v, 10)
}

// nearest returns the known word that is closest to name, "" if none is close.
func nearest(name string, known []string) string {
	best, dist := "", 3
	for _, k := range known {
		if d := editDistance(name, k); d < dist {
			best, dist = k, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(diag+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
