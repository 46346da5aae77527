package exporttest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"capstan/export"
)

// Config says which Volume the suite runs on.
type Config struct {
	// New returns a Volume with a root that the superuser can write. It may
	// return the same one again; it closes it itself by t.Cleanup.
	New func(t testing.TB) export.Volume
	// Reopen closes v and opens what is behind it again, as after a restart.
	// Nil says that nothing outlives a close, and leaves out the Restart rows.
	Reopen func(t testing.TB, v export.Volume) export.Volume
	// Known names the rows that this Volume fails, with the reason. The suite
	// asserts that they fail.
	Known map[string]string
	// Unprivileged says that the process cannot give objects to other users,
	// which leaves out rows that need several.
	Unprivileged bool
	// Only, if not empty, keeps to rows whose name begins with one of these.
	Only []string
}

// row is one behaviour.
type row struct {
	name    string
	needs   need // features it needs
	without need // features that must be absent
	run     func(f *fixture)
}

// need is a set of features.
type need uint32

const (
	hardLinks need = 1 << iota
	symlinks
	special
	xattrs
	seek
	allocate
	deallocate
	setTime
	users   // Config.Unprivileged is not set
	restart // Config.Reopen is set
)

func offers(c *Config, f export.Features) need {
	var n need
	for _, x := range []struct {
		have bool
		n    need
	}{
		{f.HardLinks, hardLinks}, {f.Symlinks, symlinks}, {f.Special, special}, {f.Xattrs, xattrs},
		{f.Seek, seek}, {f.Allocate, allocate}, {f.Deallocate, deallocate}, {f.SetTime, setTime},
		{!c.Unprivileged, users}, {c.Reopen != nil, restart},
	} {
		if x.have {
			n |= x.n
		}
	}
	return n
}

// rows returns the whole suite.
func rows() []row {
	return slices.Concat(attrRows, changeRows, accessRows, createRows, nodeRows, linkRows, lookupRows,
		removeRows, renameRows, readdirRows, openRows, readRows, writeRows, spaceRows, xattrRows,
		lockRows, errorRows, parallelRows, restartRows)
}

// Names returns the names of all rows, sorted.
func Names() []string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}

// Run runs the suite, each row as a subtest.
func Run(t *testing.T, c Config) {
	all := rows()
	for name := range c.Known {
		if !slices.ContainsFunc(all, func(r row) bool { return r.name == name }) {
			t.Errorf("Known names no row: %q", name)
		}
	}
	features := c.New(t).Features()
	have := offers(&c, features)
	for _, r := range all {
		if r.needs&^have != 0 || r.without&have != 0 || !c.selects(r.name) {
			continue
		}
		t.Run(r.name, func(t *testing.T) { r.runOn(t, &c) })
	}
}

// runOn runs the row, and turns its outcome round if it is known to fail.
func (r *row) runOn(t testing.TB, c *Config) {
	reason, known := c.Known[r.name]
	if !known {
		r.run(newFixture(t, c))
		return
	}
	rec := &recorder{TB: t}
	if !rec.run(func() { r.run(newFixture(rec, c)) }) {
		t.Errorf("passes, but Known says it fails: %s", reason)
		return
	}
	t.Logf("fails as known (%s):\n%s", reason, rec.output())
}

func (c *Config) selects(name string) bool {
	return len(c.Only) == 0 || slices.ContainsFunc(c.Only, func(p string) bool { return strings.HasPrefix(name, p) })
}

var ctx = context.Background()

// The callers of the suite. Alice and bob share the group staff.
var (
	root  = &export.Cred{Client: "suite"}
	alice = &export.Cred{UID: 1001, GID: 1001, Groups: []uint32{staff}, Client: "suite"}
	bob   = &export.Cred{UID: 1002, GID: 1002, Groups: []uint32{staff}, Client: "suite"}
	carol = &export.Cred{UID: 1003, GID: 1003, Client: "suite"}
)

const staff = 2001
