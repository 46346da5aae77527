package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// filled makes the file of a closed store with many pages.
func filled(t *testing.T) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	for i := range 600 {
		put(t, s, fmt.Sprintf("key %d", i), strings.Repeat("v", 100))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

// use does what a Volume does with a store, and must not panic or hang.
func use(t *testing.T, path string) (opened bool) {
	t.Helper()
	s, err := Open(path, Options{Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return false
	}
	for i := range 600 {
		s.Get(fmt.Appendf(nil, "key %d", i))
	}
	put(t, s, "key 5", "new")
	put(t, s, "key 599", "")
	err = s.Flush()
	want(t, s, "key 5", "new") // whatever the file holds
	if err2 := s.Flush(); err != nil && err2 == nil {
		t.Error("the second Flush forgot what the first could not move")
	}
	if err2 := s.Close(); errors.Is(err, ErrDamaged) && !errors.Is(err2, ErrDamaged) {
		t.Errorf("Close: %v", err2)
	}
	return true
}

// TestDamagedPage: whichever page is overwritten, the process goes on.
func TestDamagedPage(t *testing.T) {
	path, content := filled(t)
	pages := len(content) / os.Getpagesize()
	if pages < 10 {
		t.Fatalf("%d pages", pages)
	}
	for page := range pages {
		b := append([]byte(nil), content...)
		at := page * os.Getpagesize()
		for i := range b[at : at+os.Getpagesize()] {
			b[at+i] = 0xa5
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		use(t, path)
	}
}

// TestCutFile: a file that is not whole is refused, and its lock is not kept.
func TestCutFile(t *testing.T) {
	path, content := filled(t)
	if err := os.WriteFile(path, content[:len(content)/3/4096*4096], 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Open(path, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("a third of a file: %v", err)
		}
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if !use(t, path) {
		t.Error("the whole file is refused")
	}
}

// TestFileCutWhileOpen: pages that are gone from under the mapping, as with a
// disk that fails, are an error and no SIGBUS.
func TestFileCutWhileOpen(t *testing.T) {
	path, _ := filled(t)
	s, err := Open(path, Options{Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Get([]byte("key 7")); ok {
		t.Error("read from nothing")
	}
	put(t, s, "key 7", "new")
	if err := s.Flush(); !errors.Is(err, ErrDamaged) {
		t.Errorf("Flush: %v", err)
	}
	want(t, s, "key 7", "new")
	if err := s.Close(); !errors.Is(err, ErrDamaged) {
		t.Errorf("Close: %v", err)
	}
}
