package osd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"capstan/cephfs/auth"
	"capstan/cephfs/denc"
	"capstan/cephfs/mon"
	"capstan/cephfs/msgr"
	"capstan/internal/testutil"
)

// cluster is a real cluster, with pools of the test's own.
type cluster struct {
	t     testing.TB
	conf  string
	c     *Client
	maps  *MonMaps
	mon   *mon.Client
	msgr  *msgr.Messenger
	conns *conns
}

// conns are the connections of a messenger, for breaking them.
type conns struct {
	mu  sync.Mutex
	all map[net.Conn]bool
}

// dial goes through the proxy that CAPSTAN_TEST_PROXY names, if it does, which
// wants to be told in a line where to.
func (k *conns) dial(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	proxy := os.Getenv("CAPSTAN_TEST_PROXY")
	if proxy == "" {
		proxy = a.String()
	}
	c, err := d.DialContext(ctx, "tcp", proxy)
	if err == nil && proxy != a.String() {
		if _, err = fmt.Fprintf(c, "%v\n", a); err != nil {
			c.Close()
		}
	}
	if err == nil {
		k.mu.Lock()
		k.all[c] = true
		k.mu.Unlock()
	}
	return c, err
}

// cut breaks some of the connections made so far.
func (k *conns) cut(rng *rand.Rand) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.all {
		if rng.IntN(2) == 0 {
			c.Close()
			delete(k.all, c)
		}
	}
}

func (k *cluster) ceph(args ...string) string { return k.tool("ceph", nil, args...) }

func (k *cluster) rados(in []byte, args ...string) string { return k.tool("rados", in, args...) }

func (k *cluster) tool(name string, in []byte, args ...string) string {
	k.t.Helper()
	cmd := exec.Command(name, append([]string{"-c", k.conf}, args...)...)
	if in != nil {
		cmd.Stdin = bytes.NewReader(in)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		k.t.Fatalf("%s %v: %v\n%s", name, args, err, errs.String())
	}
	return string(out)
}

