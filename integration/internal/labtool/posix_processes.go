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
