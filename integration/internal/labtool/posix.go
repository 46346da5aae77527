package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// entries lists a directory's names.
func entries(dir string) []string {
	l, err := os.ReadDir(dir)
	if err != nil {
		return []string{errno(err)}
	}
	var n []string
	for _, e := range l {
		n = append(n, e.Name())
	}
	return n
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

// workers runs processes of this program and returns their outputs.
func workers(n int, role, arg string) ([]string, error) {
	cmds := make([]*exec.Cmd, n)
	outs := make([]bytes.Buffer, n)
	for i := range cmds {
		cmds[i] = exec.Command("/proc/self/exe", "posix", "worker", role, arg)
		cmds[i].Env = append(os.Environ(), "WORKER="+strconv.Itoa(i))
		cmds[i].Stdout = &outs[i]
		cmds[i].Stderr = os.Stderr
		if err := cmds[i].Start(); err != nil {
			return nil, err
		}
	}
	var errs []error
	l := make([]string, n)
	for i := range cmds {
		errs = append(errs, cmds[i].Wait())
		l[i] = strings.TrimSpace(outs[i].String())
	}
	return l, errors.Join(errs...)
}

func worker(role, arg string) error {
	me := os.Getenv("WORKER")
	switch role {
	case "excl":
		won := 0
		for i := range 50 {
			f, err := os.OpenFile(filepath.Join(arg, strconv.Itoa(i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if err == nil {
				won++
				f.Close()
			} else if !errors.Is(err, os.ErrExist) {
				return err
			}
		}
		fmt.Println(won)
		return nil
	case "append":
		for i := range 100 {
			if err := lockedAppend(arg, fmt.Sprintf("writer %s record %03d\n", me, i)); err != nil {
				return err
			}
		}
		return nil
	case "lock":
		f, err := os.OpenFile(arg, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		for _, at := range []int64{0, 50, 99, 100, 200} {
			l := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 10}
			fmt.Printf("%d %s, ", at, errno(unix.FcntlFlock(f.Fd(), unix.F_SETLK, &l)))
		}
		l := unix.Flock_t{Type: unix.F_WRLCK, Start: 0, Len: 10}
		err = unix.FcntlFlock(f.Fd(), unix.F_GETLK, &l)
		fmt.Printf("conflict type %d start %d len %d %s\n", l.Type, l.Start, l.Len, errno(err))
		return nil
	}
	return fmt.Errorf("role %s", role)
}

func lockedAppend(path, record string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	l := unix.Flock_t{Type: unix.F_WRLCK}
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &l)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return fmt.Errorf("lock: %w", err)
		}
	}
	if _, err := f.Write([]byte(record)); err != nil {
		return err
	}
	l.Type = unix.F_UNLCK
	return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &l)
}

