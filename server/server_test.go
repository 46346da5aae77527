package server

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capstan/export"
	"capstan/export/memory"
	"capstan/internal/testutil"
	"capstan/server/rpc"
	"capstan/server/xdr"
)

func TestMain(m *testing.M) { testutil.VerifyMain(m) }

// engine is an Engine whose Volumes the test can look at.
type engine struct {
	mu     sync.Mutex
	fail   error // of Open
	opened []*tracked
}

// tracked is a memory Volume that knows whether it was closed.
type tracked struct {
	export.Volume
	lost   func(error)
	closed atomic.Bool
}

func (t *tracked) Close(ctx context.Context) error {
	t.closed.Store(true)
	return t.Volume.Close(ctx)
}

func (e *engine) open(_ context.Context, lost func(error)) (export.Volume, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return nil, e.fail
	}
	v, err := memory.New(memory.Options{})
	if err != nil {
		return nil, err
	}
	t := &tracked{Volume: v, lost: lost}
	e.opened = append(e.opened, t)
	return t, nil
}

func (e *engine) setFail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = err
}

// mount is an export of e for everybody.
func mount(id uint32, path, key string, e *engine) Mount {
	fscid := crc32.ChecksumIEEE([]byte(key))
	return Mount{
		Export: &export.Export{ID: id, Path: path, FSCID: fscid, Squash: export.SquashNone, Rules: []export.Rule{export.AllowAll}},
		Engine: Engine{Name: "test", Key: key, Open: e.open},
	}
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	o.Listen = []string{"127.0.0.1:0"}
	o.MaxIO = 1 << 20
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			shutdown(t, s)
		}
	})
	return s
}

func shutdown(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// v3 speaks to a server.
type v3 struct {
	t *testing.T
	c *rpc.Client
}

func dial(t *testing.T, s *Server) *v3 {
	t.Helper()
	c, err := rpc.Dial(t.Context(), "tcp", s.Addrs()[0].String(), rpc.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &v3{t, c}
}

// mnt returns the handle of a path and mountstat3.
func (v *v3) mnt(path string) ([]byte, uint32) {
	v.t.Helper()
	r, err := v.c.Call(v.t.Context(), 100005, 3, 1, func(e *xdr.Encoder) { e.String(path) })
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Release()
	status := r.Results.Uint32("status")
	if status != 0 {
		return nil, status
	}
	return append([]byte(nil), r.Results.Opaque("fhandle", 64)...), 0
}

// getattr returns nfsstat3.
func (v *v3) getattr(fh []byte) uint32 {
	v.t.Helper()
	r, err := v.c.Call(v.t.Context(), 100003, 3, 1, func(e *xdr.Encoder) { e.Opaque(fh) })
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Release()
	return r.Results.Uint32("status")
}

const (
	nfs3OK      = 0
	nfs3Stale   = 70
	nfs3Jukebox = 10008
)

func TestServeAndShutdown(t *testing.T) {
	e := &engine{}
	dir := t.TempDir()
	s := start(t, Options{
		Mounts:  []Mount{mount(1, "/a", "k", e)},
		Metrics: "127.0.0.1:0", Control: filepath.Join(dir, "run", "control.sock"), StateDir: filepath.Join(dir, "state"),
		Version: "test",
	})
	v := dial(t, s)
	fh, st := v.mnt("/a")
	if st != 0 || v.getattr(fh) != nfs3OK {
		t.Fatalf("mount: %d", st)
	}

	got, err := ReadStatus(t.Context(), s.opt.Control)
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != "test" || len(got.Exports) != 1 || got.Exports[0].Path != "/a" || got.RPC.Conns != 1 || len(got.Addresses) != 1 {
		t.Errorf("status %+v", got)
	}
	if info, err := os.Stat(s.opt.Control); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("control socket: %v, %v", info, err)
	}
	for path, want := range map[string]string{
		"/metrics": `capstan_rpc_calls_total{procedure="getattr",program="nfs3",result="ok"} 1`,
		"/healthz": "ok",
	} {
		// A call is counted after its reply was sent.
		for end := time.Now().Add(time.Minute); !strings.Contains(get(t, "http://"+s.metricsAddr+path), want); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s lacks %q", path, want)
			}
		}
	}
	if e.opened[0].closed.Load() {
		t.Error("the volume was closed before shutdown")
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestShutdownClosesVolumes(t *testing.T) {
	e := &engine{}
	s, err := Start(t.Context(), Options{Listen: []string{"127.0.0.1:0"}, MaxIO: 1 << 20, Mounts: []Mount{mount(1, "/a", "k", e)}})
	if err != nil {
		t.Fatal(err)
	}
	shutdown(t, s)
	if !e.opened[0].closed.Load() {
		t.Error("the volume is still open")
	}
	if _, err := rpc.Dial(t.Context(), "tcp", s.Addrs()[0].String(), rpc.ClientOptions{}); err == nil {
		t.Error("the port is still open")
	}
}

// A reload keeps Volumes whose engine is the same, closes the others, and
// handles of untouched exports stay good.
func TestReload(t *testing.T) {
	e := &engine{}
	s := start(t, Options{Mounts: []Mount{mount(1, "/a", "a", e), mount(2, "/b", "b", e), mount(3, "/c", "c", e)}})
	v := dial(t, s)
	a, _ := v.mnt("/a")
	b, _ := v.mnt("/b")
	c, _ := v.mnt("/c")

	// /a stays and is renamed, /b stands on another engine, /c goes, /d comes.
	if err := s.Reload(t.Context(), []Mount{mount(1, "/a2", "a", e), mount(2, "/b", "other", e), mount(4, "/d", "d", e)}); err != nil {
		t.Fatal(err)
	}
	if st := v.getattr(a); st != nfs3OK {
		t.Errorf("handle of the untouched export: %d", st)
	}
	if st := v.getattr(b); st != nfs3Stale {
		t.Errorf("handle of the exchanged file system: %d", st)
	}
	if st := v.getattr(c); st != nfs3Stale {
		t.Errorf("handle of the removed export: %d", st)
	}
	if _, st := v.mnt("/d"); st != 0 {
		t.Errorf("new export: %d", st)
	}
	closed := 0
	for _, o := range e.opened {
		if o.closed.Load() {
			closed++
		}
	}
	if closed != 2 || len(e.opened) != 5 {
		t.Errorf("%d of %d volumes closed, want 2 of 5", closed, len(e.opened))
	}
	if e.opened[0].closed.Load() && e.opened[1].closed.Load() && e.opened[2].closed.Load() {
		t.Error("the volume that stays was closed")
	}
}

// Faulty exports are refused whole.
func TestReloadRefused(t *testing.T) {
	e := &engine{}
	s := start(t, Options{Mounts: []Mount{mount(1, "/a", "a", e)}})
	v := dial(t, s)
	a, _ := v.mnt("/a")
	err := s.Reload(t.Context(), []Mount{mount(1, "/a", "a", e), mount(2, "/a", "b", e), mount(3, "x", "c", e)})
	if err == nil || !strings.Contains(err.Error(), "/a") || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("error %v, want both faults", err)
	}
	if st := v.getattr(a); st != nfs3OK {
		t.Errorf("after the refused reload: %d", st)
	}
	for i, o := range e.opened {
		if o.closed.Load() != (i > 0) {
			t.Errorf("volume %d closed: %v", i, o.closed.Load())
		}
	}
	if got := s.Status().Exports; len(got) != 1 || got[0].ID != 1 {
		t.Errorf("exports %+v", got)
	}
}