// pool makes a pool for the test and returns its id and name.
func (k *cluster) pool(erasure bool) (int64, string) {
	k.t.Helper()
	name := fmt.Sprintf("osd-test-%d", rand.Uint32())
	if erasure {
		profile := name + "-profile"
		k.ceph("osd", "erasure-code-profile", "set", profile, "k=2", "m=1", "crush-failure-domain=osd")
		k.t.Cleanup(func() { k.ceph("osd", "erasure-code-profile", "rm", profile) })
		k.ceph("osd", "pool", "create", name, "8", "8", "erasure", profile)
		k.t.Cleanup(func() { k.ceph("osd", "crush", "rule", "rm", name) })
	} else {
		k.ceph("osd", "pool", "create", name, "8", "8")
	}
	k.t.Cleanup(func() { k.ceph("osd", "pool", "rm", name, name, "--yes-i-really-really-mean-it") })
	if erasure {
		out, err := exec.Command("ceph", "-c", k.conf, "osd", "pool", "set", name, "allow_ec_overwrites", "true").CombinedOutput()
		if strings.Contains(string(out), "bluestore") {
			k.t.Skip("overwrites of erasure-coded pools need OSDs on BlueStore")
		}
		if err != nil {
			k.t.Fatalf("%v: %s", err, out)
		}
	}
	k.ceph("osd", "pool", "application", "enable", name, "test")
	ctx, cancel := context.WithTimeout(k.t.Context(), 5*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if m := k.maps.Current(); m != nil {
			if id, ok := m.PoolID(name); ok {
				return id, name
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	k.t.Fatalf("pool %s did not appear in the map", name)
	return 0, ""
}

// live connects to the cluster of CAPSTAN_TEST_CEPH_CONF.
func live(t testing.TB, mode msgr.AuthMode, change func(*Options)) *cluster {
	t.Helper()
	conf := os.Getenv("CAPSTAN_TEST_CEPH_CONF")
	if conf == "" {
		t.Skip("CAPSTAN_TEST_CEPH_CONF names no cluster")
	}
	testutil.NoLeaks(t)
	k := &cluster{t: t, conf: conf, conns: &conns{all: map[net.Conn]bool{}}}
	cfg, err := auth.Load(auth.LoadOptions{
		Conf: conf, Name: denc.EntityName{Type: denc.TypeClient, ID: "admin"}, Getenv: func(string) string { return "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	key, err := cfg.Key()
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := cfg.Monitors(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	methods, err := cfg.Methods()
	if err != nil {
		t.Fatal(err)
	}
	ao := auth.Options{Name: cfg.Name, Key: key, Methods: methods}
	if mode != 0 {
		ao.MonModes, ao.ServiceModes = []msgr.AuthMode{mode}, []msgr.AuthMode{mode}
	}
	a, err := auth.New(ao)
	if err != nil {
		t.Fatal(err)
	}
	k.msgr = msgr.New(msgr.Options{Auth: a, Dial: k.conns.dial})
	t.Cleanup(k.msgr.Close)
	k.mon, err = mon.New(mon.Options{Messenger: k.msgr, Auth: a, Monitors: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.mon.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := k.mon.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	k.maps = NewMonMaps(k.mon, nil)
	t.Cleanup(k.maps.Close)
	o := Options{Messenger: k.msgr, Maps: k.maps}
	if change != nil {
		change(&o)
	}
	k.c = New(o)
	t.Cleanup(k.c.Close)
	return k
}

// TestLiveTwoClients: clients of one messenger, beside and after each other, on
// one object.
func TestLiveTwoClients(t *testing.T) {
	k := live(t, 0, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	pool, _ := k.pool(false)
	o := Object{Pool: pool, Name: "x"}
	for i := range 3 {
		after := New(Options{Messenger: k.msgr, Maps: k.maps})
		for j, c := range []*Client{after, k.c} {
			want := fmt.Sprint(i, j)
			if err := c.WriteFull(ctx, o, []byte(want)); err != nil {
				t.Error(err)
			}
			b := make([]byte, 16)
			if n, err := k.c.Read(ctx, o, 0, b); err != nil || string(b[:n]) != want {
				t.Errorf("%q was written and acknowledged, the object holds %q, %v", want, b[:n], err)
			}
		}
		after.Close()
	}
}

// TestLiveRoundTrip: what this client writes the rados tool reads, and the
// other way round, in both modes and both kinds of pool.
func TestLiveRoundTrip(t *testing.T) {
	for _, mode := range []msgr.AuthMode{msgr.ModeCRC, msgr.ModeSecure} {
		for _, erasure := range []bool{false, true} {
			t.Run(fmt.Sprintf("mode=%d,erasure=%v", mode, erasure), func(t *testing.T) {
				k := live(t, mode, nil)
				pool, name := k.pool(erasure)
				roundTrip(t, k, pool, name, erasure)
			})
		}
	}
}

func roundTrip(t *testing.T, k *cluster, pool int64, name string, erasure bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(), "data")
	rng := rand.New(rand.NewPCG(3, uint64(pool)))
	for _, size := range []int{0, 1, 100, 4096, 65537, 4 << 20} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		o := Object{Pool: pool, Name: fmt.Sprint("ours.", size)}
		if size == 100 {
			o.Namespace = "other"
		}
		ns := []string{"-p", name, "-N", o.Namespace}
		if err := k.c.WriteFull(ctx, o, data); err != nil {
			t.Fatal(err)
		}
		k.rados(nil, append(ns, "get", o.Name, file)...)
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, data) {
			t.Errorf("rados reads %d bytes of %d, %v", len(got), size, err)
		}
		o.Name = fmt.Sprint("theirs.", size)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		k.rados(nil, append(ns, "put", o.Name, file)...)
		got := make([]byte, size+10)
		n, err := k.c.Read(ctx, o, 0, got)
		if err != nil || !bytes.Equal(got[:n], data) {
			t.Errorf("read %d bytes of %d that rados wrote, %v", n, size, err)
		}
		if st, mtime, err := k.c.Stat(ctx, o); st != uint64(size) || err != nil || time.Since(mtime).Abs() > time.Hour {
			t.Errorf("stat: %d %v %v", st, mtime, err)
		}
	}

	o := Object{Pool: pool, Name: "ops"}
	do := func(f func(*Op)) (*Reply, error) {
		var op Op
		f(&op)
		return k.c.Do(ctx, o, &op)
	}
	must := func(f func(*Op)) *Reply {
		t.Helper()
		r, err := do(f)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	must(func(op *Op) { op.Create(true) })
	if _, err := do(func(op *Op) { op.Create(true) }); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("created twice: %v", err)
	}
	must(func(op *Op) { op.WriteVec(10, []byte("abc"), []byte("def")); op.SetXattr("k", []byte("v")) })
	must(func(op *Op) { op.Append([]byte("ghi")); op.Zero(12, 2) })
	r := must(func(op *Op) { op.Read(0, 100); op.Stat(); op.GetXattr("k"); op.GetXattrs() })
	if got := string(r.Data(0)); got != strings.Repeat("\x00", 10)+"ab\x00\x00efghi" {
		t.Errorf("content %q", got)
	}
	x, err := r.Xattrs(3)
	if string(r.Data(2)) != "v" || err != nil || len(x) != 1 || x[0].Name != "k" {
		t.Errorf("xattr %q %v %v", r.Data(2), x, err)
	}
	ver := r.Version
	r.Release()
	if got := k.rados(nil, "-p", name, "getxattr", "ops", "k"); strings.TrimSpace(got) != "v" {
		t.Errorf("rados sees xattr %q", got)
	}
	if _, err := do(func(op *Op) { op.AssertVersion(ver + 1); op.WriteFull(nil) }); !errors.Is(err, syscall.EOVERFLOW) {
		t.Errorf("too new version asserted: %v", err)
	}
	if _, err := do(func(op *Op) { op.AssertVersion(ver - 1); op.WriteFull(nil) }); !errors.Is(err, syscall.ERANGE) {
		t.Errorf("too old version asserted: %v", err)
	}
	must(func(op *Op) {
		op.AssertVersion(ver)
		op.CompareExtent(10, []byte("ab\x00"))
		op.Write(10, []byte("AB"))
	})
	var diff *CompareError
	if _, err := do(func(op *Op) { op.CompareExtent(10, []byte("ABx")); op.Write(10, []byte("no")) }); !errors.As(err, &diff) || diff.Offset != 2 {
		t.Errorf("comparison of what differs at 2: %v", err)
	}
	r = must(func(op *Op) { op.SparseRead(0, 100) })
	ext, err := r.Extents(0)
	flat := make([]byte, 19)
	for _, e := range ext {
		copy(flat[e.Offset:], e.Data)
	}
	if err != nil || string(flat) != strings.Repeat("\x00", 10)+"AB\x00\x00efghi" {
		t.Errorf("sparse read %v %v", ext, err)
	}

	// The file system's truncation: an older writer is clipped, a newer one
	// truncates first.
	must(func(op *Op) { op.WriteFull(bytes.Repeat([]byte("x"), 1000)) })
	must(func(op *Op) { op.Trunc = Trunc{Seq: 5, Size: 100}; op.Truncate(100) })
	must(func(op *Op) { op.Trunc = Trunc{Seq: 5, Size: 100}; op.Write(300, []byte("new")) })
	if n, _, _ := k.c.Stat(ctx, o); n != 303 {
		t.Errorf("size %d after a write of the same truncation, want 303", n)
	}
	must(func(op *Op) { op.Trunc = Trunc{Seq: 7, Size: 200}; op.Write(0, []byte("newer")) })
	r = must(func(op *Op) { op.Read(0, 1000) })
	// OSDs of release 16 lose the rest of the stripe when a write to an
	// erasure-coded pool truncates too.
	if got := r.Data(0); len(got) != 200 || string(got[:5]) != "newer" || got[5] != 'x' && !erasure {
		t.Errorf("after a write of a newer truncation: %d bytes, %q", len(got), got[:6])
	}
	must(func(op *Op) { op.Trunc = Trunc{Seq: 6, Size: 50}; op.Write(190, bytes.Repeat([]byte("old"), 10)) })
	if n, _, _ := k.c.Stat(ctx, o); n != 200 {
		t.Errorf("size %d after a write of an older truncation, want 200", n)
	}

	if erasure {
		if _, err := do(func(op *Op) { op.OmapSet(map[string][]byte{"a": nil}) }); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("omap of an erasure-coded pool: %v", err)
		}
		if a := k.c.Alignment(pool); a != 1 {
			t.Errorf("alignment %d with overwrites", a)
		}
	} else {
		must(func(op *Op) {
			op.OmapSet(map[string][]byte{"a1": []byte("x"), "a2": []byte("y"), "b": nil})
			op.OmapSetHeader([]byte("h"))
		})
		r = must(func(op *Op) { op.OmapKeys("", 2); op.OmapVals("", "a", 10); op.OmapGet("b", "zz"); op.OmapHeader() })
		keys, more, err := r.OmapKeys(0)
		vals, _, err2 := r.Omap(1)
		some, _, err3 := r.Omap(2)
		if got := fmt.Sprintf("%v %v %v %s %v %s %v %s", keys, more, err, vals, err2, some, err3, r.Data(3)); got !=
			"[a1 a2] true <nil> [{a1 x} {a2 y}] <nil> [{b }] <nil> h" {
			t.Errorf("omap: %s", got)
		}
		if got := k.rados(nil, "-p", name, "listomapkeys", "ops"); got != "a1\na2\nb\n" {
			t.Errorf("rados lists %q", got)
		}
		must(func(op *Op) { op.OmapRemove("a1") })
		must(func(op *Op) { op.OmapClear() })
	}
	must(func(op *Op) { op.RemoveXattr("k"); op.Remove() })
	if _, err := k.c.Read(ctx, o, 0, make([]byte, 1)); !IsNotExist(err) {
		t.Errorf("read of a removed object: %v", err)
	}
	// A key places another object's way.
	keyed := Object{Pool: pool, Key: "ours.1", Name: "keyed"}
	if err := k.c.WriteFull(ctx, keyed, []byte("k")); err != nil {
		t.Fatal(err)
	}
	if got := k.rados(nil, "-p", name, "--object-locator", "ours.1", "get", "keyed", "-"); got != "k" {
		t.Errorf("rados finds %q by the key", got)
	}
}

// TestLiveLinearizable has users work on a few objects while connections break
// and the pool's placement groups split. CAPSTAN_TEST_OPS says how many
// operations, CAPSTAN_TEST_SEED replays one run's choices.
func TestLiveLinearizable(t *testing.T) {
	ops := envNumber(t, "CAPSTAN_TEST_OPS", 2000)
	seed := envNumber(t, "CAPSTAN_TEST_SEED", rand.Uint64()>>16)
	t.Logf("CAPSTAN_TEST_SEED=%d CAPSTAN_TEST_OPS=%d", seed, ops)
	for _, erasure := range []bool{false, true} {
		t.Run(fmt.Sprintf("erasure=%v", erasure), func(t *testing.T) {
			k := live(t, 0, nil)
			pool, name := k.pool(erasure)
			h := newHistory()
			const users = 16
			objects := int(ops/100) + 1
			var wg sync.WaitGroup
			for u := range users {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(u)))
					known := map[string]*string{}
					for i := range int(ops) / users {
						o := Object{Pool: pool, Name: fmt.Sprint("object", rng.IntN(objects))}
						if known[o.Name] == nil {
							known[o.Name] = new(string)
						}
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
						if rng.IntN(20) == 0 {
							ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rng.IntN(3000))*time.Microsecond)
						}
						err := h.register(ctx, k.c, o, rng, fmt.Sprintf("u%02d.%06d", u, i), known[o.Name])
						cancel()
						if err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("user %d: %v", u, err)
						}
					}
				})
			}
			done := make(chan struct{})
			go func() { wg.Wait(); close(done) }()
			rng := rand.New(rand.NewPCG(seed, 1000))
			split := false
			for over := false; !over; {
				select {
				case <-done:
					over = true
				case <-time.After(time.Duration(20+rng.IntN(200)) * time.Millisecond):
					k.conns.cut(rng)
					if !split {
						split = true
						k.ceph("osd", "pool", "set", name, "pg_num", "16")
					}
				}
			}
			t.Logf("%+v", k.c.Stats())
			h.check(t)
			if n := k.c.Outstanding(); n != 0 {
				t.Errorf("%d operations are left", n)
			}
		})
	}
}

