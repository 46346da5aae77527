package auth

import (
	"errors"
	"fmt"
	"syscall"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// What can go wrong in an authentication. An [Error] wraps one of these.
var (
	// ErrNoKey: nothing gives a key for the entity.
	ErrNoKey = errors.New("no key for this user was found")
	// ErrRefused: the monitors do not let the entity in. Monitors give one
	// answer to a wrong key, an unknown user and one without monitor caps.
	ErrRefused = errors.New("monitor refused: wrong key, unknown user, or user without mon caps")
	// ErrMonitor: the peer does not know the entity's key, thus is no monitor
	// of the cluster that the key is for.
	ErrMonitor = errors.New("peer does not know this user's key: not a monitor of this user's cluster")
	// ErrNoTicket: there is no valid ticket for this kind of daemon, either
	// not yet or not any more. It passes once the monitor gave one.
	ErrNoTicket = errors.New("no ticket for this kind of daemon yet")
	// ErrTicketRefused: a daemon did not accept a ticket. The ticket was
	// dropped, a new one is wanted; try again.
	ErrTicketRefused = errors.New("daemon refused the ticket; a new one was asked for")
	// ErrDenied: a daemon did not accept a ticket that was made after it had
	// refused another. It has no caps for this kind of daemon, or they do not
	// agree about the keys that tickets are sealed with.
	ErrDenied = errors.New("daemon refused a fresh ticket: user without caps for it, or daemon out of touch with the monitors")
	// ErrMethod: both sides have no authentication method, or no mode of
	// connection, in common.
	ErrMethod = errors.New("no common authentication method")
	// ErrUnavailable: the peer could not authenticate anybody just now.
	ErrUnavailable = errors.New("peer cannot authenticate just now")
	// ErrProtocol: the peer said what makes no sense.
	ErrProtocol = errors.New("peer broke the authentication protocol")
	// ErrSuperseded: another session with a monitor was established first and
	// gave the client its id. Use that one.
	ErrSuperseded = errors.New("another session with a monitor was first")
)

// Error says which entity failed to authenticate to which kind of daemon.
type Error struct {
	Entity denc.EntityName
	Peer   denc.EntityType
	Errno  syscall.Errno // that the peer gave, or 0
	Err    error         // one of the Err variables, perhaps with the cause

	passing bool // of ErrDenied: the daemon let the entity in before
}

// Error names the entity, the peer and the cause.
func (e *Error) Error() string {
	s := fmt.Sprintf("auth: %v to %v: %v", e.Entity, e.Peer, e.Err)
	if e.Errno != 0 {
		s += fmt.Sprintf(" (%v)", e.Errno)
	}
	return s
}

// Unwrap returns the cause, and the errno if there is one. Errors that trying
// again does not help also match [msgr.ErrPermanent]; [ErrDenied] does so only
// if daemons of that kind never let the entity in.
func (e *Error) Unwrap() []error {
	errs := []error{e.Err}
	if e.Errno != 0 {
		errs = append(errs, e.Errno)
	}
	if e.passing {
		return errs
	}
	for _, p := range []error{ErrNoKey, ErrRefused, ErrMonitor, ErrDenied, ErrMethod} {
		if errors.Is(e.Err, p) {
			return append(errs, msgr.ErrPermanent)
		}
	}
	return errs
}
