package msgr_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
	"capstan/cephfs/msgr/frame"
)

var update = flag.Bool("update", false, "record testdata from the cluster that CAPSTAN_TEST_CEPH_CONF names")

// recording is a conversation with a real monitor, with the keys to read it:
// testdata/RELEASE-MODE.json.
type recording struct {
	Mode           msgr.AuthMode
	Key, Secret    string // hexadecimal, as are
	Client, Server string // the bytes each side sent
}

// recorder takes one down.
type recorder struct {
	msgr.Authenticator

	mu  sync.Mutex
	rec recording
}

type recordedConn struct {
	net.Conn
	r *recorder
}

func (c recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.r.mu.Lock()
	c.r.rec.Server += hex.EncodeToString(p[:n])
	c.r.mu.Unlock()
	return n, err
}

func (c recordedConn) Write(p []byte) (int, error) {
	c.r.mu.Lock()
	c.r.rec.Client += hex.EncodeToString(p)
	c.r.mu.Unlock()
	return c.Conn.Write(p)
}

func (r *recorder) dial(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", a.String())
	return recordedConn{nc, r}, err
}

func (r *recorder) Begin(t denc.EntityType) (msgr.AuthSession, error) {
	s, err := r.Authenticator.Begin(t)
	return recordedAuth{s, r}, err
}

type recordedAuth struct {
	msgr.AuthSession
	r *recorder
}

func (a recordedAuth) Done(id uint64, mode msgr.AuthMode, p []byte) (key, secret []byte, err error) {
	key, secret, err = a.AuthSession.Done(id, mode, p)
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	a.r.rec.Mode, a.r.rec.Key, a.r.rec.Secret = mode, hex.EncodeToString(key), hex.EncodeToString(secret)
	return key, secret, err
}

// TestRecord makes the recordings, of a throw-away cluster.
func TestRecord(t *testing.T) {
	if !*update {
		t.Skip("recordings are made with -update")
	}
	liveModes(t, func(t *testing.T, secure bool) {
		a, mons := liveAuth(t, secure)
		r := &recorder{Authenticator: a}
		m := msgr.New(msgr.Options{Auth: r, Dial: r.dial, KeepaliveInterval: 50 * time.Millisecond})
		d := newClient()
		d.arrived = make(chan *msgr.Message, 16)
		c, err := m.Connect(denc.TypeMon, mons[0], msgr.Lossy, d)
		if err != nil {
			t.Fatal(err)
		}
		c.Send(&msgr.Message{Type: typeMonGetMap, Tid: 7})
		await(t, "the monmap", d.arrived)
		time.Sleep(120 * time.Millisecond) // two keepalives
		m.Close()
		out, err := json.MarshalIndent(&r.rec, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		release := os.Getenv("CAPSTAN_TEST_CEPH_RELEASE")
		if release == "" {
			release = "16.2"
		}
		name := filepath.Join("testdata", release+"-"+filepath.Base(t.Name())+".json")
		if err := os.WriteFile(name, append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	})
}

// side is one direction of a recording.
type side struct {
	r        *frame.Reader
	tags     []string
	signed   []byte // what the other side's signature covers
	sig      frame.Signature
	messages []frame.Header
}

// TestRecorded reads both directions of the recordings, as each side did, and
// checks the signatures.
func TestRecorded(t *testing.T) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var rec recording
			if err := json.Unmarshal(b, &rec); err != nil {
				t.Fatal(err)
			}
			key, secret := unhex(t, rec.Key), unhex(t, rec.Secret)
			client := readSide(t, unhex(t, rec.Client), rec.Mode, secret, true)
			server := readSide(t, unhex(t, rec.Server), rec.Mode, secret, false)
			if want := "HELLO AUTH_REQUEST AUTH_REQUEST_MORE AUTH_SIGNATURE CLIENT_IDENT MESSAGE KEEPALIVE2"; !strings.HasPrefix(strings.Join(client.tags, " "), want) {
				t.Errorf("the client sent %v", client.tags)
			}
			if got := strings.Join(server.tags, " "); !strings.HasPrefix(got, "HELLO AUTH_REPLY_MORE AUTH_DONE AUTH_SIGNATURE SERVER_IDENT ") || !strings.Contains(got, "MESSAGE") || !strings.HasSuffix(got, "KEEPALIVE2_ACK") {
				t.Errorf("the server sent %v", server.tags)
			}
			for _, x := range [][2]side{{client, server}, {server, client}} {
				mac := hmac.New(sha256.New, key)
				mac.Write(x[1].signed)
				if !hmac.Equal(x[0].sig[:], mac.Sum(nil)) {
					t.Error("a signature is not over what the other side sent")
				}
			}
			if h := client.messages[0]; h.Seq != 1 || h.Type != typeMonGetMap || h.Tid != 7 {
				t.Errorf("the client's message has the header %+v", h)
			}
			got := false
			for i, h := range server.messages {
				got = got || h.Type == typeMonMap
				if h.Seq != uint64(i+1) || h.Compat == 0 || h.Version < h.Compat {
					t.Errorf("the server's message %d has the header %+v", i, h)
				}
			}
			if !got {
				t.Errorf("no monmap among %+v", server.messages)
			}
		})
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readSide reads all frames that one side sent, through the eyes of the other.
func readSide(t *testing.T, b []byte, mode msgr.AuthMode, secret []byte, fromClient bool) (s side) {
	t.Helper()
	s.r = frame.NewReader(bytes.NewReader(b), frame.Limits{Control: 1 << 16, Front: 1 << 20, Middle: 1 << 20, Data: 1 << 20})
	if _, err := s.r.Banner(); err != nil {
		t.Fatal(err)
	}
	seal := func() {
		s.signed = bytes.Clone(s.r.Recorded())
		s.r.StopRecording()
		if mode == msgr.ModeSecure {
			if err := frame.Secure(s.r, frame.NewWriter(), secret, fromClient); err != nil {
				t.Fatal(err)
			}
		}
	}
	more := 0
	for {
		p, err := s.r.Next()
		if err == io.EOF {
			return s
		}
		if err != nil {
			t.Fatalf("after %v: %v", s.tags, err)
		}
		s.tags = append(s.tags, p.Tag.String())
		if p.Tag == frame.TagMessage {
			var h frame.Header
			h.Parse(s.r.First())
			if _, _, _, complete, err := s.r.Body(make([]byte, s.r.BodySize())); err != nil || !complete {
				t.Fatalf("message %+v: complete %v, %v", h, complete, err)
			}
			s.messages = append(s.messages, h)
			continue
		}
		payload := s.r.First()
		switch p.Tag {
		case frame.TagAuthRequestMore:
			more++
			seal() // the last frame of the client before its signature
		case frame.TagAuthDone:
			seal()
		case frame.TagAuthSignature:
			s.sig, err = frame.DecodeSignature(payload)
		case frame.TagClientIdent:
			_, err = frame.DecodeClientIdent(payload)
		case frame.TagServerIdent:
			_, err = frame.DecodeServerIdent(payload)
		case frame.TagHello:
			_, err = frame.DecodeHello(payload)
		}
		if err != nil || more > 1 {
			t.Fatalf("%v: %v", p.Tag, err)
		}
	}
}
