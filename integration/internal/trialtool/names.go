package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// metadata works on names as a clone of a repository does. A request that a
// server carried out and then died before it replied is sent again and fails;
// NFS has no way round that, so an answer which such a repetition explains
// counts as done if the outcome is right.
func metadata(args []string) error {
	dir, count := args[0], number(args[2])
	rnd := rand.New(rand.NewPCG(uint64(number(args[1])), 2))
	if err := repeated(os.Mkdir(dir, 0o755), os.ErrExist); err != nil {
		return err
	}
	want := map[string]string{} // path -> content
	var names []string
	recreated := 0
	for i := range count {
		sub := filepath.Join(dir, fmt.Sprintf("d%d", i%13))
		if err := os.Mkdir(sub, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		name, content := filepath.Join(sub, fmt.Sprintf("f%05d", i)), strings.Repeat(fmt.Sprintf("%d ", i), 1+rnd.IntN(2000))
		tmp := name + ".lock"
		f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
		if errors.Is(err, os.ErrExist) {
			// The verifier that tells a repetition was not kept: a limit of engines that cannot make a file and
			// mark it in one step.
			recreated++
			f, err = os.OpenFile(tmp, os.O_WRONLY|os.O_TRUNC, 0)
		}
		if err != nil {
			return fmt.Errorf("exclusive create: %w", err)
		}
		if _, err := f.WriteString(content); err != nil {
			return err
		}
		if i%4 == 0 {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := repeated(os.Rename(tmp, name), os.ErrNotExist); err != nil {
			return err
		}
		want[name] = content
		names = append(names, name)
		switch i % 5 {
		case 1:
			other := names[rnd.IntN(len(names))]
			if _, ok := want[other]; !ok {
				break
			}
			link := filepath.Join(dir, fmt.Sprintf("l%05d", i))
			if err := repeated(os.Link(other, link), os.ErrExist); err != nil {
				return err
			}
			want[link] = want[other]
		case 2:
			old := names[rnd.IntN(len(names))]
			if _, ok := want[old]; !ok {
				break
			}
			if err := repeated(os.Remove(old), os.ErrNotExist); err != nil {
				return err
			}
			delete(want, old)
		case 3:
			link := filepath.Join(dir, fmt.Sprintf("s%05d", i))
			if err := repeated(os.Symlink(name, link), os.ErrExist); err != nil {
				return err
			}
			if err := os.Chmod(name, 0o640); err != nil {
				return err
			}
		}
	}
	for name, content := range want {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if string(b) != content {
			return fmt.Errorf("%s: %d bytes, want %d", name, len(b), len(content))
		}
	}
	found := 0
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			found++
			if _, ok := want[p]; !ok {
				return fmt.Errorf("%s should not be there", p)
			}
		}
		return err
	})
	if err == nil && found != len(want) {
		err = fmt.Errorf("%d files, want %d", found, len(want))
	}
	if err == nil {
		fmt.Println("files", found, "repeated exclusive creates refused", recreated)
	}
	return err
}

// repeated drops an error that a repeated request explains.
func repeated(err, explained error) error {
	if errors.Is(err, explained) {
		return nil
	}
	return err
}

// save is how office programs on macOS save: look for AppleDouble files, write
// a temporary one exclusively, set both its times, rename it over the document,
// remove the old one.
func save(args []string) error {
	dir, count := args[0], number(args[1])
	doc := filepath.Join(dir, "document.docx")
	mtime := time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)
	for i := range count {
		for _, n := range []string{"._document.docx", ".DS_Store", "._.", "~$document.docx"} {
			if _, err := os.Lstat(filepath.Join(dir, n)); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("look-up of %s: %v", n, err)
			}
		}
		tmp := filepath.Join(dir, fmt.Sprintf(".document.sb-%08x", i))
		f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		content := fmt.Sprintf("version %d %s", i, strings.Repeat("x", i%97*100))
		if _, err := f.WriteString(content); err != nil {
			return err
		}
		if err := f.Chmod(0o644); err != nil {
			return err
		}
		if err := os.Chtimes(tmp, mtime, mtime.Add(time.Duration(i)*time.Second)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		backup := filepath.Join(dir, "document.old")
		if i > 0 {
			if err := os.Rename(doc, backup); err != nil {
				return err
			}
		}
		if err := os.Rename(tmp, doc); err != nil {
			return err
		}
		if i > 0 {
			if err := os.Remove(backup); err != nil {
				return err
			}
		}
		b, err := os.ReadFile(doc)
		if err != nil || string(b) != content {
			return fmt.Errorf("save %d: %d bytes, %v", i, len(b), err)
		}
		st, err := os.Stat(doc)
		if err != nil || !st.ModTime().Equal(mtime.Add(time.Duration(i)*time.Second)) || st.Mode() != 0o644 {
			return fmt.Errorf("save %d: %v %v, %v", i, st.ModTime(), st.Mode(), err)
		}
	}
	// And as editors do that keep the old version under another name.
	backup := filepath.Join(dir, "document.docx~")
	for i := range count {
		tmp := filepath.Join(dir, fmt.Sprintf(".tmp%d", i))
		if err := os.WriteFile(tmp, []byte(fmt.Sprint(i)), 0o644); err != nil {
			return err
		}
		if err := os.Remove(backup); err != nil && i > 0 {
			return fmt.Errorf("save %d: %w", i, err)
		}
		if err := os.Link(doc, backup); err != nil {
			return fmt.Errorf("save %d: %w", i, err)
		}
		if err := os.Rename(tmp, doc); err != nil {
			return err
		}
		if b, err := os.ReadFile(backup); err != nil || i > 0 && string(b) != fmt.Sprint(i-1) {
			return fmt.Errorf("backup %d: %.20q, %v", i, b, err)
		}
	}
	if err := os.Remove(backup); err != nil {
		return err
	}
	ents, err := os.ReadDir(dir)
	if err != nil || len(ents) != 1 {
		return fmt.Errorf("left over: %v, %v", ents, err)
	}
	return nil
}