// excl lets processes race for names: each is won once.
func excl(dir string) error {
	l, err := workers(8, "excl", dir)
	if err != nil {
		return err
	}
	sum := 0
	for _, s := range l {
		n, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		sum += n
	}
	fmt.Printf("8 processes, 50 names, %d won, %d entries\n", sum, len(entries(dir)))
	_, err = os.OpenFile(filepath.Join(dir, "0"), os.O_CREATE|os.O_EXCL, 0o644)
	say("again", err)
	say("symlink", os.Symlink("nowhere", filepath.Join(dir, "link")))
	_, err = os.OpenFile(filepath.Join(dir, "link"), os.O_CREATE|os.O_EXCL, 0o644)
	say("through a symlink", err)
	f, err := os.OpenFile(filepath.Join(dir, "ro"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o444)
	say("read-only and written", err)
	_, err = f.Write([]byte("x"))
	say("write", err)
	say("close", f.Close())
	st, err := os.Stat(filepath.Join(dir, "ro"))
	if err != nil {
		return err
	}
	age := time.Since(st.ModTime())
	fmt.Printf("mode %v size %d fresh %t\n", st.Mode(), st.Size(), age > -time.Minute && age < time.Minute)
	return nil
}

// appendLock lets processes append records under a lock: each record is there once, whole.
func appendLock(dir string) error {
	p := filepath.Join(dir, "log")
	if _, err := workers(4, "append", p); err != nil {
		return err
	}
	b, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	l := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	sort.Strings(l)
	bad := 0
	for i, s := range l {
		if s != fmt.Sprintf("writer %d record %03d", i/100, i%100) {
			bad++
		}
	}
	fmt.Printf("size %d, %d records, %d wrong\n", len(b), len(l), bad)
	return nil
}

// save is how editors save: a new file, its times and mode, a rename over the old one.
func save(dir string) error { return saveRounds(dir, false) }

// backup is save with the old version kept under a second name, a hard link made before the rename.
func backup(dir string) error { return saveRounds(dir, true) }

func saveRounds(dir string, link bool) error {
	p, tmp, bak := filepath.Join(dir, "doc"), filepath.Join(dir, ".doc.tmp"), filepath.Join(dir, "doc~")
	if err := os.WriteFile(p, []byte("version 0"), 0o640); err != nil {
		return err
	}
	for i := range 50 {
		f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f, "version %d", i+1); err != nil {
			return err
		}
		at := epoch.Add(time.Duration(i) * time.Second)
		for _, s := range []struct {
			what string
			do   func() error
		}{
			{"chmod", func() error { return f.Chmod(0o640) }},
			{"fsync", f.Sync},
			{"close", f.Close},
			{"times", func() error { return os.Chtimes(tmp, at, at) }},
			{"backup", func() error {
				if !link {
					return nil
				}
				if err := os.Remove(bak); err != nil && i > 0 {
					return fmt.Errorf("round %d: the older one: %w", i, err)
				}
				return os.Link(p, bak)
			}},
			{"rename", func() error { return os.Rename(tmp, p) }},
		} {
			if err := s.do(); err != nil {
				return fmt.Errorf("%s: %w", s.what, err)
			}
		}
		st, err := os.Stat(p)
		if err != nil {
			return err
		}
		if got := must(os.ReadFile(p)); got != fmt.Sprintf("version %d", i+1) || !st.ModTime().Equal(at) || st.Mode() != 0o640 {
			fmt.Printf("save %d: %q %v %v\n", i, got, st.ModTime().UTC(), st.Mode())
		}
	}
	fmt.Println(entries(dir), must(os.ReadFile(p)))
	if link {
		fmt.Println(must(os.ReadFile(bak)))
	}
	return nil
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

// times sets and reads times.
func times(dir string) error {
	p := filepath.Join(dir, "f")
	if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
		return err
	}
	for _, ns := range []int64{0, 1e9, 1e9 + 1, 2e9 - 1, epoch.UnixNano(), 4102444800e9 + 5} {
		t := unix.NsecToTimespec(ns)
		err := unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{t, t}, 0)
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return err
		}
		fmt.Printf("set %d: %s, mtime %d atime %d\n", ns, errno(err), st.Mtim.Nano(), st.Atim.Nano())
	}
	return moves(p, epoch)
}

// future writes to a file whose times are ahead of the clock.
func future(dir string) error {
	p := filepath.Join(dir, "f")
	if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
		return err
	}
	return moves(p, time.Unix(4102444800, 0))
}

// moves sets the times of p, and says which of them a write and a change of mode move.
func moves(p string, at time.Time) error {
	if err := os.Chtimes(p, at, at); err != nil {
		return err
	}
	var before, after unix.Stat_t
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err := unix.Fstat(int(f.Fd()), &before); err != nil {
		return err
	}
	// File systems take their times from a clock that ticks a hundred times a second.
	const tick = 50 * time.Millisecond
	time.Sleep(tick)
	if _, err := f.Write([]byte("y")); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), unix.Fstat(int(f.Fd()), &after), f.Close()); err != nil {
		return err
	}
	fmt.Printf("write moves mtime %t ctime %t\n", after.Mtim != before.Mtim, after.Ctim.Nano() > before.Ctim.Nano())
	before = after
	time.Sleep(tick)
	if err := errors.Join(os.Chmod(p, 0o600), unix.Stat(p, &after)); err != nil {
		return err
	}
	fmt.Printf("chmod moves mtime %t ctime %t\n", after.Mtim != before.Mtim, after.Ctim.Nano() > before.Ctim.Nano())
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

// locks takes byte-range locks against another process.
func locks(dir string) error {
	p := filepath.Join(dir, "f")
	if err := os.WriteFile(p, make([]byte, 300), 0o644); err != nil {
		return err
	}
	f, err := os.OpenFile(p, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	set := func(what string, typ int16, start, length int64) {
		l := unix.Flock_t{Type: typ, Start: start, Len: length}
		say(what, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &l))
		out, err := workers(1, "lock", p)
		fmt.Println("other process:", strings.Join(out, ""), errno(err))
	}
	set("write lock 0-99", unix.F_WRLCK, 0, 100)
	set("unlock 40-69", unix.F_UNLCK, 40, 30)
	set("read lock 0-9", unix.F_RDLCK, 0, 10)
	set("write lock 100 to the end", unix.F_WRLCK, 100, 0)
	set("unlock all", unix.F_UNLCK, 0, 0)
	return nil
}
