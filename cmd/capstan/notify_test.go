package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestNotifyWritesToTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	for _, state := range []string{"READY=1", reloading()} {
		if err := notify(state); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 256)
		n, err := l.Read(buf)
		if err != nil || string(buf[:n]) != state {
			t.Errorf("read %q, %v; want %q", buf[:n], err, state)
		}
	}
	if !strings.Contains(reloading(), "MONOTONIC_USEC=") || strings.HasSuffix(reloading(), "=0") {
		t.Errorf("reloading: %q", reloading())
	}
}

func TestNotifyWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := notify("READY=1"); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "absent"))
	if err := notify("READY=1"); err == nil {
		t.Error("no error although nobody listens")
	}
}

func TestWatchdogInterval(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"x", "", 0}, {"-1", "", 0},
		{"2000000", "", time.Second},
		{"2000000", strconv.Itoa(os.Getpid()), time.Second},
		{"2000000", "1", 0},
	} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		if got := watchdogInterval(); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.usec, c.pid, got, c.want)
		}
	}
}
