package auth

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"capstan/cephfs/denc"
)

// Entry is what a keyring says of one entity.
type Entry struct {
	Key  Key
	Caps map[string]string // by kind of daemon; what the entity should have, not what it has
}

// Keyring is a keyring file: keys by entity.
type Keyring struct {
	entries map[denc.EntityName]Entry
}

// ParseKeyring reads the text of a keyring; name is for errors.
func ParseKeyring(name string, text []byte) (*Keyring, error) {
	f, err := ParseFile(name, text)
	if err != nil {
		return nil, err
	}
	r := &Keyring{entries: map[denc.EntityName]Entry{}}
	for _, section := range f.names {
		entity, err := denc.ParseEntityName(section)
		if err != nil {
			if len(f.sections.show()[section]) == 0 || section == "global" {
				continue
			}
			return nil, fmt.Errorf("keyring %s: %w", name, err)
		}
		e := Entry{Caps: map[string]string{}}
		for k, v := range f.sections.show()[section] {
			if daemon, ok := strings.CutPrefix(k, "caps_"); ok {
				e.Caps[daemon] = v
			} else if k == "key" {
				if e.Key, err = ParseKey(v); err != nil {
					return nil, fmt.Errorf("keyring %s: [%s]: %w", name, section, err)
				}
			}
		}
		r.entries[entity] = e
	}
	return r, nil
}

// ReadKeyring reads a keyring file.
func ReadKeyring(name string) (*Keyring, error) {
	b, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	return ParseKeyring(name, b)
}

// Get returns the entry of an entity. It has an empty key if the file gives
// none.
func (r *Keyring) Get(n denc.EntityName) (Entry, bool) {
	e, ok := r.entries[n]
	return e, ok
}

// Names returns the entities in order.
func (r *Keyring) Names() []denc.EntityName {
	return slices.SortedFunc(maps.Keys(r.entries), func(a, b denc.EntityName) int {
		return strings.Compare(a.String(), b.String())
	})
}
