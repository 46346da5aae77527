package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

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
