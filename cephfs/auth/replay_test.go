package auth

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

var update = flag.Bool("update", false, "record testdata from the cluster that CAPSTAN_TEST_CEPH_CONF names")

// A recording is what one client said and heard while it authenticated to a
// real cluster: its key and random numbers, then for a session with each
// daemon what the messenger's calls took and gave, a line each:
//
//	key BASE64
//	session TYPE
//	request METHOD MODES PAYLOAD
//	more PAYLOAD ANSWER
//	done GLOBALID MODE PAYLOAD KEY SECRET
//	renew PAYLOAD ANSWER
//
// Random numbers are 1, 2, 3 and so on. The key was a test's and is not known
// to any cluster now.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// recorded wraps a client's sessions for the messenger.
type recorded struct {
	c *Client
	r *recorder
}

func (a recorded) Begin(peer denc.EntityType) (msgr.AuthSession, error) {
	s, err := a.c.Begin(peer)
	if err != nil {
		return nil, err
	}
	a.r.add("session %v", peer)
	return recordedSession{s, a.r}, nil
}

type recordedSession struct {
	s msgr.AuthSession
	r *recorder
}

func (s recordedSession) Request() (uint32, []msgr.AuthMode, []byte, error) {
	method, modes, payload, err := s.s.Request()
	if err == nil {
		s.r.add("request %d %d %x", method, modes[0], payload)
	}
	return method, modes, payload, err
}

func (s recordedSession) BadMethod(method uint32, result int32, methods []uint32, modes []msgr.AuthMode) error {
	return s.s.BadMethod(method, result, methods, modes)
}

func (s recordedSession) ReplyMore(payload []byte) ([]byte, error) {
	answer, err := s.s.ReplyMore(payload)
	if err == nil {
		s.r.add("more %x %x", payload, answer)
	}
	return answer, err
}

func (s recordedSession) Done(id uint64, mode msgr.AuthMode, payload []byte) ([]byte, []byte, error) {
	key, secret, err := s.s.Done(id, mode, payload)
	if err == nil {
		s.r.add("done %d %d %x %x %s", id, mode, payload, key, hexOrDash(secret))
	}
	return key, secret, err
}

func hexOrDash(b []byte) string {
	if len(b) == 0 {
		return "-"
	}
	return hex.EncodeToString(b)
}

// counting makes a client's random numbers known beforehand.
func counting(c *Client) {
	var n uint64
	c.random = func() (uint64, error) { n++; return n, nil }
}

// Real exchanges, recorded from real clusters, are gone through again: the
// client must say what it said then, byte for byte where the cipher has no
// randomness of its own, and come to the same keys.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/cephx-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var c *Client
	var s msgr.AuthSession
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for line := 1; in.Scan(); line++ {
		w := strings.Fields(in.Text())
		if len(w) == 0 || w[0] == "#" {
			continue
		}
		same := func(what string, got []byte, want string) {
			t.Helper()
			if hexOrDash(got) != want {
				t.Errorf("%d: %s:\n%s, want\n%s", line, what, hexOrDash(got), want)
			}
		}
		exact := c != nil && c.key.Type == KeyAES
		switch w[0] {
		case "key":
			key, err := ParseKey(w[2])
			if err != nil {
				t.Fatal(err)
			}
			name, err := denc.ParseEntityName(w[1])
			if err != nil {
				t.Fatal(err)
			}
			if c, err = New(Options{Name: name, Key: key}); err != nil {
				t.Fatal(err)
			}
			counting(c)
		case "session":
			peer, err := entityType(w[1])
			if err != nil {
				t.Fatal(err)
			}
			if s, err = c.Begin(peer); err != nil {
				t.Fatalf("%d: %v", line, err)
			}
		case "request":
			method, _, payload, err := s.Request()
			if err != nil || strconv.Itoa(int(method)) != w[1] {
				t.Fatalf("%d: method %d, %v", line, method, err)
			}
			if exact || payload[0] == requestMon {
				same("request", payload, w[3])
			}
		case "more":
			answer, err := s.ReplyMore(unhex(t, w[1]))
			if err != nil {
				t.Fatalf("%d: %v", line, err)
			}
			if _, mon := s.(*monSession); exact || mon {
				same("answer", answer, w[2])
			}
		case "done":
			id, _ := strconv.ParseUint(w[1], 10, 64)
			mode, _ := strconv.Atoi(w[2])
			key, secret, err := s.Done(id, msgr.AuthMode(mode), unhex(t, w[3]))
			if err != nil {
				t.Fatalf("%d: %v", line, err)
			}
			same("session key", key, w[4])
			same("connection secret", secret, w[5])
		default:
			t.Fatalf("%d: %q", line, w[0])
		}
	}
	if in.Err() != nil || c == nil {
		t.Fatal(in.Err())
	}
}

