package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Table is what is exported at one time: the exports and the pseudo tree that
// joins them. It never changes; a reload makes another, see [Exports].
type Table struct {
	keys     *KeyRing
	hosts    *Hosts
	identity *Identity

	ids      map[uint32]*Export
	exports  []*Export // by path
	pseudo   *Export   // ID 0
	tree     *pseudoTree
	junction map[uint32]*pseudoDir // where an export is joined, by its ID

	rights rightsCache
	holds  holds

	broken []error // constant
}

// Option changes what [NewTable] makes.
type Option func(*Table)

// WithKeys gives the keys of the handles. Without it, and without [After], a
// table has a random key of its own.
func WithKeys(r *KeyRing) Option { return func(t *Table) { t.keys = r } }

// WithHosts gives the look-up of host names for rules that match by name.
func WithHosts(h *Hosts) Option { return func(t *Table) { t.hosts = h } }

// WithIdentity gives the user database for exports with ManageGIDs.
func WithIdentity(i *Identity) Option { return func(t *Table) { t.identity = i } }

// After makes the table a successor of old: it takes over old's keys, host
// names and user database unless other options give them, and the change
// attributes of pseudo directories that are what they were.
func After(old *Table) Option {
	return func(t *Table) {
		t.tree.old = old.tree
		t.keys = cmp.Or(t.keys, old.keys)
		t.hosts = cmp.Or(t.hosts, old.hosts)
		t.identity = cmp.Or(t.identity, old.identity)
	}
}

// rootsTime is how long NewTable waits for the Volumes to name their roots,
// and rootsAtOnce how many it asks at the same time.
const (
	rootsTime   = 10 * time.Second
	rootsAtOnce = 32
)

// NewTable makes the table of exports. The error names every fault of every
// export: a path that is not clean, there twice or inside another export, an ID
// or a file system id there twice, a rule for nobody, no Volume.
//
// A Volume that cannot name its root is no such fault, since it may be able to
// later: the others are served meanwhile, and [Table.Broken] tells.
func NewTable(ctx context.Context, exports []*Export, options ...Option) (*Table, error) {
	t := &Table{
		ids:      make(map[uint32]*Export, len(exports)),
		exports:  slices.Clone(exports),
		tree:     newPseudoTree(),
		junction: make(map[uint32]*pseudoDir, len(exports)),
	}
	for _, o := range options {
		o(t)
	}
	t.rights.init()
	t.holds.init()
	if t.keys == nil {
		t.keys = RandomKeyRing()
	}
	if t.hosts == nil {
		t.hosts = NewHosts(HostsOptions{})
	}
	if t.identity == nil {
		t.identity = NewIdentity(IdentityOptions{})
	}
	slices.SortStableFunc(t.exports, func(a, b *Export) int { return strings.Compare(a.Path, b.Path) })
	t.pseudo = &Export{Path: "/", Volume: t.tree, ReadOnly: true}

	if err := errors.Join(t.check(), t.join()); err != nil {
		return nil, err
	}
	t.tree.finish(time.Now())
	t.askRoots(ctx)
	return t, nil
}

// check finds what is wrong with each export and between their numbers.
func (t *Table) check() error {
	var errs []error
	fault := func(e *Export, format string, args ...any) {
		errs = append(errs, fmt.Errorf("export %q: %w", e.Path, fmt.Errorf(format, args...)))
	}
	fsids := map[FSID]*Export{t.pseudo.FileSystem(): t.pseudo}
	fsids3 := map[uint64]*Export{t.pseudo.FileSystem().V3(): t.pseudo}
	for _, e := range t.exports {
		if err := checkPath(e.Path); err != nil {
			fault(e, "%w", err)
		}
		if e.Volume == nil {
			fault(e, "no volume")
		}
		if e.ID == 0 {
			fault(e, "ID 0 is the pseudo tree's")
		} else if other := t.ids[e.ID]; other != nil {
			fault(e, "ID %d is also that of %q", e.ID, other.Path)
		} else {
			t.ids[e.ID] = e
		}
		for i := range e.Rules {
			if e.Rules[i].Client.kind == clientNone {
				fault(e, "rule %d is for nobody", i+1)
			}
		}
		id := e.FileSystem()
		if other := cmp.Or(fsids[id], fsids3[id.V3()]); other != nil {
			fault(e, "file system id %v cannot be told from that of %q", id, other.Path)
		} else if id.V3() == 0 {
			fault(e, "file system id %v is 0 in NFSv3", id)
		}
		fsids[id], fsids3[id.V3()] = e, e
	}
	return errors.Join(errs...)
}

// maxPath is the longest path of an export (MNTPATHLEN, RFC 1813 section
// 5.1.2), maxName the longest name in it.
const (
	maxPath = 1024
	maxName = 255
)

func checkPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return errors.New("the path must begin with /")
	case path.Clean(p) != p:
		return fmt.Errorf("the path must be written %q", path.Clean(p))
	case len(p) > maxPath:
		return fmt.Errorf("the path has more than %d bytes", maxPath)
	case strings.ContainsRune(p, 0):
		return errors.New("the path holds a NUL")
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return fmt.Errorf("a name in the path has more than %d bytes", maxName)
		}
	}
	return nil
}

// join puts every export into the pseudo tree. An export inside another would
// need a directory of the outer one to stand on, and would hide what is below
// it; it is refused.
func (t *Table) join() error {
	var errs []error
	for _, e := range t.exports {
		if checkPath(e.Path) != nil {
			continue
		}
		d, err := t.tree.add(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("export %q: %w", e.Path, err))
			continue
		}
		t.junction[e.ID] = d
	}
	return errors.Join(errs...)
}

// askRoots lets every Volume name its root, once an export and within
// rootsTime for all together.
func (t *Table) askRoots(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rootsTime)
	defer cancel()
	var (
		g  errgroup.Group
		mu sync.Mutex // guards t.broken until Wait
	)
	g.SetLimit(rootsAtOnce)
	for _, e := range t.exports {
		if e.root.Load() != nil {
			continue
		}
		g.Go(func() error {
			if _, err := e.Root(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				t.broken = append(t.broken, err)
			}
			return nil
		})
	}
	_ = g.Wait()
}

// Broken returns why exports could not be reached when the table was made.
func (t *Table) Broken() []error { return t.broken }

// Exports returns the exports by path; the slice is not to be changed.
func (t *Table) Exports() []*Export { return t.exports }

// Export returns the export with an ID, or nil.
func (t *Table) Export(id uint32) *Export { return t.ids[id] }

// byID is Export with the pseudo export.
func (t *Table) byID(id uint32) *Export {
	if id == 0 {
		return t.pseudo
	}
	return t.ids[id]
}

// Identity returns the user database of the table.
func (t *Table) Identity() *Identity { return t.identity }
