package nfstest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capstan/export"
	"capstan/export/memory"
	"capstan/server/xdr"
)

var update = flag.Bool("update", false, "record testdata anew")

// captureServer is a server on which every run gives the same handles, so that
// what was recorded on one run means something on the next.
func captureServer(t *testing.T) *Server {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	v, err := memory.New(memory.Options{RootMode: 0o777, Rand: zeros{}, Now: func() time.Time { now = now.Add(time.Second); return now }})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := export.NewKeyRing(export.Key{ID: 1, Secret: [export.KeySize]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	return start(t, Options{Exports: []*export.Export{Export(1, "/data", v)}, Table: []export.Option{export.WithKeys(keys)}})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// capturePath names a recording: which client, with which version.
func capturePath(name string) string { return filepath.Join("testdata", name+".txt") }

func loadCapture(t testing.TB, name string) Capture {
	t.Helper()
	f, err := os.Open(capturePath(name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := ReadCapture(f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCaptureReplays plays what libnfs sent to this server once, byte for
// byte, and compares the results: all but times and verifiers come out of
// equal length and with equal status. With -update, libnfs is asked anew.
func TestCaptureReplays(t *testing.T) {
	for _, name := range []string{"libnfs-v3", "libnfs-v4.0"} {
		t.Run(name, func(t *testing.T) {
			if *update {
				recordLibNFS(t, name)
			}
			c := loadCapture(t, name)
			nc, err := captureServer(t).Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			got, err := Replay(t.Context(), c, nc, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := map[uint32][]byte{}
			for _, r := range c {
				if !r.FromClient {
					want[xidOf(r.Data)] = r.Data
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%d replies, %d were recorded", len(got), len(want))
			}
			for _, r := range got {
				was := want[xidOf(r.Data)]
				const header = 24 // of an accepted reply; then the status, if there is one
				end := min(header+4, len(was))
				if len(r.Data) != len(was) || !bytes.Equal(r.Data[:end], was[:end]) {
					t.Errorf("got\n%x\nrecorded was\n%x", r.Data, was)
				}
			}
		})
	}
}

func xidOf(msg []byte) uint32 { return xdr.NewDecoder(msg).Uint32("xid") }

// recordLibNFS lets the programs of libnfs write, read and list.
func recordLibNFS(t *testing.T, name string) {
	t.Helper()
	srv := captureServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all Capture
	done := make(chan error, 1)
	go func() {
		for {
			c, err := Proxy(l, srv.Pipe)
			if err != nil {
				done <- err
				return
			}
			all = append(all, c...)
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	url := func(path string) string {
		version := strings.TrimSuffix(strings.TrimPrefix(name, "libnfs-v"), ".0")
		return fmt.Sprintf("nfs://127.0.0.1/data%s?version=%s&nfsport=%d&mountport=%d&auto-traverse-mounts=0", path, version, port, port)
	}
	local := filepath.Join(t.TempDir(), "local")
	if err := os.WriteFile(local, bytes.Repeat([]byte("capstan\n"), 64), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"nfs-cp", local, url("/file")}, {"nfs-cat", url("/file")}, {"nfs-ls", url("/")}} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		cancel()
		t.Logf("%v: %v\n%s", args, err, out)
	}
	l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: nfs-cp, nfs-cat and nfs-ls on an empty volume.\n", name)
	if _, err := all.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(capturePath(name), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCaptureText(t *testing.T) {
	want := Capture{{FromClient: true, Data: bytes.Repeat([]byte{1, 2, 3}, 30)}, {Data: []byte{4}}, {FromClient: true}}
	var b bytes.Buffer
	if _, err := want.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCapture(strings.NewReader("# comment\n\n" + b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || !bytes.Equal(got[0].Data, want[0].Data) || got[1].FromClient || len(got[2].Data) != 0 {
		t.Errorf("got %+v", got)
	}
	for _, bad := range []string{"> x", "> -1", "> 99999999", "00", "> 1\n0000", "> 2\n00", "> 1\nzz"} {
		if _, err := ReadCapture(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// FuzzReplayChanged plays recordings with a part of one message replaced: every
// call is answered or the connection ends, and the server goes on.
func FuzzReplayChanged(f *testing.F) {
	captures := []Capture{loadCapture(f, "libnfs-v3"), loadCapture(f, "libnfs-v4.0")}
	f.Add(uint8(0), uint8(3), uint16(60), []byte{255, 255, 255, 255})
	f.Add(uint8(1), uint8(0), uint16(44), []byte{0, 0, 0, 2})
	f.Add(uint8(0), uint8(5), uint16(0), []byte(nil))
	f.Fuzz(func(t *testing.T, which, at uint8, off uint16, with []byte) {
		c := captures[int(which)%len(captures)]
		srv := start(t, Options{})
		nc, err := srv.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		_, _ = Replay(ctx, c, nc, func(n int, msg []byte) []byte {
			if n != int(at) {
				return msg
			}
			cut := min(int(off), len(msg))
			changed := append(bytes.Clone(msg[:cut]), with...)
			changed = append(changed, msg[min(cut+len(with), len(msg)):]...)
			d := xdr.NewDecoder(changed)
			if d.Uint32("xid"); d.Uint32("mtype") == 1 {
				return nil // a reply to nothing, which is not answered
			}
			return changed
		})
		if ctx.Err() != nil {
			t.Fatal("no answer")
		}
		if _, err := connect(t, srv).Send(t.Context(), NewCompound(1).PutRootFH()); err != nil {
			t.Fatalf("the server does not go on: %v", err)
		}
	})
}
