package auth

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of configuration files.
const (
	maxConfBytes = 16 << 20
	maxIncludes  = 16 // deep
	maxConfFiles = 256
)

// ErrSyntax says that a file is not in the form of ceph.conf.
var ErrSyntax = errors.New("syntax error")

// SyntaxError says where.
type SyntaxError struct {
	File string
	Line int // from 1
	What string
}

// Error names the file and the line.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d: %v: %s", e.File, e.Line, ErrSyntax, e.What)
}

// Unwrap returns [ErrSyntax].
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// File is a parsed ceph.conf, or a keyring, which has the same form: values by
// section and key. Keys are normalized (see [NormalizeKey]); of two values for
// one key the later counts, as it does for sections that occur twice.
type File struct {
	names    []string                             // of the sections, in the order of the file
	sections hidden[map[string]map[string]string] // there are keys among the values
}

// NormalizeKey gives a key the spelling that files are searched by: lower
// case is kept as it is, and runs of blanks, dashes and underscores become one
// underscore. "mon host", "mon_host" and "mon-host" are one key.
func NormalizeKey(key string) string {
	return strings.Join(strings.FieldsFunc(key, func(r rune) bool {
		return r == ' ' || r == '\t' || r == '_' || r == '-' || r == '\r' || r == '\n'
	}), "_")
}

// ParseFile reads the text of a configuration file. name is for errors, and
// the folder that relative includes are searched in.
func ParseFile(name string, text []byte) (*File, error) {
	f := &File{sections: hide(map[string]map[string]string{})}
	p := &confParser{file: f, opened: 1}
	return f, p.parse(name, text, 0)
}

// ReadFile reads a configuration file.
func ReadFile(name string) (*File, error) {
	b, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	return ParseFile(name, b)
}

func readBounded(name string) ([]byte, error) {
	r, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxConfBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxConfBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxConfBytes)
	}
	return b, nil
}

// Sections returns the names of the sections in the order of the file.
func (f *File) Sections() []string { return slices.Clone(f.names) }

// Get returns the value of key in one section, as it stands in the file but
// for quotes and escapes.
func (f *File) Get(section, key string) (string, bool) {
	v, ok := f.sections.show()[section][NormalizeKey(key)]
	return v, ok
}

func (f *File) set(section, key, value string) {
	f.section(section)[NormalizeKey(key)] = value
}

func (f *File) section(name string) map[string]string {
	s, ok := f.sections.show()[name]
	if !ok {
		s = map[string]string{}
		f.sections.show()[name] = s
		f.names = append(f.names, name)
	}
	return s
}

// confParser reads lines (ceph/ceph src/common/ConfUtils.cc): sections in
// brackets, key = value, comments from # or ; to the end of a line, a backslash
// before the end of a line to join it with the next, and before any other
// character to take it as it is. Lines before the first section belong to
// global. A line "include FILES", which Ceph does not have, reads other files
// in its place; FILES may have wildcards, and a leading section of theirs does
// not outlast them.
type confParser struct {
	file   *File
	opened int
}

func (p *confParser) parse(name string, text []byte, depth int) error {
	if !utf8.Valid(text) {
		return &SyntaxError{name, 1 + strings.Count(string(validPrefix(text)), "\n"), "not UTF-8"}
	}
	section := "global"
	s := string(text)
	for line := 1; s != ""; {
		logical, lines, rest := cutLine(s)
		at := line
		line, s = line+lines, rest
		fault := func(format string, args ...any) error {
			return &SyntaxError{name, at, fmt.Sprintf(format, args...)}
		}
		body := strings.TrimSpace(stripComment(logical))
		switch {
		case body == "":
		case body[0] == '[':
			inner, after, ok := strings.Cut(body[1:], "]")
			if !ok || strings.TrimSpace(inner) == "" || strings.TrimSpace(after) != "" {
				return fault("a section is written [name]")
			}
			section = strings.TrimSpace(unescape(inner))
			p.file.section(section)
		default:
			key, value, ok := strings.Cut(body, "=")
			key = strings.TrimSpace(key)
			if files, isInclude := strings.CutPrefix(key, "include "); !ok && isInclude {
				if err := p.include(name, strings.TrimSpace(files), depth); err != nil {
					return err
				}
				continue
			}
			if !ok {
				return fault("want key = value")
			}
			if key == "" {
				return fault("there is no key before the =")
			}
			value, err := confValue(strings.TrimSpace(value))
			if err != nil {
				return fault("%v", err)
			}
			p.file.set(section, key, value)
		}
	}
	return nil
}

func (p *confParser) include(from, pattern string, depth int) error {
	if depth >= maxIncludes {
		return fmt.Errorf("%s: includes nest deeper than %d", from, maxIncludes)
	}
	if v, err := confValue(pattern); err == nil {
		pattern = v
	}
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(from), pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("%s: include %s: %w", from, pattern, err)
	}
	if len(names) == 0 && !strings.ContainsAny(pattern, "*?[") {
		return fmt.Errorf("%s: include %s: %w", from, pattern, os.ErrNotExist)
	}
	for _, n := range names {
		if p.opened++; p.opened > maxConfFiles {
			return fmt.Errorf("%s: more than %d files included", from, maxConfFiles)
		}
		b, err := readBounded(n)
		if err != nil {
			return fmt.Errorf("%s: include: %w", from, err)
		}
		if err := p.parse(n, b, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// cutLine takes one line off s, joined with those that continue it.
func cutLine(s string) (line string, lines int, rest string) {
	var b strings.Builder
	for {
		l, after, found := strings.Cut(s, "\n")
		lines++
		l = strings.TrimSuffix(l, "\r")
		// An odd number of backslashes: the last one is not escaped itself.
		if n := len(l) - len(strings.TrimRight(l, `\`)); found && n%2 == 1 {
			b.WriteString(l[:len(l)-1])
			s = after
			continue
		}
		b.WriteString(l)
		return b.String(), lines, after
	}
}

// stripComment cuts s at the first # or ; that is neither escaped nor quoted.
// Quotes count only where a value begins.
func stripComment(s string) string {
	quote := byte(0)
	begun := false // the value
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '#' || c == ';':
			return s[:i]
		case c == '=' && !begun:
			begun = true
			for i+1 < len(s) && (s[i+1] == ' ' || s[i+1] == '\t') {
				i++
			}
			if i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\'') {
				quote = s[i+1]
				i++
			}
		}
	}
	return s
}

// confValue undoes the quotes and escapes of a value.
func confValue(s string) (string, error) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return strings.TrimSpace(unescape(s)), nil
	}
	quote := s[0]
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			if strings.TrimSpace(s[i+1:]) != "" {
				return "", errors.New("text after the closing quote")
			}
			return strings.TrimSpace(unescape(s[1:i])), nil
		}
	}
	return "", errors.New("quote without its end")
}

// unescape drops backslashes and keeps what follows each.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func validPrefix(b []byte) []byte {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return b[:i]
		}
		i += n
	}
	return b
}
