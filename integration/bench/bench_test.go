package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the servers that it measures.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && serveIfAsked(os.Args[1:]) {
		return
	}
	os.Exit(m.Run())
}

// TestEveryRow measures everything for a moment and looks for every row.
func TestEveryRow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(file, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings{window: 20 * time.Millisecond, rounds: 1, files: 2000, log: io.Discard}
	if err := run(t.Context(), s, file); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if !strings.HasPrefix(text, "before\n") || !strings.HasSuffix(text, "\nafter\n") || strings.Contains(text, "\nold\n") {
		t.Error("the tables do not replace what stood between the markers, and nothing else")
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a row measured nothing")
	}
	for what, n := range map[string]int{
		"| READ, NFSv4.1 |": 3, "| READ, NFSv3 |": 3,
		"| WRITE unstable, NFSv4.1 |": 3, "| WRITE file sync, NFSv4.1 |": 3,
		"| WRITE unstable, NFSv3 |": 3, "| WRITE file sync, NFSv3 |": 3,
		"| SEQUENCE, PUTFH, GETATTR, NFSv4.1 |": 6, "| GETATTR, NFSv3 |": 6,
		"| OPEN and CLOSE": 1, "| create by OPEN": 1, "| CREATE, then REMOVE": 1,
		"| READDIR of 2000 entries": 1, "| READDIRPLUS of 2000 entries": 1,
	} {
		if k := strings.Count(text, what); k != n {
			t.Errorf("%d rows %q, not %d:\n%s", k, what, n, text)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}} {
		if got := median(c.v); got != c.want {
			t.Errorf("median of %v is %v, not %v", c.v, got, c.want)
		}
	}
}
