package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"capstan/export"
)

// Files of a state directory.
const (
	lockFile     = "lock"
	nameFile     = "name"
	handleKeys   = "handle.keys"
	maxStateName = 128
)

// lockStateDir makes the directory if it does not exist and takes it for this
// process; the lock goes with the file returned.
func lockStateDir(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("server.state_dir: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server.state_dir: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("server.state_dir %s: another capstan uses it", dir)
		}
		return nil, fmt.Errorf("server.state_dir %s: lock: %w", dir, err)
	}
	return f, nil
}

// StateName returns the name that a state directory has for ever, making it up
// the first time. Engines tell by it what an earlier process of the same
// gateway left behind elsewhere.
func StateName(dir string) (string, error) {
	path := filepath.Join(dir, nameFile)
	b, err := os.ReadFile(path)
	if err == nil {
		name := strings.TrimSpace(string(b))
		if name == "" || len(name) > maxStateName {
			return "", fmt.Errorf("%s: not a name", path)
		}
		return name, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("server.state_dir: %w", err)
	}
	tmp, err := os.CreateTemp(dir, nameFile+"-*")
	if err != nil {
		return "", fmt.Errorf("server.state_dir: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = fmt.Fprintln(tmp, uuid.NewString())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return "", fmt.Errorf("server.state_dir: %w", err)
	}
	// A link does not replace what another opener made meanwhile.
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("server.state_dir: %w", err)
	}
	return StateName(dir)
}

// openState takes the state directory and reads the keys in it.
func (s *Server) openState() (err error) {
	if s.opt.StateDir == "" {
		s.keys = export.RandomKeyRing()
		return nil
	}
	if s.stateLock, err = lockStateDir(s.opt.StateDir); err != nil {
		return err
	}
	s.keys, err = export.LoadKeyRing(filepath.Join(s.opt.StateDir, handleKeys))
	return err
}