// Clients of an export whose engine cannot be opened wait, and go on with the
// same handles when it can.
func TestEngineOpenedLate(t *testing.T) {
	good, late := &engine{}, &engine{}
	keys := t.TempDir()
	s := start(t, Options{StateDir: keys, Mounts: []Mount{mount(1, "/a", "a", good), mount(2, "/b", "b", late)}})
	fh, st := dial(t, s).mnt("/b")
	if st != 0 {
		t.Fatalf("mount: %d", st)
	}
	shutdown(t, s)

	late.setFail(errors.New("the cluster sleeps"))
	s, err := Start(t.Context(), Options{Listen: []string{"127.0.0.1:0"}, MaxIO: 1 << 20, StateDir: keys, Mounts: []Mount{mount(1, "/a", "a", good), mount(2, "/b", "b", late)}})
	if err != nil {
		t.Fatal(err)
	}
	defer shutdown(t, s)
	v := dial(t, s)
	if st := v.getattr(fh); st != nfs3Jukebox {
		t.Errorf("while the engine is closed: %d, want JUKEBOX", st)
	}
	if x := s.Status().Exports[1]; !strings.Contains(x.Error, "sleeps") {
		t.Errorf("status %+v", x)
	}
	if _, st := v.mnt("/a"); st != 0 {
		t.Errorf("the other export: %d", st)
	}
	late.setFail(nil)
	if !s.retryOnce() {
		t.Fatal("an engine is still missing")
	}
	// The memory volume is a new one: its root has another inode.
	if fh, st = v.mnt("/b"); st != 0 || v.getattr(fh) != nfs3OK {
		t.Errorf("after the engine was opened: %d", st)
	}
	if x := s.Status().Exports[1]; x.Error != "" {
		t.Errorf("status %+v", x)
	}
}

