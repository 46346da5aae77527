package exporttest

import (
	"fmt"
	"slices"

	"capstan/export"
)

// fill makes n files in dir and returns their sorted names.
func (f *fixture) fill(dir export.Object, n int) []string {
	f.Helper()
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("entry-%05d", i))
		f.createAs(root, dir, names[i], 0o644)
	}
	return names
}

// listed checks that a listing has exactly the names of want (sorted), each
// once, under cookies that clients can hold.
func (f *fixture) listed(what string, ents []export.Dirent, want []string) {
	f.Helper()
	got := sortedNames(ents)
	if !slices.Equal(got, want) {
		f.Errorf("%s: %d entries %s, want %d", what, len(got), diffNames(got, want), len(want))
	}
	f.goodCookies(what, ents)
}

// goodCookies: from 3 to 2^63-1 and unique (trial 13).
func (f *fixture) goodCookies(what string, ents []export.Dirent) {
	f.Helper()
	seen := map[uint64]string{}
	for _, e := range ents {
		if e.Cookie < 3 || e.Cookie > 1<<63-1 {
			f.Fatalf("%s: %q has cookie %#x", what, e.Name, e.Cookie)
		}
		if other, ok := seen[e.Cookie]; ok {
			f.Fatalf("%s: %q and %q have cookie %#x", what, e.Name, other, e.Cookie)
		}
		seen[e.Cookie] = e.Name
	}
}

// diffNames says what sorted got has more and less than sorted want.
func diffNames(got, want []string) string {
	count := map[string]int{}
	for _, n := range got {
		count[n]++
	}
	for _, n := range want {
		count[n]--
	}
	var diff []string
	for n, c := range count {
		if c != 0 {
			diff = append(diff, fmt.Sprintf("%q %+d", n, c))
		}
	}
	slices.Sort(diff)
	return fmt.Sprint(diff[:min(len(diff), 10)])
}

