package billyfs

import (
	"context"

	"github.com/google/btree"

	"capstan/export"
)

// pageEntries is how many entries are taken from a listing at a time.
const pageEntries = 128

// ReadDir implements [export.Volume]; see listing.go for cookies and costs.
func (v *Volume) ReadDir(ctx context.Context, c *export.Cred, dir export.Object, cookie uint64, mask export.AttrMask, emit func(*export.Dirent) bool) (eof bool, err error) {
	defer func() { err = export.Wrap("readdir", label(dir), err) }()
	if cookie != 0 && cookie < 3 || cookie > 1<<63-1 {
		return false, export.ErrBadCookie
	}
	v.tree.RLock()
	defer v.tree.RUnlock()
	// Shared: nobody of ours changes an entry between its look-up and its
	// record in the table.
	t, ls, err := v.lockedDir(c, dir, export.PermRead, false)
	if err != nil {
		return false, err
	}
	defer ls.unlock()
	x, err := v.listingOf(t, cookie == 0)
	if err != nil {
		return false, err
	}
	var (
		page    []entry
		cookies []uint64
		met     []found
		full    bool
	)
	defer func() {
		// What the caller was told must outlive us, also when it then fails.
		err2 := v.table.record(met...)
		if err == nil && err2 != nil {
			v.opt.Logger.Warn("handle table not written", "err", err2)
		}
	}()
	for !full {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		page, cookies = x.after(cookie, pageEntries, page[:0], cookies[:0])
		for i, e := range page {
			d := export.Dirent{Name: e.name, Cookie: cookies[i]}
			gen, ok, err := v.fill(t, e, mask, &d)
			if err != nil {
				return false, err
			}
			cookie = d.Cookie
			if !ok {
				continue
			}
			if !emit(&d) {
				full = true
				break
			}
			if !v.plain {
				met = append(met, found{nameRef{dir.Ino, e.name}, d.Object.Ino, gen})
			}
		}
		if !full && len(page) < pageEntries {
			return true, nil
		}
	}
	return false, nil
}

// fill looks an entry up as far as needed. ok is false if it is gone.
func (v *Volume) fill(t *target, e entry, mask export.AttrMask, d *export.Dirent) (gen uint32, ok bool, err error) {
	if mask == 0 && e.typ != 0 && e.ino != 0 {
		d.Object = export.Live(e.ino)
		d.Attr.Type, d.Attr.FileID = e.typ, e.ino
		return 0, true, nil
	}
	seq := v.table.now()
	ref := nameRef{t.obj.Ino, e.name}
	info, err := v.stat(ref, join(t.path, e.name), mask)
	switch {
	case err == nil:
	case missing(err):
		return 0, false, nil
	default:
		return 0, false, err
	}
	d.Object, d.Attr = objectOf(&info), v.attr(&info, seq)
	return info.Generation, true, nil
}

// listingOf returns the listing of t, read anew if there is none or, for a
// listing from the start, if it is out of date. The caller holds t shared.
func (v *Volume) listingOf(t *target, fromStart bool) (*listing, error) {
	x := v.lists.get(t.obj)
	if x != nil && (!fromStart || x.current(&t.info, v.opt.now())) {
		return x, nil
	}
	now := v.opt.now() // before the names are read: t.info is from before too
	es, err := v.readNames(t.path)
	if err != nil {
		return nil, err
	}
	x = &listing{entries: btree.NewG(32, entryLess), stamp: stampOfDir(&t.info), stamped: now}
	for _, e := range es {
		e.hash = v.table.nameHash(e.name)
		x.entries.ReplaceOrInsert(e)
	}
	v.lists.put(t.obj, x)
	return x, nil
}

// lockedDir finds directory dir, with c's permission want on it, and locks it:
// exclusively if its entries are going to change.
func (v *Volume) lockedDir(c *export.Cred, dir export.Object, want export.Permission, change bool) (*target, *lockSet, error) {
	t, ls, err := v.locked(dir, export.MaskAll, change)
	if err != nil {
		return nil, nil, err
	}
	if err := checkDir(c, t, want); err != nil {
		ls.unlock()
		return nil, nil, err
	}
	return t, ls, nil
}

func checkDir(c *export.Cred, t *target, want export.Permission) error {
	switch {
	case t.info.Type != export.TypeDirectory:
		return export.ErrNotDir
	case t.path == "":
		return export.ErrStale // removed
	case !export.Permits(c, &t.info.Attr, want):
		return export.ErrAccess
	}
	return nil
}