func envNumber(t *testing.T, name string, value uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return value
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLiveBlocklist: an entry for this instance ends everything.
func TestLiveBlocklist(t *testing.T) {
	k := live(t, 0, nil)
	pool, _ := k.pool(false)
	o := Object{Pool: pool, Name: "a"}
	if err := k.c.WriteFull(t.Context(), o, []byte("x")); err != nil {
		t.Fatal(err)
	}
	self := k.msgr.Addr()
	entry := fmt.Sprintf("%v:0/%d", self.Host.Addr(), self.Nonce)
	k.ceph("osd", "blocklist", "add", entry)
	t.Cleanup(func() { k.ceph("osd", "blocklist", "rm", entry) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for {
		err := k.c.WriteFull(ctx, o, []byte("y"))
		if errors.Is(err, ErrBlocklisted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := k.c.Read(ctx, o, 0, make([]byte, 1)); !errors.Is(err, ErrBlocklisted) {
		t.Errorf("read after: %v", err)
	}
}

// TestLivePools: quota, removal and no pool at all.
func TestLivePools(t *testing.T) {
	k := live(t, 0, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := k.c.WriteFull(ctx, Object{Pool: 123456, Name: "a"}, nil); !errors.Is(err, ErrNoPool) {
		t.Errorf("no such pool: %v", err)
	}
	pool, name := k.pool(false)
	k.ceph("osd", "pool", "set-quota", name, "max_objects", "1")
	full := &Op{OnFull: FullFail}
	full.WriteFull(bytes.Repeat([]byte("x"), 4096))
	deadline := time.Now().Add(5 * time.Minute)
	for i := 0; ; i++ {
		_, err := k.c.Do(ctx, Object{Pool: pool, Name: fmt.Sprint(i)}, full)
		if errors.Is(err, ErrQuota) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("quota of one object, %d written: %v", i, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	try := &Op{OnFull: FullTry}
	try.Remove()
	if _, err := k.c.Do(ctx, Object{Pool: pool, Name: "0"}, try); err != nil {
		t.Errorf("remove from a full pool: %v", err)
	}
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if err := k.c.WriteFull(short, Object{Pool: pool, Name: "w"}, []byte("w")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting write to a full pool: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- k.c.WriteFull(ctx, Object{Pool: pool, Name: "w"}, []byte("w")) }()
	k.ceph("osd", "pool", "set-quota", name, "max_objects", "0")
	if err := <-waited; err != nil {
		t.Errorf("waiting write when there is room: %v", err)
	}
}
