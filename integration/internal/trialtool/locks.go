package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func lock(f *os.File, typ int16, start, n int64, wait bool) error {
	cmd := unix.F_SETLK
	if wait {
		cmd = unix.F_SETLKW
	}
	fl := unix.Flock_t{Type: typ, Whence: io.SeekStart, Start: start, Len: n}
	for {
		if err := unix.FcntlFlock(f.Fd(), cmd, &fl); err != unix.EINTR {
			return err
		}
	}
}

// appendLocked appends records of 47 bytes, each under a lock of the file that
// it takes and gives back, through a descriptor of its own.
func appendLocked(args []string) error {
	for i := range number(args[2]) {
		f, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		if err := lock(f, unix.F_WRLCK, 0, 0, true); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if _, err := fmt.Fprintf(f, "%-15s %06d %s\n", args[1], i, strings.Repeat("r", 23)); err != nil {
			return err
		}
		if err := lock(f, unix.F_UNLCK, 0, 0, true); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// control does what lines on standard input say and answers each with one
// line: "ok ...", or "error NAME".
//
//	open NAME r|w|rw|c    open a file as number 0, 1, ...; c creates it
//	lock N r|w START LEN try|wait
//	unlock N START LEN
//	test N r|w START LEN  who is in the way: "free", or type, start, length
//	write N OFF TEXT      and fsync
//	put N OFF TEXT        without fsync
//	read N OFF LEN
//	stat N                links, size, inode
//	close N
func control([]string) error {
	var files []*os.File
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		answer, err := step(&files, strings.Fields(in.Text()))
		var errno syscall.Errno
		switch {
		case errors.As(err, &errno):
			fmt.Println("error", unix.ErrnoName(errno))
		case err != nil:
			fmt.Println("error", err)
		default:
			fmt.Println(strings.TrimSpace("ok " + answer))
		}
	}
	return in.Err()
}

func step(files *[]*os.File, f []string) (string, error) {
	if len(f) < 2 {
		return "", errors.New("too few words")
	}
	if f[0] == "open" {
		flags := map[string]int{"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR, "c": os.O_RDWR | os.O_CREATE}[f[2]]
		file, err := os.OpenFile(f[1], flags, 0o644)
		if err != nil {
			return "", err
		}
		*files = append(*files, file)
		return fmt.Sprint(len(*files) - 1), nil
	}
	file := (*files)[number(f[1])]
	typ := func(s string) int16 {
		if s == "r" {
			return unix.F_RDLCK
		}
		return unix.F_WRLCK
	}
	wide := func(s string) int64 { return int64(number(s)) }
	switch f[0] {
	case "lock":
		return "", lock(file, typ(f[2]), wide(f[3]), wide(f[4]), f[5] == "wait")
	case "unlock":
		return "", lock(file, unix.F_UNLCK, wide(f[2]), wide(f[3]), true)
	case "test":
		fl := unix.Flock_t{Type: typ(f[2]), Start: wide(f[3]), Len: wide(f[4])}
		if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &fl); err != nil {
			return "", err
		}
		if fl.Type == unix.F_UNLCK {
			return "free", nil
		}
		return fmt.Sprint(map[int16]string{unix.F_RDLCK: "r", unix.F_WRLCK: "w"}[fl.Type], " ", fl.Start, " ", fl.Len), nil
	case "write", "put":
		if _, err := file.WriteAt([]byte(f[3]), wide(f[2])); err != nil {
			return "", err
		}
		if f[0] == "put" {
			return "", nil
		}
		return "", file.Sync()
	case "read":
		b := make([]byte, number(f[3]))
		n, err := file.ReadAt(b, wide(f[2]))
		if err == io.EOF {
			err = nil
		}
		return string(b[:n]), err
	case "stat":
		st, err := file.Stat()
		if err != nil {
			return "", err
		}
		sys := st.Sys().(*syscall.Stat_t)
		return fmt.Sprintln(sys.Nlink, sys.Size, sys.Ino), nil
	case "close":
		return "", file.Close()
	}
	return "", errors.New("unknown word " + f[0])
}

// busy reads and writes files under locks for a time and opens each anew once
// its descriptor has failed, as a program does that lost its locks. It prints
// one line for each descriptor that failed, and "rounds N" at the end. A
// failure right after a new open is not to be expected and ends it.
func busy(args []string) error {
	end := time.Now().Add(time.Duration(number(args[2])) * time.Second)
	type state struct {
		f      *os.File
		fresh  bool
		rounds int
	}
	files := make([]state, number(args[1]))
	name := func(i int) string { return filepath.Join(args[0], fmt.Sprintf("busy%d", i)) }
	use := func(f *os.File, i, round int) error {
		if err := lock(f, unix.F_WRLCK, 0, 100, true); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		line := fmt.Sprintf("%-40d", i*1_000_000+round)
		if _, err := f.WriteAt([]byte(line), 0); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("fsync: %w", err)
		}
		b := make([]byte, 40)
		if _, err := f.ReadAt(b, 0); err != nil || string(b) != line {
			return fmt.Errorf("read: %q, %w", b, err)
		}
		if round%3 == 0 { // else the lock stays
			if err := lock(f, unix.F_UNLCK, 0, 100, true); err != nil {
				return fmt.Errorf("unlock: %w", err)
			}
		}
		return nil
	}
	rounds := 0
	for time.Now().Before(end) {
		for i := range files {
			s := &files[i]
			if s.f == nil {
				f, err := os.OpenFile(name(i), os.O_CREATE|os.O_RDWR, 0o644)
				if err != nil {
					return err
				}
				s.f, s.fresh = f, true
			}
			if err := use(s.f, i, s.rounds); err != nil {
				fmt.Printf("failed %d %s %v\n", i, errnoName(err), err)
				if s.fresh && !errors.Is(err, unix.EIO) {
					return err
				}
				s.f.Close()
				s.f = nil
				continue
			}
			s.fresh = false
			s.rounds++
			rounds++
		}
	}
	for i := range files {
		if f := files[i].f; f != nil {
			if err := f.Close(); err != nil {
				fmt.Printf("failed %d %s close: %v\n", i, errnoName(err), err)
			}
		}
	}
	fmt.Println("rounds", rounds)
	return nil
}

func errnoName(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return "-"
}
