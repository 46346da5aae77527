package mon

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrClosed is what waits end with after [Client.Close].
	ErrClosed = errors.New("mon: client closed")
	// ErrOutcomeUnknown: the connection broke after a command was sent and
	// before it was answered. It may or may not have been carried out.
	ErrOutcomeUnknown = errors.New("connection lost before the answer: the command may or may not have been carried out")
	// ErrWrongCluster: the monitors are of another cluster than the one asked
	// for.
	ErrWrongCluster = errors.New("monitor belongs to another cluster")
	// ErrNoDaemon: there is no such daemon, or it is not up.
	ErrNoDaemon = errors.New("no such daemon is up")
)

// CommandError is a command that was answered with an error.
type CommandError struct {
	Target string // mon, mgr, osd.0
	Prefix string // of the command
	Errno  syscall.Errno
	Status string // what the daemon says about it; may be empty
}

// Error names the command, and what was answered.
func (e *CommandError) Error() string {
	s := fmt.Sprintf("%s: %q: %v", e.Target, e.Prefix, e.Errno)
	if e.Status != "" {
		s += ": " + e.Status
	}
	if e.Errno == syscall.EACCES || e.Errno == syscall.EPERM {
		s += " (do the user's caps allow it?)"
	}
	return s
}

// Unwrap returns the errno.
func (e *CommandError) Unwrap() error { return e.Errno }