func entityType(s string) (denc.EntityType, error) {
	n, err := denc.ParseEntityName(s + ".x")
	return n.Type, err
}

// TestLiveRecord makes the recordings that TestReplay reads, with -update. It
// needs client.capstan-recorded, with caps for everything.
func TestLiveRecord(t *testing.T) {
	conf := os.Getenv("CAPSTAN_TEST_CEPH_CONF")
	if conf == "" || !*update {
		t.Skip("records only with -update and CAPSTAN_TEST_CEPH_CONF")
	}
	cfg, err := Load(LoadOptions{Conf: conf, Name: denc.EntityName{Type: denc.TypeClient, ID: "capstan-recorded"},
		Keyring: os.Getenv("CAPSTAN_TEST_KEYRING")})
	if err != nil {
		t.Fatal(err)
	}
	key, err := cfg.Key()
	if err != nil {
		t.Fatal(err)
	}
	mons, err := cfg.Monitors(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for mode, name := range map[msgr.AuthMode]string{msgr.ModeCRC: "crc", msgr.ModeSecure: "secure"} {
		c, err := New(Options{Name: cfg.Name, Key: key, MonModes: []msgr.AuthMode{mode}, ServiceModes: []msgr.AuthMode{mode}})
		if err != nil {
			t.Fatal(err)
		}
		counting(c)
		r := &recorder{}
		r.add("key %v %s", cfg.Name, key.Base64())
		m := msgr.New(msgr.Options{Auth: recorded{c, r}})
		connect := func(kind denc.EntityType, v denc.AddrVec) {
			t.Helper()
			w := &waiter{make(chan struct{}), make(chan error, 1)}
			conn, err := m.Connect(kind, v, msgr.Lossy, w)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-w.ready:
			case err := <-w.closed:
				t.Fatal(err)
			}
			conn.Close()
			<-w.closed
		}
		connect(denc.TypeMon, mons[0])
		for _, a := range strings.Fields(os.Getenv("CAPSTAN_TEST_OSD_ADDR")) {
			addr, err := denc.ParseAddr(a)
			if err != nil {
				t.Fatal(err)
			}
			connect(denc.TypeOSD, denc.AddrVec{addr})
		}
		connect(denc.TypeMon, mons[0]) // with the old ticket
		m.Close()
		var b bytes.Buffer
		fmt.Fprintf(&b, "# recorded from Ceph %s by -run LiveRecord -update; see replay_test.go\n", os.Getenv("CAPSTAN_TEST_RELEASE"))
		for _, l := range r.lines {
			fmt.Fprintln(&b, l)
		}
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fmt.Sprintf("testdata/cephx-%s-%s.txt", os.Getenv("CAPSTAN_TEST_RELEASE"), name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type waiter struct {
	ready  chan struct{}
	closed chan error
}

func (w *waiter) Ready(*msgr.Conn)                  { close(w.ready) }
func (w *waiter) Receive(*msgr.Conn, *msgr.Message) {}
func (w *waiter) RemoteReset(*msgr.Conn)            {}
func (w *waiter) Closed(_ *msgr.Conn, err error) {
	if err == nil {
		err = errors.New("closed")
	}
	w.closed <- err
}