func TestStartFails(t *testing.T) {
	e := &engine{}
	e.setFail(errors.New("no cluster"))
	l := start(t, Options{Mounts: []Mount{mount(1, "/a", "a", &engine{})}})
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no engine opens": {Options{Listen: []string{"127.0.0.1:0"}, Mounts: []Mount{mount(1, "/a", "a", e)}}, "no cluster"},
		"port in use":     {Options{Listen: []string{l.Addrs()[0].String()}, Mounts: []Mount{mount(1, "/a", "a", &engine{})}}, "address already in use"},
		"bad exports":     {Options{Listen: []string{"127.0.0.1:0"}, Mounts: []Mount{mount(1, "a", "a", &engine{})}}, `"a"`},
		"bad metrics":     {Options{Listen: []string{"127.0.0.1:0"}, Metrics: l.Addrs()[0].String(), Mounts: []Mount{mount(1, "/a", "a", &engine{})}}, "metrics"},
		"bad state":       {Options{Listen: []string{"127.0.0.1:0"}, StateDir: "/dev/null/x", Mounts: []Mount{mount(1, "/a", "a", &engine{})}}, "/dev/null/x"},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := Start(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want %q", s, err, c.want)
			}
		})
	}
}

// A second server does not take the control socket of one that lives, but that
// of one that died.
func TestControlSocketInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := start(t, Options{Control: path, Mounts: []Mount{mount(1, "/a", "a", &engine{})}})
	if _, err := Start(t.Context(), Options{Listen: []string{"127.0.0.1:0"}, Control: path, Mounts: []Mount{mount(1, "/a", "a", &engine{})}}); err == nil {
		t.Fatal("took the socket of a living server")
	}
	if _, err := ReadStatus(t.Context(), path); err != nil {
		t.Errorf("the first server: %v", err)
	}
	_ = s
	dead := filepath.Join(t.TempDir(), "dead")
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Control: dead, Mounts: []Mount{mount(1, "/a", "a", &engine{})}})
	if _, err := ReadStatus(t.Context(), dead); err != nil {
		t.Error(err)
	}
}

// A second server does not use the state directory of one that lives, and does
// not open an engine.
func TestStateDirInUse(t *testing.T) {
	dir := t.TempDir()
	start(t, Options{StateDir: dir, Mounts: []Mount{mount(1, "/a", "a", &engine{})}})
	second := &engine{}
	_, err := Start(t.Context(), Options{Listen: []string{"127.0.0.1:0"}, StateDir: dir, Mounts: []Mount{mount(1, "/a", "a", second)}})
	if err == nil || !strings.Contains(err.Error(), "another capstan") {
		t.Errorf("%v", err)
	}
	if len(second.opened) != 0 {
		t.Error("the second server opened its engine")
	}
	a, err := StateName(dir)
	b, err2 := StateName(dir)
	if err != nil || err2 != nil || a != b || a == "" {
		t.Errorf("names %q %v, %q %v", a, err, b, err2)
	}
}

// A Volume that says it is lost is closed and opened anew; clients wait
// meanwhile, and their handles stay good.
func TestLostVolume(t *testing.T) {
	e := &engine{}
	s := start(t, Options{Mounts: []Mount{mount(1, "/a", "a", e), mount(2, "/b", "b", &engine{})}})
	v := dial(t, s)
	fh, _ := v.mnt("/a")
	e.setFail(errors.New("shut out"))
	e.opened[0].lost(errors.New("evicted"))
	e.opened[0].lost(errors.New("evicted"))
	deadline := time.Now().Add(time.Minute)
	for v.getattr(fh) != nfs3Jukebox {
		if time.Now().After(deadline) {
			t.Fatal("the lost volume is still served")
		}
		time.Sleep(5 * time.Millisecond)
	}
	e.setFail(nil)
	deadline = time.Now().Add(3 * time.Minute)
	for v.getattr(fh) != nfs3OK {
		if time.Now().After(deadline) {
			t.Fatal("the volume was not opened anew")
		}
		time.Sleep(5 * time.Millisecond)
	}
	// Late word of the first does the second no harm.
	e.opened[0].lost(errors.New("evicted"))
	for told := true; told; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		told = len(s.lost) > 0
		s.mu.Unlock()
	}
	s.reload.Lock() // it has been acted upon
	volumes := len(s.volumes)
	s.reload.Unlock()
	if st := v.getattr(fh); st != nfs3OK || volumes != 2 {
		t.Errorf("after late word: GETATTR %d, %d volumes", st, volumes)
	}
	if len(e.opened) != 2 || !e.opened[0].closed.Load() {
		t.Errorf("%d volumes, the first closed: %v", len(e.opened), e.opened[0].closed.Load())
	}
}
