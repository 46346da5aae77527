package exporttest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"capstan/export"
)

// together runs do in n goroutines at once and waits for them. Within it a
// failure is reported with Errorf, never Fatalf.
func together(n int, do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}

// allowed reports an error whose status is none of statuses.
func (f *fixture) allowed(what string, err error, statuses ...export.Status) {
	f.Helper()
	if st := export.StatusOf(err); st != export.OK && !slices.Contains(statuses, st) {
		f.Errorf("%s: %v", what, err)
	}
}

var parallelRows = []row{
	{name: "Parallel/GuardedCreateHasOneWinner", run: func(f *fixture) {
		for round := range 20 {
			name := fmt.Sprint(round)
			var winners atomic.Int32
			together(8, func(int) {
				_, err := f.v.Create(ctx, root, f.base, name, &export.Create{Mode: export.CreateGuarded, Attr: *mode(0o644)})
				if err == nil {
					winners.Add(1)
				}
				f.allowed("create", err, export.ErrExist)
			})
			f.check(winners.Load() == 1, "%d winners", winners.Load())
		}
	}},
	{name: "Parallel/ExclusiveCreateHasOneWinner", run: func(f *fixture) {
		for round := range 20 {
			name := fmt.Sprint(round)
			var winners atomic.Int32
			together(8, func(i int) {
				// Two calls with each verifier: a client and its retry.
				_, err := f.v.Create(ctx, root, f.base, name, exclusive(fmt.Sprint(i/2), 0))
				if err == nil {
					winners.Add(1)
				}
				f.allowed("create", err, export.ErrExist)
			})
			f.check(winners.Load() == 2, "%d calls succeeded, want those of one verifier", winners.Load())
		}
	}},
	{name: "Parallel/MkdirHasOneWinner", run: func(f *fixture) {
		var winners atomic.Int32
		together(8, func(int) {
			_, err := f.v.Mkdir(ctx, root, f.base, "d", mode(0o755))
			if err == nil {
				winners.Add(1)
			}
			f.allowed("mkdir", err, export.ErrExist)
		})
		f.check(winners.Load() == 1, "%d winners", winners.Load())
	}},
	{name: "Parallel/RemoveHasOneWinner", run: func(f *fixture) {
		for range 20 {
			f.create("f", 0o644)
			var winners atomic.Int32
			together(8, func(int) {
				_, _, err := f.v.Remove(ctx, root, f.base, "f", export.RemoveFile)
				if err == nil {
					winners.Add(1)
				}
				f.allowed("remove", err, export.ErrNoEnt)
			})
			f.check(winners.Load() == 1, "%d winners", winners.Load())
		}
	}},
	// Files and directories go back and forth, directories into each other.
	{name: "Parallel/RenameBothWays", run: func(f *fixture) {
		a, b := f.mkdir("a", 0o755), f.mkdir("b", 0o755)
		c := f.mkdirIn(a, "c", 0o755)
		for i := range 4 {
			f.createAs(root, a, fmt.Sprintf("f%d", i), 0o644)
			f.mkdirIn(a, fmt.Sprintf("d%d", i), 0o755)
		}
		dirs := []export.Object{a, b, c}
		refusals := []export.Status{export.ErrNoEnt, export.ErrInval, export.ErrNotEmpty, export.ErrNotDir, export.ErrIsDir}
		together(8, func(g int) {
			for i := range 300 {
				from, to := dirs[(g+i)%3], dirs[(g+i*7+1)%3]
				name := fmt.Sprintf("%c%d", "fd"[g%2], (g/2+i)%4)
				_, err := f.v.Rename(ctx, root, from, name, to, name)
				f.allowed("rename", err, refusals...)
				switch i % 3 {
				case 0: // c in and out of directories that move
					_, err = f.v.Rename(ctx, root, a, "c", b, "c")
				case 1:
					_, err = f.v.Rename(ctx, root, b, "c", a, "c")
				case 2:
					_, err = f.v.Rename(ctx, root, f.base, "b", a, "b")
					f.allowed("rename of b", err, refusals...)
					_, err = f.v.Rename(ctx, root, a, "b", f.base, "b")
				}
				f.allowed("rename of a directory", err, refusals...)
			}
		})
		var got []string
		var visit func(dir export.Object)
		visit = func(dir export.Object) {
			for _, e := range f.list(dir, 0) {
				got = append(got, e.Name)
				if e.Attr.Type == export.TypeDirectory {
					p, _, err := f.v.Parent(ctx, root, e.Object, 0)
					f.ok(err)
					f.check(p == dir, "%s: parent %v, want %v", e.Name, p, dir)
					visit(e.Object)
				}
			}
		}
		visit(f.base)
		slices.Sort(got)
		want := []string{"a", "b", "c", "d0", "d1", "d2", "d3", "f0", "f1", "f2", "f3"}
		f.check(slices.Equal(got, want), "names %q, want %q", got, want)
	}},
	{name: "Parallel/RenameOntoOneName", run: func(f *fixture) {
		together(8, func(g int) {
			for i := range 50 {
				name := fmt.Sprintf("%d.%d", g, i)
				_, err := f.v.Create(ctx, root, f.base, name, &export.Create{Attr: *mode(0o644)})
				f.allowed("create", err)
				_, err = f.v.Rename(ctx, root, f.base, name, f.base, "target")
				f.allowed("rename", err)
				_, _, err = f.v.Lookup(ctx, root, f.base, "target", 0)
				f.allowed("lookup", err) // it is never missing
			}
		})
		f.check(len(f.names(f.base)) == 1, "left: %q", f.names(f.base))
	}},
	// Trial 1: records appended under a lock of the whole file.
	{name: "Parallel/AppendUnderLock", run: func(f *fixture) {
		const writers, each, record = 4, 100, 47
		o := f.create("log", 0o644)
		turn := make(chan struct{}, 1) // wakes those who wait for the lock
		together(writers, func(w int) {
			file, err := f.v.Open(ctx, root, o, readWrite)
			if err != nil {
				f.Errorf("open: %v", err)
				return
			}
			defer file.Close()
			for seq := range each {
				l := wlock(uint64(w+1), 0, lockEnd)
				for {
					_, err := file.Lock(ctx, l)
					if err == nil {
						break
					}
					if export.StatusOf(err) != export.ErrLocked {
						f.Errorf("lock: %v", err)
						return
					}
					<-turn
				}
				rec := bytes.Repeat([]byte{byte(w)}, record)
				binary.BigEndian.PutUint32(rec[1:], uint32(seq))
				a, err := file.GetAttr(ctx, export.MaskFile)
				f.allowed("getattr", err)
				_, _, err = file.WriteAt(ctx, root, rec, a.Size, export.Unstable)
				f.allowed("write", err)
				f.allowed("unlock", file.Unlock(ctx, l))
				select {
				case turn <- struct{}{}:
				default:
				}
			}
			select {
			case turn <- struct{}{}:
			default:
			}
		})
		data := f.content(f.open(root, o, export.OpenRead))
		f.check(len(data) == writers*each*record, "size %d, want %d", len(data), writers*each*record)
		next := map[byte]uint32{}
		for ; len(data) >= record; data = data[record:] {
			w, seq := data[0], binary.BigEndian.Uint32(data[1:])
			f.check(seq == next[w] && len(bytes.Trim(data[5:record], string(rune(w)))) == 0, "writer %d: record %d, want %d", w, seq, next[w])
			next[w] = seq + 1
		}
	}},
	// Trial 9 and 10 with others at work.
	{name: "Parallel/ListWhileOthersCreateAndRemove", run: func(f *fixture) {
		want := f.fill(f.base, 2500)
		done := make(chan struct{})
		var others, listers sync.WaitGroup
		for g := range 3 {
			others.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					default:
					}
					name := fmt.Sprintf("%d-other-%d", g, i%50)
					if _, err := f.v.Create(ctx, root, f.base, name, &export.Create{Attr: *mode(0o644)}); err != nil {
						f.Errorf("create: %v", err)
						return
					}
					if i%3 != 0 {
						_, _, err := f.v.Remove(ctx, root, f.base, name, export.RemoveFile)
						f.allowed("remove", err)
					}
				}
			})
		}
		for _, n := range []int{3, 100, 1000} {
			listers.Go(func() {
				seen := map[string]int{}
				cookie := uint64(0)
				for eof := false; !eof; {
					count := 0
					var err error
					eof, err = f.v.ReadDir(ctx, root, f.base, cookie, 0, func(e *export.Dirent) bool {
						if count == n {
							return false
						}
						count++
						cookie = e.Cookie
						seen[e.Name]++
						return true
					})
					if err != nil {
						f.Errorf("pages of %d: %v", n, err)
						return
					}
				}
				for _, name := range want {
					f.check(seen[name] == 1, "pages of %d: %s listed %d times", n, name, seen[name])
				}
			})
		}
		listers.Wait()
		close(done)
		others.Wait()
	}},
	// Trial 4.
	{name: "Parallel/ReadersWhileItGrows", run: func(f *fixture) {
		o := f.create("f", 0o644)
		w := f.open(root, o, readWrite)
		const pieces, piece = 64, 5000
		var written atomic.Int64
		together(17, func(i int) {
			if i == 0 {
				for n := range pieces {
					_, _, err := w.WriteAt(ctx, root, bytes.Repeat([]byte{byte(n + 1)}, piece), uint64(n*piece), export.Unstable)
					f.allowed("write", err)
					written.Store(int64((n + 1) * piece))
				}
				return
			}
			p := make([]byte, 8000)
			for off := 0; off < pieces*piece; {
				least := written.Load()
				n, eof, err := w.ReadAt(ctx, p, uint64(off))
				if err != nil {
					f.Errorf("read: %v", err)
					return
				}
				if int64(off+n) < least && n < len(p) {
					f.Errorf("read %d at %d, but %d were written", n, off, least)
					return
				}
				if n < len(p) && !eof {
					f.Errorf("short read of %d at %d without eof", n, off)
					return
				}
				for j, b := range p[:n] {
					if int(b) != (off+j)/piece+1 {
						f.Errorf("byte %d is %d", off+j, b)
						return
					}
				}
				off += n
			}
		})
	}},
	{name: "Parallel/RemoveDirectoryAndCreateInside", run: func(f *fixture) {
		for round := range 100 {
			name := fmt.Sprint(round)
			d := f.mkdir(name, 0o755)
			var removed, created error
			together(2, func(i int) {
				if i == 0 {
					_, _, removed = f.v.Remove(ctx, root, f.base, name, export.RemoveDir)
				} else {
					_, created = f.v.Create(ctx, root, d, "f", &export.Create{Attr: *mode(0o644)})
				}
			})
			f.allowed("remove", removed, export.ErrNotEmpty)
			f.allowed("create", created, export.ErrStale)
			f.check((removed == nil) != (created == nil), "remove: %v, create: %v", removed, created)
		}
	}},
	{name: "Parallel/LinkAndUnlink", needs: hardLinks, run: func(f *fixture) {
		o := f.create("f", 0o644)
		together(8, func(g int) {
			for i := range 50 {
				name := fmt.Sprintf("%d.%d", g, i)
				_, err := f.v.Link(ctx, root, o, f.base, name)
				f.allowed("link", err)
				if i%2 == 0 {
					_, _, err = f.v.Remove(ctx, root, f.base, name, export.RemoveFile)
					f.allowed("remove", err)
				}
			}
		})
		f.check(f.attr(o).Nlink == 8*25+1, "nlink %d, want %d", f.attr(o).Nlink, 8*25+1)
		f.check(len(f.names(f.base)) == 8*25+1, "%d names", len(f.names(f.base)))
	}},
	{name: "Parallel/WritersOfOneFile", run: func(f *fixture) {
		file := f.file("f", nil)
		const piece = 70001
		together(8, func(g int) {
			for i := range 5 {
				off := uint64(i*8+g) * piece
				_, _, err := file.WriteAt(ctx, root, bytes.Repeat([]byte{byte(g + 1)}, piece), off, export.Unstable)
				f.allowed("write", err)
			}
		})
		data := f.content(file)
		f.check(len(data) == 40*piece, "size %d", len(data))
		for i, b := range data {
			if int(b) != (i/piece)%8+1 {
				f.Fatalf("byte %d is %d", i, b)
			}
		}
	}},
	{name: "Parallel/ChangeNeverRepeats", run: func(f *fixture) {
		file := f.file("f", nil)
		var mu sync.Mutex
		seen := map[uint64]uint64{} // change attribute -> size at that time
		together(4, func(g int) {
			for i := range 100 {
				_, _, err := file.WriteAt(ctx, root, []byte("x"), uint64(i*4+g), export.Unstable)
				f.allowed("write", err)
				a, err := file.GetAttr(ctx, export.MaskAll)
				f.allowed("getattr", err)
				mu.Lock()
				if size, ok := seen[a.Change]; ok && size != a.Size {
					f.Errorf("change %d with size %d and %d", a.Change, size, a.Size)
				}
				seen[a.Change] = a.Size
				mu.Unlock()
			}
		})
	}},
	{name: "Parallel/OpenWhileUnlinked", run: func(f *fixture) {
		for range 50 {
			o := f.create("f", 0o644)
			together(4, func(i int) {
				if i == 0 {
					_, _, err := f.v.Remove(ctx, root, f.base, "f", export.RemoveFile)
					f.allowed("remove", err)
					return
				}
				file, err := f.v.Open(ctx, root, o, readWrite)
				f.allowed("open", err, export.ErrStale)
				if err != nil {
					return
				}
				_, _, err = file.WriteAt(ctx, root, []byte("data"), 0, export.Unstable)
				f.allowed("write", err)
				_, err = f.v.GetAttr(ctx, root, o, export.MaskAll)
				f.allowed("getattr while open", err)
				file.Close()
			})
			_, err := f.v.GetAttr(ctx, root, o, export.MaskAll)
			f.want("getattr in the end", err, export.ErrStale)
			if f.Failed() {
				return
			}
		}
	}},
}
