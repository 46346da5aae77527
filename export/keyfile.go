package export

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The key file is text: a line with what it is and its format version, then a
// key on each line, the current one first. Lines that begin with # are
// comments.
const (
	keyFileTitle  = "capstan-handle-keys"
	keyFileFormat = 1
)

// LoadKeyRing reads the key ring kept in the file at path, and makes the file
// with one random key if there is none. The file is written whole or not at
// all, is on disk when LoadKeyRing returns, and is readable for its owner only;
// one that others may read or write is refused.
func LoadKeyRing(path string) (*KeyRing, error) {
	r, err := readKeyFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if err := makeKeyFile(path, NewKey(1)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// Read it back also when it is ours: another process may have been first.
	return readKeyFile(path)
}

func readKeyFile(path string) (*KeyRing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("handle keys: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("handle keys: %w", err)
	}
	// A group of administrators may read it, nobody else may anything.
	if st.Mode().Perm()&0o027 != 0 {
		return nil, fmt.Errorf("handle keys: %s has mode %04o: others must not read it, nor the group write it", path, st.Mode().Perm())
	}
	var keys []Key
	sc := bufio.NewScanner(f)
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimSpace(sc.Text())
		if line == 1 {
			if err := checkKeyFileTitle(text); err != nil {
				return nil, fmt.Errorf("handle keys: %s: %w", path, err)
			}
			continue
		}
		if text == "" || text[0] == '#' {
			continue
		}
		k, err := ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
		keys = append(keys, k)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("handle keys: %s: %w", path, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("handle keys: %s holds no key", path)
	}
	r, err := NewKeyRing(keys[0], keys[1:]...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func checkKeyFileTitle(line string) error {
	version, ok := strings.CutPrefix(line, keyFileTitle+" ")
	n, err := strconv.Atoi(version)
	if !ok || err != nil || n < 1 {
		return errors.New("not a file of handle keys")
	}
	if n > keyFileFormat {
		return fmt.Errorf("format %d is newer than this capstan, which knows up to %d", n, keyFileFormat)
	}
	return nil
}

// makeKeyFile writes a new key file. The error is [fs.ErrExist] if it is there
// by now: the file gets its name by a link, which replaces nothing.
func makeKeyFile(path string, k Key) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".handle-keys-*") // mode 0600
	if err != nil {
		return fmt.Errorf("handle keys: %w", err)
	}
	defer func() {
		f.Close()
		os.Remove(f.Name())
		if err != nil {
			err = fmt.Errorf("handle keys: %w", err)
		}
	}()
	if _, err := fmt.Fprintf(f, "%s %d\n%s\n", keyFileTitle, keyFileFormat, k.Text()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
