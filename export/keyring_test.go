package export

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestParseKey(t *testing.T) {
	hex := "000102030405060708090a0b0c0d0eff"
	k, err := ParseKey("200:" + hex)
	if err != nil || k.ID != 200 || k.Secret[15] != 0xff || k.Text() != "200:"+hex {
		t.Errorf("%v, %v", k.Text(), err)
	}
	for _, bad := range []string{
		"", ":", "1", hex, ":" + hex, "256:" + hex, "-1:" + hex, "x:" + hex, "1:" + hex[1:], "1:" + hex + "00",
		"1:zz" + hex[2:], "1:" + strings.Repeat("0", 32), "1: " + hex,
	} {
		_, err := ParseKey(bad)
		if err == nil {
			t.Errorf("%q accepted", bad)
		} else if strings.Contains(err.Error(), hex[4:20]) {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
	if s := fmt.Sprintf("%v %s %+v", k, k, k); strings.Contains(s, hex[4:20]) || strings.Contains(s, "255") {
		t.Errorf("printing tells the secret: %s", s)
	}
}

func TestNewKeyRing(t *testing.T) {
	if _, err := NewKeyRing(testKey(1, 1), testKey(2, 1), testKey(1, 3)); err == nil {
		t.Error("a key id there twice")
	}
	if _, err := NewKeyRing(testKey(1, 1), Key{ID: 2}); err == nil {
		t.Error("a key of zeros")
	}
	if a, b := RandomKeyRing(), RandomKeyRing(); *a.keys[a.current] == *b.keys[b.current] {
		t.Error("two random keys are equal")
	}
}

func TestLoadKeyRing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	first, err := LoadKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	again, err := LoadKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	if *first.keys[1] != *again.keys[1] || first.current != 1 {
		t.Error("another key the second time")
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLoadKeyRingTogether starts several gateways on one new file.
func TestLoadKeyRingTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	rings := make([]*KeyRing, 8)
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			r, err := LoadKeyRing(path)
			if err != nil {
				t.Error(err)
				return
			}
			rings[i] = r
		})
	}
	wg.Wait()
	for _, r := range rings {
		if r != nil && *r.keys[1] != *rings[0].keys[1] {
			t.Error("two gateways, two keys")
		}
	}
}

func TestLoadKeyRingFile(t *testing.T) {
	key1, key2 := testKey(3, 1).Text(), testKey(4, 9).Text()
	title := "capstan-handle-keys 1\n"
	tests := []struct {
		name, text string
		mode       fs.FileMode
		want       string // part of the error
	}{
		{"good", title + "# the new one\n" + key1 + "\n\n" + key2 + "\n", 0o600, ""},
		{"group may read", title + key1, 0o640, ""},
		{"others may read", title + key1, 0o604, "mode 0604"},
		{"group may write", title + key1, 0o660, "mode 0660"},
		{"newer", "capstan-handle-keys 2\nanything\n", 0o600, "format 2 is newer"},
		{"older than any", "capstan-handle-keys 0\n" + key1, 0o600, "not a file of handle keys"},
		{"something else", "root:x:0:0\n", 0o600, "not a file of handle keys"},
		{"empty", "", 0o600, "holds no key"},
		{"no keys", title + "# none\n", 0o600, "holds no key"},
		{"bad key", title + key1 + "\n4:12\n", 0o600, ":3: handle key 4"},
		{"twice", title + key1 + "\n" + key1 + "\n", 0o600, "key 3 is there twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			r, err := LoadKeyRing(path)
			if tt.want == "" {
				if err != nil || r.current != 3 {
					t.Errorf("%v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if text, _ := os.ReadFile(path); string(text) != tt.text {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := LoadKeyRing(filepath.Join(t.TempDir(), "missing", "keys")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}