var readdirRows = []row{
	{name: "ReadDir/Empty", run: func(f *fixture) {
		ents, eof := f.page(f.base, 0, 0)
		f.check(len(ents) == 0 && eof, "%d entries, eof %v", len(ents), eof)
	}},
	{name: "ReadDir/Entries", run: func(f *fixture) {
		want := map[string]export.Object{"f": f.create("f", 0o640), "d": f.mkdir("d", 0o750)}
		if f.feat.Symlinks {
			want["l"] = f.symlink("l", "f")
		}
		if f.feat.Special {
			want["p"] = f.mknod("p", export.TypeFIFO)
		}
		ents, eof := f.page(f.base, 0, 0)
		f.check(eof && len(ents) == len(want), "%d entries, eof %v", len(ents), eof)
		for _, e := range ents {
			f.check(e.Object == want[e.Name], "%s: object %v, want %v", e.Name, e.Object, want[e.Name])
			f.check(e.Attr == f.attr(e.Object), "%s: attributes %+v, want %+v", e.Name, e.Attr, f.attr(e.Object))
		}
	}},
	{name: "ReadDir/TypeAndFileIDAlways", run: func(f *fixture) {
		d := f.attr(f.mkdir("d", 0o755))
		_, err := f.v.ReadDir(ctx, root, f.base, 0, 0, func(e *export.Dirent) bool {
			f.check(e.Attr.Type == d.Type && e.Attr.FileID == d.FileID, "without a mask: %+v", e.Attr)
			return true
		})
		f.ok(err)
	}},
	{name: "ReadDir/RefusedEntryComesAgain", run: func(f *fixture) {
		f.fill(f.base, 3)
		first, eof := f.page(f.base, 0, 1)
		f.check(!eof && len(first) == 1, "eof %v, %d entries", eof, len(first))
		all, eof := f.page(f.base, 0, 0)
		f.check(eof && all[0].Name == first[0].Name, "eof %v, first %q then %q", eof, first[0].Name, all[0].Name)
		second, _ := f.page(f.base, first[0].Cookie, 1)
		f.check(second[0].Name == all[1].Name, "behind %q stands %q, want %q", first[0].Name, second[0].Name, all[1].Name)
	}},
	{name: "ReadDir/RefusingTheFirst", run: func(f *fixture) {
		f.fill(f.base, 2)
		eof, err := f.v.ReadDir(ctx, root, f.base, 0, 0, func(*export.Dirent) bool { return false })
		f.ok(err)
		f.check(!eof, "eof")
	}},
	{name: "ReadDir/EOFExactly", run: func(f *fixture) {
		f.fill(f.base, 4)
		ents, eof := f.page(f.base, 0, 4)
		f.check(eof && len(ents) == 4, "page of all 4: %d, eof %v", len(ents), eof)
		last := ents[3].Cookie
		ents, eof = f.page(f.base, last, 0)
		f.check(eof && len(ents) == 0, "behind the last: %d, eof %v", len(ents), eof)
	}},
	// Trial 9.
	{name: "ReadDir/PageSizes", run: func(f *fixture) {
		want := f.fill(f.base, 20)
		for n := 1; n <= 21; n++ {
			f.listed(fmt.Sprintf("pages of %d", n), f.list(f.base, n), want)
		}
	}},
	{name: "ReadDir/HardLinksInOneDirectory", needs: hardLinks, run: func(f *fixture) {
		want := f.fill(f.base, 6)
		o := f.lookup(f.base, want[0])
		for i := range 10 {
			want = append(want, fmt.Sprintf("link-%d", i))
			f.link(o, f.base, want[len(want)-1])
		}
		for n := 1; n <= 9; n++ {
			f.listed(fmt.Sprintf("pages of %d", n), f.list(f.base, n), want)
		}
	}},
	{name: "ReadDir/Large", run: func(f *fixture) {
		want := f.fill(f.base, 2500)
		f.listed("at once", f.list(f.base, 0), want)
		f.listed("pages of 100", f.list(f.base, 100), want)
		f.listed("pages of 7", f.list(f.base, 7), want)
	}},
	// Trial 13: telldir and seekdir to every position, backwards.
	{name: "ReadDir/EveryCookie", run: func(f *fixture) {
		f.fill(f.base, 100)
		all := f.list(f.base, 0)
		for i := len(all) - 1; i >= 0; i-- {
			rest, eof := f.page(f.base, all[i].Cookie, 0)
			f.check(eof && slices.EqualFunc(rest, all[i+1:], func(a, b export.Dirent) bool { return a.Name == b.Name && a.Cookie == b.Cookie }),
				"behind %q: %d entries, want %d", all[i].Name, len(rest), len(all)-i-1)
		}
	}},
	// Trial 10: read some, delete them, read on.
	{name: "ReadDir/DeleteWhatWasListed", run: func(f *fixture) {
		for n := 1; n <= 9; n++ {
			d := f.mkdir(fmt.Sprintf("d%d", n), 0o755)
			want := f.fill(d, 60)
			var got []export.Dirent
			for cookie, eof := uint64(0), false; !eof; {
				var ents []export.Dirent
				ents, eof = f.page(d, cookie, n)
				for _, e := range ents {
					f.remove(d, e.Name)
					cookie = e.Cookie
				}
				got = append(got, ents...)
			}
			f.listed(fmt.Sprintf("pages of %d", n), got, want)
			f.remove(f.base, fmt.Sprintf("d%d", n))
		}
	}},
	{name: "ReadDir/DeleteFromTheOtherEnd", run: func(f *fixture) {
		f.fill(f.base, 60)
		order := f.list(f.base, 0)
		ents, _ := f.page(f.base, 0, 10)
		for _, e := range order[40:] {
			f.remove(f.base, e.Name)
		}
		for _, e := range order[5:15] {
			f.remove(f.base, e.Name)
		}
		rest, eof := f.page(f.base, ents[9].Cookie, 0)
		f.check(eof, "no eof")
		f.listed("the rest", rest, sortedNames(order[15:40]))
	}},
	{name: "ReadDir/CookieOfWhatIsGone", run: func(f *fixture) {
		f.fill(f.base, 10)
		order := f.list(f.base, 0)
		for i, e := range order[:9] {
			f.remove(f.base, e.Name)
			rest, _ := f.page(f.base, e.Cookie, 0)
			f.listed("behind a removed entry", rest, sortedNames(order[i+1:]))
		}
	}},
	{name: "ReadDir/AddedMeanwhile", run: func(f *fixture) {
		want := f.fill(f.base, 50)
		var got []export.Dirent
		added := 0
		for cookie, eof := uint64(0), false; !eof; {
			var ents []export.Dirent
			ents, eof = f.page(f.base, cookie, 3)
			for _, e := range ents {
				cookie = e.Cookie
				if slices.Contains(want, e.Name) {
					got = append(got, e)
				}
			}
			if added < 1000 {
				f.createAs(root, f.base, fmt.Sprintf("added-%d", added), 0o644)
				added++
			}
		}
		f.listed("those that were there throughout", got, want)
	}},
	{name: "ReadDir/ReplacedKeepsItsPlace", run: func(f *fixture) {
		want := f.fill(f.base, 20)
		var got []export.Dirent
		for cookie, eof := uint64(0), false; !eof; {
			var ents []export.Dirent
			ents, eof = f.page(f.base, cookie, 4)
			for _, e := range ents {
				cookie = e.Cookie
				got = append(got, e)
			}
			for _, name := range want {
				f.createAs(root, f.base, "new", 0o644)
				f.rename(f.base, "new", f.base, name)
			}
		}
		f.listed("names that were replaced", got, want)
	}},
	{name: "ReadDir/CookiesOfOthersStay", run: func(f *fixture) {
		f.fill(f.base, 30)
		cookies := map[string]uint64{}
		for _, e := range f.list(f.base, 0) {
			cookies[e.Name] = e.Cookie
		}
		for i := range 200 {
			name := fmt.Sprintf("other-%d", i)
			f.createAs(root, f.base, name, 0o644)
			if i%2 == 0 {
				f.remove(f.base, name)
			}
		}
		for _, e := range f.list(f.base, 0) {
			if c, ok := cookies[e.Name]; ok && c != e.Cookie {
				f.Errorf("%q had cookie %#x, now %#x", e.Name, c, e.Cookie)
			}
		}
	}},
	{name: "ReadDir/BadCookie", run: func(f *fixture) {
		f.fill(f.base, 3)
		for _, cookie := range []uint64{1, 2, 1 << 63, 1<<64 - 1} {
			_, err := f.v.ReadDir(ctx, root, f.base, cookie, 0, func(*export.Dirent) bool { return true })
			f.want(fmt.Sprintf("cookie %#x", cookie), err, export.ErrBadCookie)
		}
	}},
	{name: "ReadDir/RemovedDirectory", run: func(f *fixture) {
		d := f.mkdir("d", 0o755)
		f.remove(f.base, "d")
		_, err := f.v.ReadDir(ctx, root, d, 0, 0, func(*export.Dirent) bool { return true })
		f.want("list what is gone", err, export.ErrStale)
	}},
}
