package nfs3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"capstan/export"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

// listen serves b's programs on a port of loopback until the test ends.
func listen(t testing.TB, b *bed) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(rpc.Options{MaxRecord: int(b.server.options.MaxWrite) + 64<<10})
	s.Register(b.server.NFS())
	s.Register(b.server.Mount())
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-done
	})
	return l.Addr().(*net.TCPAddr)
}

func dial(t testing.TB, addr net.Addr, cred rpc.Credential) *rpc.Client {
	t.Helper()
	c, err := rpc.Dial(context.Background(), "tcp", addr.String(), rpc.ClientOptions{Credential: cred})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// callTCP makes a call over a connection.
func callTCP(t testing.TB, c *rpc.Client, program, proc uint32, args args3) []byte {
	t.Helper()
	r, err := c.Call(context.Background(), program, 3, proc, func(e *xdr.Encoder) { e.Append(args) })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	return append([]byte(nil), r.Results.Rest()...)
}

// TestTCP: two users on one connection's worth of calls in parallel, at the
// announced maximum in both directions.
func TestTCP(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("serve", func(t *testing.T) {
		b := newBed(t)
		addr := listen(t, b)
		c := dial(t, addr, superuser)
		mounted := xdr.NewDecoder(callTCP(t, c, MountProgram, mountMnt, enc().str("/export")))
		if st := mounted.Uint32("status"); st != 0 {
			t.Fatal(st)
		}
		root := readFH(mounted)
		dump := string(callTCP(t, c, MountProgram, mountDump, nil))
		if !strings.Contains(dump, "127.0.0.1") || !strings.Contains(dump, "/export") {
			t.Errorf("DUMP %q", dump)
		}
		data := make([]byte, 1<<20)
		rand.New(rand.NewSource(1)).Read(data)
		made, err := parseReply(procCreate, callTCP(t, c, Program, procCreate, enc().fh(root).str("f").u32(createUnchecked).sattr(plain)))
		if err != nil || made.status != OK {
			t.Fatal(err, made)
		}
		var wg sync.WaitGroup
		const parallel = 8
		for i := range uint64(parallel) {
			wg.Go(func() {
				w, err := parseReply(procWrite, callTCP(t, c, Program, procWrite,
					enc().fh(made.fh).u64(i<<20).u32(1<<20).u32(0).str(string(data))))
				if err != nil || w.status != OK || w.count != 1<<20 {
					t.Errorf("WRITE %d: %v, %+v", i, err, w)
				}
			})
		}
		wg.Wait()
		for i := range uint64(parallel) {
			wg.Go(func() {
				r, err := parseReply(procRead, callTCP(t, c, Program, procRead, enc().fh(made.fh).u64(i<<20).u32(1<<20)))
				if err != nil || r.status != OK || !bytes.Equal(r.data, data) || r.eof != (i == parallel-1) {
					t.Errorf("READ %d: %v, %v, %d bytes, eof %v", i, err, r.status, len(r.data), r.eof)
				}
			})
		}
		wg.Wait()
		// Another user on the same connection follows the mode.
		req := c.NewRequestAs(&nobody, Program, 3, procWrite)
		req.Args.Append(enc().fh(made.fh).u64(0).u32(1).u32(0).str("x"))
		req.Send()
		reply, err := req.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st := Status(reply.Results.Uint32("status")); st != ErrAccess {
			t.Errorf("WRITE by somebody else: %v", st)
		}
		reply.Release()
	})
}

// TestAccessRulesOverTCP: rules are matched with the address of the peer.
func TestAccessRulesOverTCP(t *testing.T) {
	b := newBed(t)
	client := func(s string) export.Client {
		c, err := export.ParseClient(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	table, err := export.NewTable(b.ctx, []*export.Export{
		{ID: 1, Path: "/in", Volume: b.vol, Rules: []export.Rule{{Client: client("127.0.0.0/8"), Grant: export.GrantRW}}},
		{ID: 2, Path: "/out", Volume: b.vol, Rules: []export.Rule{{Client: client("192.0.2.0/24"), Grant: export.GrantRW}}},
	}, export.After(b.table))
	if err != nil {
		t.Fatal(err)
	}
	b.server.exports.Swap(table)
	c := dial(t, listen(t, b), superuser)
	for path, want := range map[string]uint32{"/in": 0, "/out": uint32(MountErrAccess)} {
		if got := xdr.NewDecoder(callTCP(t, c, MountProgram, mountMnt, enc().str(path))).Uint32("status"); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// libnfs runs a program of libnfs-utils, the independent client.
func libnfs(t *testing.T, stdin io.Reader, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = stdin
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, &errs)
	}
	return out.String()
}

// TestLibnfs: files copied in and out by libnfs are what they were, and its
// listing shows them.
func TestLibnfs(t *testing.T) {
	for _, tool := range []string{"nfs-ls", "nfs-cp", "nfs-cat"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("libnfs-utils is not installed: %v", err)
		}
	}
	b := newBed(t)
	port := listen(t, b).Port
	url := func(path string) string {
		return fmt.Sprintf("nfs://127.0.0.1%s?version=3&nfsport=%d&mountport=%d&uid=0&gid=0", path, port, port)
	}
	local := filepath.Join(t.TempDir(), "in")
	for _, size := range []int{0, 1, 4095, 1 << 20, 5<<20 + 17} {
		data := make([]byte, size)
		rand.New(rand.NewSource(int64(size))).Read(data)
		if err := os.WriteFile(local, data, 0o644); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("/export/file%d", size)
		libnfs(t, nil, "nfs-cp", local, url(name))
		back := fmt.Sprintf("%s.back%d", local, size)
		libnfs(t, nil, "nfs-cp", url(name), back)
		got, err := os.ReadFile(back)
		if err != nil {
			t.Fatal(err)
		}
		if sha256.Sum256(got) != sha256.Sum256(data) {
			t.Errorf("%d bytes came back as %d others", size, len(got))
		}
	}
	inner := b.mkdir(b.mkdir(b.root, "a", 0o700), "b", 0o755)
	for i := range 300 {
		b.create(inner, fmt.Sprintf("name-%03d", i), 0o644)
	}
	if out := libnfs(t, nil, "nfs-ls", url("/export")); strings.Count(out, "file") != 5 {
		t.Errorf("listing:\n%s", out)
	}
	if out := libnfs(t, nil, "nfs-ls", url("/export/a/b")); strings.Count(out, "name-") != 300 {
		t.Errorf("listing of a mount below an export has %d names", strings.Count(out, "name-"))
	}
	if out := libnfs(t, nil, "nfs-ls", url("/")); strings.Count(out, "\n") < 3 || strings.Contains(out, "closed") {
		t.Errorf("listing of the pseudo root:\n%s", out)
	}
	hello := b.create(b.root, "hello", 0o644)
	b.write(hello, 0, "hello\n", export.FileSync)
	if out := libnfs(t, nil, "nfs-cat", url("/export/hello")); out != "hello\n" {
		t.Errorf("nfs-cat: %q", out)
	}
}
