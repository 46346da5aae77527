package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// posixCases are short programs, each printing lines that are the same on every POSIX file system.
var posixCases = map[string]func(dir string) error{
	"unlinked":     unlinked,
	"renamed-over": renamedOver,
	"excl":         excl,
	"append-lock":  appendLock,
	"save":         save,
	"backup":       backup,
	"future":       future,
	"names":        names,
	"links":        links,
	"times":        times,
	"modes":        modes,
	"dirs":         dirs,
	"locks":        locks,
}

func posixCommand(args []string) error {
	if len(args) == 3 && args[0] == "worker" {
		return worker(args[1], args[2])
	}
	if len(args) == 2 && posixCases[args[0]] != nil {
		return posixCases[args[0]](args[1])
	}
	var l []string
	for name := range posixCases {
		l = append(l, name)
	}
	sort.Strings(l)
	return fmt.Errorf("posix: one of %s, and a directory", strings.Join(l, ", "))
}

// errno names an error the same way everywhere.
func errno(err error) string {
	var e unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return unix.ErrnoName(e)
	default:
		return err.Error()
	}
}

func say(what string, err error) { fmt.Printf("%s: %s\n", what, errno(err)) }

// sillyTime is how long a file that an NFS client renamed because it was open
// when it was removed may stay after its last close: the client removes it
// without anybody waiting for that (Linux, fs/nfs/unlink.c).
const sillyTime = 30 * time.Second

// entries lists a directory's names.
func entries(dir string) []string {
	for end := time.Now().Add(sillyTime); ; time.Sleep(10 * time.Millisecond) {
		l, err := os.ReadDir(dir)
		if err != nil {
			return []string{errno(err)}
		}
		var n []string
		silly := false
		for _, e := range l {
			n = append(n, e.Name())
			silly = silly || strings.HasPrefix(e.Name(), ".nfs")
		}
		if !silly || time.Now().After(end) {
			return n
		}
	}
}

// unlinked uses a file that has lost its name.
func unlinked(dir string) error {
	p := filepath.Join(dir, "f")
	f, err := os.OpenFile(p, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("before"))
	say("write", err)
	say("unlink", os.Remove(p))
	_, err = os.Lstat(p)
	say("lstat", err)
	_, err = f.WriteAt([]byte(" after"), 6)
	say("write unlinked", err)
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	fmt.Printf("read %q\n", b[:n])
	say("truncate", f.Truncate(1<<20))
	st, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Printf("size %d mode %v\n", st.Size(), st.Mode())
	say("chmod", f.Chmod(0o640))
	say("fsync", f.Sync())
	g, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	say("new file of that name", err)
	_, err = g.Write([]byte("new"))
	say("write new", err)
	say("close new", g.Close())
	n, _ = f.ReadAt(b, 0)
	fmt.Printf("read %q\n", b[:n])
	say("close", f.Close())
	fmt.Println(entries(dir))
	say("rmdir full", unix.Rmdir(dir))
	say("unlink new", os.Remove(p))
	fmt.Println(entries(dir))
	return nil
}

// renamedOver uses a file whose name was taken by another one.
func renamedOver(dir string) error {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.WriteFile(a, []byte("old a"), 0o644), os.WriteFile(b, []byte("new b"), 0o600)); err != nil {
		return err
	}
	f, err := os.OpenFile(a, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	say("rename", os.Rename(b, a))
	buf := make([]byte, 10)
	n, _ := f.ReadAt(buf, 0)
	fmt.Printf("open file %q\n", buf[:n])
	_, err = f.WriteAt([]byte("OLD"), 0)
	say("write", err)
	n, _ = f.ReadAt(buf, 0)
	fmt.Printf("open file %q\n", buf[:n])
	got, err := os.ReadFile(a)
	fmt.Printf("by name %q %s\n", got, errno(err))
	say("close", f.Close())
	fmt.Println(entries(dir))
	// A reader keeps finding the name while it is renamed over.
	missing := 0
	for i := range 200 {
		if err := os.WriteFile(b, []byte(strconv.Itoa(i)), 0o644); err != nil {
			return err
		}
		if err := os.Rename(b, a); err != nil {
			return err
		}
		if _, err := os.ReadFile(a); err != nil {
			missing++
		}
	}
	fmt.Printf("missing %d, at last %s\n", missing, must(os.ReadFile(a)))
	return nil
}

func must(b []byte, err error) string {
	if err != nil {
		return errno(err)
	}
	return string(b)
}

// names tries names at the edges.
func names(dir string) error {
	odd := append(oddNames(), "\xff\xfe invalid utf-8", strings.Repeat("n", 256), strings.Repeat("ü", 128), "")
	for _, n := range odd {
		p := dir + "/" + n
		f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			f.Close()
		}
		fmt.Printf("%.20q %d: %s\n", n, len(n), errno(err))
	}
	l := entries(dir)
	sort.Strings(l)
	fmt.Printf("%d %q\n", len(l), l)
	failed := 0
	for _, n := range l {
		q := filepath.Join(dir, "renamed")
		if err := errors.Join(os.Rename(dir+"/"+n, q), os.Rename(q, dir+"/"+n), os.Remove(dir+"/"+n)); err != nil {
			failed++
			fmt.Printf("%q: %v\n", n, err)
		}
	}
	fmt.Println(failed, entries(dir))
	return nil
}

