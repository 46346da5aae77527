package auth_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"capstan/cephfs/auth"
	"capstan/cephfs/cephtest"
	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// spy keeps the session key of an authentication.
type spy struct {
	msgr.AuthSession
	key []byte
}

func (s *spy) Done(id uint64, mode msgr.AuthMode, p []byte) (key, secret []byte, err error) {
	key, secret, err = s.AuthSession.Done(id, mode, p)
	s.key = key
	return key, secret, err
}

// spellings are the forms in which a secret may show.
func spellings(secret []byte) []string {
	list := fmt.Sprint(secret)
	codes := fmt.Sprintf("%#v", secret) // []byte{0x1, 0x2}
	return []string{
		strings.Trim(list, "[]"), codes[strings.IndexByte(codes, '{')+1 : len(codes)-1], string(secret), strings.Trim(fmt.Sprintf("%q", secret), `"`),
		hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret)), base64.StdEncoding.EncodeToString(secret)[:len(secret)],
	}
}

// Whatever holds a key, at any depth, may be printed and logged.
func TestNothingPrintsSecrets(t *testing.T) {
	x := cephtest.NewCephx(auth.KeyAES)
	key := x.AddUser(user)
	var raw denc.Encoder
	key.Encode(&raw)
	const before = 2 + 8 + 2 // type, time, length
	secrets := append(spellings(raw.Data()[before:]), key.Base64())

	cfg, err := auth.Load(auth.LoadOptions{Conf: os.DevNull, Name: user, Args: []string{"--key", key.Base64()}, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	client, err := cfg.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	mon, osd := &spy{AuthSession: begin(t, client, denc.TypeMon)}, &spy{}
	if err := handshake(t, mon, x.Session(denc.TypeMon)); err != nil {
		t.Fatal(err)
	}
	osd.AuthSession = begin(t, client, denc.TypeOSD)
	if err := handshake(t, osd, x.Session(denc.TypeOSD)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*spy{mon, osd} {
		if len(s.key) == 0 {
			t.Fatal("no session key")
		}
		secrets = append(secrets, spellings(s.key)...)
	}
	text := []byte("[client.cap]\nkey = " + key.Base64() + "\n")
	file, err := auth.ParseFile("ceph.conf", text)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := auth.ParseKeyring("ring", text)
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := ring.Get(user)
	options := auth.Options{Name: user, Key: key}
	values := map[string]any{
		"key": key, "pointer to a key": &key, "keys": []auth.Key{key}, "map of keys": map[string]auth.Key{"x": key},
		"field": struct{ K auth.Key }{key}, "hidden field": struct{ k auth.Key }{key}, "hidden pointer": struct{ k *auth.Key }{&key},
		"deep":    struct{ x []any }{[]any{struct{ m map[int]auth.Key }{map[int]auth.Key{1: key}}}},
		"options": options, "hidden options": struct{ o auth.Options }{options},
		"client": client, "hidden client": struct{ c *auth.Client }{client},
		"config": cfg, "hidden config": struct{ c auth.Config }{*cfg},
		"file": file, "hidden file": struct{ f auth.File }{*file},
		"keyring": ring, "hidden keyring": struct{ r auth.Keyring }{*ring}, "entry": entry,
		"session with a monitor": mon.AuthSession, "session with an OSD": osd.AuthSession,
	}
	for what, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			check(t, what+" as "+verb, fmt.Sprintf(verb, v), secrets)
		}
		for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
			"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var b bytes.Buffer
			slog.New(handler(&b)).With("before", v).Info("log", "v", v, slog.Group("g", "v", v))
			check(t, what+" in the log as "+name, b.String(), secrets)
		}
	}
}

func check(t *testing.T, what, printed string, secrets []string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(printed, s) {
			t.Errorf("%s shows a secret: %s", what, printed)
			return
		}
	}
}
