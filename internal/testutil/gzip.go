package testutil

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"
)

// ReadGzip returns what a compressed file of testdata holds.
func ReadGzip(tb testing.TB, path string) []byte {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return Gunzip(tb, b)
}

// Gunzip returns what b is the compressed form of.
func Gunzip(tb testing.TB, b []byte) []byte {
	tb.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		tb.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// WriteGzip writes b compressed, the same bytes each time.
func WriteGzip(tb testing.TB, path string, b []byte) {
	tb.Helper()
	var w bytes.Buffer
	z, err := gzip.NewWriterLevel(&w, gzip.BestCompression)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := z.Write(b); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, w.Bytes(), 0o644); err != nil {
		tb.Fatal(err)
	}
}
