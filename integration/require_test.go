package integration

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// fakeTB is a test that is skipped or failed without ending the real one.
type fakeTB struct {
	testing.TB
	skipped, fatal string
	cleanups       []func()
}

func (f *fakeTB) Helper()                   {}
func (f *fakeTB) Name() string              { return "TestFake" }
func (f *fakeTB) Failed() bool              { return f.fatal != "" }
func (f *fakeTB) Skipped() bool             { return f.skipped != "" }
func (f *fakeTB) Cleanup(c func())          { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Skipf(s string, _ ...any)  { f.skipped = s }
func (f *fakeTB) Fatalf(s string, _ ...any) { f.fatal = s }

func TestPeerLog(t *testing.T) {
	log := TempDir(t) + "/peers"
	t.Setenv(EnvPeerLog, log)
	t.Setenv(EnvRequire, "")
	f := &fakeTB{}
	Peer(f, "one", "two")
	Peer(f, "two", "three")
	for _, c := range f.cleanups {
		c()
	}
	Require(f, NeedProgram("no-such-program"))
	t.Setenv(EnvRequire, "1")
	Require(f, NeedProgram("no-such-program"))
	if f.skipped == "" || f.fatal == "" {
		t.Errorf("skipped %q, failed %q", f.skipped, f.fatal)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(b)) {
		got = append(got, strings.Join(strings.Split(strings.TrimSpace(line), "\t"), "|"))
	}
	want := "PASS|integration|TestFake|one, two, three\n" +
		"SKIP|integration|TestFake|program no-such-program is not installed\n" +
		"FAIL|integration|TestFake|program no-such-program is not installed"
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("log:\n%s\nwant:\n%s", s, want)
	}
}

// Programs that run longer than their context are killed with all they started.
func TestRunCommandTimesOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := runCommand(ctx, procSpec{argv: []string{"sh", "-c", "sleep 1000 & sleep 1000"}})
	var ce *CommandError
	if !errors.As(err, &ce) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Minute {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}
