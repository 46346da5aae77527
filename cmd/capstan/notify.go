package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// notify tells systemd about a change of state (sd_notify(3)): a datagram to
// the socket that $NOTIFY_SOCKET names. Without systemd it does nothing.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if path[0] == '@' { // abstract socket
		path = "\x00" + path[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("sd_notify: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("sd_notify: %w", err)
	}
	return nil
}

// reloading is the state that begins a reload; systemd wants the monotonic
// time with it.
func reloading() string {
	return "RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(monotonicMicros(), 10)
}

// watchdogInterval is how often systemd wants a sign of life, halved as
// sd_watchdog_enabled(3) advises; 0 if it wants none.
func watchdogInterval() time.Duration {
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 {
		return 0
	}
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond / 2
}
