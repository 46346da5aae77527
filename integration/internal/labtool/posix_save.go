package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// save is how editors save: a new file, its times and mode, a rename over the old one.
func save(dir string) error { return saveRounds(dir, false) }

// backup is save with the old version kept under a second name, a hard link made before the rename.
func backup(dir string) error { return saveRounds(dir, true) }

func saveRounds(dir string, link bool) error {
	p, tmp, bak := filepath.Join(dir, "doc"), filepath.Join(dir, ".doc.tmp"), filepath.Join(dir, "doc~")
	if err := os.WriteFile(p, []byte("version 0"), 0o640); err != nil {
		return err
	}
	for i := range 50 {
		f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f, "version %d", i+1); err != nil {
			return err
		}
		at := epoch.Add(time.Duration(i) * time.Second)
		for _, s := range []struct {
			what string
			do   func() error
		}{
			{"chmod", func() error { return f.Chmod(0o640) }},
			{"fsync", f.Sync},
			{"close", f.Close},
			{"times", func() error { return os.Chtimes(tmp, at, at) }},
			{"backup", func() error {
				if !link {
					return nil
				}
				if err := os.Remove(bak); err != nil && i > 0 {
					return fmt.Errorf("round %d: the older one: %w", i, err)
				}
				return os.Link(p, bak)
			}},
			{"rename", func() error { return os.Rename(tmp, p) }},
		} {
			if err := s.do(); err != nil {
				return fmt.Errorf("%s: %w", s.what, err)
			}
		}
		st, err := os.Stat(p)
		if err != nil {
			return err
		}
		if got := must(os.ReadFile(p)); got != fmt.Sprintf("version %d", i+1) || !st.ModTime().Equal(at) || st.Mode() != 0o640 {
			fmt.Printf("save %d: %q %v %v\n", i, got, st.ModTime().UTC(), st.Mode())
		}
	}
	fmt.Println(entries(dir), must(os.ReadFile(p)))
	if link {
		fmt.Println(must(os.ReadFile(bak)))
	}
	return nil
}
