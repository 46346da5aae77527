package integration

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

const envRoughSeed = "CAPSTAN_ROUGH_SEED"

// roughnet is a RoughNet as a process: it prints its address, lives until its input ends, and tells what it did.
func roughnet() int {
	var seed uint64
	if _, err := fmt.Sscan(os.Getenv(envRoughSeed), &seed); err != nil {
		fmt.Println(envRoughSeed, err)
		return 2
	}
	r, err := NewRoughNet(seed)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(r.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(r)
	if err := r.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// startRoughNet starts a RoughNet as a process and returns its address and what ends it and tells what it did.
func startRoughNet(t *testing.T) (addr string, stop func() string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64() >> 16
	if s := os.Getenv(envRoughSeed); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", envRoughSeed, seed)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p, err := startProc(procSpec{
		name: "roughnet", argv: []string{self}, stdin: inR, stdout: outW, stderr: os.Stderr,
		env: []string{envRole + "=roughnet", fmt.Sprintf("%s=%d", envRoughSeed, seed)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(); inR.Close(); outW.Close() })
	go func() { <-p.Done(); outW.Close() }()
	line := make([]byte, 64)
	n, err := outR.Read(line)
	if err != nil {
		t.Fatalf("the proxy did not start: %v", err)
	}
	return strings.TrimSpace(string(line[:n])), func() string {
		inW.Close()
		b, _ := io.ReadAll(outR)
		if err := p.Stop(stopGrace); err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(b))
	}
}

// roughNetwork has users work on a cluster behind a process that cuts every connection, most often in the middle of a
// message.
func roughNetwork(ctx context.Context, t *testing.T, c *Cluster) {
	addr, stop := startRoughNet(t)
	env := append(nativeEnv(t, c), "CAPSTAN_TEST_PROXY="+addr, fmt.Sprintf("CAPSTAN_TEST_OPS=%d", sized(200, 10_000)))
	began := time.Now()
	if n := runLiveBut(ctx, t, "osd", "^TestLiveRoughNetwork$", "^$", env); n != 1 {
		t.Error("the users' test did not pass")
	}
	did := stop()
	t.Logf("the proxy: %s, in %.1f s", did, time.Since(began).Seconds())
	var conns, cut int
	if _, err := fmt.Sscanf(did, "%d connections, %d of them cut", &conns, &cut); err != nil || cut < 20 {
		t.Errorf("not rough enough: %q", did)
	}
}
