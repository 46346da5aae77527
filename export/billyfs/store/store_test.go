package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kill leaves the files as a SIGKILL would: nothing is flushed.
func kill(t *testing.T, s *Store) {
	t.Helper()
	close(s.stop)
	<-s.done
	s.log.f.Close()
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, s *Store, kv ...string) {
	t.Helper()
	var b Batch
	for i := 0; i < len(kv); i += 2 {
		if kv[i+1] == "" {
			b.Delete([]byte(kv[i]))
		} else {
			b.Put([]byte(kv[i]), []byte(kv[i+1]))
		}
	}
	if err := s.Apply(&b, false); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, s *Store, key, val string) {
	t.Helper()
	got, ok := s.Get([]byte(key))
	if string(got) != val || ok != (val != "") {
		t.Errorf("%s = %q, %v; want %q", key, got, ok, val)
	}
}

func TestStoreSurvivesKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	s := open(t, path)
	put(t, s, "a", "1", "b", "2")
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "", "c", "3")
	kill(t, s)
	s = open(t, path)
	want(t, s, "a", "")
	want(t, s, "b", "2")
	want(t, s, "c", "3")
	put(t, s, "d", "4")
	kill(t, s) // two logs now
	s = open(t, path)
	want(t, s, "a", "")
	want(t, s, "c", "3")
	want(t, s, "d", "4")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if logs, _ := listLogs(path); len(logs) != 0 {
		t.Errorf("logs left after Close: %v", logs)
	}
	s = open(t, path)
	want(t, s, "d", "4")
	want(t, s, "a", "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStoreTornLog cuts the log at every length: what was whole is there, in
// order, and nothing else.
func TestStoreTornLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "h.db")
	s := open(t, path)
	var ends []int64
	for i := range 5 {
		put(t, s, fmt.Sprint("k", i), fmt.Sprint("v", i))
		ends = append(ends, s.log.size)
	}
	kill(t, s)
	whole, err := os.ReadFile(walName(path, 1))
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut")
	for n := 0; n <= len(whole); n++ {
		if err := os.WriteFile(cut, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		got := 0
		if err := replayLog(cut, func(_, _ []byte) { got++ }); err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		expect := 0
		for _, e := range ends {
			if int64(n) >= e {
				expect++
			}
		}
		if got != expect {
			t.Errorf("cut at %d: %d records, want %d", n, got, expect)
		}
	}
}

func TestStoreRefusesNewerFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	s := open(t, path)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketName).Put(keyFormat, binary.BigEndian.AppendUint32(nil, FormatVersion+1))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); err == nil {
		t.Error("a newer format was accepted")
	}
}

// TestStoreModel compares with a map through flushes, kills and reopenings.
func TestStoreModel(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		s := open(t, path)
		model := map[string]string{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				if err := s.Flush(); err != nil {
					rt.Fatal(err)
				}
			case 1:
				kill(t, s)
				s = open(t, path)
			case 2:
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				s = open(t, path)
			default:
				k := rapid.StringMatching("[a-e]").Draw(rt, "key")
				v := rapid.StringMatching("[x-z]{0,2}").Draw(rt, "val")
				put(t, s, k, v)
				model[k] = v
			}
			for _, k := range []string{"a", "b", "c", "d", "e"} {
				got, _ := s.Get([]byte(k))
				if string(got) != model[k] {
					rt.Fatalf("%s = %q, want %q", k, got, model[k])
				}
			}
		}
		if err := s.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestStoreRefusesWhatItCannotMove: what gathers is bounded also while nothing
// can be moved, and what had gathered is written once it can.
func TestStoreRefusesWhatItCannotMove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	const pending, limit = 4, 8 * 4
	s, err := Open(path, Options{Interval: time.Hour, Pending: pending})
	if err != nil {
		t.Fatal(err)
	}
	obstacle := walName(path, s.seq+1) // where the next log has to be
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, s, "k0", "v")
	if err := s.Flush(); err == nil {
		t.Fatal("moved without a log")
	}
	for i := 1; i < limit; i++ {
		put(t, s, fmt.Sprint("k", i), "v")
	}
	var b Batch
	b.Put([]byte("k0"), []byte("w"))
	b.Put([]byte("more"), []byte("v"))
	if err := s.Apply(&b, false); !errors.Is(err, ErrFull) {
		t.Errorf("one key more: %v", err)
	}
	want(t, s, "k0", "v") // refused as a whole
	want(t, s, "more", "")
	put(t, s, "k0", "w") // takes no room
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	put(t, s, "more", "v")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	want(t, s, "k0", "w")
	want(t, s, fmt.Sprint("k", limit-1), "v")
	want(t, s, "more", "v")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func FuzzReplayLog(f *testing.F) {
	var b Batch
	b.Put([]byte("key"), []byte("value"))
	b.Delete([]byte("gone"))
	h := make([]byte, walHeader)
	copy(h, walMagic)
	h[8] = walVersion
	f.Add(append(h, b.seal()...))
	f.Add([]byte("capstwal"))
	path := filepath.Join(f.TempDir(), "log")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = replayLog(path, func(_, _ []byte) {})
	})
}

func BenchmarkApply(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "h.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var key [9]byte
	for i := range b.N {
		var batch Batch
		binary.BigEndian.PutUint64(key[1:], uint64(i))
		batch.Put(key[:], make([]byte, 40))
		if err := s.Apply(&batch, false); err != nil {
			b.Fatal(err)
		}
	}
}