// links makes links of both kinds, and what links must not do.
func links(dir string) error {
	at := func(n string) string { return filepath.Join(dir, n) }
	if err := errors.Join(os.WriteFile(at("f"), []byte("one"), 0o644), os.Mkdir(at("d"), 0o755)); err != nil {
		return err
	}
	nlink := func(n string) int {
		var st unix.Stat_t
		if err := unix.Lstat(at(n), &st); err != nil {
			return -1
		}
		return int(st.Nlink)
	}
	for i := range 20 {
		if err := os.Link(at("f"), at(fmt.Sprintf("d/l%d", i))); err != nil {
			return err
		}
	}
	fmt.Println("links", nlink("f"), nlink("d/l7"))
	say("write through a link", os.WriteFile(at("d/l3"), []byte("two"), 0o644))
	fmt.Println(must(os.ReadFile(at("f"))))
	say("link exists", os.Link(at("f"), at("d/l1")))
	say("link to a directory", os.Link(at("d"), at("e")))
	say("link to nothing", os.Link(at("x"), at("e")))
	say("rename onto a link of itself", os.Rename(at("f"), at("d/l2")))
	fmt.Println("links", nlink("f"), nlink("d/l2"))
	say("unlink", os.Remove(at("f")))
	fmt.Println("links", nlink("d/l2"), must(os.ReadFile(at("d/l2"))))
	for _, to := range []string{"d/l0", "/etc", "", strings.Repeat("a", 1000), strings.Repeat("b", 4095), strings.Repeat("c", 4096), "ünï\ncode"} {
		_ = os.Remove(at("s"))
		err := os.Symlink(to, at("s"))
		got, rerr := os.Readlink(at("s"))
		fmt.Printf("symlink %d: %s, %s %t\n", len(to), errno(err), errno(rerr), got == to)
	}
	_ = os.Remove(at("s"))
	say("loop", os.Symlink("s", at("s")))
	_, err := os.Stat(at("s"))
	say("stat loop", err)
	say("fifo", unix.Mkfifo(at("p"), 0o600))
	say("socket", unix.Mknod(at("k"), unix.S_IFSOCK|0o600, 0))
	say("device", unix.Mknod(at("c"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	f, err := os.OpenFile(at("c"), os.O_WRONLY, 0)
	say("open device", err)
	if err == nil {
		_, err = f.Write([]byte("gone"))
		say("write device", err)
		f.Close()
	}
	return nil
}

// modes changes modes and owners, and does as others what they may not.
func modes(dir string) error {
	p := filepath.Join(dir, "f")
	if err := errors.Join(os.WriteFile(p, []byte("x"), 0o644), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	show := func(what string, err error) {
		var st unix.Stat_t
		if serr := unix.Stat(p, &st); serr != nil {
			err = serr
		}
		fmt.Printf("%s: %s, mode %o owner %d:%d\n", what, errno(err), st.Mode, st.Uid, st.Gid)
	}
	show("chmod 6755", unix.Chmod(p, 0o6755))
	show("chown", os.Chown(p, 1001, 1002))
	show("chmod 4000", unix.Chmod(p, 0o4000))
	show("chown group", os.Chown(p, -1, 77777))
	show("chmod 666", unix.Chmod(p, 0o666))
	unix.Umask(0o027)
	d := filepath.Join(dir, "d")
	say("mkdir", os.Mkdir(d, 0o777))
	st, err := os.Stat(d)
	if err != nil {
		return err
	}
	fmt.Println("umask", st.Mode())
	return nil
}

// dirs makes, renames and removes directories.
func dirs(dir string) error {
	at := func(n string) string { return filepath.Join(dir, n) }
	say("mkdir", os.Mkdir(at("a"), 0o755))
	say("again", os.Mkdir(at("a"), 0o755))
	say("no parent", os.Mkdir(at("x/y"), 0o755))
	say("below", os.MkdirAll(at("a/b/c"), 0o755))
	say("rmdir full", unix.Rmdir(at("a")))
	say("unlink directory", unix.Unlink(at("a")))
	say("into itself", os.Rename(at("a"), at("a/b/d")))
	say("rename", os.Rename(at("a/b"), at("e")))
	if err := os.WriteFile(at("f"), nil, 0o644); err != nil {
		return err
	}
	say("directory over file", unix.Rename(at("e"), at("f")))
	say("file over directory", unix.Rename(at("f"), at("e")))
	say("over a full directory", unix.Rename(at("a"), at("e")))
	say("over an empty one", unix.Rename(at("e"), at("a")))
	say("rmdir file", unix.Rmdir(at("f")))
	say("below a file", os.Mkdir(at("f/g"), 0o755))
	fmt.Println(entries(dir), entries(at("a")))
	// Names made and removed while the directory is read: those that stay are each seen once.
	for i := range 500 {
		if err := os.WriteFile(at(fmt.Sprintf("a/%04d", i)), nil, 0o644); err != nil {
			return err
		}
	}
	f, err := os.Open(at("a"))
	if err != nil {
		return err
	}
	defer f.Close()
	seen := make(map[string]int)
	for i := 0; ; i++ {
		l, err := f.Readdirnames(10)
		for _, n := range l {
			seen[n]++
		}
		if err != nil {
			break
		}
		// Only names that were seen go.
		if err := os.Remove(at("a/" + l[0])); err != nil && l[0] != "c" {
			return err
		}
	}
	twice := 0
	for _, n := range seen {
		if n > 1 {
			twice++
		}
	}
	fmt.Printf("seen %d, twice %d\n", len(seen), twice)
	return nil
}
