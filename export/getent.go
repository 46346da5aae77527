package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Getent asks a user database of the system: what getent(1) prints for key in
// database "passwd", "group" or "initgroups". [ErrNoEnt] says that key is not
// known.
type Getent func(ctx context.Context, database, key string) ([]byte, error)

// RunGetent is the [Getent] that runs getent(1), so that whatever the system's
// nsswitch.conf names counts, sssd and LDAP for instance. Where there is no
// getent, in a container that holds little else than capstan, it reads
// /etc/passwd and /etc/group.
func RunGetent(ctx context.Context, database, key string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "getent", database, key)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 {
		return nil, ErrNoEnt
	}
	if errors.Is(err, exec.ErrNotFound) {
		return readAccounts("/etc/passwd", "/etc/group", database, key)
	}
	if err != nil {
		return nil, fmt.Errorf("getent %s: %w", database, err)
	}
	return out, nil
}

// readAccounts answers as getent does from the two files.
func readAccounts(passwd, group, database, key string) ([]byte, error) {
	switch database {
	case "passwd":
		return findAccount(passwd, func(f []string) bool { return f[0] == key || len(f) > 2 && f[2] == key })
	case "group":
		return findAccount(group, func(f []string) bool { return f[0] == key || len(f) > 2 && f[2] == key })
	case "initgroups":
		out := []byte(key)
		err := eachAccount(group, func(line string, f []string) bool {
			if len(f) > 3 {
				for member := range strings.SplitSeq(f[3], ",") {
					if member == key {
						out = append(append(out, ' '), f[2]...)
						break
					}
				}
			}
			return true
		})
		return out, err
	}
	return nil, fmt.Errorf("unknown database %q", database)
}

func findAccount(file string, match func(fields []string) bool) (found []byte, err error) {
	err = eachAccount(file, func(line string, f []string) bool {
		if match(f) {
			found = []byte(line)
		}
		return found == nil
	})
	if err == nil && found == nil {
		err = ErrNoEnt
	}
	return found, err
}

// eachAccount calls do for every line of file until it returns false.
func eachAccount(file string, do func(line string, fields []string) bool) error {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20) // a group's line names all its members
	for sc.Scan() {
		if line := sc.Text(); line != "" && line[0] != '#' {
			if !do(line, strings.Split(line, ":")) {
				return nil
			}
		}
	}
	return sc.Err()
}

// account is a line of passwd or group: name:password:id[:gid...].
type account struct {
	name string
	id   uint32
	gid  uint32 // of passwd
}

func parseAccount(line []byte, user bool) (account, error) {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	f := strings.Split(string(line), ":")
	if len(f) < 3 || user && len(f) < 4 {
		return account{}, fmt.Errorf("getent: %d fields in a line of accounts", len(f))
	}
	id, err := strconv.ParseUint(f[2], 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("getent: %w", err)
	}
	a := account{name: f[0], id: uint32(id)}
	if user {
		gid, err := strconv.ParseUint(f[3], 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("getent: %w", err)
		}
		a.gid = uint32(gid)
	}
	return a, nil
}

// maxGroups is how many groups a user can have (NGROUPS_MAX of Linux).
const maxGroups = 65536

// parseInitgroups reads "name gid gid ..." after name, which may hold blanks.
func parseInitgroups(out []byte, name string) ([]uint32, error) {
	rest, ok := strings.CutPrefix(string(out), name)
	if !ok {
		return nil, errors.New("getent: initgroups answered for another user")
	}
	var groups []uint32
	for f := range strings.FieldsSeq(rest) {
		gid, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("getent: %w", err)
		}
		if len(groups) == maxGroups {
			return nil, errors.New("getent: too many groups")
		}
		groups = append(groups, uint32(gid))
	}
	return groups, nil
}
