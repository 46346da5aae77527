package crush

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"capstan/cephfs/denc"
	"capstan/internal/testutil"
)

// FuzzMap decodes a map and maps with it: no input may panic, and none may make
// a mapping look at more than its limit.
func FuzzMap(f *testing.F) {
	maps, err := filepath.Glob("testdata/*.crush.gz")
	if err != nil {
		f.Fatal(err)
	}
	for i, path := range maps {
		if i%3 == 0 || strings.Contains(path, "msr") {
			f.Add(testutil.ReadGzip(f, path), uint32(i), uint8(4))
		}
	}
	weights := make([]uint32, 64)
	for i := range weights {
		weights[i] = uint32(i * 0x800)
	}
	f.Fuzz(func(t *testing.T, b []byte, x uint32, size uint8) {
		m, err := Decode(b)
		if err != nil {
			if e := (*denc.Error)(nil); !errors.As(err, &e) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		w := Work{Limit: 1 << 14}
		for rule := range min(len(m.Rules), 16) {
			for _, args := range []*ChooseArgs{nil, m.ChooseArgsFor(int64(rule))} {
				if n := len(m.Do(&w, rule, x, int(size), weights, args)); n > int(size) {
					t.Fatalf("%d items, asked for %d", n, size)
				}
				if over := -w.left; over > 2*len(b)+1000 {
					t.Fatalf("went on for %d items after its limit", over)
				}
			}
		}
		again, err := Decode(m.Encode(true))
		if err != nil {
			t.Fatalf("does not decode what it encoded: %v", err)
		}
		for rule := range min(len(m.Rules), 4) {
			a := format(m.Do(&w, rule, x, int(size), weights, nil))
			if b := format(again.Do(&w, rule, x, int(size), weights, nil)); a != b {
				t.Fatalf("rule %d: %s before, %s after encoding", rule, a, b)
			}
		}
	})
}
