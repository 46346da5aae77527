package export

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestStatusOf(t *testing.T) {
	tests := []struct {
		err  error
		want Status
	}{
		{nil, OK},
		{ErrStale, ErrStale},
		{Wrap("lookup", "x", ErrStale), ErrStale},
		{fmt.Errorf("open: %w", Wrap("open", "x", syscall.EDQUOT)), ErrDQuot},
		{&Error{Op: "read", Status: ErrDelay, Err: syscall.EIO}, ErrDelay},
		{syscall.ENOTEMPTY, ErrNotEmpty},
		{Wrap("open", "x", syscall.ETXTBSY), ErrAccess},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENAMETOOLONG}, ErrNameTooLong},
		{fs.ErrNotExist, ErrNoEnt},
		{fs.ErrExist, ErrExist},
		{fs.ErrPermission, ErrAccess},
		{fs.ErrInvalid, ErrInval},
		{os.ErrClosed, ErrStale},
		{errors.ErrUnsupported, ErrNotSupp},
		{context.Canceled, ErrCanceled},
		{context.DeadlineExceeded, ErrDelay},
		{syscall.Errno(9999), ErrIO},
		{errors.New("what is this"), ErrIO},
	}
	for _, tt := range tests {
		if got := StatusOf(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
	for errno, want := range errnoStatus {
		if got := StatusOf(Wrap("op", "on", errno)); got != want {
			t.Errorf("%v: %v, want %v", errno, got, want)
		}
	}
}

func TestStatusNames(t *testing.T) {
	seen := map[string]Status{}
	for s := OK; s <= ErrBadOwner; s++ {
		name := s.Error()
		if other, ok := seen[name]; ok || name == "" || name == fmt.Sprintf("status %d", uint8(s)) {
			t.Errorf("status %d is called %q, as is %d", uint8(s), name, uint8(other))
		}
		seen[name] = s
	}
	if got := Status(200).Error(); got != "status 200" {
		t.Error(got)
	}
}

func TestErrorText(t *testing.T) {
	err := Wrap("rename", "a", syscall.EXDEV)
	if !errors.Is(err, ErrXDev) || !errors.Is(err, syscall.EXDEV) || errors.Is(err, ErrNoEnt) {
		t.Errorf("%v does not say what it is", err)
	}
	if got, want := err.Error(), "rename a: cross-device link: invalid cross-device link"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Wrap("getattr", "", ErrStale).Error(), "getattr: stale file handle"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if Wrap("x", "y", nil) != nil {
		t.Error("nil became an error")
	}
}