// readonly writes through descriptors of files whose modes allow nobody to.
func readonly(args []string) error {
	for _, mode := range []os.FileMode{0o444, 0o000, 0o200, 0o400} {
		name := filepath.Join(args[0], fmt.Sprintf("mode%04o", mode))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, mode)
		if err != nil {
			return err
		}
		if _, err := writeContent(f, uint64(mode), 3); err != nil {
			return fmt.Errorf("%v: write: %w", mode, err)
		}
		if mode&0o400 != 0 {
			r, err := os.Open(name)
			if err != nil {
				return err
			}
			got, want := make([]byte, 5000), make([]byte, 5000)
			pattern(want, uint64(mode), 1<<20)
			if _, err := r.ReadAt(got, 1<<20); err != nil || string(got) != string(want) {
				return fmt.Errorf("%v: read through a second descriptor: %v", mode, err)
			}
			r.Close()
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("%v: fsync: %w", mode, err)
		}
		if err := f.Truncate(2<<20 + 1); err != nil {
			return fmt.Errorf("%v: truncate: %w", mode, err)
		}
		if _, err := f.WriteAt([]byte("end"), 2<<20+1); err != nil {
			return fmt.Errorf("%v: write: %w", mode, err)
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("%v: close: %w", mode, err)
		}
		if mode&0o200 == 0 {
			if w, err := os.OpenFile(name, os.O_WRONLY, 0); !errors.Is(err, os.ErrPermission) {
				if err == nil {
					w.Close()
				}
				return fmt.Errorf("%v: a new open for writing: %v", mode, err)
			}
		}
		st, err := os.Stat(name)
		if err != nil || st.Size() != 2<<20+4 || st.Mode() != mode {
			return fmt.Errorf("%v: %d bytes, mode %v, %v", mode, st.Size(), st.Mode(), err)
		}
		if d := time.Since(st.ModTime()).Abs(); d > time.Minute {
			return fmt.Errorf("%v: modified %v ago", mode, d)
		}
	}
	return nil
}

// dirent reads a directory by getdents64: names with the position behind each.
type dirent struct {
	name string
	next int64
}

func readDirents(fd int, most int) ([]dirent, error) {
	var out []dirent
	buf := make([]byte, most)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return out, err
		}
		if n == 0 {
			return out, nil
		}
		out = append(out, parseDirents(buf[:n])...)
	}
}

func parseDirents(b []byte) (out []dirent) {
	// struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name.
	for len(b) > 19 {
		reclen := int(b[16]) | int(b[17])<<8
		var off int64
		for i := range 8 {
			off |= int64(b[8+i]) << (8 * i)
		}
		name, _, _ := strings.Cut(string(b[19:reclen]), "\x00")
		out = append(out, dirent{name, off})
		b = b[reclen:]
	}
	return out
}

func seekdir(args []string) error {
	d, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	fd := int(d.Fd())
	all, err := readDirents(fd, 32<<10)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range all {
		if seen[e.name] {
			return fmt.Errorf("%q twice", e.name)
		}
		seen[e.name] = true
		if e.next < 0 {
			return fmt.Errorf("position %d behind %q", e.next, e.name)
		}
	}
	step := max(1, len(all)/200)
	for i := len(all) - 2; i >= 0; i -= step {
		if _, err := unix.Seek(fd, all[i].next, io.SeekStart); err != nil {
			return fmt.Errorf("seek to %d: %w", all[i].next, err)
		}
		buf := make([]byte, 1024)
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return err
		}
		if got := parseDirents(buf[:n]); len(got) == 0 || got[0].name != all[i+1].name {
			return fmt.Errorf("behind %q: %v, want %q", all[i].name, got, all[i+1].name)
		}
	}
	fmt.Println("entries", len(all)-2)
	return nil
}

// prune removes what it has read before it reads on.
func prune(args []string) error {
	d, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	batch, removed := number(args[1]), 0
	seen := map[string]bool{}
	for {
		names, err := d.Readdirnames(batch)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for _, n := range names {
			if seen[n] {
				return fmt.Errorf("%q twice", n)
			}
			seen[n] = true
			if err := os.Remove(filepath.Join(args[0], n)); err != nil {
				return err
			}
			removed++
		}
	}
	left, err := os.ReadDir(args[0])
	if err != nil || len(left) > 0 {
		return fmt.Errorf("removed %d, left %d, %v", removed, len(left), err)
	}
	fmt.Println("removed", removed)
	return nil
}
